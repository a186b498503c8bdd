//! Why a relayed request gets no result, and the one place where that becomes a JSON-RPC error (base protocol §12).

use rmcp::ErrorData;
use rmcp::model::ErrorCode;
use serde_json::Value;
use serde_json::json;

use crate::domain::Label;
use crate::gateway::Said;
use crate::gateway::Unrecorded;
use crate::gateway::Unserved;
use crate::server::lane::reason_word;

/// Why a relayed request gets no result.
#[derive(Clone, Debug)]
pub(super) enum Refusal {
    /// Nothing of the kind passes here.
    NoMethod(&'static str),
    /// The parameters have the wrong form.
    Params(String),
    /// A cursor that was never given out here, or of another listing.
    Cursor,
    /// Nothing of this name passes here.
    Unknown(String),
    /// It is known, and not given to hosts.
    Unserved(String, Label, Unserved),
    /// A header field does not say what an argument says.
    Header(String),
    /// The state that a retry carries is not that of a call that waits.
    NotWaiting,
    /// As many calls wait for answers as may.
    TooManyWait,
    /// The host cannot be asked what the origin wants to know.
    Unasked(Label, &'static str),
    /// The origin's answer has a file of a skill in it.
    HoldsSkill(Label, String),
    /// The origin gave no usable answer.
    Origin(Label, Unserved),
    /// The origin answered with an error.
    Said(Label, Said),
    /// The answer cannot be put on the record, and is not given.
    Unrecorded,
    /// The host took the request back; nobody reads this.
    Cancelled,
}

/// Characters of an origin's words.
const MAX_WORDS: usize = 2_000;

impl Refusal {
    /// The error as a host of this era expects it.
    pub(super) fn error(self, is_read: bool, is_modern: bool) -> ErrorData {
        let not_found = if is_read && !is_modern {
            ErrorCode::RESOURCE_NOT_FOUND
        } else {
            ErrorCode::INVALID_PARAMS
        };
        match self {
            Self::NoMethod(method) => ErrorData::new(ErrorCode::METHOD_NOT_FOUND, method, None),
            Self::Params(why) => ErrorData::invalid_params(why, None),
            Self::Cursor => ErrorData::invalid_params(
                "this cursor was not given out for this listing; list from the beginning",
                None,
            ),
            Self::Unknown(name) => ErrorData::new(
                not_found,
                format!("{name}: nothing of this name passes here"),
                Some(json!({ "uri": name, "dev.portcullis/reason": "unknown" })),
            ),
            Self::Unserved(name, label, why) => ErrorData::new(
                ErrorCode::INVALID_PARAMS,
                format!("{name}: {why}"),
                Some(json!({ "dev.portcullis/reason": reason_word(&why), "dev.portcullis/origin": label })),
            ),
            Self::Header(disagrees) => ErrorData::new(ErrorCode::HEADER_MISMATCH, disagrees, None),
            Self::NotWaiting => ErrorData::invalid_params(
                "no call waits for this answer, or not any more; call again from the beginning",
                None,
            ),
            Self::TooManyWait => internal("too many calls wait for answers of their hosts; try again later", None),
            Self::Unasked(label, why) => internal(
                &format!("{label} wants to know something first, and {why}"),
                Some(&label),
            ),
            Self::HoldsSkill(label, uri) => internal(
                &format!(
                    "the answer of {label} holds {uri}, a file of a skill, which only the skills methods give out"
                ),
                Some(&label),
            ),
            Self::Origin(label, Unserved::OriginDown) => internal(&format!("{label} cannot be reached"), Some(&label)),
            Self::Origin(label, _) => internal(&format!("{label} gave no usable answer"), Some(&label)),
            Self::Said(label, said) => of_origin(&label, said, not_found),
            Self::Unrecorded => internal(&Unrecorded.to_string(), None),
            Self::Cancelled => internal("cancelled", None),
        }
    }
}

/// What an origin said, where it means the same here: of what lies between the gateway and its origin nothing is relayed.
fn of_origin(label: &Label, said: Said, not_found: ErrorCode) -> ErrorData {
    let words: String = said.message.chars().take(MAX_WORDS).collect();
    match i32::try_from(said.code).map(ErrorCode) {
        Ok(ErrorCode::INVALID_PARAMS | ErrorCode::RESOURCE_NOT_FOUND) => ErrorData::new(not_found, words, said.data),
        Ok(ErrorCode::METHOD_NOT_FOUND | ErrorCode::HEADER_MISMATCH | ErrorCode::UNSUPPORTED_PROTOCOL_VERSION)
        | Err(_) => internal(
            &format!("{label} answered with error {}: {words}", said.code),
            Some(label),
        ),
        Ok(code) => ErrorData::new(code, words, said.data),
    }
}

fn internal(words: &str, origin: Option<&Label>) -> ErrorData {
    let data: Option<Value> = origin.map(|label| json!({ "dev.portcullis/origin": label }));
    ErrorData::internal_error(words.to_owned(), data)
}
