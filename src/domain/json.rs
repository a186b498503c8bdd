//! JSON as it was written: number texts and member order survive, duplicate keys do not.
//!
//! `serde_json::Value` re-renders numbers, sorts or drops members and lets the last of two equal keys win. What is
//! approved and hashed here must be what other parsers see, so this type keeps each number's text and refuses what two
//! parsers could read differently.

use std::borrow::Cow;
use std::collections::HashSet;

use serde::de::{self, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;
use thiserror::Error;

use super::limits::MAX_JSON_DEPTH;

/// A JSON value with its numbers' texts and its members' order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Json {
    /// `null`.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A number, exactly as written.
    Number(String),
    /// A string, decoded.
    String(String),
    /// An array.
    Array(Vec<Self>),
    /// An object in the order written; no key stands in it twice.
    Object(Vec<(String, Self)>),
}

/// Why a text is not JSON that can be relied upon.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum InvalidJson {
    /// It is not JSON.
    #[error("not JSON: {0}")]
    Syntax(String),
    /// An object has the same key twice, so that parsers disagree about its value.
    #[error("the key {0:?} stands twice in one object")]
    DuplicateKey(String),
    /// It nests deeper than [`MAX_JSON_DEPTH`].
    #[error("nested deeper than {MAX_JSON_DEPTH} levels")]
    TooDeep,
}

impl Json {
    /// Reads `text`, refusing duplicate keys at any depth and nesting over [`MAX_JSON_DEPTH`].
    ///
    /// # Errors
    ///
    /// [`InvalidJson`].
    pub fn parse(text: &str) -> Result<Self, InvalidJson> {
        let raw: &RawValue = serde_json::from_str(text).map_err(|error| syntax(&error))?;
        Self::from_raw(raw, MAX_JSON_DEPTH)
    }

    /// Reads one value whose nesting may still go `depth` levels down.
    fn from_raw(raw: &RawValue, depth: usize) -> Result<Self, InvalidJson> {
        let text = raw.get();
        match text.as_bytes().first() {
            Some(b'{') => {
                let deeper = depth.checked_sub(1).ok_or(InvalidJson::TooDeep)?;
                let members = members(text)?;
                let read =
                    |(key, value): (Cow<'_, str>, &RawValue)| Ok((key.into_owned(), Self::from_raw(value, deeper)?));
                members
                    .into_iter()
                    .map(read)
                    .collect::<Result<_, _>>()
                    .map(Self::Object)
            }
            Some(b'[') => {
                let deeper = depth.checked_sub(1).ok_or(InvalidJson::TooDeep)?;
                let items = items(text)?;
                items
                    .into_iter()
                    .map(|item| Self::from_raw(item, deeper))
                    .collect::<Result<_, _>>()
                    .map(Self::Array)
            }
            Some(b'"') => serde_json::from_str(text)
                .map(Self::String)
                .map_err(|error| syntax(&error)),
            Some(b't') => Ok(Self::Bool(true)),
            Some(b'f') => Ok(Self::Bool(false)),
            Some(b'n') => Ok(Self::Null),
            _ => Ok(Self::Number(text.to_owned())),
        }
    }

    /// The value of `key`, if this is an object that has it.
    pub fn get(&self, key: &str) -> Option<&Self> {
        match self {
            Self::Object(members) => members.iter().find(|(name, _)| name == key).map(|(_, value)| value),
            Self::Null | Self::Bool(_) | Self::Number(_) | Self::String(_) | Self::Array(_) => None,
        }
    }

    /// The text, if this is a string.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::String(text) => Some(text),
            Self::Null | Self::Bool(_) | Self::Number(_) | Self::Array(_) | Self::Object(_) => None,
        }
    }

    /// What kind of value this is, for messages.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "a boolean",
            Self::Number(_) => "a number",
            Self::String(_) => "a string",
            Self::Array(_) => "an array",
            Self::Object(_) => "an object",
        }
    }

    /// Canonical text: members sorted by the code points of their keys, no blanks, strings with the fewest escapes,
    /// numbers as they were written. Two values have the same canonical text exactly when they differ in member order
    /// and blanks alone.
    pub fn canonical(&self) -> String {
        let mut text = String::new();
        self.write_canonical(&mut text);
        text
    }

    /// The canonical text spread over lines, so that two of them can be compared line by line; ends in a line's end.
    pub fn spread(&self) -> String {
        let mut text = String::new();
        self.write_spread(&mut text, 0);
        text.push('\n');
        text
    }

    fn write_spread(&self, out: &mut String, depth: usize) {
        let line = |out: &mut String, depth: usize| {
            out.push('\n');
            (0..depth).for_each(|_| out.push_str("  "));
        };
        match self {
            Self::Array(items) if !items.is_empty() => {
                out.push('[');
                for (at, item) in items.iter().enumerate() {
                    out.push_str(if at > 0 { "," } else { "" });
                    line(out, depth + 1);
                    item.write_spread(out, depth + 1);
                }
                line(out, depth);
                out.push(']');
            }
            Self::Object(members) if !members.is_empty() => {
                let mut sorted: Vec<_> = members.iter().collect();
                sorted.sort_by(|(a, _), (b, _)| a.cmp(b));
                out.push('{');
                for (at, (key, value)) in sorted.into_iter().enumerate() {
                    out.push_str(if at > 0 { "," } else { "" });
                    line(out, depth + 1);
                    out.push_str(&quoted(key));
                    out.push_str(": ");
                    value.write_spread(out, depth + 1);
                }
                line(out, depth);
                out.push('}');
            }
            Self::Null | Self::Bool(_) | Self::Number(_) | Self::String(_) | Self::Array(_) | Self::Object(_) => {
                self.write_canonical(out);
            }
        }
    }

    fn write_canonical(&self, out: &mut String) {
        match self {
            Self::Null => out.push_str("null"),
            Self::Bool(true) => out.push_str("true"),
            Self::Bool(false) => out.push_str("false"),
            Self::Number(text) => out.push_str(text),
            Self::String(text) => out.push_str(&quoted(text)),
            Self::Array(items) => {
                out.push('[');
                for (at, item) in items.iter().enumerate() {
                    if at > 0 {
                        out.push(',');
                    }
                    item.write_canonical(out);
                }
                out.push(']');
            }
            Self::Object(members) => {
                let mut sorted: Vec<_> = members.iter().collect();
                sorted.sort_by(|(a, _), (b, _)| a.cmp(b));
                out.push('{');
                for (at, (key, value)) in sorted.into_iter().enumerate() {
                    if at > 0 {
                        out.push(',');
                    }
                    out.push_str(&quoted(key));
                    out.push(':');
                    value.write_canonical(out);
                }
                out.push('}');
            }
        }
    }
}

