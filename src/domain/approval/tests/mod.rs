//! The machine step by step.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::LazyLock;
use std::time::Duration;

use serde_json::json;

use super::*;
use crate::domain::Circumstances;
use crate::domain::Decision;
use crate::domain::Held;
use crate::domain::Limits;
use crate::domain::OnChange;
use crate::domain::Policy;
use crate::domain::ServePermit;
use crate::domain::SetId;
use crate::domain::SkillEntry;
use crate::domain::StoredSets;
use crate::domain::decide;
use crate::domain::policy::Barred;
use crate::domain::policy::Source;

mod machine;

const NOW: Timestamp = Timestamp::from_millis(1_000_000);

fn skill() -> SkillKey {
    SkillKey {
        label: "acme".parse().unwrap(),
        uri: "skill://refunds/SKILL.md".parse().unwrap(),
    }
}

/// A file that the sets 1 and 2 have.
const SHARED: &[u8] = b"shared";

/// The sets 0 to 3.
static ENTRIES: LazyLock<Vec<Arc<SkillEntry>>> = LazyLock::new(|| {
    let entry = |n: u8| {
        let file = |path: &str, bytes: &[u8]| json!({ "uri": format!("skill://refunds/{path}"), "digest": Digest::of(bytes).to_string(), "size": bytes.len() });
        let mut files = vec![file("SKILL.md", &[n])];
        files.extend([1, 2].contains(&n).then(|| file("shared.md", SHARED)));
        let entry = json!({
            "uri": "skill://refunds/SKILL.md",
            "frontmatter": { "name": "refunds", "description": "d" },
            "resources": files,
        });
        Arc::new(SkillEntry::parse(&entry.to_string(), &Limits::default()).unwrap())
    };
    (0..4).map(entry).collect()
});

fn entry(n: u8) -> &'static Arc<SkillEntry> {
    &ENTRIES[usize::from(n)]
}

fn set(n: u8) -> SetId {
    entry(n).set()
}

fn person(name: &str) -> Actor {
    Actor::Person(format!("person1:{name}"))
}

/// Everything is stored.
struct Stored;

impl StoredSets for Stored {
    fn entry(&self, _: &SkillKey, set: SetId) -> Option<Arc<SkillEntry>> {
        ENTRIES.iter().find(|entry| entry.set() == set).cloned()
    }

    fn is_whole(&self, _: &SkillKey, _: &SkillEntry) -> bool {
        true
    }
}

fn proposal(n: u8, expires: Option<Timestamp>) -> Proposal<'static> {
    Proposal {
        set: set(n),
        files: Some(entry(n).resources()),
        expires,
        reviewed: None,
    }
}

/// A log that applies what it appends.
#[derive(Default)]
struct Log {
    record: Record,
    leaves: Vec<Leaf>,
}

impl Log {
    fn with_origin() -> Self {
        let mut log = Self::default();
        log.configure("https://acme.example/mcp");
        log
    }

    fn append(&mut self, event: Event) {
        self.append_as(&Actor::Gateway, NOW, event);
    }

    fn append_as(&mut self, actor: &Actor, time: Timestamp, event: Event) {
        let leaf = Leaf {
            v: Leaf::VERSION,
            time,
            actor: actor.clone(),
            event,
            note: None,
            prev: None,
        };
        self.record.apply(self.leaves.len() as u64, &leaf);
        self.leaves.push(leaf);
    }

    fn configure(&mut self, address: &str) {
        if let Some(event) = self.record.configure(&skill().label, address) {
            self.append(event);
        }
    }

    fn origin(&self) -> &OriginRecord {
        self.record.origin(&skill().label).unwrap()
    }

    fn see(&mut self, n: u8, on_change: OnChange) {
        for event in self.origin().observe(&skill(), set(n), on_change) {
            self.append(event);
        }
    }

    fn approve(&mut self, n: u8) -> Result<(), Refusal> {
        self.vote(n, "ada", 1, &[]).map(|_| ())
    }

