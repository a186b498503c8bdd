//! The use cases: refresh, catalog snapshots, get, read, directory, approve, review.
//!
//! Imports `domain`, `store`, `upstream` and the leaves. Here alone do fetching, verifying and keeping meet. No sockets and
//! no HTTP types. Invariants: a request reads one [`Catalog`] and never waits for an origin that is not the one asked;
//! nothing is fetched ahead of need (H-34); every change goes through the one lock of `ledger`, which no
//! request for a known skill takes, and which nobody holds for a decision's flush.
//! Start reading at [`Gateway`], then `obtain` for the life of a read and `ledger` for the life of a decision.

mod behind;
mod bridge;
mod caller;
mod catalog;
mod changes;
mod check;
mod deliveries;
mod evidence;
mod inspected;
mod keep;
mod ledger;
mod locks;
mod memory;
mod observed;
mod obtain;
mod offers;
mod passing;
mod pull;
mod recall;
mod received;
mod recent;
mod recorded;
mod refresh;
mod relay;
mod review;
mod rules;
mod status;
mod strangers;
mod timely;
mod turns;
mod unserved;
mod watches;
mod witness;
mod witnessing;

use std::collections::BTreeMap;
use std::collections::HashMap;
use std::collections::HashSet;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::AtomicUsize;

use parking_lot::RwLock;
use thiserror::Error;

use crate::clock::Clock;
use crate::config;
use crate::config::Config;
use crate::config::OriginConfig;
use crate::config::Pass;
use crate::config::People;
use crate::config::Repair;
use crate::domain::Definitions;
use crate::domain::Digest;
use crate::domain::Label;
use crate::domain::Limits;
use crate::domain::Policies;
use crate::domain::Policy;
use crate::domain::Record;
use crate::domain::Refusal;
use crate::domain::SkillKey;
use crate::domain::SkillUri;
use crate::domain::audit::Event;
use crate::shutdown::Shutdown;
use crate::store;
pub use crate::store::Kept;
pub use crate::store::Point;
pub use crate::store::SegmentFault;
use crate::store::Store;
pub use crate::store::write_out;
use crate::telemetry::chain;
use crate::upstream;
use crate::upstream::Upstream;

use behind::Behind;
pub use bridge::Bridged;
pub use bridge::CatalogFormat;
pub use bridge::CatalogText;
pub use bridge::Named;
pub use bridge::file_text;
pub use bridge::loaded_before;
pub use bridge::skill_text;
pub use caller::Caller;
pub use caller::is_called;
pub use catalog::Catalog;
pub use catalog::CatalogSkill;
pub use catalog::Found;
pub use catalog::OriginCatalog;
pub use catalog::Served;
pub use catalog::View;
pub use changes::Change;
use changes::Changes;
pub use check::FolderCheck;
pub use check::check_folder;
pub use check::mend_folder;
pub use deliveries::About;
pub use deliveries::Asked;
use deliveries::Deliveries;
pub use deliveries::Recording;
pub use deliveries::Unrecorded;
pub use evidence::Consistent;
pub use evidence::Covered;
pub use evidence::LogKeys;
pub use evidence::RecordReport;
pub use evidence::Rotated;
use inspected::Inspected;
pub use ledger::By;
use ledger::Ledger;
pub use ledger::Who;
pub use locks::Locked;
pub use memory::Content;
pub use memory::EncodedFile;
use memory::Memory;
use obtain::Flight;
use obtain::FlightKey;
pub use offers::Offer;
use offers::Offers;
pub use offers::as_value;
pub use passing::HoldsSkill;
pub use passing::Outward;
pub use pull::PullStep;
pub use pull::Pulled;
pub use recall::ClosedSet;
pub use recall::Recall;
pub use recall::Recalled;
use recall::WaitingForRoom;
pub use received::DeliveryQuery;
pub use received::Receiver;
pub use received::Recorded;
use recent::Recent;
pub use recorded::Forgotten;
pub use recorded::LeafFilter;
pub use recorded::RecordedLeaf;
pub use relay::Call;
pub use relay::Interim;
pub use relay::Said;
pub use relay::Unanswered;
pub use review::AddressDecided;
pub use review::Approving;
pub use review::Decided;
pub use review::Difference;
pub use review::FileDifference;
use rules::Contents;
pub use rules::Explanation;
pub use rules::Word;
pub use status::FileStatus;
pub use status::OriginStatus;
pub use status::Rejected;
pub use status::SkillDetails;
pub use status::SkillStatus;
pub use status::Summary;
pub use status::TokenStatus;
pub use status::TrialStatus;
use timely::Timely;
use turns::Turns;
pub use unserved::Unserved;
pub use watches::Watch;
use watches::Watches;
pub use witness::Witness;
pub use witness::WitnessOptions;
pub use witnessing::WitnessStatus;
use witnessing::Witnessing;

