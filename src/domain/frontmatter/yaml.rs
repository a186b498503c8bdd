//! From YAML events to a tree, with every bound kept on the way.
//!
//! Imports `saphyr-parser` for the events, limits, and the module's scalars and refusals. What is refused here is refused
//! in every reading: duplicate and non-string keys, unknown tags, several documents, alias and nesting bombs.
//!
//! A key followed by a tab is the one place where the parser is narrower than YAML 1.2; see [`blank_tab_after_colon`].

use std::borrow::Cow;
use std::collections::HashMap;
use std::collections::HashSet;
use std::rc::Rc;

use saphyr_parser::Event;
use saphyr_parser::Marker;
use saphyr_parser::Parser;
use saphyr_parser::ScalarStyle;
use saphyr_parser::ScanError;
use saphyr_parser::StrInput;
use saphyr_parser::Tag;

use crate::domain::limits::MAX_FRONTMATTER_DEPTH;

use super::mismatch::FrontmatterBound;
use super::mismatch::FrontmatterMismatch;
use super::mismatch::shown;
use super::scalar::Scalar;
use super::scalar::ScalarTag;
use super::scalar::Style;
use super::tree::Document;
use super::tree::Key;
use super::tree::Member;
use super::tree::Node;
use super::tree::Value;
use super::tree::Weight;

/// Parses `text`, which is what [`block::find`](super::block::find) gives.
pub(super) fn parse(text: &str) -> Result<Document, FrontmatterMismatch> {
    let mut text = Cow::Borrowed(text);
    let mut retries = TAB_RETRIES;
    loop {
        match Builder::run(&text) {
            Ok(document) => return Ok(document),
            Err(Failure::Refused(mismatch)) => return Err(mismatch),
            Err(Failure::Scan(error)) => match blank_tab_after_colon(&text, *error.marker()) {
                Some(changed) if retries > 0 => {
                    retries -= 1;
                    text = Cow::Owned(changed);
                }
                Some(_) | None => return Err(invalid_yaml(&text, &error)),
            },
        }
    }
}

/// Keys followed by a tab that one frontmatter may have; each costs a pass over the text.
const TAB_RETRIES: usize = 16;

/// Reads `key:` + tab + value, which YAML 1.2 allows (`s-separate-in-line`) and the parser refuses, as though the tab were
/// a space: where the parser stopped behind such a tab, it had taken the colon for an indicator, so that the tab lies in
/// no value. The file's bytes are not touched.
fn blank_tab_after_colon(text: &str, at: Marker) -> Option<String> {
    let before: Vec<char> = text.chars().take(at.index()).collect();
    let tabs = before.iter().rev().take_while(|&&char| char == '\t').count();
    let colon = before.len().checked_sub(tabs + 1)?;
    if tabs == 0 || before.get(colon) != Some(&':') {
        return None;
    }
    let first_tab = colon + 1;
    Some(
        text.chars()
            .enumerate()
            .map(|(index, char)| if index == first_tab { ' ' } else { char })
            .collect(),
    )
}

/// Where an event stands, and the anchor it defines (0: none).
#[derive(Clone, Copy)]
struct Place {
    anchor: usize,
    line: usize,
}

/// Why the events end early.
enum Failure {
    /// The parser gave up.
    Scan(ScanError),
    /// We did.
    Refused(FrontmatterMismatch),
}

impl From<FrontmatterMismatch> for Failure {
    fn from(mismatch: FrontmatterMismatch) -> Self {
        Self::Refused(mismatch)
    }
}

/// A collection whose end is not reached.
struct Open {
    at: Place,
    weight: Weight,
    items: Items,
}

/// What an open collection holds so far.
enum Items {
    Sequence(Vec<Rc<Node>>),
    Mapping {
        members: Vec<Member>,
        key: Option<Key>,
        seen: HashSet<String>,
    },
}

/// Builds the tree of the first document.
#[derive(Default)]
struct Builder {
    open: Vec<Open>,
    anchors: HashMap<usize, Rc<Node>>,
    root: Option<Rc<Node>>,
    merge_key: Option<usize>,
    last_scalar: Option<usize>,
    ordinal: usize,
}

