//! A life of a data folder, step by step, and what it must hold afterwards.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::sync::LazyLock;

use rand::Rng as _;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom as _;

use super::*;
use crate::domain::Endpoint;
use crate::domain::Method;
use crate::domain::Outcome;
use crate::domain::Source;

/// Skills that stories are about; a long URI lies in a sidecar.
const SKILLS: usize = 4;

/// The one whose origin is listed.
const LISTED: usize = 1;

/// Files of each; more than a batch flushes one by one.
const FILES: usize = 9;

/// One thing that is done to a store.
#[derive(Clone, Copy, Debug)]
pub(super) enum Step {
    PutSet(usize),
    PutFile(usize, usize),
    PutFiles(usize),
    Append(usize),
    RotateKey,
    NewToken,
    RevokeToken,
    Person,
    Quarantine,
    Listing,
    RemoveOrigin(usize),
    Deliver,
    Seal,
}

/// What was acknowledged.
#[derive(Clone, Debug, Default)]
pub(super) struct Model {
    leaves: Vec<Leaf>,
    sets: BTreeSet<usize>,
    files: BTreeSet<(usize, usize)>,
    /// By name: the secret, and whether it still opens.
    tokens: BTreeMap<String, (TokenId, String, bool)>,
    people: BTreeMap<String, Actor>,
    heard: BTreeSet<Timestamp>,
    /// When the set of each skill was first seen.
    seen: BTreeMap<usize, Timestamp>,
    /// When each delivery was made.
    delivered: Vec<Timestamp>,
}

impl Step {
    /// Any step.
    pub(super) fn any(chance: &mut StdRng) -> Self {
        let skill = chance.random_range(0..SKILLS);
        match chance.random_range(0..19) {
            0..2 => Self::PutSet(skill),
            2..4 => Self::PutFile(skill, chance.random_range(0..FILES)),
            4 => Self::PutFiles(skill),
            5..9 => Self::Append(chance.random_range(1..4)),
            9 => Self::NewToken,
            10 => Self::RevokeToken,
            11 => Self::Person,
            12 => [Self::Quarantine, Self::Listing].choose(chance).copied().unwrap(),
            13..16 => Self::Deliver,
            16 => Self::Seal,
            17 => Self::RotateKey,
            _ => Self::RemoveOrigin(skill),
        }
    }

    /// Each kind of step once, in an order in which each changes something.
    pub(super) fn each() -> Vec<Self> {
        vec![
            Self::Append(2),
            Self::PutSet(0),
            Self::PutFile(0, 0),
            Self::PutFiles(0),
            Self::PutSet(SKILLS - 1),
            Self::PutFile(SKILLS - 1, 1),
            Self::NewToken,
            Self::NewToken,
            Self::RevokeToken,
            Self::Person,
            Self::Quarantine,
            Self::Listing,
            Self::RemoveOrigin(0),
            Self::RotateKey,
            Self::Deliver,
            Self::Deliver,
            Self::Seal,
            Self::Deliver,
            Self::Append(1),
        ]
    }
}

/// Each skill has a label of its own, so that removing one leaves the others.
fn subject(skill: usize) -> (SkillKey, Arc<SkillEntry>) {
    let (key, entry, _) = &SUBJECTS[skill];
    (key.clone(), Arc::clone(entry))
}

fn file_of(skill: usize, file: usize) -> VerifiedFile {
    SUBJECTS[skill].2[file].clone()
}

/// Every skill with its files, made once.
static SUBJECTS: LazyLock<Vec<Subject>> = LazyLock::new(|| (0..SKILLS).map(made).collect());

/// A skill, its entry and its files.
type Subject = (SkillKey, Arc<SkillEntry>, Vec<VerifiedFile>);

fn made(skill: usize) -> Subject {
    let name = if skill + 1 == SKILLS {
        "long".repeat(60)
    } else {
        format!("s{skill}")
    };
    let contents: Vec<_> = (0..FILES)
        .map(|file| (file.to_string(), bytes_of(skill, file)))
        .collect();
    let named: Vec<_> = contents
        .iter()
        .map(|(path, bytes)| (path.as_str(), bytes.as_slice()))
        .collect();
    let (mut key, entry) = super::skill(&format!("{name}/x"), &named);
    key.label = format!("label-{skill}").parse().unwrap();
    let files = contents
        .iter()
        .map(|(path, bytes)| verified(&entry, path, bytes, &format!("text/{path}")));
    let files = files.collect();
    (key, entry, files)
}

/// Files of very different lengths, none with the bytes of another.
fn bytes_of(skill: usize, file: usize) -> Vec<u8> {
    let line = format!("file {file} of skill {skill}\n");
    line.repeat(1 + file * file * file * 3).into_bytes()
}

fn token_name(at: u64) -> String {
    format!("token {at}")
}