/// How often a held data folder is tried again: it is refused within a second.
const LOCK_WAITS: u32 = 4;

/// How long between two tries.
const LOCK_WAIT: std::time::Duration = std::time::Duration::from_millis(200);

/// How the gateway is opened beside its configuration.
#[derive(Clone, Copy, Debug, Default)]
pub struct Mode {
    /// Whether origins are never asked.
    pub offline: bool,
}

/// The gateway. Cheap to clone.
#[derive(Clone)]
pub struct Gateway(Arc<Inner>);

struct Inner {
    store: Store,
    clock: Clock,
    shutdown: Shutdown,
    limits: Limits,
    origins: BTreeMap<Label, Origin>,
    policies: Policies,
    people: People,
    /// The configuration, as the record is told of it.
    tables: BTreeMap<String, Digest>,
    /// What is to be looked at in its time.
    timely: Timely,
    /// What is known of files that rules ask about; held for a look.
    contents: parking_lot::Mutex<Contents>,
    /// The writer's lock: never taken by a host's request for a known skill.
    ledger: tokio::sync::Mutex<Ledger>,
    /// Closing decisions in force that wait for room in the log.
    unrecorded: Arc<AtomicUsize>,
    /// Who decides about what at the moment; taken before the ledger.
    turns: Turns,
    /// Changes of the ledger that were to be published, ever.
    changes: AtomicU64,
    /// For each origin, how many of them its part of the catalog has; held while one is published for all who wait.
    published: tokio::sync::Mutex<HashMap<Label, u64>>,
    /// Replaced whole; held for the copy of a pointer.
    catalog: RwLock<Arc<Catalog>>,
    /// Told of what hosts see differently.
    told: Changes,
    /// What origins offer beside skills.
    offers: Offers,
    /// Resources that hosts watch.
    watches: Watches,
    memory: Memory,
    /// Fetches under way; held for a look-up.
    flights: parking_lot::Mutex<HashMap<FlightKey, Flight>>,
    /// Fetched files that wait to be stored.
    behind: Behind,
    /// Answers that wait to be written to the record.
    deliveries: Deliveries,
    inspected: Inspected,
    /// Skills that an origin said it does not have.
    unknown: Recent,
    /// Skills whose entries were asked for again since a host asked for a file that they do not list.
    looked_at: Recent,
    /// Held skills that a host just asked for.
    asked_for: Recent,
    /// People who are on the record as having come in since the start; held for a look-up.
    came_in: parking_lot::Mutex<HashSet<String>>,
    /// Who is asked to cosign the log.
    witnessing: Witnessing,
    /// Strangers who are on the record as not let in; held for a look-up.
    strangers: parking_lot::Mutex<HashSet<String>>,
    /// Failures already on the record, so that a host cannot fill it by asking again; held for a look-up.
    failures: parking_lot::Mutex<HashSet<String>>,
}

/// One configured origin.
struct Origin {
    upstream: Upstream,
    address: String,
    kind: &'static str,
    refresh: std::time::Duration,
    refresh_max: std::time::Duration,
    repair_size: bool,
    pass: Pass,
}