    /// The outcome of one person's word, which is recorded.
    fn vote(&mut self, n: u8, by: &str, quorum: u32, listed: &[&str]) -> Result<VoteOutcome, Refusal> {
        let (by, listed) = (person(by), listed.iter().map(|name| person(name)).collect::<Vec<_>>());
        let ballot = Ballot {
            quorum: NonZeroU32::new(quorum).unwrap(),
            by: &by,
            listed: &listed,
        };
        let recalls = self.record.recalls();
        let outcome = self.origin().approve(&skill(), &proposal(n, None), &ballot, recalls)?;
        match outcome.clone() {
            VoteOutcome::Stands => {}
            VoteOutcome::Voted(event, _) => event.into_iter().for_each(|event| self.append_as(&by, NOW, event)),
            VoteOutcome::Decided(event) => self.append_as(&by, NOW, event),
        }
        Ok(outcome)
    }

    /// What is served now, and on what ground.
    fn decided(&self, policy: &Policy, now: Timestamp) -> Result<ServePermit, Held> {
        let circumstances = Circumstances {
            now,
            heard: None,
            closed: None,
            unreadable: None,
            recalls: self.record.recalls(),
        };
        match decide(&skill(), self.origin(), policy, &Stored, circumstances) {
            Decision::Serve(permit) => Ok(permit),
            Decision::Hold(held) => Err(held),
        }
    }

    fn served_under(&self, on_change: OnChange, now: Timestamp) -> Option<u8> {
        let policy = Policy {
            on_change,
            ..Policy::default()
        };
        let served = self.decided(&policy, now).ok()?.entry().set();
        (0..4).find(|n| set(*n) == served)
    }

    fn state(&self) -> SkillState {
        self.origin().skill(&skill().uri).unwrap().state(NOW)
    }
}

#[test]
fn a_set_is_held_until_exactly_it_is_approved() {
    let mut log = Log::with_origin();
    assert_eq!(log.approve(1), Err(Refusal::Unknown));
    log.see(1, OnChange::Suspend);
    assert_eq!(log.state(), SkillState::Pending);
    assert_eq!(
        log.approve(2),
        Err(Refusal::OtherSet {
            named: set(2),
            seen: Some(set(1))
        })
    );
    log.approve(1).unwrap();
    assert_eq!(log.state(), SkillState::Approved);
    let leaves = log.leaves.len();
    log.approve(1).unwrap();
    log.see(1, OnChange::Suspend);
    assert_eq!(log.leaves.len(), leaves, "nothing new is recorded twice");
}

#[test]
fn a_changed_skill_is_held_also_when_the_old_set_comes_back() {
    let mut log = Log::with_origin();
    log.see(1, OnChange::Suspend);
    log.approve(1).unwrap();
    log.see(2, OnChange::Suspend);
    assert_eq!(log.state(), SkillState::Changed);
    assert_eq!(log.origin().skill(&skill().uri).unwrap().approved().count(), 0);
    log.see(1, OnChange::Suspend);
    assert_eq!(log.state(), SkillState::Changed);
    log.approve(1).unwrap();
    assert_eq!(log.state(), SkillState::Approved);
}

#[test]
fn keeping_lets_the_old_approval_stand_until_a_new_one() {
    let mut log = Log::with_origin();
    log.see(1, OnChange::Keep);
    log.approve(1).unwrap();
    log.see(2, OnChange::Keep);
    assert_eq!(log.state(), SkillState::Changed);
    let leaves = log.leaves.len();
    log.see(2, OnChange::Keep);
    assert_eq!(log.leaves.len(), leaves);
    let approved = |log: &Log| {
        log.origin()
            .skill(&skill().uri)
            .unwrap()
            .approved()
            .map(|(set, _)| set)
            .collect::<Vec<_>>()
    };
    assert_eq!(approved(&log), [set(1)]);
    log.see(2, OnChange::Suspend);
    assert!(
        approved(&log).is_empty(),
        "a policy made stricter takes effect at the next look"
    );
}

#[test]
fn what_was_once_said_of_the_set_now_seen_does_not_end_the_kept_one() {
    for close in [
        |log: &Log| vec![log.origin().deny(&skill(), set(2)).unwrap().unwrap()],
        |log: &Log| log.origin().revoke(&skill()).unwrap(),
    ] {
        let mut log = Log::with_origin();
        log.see(2, OnChange::Keep);
        log.approve(2).unwrap();
        close(&log).into_iter().for_each(|event| log.append(event));
        log.see(1, OnChange::Keep);
        log.approve(1).unwrap();
        log.see(2, OnChange::Keep);
        assert_eq!(log.served_under(OnChange::Keep, NOW), Some(1));
        assert_eq!(log.served_under(OnChange::Suspend, NOW), None);
    }
}

