//! Arguments of tools that are repeated in header fields: which, how, and whether they agree (base protocol §8.4, §8.5).
//!
//! Imports `domain` alone; the schema is the tool's own.

use std::collections::HashSet;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::Value;
use thiserror::Error;

use super::json::Json;

/// What marks an argument in a schema.
const ANNOTATION: &str = "x-mcp-header";

/// What such a field's name begins with.
pub const PARAMETER_PREFIX: &str = "mcp-param-";

/// What an encoded value begins and ends with, in exactly these letters.
const SENTINEL: (&str, &str) = ("=?base64?", "?=");

/// Why an annotation is not allowed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum InvalidAnnotation {
    /// The name is empty or no token of HTTP.
    #[error("has {ANNOTATION} {0:?}, which is no name of a header field")]
    Name(String),
    /// Two arguments have the same name, case aside.
    #[error("has {ANNOTATION} {0:?} twice")]
    Twice(String),
    /// The argument is no string, integer or boolean.
    #[error("has {ANNOTATION} {0:?} at what is neither string nor integer nor boolean")]
    Type(String),
    /// It is not on a way of `properties` from the root.
    #[error("has {ANNOTATION} where it has no meaning")]
    Place,
}

/// One argument that is repeated in a header field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// The keys that lead to it.
    pub path: Vec<String>,
    /// The field's name without the prefix, in lower case.
    pub name: String,
}

/// A header field that does not say what the argument says.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("the header field {PARAMETER_PREFIX}{name} does not agree with the argument")]
pub struct Disagrees {
    /// The field's name without the prefix.
    pub name: String,
}

/// The annotated arguments of a schema that [`check`] let pass.
pub fn of(schema: &Json) -> Vec<Parameter> {
    let mut found = Vec::new();
    walk(schema, &mut Vec::new(), &mut found);
    found
}

/// Refuses a schema whose annotations the protocol does not allow.
///
/// # Errors
///
/// [`InvalidAnnotation`], the first that is found.
pub fn check(schema: &Json) -> Result<(), InvalidAnnotation> {
    if schema.get(ANNOTATION).is_some() || is_misplaced(schema) {
        return Err(InvalidAnnotation::Place);
    }
    let mut names = HashSet::new();
    check_properties(schema, &mut names)
}

/// The fields that repeat `arguments`: name without prefix, value as it is sent.
pub fn fields(parameters: &[Parameter], arguments: &Value) -> Vec<(String, String)> {
    let field = |parameter: &Parameter| {
        let value = text_of(parameter.find(arguments)?)?;
        Some((parameter.name.clone(), encode(&value)))
    };
    parameters.iter().filter_map(field).collect()
}

/// Compares received fields with `arguments`; `field` gives the value of the field with a name.
///
/// # Errors
///
/// [`Disagrees`], the first field that is missing, not expected or different.
pub fn compare<'a>(
    parameters: &[Parameter],
    arguments: &Value,
    field: impl Fn(&str) -> Option<&'a str>,
) -> Result<(), Disagrees> {
    for parameter in parameters {
        let argument = parameter.find(arguments).filter(|value| !value.is_null());
        let agrees = match (argument, field(&parameter.name).map(decode)) {
            (None, None) => true,
            (Some(argument), Some(Some(sent))) => says_the_same(argument, &sent),
            (Some(_), None | Some(None)) | (None, Some(_)) => false,
        };
        if !agrees {
            return Err(Disagrees {
                name: parameter.name.clone(),
            });
        }
    }
    Ok(())
}

impl Parameter {
    fn find<'a>(&self, arguments: &'a Value) -> Option<&'a Value> {
        self.path.iter().try_fold(arguments, |value, key| value.get(key))
    }
}

