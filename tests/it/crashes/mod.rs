//! What was acknowledged before the process was killed is in force after the next start, and nothing that nobody decided.
//!
//! Operators decide and pull, hosts read and origins change their skills, all at once, until `kill -9` at a random moment;
//! in some rounds the next start is killed too. Then the log, the listing and every byte that is served are compared with
//! what was said before. `PORTCULLIS_CRASH_ROUNDS` sets the number of rounds, `PORTCULLIS_CRASH_SEED` repeats their choices.

mod record;
mod world;

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::future::join_all;
use rand::Rng as _;
use rand::SeedableRng as _;
use rand::rngs::StdRng;
use serde_json::Value;

use crate::support::client;
use crate::support::client::Host;
use crate::support::gateway::Gateway;
use crate::support::gateway::Setup;
use record::Record;
use world::MOST_LEAVES;
use world::Outcome;
use world::Subject;
use world::World;

/// Rounds in an ordinary run.
const ROUNDS: u64 = 100;

/// Rounds on one data folder.
const ROUNDS_PER_FOLDER: u64 = 50;

/// The longest that one life of the gateway lasts, in milliseconds.
const LONGEST_LIFE: u64 = 400;

/// What happened in all rounds.
#[derive(Debug, Default)]
struct Tally {
    rounds: u64,
    killed_while_starting: u64,
    acknowledged: usize,
    in_flight_kept: usize,
    in_flight_lost: usize,
    reads: usize,
    leaves: usize,
}

#[tokio::test]
async fn what_was_acknowledged_survives_every_kill_and_nothing_is_invented() {
    let rounds = from_environment("PORTCULLIS_CRASH_ROUNDS").unwrap_or(ROUNDS);
    let seed = from_environment("PORTCULLIS_CRASH_SEED").unwrap_or_else(rand::random);
    println!("PORTCULLIS_CRASH_SEED={seed} PORTCULLIS_CRASH_ROUNDS={rounds}");
    let mut chance = StdRng::seed_from_u64(seed);
    let mut tally = Tally::default();
    while tally.rounds < rounds {
        let more = ROUNDS_PER_FOLDER.min(rounds - tally.rounds);
        rounds_on_one_folder(more, &mut chance, &mut tally).await;
        println!("{tally:?}");
    }
    assert!(
        tally.acknowledged > 0 && tally.reads > 0 && tally.leaves > 0,
        "{tally:?}"
    );
}

fn from_environment(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|why| panic!("{name}={text:?}: {why}")))
}

async fn rounds_on_one_folder(rounds: u64, chance: &mut StdRng, tally: &mut Tally) {
    let world = World::new();
    let mut gateway = Setup::new()
        .origin("acme", world.origin("acme"))
        .origin_with(
            "globex",
            world.origin("globex"),
            "refresh = \"1s\"\non_change = \"keep\"",
        )
        .written();
    start(&mut gateway, chance, tally).await;
    let mut subjects = world.subjects();
    let mut before = Vec::new();
    for _ in 0..rounds {
        live_and_be_killed(&mut gateway, &mut subjects, chance, tally).await;
        start(&mut gateway, chance, tally).await;
        let record = settle(&gateway, &mut subjects).await;
        assert!(record.leaves.starts_with(&before), "the log only grows");
        assert_decisions(&record, &mut subjects, tally);
        assert_reads(&gateway, &subjects).await;
        before = record.leaves;
        tally.rounds += 1;
    }
    tally.leaves += before.len();
    gateway.finish().await;
}

/// Lets everybody work until the process is killed.
async fn live_and_be_killed(gateway: &mut Gateway, subjects: &mut [Subject], chance: &mut StdRng, tally: &mut Tally) {
    let (host, socket) = (gateway.host(), gateway.data().join("admin.sock"));
    // The moment is what the test is about; nothing is waited for.
    let moment = Duration::from_millis(chance.random_range(0..LONGEST_LIFE));
    let at_work = join_all(subjects.iter_mut().map(|subject| {
        let chance = StdRng::seed_from_u64(chance.random());
        subject.work(&host, &socket, chance)
    }));
    let end = async {
        tokio::time::sleep(moment).await;
        gateway.kill().await;
    };
    tokio::join!(at_work, end);
    tally.reads += subjects.iter_mut().map(Subject::take_reads).sum::<usize>();
}

/// Starts the process, now and then after starts that are killed at a random moment.
async fn start(gateway: &mut Gateway, chance: &mut StdRng, tally: &mut Tally) {
    while chance.random_bool(0.35) {
        let moment = Duration::from_millis(chance.random_range(0..150));
        gateway.start_and_kill_after(moment).await;
        tally.killed_while_starting += 1;
    }
    gateway.start().await;
}

