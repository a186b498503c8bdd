//! Bounds on everything that outsiders can make grow.

use std::time::Duration;

/// Characters in a [`Label`](super::Label).
pub const MAX_LABEL_CHARS: usize = 32;

/// Bytes in a URI of the skill family. A longer one is refused, whoever sends it.
pub const MAX_URI_BYTES: usize = 4096;

/// Nesting of JSON that outsiders send inside an entry; deeper is refused.
pub const MAX_JSON_DEPTH: usize = 64;

/// Bytes of frontmatter between its fences; more is refused before it is parsed.
pub const MAX_FRONTMATTER_BYTES: usize = 256 * 1024;

/// Nesting of frontmatter.
pub const MAX_FRONTMATTER_DEPTH: usize = 32;

/// Values (scalars, sequences, mappings) in frontmatter once its aliases are expanded.
pub const MAX_FRONTMATTER_NODES: usize = 20_000;

/// Bytes of frontmatter once its aliases are expanded.
pub const MAX_FRONTMATTER_EXPANDED_BYTES: usize = 1024 * 1024;

/// Bounds that an operator may change (`[limits]` in `proxy.toml`); the defaults are the extension's own numbers where it
/// names some (S-28, H-17).
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Limits {
    /// Files in one skill, `SKILL.md` included.
    pub skill_files: usize,
    /// Bytes in one skill, the sum of its files' sizes.
    pub skill_bytes: u64,
    /// Bytes of one entry's JSON.
    pub entry_bytes: usize,
    /// Entries kept from one origin's listing, and skills of one origin on the record.
    pub listing_entries: usize,
    /// Pages asked of one origin's listing.
    pub listing_pages: usize,
    /// Bytes of one origin's whole listing.
    pub listing_bytes: usize,
    /// Bytes of one answer that carries no file: a page, an entry, a directory.
    pub answer_bytes: usize,
    /// Requests to one origin under way at once.
    pub fetches_per_origin: usize,
    /// Bytes of verified content kept in memory.
    pub memory_cache_bytes: u64,
    /// Bytes that quarantine may hold; the oldest leave first.
    pub quarantine_bytes: u64,
    /// Bytes of content that the data folder may hold.
    pub content_bytes: u64,
    /// Entries in one page that a host is given.
    pub page_entries: usize,
    /// Bytes in one page that a host is given; a page has at least one entry.
    pub page_bytes: usize,
    /// Connections that hosts may hold at once.
    pub connections: usize,
    /// Bytes of one host's request.
    pub request_bytes: usize,
    /// The longest that a host may take to send a request's head or body.
    pub request_time: Duration,
    /// Sessions of hosts of older revisions at once.
    pub sessions: usize,
    /// How long a session may go without a request before it ends.
    pub session_idle: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            skill_files: 512,
            skill_bytes: 16 * 1024 * 1024,
            entry_bytes: 1024 * 1024,
            listing_entries: 20_000,
            listing_pages: 1_000,
            listing_bytes: 64 * 1024 * 1024,
            answer_bytes: 16 * 1024 * 1024,
            fetches_per_origin: 32,
            memory_cache_bytes: 256 * 1024 * 1024,
            quarantine_bytes: 256 * 1024 * 1024,
            content_bytes: 20 * 1024 * 1024 * 1024,
            page_entries: 1_000,
            page_bytes: 4 * 1024 * 1024,
            connections: 4_096,
            request_bytes: 4 * 1024 * 1024,
            request_time: Duration::from_secs(30),
            sessions: 10_000,
            session_idle: Duration::from_secs(30 * 60),
        }
    }
}

impl Limits {
    /// The most bytes that an answer holding a file of `size` bytes may take on the wire: six for each byte (`\u0000`) and
    /// room for the envelope, which base64 never reaches.
    pub fn read_answer_bytes(size: u64) -> u64 {
        size.saturating_mul(6).saturating_add(64 * 1024)
    }
}
