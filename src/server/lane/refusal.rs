//! The one place where outcomes become JSON-RPC errors (`protocol` §11, base protocol §8.8, §12).

use serde_json::Value;
use serde_json::json;

use super::reply::Reply;
use super::request::Era;
use super::request::Method;
use super::request::SUPPORTED;
use crate::domain::Label;
use crate::gateway::Unrecorded;
use crate::gateway::Unserved;

/// Why a request of the skill family gets no result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::server) enum Refusal {
    /// Not JSON.
    Parse,
    /// JSON, but no request.
    Invalid(&'static str),
    /// A member of `_meta` is missing that every modern request has.
    Meta(&'static str),
    /// A parameter is missing or has the wrong form.
    Params(String),
    /// A header is missing or does not say what the body says.
    Header(String),
    /// A revision that is not spoken here.
    Version(String),
    /// A cursor that was never given out here.
    Cursor,
    /// A method of another era than the request's.
    Unoffered(String),
    /// A session that is not there, or not for this caller (base protocol §23.2).
    Session,
    /// There is no room for one more session.
    Full,
    /// The answer cannot be recorded.
    Unrecorded,
    /// Nothing is served under a URI.
    Unserved {
        /// As it was asked for.
        uri: String,
        /// The origin that it would belong to, where it names one.
        origin: Option<Label>,
        /// Why.
        reason: Unserved,
        /// The name here of what an origin itself calls so.
        meant: Option<String>,
        /// Whether the host speaks an era in which resources that are not found have a code of their own.
        legacy_read: bool,
    },
}

/// Not found, in the words of older revisions (base protocol §12, §26).
const LEGACY_NOT_FOUND: i32 = -32002;

/// The word for what is our own fault.
const INTERNAL: &str = "internal";

impl Refusal {
    /// Nothing here has this name; `meant` does, if an origin itself calls it so.
    pub(super) fn unknown(uri: &str, meant: Option<String>) -> Self {
        Self::Unserved {
            uri: uri.to_owned(),
            origin: None,
            reason: Unserved::Unknown,
            meant,
            legacy_read: false,
        }
    }

    pub(super) fn unserved(uri: &str, origin: &Label, reason: Unserved) -> Self {
        Self::Unserved {
            uri: uri.to_owned(),
            origin: Some(origin.clone()),
            reason,
            meant: None,
            legacy_read: false,
        }
    }

    /// The same as a host of `era` expects it.
    pub(super) fn in_era(mut self, era: Era, method: Method) -> Self {
        if let Self::Unserved { legacy_read, .. } = &mut self {
            *legacy_read = era == Era::Legacy && method == Method::ResourcesRead;
        }
        self
    }

    /// The answer.
    pub(in crate::server) fn reply(&self, id: Option<&str>) -> Reply {
        let mut error = json!({ "code": self.code(), "message": self.message() });
        if let (Some(data), Some(error)) = (self.data(), error.as_object_mut()) {
            error.insert("data".to_owned(), data);
        }
        Reply::error(self.status(), id, &error.to_string())
    }

    /// The word by which the record knows it.
    pub(super) fn word(&self) -> &'static str {
        match self {
            Self::Parse
            | Self::Invalid(_)
            | Self::Meta(_)
            | Self::Params(_)
            | Self::Header(_)
            | Self::Version(_)
            | Self::Unoffered(_)
            | Self::Session
            | Self::Full
            | Self::Cursor => "invalid",
            Self::Unrecorded => INTERNAL,
            Self::Unserved { reason, .. } => reason_word(reason),
        }
    }

    /// The origin that it is about.
    pub(super) fn origin(&self) -> Option<&Label> {
        match self {
            Self::Unserved { origin, .. } => origin.as_ref(),
            Self::Parse
            | Self::Invalid(_)
            | Self::Meta(_)
            | Self::Params(_)
            | Self::Header(_)
            | Self::Version(_)
            | Self::Unoffered(_)
            | Self::Session
            | Self::Full
            | Self::Cursor
            | Self::Unrecorded => None,
        }
    }

    fn status(&self) -> u16 {
        match self {
            Self::Parse | Self::Invalid(_) | Self::Meta(_) | Self::Header(_) | Self::Version(_) => 400,
            Self::Unoffered(_) | Self::Session => 404,
            Self::Full => 503,
            Self::Params(_) | Self::Cursor | Self::Unrecorded | Self::Unserved { .. } => 200,
        }
    }

    fn code(&self) -> i32 {
        match self {
            Self::Parse => -32700,
            Self::Invalid(_) | Self::Session => -32600,
            Self::Unoffered(_) => -32601,
            Self::Meta(_) | Self::Params(_) | Self::Cursor => -32602,
            Self::Header(_) => -32020,
            Self::Version(_) => -32022,
            Self::Full | Self::Unrecorded => -32603,
            Self::Unserved {
                reason, legacy_read, ..
            } => match reason {
                Unserved::Unknown | Unserved::Unlisted if *legacy_read => LEGACY_NOT_FOUND,
                Unserved::Unknown | Unserved::Unlisted | Unserved::Held(_) | Unserved::Limits => -32602,
                Unserved::Mismatch(_)
                | Unserved::Missing
                | Unserved::OriginDown
                | Unserved::OriginFault
                | Unserved::Disk => -32603,
            },
        }
    }

    fn message(&self) -> String {
        match self {
            Self::Parse => "the message is not JSON".to_owned(),
            Self::Invalid(why) => (*why).to_owned(),
            Self::Meta(key) => format!("params._meta has no {key}"),
            Self::Params(why) | Self::Header(why) => why.clone(),
            Self::Version(asked) => format!("protocol version {asked} is not spoken here"),
            Self::Cursor => {
                "this cursor was not given out here, or not since the last start; list from the beginning".to_owned()
            }
            Self::Unoffered(method) => format!("{method} is no method of this revision"),
            Self::Session => "there is no such session, or not any more; begin anew with initialize".to_owned(),
            Self::Full => "as many sessions are open as the gateway holds, and all are in use; try again later, or do without one: revision 2026-07-28 needs none".to_owned(),
            Self::Unrecorded => Unrecorded.to_string(),
            Self::Unserved {
                uri,
                reason,
                meant: Some(meant),
                ..
            } => format!("{uri}: {reason}; what its origin calls so is {meant} here"),
            Self::Unserved { uri, reason, .. } => format!("{uri}: {reason}"),
        }
    }

    fn data(&self) -> Option<Value> {
        match self {
            Self::Version(asked) => Some(json!({ "supported": SUPPORTED, "requested": asked })),
            Self::Unserved {
                uri,
                origin,
                reason,
                meant,
                ..
            } => {
                let mut data = json!({ "uri": uri, "dev.portcullis/reason": reason_word(reason) });
                if let (Some(origin), Some(data)) = (origin, data.as_object_mut()) {
                    data.insert("dev.portcullis/origin".to_owned(), json!(origin.as_str()));
                }
                if let (Some(meant), Some(data)) = (meant, data.as_object_mut()) {
                    data.insert("dev.portcullis/meant".to_owned(), json!(meant));
                }
                Some(data)
            }
            Self::Unrecorded => Some(json!({ "dev.portcullis/reason": INTERNAL })),
            Self::Parse
            | Self::Invalid(_)
            | Self::Meta(_)
            | Self::Params(_)
            | Self::Header(_)
            | Self::Unoffered(_)
            | Self::Session
            | Self::Full
            | Self::Cursor => None,
        }
    }
}

/// The stable word for a reason, for machines (design §10).
pub(in crate::server) fn reason_word(reason: &Unserved) -> &'static str {
    match reason {
        Unserved::Unknown | Unserved::Unlisted => "unknown",
        Unserved::Held(_) => "held",
        Unserved::Limits => "limits",
        Unserved::Mismatch(_) => "mismatch",
        Unserved::Missing | Unserved::OriginFault => "origin-fault",
        Unserved::OriginDown => "origin-down",
        Unserved::Disk => INTERNAL,
    }
}