/// Why an operator's command could not be carried out.
#[derive(Debug, Error)]
pub enum Error {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] store::Error),
    /// No origin has this label.
    #[error("no origin has the label {0}")]
    NoOrigin(Label),
    /// The record knows nobody of this name.
    #[error("the record knows nobody called {0:?}")]
    NoPerson(String),
    /// Nothing is known of this skill.
    #[error("no such skill: {0}")]
    NoSkill(SkillKey),
    /// Witnesses are required, and too few have cosigned the newest checkpoint.
    #[error("nothing is opened before {quorum} witnesses have cosigned the log's {size} leaves; not yet: {lacking}")]
    NotWitnessed {
        /// Leaves under the newest checkpoint.
        size: u64,
        /// How many have to.
        quorum: usize,
        /// Who has not, and why.
        lacking: String,
    },
    /// The log is not so long.
    #[error("the log has no leaf {index}")]
    NoLeaf {
        /// The index asked for.
        index: u64,
    },
    /// The approval machine refuses.
    #[error("{key}: {refusal}")]
    Refused {
        /// The skill.
        key: SkillKey,
        /// Why.
        #[source]
        refusal: Refusal,
    },
    /// The approval machine refuses to let an address be accepted.
    #[error("{label}: {refusal}")]
    Address {
        /// The origin.
        label: Label,
        /// Why.
        #[source]
        refusal: Refusal,
    },
    /// The entry has no set that could be decided about.
    #[error("{key} cannot be decided about: {reason}")]
    NoSet {
        /// The skill.
        key: SkillKey,
        /// Why there is none.
        reason: String,
    },
    /// It is in force, and could not be written to the log.
    #[error("in force, not yet recorded: {0}")]
    NotRecorded(#[source] Box<Self>),
    /// The origin did not give what was asked.
    #[error("{label}: {error}")]
    Upstream {
        /// The origin.
        label: Label,
        /// What happened.
        #[source]
        error: upstream::Error,
    },
    /// A file was not obtained.
    #[error("{uri} of {label}: {reason}")]
    File {
        /// The origin.
        label: Label,
        /// The file.
        uri: String,
        /// Why.
        reason: Unserved,
    },
    /// A folder that is checked cannot be read.
    #[error("{} cannot be checked", folder.display())]
    Check {
        /// Which.
        folder: PathBuf,
        /// What happened.
        #[source]
        error: upstream::Error,
    },
    /// A file that is checked cannot be mended.
    #[error("{} cannot be mended", file.display())]
    Mend {
        /// Which.
        file: PathBuf,
        /// What happened.
        #[source]
        source: std::io::Error,
    },
    /// A file with secrets or certificates of an origin cannot be read.
    #[error("the certificate file of {label} cannot be read")]
    Certificates {
        /// The origin.
        label: Label,
        /// What the system says.
        #[source]
        source: std::io::Error,
    },
    /// A task of ours ended by itself.
    #[error("a task of the gateway ended by itself: {0}")]
    Task(String),
}

impl Gateway {
    /// Opens the data folder, takes in its log and publishes what it says, before any origin is asked.
    ///
    /// # Errors
    ///
    /// [`enum@Error`] when the data folder is refused, in use or damaged, or an origin's settings cannot be used.
    pub async fn open(config: &Config, mode: Mode, clock: Clock, shutdown: Shutdown) -> Result<Self, Error> {
        let options = store::Options {
            data_dir: config.store.data_dir.clone(),
            allow_unsafe_location: config.store.allow_unsafe_location,
            limits: config.limits.clone(),
        };
        let origins = config.origins.iter().map(|origin| {
            Ok((
                origin.label.clone(),
                Origin::new(origin, &config.limits, mode, &clock, &shutdown)?,
            ))
        });
        let origins = origins.collect::<Result<BTreeMap<_, _>, Error>>()?;
        let (store, record) = open_store(&options, &clock).await?;
        let unrecorded = Arc::new(AtomicUsize::default());
        let inner = Inner {
            memory: Memory::new(config.limits.memory_cache_bytes),
            limits: config.limits.clone(),
            ledger: tokio::sync::Mutex::new(Ledger::new(record, WaitingForRoom::counted(Arc::clone(&unrecorded)))),
            unrecorded,
            turns: Turns::default(),
            timely: Timely::default(),
            contents: parking_lot::Mutex::default(),
            changes: AtomicU64::default(),
            published: tokio::sync::Mutex::default(),
            catalog: RwLock::default(),
            told: Changes::default(),
            offers: Offers::default(),
            watches: Watches::default(),
            flights: parking_lot::Mutex::default(),
            behind: Behind::default(),
            deliveries: Deliveries::new(config.audit.clone()),
            inspected: Inspected::default(),
            unknown: Recent::default(),
            looked_at: Recent::default(),
            asked_for: Recent::default(),
            came_in: parking_lot::Mutex::default(),
            strangers: parking_lot::Mutex::default(),
            failures: parking_lot::Mutex::default(),
            witnessing: Witnessing::new(&config.audit, &store)?,
            store,
            clock,
            shutdown,
            origins,
            policies: config.policies(),
            people: config.people.clone(),
            tables: config.tables(),
        };
        inner.configure().await?;
        inner.keep_time().await;
        Ok(Self(Arc::new(inner)))
    }

    /// The snapshot that requests are answered from.
    pub fn catalog(&self) -> Arc<Catalog> {
        self.0.catalog()
    }

