//! The tree of a frontmatter, before any reading gives its scalars types.
//!
//! Imports limits, and the module's scalars and refusals. Nodes that aliases name are shared, not copied: memory stays
//! within the file's own size, while each node's weight counts it as expanded and is bounded as it grows.

use std::rc::Rc;

use crate::domain::limits::MAX_FRONTMATTER_DEPTH;
use crate::domain::limits::MAX_FRONTMATTER_EXPANDED_BYTES;
use crate::domain::limits::MAX_FRONTMATTER_NODES;

use super::Reading;
use super::mismatch::FrontmatterBound;
use super::mismatch::FrontmatterMismatch;
use super::scalar::Resolved;
use super::scalar::Scalar;
use super::scalar::Style;

/// The key that merges another mapping in.
pub(super) const MERGE_KEY: &str = "<<";

/// A document whose root is a mapping.
pub(super) struct Document {
    /// Its members.
    pub(super) root: Rc<Node>,
    /// Line of the first merge key.
    pub(super) merge_key: Option<usize>,
    /// Ordinal of the document's last node, when that is a scalar.
    pub(super) last_scalar: Option<usize>,
}

/// A value.
pub(super) struct Node {
    /// Line where it begins.
    pub(super) line: usize,
    /// What it is.
    pub(super) value: Value,
    /// What it amounts to.
    pub(super) weight: Weight,
}

/// What a value is.
pub(super) enum Value {
    /// A scalar.
    Scalar(Scalar),
    /// A sequence.
    Sequence(Vec<Rc<Node>>),
    /// A mapping in the file's order; no key stands in it twice.
    Mapping(Vec<Member>),
}

/// A field of a mapping.
pub(super) struct Member {
    /// Its name.
    pub(super) key: Key,
    /// What it holds.
    pub(super) value: Rc<Node>,
}

/// A key: a string in YAML 1.2.
pub(super) struct Key {
    /// The scalar, which other readings may resolve to something else.
    pub(super) scalar: Rc<Node>,
    /// Its text.
    pub(super) text: String,
    /// Whether it merges another mapping in, for parsers that do that.
    pub(super) merges: bool,
}

/// What a node amounts to once its aliases are expanded.
#[derive(Clone, Copy, Default)]
pub(super) struct Weight {
    /// Values, itself included.
    pub(super) nodes: usize,
    /// Bytes of its scalars.
    pub(super) bytes: usize,
    /// Levels of collections, itself included.
    pub(super) height: usize,
}

impl Weight {
    /// Adds a child, `depth` levels being open or in it.
    pub(super) fn add(&mut self, child: Self, depth: usize, line: usize) -> Result<(), FrontmatterMismatch> {
        self.nodes += child.nodes;
        self.bytes += child.bytes;
        self.height = self.height.max(child.height);
        let bound = if depth > MAX_FRONTMATTER_DEPTH {
            FrontmatterBound::Depth
        } else if self.nodes > MAX_FRONTMATTER_NODES {
            FrontmatterBound::Nodes
        } else if self.bytes > MAX_FRONTMATTER_EXPANDED_BYTES {
            FrontmatterBound::Bytes
        } else {
            return Ok(());
        };
        Err(FrontmatterMismatch::Bomb { bound, line })
    }
}

impl Key {
    /// The key that `scalar` is.
    pub(super) fn of(scalar: Rc<Node>, line: usize) -> Result<Self, FrontmatterMismatch> {
        let text_and_merges = match &scalar.value {
            Value::Scalar(key) => match key.resolve(Reading::Core12) {
                Resolved::String(text) => {
                    let merges = text == MERGE_KEY && key.style == Style::Plain && key.tag.is_none();
                    Some((text.into_owned(), merges))
                }
                Resolved::Null
                | Resolved::Bool(_)
                | Resolved::Integer(_)
                | Resolved::Float(_)
                | Resolved::NonFinite
                | Resolved::Unrepresentable => None,
            },
            Value::Sequence(_) | Value::Mapping(_) => None,
        };
        let (text, merges) = text_and_merges.ok_or(FrontmatterMismatch::NonStringKey { line })?;
        Ok(Self { scalar, text, merges })
    }
}