#[test]
fn a_withdrawn_skill_returns_with_its_approval_when_the_same_set_does() {
    let mut log = Log::with_origin();
    log.see(1, OnChange::Suspend);
    log.approve(1).unwrap();
    log.append(log.origin().withdraw(&skill()).unwrap());
    assert_eq!(log.state(), SkillState::Withdrawn);
    assert_eq!(log.origin().withdraw(&skill()), None);
    log.see(1, OnChange::Suspend);
    assert_eq!(log.state(), SkillState::Approved);
    log.append(log.origin().withdraw(&skill()).unwrap());
    log.see(2, OnChange::Suspend);
    assert_eq!(log.state(), SkillState::Changed);
}

#[test]
fn denial_and_revocation_are_remembered() {
    let mut log = Log::with_origin();
    log.see(1, OnChange::Suspend);
    assert_eq!(log.origin().revoke(&skill()), Err(Refusal::NotApproved));
    log.append(log.origin().deny(&skill(), set(1)).unwrap().unwrap());
    assert_eq!(log.state(), SkillState::Denied);
    assert_eq!(log.origin().deny(&skill(), set(1)), Ok(None));
    log.see(2, OnChange::Suspend);
    log.see(1, OnChange::Suspend);
    assert_eq!(log.state(), SkillState::Denied);
    log.approve(1).unwrap();
    for event in log.origin().revoke(&skill()).unwrap() {
        log.append(event);
    }
    assert_eq!(log.state(), SkillState::Revoked);
}

#[test]
fn approvals_wait_while_a_label_points_elsewhere() {
    let mut log = Log::with_origin();
    log.see(1, OnChange::Suspend);
    log.approve(1).unwrap();
    log.configure("https://other.example/mcp");
    assert!(log.origin().is_moved());
    assert_eq!(log.approve(1), Err(Refusal::AddressMoved));
    let (label, fingerprint) = (skill().label, log.origin().address());
    log.append(Event::OriginAccepted {
        label,
        fingerprint,
        votes: Vec::new(),
    });
    assert!(!log.origin().is_moved());
    assert_eq!(log.state(), SkillState::Approved);
    let held = log.origin().skill(&skill().uri).unwrap().approved().next().unwrap().1;
    assert_eq!(held.fingerprint, log.origin().address());
}

#[test]
fn a_removed_origin_comes_back_without_its_approvals() {
    let mut log = Log::with_origin();
    log.see(1, OnChange::Suspend);
    log.approve(1).unwrap();
    log.append(Event::OriginRemoved { label: skill().label });
    assert!(log.record.origin(&skill().label).is_none());
    let last = log.record.last_leaf(&skill());
    log.configure("https://acme.example/mcp");
    assert_eq!(log.origin().skills().count(), 0);
    assert_eq!(log.record.last_leaf(&skill()), last, "the chain of its leaves goes on");
    log.see(1, OnChange::Suspend);
    assert_eq!(log.state(), SkillState::Pending);
}

fn tally(votes: u32, yours_already: bool) -> Tally {
    Tally {
        votes,
        of: NonZeroU32::new(2).unwrap(),
        yours_already,
    }
}

/// The votes that an approval names.
fn deciding(outcome: VoteOutcome) -> Vec<u64> {
    match outcome {
        VoteOutcome::Decided(Event::Approved { votes, rule: None, .. }) => votes,
        other @ (VoteOutcome::Decided(_) | VoteOutcome::Stands | VoteOutcome::Voted(..)) => panic!("{other:?}"),
    }
}

#[test]
fn two_people_approve_and_one_person_twice_does_not() {
    let mut log = Log::with_origin();
    log.see(1, OnChange::Suspend);
    let listed = ["ada", "bob"];
    let first = log.vote(1, "ada", 2, &listed).unwrap();
    assert!(matches!(first, VoteOutcome::Voted(Some(Event::Voted { .. }), told) if told == tally(1, false)));
    let leaf = log.leaves.len() as u64 - 1;
    let leaves = log.leaves.len();
    assert_eq!(
        log.vote(1, "ada", 2, &listed),
        Ok(VoteOutcome::Voted(None, tally(1, true)))
    );
    assert_eq!(log.leaves.len(), leaves, "no second leaf");
    assert_eq!(log.state(), SkillState::Pending);
    let quorum = NonZeroU32::new(2).unwrap();
    assert_eq!(log.vote(1, "eve", 2, &listed), Err(Refusal::NotListed { quorum }));
    assert_eq!(deciding(log.vote(1, "bob", 2, &listed).unwrap()), [leaf]);
    assert_eq!(log.state(), SkillState::Approved);
    assert_eq!(log.vote(1, "bob", 2, &listed), Ok(VoteOutcome::Stands));
}

