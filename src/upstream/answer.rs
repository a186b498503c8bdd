//! An origin's answer as text: the JSON-RPC envelope is opened, what is inside stays as it came.

use std::collections::BTreeMap;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::DecodePaddingMode;
use base64::engine::GeneralPurpose;
use base64::engine::GeneralPurposeConfig;
use bytes::Bytes;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::Error;
use super::Unverified;
use super::listing::Page;
use crate::domain::Form;
use crate::domain::Media;

/// Characters of an origin's own words that are kept.
const MAX_WORDS: usize = 1_000;

/// A JSON-RPC response whose result is still text.
#[derive(Debug, Deserialize)]
pub(super) struct Envelope<'a> {
    #[serde(default, borrow)]
    pub(super) id: Option<&'a RawValue>,
    #[serde(default, borrow)]
    pub(super) result: Option<&'a RawValue>,
    #[serde(default)]
    pub(super) error: Option<RpcError>,
    #[serde(default)]
    pub(super) method: Option<String>,
}

/// A JSON-RPC error.
#[derive(Debug, Deserialize)]
pub(super) struct RpcError {
    #[serde(default)]
    code: i64,
    #[serde(default)]
    message: String,
    #[serde(default)]
    data: Option<Value>,
}

impl From<RpcError> for Error {
    fn from(error: RpcError) -> Self {
        Self::Rpc {
            code: error.code,
            message: error.message.chars().take(MAX_WORDS).collect(),
            data: error.data,
        }
    }
}

/// The members of a page of any listing that we use, beside its items.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PageResult<'a> {
    #[serde(default)]
    next_cursor: Option<String>,
    #[serde(default, borrow)]
    ttl_ms: Option<&'a RawValue>,
    #[serde(default)]
    result_type: Option<String>,
}

/// Reads a `skills/list` result.
pub(super) fn page(result: &str) -> Result<Page, Error> {
    items(result, "skills")
}

/// Reads a page of any listing, whose items are in `member`.
pub(super) fn items(result: &str, member: &str) -> Result<Page, Error> {
    let page: PageResult<'_> = parse(result)?;
    complete(page.result_type.as_deref())?;
    let members: BTreeMap<String, &RawValue> = parse(result)?;
    let missing = || Error::Malformed(format!("it has no {member}"));
    let items: Vec<&RawValue> = parse(members.get(member).ok_or_else(missing)?.get())?;
    Ok(Page {
        entries: items.into_iter().map(|item| item.get().to_owned()).collect(),
        next: page.next_cursor,
        ttl: page
            .ttl_ms
            .and_then(|ttl| ttl.get().parse().ok())
            .map(Duration::from_millis),
    })
}

/// Reads a `skills/get` result.
pub(super) fn entry(result: &str) -> Result<String, Error> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct GetResult<'a> {
        #[serde(borrow)]
        skill: &'a RawValue,
        #[serde(default)]
        result_type: Option<String>,
    }
    let got: GetResult<'_> = parse(result)?;
    complete(got.result_type.as_deref())?;
    Ok(got.skill.get().to_owned())
}

/// Reads a `resources/read` result: the item whose `uri` was asked for. A blob that is too long for `size` is not decoded;
/// whether the bytes are right is for verification to say.
pub(super) fn file(result: &str, uri: &str, size: Option<u64>) -> Result<Unverified, Error> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct ReadResult<'a> {
        #[serde(borrow)]
        contents: Vec<&'a RawValue>,
        #[serde(default)]
        result_type: Option<String>,
    }
    #[derive(Deserialize)]
    struct Named {
        uri: String,
    }
    let read: ReadResult<'_> = parse(result)?;
    complete(read.result_type.as_deref())?;
    let asked = |item: &&&RawValue| parse::<Named>(item.get()).is_ok_and(|named| named.uri == uri);
    let mut items = read.contents.iter().filter(asked);
    match (items.next(), items.next()) {
        (Some(item), None) => content(item.get(), size),
        (Some(_), Some(_)) => Err(Error::Malformed(format!("it has {uri} twice"))),
        (None, _) => Err(Error::Malformed(format!("it does not have {uri}, which was asked for"))),
    }
}

fn content(item: &str, size: Option<u64>) -> Result<Unverified, Error> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Content {
        #[serde(default)]
        text: Option<String>,
        #[serde(default)]
        blob: Option<String>,
        #[serde(default)]
        mime_type: Option<String>,
    }
    let content: Content = parse(item)?;
    let (form, bytes) = match (content.text, content.blob) {
        (Some(text), None) => (Form::Text, text.into_bytes()),
        (None, Some(blob)) => (Form::Blob, decode(&blob, size)?),
        (Some(_), Some(_)) => return Err(Error::Malformed("a file has both text and blob".to_owned())),
        (None, None) => return Err(Error::Malformed("a file has neither text nor blob".to_owned())),
    };
    Ok(Unverified {
        bytes: Bytes::from(bytes),
        media: Media {
            form,
            mime_type: content.mime_type,
        },
    })
}

