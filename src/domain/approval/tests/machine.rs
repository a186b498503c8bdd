//! Any sequence of steps against a naive reading of the promises: what may be served, and nothing else ever is.
#![expect(clippy::too_many_lines, reason = "one match with an arm a step")]

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

/// People; the log knows each under another commitment after they were forgotten.
const PEOPLE: [&str; 3] = ["ada", "bob", "cem"];

#[derive(Clone, Debug)]
enum Step {
    See(u8),
    Withdraw,
    /// A person's word for a set, which may end after so many milliseconds.
    Approve(usize, u8, Option<u64>),
    /// A rule's, for the set now seen.
    Rule(u8),
    Deny(u8),
    Revoke,
    Move(u8),
    Accept(usize),
    Remove,
    /// Time passes; what it brings is recorded at the next `Tick`.
    Wait(u64),
    /// The clock is set back.
    Back(u64),
    Tick,
    Quorum(u32),
    /// A person is listed from now on, or no more.
    List(usize, bool),
    Forget(usize),
    /// A set's own file, or the one that two sets share.
    Recall(u8),
    Lift(u8),
    Observe(Option<u64>),
}

fn any_step() -> impl Strategy<Value = Step> {
    let n = || 1u8..4;
    let who = || 0usize..3;
    prop_oneof![
        5 => n().prop_map(Step::See),
        1 => Just(Step::Withdraw),
        8 => (who(), n(), prop::option::weighted(0.3, 0u64..50)).prop_map(|(who, n, ends)| Step::Approve(who, n, ends)),
        2 => n().prop_map(Step::Rule),
        1 => n().prop_map(Step::Deny),
        1 => Just(Step::Revoke),
        1 => (0u8..2).prop_map(Step::Move),
        2 => who().prop_map(Step::Accept),
        1 => Just(Step::Remove),
        2 => (1u64..30).prop_map(Step::Wait),
        1 => (1u64..60).prop_map(Step::Back),
        3 => Just(Step::Tick),
        2 => (1u32..4).prop_map(Step::Quorum),
        1 => (who(), any::<bool>()).prop_map(|(who, is_listed)| Step::List(who, is_listed)),
        1 => who().prop_map(Step::Forget),
        1 => (0u8..4).prop_map(Step::Recall),
        2 => (0u8..4).prop_map(Step::Lift),
        1 => prop::option::of(1u64..60).prop_map(Step::Observe),
    ]
}

/// What a plain reading of the promises says, under `on_change = "suspend"`.
struct Naive {
    now: Timestamp,
    /// The set that is approved, and until when.
    approved: Option<(u8, Option<Timestamp>)>,
    seen: Option<u8>,
    ever_seen: BTreeSet<u8>,
    /// Sets that a person said no to, or whose approval ended by itself and was recorded so.
    denied: BTreeSet<u8>,
    ended: BTreeSet<u8>,
    taken_back: bool,
    withdrawn: bool,
    address: u8,
    accepted: u8,
    recalled: BTreeSet<u8>,
    quorum: u32,
    listed: [bool; 3],
    /// How often each person was forgotten.
    forgotten: [u32; 3],
    /// Who wants the set now seen to be approved, or the address to be accepted.
    wants_set: BTreeSet<usize>,
    wants_address: BTreeSet<usize>,
    observe: Option<u64>,
    /// Beginning, end, and whether it was recorded to be over.
    trial: Option<(Timestamp, Timestamp, bool)>,
}

impl Naive {
    fn new() -> Self {
        Self {
            now: NOW,
            approved: None,
            seen: None,
            ever_seen: BTreeSet::new(),
            denied: BTreeSet::new(),
            ended: BTreeSet::new(),
            taken_back: false,
            withdrawn: false,
            address: 0,
            accepted: 0,
            recalled: BTreeSet::new(),
            quorum: 1,
            listed: [true; 3],
            forgotten: [0; 3],
            wants_set: BTreeSet::new(),
            wants_address: BTreeSet::new(),
            observe: None,
            trial: None,
        }
    }

    /// The set that may be served, and whether only a trial lets it.
    fn served(&self) -> Option<(u8, bool)> {
        let seen = self.seen?;
        if self.withdrawn || self.address != self.accepted || self.is_recalled(seen) {
            return None;
        }
        let is_live = |(set, end): (u8, Option<Timestamp>)| set == seen && end.is_none_or(|end| self.now < end);
        if self.approved.is_some_and(is_live) {
            return Some((seen, false));
        }
        let lasts = self.observe.is_some() && self.trial.is_some_and(|(_, end, over)| !over && self.now < end);
        (lasts && !self.denied.contains(&seen) && !self.taken_back).then_some((seen, true))
    }

    fn is_recalled(&self, set: u8) -> bool {
        self.recalled.iter().any(|file| has_file(set, *file))
    }

    fn actor(&self, who: usize) -> Actor {
        person(&format!("{}{}", PEOPLE[who], self.forgotten[who]))
    }

    fn people(&self) -> Vec<Actor> {
        let listed = (0..3).filter(|who| self.listed[*who]);
        listed.map(|who| self.actor(who)).collect()
    }

