//! Answers as bytes: the request's id spliced in, and the members that its era has (base protocol §4, §10.1, §25).

use bytes::Bytes;

use super::TTL;
use super::request::Era;
use super::request::Request;
use crate::domain::quoted;

/// Pieces up to here are copied; a larger one is sent as it lies.
const SMALL: usize = 64 * 1024;

/// Bytes that an answer needs beside its pieces: a guess that spares growing.
const ENVELOPE: usize = 768;

/// An HTTP answer: a status, and a body in pieces (none for an empty one).
pub(in crate::server) struct Reply {
    pub(in crate::server) status: u16,
    pub(in crate::server) frames: Vec<Bytes>,
}

/// A result being written.
pub(super) struct Writer {
    sent: Vec<Bytes>,
    open: Vec<u8>,
    era: Era,
}

/// Who answers (base protocol §3: on every modern result).
const SERVER_INFO: &str = concat!(
    "\"io.modelcontextprotocol/serverInfo\":{\"name\":\"portcullis\",\"version\":\"",
    env!("CARGO_PKG_VERSION"),
    "\"}"
);

impl Writer {
    /// Begins the answer to `request`, whose largest piece will have `piece` bytes.
    pub(super) fn new(request: &Request<'_>, piece: usize) -> Self {
        let piece = if piece > SMALL { 0 } else { piece };
        let mut writer = Self {
            sent: Vec::new(),
            open: Vec::with_capacity(ENVELOPE + piece),
            era: request.era,
        };
        writer
            .text("{\"jsonrpc\":\"2.0\",\"id\":")
            .text(request.id)
            .text(",\"result\":{");
        writer
    }

    /// Writes JSON text.
    pub(super) fn text(&mut self, text: &str) -> &mut Self {
        self.open.extend_from_slice(text.as_bytes());
        self
    }

    /// Writes a string as JSON.
    pub(super) fn string(&mut self, text: &str) -> &mut Self {
        self.text(&quoted(text))
    }

    /// Writes JSON text that exists already.
    pub(super) fn piece(&mut self, piece: &Bytes) -> &mut Self {
        if piece.len() > SMALL {
            self.sent.push(Bytes::from(std::mem::take(&mut self.open)));
            self.sent.push(piece.clone());
        } else {
            self.open.extend_from_slice(piece);
        }
        self
    }

    /// Ends the answer with what its era has, and with `meta`, members of `_meta` as JSON text.
    ///
    /// Directory reads get the hints of the other results: they come from the same manifest, and a well-kept host refuses
    /// results without them.
    pub(super) fn end(mut self, stale: bool, meta: &str) -> Reply {
        match self.era {
            Era::Modern => {
                self.text(",\"resultType\":\"complete\",\"ttlMs\":")
                    .text(&TTL.to_string());
                self.text(",\"cacheScope\":\"private\",\"_meta\":{")
                    .text(SERVER_INFO)
                    .text(",");
            }
            Era::Legacy => {
                self.text(",\"_meta\":{");
            }
        }
        if !meta.is_empty() {
            self.text(meta).text(",");
        }
        self.text("\"dev.portcullis/stale\":")
            .text(if stale { "true" } else { "false" })
            .text("}}}");
        self.sent.push(Bytes::from(self.open));
        Reply {
            status: 200,
            frames: self.sent,
        }
    }
}

impl Reply {
    /// A notification was taken; there is nothing to say.
    pub(super) fn accepted() -> Self {
        Self {
            status: 202,
            frames: Vec::new(),
        }
    }

    /// An error, whose members are given as JSON.
    pub(super) fn error(status: u16, id: Option<&str>, error: &str) -> Self {
        let id = id.map(|id| format!("\"id\":{id},")).unwrap_or_default();
        let body = format!("{{\"jsonrpc\":\"2.0\",{id}\"error\":{error}}}");
        Self {
            status,
            frames: vec![Bytes::from(body)],
        }
    }
}