fn walk(schema: &Json, path: &mut Vec<String>, found: &mut Vec<Parameter>) {
    let Some(Json::Object(properties)) = schema.get("properties") else {
        return;
    };
    for (key, property) in properties {
        path.push(key.clone());
        if let Some(name) = property.get(ANNOTATION).and_then(Json::as_str) {
            found.push(Parameter {
                path: path.clone(),
                name: name.to_ascii_lowercase(),
            });
        }
        walk(property, path, found);
        path.pop();
    }
}

fn check_properties(schema: &Json, names: &mut HashSet<String>) -> Result<(), InvalidAnnotation> {
    let Some(Json::Object(properties)) = schema.get("properties") else {
        return Ok(());
    };
    for (_, property) in properties {
        if let Some(annotation) = property.get(ANNOTATION) {
            check_annotation(annotation, property, names)?;
        }
        if is_misplaced(property) {
            return Err(InvalidAnnotation::Place);
        }
        check_properties(property, names)?;
    }
    Ok(())
}

fn check_annotation(annotation: &Json, property: &Json, names: &mut HashSet<String>) -> Result<(), InvalidAnnotation> {
    let name = annotation.as_str().filter(|name| is_token(name));
    let name = name.ok_or_else(|| InvalidAnnotation::Name(annotation.canonical()))?;
    if !names.insert(name.to_ascii_lowercase()) {
        return Err(InvalidAnnotation::Twice(name.to_owned()));
    }
    match property.get("type").and_then(Json::as_str) {
        Some("string" | "integer" | "boolean") => Ok(()),
        Some(_) | None => Err(InvalidAnnotation::Type(name.to_owned())),
    }
}

/// Says whether an annotation lies below `schema` elsewhere than on a way of `properties`. A property or an example may
/// itself be called so.
fn is_misplaced(schema: &Json) -> bool {
    let Json::Object(members) = schema else { return false };
    let holds_schemas = |key: &str| {
        !matches!(
            key,
            "properties" | "enum" | "const" | "default" | "examples" | ANNOTATION
        )
    };
    members
        .iter()
        .filter(|(key, _)| holds_schemas(key))
        .any(|(_, value)| is_anywhere(value))
}

fn is_anywhere(value: &Json) -> bool {
    match value {
        Json::Object(members) => members
            .iter()
            .any(|(key, value)| key == ANNOTATION || is_anywhere(value)),
        Json::Array(items) => items.iter().any(is_anywhere),
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) => false,
    }
}

/// RFC 9110 §5.6.2.
fn is_token(name: &str) -> bool {
    let is_mark = |byte: u8| b"!#$%&'*+-.^_`|~".contains(&byte);
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || is_mark(byte))
}

