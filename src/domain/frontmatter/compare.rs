//! Compares a file's tree with an entry, in one reading.
//!
//! Imports JSON and the module's tree. A comparison goes on after a difference: one of content matters more to a reviewer
//! than one of type, wherever it stands.

use std::collections::BTreeSet;
use std::collections::HashMap;
use std::collections::HashSet;

use crate::domain::Json;

use super::Reading;
use super::Tolerance;
use super::mismatch::FrontmatterMismatch;
use super::mismatch::shown;
use super::number::Decimal;
use super::scalar::Resolved;
use super::scalar::Scalar;
use super::scalar::Style;
use super::tree::Document;
use super::tree::Key;
use super::tree::Member;
use super::tree::Node;
use super::tree::Value;

/// How a file is read for one comparison.
#[derive(Clone, Copy)]
pub(super) struct View {
    /// The reading.
    pub(super) reading: Reading,
    /// Whether `<<` merges.
    pub(super) merging: bool,
    /// Whether the tolerances hold.
    pub(super) tolerant: bool,
}

/// What a comparison found.
pub(super) enum Outcome {
    /// They are equal, with these tolerances.
    Equal(BTreeSet<Tolerance>),
    /// They differ in so many places, of which this one is the most telling.
    Differs(usize, FrontmatterMismatch),
    /// The file has no such reading.
    NoSuchReading,
}

/// Compares `document` with `entry`.
pub(super) fn compare(document: &Document, entry: &Json, view: View) -> Outcome {
    let mut comparison = Comparison {
        view,
        last_scalar: document.last_scalar,
        used: BTreeSet::new(),
        path: Vec::new(),
        differences: 0,
        told: None,
        readable: true,
    };
    comparison.value(&document.root, entry);
    match comparison.told {
        _ if !comparison.readable => Outcome::NoSuchReading,
        Some(told) => Outcome::Differs(comparison.differences, told.mismatch),
        None => Outcome::Equal(comparison.used),
    }
}

/// A comparison under way.
struct Comparison<'a> {
    view: View,
    last_scalar: Option<usize>,
    used: BTreeSet<Tolerance>,
    path: Vec<Step<'a>>,
    differences: usize,
    told: Option<Told>,
    readable: bool,
}

/// A step into a value.
enum Step<'a> {
    Field(&'a str),
    Item(usize),
}

/// The difference to tell of.
struct Told {
    mismatch: FrontmatterMismatch,
    type_only: bool,
}

impl<'a> Comparison<'a> {
    fn value(&mut self, node: &'a Node, entry: &'a Json) {
        match (&node.value, entry) {
            (Value::Scalar(scalar), _) => {
                if !self.scalar_equals(scalar, entry) {
                    self.scalar_differs(scalar, node.line, entry);
                }
            }
            (Value::Sequence(items), Json::Array(values)) if items.len() == values.len() => {
                for (at, (item, value)) in items.iter().zip(values).enumerate() {
                    self.path.push(Step::Item(at));
                    self.value(item, value);
                    self.path.pop();
                }
            }
            (Value::Mapping(members), Json::Object(values)) => self.mapping(members, node.line, values),
            (Value::Sequence(_) | Value::Mapping(_), _) => {
                self.differs(node.line, false, || (entry_text(entry, 0), node_text(node, 0)));
            }
        }
    }

    fn mapping(&mut self, members: &'a [Member], line: usize, values: &'a [(String, Json)]) {
        let Some(fields) = self.fields(members) else {
            self.readable = false;
            return;
        };
        let by_key: HashMap<&str, &Json> = values.iter().map(|(key, value)| (key.as_str(), value)).collect();
        for &(key, node) in &fields {
            self.path.push(Step::Field(key));
            match by_key.get(key) {
                Some(value) => self.value(node, value),
                None if self.is_null(node) && self.tolerates(Tolerance::NullAgainstAbsent) => {}
                None => self.differs(node.line, false, || ("nothing".to_owned(), node_text(node, 0))),
            }
            self.path.pop();
        }
        let known: HashSet<&str> = fields.iter().map(|&(key, _)| key).collect();
        for (key, value) in values.iter().filter(|(key, _)| !known.contains(key.as_str())) {
            if *value == Json::Null && self.tolerates(Tolerance::NullAgainstAbsent) {
                continue;
            }
            self.path.push(Step::Field(key));
            self.differs(line, false, || (entry_text(value, 0), "nothing".to_owned()));
            self.path.pop();
        }
    }