    /// Whether one more word decides; none when it does not count.
    fn decides(&self, who: usize, wants: &BTreeSet<usize>) -> Option<bool> {
        if self.quorum == 1 {
            return Some(true);
        }
        let counted = wants
            .iter()
            .filter(|other| self.listed[**other] && **other != who)
            .count();
        self.listed[who].then_some(u32::try_from(counted).unwrap() + 1 >= self.quorum)
    }

    fn is_approved(&mut self, set: u8, end: Option<Timestamp>) {
        self.approved = Some((set, end));
        self.denied.remove(&set);
        self.ended.remove(&set);
        self.wants_set.clear();
    }
}

fn has_file(set: u8, file: u8) -> bool {
    file == set || (file == 0 && [1, 2].contains(&set))
}

fn file(file: u8) -> Digest {
    if file == 0 {
        Digest::of(SHARED)
    } else {
        Digest::of(&[file])
    }
}

fn after(now: Timestamp, millis: u64) -> Timestamp {
    now.checked_add(Duration::from_millis(millis)).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1024))]

    #[test]
    fn no_sequence_of_steps_serves_a_set_that_is_not_approved(steps in prop::collection::vec(any_step(), 0..80)) {
        let (mut log, mut naive) = (Log::default(), Naive::new());
        log.configure("0");
        for step in steps {
            take(&step, &mut log, &mut naive);
            // A restart, and any other reader of the log.
            let mut replayed = Record::default();
            for (index, leaf) in log.leaves.iter().enumerate() {
                replayed.apply(index as u64, leaf);
            }
            prop_assert_eq!(&replayed, &log.record, "the log alone gives the state");
            let policy = Policy {
                observe: naive.observe.map(Duration::from_millis),
                ..Policy::default()
            };
            let decided = log.decided(&policy, naive.now).ok();
            let served = decided.map(|permit| {
                assert_eq!(permit.check(naive.now), Ok(()));
                let number = (0..4).find(|n| set(*n) == permit.entry().set()).unwrap();
                (number, permit.would_hold().is_some())
            });
            prop_assert_eq!(served, naive.served(), "after {:?}", step);
        }
    }
}

fn take(step: &Step, log: &mut Log, naive: &mut Naive) {
    let now = naive.now;
    let append = |log: &mut Log, event| log.append_as(&Actor::Gateway, now, event);
    match step {
        Step::See(n) => {
            let events = log.origin().observe(&skill(), set(*n), OnChange::Suspend);
            events.into_iter().for_each(|event| append(log, event));
            naive.withdrawn = false;
            if naive.seen != Some(*n) {
                naive.wants_set.clear();
            }
            naive.seen = Some(*n);
            naive.ever_seen.insert(*n);
            naive.approved = naive.approved.filter(|(set, _)| set == n);
        }
        Step::Withdraw => {
            if let Some(event) = log.origin().withdraw(&skill()) {
                append(log, event);
                naive.withdrawn = true;
                naive.wants_set.clear();
            }
        }
        Step::Approve(who, n, ends) => approve(log, naive, *who, *n, ends.map(|ends| after(now, ends))),
        Step::Rule(n) => {
            let recalls = log.record.recalls();
            let event = log
                .origin()
                .approve_by_rule(&skill(), &proposal(*n, None), &Source::Policy, recalls);
            let may = naive.seen == Some(*n)
                && naive.address == naive.accepted
                && !naive.withdrawn
                && !naive.is_recalled(*n)
                && !naive.denied.contains(n)
                && !naive.ended.contains(n)
                && !naive.taken_back
                && naive.approved.is_none_or(|(set, _)| set != *n);
            assert_eq!(event.is_some(), may);
            if let Some(event) = event {
                append(log, event);
                naive.is_approved(*n, None);
            }
        }
        Step::Deny(n) => {
            let event = log.origin().deny(&skill(), set(*n));
            assert_eq!(event.is_ok(), naive.ever_seen.contains(n));
            if let Ok(event) = event {
                event.into_iter().for_each(|event| append(log, event));
                naive.approved = naive.approved.filter(|(set, _)| set != n);
                naive.denied.insert(*n);
                naive.wants_set.clear();
            }
        }
        Step::Revoke => {
            let events = log.origin().revoke(&skill());
            assert_eq!(events.is_ok(), naive.approved.is_some());
            if let (Ok(events), Some((set, _))) = (events, naive.approved.take()) {
                events.into_iter().for_each(|event| append(log, event));
                naive.denied.insert(set);
                naive.taken_back = true;
                naive.wants_set.clear();
            }
        }
        Step::Move(to) => {
            log.configure(&to.to_string());
            if naive.address != *to {
                naive.wants_set.clear();
                naive.wants_address.clear();
            }
            naive.address = *to;
        }
        Step::Accept(who) => accept(log, naive, *who),
        Step::Remove => {
            append(log, Event::OriginRemoved { label: skill().label });
            log.configure(&naive.address.to_string());
            *naive = Naive {
                now,
                address: naive.address,
                accepted: naive.address,
                recalled: std::mem::take(&mut naive.recalled),
                quorum: naive.quorum,
                listed: naive.listed,
                forgotten: naive.forgotten,
                observe: naive.observe,
                ..Naive::new()
            };
        }
        Step::Wait(millis) => naive.now = after(now, *millis),
        Step::Back(millis) => naive.now = Timestamp::from_millis(now.as_millis() - millis),
        Step::Tick => tick(log, naive),
        Step::Quorum(quorum) => naive.quorum = *quorum,
        Step::List(who, is_listed) => naive.listed[*who] = *is_listed,
        Step::Forget(who) => {
            let Actor::Person(person) = naive.actor(*who) else {
                unreachable!()
            };
            append(log, Event::Forgotten { person });
            naive.forgotten[*who] += 1;
            naive.wants_set.remove(who);
            naive.wants_address.remove(who);
        }
        Step::Recall(of) => {
            append(log, Event::Recalled { digest: file(*of) });
            naive.recalled.insert(*of);
            if naive.seen.is_some_and(|seen| has_file(seen, *of)) {
                naive.wants_set.clear();
            }
        }
        Step::Lift(of) => {
            append(log, Event::RecallLifted { digest: file(*of) });
            naive.recalled.remove(of);
        }
        Step::Observe(millis) => naive.observe = *millis,
    }
}