/// Waits for a moment in which no refresh adds to the log, and compares the listing with it.
async fn settle(gateway: &Gateway, subjects: &mut [Subject]) -> Record {
    let socket = gateway.data().join("admin.sock");
    let mut interval = tokio::time::interval(Duration::from_millis(10));
    for _ in 0..500 {
        interval.tick().await;
        // The tiles follow what is durable.
        let durable = leaves(gateway).await;
        let Some(record) = Record::read(&gateway.data()).filter(|record| record.leaves.len() == durable) else {
            continue;
        };
        let listed = world::skills(&socket).await;
        if leaves(gateway).await != durable {
            continue;
        }
        assert_listing(&record, &listed, subjects);
        return record;
    }
    panic!("the log never stands still");
}

/// How many leaves are durable, by the checkpoint that anybody may ask for.
async fn leaves(gateway: &Gateway) -> usize {
    let url = format!("{}/log/checkpoint", gateway.admin());
    let checkpoint = client::http().get(url).send().await.unwrap().text().await.unwrap();
    checkpoint.lines().nth(1).unwrap().parse().unwrap()
}

/// The listing is what the log adds up to, and each subject learns what is in force.
fn assert_listing(record: &Record, listed: &Value, subjects: &mut [Subject]) {
    for subject in subjects {
        let standing = record.standing(subject.label(), subject.uri());
        let shown = listed.as_array().unwrap().iter().find(|item| subject.is(item));
        let Some(shown) = shown else {
            assert!(
                standing.seen.is_none(),
                "{} is on the record and not listed",
                subject.uri()
            );
            continue;
        };
        assert_eq!(shown["state"], standing.state(), "{shown:#}");
        assert_eq!(
            shown["set"],
            standing.seen.clone().map_or(Value::Null, Value::from),
            "{shown:#}"
        );
        let approved = standing.approved.clone();
        // A set that is kept while the origin shows another one is served when it lies there whole.
        let may_be_served = [approved.clone().map_or(Value::Null, Value::from), Value::Null];
        let must_be_served = approved == standing.seen || subject.was_pulled(approved.as_deref());
        let served = &shown["served_set"];
        assert!(may_be_served.contains(served), "{shown:#}, but {standing:?}");
        assert!(
            !must_be_served || *served == may_be_served[0],
            "{shown:#}, but {standing:?}"
        );
        subject.learn(approved);
    }
}

/// Every decision is on the record as often as it should be, in the order in which it was made, and no other one is.
fn assert_decisions(record: &Record, subjects: &mut [Subject], tally: &mut Tally) {
    let mut of_people: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (index, leaf) in record.leaves.iter().enumerate() {
        if leaf["actor"].is_object() && leaf["uri"].is_string() && leaf["action"] != "pulled" {
            let note = leaf["note"].as_str().unwrap_or_else(|| panic!("nobody made {leaf}"));
            of_people.entry(note).or_default().push(index);
        }
    }
    for subject in subjects {
        let mut last = None;
        for decision in subject.decisions_mut() {
            let found = of_people.remove(decision.note.as_str()).unwrap_or_default();
            for index in &found {
                decision.assert_is(&record.leaves[*index]);
            }
            let count = found.len();
            match &mut decision.outcome {
                Outcome::Acknowledged { leaves, is_counted } => {
                    assert_eq!(count, *leaves, "{} was acknowledged: {}", decision.note, decision.kind);
                    tally.acknowledged += usize::from(!std::mem::replace(is_counted, true));
                }
                Outcome::Refused => assert_eq!(count, 0, "{} was refused", decision.note),
                in_flight @ Outcome::InFlight => {
                    let most = if decision.kind == "recalled" { MOST_LEAVES } else { 1 };
                    assert!(count <= most, "{} is there {count} times", decision.note);
                    *(if count > 0 {
                        &mut tally.in_flight_kept
                    } else {
                        &mut tally.in_flight_lost
                    }) += 1;
                    *in_flight = if count > 0 {
                        Outcome::Acknowledged {
                            leaves: count,
                            is_counted: true,
                        }
                    } else {
                        Outcome::Refused
                    };
                }
            }
            assert!(
                found.iter().all(|index| last < Some(*index)),
                "{} came before",
                decision.note
            );
            last = found.last().copied().or(last);
        }
        subject.assert_pulls(record);
    }
    assert!(of_people.is_empty(), "nobody decided {of_people:?}");
}

/// Every file of every skill is refused, or is the one of the set in force.
async fn assert_reads(gateway: &Gateway, subjects: &[Subject]) {
    let host: Host = gateway.host();
    for subject in subjects {
        subject.assert_reads(&host).await;
    }
}
