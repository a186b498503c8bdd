//! Rewriting an entry's text: URIs and missing sizes, and nothing else.

use std::borrow::Cow;

use serde_json::value::RawValue;

use crate::domain::json;
use crate::domain::json::quoted;

/// Rewrites an entry's text member by member; `edit` sees each URI and its place in the text.
pub(super) fn rewrite(text: &str, edit: &mut dyn FnMut(&str, &mut String)) -> String {
    each_member(text, |name, value| match name {
        "uri" => edited_uri(value, edit),
        "resources" => each_item(value, |item| {
            each_member(item, |name, value| {
                if name == "uri" {
                    edited_uri(value, edit)
                } else {
                    value.to_owned()
                }
            })
        }),
        _ => value.to_owned(),
    })
}

fn edited_uri(value: &str, edit: &mut dyn FnMut(&str, &mut String)) -> String {
    let mut text = value.to_owned();
    if let Ok(uri) = serde_json::from_str::<Cow<'_, str>>(value) {
        edit(&uri, &mut text);
    }
    text
}

/// Adds `size` to each resource for which `size_of` knows one.
pub(super) fn add_sizes(text: &str, size_of: &dyn Fn(&str) -> Option<u64>) -> String {
    each_member(text, |name, value| match name {
        "resources" => each_item(value, |item| {
            let uri: Option<String> = json::members(item).ok().and_then(|members| {
                let (_, uri) = members.iter().find(|(name, _)| name == "uri")?;
                serde_json::from_str(uri.get()).ok()
            });
            match uri.and_then(|uri| size_of(&uri)) {
                Some(size) => format!("{},\"size\":{size}}}", item.trim_end().trim_end_matches('}')),
                None => item.to_owned(),
            }
        }),
        _ => value.to_owned(),
    })
}

/// The object `text` with each member's value replaced; a text that is no object stays as it is.
fn each_member(text: &str, mut value_of: impl FnMut(&str, &str) -> String) -> String {
    let Ok(members) = json::members(text) else {
        return text.to_owned();
    };
    let rendered: Vec<_> = members
        .iter()
        .map(|(name, value)| format!("{}:{}", quoted(name), value_of(name, value.get())))
        .collect();
    format!("{{{}}}", rendered.join(","))
}

/// The array `text` with each item replaced; a text that is no array stays as it is.
fn each_item(text: &str, mut item_of: impl FnMut(&str) -> String) -> String {
    let Ok(items) = json::items(text) else {
        return text.to_owned();
    };
    let rendered: Vec<_> = items.iter().map(|item: &&RawValue| item_of(item.get())).collect();
    format!("[{}]", rendered.join(","))
}