fn delivery(time: Timestamp) -> NewDelivery {
    let delivery = Delivery {
        time,
        caller: format!("person1:{}", "a".repeat(64)),
        endpoint: Endpoint(None),
        method: Method::Read,
        label: None,
        uri: Some(format!("skill://x/{time}")),
        skill: None,
        digest: Some(Digest::of(b"x")),
        set: None,
        approval: None,
        page: None,
        outcome: Outcome::Delivered,
        source: Some(Source::Memory),
        would: None,
    };
    NewDelivery { delivery, page: None }
}

fn quarantine_note(when: Timestamp) -> QuarantineNote {
    QuarantineNote {
        origin: subject(0).0.label,
        uri: "skill://x".to_owned(),
        expected: Digest::of(b"good").to_string(),
        got: None,
        reason: "digest".to_owned(),
        when,
    }
}

impl Model {
    /// Does a step; what it acknowledges is in the model it gives.
    pub(super) fn after(&self, step: Step, store: &Store, at: u64) -> Result<Self, Error> {
        let mut after = self.attempted(step, at);
        let now = Timestamp::from_millis(NOW.as_millis() + at);
        match step {
            Step::PutSet(skill) => {
                let (key, entry) = subject(skill);
                store.put_set(&key, &entry, "dir", now)?;
                after.seen.entry(skill).or_insert(now);
            }
            Step::PutFile(skill, file) => store.put_file(&subject(skill).0, &file_of(skill, file))?,
            Step::PutFiles(skill) => {
                let files: Vec<_> = (0..FILES).map(|file| file_of(skill, file)).collect();
                let key = subject(skill).0;
                store.put_files(&files.iter().map(|file| (&key, file)).collect::<Vec<_>>())?;
            }
            Step::Append(leaves) => {
                let new = (0..leaves).map(|leaf| held(&format!("s{}", (at as usize + leaf) % SKILLS)));
                let appended = store.append(new.collect(), now);
                // Every call to the disk belongs to its step.
                store.0.log.settle();
                after.leaves.extend(appended?.into_iter().map(|(_, leaf)| leaf));
            }
            Step::RotateKey => {
                let rotated = store.rotate_key(Actor::Gateway, None, now);
                store.0.log.settle();
                after.leaves.push(rotated?.1);
            }
            Step::NewToken => {
                let (id, secret) = store.new_token(&token_name(at), Some("ada"), now)?;
                after.tokens.insert(token_name(at), (id, secret, true));
            }
            Step::RevokeToken => {
                if let Some((id, _, _)) = self.tokens.values().find(|(_, _, opens)| *opens) {
                    assert!(store.revoke_token(id, None, now)?);
                }
            }
            Step::Person => {
                let name = format!("person {at}");
                let actor = store.person(&name)?;
                after.people.insert(name, actor);
            }
            Step::Quarantine => store.quarantine(b"bad", &quarantine_note(now))?,
            Step::Listing => {
                store.put_listing(&subject(LISTED).0.label, &ListingNote::of_sets(now));
                after.heard.insert(now);
            }
            Step::RemoveOrigin(skill) => drop(store.remove_origin(&subject(skill).0.label)?),
            Step::Deliver => {
                let written = store.write_deliveries(&mut [delivery(now)].into(), now);
                let written = written.and_then(|()| store.flush_deliveries());
                store.0.log.settle();
                written?;
            }
            Step::Seal => {
                let sealed = store.seal_deliveries(now);
                store.0.log.settle();
                sealed?;
            }
        }
        Ok(after)
    }

    /// What may be there of a step that failed: all of it or less, but no leaf.
    pub(super) fn attempted(&self, step: Step, at: u64) -> Self {
        let mut after = self.clone();
        match step {
            Step::PutSet(skill) => drop(after.sets.insert(skill)),
            Step::PutFile(skill, file) => drop(after.files.insert((skill, file))),
            Step::PutFiles(skill) => after.files.extend((0..FILES).map(|file| (skill, file))),
            Step::NewToken => {
                let unknown = ("tok-0000000000000000".parse().unwrap(), String::new(), true);
                after.tokens.insert(token_name(at), unknown);
            }
            Step::RevokeToken => {
                if let Some((_, _, opens)) = after.tokens.values_mut().find(|(_, _, opens)| *opens) {
                    *opens = false;
                }
            }
            Step::RemoveOrigin(skill) => {
                after.sets.remove(&skill);
                after.seen.remove(&skill);
                after.files.retain(|(of, _)| *of != skill);
            }
            Step::Deliver => after.delivered.push(Timestamp::from_millis(NOW.as_millis() + at)),
            Step::Append(_) | Step::RotateKey | Step::Person | Step::Quarantine | Step::Listing | Step::Seal => {}
        }
        after
    }

    /// Compares what a store answers with what was acknowledged before (`self`) and what was on its way (`after`): that
    /// is there wholly or not at all.
    pub(super) fn compare_answers(&self, after: &Self, store: &Store) -> Result<(), String> {
        let mut found = Vec::new();
        let replayed = store.replay(&mut |_, leaf| {
            // Those about tokens and segments of deliveries come by other steps, or by a start.
            if leaf.event.skill().is_some() || matches!(leaf.event, Event::KeyRotated { .. }) {
                found.push(leaf.clone());
            }
        });
        replayed.map_err(|error| error.to_string())?;
        if found != self.leaves && found != after.leaves {
            return Err(format!(
                "the log has {} leaves, not {} or {}",
                found.len(),
                self.leaves.len(),
                after.leaves.len()
            ));
        }
        self.compare_content(after, store)?;
        self.compare_deliveries(after, store)?;
        self.compare_callers(after, store)
    }

