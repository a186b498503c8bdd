//! The machine step by step, and any sequence of steps against a naive reading of the promises.
#![expect(clippy::too_many_lines, reason = "one match with an arm a step")]

use proptest::prelude::*;

use super::*;
use crate::domain::audit::Actor;

const NOW: Timestamp = Timestamp::from_millis(1_000_000);

fn key(uri: &str) -> SkillKey {
    SkillKey {
        label: "acme".parse().unwrap(),
        uri: uri.parse().unwrap(),
    }
}

fn skill() -> SkillKey {
    key("skill://refunds/SKILL.md")
}

fn set(n: u8) -> SetId {
    format!("set1:{n:064x}").parse().unwrap()
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
        let leaf = Leaf {
            v: Leaf::VERSION,
            time: NOW,
            actor: Actor::Gateway,
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
        if let Some(event) = self.origin().approve(&skill(), set(n), None)? {
            self.append(event);
        }
        Ok(())
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
        assert_eq!(served_under(OnChange::Keep, &log, NOW), Some(1));
        assert_eq!(served_under(OnChange::Suspend, &log, NOW), None);
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

#[derive(Clone, Debug)]
enum Step {
    See(u8),
    Withdraw,
    Approve(u8, Option<u64>),
    Deny(u8),
    Revoke,
    Move(u8),
    Accept,
    Remove,
    Wait(u64),
}

fn any_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (1u8..4).prop_map(Step::See),
        1 => Just(Step::Withdraw),
        4 => ((1u8..4), prop::option::of(0u64..50)).prop_map(|(n, expires)| Step::Approve(n, expires)),
        1 => (1u8..4).prop_map(Step::Deny),
        1 => Just(Step::Revoke),
        1 => (0u8..2).prop_map(Step::Move),
        1 => Just(Step::Accept),
        1 => Just(Step::Remove),
        2 => (1u64..30).prop_map(Step::Wait),
    ]
}

/// What a plain reading of the promises says: the one set that may be served, under `on_change = "suspend"`.
#[derive(Default)]
struct Naive {
    approved: Option<(u8, u8, Option<Timestamp>)>,
    seen: Option<u8>,
    withdrawn: bool,
    address: u8,
    accepted: u8,
}

impl Naive {
    fn served(&self, now: Timestamp) -> Option<u8> {
        let (set, address, expires) = self.approved?;
        let live = expires.is_none_or(|end| now < end);
        let here = self.address == self.accepted && address == self.address;
        (live && here && !self.withdrawn && self.seen == Some(set)).then_some(set)
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn no_sequence_of_steps_serves_a_set_that_is_not_approved(steps in prop::collection::vec(any_step(), 0..60)) {
        let (mut log, mut naive, mut now) = (Log::with_origin(), Naive::default(), NOW);
        log.configure("0");
        log.append(Event::OriginAccepted { label: skill().label, fingerprint: log.origin().address(), votes: Vec::new() });
        for step in steps {
            take(&step, &mut log, &mut naive, &mut now);
            let mut replayed = Record::default();
            for (index, leaf) in log.leaves.iter().enumerate() {
                replayed.apply(index as u64, leaf);
            }
            prop_assert_eq!(&replayed, &log.record, "the log alone gives the state");
            prop_assert_eq!(served(&log, now), naive.served(now), "after {:?}", step);
        }
    }
}

fn served(log: &Log, now: Timestamp) -> Option<u8> {
    served_under(OnChange::Suspend, log, now)
}

fn served_under(on_change: OnChange, log: &Log, now: Timestamp) -> Option<u8> {
    use crate::domain::decide::{Circumstances, Policy, Trust, bound_set_for_tests};
    let policy = Policy {
        trust: Trust::Review,
        on_change,
        frontmatter: crate::domain::FrontmatterPolicy::Strict,
        max_stale: None,
    };
    let served = bound_set_for_tests(
        &skill(),
        log.origin(),
        &policy,
        Circumstances {
            now,
            heard: None,
            closed: None,
            unreadable: None,
        },
    )?;
    (1..4).find(|n| set(*n) == served)
}

fn take(step: &Step, log: &mut Log, naive: &mut Naive, now: &mut Timestamp) {
    match step {
        Step::See(n) => {
            log.see(*n, OnChange::Suspend);
            naive.withdrawn = false;
            naive.seen = Some(*n);
            if naive.approved.is_some_and(|(set, _, _)| set != *n) {
                naive.approved = None;
            }
        }
        Step::Withdraw => {
            if let Some(event) = log.origin().withdraw(&skill()) {
                log.append(event);
                naive.withdrawn = true;
            }
        }
        Step::Approve(n, expires) => {
            let expires = expires.map(|wait| now.checked_add(std::time::Duration::from_millis(wait)).unwrap());
            let before = log.origin().approve(&skill(), set(*n), expires);
            let allowed = naive.seen == Some(*n) && naive.address == naive.accepted;
            assert_eq!(before.is_ok(), allowed);
            if let Ok(event) = before {
                event.into_iter().for_each(|event| log.append(event));
                naive.approved = Some((*n, naive.address, expires));
            }
        }
        Step::Deny(n) => {
            if let Ok(event) = log.origin().deny(&skill(), set(*n)) {
                event.into_iter().for_each(|event| log.append(event));
                naive.approved = naive.approved.filter(|(set, _, _)| set != n);
            }
        }
        Step::Revoke => {
            if let Ok(events) = log.origin().revoke(&skill()) {
                events.into_iter().for_each(|event| log.append(event));
                naive.approved = None;
            }
        }
        Step::Move(to) => {
            log.configure(&to.to_string());
            naive.address = *to;
        }
        Step::Accept => {
            let fingerprint = log.origin().address();
            log.append(Event::OriginAccepted {
                label: skill().label,
                fingerprint,
                votes: Vec::new(),
            });
            naive.approved = naive
                .approved
                .map(|(set, at, expires)| (set, if at == naive.accepted { naive.address } else { at }, expires));
            naive.accepted = naive.address;
        }
        Step::Remove => {
            log.append(Event::OriginRemoved { label: skill().label });
            log.configure(&naive.address.to_string());
            *naive = Naive {
                address: naive.address,
                accepted: naive.address,
                ..Naive::default()
            };
        }
        Step::Wait(millis) => *now = now.checked_add(std::time::Duration::from_millis(*millis)).unwrap(),
    }
}