    /// The fields of a mapping in this reading, merged if it merges; None when the reading cannot have them.
    fn fields(&self, members: &'a [Member]) -> Option<Vec<(&'a str, &'a Node)>> {
        let mut fields = Vec::with_capacity(members.len());
        let mut seen = HashSet::with_capacity(members.len());
        let mut merged = Vec::new();
        for Member { key, value: node } in members {
            if key.merges && self.view.merging {
                merged.extend(merge_sources(node)?);
                continue;
            }
            let name = self.key(key)?;
            if !seen.insert(name) {
                return None;
            }
            fields.push((name, &**node));
        }
        // The mapping's own fields win, then the sources in their order.
        for source in merged {
            for (name, node) in self.fields(source)? {
                if seen.insert(name) {
                    fields.push((name, node));
                }
            }
        }
        Some(fields)
    }

    /// A key's name: its text, but that PyYAML makes a boolean of `on`, which its JSON writer prints as `true`.
    fn key(&self, key: &'a Key) -> Option<&'a str> {
        let Value::Scalar(scalar) = &key.scalar.value else {
            return None;
        };
        match scalar.resolve(self.view.reading) {
            Resolved::String(text) if text == key.text => Some(&key.text),
            Resolved::Bool(true) => Some("true"),
            Resolved::Bool(false) => Some("false"),
            Resolved::String(_)
            | Resolved::Null
            | Resolved::Integer(_)
            | Resolved::Float(_)
            | Resolved::NonFinite
            | Resolved::Unrepresentable => None,
        }
    }

    fn scalar_equals(&mut self, scalar: &Scalar, entry: &Json) -> bool {
        let resolved = scalar.resolve(self.view.reading);
        if equals(&resolved, entry) {
            return true;
        }
        match (resolved, entry) {
            (Resolved::String(text), Json::String(expected)) => {
                let without_newline = text.strip_suffix('\n') == Some(expected);
                without_newline
                    && scalar.style == Style::Block
                    && self.last_scalar == Some(scalar.ordinal)
                    && self.tolerates(Tolerance::FinalNewlineOfLastBlockScalar)
            }
            (Resolved::NonFinite, Json::Null) => self.tolerates(Tolerance::NonFiniteAsNull),
            (Resolved::Integer(number), Json::Number(expected)) => {
                let rounded = number.through_double();
                rounded.is_some()
                    && rounded == Decimal::parse(expected)
                    && self.tolerates(Tolerance::IntegerThroughDouble)
            }
            (
                Resolved::Null
                | Resolved::Bool(_)
                | Resolved::Integer(_)
                | Resolved::Float(_)
                | Resolved::NonFinite
                | Resolved::String(_)
                | Resolved::Unrepresentable,
                _,
            ) => false,
        }
    }

    fn is_null(&self, node: &Node) -> bool {
        matches!(&node.value, Value::Scalar(scalar) if scalar.resolve(self.view.reading) == Resolved::Null)
    }

    /// Whether `tolerance` holds, which is then remembered.
    fn tolerates(&mut self, tolerance: Tolerance) -> bool {
        if self.view.tolerant {
            self.used.insert(tolerance);
        }
        self.view.tolerant
    }

    fn scalar_differs(&mut self, scalar: &Scalar, line: usize, entry: &Json) {
        let type_only = is_type_only(scalar, entry);
        // Where two long texts have the same beginning, only what follows it tells.
        let from = match entry {
            Json::String(text) if !type_only => text_from(text, &scalar.text),
            Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) | Json::Array(_) | Json::Object(_) => 0,
        };
        self.differs(line, type_only, || (entry_text(entry, from), scalar_text(scalar, from)));
    }

