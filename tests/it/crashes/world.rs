//! Origins that change, and what is done to each of their skills until the gateway is gone.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use portcullis::admin::Client;
use portcullis::admin::Command;
use portcullis::admin::Failure;
use portcullis::admin::Fault;
use portcullis::domain::Limits;
use portcullis::domain::SkillEntry;
use portcullis::domain::SkillKey;
use portcullis::gateway::Recall;
use rand::Rng as _;
use rand::rngs::StdRng;
use serde_json::Value;

use super::record::Record;
use crate::support::client::Answer;
use crate::support::client::Host;
use crate::support::origin::Origin;
use crate::support::skill::Skill;

/// The labels of the origins.
const LABELS: [&str; 2] = ["acme", "globex"];

/// The skills of each.
const NAMES: [&str; 3] = ["refunds", "returns", "travel"];

/// How many versions of each skill there are; old ones come back.
const VERSIONS: usize = 4;

/// The files of each.
const PATHS: [&str; 3] = ["SKILL.md", "state.md", "form.bin"];

/// The origins.
pub(super) struct World {
    origins: BTreeMap<&'static str, Arc<Origin>>,
}

/// One skill, and everything that was said about it.
pub(super) struct Subject {
    label: &'static str,
    name: &'static str,
    uri: String,
    key: SkillKey,
    origin: Arc<Origin>,
    /// The versions, by set.
    versions: BTreeMap<String, Skill>,
    decisions: Vec<Decision>,
    /// Pulls by set: those that were acknowledged, and those that may have happened.
    pulls: BTreeMap<String, (usize, usize)>,
    /// The set in force by what the gateway acknowledged.
    in_force: Option<String>,
    reads: usize,
}

/// The most leaves that one decision makes: a recall of a set that is kept and of the one seen.
pub(super) const MOST_LEAVES: usize = 2;

/// A decision that an operator made.
pub(super) struct Decision {
    pub(super) note: String,
    pub(super) kind: &'static str,
    pub(super) outcome: Outcome,
    set: Option<String>,
}

/// What became of a decision.
pub(super) enum Outcome {
    /// Nobody answered.
    InFlight,
    /// It was said to be in force, with so many leaves.
    Acknowledged { leaves: usize, is_counted: bool },
    /// It was refused, or changed nothing.
    Refused,
}

impl World {
    /// Two origins with the first version of every skill.
    pub(super) fn new() -> Self {
        let origins = LABELS.map(|label| {
            let skills = NAMES.map(|name| version(name, 0));
            (label, Arc::new(Origin::with(skills)))
        });
        Self {
            origins: origins.into(),
        }
    }

    /// One of them.
    pub(super) fn origin(&self, label: &str) -> &Origin {
        &self.origins[label]
    }

    /// Every skill of both.
    pub(super) fn subjects(&self) -> Vec<Subject> {
        let skills = LABELS.iter().flat_map(|label| NAMES.map(|name| (*label, name)));
        skills
            .map(|(label, name)| Subject::new(label, name, &self.origins[label]))
            .collect()
    }
}

/// One version of a skill.
fn version(name: &str, number: usize) -> Skill {
    Skill::at(&format!("skill://{name}/SKILL.md"))
        .text("state.md", format!("# {name}\n\nThis is version {number}.\n"))
        .blob("form.bin", vec![0x80 | u8::try_from(number).unwrap(); 3_000])
}

/// Has the running gateway carry out a command.
async fn ask(socket: &Path, command: &Command) -> Result<Value, Failure> {
    let gone = || Failure::unknown("nobody listens".to_owned());
    let client = Client::connect(socket).await?.ok_or_else(gone)?;
    client.run(command, &mut |_| Ok(())).await
}

/// The skills as operators see them.
pub(super) async fn skills(socket: &Path) -> Value {
    ask(socket, &Command::Skills).await.unwrap()
}

impl Subject {
    fn new(label: &'static str, name: &'static str, origin: &Arc<Origin>) -> Self {
        let versions = (0..VERSIONS).map(|number| {
            let skill = version(name, number);
            let entry = SkillEntry::parse(&skill.entry(), &Limits::default()).unwrap();
            (entry.set().to_string(), skill)
        });
        let uri = version(name, 0).uri;
        Self {
            label,
            name,
            key: SkillKey {
                label: label.parse().unwrap(),
                uri: uri.parse().unwrap(),
            },
            uri,
            origin: Arc::clone(origin),
            versions: versions.collect(),
            decisions: Vec::new(),
            pulls: BTreeMap::new(),
            in_force: None,
            reads: 0,
        }
    }

