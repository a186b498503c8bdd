//! What is true about skills: labels, URIs, entries, resource sets, verification, approval, decision, audit records.
//!
//! Imports nothing of ours. Pure: no I/O, no async, no clock (time is an argument), no locks. Only this module makes
//! [`VerifiedFile`], [`VerifiedSkill`] and [`ServePermit`], so a value of one of those types *is* the proof that the check
//! was made. Refusals are values with the rule, the URI and what was found; nothing here fails for reasons outside itself.
//!
//! Start reading at [`entry`](SkillEntry), then `verify`, `approval` and `decide`.

mod approval;
pub mod audit;
mod decide;
mod diff;
mod digest;
mod directory;
mod entry;
mod finding;
pub mod frontmatter;
mod json;
mod label;
pub mod limits;
mod lock;
pub mod mapping;
mod origin;
mod ownership;
mod set;
mod text;
mod time;
mod uri;
mod verify;

pub use approval::Approval;
pub use approval::OriginRecord;
pub use approval::Record;
pub use approval::Refusal;
pub use approval::SkillRecord;
pub use approval::SkillState;
pub use approval::Verdict;
pub use decide::Circumstances;
pub use decide::Decision;
pub use decide::Held;
pub use decide::OnChange;
pub use decide::Policy;
pub use decide::ServePermit;
pub use decide::StoredSets;
pub use decide::Trust;
pub use decide::decide;
pub use diff::FileChange;
pub use diff::SetDiff;
pub use digest::Digest;
pub use digest::InvalidDigest;
pub use directory::Child;
pub use directory::children;
pub use directory::mime_type;
pub use entry::EntryFault;
pub use entry::IncompleteEntry;
pub use entry::ReadEntry;
pub use entry::RejectedEntry;
pub use entry::SkillEntry;
pub use entry::UnsizedEntry;
pub use finding::Finding;
pub use frontmatter::FrontmatterMatch;
pub use frontmatter::FrontmatterMismatch;
pub use frontmatter::FrontmatterPolicy;
pub use json::InvalidJson;
pub use json::Json;
pub(crate) use json::quoted;
pub use label::InvalidLabel;
pub use label::Label;
pub use limits::Limits;
pub use lock::InvalidLock;
pub use lock::Lock;
pub use lock::LockedSkill;
pub use lock::MAX_LOCK_BYTES;
pub use origin::Fingerprint;
pub use origin::InvalidFingerprint;
pub use origin::SkillKey;
pub use ownership::SkillRoots;
pub use set::InvalidSetId;
pub use set::Resource;
pub use set::ResourceSet;
pub use set::SetId;
pub use time::InvalidTimestamp;
pub use time::Timestamp;
pub use uri::InvalidUri;
pub use uri::ResourceUri;
pub use uri::SKILL_FILE;
pub use uri::SkillUri;
pub use verify::FileProof;
pub use verify::Form;
pub use verify::Media;
pub use verify::Mismatch;
pub use verify::VerifiedFile;
pub use verify::VerifiedSkill;