#[test]
fn whatever_ends_what_was_voted_for_ends_the_votes() {
    let listed = ["ada", "bob"];
    let back = |log: &mut Log, n| log.see(n, OnChange::Suspend);
    let ends: [fn(&mut Log); 6] = [
        |log| log.see(2, OnChange::Suspend),
        |log| log.append(log.origin().deny(&skill(), set(1)).unwrap().unwrap()),
        |log| log.append(log.origin().withdraw(&skill()).unwrap()),
        |log| {
            log.configure("elsewhere");
            log.configure("https://acme.example/mcp");
        },
        |log| {
            let digest = Digest::of(SHARED);
            log.append(Event::Recalled { digest });
            log.append(Event::RecallLifted { digest });
        },
        |log| {
            log.append(Event::Forgotten {
                person: "person1:ada".to_owned(),
            });
        },
    ];
    for (number, end) in ends.into_iter().enumerate() {
        let mut log = Log::with_origin();
        back(&mut log, 1);
        log.vote(1, "ada", 2, &listed).unwrap();
        end(&mut log);
        back(&mut log, 1);
        let outcome = log.vote(1, "bob", 2, &listed).unwrap();
        assert!(
            matches!(outcome, VoteOutcome::Voted(Some(_), told) if told == tally(1, false)),
            "{number}"
        );
    }
}

#[test]
fn a_second_no_ends_the_votes_that_came_after_the_first() {
    let mut log = Log::with_origin();
    log.see(1, OnChange::Suspend);
    for _ in 0..2 {
        log.append(log.origin().deny(&skill(), set(1)).unwrap().unwrap());
        assert_eq!(log.origin().deny(&skill(), set(1)), Ok(None));
        let outcome = log.vote(1, "ada", 2, &["ada", "bob"]).unwrap();
        assert!(matches!(outcome, VoteOutcome::Voted(Some(_), told) if told == tally(1, false)));
    }
}

#[test]
fn who_is_listed_no_more_counts_no_more() {
    let mut log = Log::with_origin();
    log.see(1, OnChange::Suspend);
    log.vote(1, "ada", 2, &["ada", "bob", "cem"]).unwrap();
    let outcome = log.vote(1, "bob", 2, &["bob", "cem"]).unwrap();
    assert!(matches!(outcome, VoteOutcome::Voted(Some(_), told) if told == tally(1, false)));
    assert_eq!(deciding(log.vote(1, "ada", 2, &["ada", "bob"]).unwrap()).len(), 1);
}

#[test]
fn another_address_takes_as_many_people() {
    let mut log = Log::with_origin();
    log.see(1, OnChange::Suspend);
    log.approve(1).unwrap();
    log.configure("elsewhere");
    let listed = [person("ada"), person("bob")];
    for (by, votes) in [(&listed[0], None), (&listed[0], None), (&listed[1], Some(1))] {
        let ballot = Ballot {
            quorum: NonZeroU32::new(2).unwrap(),
            by,
            listed: &listed,
        };
        match log.origin().accept(&skill().label, &ballot).unwrap() {
            VoteOutcome::Voted(event, _) => event.into_iter().for_each(|event| log.append_as(by, NOW, event)),
            VoteOutcome::Decided(event) => {
                assert!(matches!(&event, Event::OriginAccepted { votes: of, .. } if Some(of.len()) == votes));
                log.append_as(by, NOW, event);
            }
            VoteOutcome::Stands => panic!("it moved"),
        }
    }
    assert_eq!(log.served_under(OnChange::Suspend, NOW), Some(1));
}