impl Builder {
    fn run(text: &str) -> Result<Document, Failure> {
        let mut parser = Parser::new_from_str(text);
        let mut builder = Self::default();
        loop {
            let (event, line) = next(&mut parser)?;
            match event {
                Event::DocumentEnd => break,
                Event::StreamEnd => return Err(FrontmatterMismatch::NotAMapping.into()),
                Event::Nothing | Event::StreamStart | Event::DocumentStart(_) => {}
                Event::Alias(anchor) => builder.alias(anchor, line)?,
                Event::Scalar(text, style, anchor, tag) => {
                    builder.scalar(text, style, tag.as_deref(), Place { anchor, line })?;
                }
                Event::SequenceStart(anchor, tag) => {
                    builder.start(
                        Items::Sequence(Vec::new()),
                        ("seq", tag.as_deref()),
                        Place { anchor, line },
                    )?;
                }
                Event::MappingStart(anchor, tag) => {
                    let items = Items::Mapping {
                        members: Vec::new(),
                        key: None,
                        seen: HashSet::new(),
                    };
                    builder.start(items, ("map", tag.as_deref()), Place { anchor, line })?;
                }
                Event::SequenceEnd | Event::MappingEnd => builder.end()?,
            }
        }
        expect_nothing_more(&mut parser)?;
        let root = builder.root.filter(|root| matches!(root.value, Value::Mapping(_)));
        Ok(Document {
            root: root.ok_or(FrontmatterMismatch::NotAMapping)?,
            merge_key: builder.merge_key,
            last_scalar: builder.last_scalar,
        })
    }

    fn alias(&mut self, anchor: usize, line: usize) -> Result<(), FrontmatterMismatch> {
        // An anchor is known once its node is complete.
        let node = self.anchors.get(&anchor).cloned();
        let node = node.ok_or(FrontmatterMismatch::Bomb {
            bound: FrontmatterBound::Recursion,
            line,
        })?;
        self.last_scalar = None;
        self.attach(node, line)
    }

    fn scalar(
        &mut self,
        text: Cow<'_, str>,
        style: ScalarStyle,
        tag: Option<&Tag>,
        at: Place,
    ) -> Result<(), FrontmatterMismatch> {
        let style = match style {
            ScalarStyle::Plain => Style::Plain,
            ScalarStyle::SingleQuoted | ScalarStyle::DoubleQuoted => Style::Quoted,
            ScalarStyle::Literal | ScalarStyle::Folded => Style::Block,
        };
        self.ordinal += 1;
        self.last_scalar = Some(self.ordinal);
        let weight = Weight {
            nodes: 1,
            bytes: text.len(),
            height: 0,
        };
        let tag = tag.map(|tag| scalar_tag(tag, at.line)).transpose()?;
        let scalar = Scalar {
            text: text.into_owned(),
            style,
            tag,
            ordinal: self.ordinal,
        };
        self.complete(Value::Scalar(scalar), weight, at)
    }

    fn start(&mut self, items: Items, (kind, tag): (&str, Option<&Tag>), at: Place) -> Result<(), FrontmatterMismatch> {
        if let Some(tag) = tag.filter(|tag| core_name(tag) != Some(kind)) {
            return Err(unknown_tag(tag, at.line));
        }
        if self.open.len() >= MAX_FRONTMATTER_DEPTH {
            return Err(FrontmatterMismatch::Bomb {
                bound: FrontmatterBound::Depth,
                line: at.line,
            });
        }
        self.last_scalar = None;
        self.open.push(Open {
            at,
            weight: Weight {
                nodes: 1,
                bytes: 0,
                height: 0,
            },
            items,
        });
        Ok(())
    }

    fn end(&mut self) -> Result<(), FrontmatterMismatch> {
        let Some(Open { at, mut weight, items }) = self.open.pop() else {
            return Ok(());
        };
        weight.height += 1;
        let value = match items {
            Items::Sequence(items) => Value::Sequence(items),
            Items::Mapping { members, .. } => Value::Mapping(members),
        };
        self.complete(value, weight, at)
    }

    /// Gives a complete node to its anchor and its parent.
    fn complete(&mut self, value: Value, weight: Weight, at: Place) -> Result<(), FrontmatterMismatch> {
        let node = Rc::new(Node {
            line: at.line,
            value,
            weight,
        });
        if at.anchor != 0 {
            self.anchors.insert(at.anchor, Rc::clone(&node));
        }
        self.attach(node, at.line)
    }