/// Base64 in either alphabet, with or without padding: the digest is the judge.
fn decode(blob: &str, size: Option<u64>) -> Result<Vec<u8>, Error> {
    const LENIENT: GeneralPurposeConfig = GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true);
    const STANDARD: GeneralPurpose = GeneralPurpose::new(&base64::alphabet::STANDARD, LENIENT);
    const URL_SAFE: GeneralPurpose = GeneralPurpose::new(&base64::alphabet::URL_SAFE, LENIENT);
    let longest = size.map(|size| size.saturating_mul(4) / 3 + 8);
    if longest.is_some_and(|longest| blob.len() as u64 > longest) {
        return Err(Error::TooLong {
            limit: size.unwrap_or_default(),
        });
    }
    let engine = if blob.contains(['-', '_']) { URL_SAFE } else { STANDARD };
    engine
        .decode(blob)
        .map_err(|error| Error::Malformed(format!("a blob is not base64: {error}")))
}

/// Any other `resultType` than `complete` is no answer to a skills method (S-29, S-33); none is an older server's.
fn complete(result_type: Option<&str>) -> Result<(), Error> {
    match result_type {
        None | Some("complete") => Ok(()),
        Some(other) => Err(Error::Malformed(format!(
            "its resultType is {:?}",
            other.chars().take(MAX_WORDS).collect::<String>()
        ))),
    }
}

fn parse<'a, T: Deserialize<'a>>(text: &'a str) -> Result<T, Error> {
    serde_json::from_str(text).map_err(|error| Error::Malformed(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(result: &str) -> Result<Vec<u8>, Error> {
        file(result, "skill://a/x", Some(6)).map(|file| file.bytes.to_vec())
    }

    #[test]
    fn entries_keep_their_text() {
        let got = page(r#"{"skills":[{"b":1.10,"a":[]}, null],"nextCursor":"","ttlMs":250,"resultType":"complete"}"#)
            .unwrap();
        assert_eq!(got.entries, [r#"{"b":1.10,"a":[]}"#, "null"]);
        assert_eq!(
            (got.next.as_deref(), got.ttl),
            (Some(""), Some(Duration::from_millis(250)))
        );
        let odd = page(r#"{"skills":[],"ttlMs":-1}"#).unwrap();
        assert_eq!((odd.next, odd.ttl), (None, None));
    }

    #[test]
    fn other_result_types_are_no_answer() {
        for result in [
            r#"{"skills":[],"resultType":"input_required"}"#,
            r#"{"skills":{}}"#,
            "null",
            "[]",
            "{}",
        ] {
            assert!(matches!(page(result), Err(Error::Malformed(_))), "{result}");
        }
    }

    #[test]
    fn both_base64_alphabets_are_read_with_and_without_padding() {
        let raw = [0xfb, 0xff, 0xbe, 0x00, 0x0d];
        for blob in ["+/++AA0=", "+/++AA0", "-_--AA0=", "-_--AA0"] {
            assert_eq!(
                bytes(&format!(r#"{{"contents":[{{"uri":"skill://a/x","blob":"{blob}"}}]}}"#)).unwrap(),
                raw,
                "{blob}"
            );
        }
        let bad = r#"{"contents":[{"uri":"skill://a/x","blob":"!!"}]}"#;
        assert!(bytes(bad).unwrap_err().to_string().contains("not base64"));
        let long = r#"{"contents":[{"uri":"skill://a/x","blob":"AAAAAAAAAAAAAAAAAAAAAAAA"}]}"#;
        assert_eq!(bytes(long), Err(Error::TooLong { limit: 6 }));
    }

    #[test]
    fn only_the_item_asked_for_is_taken_byte_for_byte() {
        let result = r#"{"contents":[{"uri":"skill://a/other","text":"no"},{"uri":"skill://a/x","text":"\r\n\ufeff\u0000","mimeType":"text/plain"}]}"#;
        let got = file(result, "skill://a/x", None).unwrap();
        assert_eq!(&got.bytes[..], "\r\n\u{feff}\0".as_bytes());
        assert_eq!(
            got.media,
            Media {
                form: Form::Text,
                mime_type: Some("text/plain".to_owned())
            }
        );
        for bad in [
            r#"{"contents":[]}"#,
            r#"{"contents":[{"uri":"skill://a/X","text":""}]}"#,
            r#"{"contents":[{"uri":"skill://a/x","text":""},{"uri":"skill://a/x","text":""}]}"#,
            r#"{"contents":[{"uri":"skill://a/x","text":"","blob":""}]}"#,
            r#"{"contents":[{"uri":"skill://a/x"}]}"#,
            r#"{"contents":[{"uri":"skill://a/x","text":"\ud800"}]}"#,
        ] {
            assert!(matches!(bytes(bad), Err(Error::Malformed(_))), "{bad}");
        }
    }

    #[test]
    fn an_origins_words_are_cut_short() {
        let error = RpcError {
            code: -32603,
            message: "x".repeat(10_000),
            data: None,
        };
        let Error::Rpc { message, .. } = Error::from(error) else {
            panic!("an RPC error")
        };
        assert_eq!(message.len(), MAX_WORDS);
    }
}