    pub(super) fn label(&self) -> &str {
        self.label
    }

    pub(super) fn uri(&self) -> &str {
        &self.uri
    }

    /// Says whether an item of the listing is about this.
    pub(super) fn is(&self, item: &Value) -> bool {
        item["label"] == self.label && item["uri"] == self.uri
    }

    /// Takes in what is in force after a start.
    pub(super) fn learn(&mut self, approved: Option<String>) {
        self.in_force = approved;
    }

    pub(super) fn decisions_mut(&mut self) -> &mut Vec<Decision> {
        &mut self.decisions
    }

    /// How many reads were answered since this was last asked.
    pub(super) fn take_reads(&mut self) -> usize {
        std::mem::take(&mut self.reads)
    }

    /// Says whether every file of a set was pulled for sure.
    pub(super) fn was_pulled(&self, set: Option<&str>) -> bool {
        set.and_then(|set| self.pulls.get(set))
            .is_some_and(|(sure, _)| *sure > 0)
    }

    /// Does one thing after another until nobody answers any more.
    pub(super) async fn work(&mut self, host: &Host, socket: &Path, mut chance: StdRng) {
        loop {
            let goes_on = match chance.random_range(0..10) {
                0 => self.change(chance.random_range(0..VERSIONS)),
                1 | 2 => self.approve(socket).await,
                3 => self.deny(socket).await,
                4 => self.revoke(socket).await,
                5 => self.pull(socket).await,
                6 => self.recall(socket).await,
                _ => self.read(host, PATHS[chance.random_range(0..PATHS.len())]).await,
            };
            if goes_on.is_none() {
                return;
            }
        }
    }

    /// The origin shows another version, or again the same.
    fn change(&self, number: usize) -> Option<()> {
        self.origin
            .change(&self.uri, |skill| *skill = version(self.name, number));
        Some(())
    }

    /// The set that the gateway has seen last; none inside when it has seen none.
    async fn seen(&self, socket: &Path) -> Option<Option<String>> {
        let skill = self.key.clone();
        match ask(socket, &Command::Show { skill }).await {
            Ok(shown) => Some(shown["set"].as_str().map(str::to_owned)),
            Err(failure) => (failure.fault == Fault::No).then_some(None),
        }
    }

    async fn approve(&mut self, socket: &Path) -> Option<()> {
        let Some(set) = self.seen(socket).await? else {
            return Some(());
        };
        let command = Command::Approve {
            skill: self.key.clone(),
            set: set.parse().unwrap(),
            note: Some(self.next_note()),
            expires_in: None,
            reviewed: None,
        };
        let approved = self.decide("approved", Some(set.clone()), socket, &command).await?;
        if approved.is_some() {
            self.in_force = Some(set);
        }
        Some(())
    }

    async fn deny(&mut self, socket: &Path) -> Option<()> {
        let Some(set) = self.seen(socket).await? else {
            return Some(());
        };
        let command = Command::Deny {
            skill: self.key.clone(),
            set: Some(set.parse().unwrap()),
            note: Some(self.next_note()),
        };
        let denied = self.decide("denied", Some(set.clone()), socket, &command).await?;
        if denied.is_some() && self.in_force == Some(set) {
            self.in_force = None;
        }
        Some(())
    }

    async fn revoke(&mut self, socket: &Path) -> Option<()> {
        let command = Command::Revoke {
            skill: self.key.clone(),
            note: Some(self.next_note()),
        };
        if self.decide("revoked", None, socket, &command).await?.is_some() {
            self.in_force = None;
        }
        Some(())
    }

    async fn recall(&mut self, socket: &Path) -> Option<()> {
        let command = Command::Recall {
            what: Recall::Skill(self.key.clone()),
            note: Some(self.next_note()),
        };
        if self.decide("recalled", None, socket, &command).await?.is_some() {
            self.in_force = None;
        }
        Some(())
    }

    fn next_note(&self) -> String {
        format!("{}/{} decision {}", self.label, self.name, self.decisions.len())
    }

