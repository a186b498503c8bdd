//! What is true about skills: labels, URIs, entries, resource sets, verification, approval, decision, audit records.
//!
//! Imports nothing of ours. Pure: no I/O, no async, no clock (time is an argument), no locks. Only this module makes
//! [`VerifiedFile`], [`VerifiedSkill`] and [`ServePermit`], so a value of one of those types *is* the proof that the check
//! was made. Refusals are values with the rule, the URI and what was found; nothing here fails for reasons outside itself.
//!
//! Start reading at [`entry`](SkillEntry), then `verify`, `approval` and `decide`.

mod digest;
mod json;
mod label;
pub mod limits;
mod text;
mod time;

pub use digest::Digest;
pub use digest::InvalidDigest;
pub use json::InvalidJson;
pub use json::Json;
pub use label::InvalidLabel;
pub use label::Label;
pub use limits::Limits;
pub use time::InvalidTimestamp;
pub use time::Timestamp;
