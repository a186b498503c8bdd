//! Frontmatter as JSON, under YAML 1.2's core schema.
//!
//! Imports JSON and the module's tree.

use crate::domain::Json;

use super::Reading;
use super::mismatch::FrontmatterMismatch;
use super::mismatch::shown;
use super::number::Decimal;
use super::scalar::Resolved;
use super::scalar::Scalar;
use super::tree::Member;
use super::tree::Node;
use super::tree::Value;

/// `node` as JSON.
pub(super) fn json(node: &Node) -> Result<Json, FrontmatterMismatch> {
    match &node.value {
        Value::Scalar(scalar) => scalar_json(scalar, node.line),
        Value::Sequence(items) => items
            .iter()
            .map(|item| json(item))
            .collect::<Result<_, _>>()
            .map(Json::Array),
        Value::Mapping(members) => {
            let member = |Member { key, value }: &Member| Ok((key.text.clone(), json(value)?));
            members.iter().map(member).collect::<Result<_, _>>().map(Json::Object)
        }
    }
}

fn scalar_json(scalar: &Scalar, line: usize) -> Result<Json, FrontmatterMismatch> {
    match scalar.resolve(Reading::Core12) {
        Resolved::Null | Resolved::NonFinite => Ok(Json::Null),
        Resolved::Bool(value) => Ok(Json::Bool(value)),
        Resolved::Integer(number) | Resolved::Float(number) => Ok(Json::Number(number_text(&scalar.text, &number))),
        Resolved::String(text) => Ok(Json::String(text.into_owned())),
        Resolved::Unrepresentable => Err(FrontmatterMismatch::Unrepresentable {
            value: shown(&scalar.text, 0),
            line,
        }),
    }
}

/// The number as written where JSON writes it so too, else in its plainest form.
fn number_text(text: &str, number: &Decimal) -> String {
    match Json::parse(text) {
        Ok(Json::Number(text)) => text,
        Ok(Json::Null | Json::Bool(_) | Json::String(_) | Json::Array(_) | Json::Object(_)) | Err(_) => {
            number.to_json()
        }
    }
}