    /// The time.
    pub fn clock(&self) -> &Clock {
        &self.0.clock
    }

    /// Everybody whose word counts where several are needed.
    pub fn people(&self) -> &People {
        &self.0.people
    }

    /// The bounds on what outsiders may send and be sent.
    pub fn limits(&self) -> &Limits {
        &self.0.limits
    }

    /// Ends every origin's connection, for good.
    pub async fn close_origins(&self) {
        for origin in self.0.origins.values() {
            origin.upstream.close().await;
        }
    }

    /// The end of the process, and the tasks it waits for.
    pub fn shutdown(&self) -> &Shutdown {
        &self.0.shutdown
    }
}

/// Opens the folder and takes in its log. A command that holds the folder for a moment is waited for.
async fn open_store(options: &store::Options, clock: &Clock) -> Result<(Store, Record), Error> {
    let mut waits = LOCK_WAITS;
    loop {
        let (options, now) = (options.clone(), clock.now());
        let opened = tokio::task::spawn_blocking(move || {
            let store = Store::open(&options, now)?;
            let mut record = Record::default();
            let mut forgotten = Vec::new();
            store.replay(&mut |index, leaf| {
                record.apply(index, leaf);
                if let Event::Forgotten { person } = &leaf.event {
                    forgotten.push(person.clone());
                }
            })?;
            // What was cut short between the leaf and the deed.
            for person in forgotten {
                store.forget_person(&person)?;
            }
            store.recover_deliveries(now)?;
            if let Err(error) = store.record_ended_tokens(now) {
                tracing::error!(error = %chain(&error), "the end of a token is in force and not on the record");
            }
            Ok((store, record))
        });
        match opened.await.map_err(|error| Error::Task(error.to_string()))? {
            Err(store::Error::Locked { .. }) if waits > 0 => waits -= 1,
            opened => return Ok(opened?),
        }
        tokio::time::sleep(LOCK_WAIT).await;
    }
}

impl Error {
    /// Says whether another process holds the data folder.
    pub fn is_locked(&self) -> bool {
        matches!(self, Self::Store(store::Error::Locked { .. }))
    }
}

impl Origin {
    fn new(
        config: &OriginConfig,
        limits: &Limits,
        mode: Mode,
        clock: &Clock,
        shutdown: &Shutdown,
    ) -> Result<Self, Error> {
        let failed = |error| Error::Upstream {
            label: config.label.clone(),
            error,
        };
        let (address, kind) = Self::address(config)?;
        let settings = upstream::Settings {
            address,
            connect_timeout: config.connect_timeout,
            timeout: config.timeout,
            total: config.total,
            limits: limits.clone(),
            clock: clock.clone(),
            shutdown: shutdown.clone(),
        };
        let upstream = if mode.offline {
            Upstream::offline(&settings)
        } else {
            Upstream::new(&settings).map_err(failed)?
        };
        Ok(Self {
            upstream,
            address: config.fingerprint_text(),
            kind,
            refresh: config.refresh,
            refresh_max: config.refresh_max,
            repair_size: config.repair.contains(&Repair::Size),
            pass: config.pass.clone(),
        })
    }

    /// Where it is, and the word for what kind of address that is.
    fn address(config: &OriginConfig) -> Result<(upstream::Address, &'static str), Error> {
        let web = |url: &reqwest::Url| -> Result<_, Error> {
            let ca = config.ca.as_ref().map(fs::read).transpose();
            let ca = ca.map_err(|source| Error::Certificates {
                label: config.label.clone(),
                source,
            })?;
            Ok(upstream::Web {
                url: url.as_str().to_owned(),
                headers: upstream::Headers::new(&config.headers),
                ca,
            })
        };
        Ok(match &config.address {
            config::Address::Folder(path) => (upstream::Address::Folders(vec![upstream::Root::alone(path)]), "folder"),
            config::Address::Folders(folders) => {
                let root = |folder: &config::SkillFolder| upstream::Root {
                    name: Some(folder.name.clone()),
                    path: folder.path.clone(),
                    is_held: folder.is_held(),
                };
                (upstream::Address::Folders(folders.iter().map(root).collect()), "folder")
            }
            config::Address::Http(url) => (upstream::Address::Http(web(url)?), "http"),
            config::Address::WebSocket(url) => (upstream::Address::WebSocket(web(url)?), "websocket"),
            config::Address::Program(program) => {
                let program = upstream::Program {
                    label: config.label.clone(),
                    command: program.command.clone(),
                    env: config.env.clone(),
                    cwd: program.cwd.clone(),
                    supervisor: upstream::own_program(),
                };
                (upstream::Address::Program(program), "stdio")
            }
        })
    }
}

