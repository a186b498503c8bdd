//! `proxy.toml`: from the text as written to the values that run.
//!
//! [`Config`] holds values that were parsed: no string in it is really an address, and nothing in it can be missing. Every
//! problem of a file is found in one go, each with its line and key. A missing setting never switches a check off
//! (design §2, promise 10). Secrets are [`Secret`]s, which nothing prints. Imports `domain` for labels and limits.
//!
//! Start reading at `shape`, which holds the documented fields; `read` fills them from the tables that `file` walks.

mod audit;
mod cases;
mod file;
mod nearest;
mod origin;
mod people;
mod policy;
mod problem;
mod read;
mod secret;
mod shape;
mod sources;
mod tables;
mod value;

pub use audit::{Audit, Witness, WitnessMode};
pub use cases::{Case, Cases, Expect};
pub use people::{People, Person, PersonName};
pub use problem::{Invalid, Problem};
pub use secret::Secret;
pub use shape::{
    Address, Admin, Auth, Bridge, BridgeFor, BridgedText, Config, HostName, Level, Log, LogFormat, OriginConfig, Pass,
    PassTools, Passed, Program, Repair, Server, SkillFolder, SocketFor, Store, TlsFiles, WebOrigin,
};

#[cfg(test)]
mod tests;