/// `text` as a JSON string, with the fewest escapes.
pub(crate) fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// The members of an object in the order written, their values still text.
///
/// # Errors
///
/// [`InvalidJson`] when `text` is no object or has a key twice.
pub(crate) fn members(text: &str) -> Result<Vec<(Cow<'_, str>, &RawValue)>, InvalidJson> {
    let Members(members) = serde_json::from_str(text).map_err(|error| syntax(&error))?;
    let mut keys = HashSet::with_capacity(members.len());
    match members.iter().find(|(key, _)| !keys.insert(key)) {
        Some((key, _)) => Err(InvalidJson::DuplicateKey(key.clone().into_owned())),
        None => Ok(members),
    }
}

/// The items of an array, still text.
///
/// # Errors
///
/// [`InvalidJson`] when `text` is no array.
pub(crate) fn items(text: &str) -> Result<Vec<&RawValue>, InvalidJson> {
    let Items(items) = serde_json::from_str(text).map_err(|error| syntax(&error))?;
    Ok(items)
}

fn syntax(error: &serde_json::Error) -> InvalidJson {
    InvalidJson::Syntax(error.to_string())
}

/// An object's members, duplicates and all.
struct Members<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

/// An array's items.
struct Items<'a>(Vec<&'a RawValue>);

/// A key that borrows where it has no escapes.
#[derive(serde::Deserialize)]
struct Key<'a>(#[serde(borrow)] Cow<'a, str>);

impl<'de> de::Deserialize<'de> for Members<'de> {
    fn deserialize<D: de::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Collect;
        impl<'de> Visitor<'de> for Collect {
            type Value = Members<'de>;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some((Key(key), value)) = map.next_entry::<Key<'de>, &'de RawValue>()? {
                    members.push((key, value));
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(Collect)
    }
}

impl<'de> de::Deserialize<'de> for Items<'de> {
    fn deserialize<D: de::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Collect;
        impl<'de> Visitor<'de> for Collect {
            type Value = Items<'de>;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an array")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
                let mut items = Vec::new();
                while let Some(item) = seq.next_element::<&'de RawValue>()? {
                    items.push(item);
                }
                Ok(Items(items))
            }
        }
        deserializer.deserialize_seq(Collect)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn numbers_and_order_survive() {
        let json = Json::parse(r#"{"b":1.10,"a":12345678901234567890,"c":1e5}"#).unwrap();
        let Json::Object(members) = &json else {
            panic!("an object")
        };
        let keys: Vec<_> = members.iter().map(|(key, _)| key.as_str()).collect();
        assert_eq!(keys, ["b", "a", "c"]);
        assert_eq!(json.canonical(), r#"{"a":12345678901234567890,"b":1.10,"c":1e5}"#);
    }

    #[test]
    fn duplicate_keys_are_refused_at_any_depth() {
        for text in [r#"{"a":1,"a":2}"#, r#"{"x":[{"y":{"a":1,"\u0061":1}}]}"#] {
            assert_eq!(
                Json::parse(text),
                Err(InvalidJson::DuplicateKey("a".to_owned())),
                "{text}"
            );
        }
    }

    #[test]
    fn depth_is_bounded_without_recursion_into_it() {
        let deep = format!("{}1{}", "[".repeat(100_000), "]".repeat(100_000));
        assert_eq!(Json::parse(&deep), Err(InvalidJson::TooDeep));
        let fits = format!("{}1{}", "[".repeat(MAX_JSON_DEPTH), "]".repeat(MAX_JSON_DEPTH));
        assert!(Json::parse(&fits).is_ok());
    }

    #[test]
    fn lone_surrogates_and_garbage_are_refused() {
        for text in [r#""\ud800""#, "", "{", "nul", "[1,]", "1 2", "\u{feff}1"] {
            assert!(matches!(Json::parse(text), Err(InvalidJson::Syntax(_))), "{text}");
        }
    }

    fn any_json() -> impl Strategy<Value = Json> {
        let leaf = prop_oneof![
            Just(Json::Null),
            any::<bool>().prop_map(Json::Bool),
            "-?(0|[1-9][0-9]{0,20})(\\.[0-9]{1,5})?(e[0-9]{1,2})?".prop_map(Json::Number),
            any::<String>().prop_map(Json::String),
        ];
        leaf.prop_recursive(4, 64, 8, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..8).prop_map(Json::Array),
                prop::collection::btree_map(any::<String>(), inner, 0..8)
                    .prop_map(|members| Json::Object(members.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn canonical_text_reads_back_as_the_same_value(json in any_json()) {
            prop_assert_eq!(Json::parse(&json.spread()).map(|same| same.canonical()), Ok(json.canonical()));
            prop_assert_eq!(Json::parse(&json.canonical()), Ok(json));
        }
    }
}