impl Inner {
    fn catalog(&self) -> Arc<Catalog> {
        Arc::clone(&self.catalog.read())
    }

    fn policy(&self, key: &SkillKey) -> Policy {
        self.policies.of(key)
    }

    fn origin(&self, label: &Label) -> Result<&Origin, Error> {
        self.origins.get(label).ok_or_else(|| Error::NoOrigin(label.clone()))
    }

    /// Puts the configured addresses on the record and publishes every origin as the log and the index know it.
    async fn configure(&self) -> Result<(), Error> {
        let mut ledger = self.ledger.lock().await;
        let events = self
            .origins
            .iter()
            .filter_map(|(label, origin)| ledger.record.configure(label, &origin.address))
            .collect();
        self.append(&mut ledger, &By::gateway(), events).await?;
        for label in self.origins.keys() {
            let listing = self.store.listing(label);
            let observed = self.observed(&mut ledger, label);
            observed.stale = true;
            observed.heard = listing.as_ref().map(|listing| listing.heard);
            for text in listing.into_iter().flat_map(|listing| listing.unsized_entries) {
                // One that is whole by now may be an old one: what was seen is the log's to say, not the index's.
                if let Some(entry) = self.unsized_entry_of(label, &text)
                    && let Err(waits) = self.complete(&mut ledger, label, entry)
                {
                    self.observed(&mut ledger, label).note(*waits);
                }
            }
            self.publish(&mut ledger, label);
        }
        Ok(())
    }

    /// Runs disk work off the runtime's threads.
    async fn on_disk<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Store) -> Result<T, store::Error> + Send + 'static,
    ) -> Result<T, Error> {
        let store = self.store.clone();
        let done = tokio::task::spawn_blocking(move || work(&store)).await;
        Ok(done.map_err(|error| Error::Task(error.to_string()))??)
    }
}

/// Reads a skill as operators write it: `label/path`, or its URI in the merged view. `label/~tools` is what the origin says
/// of its tools.
///
/// `label/path` stands for `skill://path/SKILL.md` of that origin; skills under other schemes are named by their merged URI.
pub fn parse_skill(text: &str) -> Option<SkillKey> {
    if text.contains("://") {
        return match crate::domain::mapping::split(text).ok()? {
            crate::domain::mapping::Merged::Skill(label, uri) => Some(SkillKey {
                label,
                uri: skill_uri(uri.as_str())?,
            }),
            crate::domain::mapping::Merged::Passed(..) => None,
        };
    }
    let (label, path) = text.split_once('/')?;
    if path == "~tools" {
        return Some(SkillKey {
            label: label.parse().ok()?,
            uri: Definitions::uri()?,
        });
    }
    Some(SkillKey {
        label: label.parse().ok()?,
        uri: skill_uri(&format!("skill://{path}"))?,
    })
}

/// The skill at `uri`, which may or may not end in `/SKILL.md` yet.
fn skill_uri(uri: &str) -> Option<SkillUri> {
    uri.parse()
        .ok()
        .or_else(|| format!("{uri}/{}", crate::domain::SKILL_FILE).parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_skill_is_named_by_label_and_path_or_by_its_merged_uri() {
        for (text, label, uri) in [
            ("acme/refunds", "acme", "skill://refunds/SKILL.md"),
            ("acme/hr/leave", "acme", "skill://hr/leave/SKILL.md"),
            ("acme/hr/leave/SKILL.md", "acme", "skill://hr/leave/SKILL.md"),
            ("skill://acme/hr/leave/SKILL.md", "acme", "skill://hr/leave/SKILL.md"),
            ("skill://acme/hr/leave", "acme", "skill://hr/leave/SKILL.md"),
            ("skill://acme/~repo/x/leave", "acme", "repo://x/leave/SKILL.md"),
            ("acme/~tools", "acme", "tools://definitions/SKILL.md"),
        ] {
            let key = parse_skill(text).unwrap();
            assert_eq!((key.label.as_str(), key.uri.as_str()), (label, uri), "{text}");
        }
        for text in [
            "refunds",
            "acme",
            "acme/",
            "Acme/refunds",
            "acme/../x",
            "acme+skill://x/y",
            "skill://acme",
            "",
        ] {
            assert_eq!(parse_skill(text), None, "{text}");
        }
    }
}