#[test]
fn an_approval_that_ended_by_itself_stays_ended_when_clocks_are_set_back() {
    let mut log = Log::with_origin();
    log.see(1, OnChange::Suspend);
    let end = NOW.checked_add(Duration::from_secs(1)).unwrap();
    let ballot = Ballot {
        quorum: NonZeroU32::MIN,
        by: &Actor::Gateway,
        listed: &[],
    };
    let outcome = log
        .origin()
        .approve(&skill(), &proposal(1, Some(end)), &ballot, log.record.recalls());
    let Ok(VoteOutcome::Decided(event)) = outcome else {
        panic!()
    };
    log.append(event);
    assert_eq!(log.record.next_end(NOW), Some(end));
    assert_eq!(log.origin().ended(&skill().label, NOW), []);
    assert_eq!(log.served_under(OnChange::Suspend, NOW), Some(1));
    assert_eq!(log.served_under(OnChange::Suspend, end), None);
    log.origin()
        .ended(&skill().label, end)
        .into_iter()
        .for_each(|event| log.append(event));
    assert_eq!(log.served_under(OnChange::Suspend, NOW), None);
    assert_eq!((log.state(), log.record.next_end(NOW)), (SkillState::Expired, None));
    assert_eq!(log.origin().ended(&skill().label, end), []);
}

#[test]
fn a_rule_approves_what_nobody_said_no_to() {
    let by_rule = |log: &Log, n| {
        let recalls = log.record.recalls();
        log.origin()
            .approve_by_rule(&skill(), &proposal(n, None), &Source::Policy, recalls)
    };
    let mut log = Log::with_origin();
    log.see(1, OnChange::Suspend);
    assert_eq!(by_rule(&log, 2), None, "not the set now seen");
    let event = by_rule(&log, 1).unwrap();
    assert!(matches!(&event, Event::Approved { rule: Some(rule), .. } if rule == "policy"));
    log.append(event);
    assert_eq!(by_rule(&log, 1), None, "it is approved");
    log.see(2, OnChange::Suspend);
    assert!(by_rule(&log, 2).is_some());
    log.append(Event::Recalled {
        digest: Digest::of(SHARED),
    });
    assert_eq!(by_rule(&log, 2), None, "recalled");
    log.see(3, OnChange::Suspend);
    log.append(log.origin().deny(&skill(), set(3)).unwrap().unwrap());
    assert_eq!(by_rule(&log, 3), None, "denied");
    log.see(0, OnChange::Suspend);
    log.append(by_rule(&log, 0).unwrap());
    log.origin()
        .revoke(&skill())
        .unwrap()
        .into_iter()
        .for_each(|event| log.append(event));
    log.see(3, OnChange::Suspend);
    log.approve(3).unwrap();
    log.see(0, OnChange::Suspend);
    let record = log.origin().skill(&skill().uri).unwrap();
    assert_eq!(log.origin().barred(record), Some(Barred::Revoked), "that set for ever");
}

#[test]
fn after_a_skill_was_taken_back_no_rule_approves_another_set_of_it_before_a_person_did() {
    let mut log = Log::with_origin();
    log.see(3, OnChange::Suspend);
    log.approve(3).unwrap();
    log.origin()
        .revoke(&skill())
        .unwrap()
        .into_iter()
        .for_each(|event| log.append(event));
    log.see(0, OnChange::Suspend);
    let barred = |log: &Log| log.origin().barred(log.origin().skill(&skill().uri).unwrap());
    assert_eq!(barred(&log), Some(Barred::Revoked));
    log.approve(0).unwrap();
    log.see(1, OnChange::Suspend);
    assert_eq!(barred(&log), None);
}

#[test]
fn a_recalled_file_holds_every_set_that_has_it_until_that_is_lifted() {
    let mut log = Log::with_origin();
    log.see(1, OnChange::Suspend);
    log.approve(1).unwrap();
    let digest = Digest::of(SHARED);
    log.append(Event::Recalled { digest });
    assert!(log.record.is_recalled(digest));
    assert_eq!(log.decided(&Policy::default(), NOW).unwrap_err(), Held::Recalled);
    log.see(2, OnChange::Suspend);
    assert_eq!(log.approve(2), Err(Refusal::Recalled { digest }));
    log.see(3, OnChange::Suspend);
    log.approve(3).unwrap();
    assert_eq!(log.served_under(OnChange::Suspend, NOW), Some(3));
    log.append(Event::RecallLifted { digest });
    assert_eq!(log.record.recalls().iter().count(), 0);
    log.see(2, OnChange::Suspend);
    log.approve(2).unwrap();
    assert_eq!(log.served_under(OnChange::Suspend, NOW), Some(2));
}