    /// Makes one decision; gives the answer unless it was refused, and nothing when nobody answers.
    async fn decide(
        &mut self,
        kind: &'static str,
        set: Option<String>,
        socket: &Path,
        command: &Command,
    ) -> Option<Option<Value>> {
        let note = self.next_note();
        let answer = ask(socket, command).await;
        let outcome = match &answer {
            Ok(decided) if decided["changed"] == true => Outcome::Acknowledged {
                leaves: decided["sets"].as_array().unwrap().len(),
                is_counted: false,
            },
            Ok(recalled) if recalled["closed"].as_array().is_some_and(|closed| !closed.is_empty()) => {
                Outcome::Acknowledged {
                    leaves: recalled["closed"].as_array().unwrap().len(),
                    is_counted: false,
                }
            }
            Ok(_) => Outcome::Refused,
            Err(failure) if failure.fault == Fault::No => Outcome::Refused,
            Err(failure) => {
                assert_eq!(failure.fault, Fault::Unknown, "{note}: {failure}");
                Outcome::InFlight
            }
        };
        let is_lost = matches!(outcome, Outcome::InFlight);
        self.decisions.push(Decision {
            note,
            kind,
            outcome,
            set,
        });
        (!is_lost).then(|| answer.ok())
    }

    async fn pull(&mut self, socket: &Path) -> Option<()> {
        let skill = self.key.clone();
        match ask(socket, &Command::Pull { skill }).await {
            Ok(pulled) => {
                let set = pulled["set"].as_str().unwrap().to_owned();
                self.pulls.entry(set).or_default().0 += 1;
                Some(())
            }
            // Its origin shows other files by now.
            Err(failure) if failure.fault == Fault::No => Some(()),
            Err(_) => {
                for set in self.versions.keys() {
                    self.pulls.entry(set.clone()).or_default().1 += 1;
                }
                None
            }
        }
    }

    async fn read(&mut self, host: &Host, path: &str) -> Option<()> {
        let answer = host.read_if_it_answers(&self.merged(path)).await?;
        if answer.json.get("result").is_some() {
            self.assert_served(&answer, path);
            self.reads += 1;
        }
        Some(())
    }

    fn merged(&self, path: &str) -> String {
        format!("skill://{}/{}/{path}", self.label, self.name)
    }

    /// An answer is the file of the one set that is in force.
    fn assert_served(&self, answer: &Answer, path: &str) {
        let set = answer.result()["_meta"]["dev.portcullis/set"].as_str().unwrap();
        assert_eq!(self.in_force.as_deref(), Some(set), "{}", answer.text);
        assert_eq!(answer.bytes(), self.versions[set].bytes(path), "{path} of {set}");
    }

    /// Reads every file.
    pub(super) async fn assert_reads(&self, host: &Host) {
        for path in PATHS {
            let answer = host.read(&self.merged(path)).await;
            if answer.json.get("result").is_some() {
                self.assert_served(&answer, path);
            } else {
                let reason = answer.reason();
                assert!(["held", "unknown", "mismatch"].contains(&reason), "{}", answer.text);
            }
        }
    }

    /// Every pull that was acknowledged is on the record, and no other but those that were in flight.
    pub(super) fn assert_pulls(&self, record: &Record) {
        let mut found: BTreeMap<&str, usize> = BTreeMap::new();
        for leaf in record
            .of(self.label, &self.uri)
            .filter(|leaf| leaf["action"] == "pulled")
        {
            *found.entry(leaf["set"].as_str().unwrap()).or_default() += 1;
        }
        for set in self.versions.keys() {
            let (sure, perhaps) = self.pulls.get(set).copied().unwrap_or_default();
            let count = found.remove(set.as_str()).unwrap_or_default();
            assert!(
                (sure..=sure + perhaps).contains(&count),
                "{count} pulls of {set}, not {sure} to {}",
                sure + perhaps
            );
        }
        assert!(found.is_empty(), "nobody pulled {found:?}");
    }
}

impl Decision {
    /// A leaf says what was decided.
    pub(super) fn assert_is(&self, leaf: &Value) {
        let actions: &[&str] = match self.kind {
            // What is approved is revoked, what waits is denied.
            "recalled" => &["revoked", "denied"],
            kind => &[kind],
        };
        assert!(actions.iter().any(|action| leaf["action"] == *action), "{leaf}");
        assert!(
            self.set.as_ref().is_none_or(|set| leaf["set"] == set.as_str()),
            "{leaf}"
        );
    }
}