/// How an argument is written; none where it is not repeated.
fn text_of(argument: &Value) -> Option<String> {
    match argument {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(truth) => Some(truth.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

/// Integers compare as numbers: `42` is `42.0`.
fn says_the_same(argument: &Value, sent: &str) -> bool {
    let as_number = || Some(argument.as_f64()?.total_cmp(&sent.parse::<f64>().ok()?).is_eq());
    text_of(argument).is_some_and(|text| text == sent) || as_number().unwrap_or(false)
}

/// A value as a field can bear it.
pub fn encode(value: &str) -> String {
    let is_plain = value.bytes().all(|byte| (0x20..=0x7e).contains(&byte)) && value.trim() == value;
    let looks_encoded = value.starts_with(SENTINEL.0) && value.ends_with(SENTINEL.1);
    if is_plain && !looks_encoded {
        value.to_owned()
    } else {
        format!("{}{}{}", SENTINEL.0, BASE64_STANDARD.encode(value), SENTINEL.1)
    }
}

/// What a field's value says; none when it is encoded wrongly.
pub fn decode(value: &str) -> Option<String> {
    let inner = value
        .strip_prefix(SENTINEL.0)
        .and_then(|rest| rest.strip_suffix(SENTINEL.1));
    match inner {
        Some(inner) => String::from_utf8(BASE64_STANDARD.decode(inner).ok()?).ok(),
        None => Some(value.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn schema(properties: &str) -> Json {
        Json::parse(&format!(r#"{{"type":"object","properties":{properties}}}"#)).unwrap()
    }

    #[test]
    fn annotations_are_allowed_on_ways_of_properties_alone() {
        let good = schema(
            r#"{"zone":{"type":"string","x-mcp-header":"Zone"},"deep":{"type":"object","properties":{"n":{"type":"integer","x-mcp-header":"N"}}},
            "x-mcp-header":{"type":"string"}}"#,
        );
        assert_eq!(check(&good), Ok(()));
        assert_eq!(
            of(&good),
            [
                Parameter {
                    path: vec!["zone".to_owned()],
                    name: "zone".to_owned()
                },
                Parameter {
                    path: vec!["deep".to_owned(), "n".to_owned()],
                    name: "n".to_owned()
                },
            ]
        );
        for (bad, why) in [
            (r#"{"a":{"type":"string","x-mcp-header":""}}"#, "no name"),
            (r#"{"a":{"type":"string","x-mcp-header":"a b"}}"#, "no name"),
            (r#"{"a":{"type":"string","x-mcp-header":1}}"#, "no name"),
            (r#"{"a":{"type":"number","x-mcp-header":"A"}}"#, "neither"),
            (r#"{"a":{"x-mcp-header":"A"}}"#, "neither"),
            (
                r#"{"a":{"type":"string","x-mcp-header":"A"},"b":{"type":"string","x-mcp-header":"a"}}"#,
                "twice",
            ),
            (
                r#"{"a":{"type":"array","items":{"type":"string","x-mcp-header":"A"}}}"#,
                "no meaning",
            ),
            (
                r#"{"a":{"anyOf":[{"type":"string","x-mcp-header":"A"}]}}"#,
                "no meaning",
            ),
        ] {
            let error = check(&schema(bad)).unwrap_err().to_string();
            assert!(error.contains(why), "{bad}: {error}");
        }
    }

    #[test]
    fn fields_say_what_the_arguments_say() {
        // The table of base protocol §8.4.
        for (value, sent) in [
            ("eu-central", "eu-central"),
            ("Zürich", "=?base64?WsO8cmljaA==?="),
            (" x", "=?base64?IHg=?="),
            ("", ""),
            ("=?base64?x?=", "=?base64?PT9iYXNlNjQ/eD89?="),
        ] {
            assert_eq!(encode(value), sent);
            assert_eq!(decode(sent).as_deref(), Some(value));
        }
        assert_eq!(decode("=?base64?%?="), None);
        assert_eq!(decode("=?BASE64?eA==?=").as_deref(), Some("=?BASE64?eA==?="));
        let parameters = of(&schema(
            r#"{"n":{"type":"integer","x-mcp-header":"N"},"b":{"type":"boolean","x-mcp-header":"B"}}"#,
        ));
        let arguments = json!({ "n": 42, "b": null });
        assert_eq!(fields(&parameters, &arguments), [("n".to_owned(), "42".to_owned())]);
        let with = |n: Option<&'static str>, b: Option<&'static str>| {
            compare(&parameters, &arguments, move |name| if name == "n" { n } else { b })
        };
        assert_eq!(with(Some("42"), None), Ok(()));
        assert_eq!(with(Some("42.0"), None), Ok(()));
        for (n, b) in [
            (None, None),
            (Some("43"), None),
            (Some("42"), Some("true")),
            (Some("=?base64?!?="), None),
        ] {
            assert!(with(n, b).is_err(), "{n:?} {b:?}");
        }
    }

    proptest! {
        #[test]
        fn every_value_comes_through_a_field(value in "\\PC{0,40}") {
            let sent = encode(&value);
            prop_assert!(http::HeaderValue::from_str(&sent).is_ok());
            prop_assert_eq!(decode(sent.trim()), Some(value));
        }
    }
}