    /// Gives a node to its parent, whose weight grows by it.
    fn attach(&mut self, node: Rc<Node>, line: usize) -> Result<(), FrontmatterMismatch> {
        let depth = self.open.len() + node.weight.height;
        let Some(parent) = self.open.last_mut() else {
            self.root = Some(node);
            return Ok(());
        };
        parent.weight.add(node.weight, depth, line)?;
        match &mut parent.items {
            Items::Sequence(items) => items.push(node),
            Items::Mapping {
                members,
                key: pending,
                seen,
            } => match pending.take() {
                Some(key) => members.push(Member { key, value: node }),
                None => {
                    let key = Key::of(node, line)?;
                    if key.merges {
                        self.merge_key.get_or_insert(line);
                    }
                    if !seen.insert(key.text.clone()) {
                        return Err(FrontmatterMismatch::DuplicateKey {
                            key: shown(&key.text, 0),
                            line,
                        });
                    }
                    *pending = Some(key);
                }
            },
        }
        Ok(())
    }
}

/// The next event and its line.
fn next<'text>(parser: &mut Parser<'text, StrInput<'text>>) -> Result<(Event<'text>, usize), Failure> {
    match parser.next_event() {
        Some(Ok((event, span))) => Ok((event, span.start.line())),
        Some(Err(error)) => Err(Failure::Scan(error)),
        None => Ok((Event::StreamEnd, 0)),
    }
}

/// Lets the first document be followed by nothing but the closing fence, which to YAML begins an empty second one.
fn expect_nothing_more<'text>(parser: &mut Parser<'text, StrInput<'text>>) -> Result<(), Failure> {
    let mut fences = 0;
    loop {
        let (event, line) = next(parser)?;
        match event {
            Event::StreamEnd => return Ok(()),
            Event::DocumentStart(true) if fences == 0 => fences += 1,
            Event::Scalar(text, ScalarStyle::Plain, 0, None) if text.is_empty() => {}
            Event::DocumentEnd => {}
            Event::Nothing
            | Event::StreamStart
            | Event::DocumentStart(_)
            | Event::Alias(_)
            | Event::Scalar(..)
            | Event::SequenceStart(..)
            | Event::SequenceEnd
            | Event::MappingStart(..)
            | Event::MappingEnd => return Err(FrontmatterMismatch::SeveralDocuments { line }.into()),
        }
    }
}

/// The name of a tag of YAML's own, such as `str`.
fn core_name(tag: &Tag) -> Option<&str> {
    match tag.handle.as_str() {
        "tag:yaml.org,2002:" => Some(&tag.suffix),
        "" => tag.suffix.strip_prefix("tag:yaml.org,2002:"),
        _ => None,
    }
}

/// What `tag` makes of a scalar. Timestamps, binary and private tags mean something else to each parser: refused.
fn scalar_tag(tag: &Tag, line: usize) -> Result<ScalarTag, FrontmatterMismatch> {
    match core_name(tag) {
        Some("str") => Ok(ScalarTag::Str),
        Some("int") => Ok(ScalarTag::Int),
        Some("float") => Ok(ScalarTag::Float),
        Some("bool") => Ok(ScalarTag::Bool),
        Some("null") => Ok(ScalarTag::Null),
        None if tag.handle.is_empty() && tag.suffix == "!" => Ok(ScalarTag::Str),
        Some(_) | None => Err(unknown_tag(tag, line)),
    }
}

fn unknown_tag(tag: &Tag, line: usize) -> FrontmatterMismatch {
    FrontmatterMismatch::UnknownTag {
        tag: shown(&format!("{}{}", tag.handle, tag.suffix), 0),
        line,
    }
}

/// The refusal for what the parser could not read.
fn invalid_yaml(text: &str, error: &ScanError) -> FrontmatterMismatch {
    let line = error.marker().line();
    FrontmatterMismatch::InvalidYaml {
        line,
        column: error.marker().col() + 1,
        field: field_at(text, line),
        problem: shown(error.info(), 0),
    }
}

/// The key that stands in `line`, or nearest above it.
fn field_at(text: &str, line: usize) -> Option<String> {
    text.lines()
        .take(line)
        .skip(1)
        .filter_map(key_of_line)
        .last()
        .map(|key| shown(key, 0))
}

/// The key that `line` seems to begin with.
fn key_of_line(line: &str) -> Option<&str> {
    let (key, _) = line.trim_start_matches([' ', '-']).split_once(':')?;
    (!key.is_empty() && !key.starts_with('#')).then_some(key)
}