    /// Counts a difference, and keeps it when it tells more than the one kept.
    fn differs(&mut self, line: usize, type_only: bool, texts: impl FnOnce() -> (String, String)) {
        self.differences += 1;
        if self.told.as_ref().is_some_and(|told| !told.type_only || type_only) {
            return;
        }
        let (entry, file) = texts();
        let field = self.path_text();
        let mismatch = FrontmatterMismatch::Differs {
            field,
            entry,
            file,
            line,
            type_only,
        };
        self.told = Some(Told { mismatch, type_only });
    }

    fn path_text(&self) -> String {
        let mut text = String::new();
        for step in &self.path {
            match step {
                Step::Item(at) => text.push_str(&format!("[{at}]")),
                Step::Field(key) => {
                    if !text.is_empty() {
                        text.push('.');
                    }
                    if key
                        .bytes()
                        .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
                    {
                        text.push_str(&shown(key, 0));
                    } else {
                        text.push_str(&format!("\"{}\"", shown(key, 0)));
                    }
                }
            }
        }
        text
    }
}

/// The mappings that a merge key's value names; None when it names anything else.
fn merge_sources(node: &Node) -> Option<Vec<&[Member]>> {
    match &node.value {
        Value::Mapping(members) => Some(vec![members.as_slice()]),
        Value::Sequence(items) => items.iter().map(|item| mapping_members(item)).collect(),
        Value::Scalar(_) => None,
    }
}

/// The members of a mapping.
fn mapping_members(node: &Node) -> Option<&[Member]> {
    match &node.value {
        Value::Mapping(members) => Some(members),
        Value::Scalar(_) | Value::Sequence(_) => None,
    }
}

/// Whether they are the same value, with no tolerance.
fn equals(resolved: &Resolved<'_>, entry: &Json) -> bool {
    match (resolved, entry) {
        (Resolved::Null, Json::Null) => true,
        (Resolved::Bool(value), Json::Bool(expected)) => value == expected,
        (Resolved::Integer(number) | Resolved::Float(number), Json::Number(expected)) => {
            Decimal::parse(expected).as_ref() == Some(number)
        }
        (Resolved::String(text), Json::String(expected)) => text == expected,
        (
            Resolved::Null
            | Resolved::Bool(_)
            | Resolved::Integer(_)
            | Resolved::Float(_)
            | Resolved::NonFinite
            | Resolved::String(_)
            | Resolved::Unrepresentable,
            _,
        ) => false,
    }
}

/// Whether some reading makes the entry's value of the scalar, or both are the same text.
fn is_type_only(scalar: &Scalar, entry: &Json) -> bool {
    let same_text = match entry {
        Json::Null => scalar.text == "null",
        Json::Bool(value) => scalar.text == value.to_string(),
        Json::Number(text) => {
            let number = Decimal::parse(text);
            number.is_some() && number == Decimal::parse(&scalar.text)
        }
        Json::String(text) => *text == scalar.text,
        Json::Array(_) | Json::Object(_) => false,
    };
    same_text
        || Reading::ALL
            .iter()
            .any(|&reading| equals(&scalar.resolve(reading), entry))
}

/// The character to show two different texts from.
fn text_from(one: &str, other: &str) -> usize {
    let same = one.chars().zip(other.chars()).take_while(|(a, b)| a == b).count();
    if same > 40 { same - 20 } else { 0 }
}

/// An entry's value, as a message shows it.
fn entry_text(entry: &Json, from: usize) -> String {
    match entry {
        Json::String(text) => format!("\"{}\"", shown(text, from)),
        Json::Number(text) => shown(text, 0),
        Json::Bool(value) => value.to_string(),
        Json::Null | Json::Array(_) | Json::Object(_) => entry.kind().to_owned(),
    }
}

/// A file's value, as a message shows it.
fn node_text(node: &Node, from: usize) -> String {
    match &node.value {
        Value::Scalar(scalar) => scalar_text(scalar, from),
        Value::Sequence(items) => format!("a list of {}", items.len()),
        Value::Mapping(_) => "a mapping".to_owned(),
    }
}

fn scalar_text(scalar: &Scalar, from: usize) -> String {
    match scalar.style {
        Style::Plain if scalar.text.is_empty() => "an empty value".to_owned(),
        Style::Plain => shown(&scalar.text, from),
        Style::Quoted | Style::Block => format!("\"{}\"", shown(&scalar.text, from)),
    }
}