    /// The same, and that everything on the disk is sound.
    pub(super) fn compare(&self, after: &Self, store: &Store) -> Result<(), String> {
        self.compare_answers(after, store)?;
        let faults = faults(store);
        if !faults.is_empty() {
            return Err(format!("the log: {faults:?}"));
        }
        let deliveries = store.verify_deliveries(&mut |_| {});
        let deliveries = deliveries.map_err(|error| error.to_string())?;
        if !deliveries.is_sound() {
            return Err(format!("deliveries: {:?}", deliveries.faults));
        }
        let report = store.verify(&mut |_| {}).map_err(|error| error.to_string())?;
        // Of a file that was on its way, the name may be on the disk before that of the note beside it.
        let is_whole = |damage: &Damage| damage.what != Damaged::Media || self.files == after.files;
        match report.damaged.iter().find(|damage| is_whole(damage)) {
            None => Ok(()),
            Some(damage) => Err(format!("{damage:?}")),
        }
    }

    fn compare_content(&self, after: &Self, store: &Store) -> Result<(), String> {
        for skill in 0..SKILLS {
            let (key, entry) = subject(skill);
            let found = store.set(&key, entry.set());
            expected(
                &format!("set {skill}"),
                found.is_some(),
                [self.sets.contains(&skill), after.sets.contains(&skill)],
            )?;
            if found.is_some_and(|found| found.text() != entry.text()) {
                return Err(format!("set {skill} is another one"));
            }
            for file in 0..FILES {
                let name = format!("file {file} of skill {skill}");
                let read = store.read_file(&key, &resource(&entry, &file.to_string()), NOW);
                let known = [self, after].map(|model| model.files.contains(&(skill, file)));
                let media = match read.map_err(|error| format!("{name}: {error}"))? {
                    StoredFile::Intact(bytes, _) if bytes != file_of(skill, file).bytes() => {
                        return Err(format!("{name} has other bytes"));
                    }
                    StoredFile::Intact(_, media) => Some(media),
                    StoredFile::Absent => None,
                    StoredFile::Damaged { .. } => return Err(format!("{name} is damaged")),
                };
                expected(&name, media.is_some(), known)?;
                if known == [true, true] && media.as_ref() != Some(file_of(skill, file).media()) {
                    return Err(format!("{name} came as {media:?}"));
                }
            }
        }
        Ok(())
    }

    fn compare_deliveries(&self, after: &Self, store: &Store) -> Result<(), String> {
        let mut found = Vec::new();
        let looked = store.deliveries(&Wanted::default(), &mut |delivery| {
            found.push(delivery.time);
            ControlFlow::Continue(())
        });
        let looked = looked.map_err(|error| error.to_string())?;
        found.sort_unstable();
        if looked.damaged.is_empty() && (found == self.delivered || found == after.delivered) {
            return Ok(());
        }
        let known = (&self.delivered, &after.delivered);
        Err(format!(
            "deliveries {found:?} are there, not {known:?}: {:?} is gone",
            looked.damaged
        ))
    }

    fn compare_callers(&self, after: &Self, store: &Store) -> Result<(), String> {
        for (name, (_, secret, opened)) in &self.tokens {
            let opens = after.tokens.get(name).is_some_and(|(_, _, opens)| *opens);
            expected(name, store.token_by_secret(secret).is_some(), [*opened, opens])?;
        }
        let (fewest, most, found) = (self.tokens.len(), after.tokens.len(), store.tokens().len());
        if found > most {
            return Err(format!("{found} tokens, not {most}"));
        }
        if found < fewest {
            return Err(format!("one of {fewest} tokens is gone"));
        }
        for (name, actor) in &self.people {
            if store.person_name(actor).as_deref() != Some(name) {
                return Err(format!("{name} has no name"));
            }
        }
        let heard = store.listing(&subject(LISTED).0.label).map(|listing| listing.heard);
        let known = |model: &Self| model.heard.iter().chain(model.seen.get(&LISTED)).max().copied();
        // The index may be an old one, or one that knows no more than when sets were first seen.
        let latest = known(after).max(known(self));
        if heard > latest || heard.is_none() && self.sets.contains(&LISTED) && after.sets.contains(&LISTED) {
            return Err(format!("heard at {heard:?}, not {latest:?}"));
        }
        Ok(())
    }
}

/// What is the same before and after must be so; what is on its way may be either.
fn expected(what: &str, is: bool, [before, after]: [bool; 2]) -> Result<(), String> {
    if is == before || is == after {
        Ok(())
    } else {
        Err(format!("{what} is {}", if is { "there" } else { "gone" }))
    }
}