fn approve(log: &mut Log, naive: &mut Naive, who: usize, n: u8, ends: Option<Timestamp>) {
    let (by, listed) = (naive.actor(who), naive.people());
    let ballot = Ballot {
        quorum: NonZeroU32::new(naive.quorum).unwrap(),
        by: &by,
        listed: &listed,
    };
    let recalls = log.record.recalls();
    let outcome = log.origin().approve(&skill(), &proposal(n, ends), &ballot, recalls);
    let may = naive.seen == Some(n) && naive.address == naive.accepted && !naive.is_recalled(n);
    if may && naive.approved == Some((n, ends)) {
        assert_eq!(outcome, Ok(VoteOutcome::Stands));
        return;
    }
    match naive.decides(who, &naive.wants_set).filter(|_| may) {
        None => assert!(outcome.is_err(), "{outcome:?}"),
        Some(false) => {
            let Ok(VoteOutcome::Voted(event, tally)) = outcome else {
                panic!("{outcome:?}")
            };
            assert_eq!(tally.yours_already, !naive.wants_set.insert(who));
            event.into_iter().for_each(|event| log.append_as(&by, naive.now, event));
        }
        Some(true) => {
            let Ok(VoteOutcome::Decided(event)) = outcome else {
                panic!("{outcome:?}")
            };
            log.append_as(&by, naive.now, event);
            naive.is_approved(n, ends);
            naive.taken_back = false;
        }
    }
}

fn accept(log: &mut Log, naive: &mut Naive, who: usize) {
    let (by, listed) = (naive.actor(who), naive.people());
    let ballot = Ballot {
        quorum: NonZeroU32::new(naive.quorum).unwrap(),
        by: &by,
        listed: &listed,
    };
    let outcome = log.origin().accept(&skill().label, &ballot);
    if naive.address == naive.accepted {
        assert_eq!(outcome, Ok(VoteOutcome::Stands));
        return;
    }
    match naive.decides(who, &naive.wants_address) {
        None => assert!(outcome.is_err(), "{outcome:?}"),
        Some(false) => {
            let Ok(VoteOutcome::Voted(event, tally)) = outcome else {
                panic!("{outcome:?}")
            };
            assert_eq!(tally.yours_already, !naive.wants_address.insert(who));
            event.into_iter().for_each(|event| log.append_as(&by, naive.now, event));
        }
        Some(true) => {
            let Ok(VoteOutcome::Decided(event)) = outcome else {
                panic!("{outcome:?}")
            };
            log.append_as(&by, naive.now, event);
            naive.accepted = naive.address;
            naive.wants_address.clear();
        }
    }
}

/// What time brought is recorded.
fn tick(log: &mut Log, naive: &mut Naive) {
    let now = naive.now;
    for event in log.origin().ended(&skill().label, now) {
        log.append_as(&Actor::Gateway, now, event);
    }
    if let Some((set, Some(end))) = naive.approved
        && end <= now
    {
        naive.approved = None;
        naive.ended.insert(set);
    }
    let observe = naive.observe.map(Duration::from_millis);
    if let Some(event) = log.record.configure_trial(&skill().label, observe, now) {
        log.append_as(&Actor::Gateway, now, event);
    }
    naive.trial = match (naive.trial, naive.observe) {
        (None, None) => None,
        (None, Some(span)) => Some((now, after(now, span), false)),
        (Some((began, end, _)), None) => Some((began, end, true)),
        (Some((began, end, _)), Some(span)) if after(began, span) != end && now < after(began, span) => {
            Some((began, after(began, span), false))
        }
        (Some((began, end, over)), Some(span)) => Some((began, end, over || end.min(after(began, span)) <= now)),
    };
}