#[test]
fn a_trial_counts_from_its_first_beginning() {
    let label = skill().label;
    let secs = |secs| Some(Duration::from_secs(secs));
    let at = |secs| NOW.checked_add(Duration::from_secs(secs)).unwrap();
    let mut log = Log::with_origin();
    let configure = |log: &mut Log, observe, now| {
        let event = log.record.configure_trial(&label, observe, now)?;
        log.append_as(&Actor::Gateway, now, event);
        log.origin()
            .trial()
            .map(|trial| (trial.until(), trial.lasts(now).is_some()))
    };
    assert_eq!(configure(&mut log, None, at(0)), None);
    assert_eq!(configure(&mut log, secs(10), at(0)), Some((at(10), true)));
    assert_eq!(configure(&mut log, secs(10), at(5)), None, "a restart");
    assert_eq!(configure(&mut log, secs(20), at(6)), Some((at(20), true)), "longer");
    assert_eq!(
        configure(&mut log, secs(3), at(7)),
        Some((at(20), false)),
        "so short that it is over"
    );
    assert_eq!(
        configure(&mut log, secs(3), at(1)),
        Some((at(3), true)),
        "another length, before its end"
    );
    assert_eq!(configure(&mut log, secs(3), at(3)), Some((at(3), false)));
    assert_eq!(
        configure(&mut log, secs(3), at(1)),
        None,
        "clocks that are set back revive nothing"
    );
    assert_eq!(configure(&mut log, None, at(4)), None);
    assert_eq!(configure(&mut log, secs(3), at(4)), None, "named again");
    log.append(Event::OriginRemoved { label: label.clone() });
    log.configure("https://acme.example/mcp");
    assert_eq!(
        configure(&mut log, secs(3), at(9)),
        Some((at(12), true)),
        "removed, and added again"
    );
    assert_eq!(
        configure(&mut log, None, at(10)),
        Some((at(12), false)),
        "configured no more"
    );
}

#[test]
fn a_trial_serves_what_merely_waits_and_says_what_would_be_held() {
    let mut log = Log::with_origin();
    let policy = Policy {
        observe: Some(Duration::from_secs(10)),
        ..Policy::default()
    };
    let (label, until) = (skill().label, NOW.checked_add(Duration::from_secs(10)).unwrap());
    log.append(Event::TrialBegan { label, until });
    log.see(1, OnChange::Suspend);
    let permit = log.decided(&policy, NOW).unwrap();
    assert_eq!(permit.entry().set(), set(1));
    assert_eq!(permit.would_hold(), Some(Held::State(SkillState::Pending)));
    assert!(permit.approval().is_none());
    assert_eq!(permit.check(until), Err(Held::State(SkillState::Pending)));
    assert!(log.decided(&policy, until).is_err());
    assert!(log.decided(&Policy::default(), NOW).is_err(), "configured no more");
    log.approve(1).unwrap();
    assert_eq!(log.decided(&policy, NOW).unwrap().would_hold(), None);
    log.see(2, OnChange::Suspend);
    let changed = log.decided(&policy, NOW).unwrap();
    assert_eq!(changed.would_hold(), Some(Held::State(SkillState::Changed)));
    for held in [
        Event::Denied {
            skill: skill(),
            set: set(2),
        },
        Event::Withdrawn { skill: skill() },
        Event::Recalled {
            digest: Digest::of(SHARED),
        },
    ] {
        let mut log = Log {
            record: log.record.clone(),
            leaves: Vec::new(),
        };
        log.append(held.clone());
        assert!(log.decided(&policy, NOW).is_err(), "{held:?}");
    }
}

#[test]
fn the_record_is_told_of_a_configuration_once() {
    let mut log = Log::default();
    let tables = |text: &[u8]| BTreeMap::from([("server".to_owned(), Digest::of(text))]);
    let event = log.record.reconfigure(&tables(b"a")).unwrap();
    log.append(event);
    assert_eq!(log.record.reconfigure(&tables(b"a")), None);
    assert!(log.record.reconfigure(&tables(b"b")).is_some());
}
