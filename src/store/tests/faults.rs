//! Every call to the disk fails once, each in three ways: what is answered, what goes on, and what a restart finds.
//!
//! A whole life of a folder is gone through step by step. Each call that a step makes is made to fail in turn, so that no
//! call is left out by forgetting it.

use super::story::Model;
use super::story::Step;
use super::*;
use crate::store::durable::Watch;

/// A folder as it lies before a step, and what was acknowledged until then.
struct Before<'a> {
    folder: &'a Path,
    model: &'a Model,
    errno: Errno,
    at: u64,
}

/// How many calls failed.
type Failures = usize;

#[test]
fn a_full_disk_at_any_call_is_told_and_loses_nothing() {
    every_call_fails_once(Errno::NOSPC);
}

#[test]
fn a_disk_that_is_read_only_at_any_call_is_told_and_loses_nothing() {
    every_call_fails_once(Errno::ROFS);
}

#[test]
fn a_broken_disk_at_any_call_is_told_and_loses_nothing() {
    every_call_fails_once(Errno::IO);
}

#[test]
fn a_disk_that_is_full_at_the_start_keeps_nothing_from_being_read() {
    let dir = scratch();
    let data = dir.path().join("data");
    let mut model = Model::default();
    let store = open(&data).unwrap();
    for (at, step) in (1..).zip(Step::each()) {
        model = model.after(step, &store, at).unwrap();
    }
    drop(store);
    let watch = Watch::over(&data);
    watch.break_all(Errno::NOSPC);
    let store = open(&data).unwrap();
    model.compare_answers(&model, &store).unwrap();
    let refused = model.after(Step::Append(1), &store, 99);
    assert!(matches!(refused, Err(Error::NoSpace { .. })), "{refused:?}");
    watch.disarm();
    let model = model.after(Step::Append(1), &store, 99).unwrap();
    drop(store);
    start_and_compare(&data, &model, &model, "with room again");
}

#[test]
fn a_read_that_fails_is_told_and_loses_nothing() {
    let dir = scratch();
    let mut model = Model::default();
    let store = open(dir.path()).unwrap();
    for (at, step) in (1..).zip(Step::each()) {
        model = model.after(step, &store, at).unwrap();
    }
    let watch = Watch::over(dir.path());
    for call in 0.. {
        // As after a start: nothing is in memory yet.
        *store.0.content.cache.lock() = sets::SetCache::default();
        watch.arm_any(call, Errno::IO);
        let answers = model.compare_answers(&model, &store);
        watch.disarm();
        let Some(failed) = watch.failed() else {
            answers.unwrap();
            assert!(call > 30, "only {call} calls failed");
            break;
        };
        if let Err(why) = answers {
            let is_told = ["cannot ", "is gone", "is damaged"]
                .iter()
                .any(|told| why.contains(told));
            assert!(is_told, "{failed}: {why}");
        }
        let lost = model.compare(&model, &store);
        lost.unwrap_or_else(|why| panic!("{failed}: {why}"));
    }
}

fn every_call_fails_once(errno: Errno) {
    let dir = scratch();
    let folder = dir.path().join("data");
    fs::create_dir(&folder).unwrap();
    let mut model = Model::default();
    let mut failures = every_call_of_a_start_fails(&before(&folder, &model, errno, 0));
    for (at, step) in (1..).zip(Step::each()) {
        let before = before(&folder, &model, errno, at);
        failures += every_call_of_a_step_fails(&before, step);
        let store = open(&folder).unwrap();
        model = model.after(step, &store, at).unwrap();
    }
    failures += every_call_of_a_start_fails(&before(&folder, &model, errno, 0));
    leave_as_after_a_crash(&folder);
    failures += every_call_of_a_start_fails(&before(&folder, &model, errno, 0));
    println!("{failures} calls failed with {errno}");
    assert!(failures > 300, "only {failures} calls failed");
}

/// Leaves what a start has to put right: a torn batch, tiles that lag, unfinished writes, half a snapshot of the index.
fn leave_as_after_a_crash(folder: &Path) {
    let journal = folder.join("log/journal");
    let torn = [fs::read(&journal).unwrap(), vec![0; 700]].concat();
    overwrite(&journal, &torn);
    fs::remove_dir_all(folder.join("log/tile/0")).unwrap();
    fs::write(folder.join("tmp/store-0"), "half").unwrap();
    fs::write(folder.join("head/checkpoint.new"), "half").unwrap();
    fs::write(folder.join("index/snap.0000000000000009.generating"), "half").unwrap();
}

fn before<'a>(folder: &'a Path, model: &'a Model, errno: Errno, at: u64) -> Before<'a> {
    Before {
        folder,
        model,
        errno,
        at,
    }
}

/// Fails each call of a step in turn.
fn every_call_of_a_step_fails(before: &Before<'_>, step: Step) -> Failures {
    for call in 0.. {
        let dir = scratch();
        let data = dir.path().join("data");
        copy_tree(before.folder, &data);
        let watch = Watch::over(&data);
        let store = open(&data).unwrap();
        watch.arm_any(call as u64, before.errno);
        let done = before.model.after(step, &store, before.at);
        watch.disarm();
        let Some(failed) = watch.failed() else {
            done.unwrap();
            return call;
        };
        let what = format!("{step:?}, {failed}: {}, then {done:?}", before.errno);
        assert_answer(&store, &done, before, &what);
        // What failed half-way may be there; what was acknowledged is.
        let (least, most) = match &done {
            Ok(after) => (after, after),
            Err(_) => (before.model, &before.model.attempted(step, before.at)),
        };
        let answers = least.compare_answers(most, &store);
        answers.unwrap_or_else(|why| panic!("{what}: {why}"));
        // Where writing goes on, the same is done when it is asked for again.
        let again = done.is_err() && store.usage().writing_stopped.is_none();
        let again = again.then(|| before.model.after(step, &store, before.at).unwrap());
        drop(store);
        let (least, most) = again.as_ref().map_or((least, most), |again| (again, again));
        start_and_compare(&data, least, most, &what);
    }
    unreachable!("a step makes an end of calls")
}

/// What is said of a failure, and what is possible afterwards.
fn assert_answer(store: &Store, done: &Result<Model, Error>, before: &Before<'_>, what: &str) {
    let stopped = store.usage().writing_stopped;
    let next = store.person("next");
    match (done, stopped) {
        // A failed call whose effect is not needed, or comes after the decision is durable.
        (Ok(_), None) => {}
        // Where a step has more than one part, a later one finds that writing has stopped.
        (Ok(_) | Err(Error::Io { .. } | Error::WritingStopped), Some(why)) => {
            assert!(why.starts_with("cannot "), "{what}: {why}");
            assert!(matches!(next, Err(Error::WritingStopped)), "{what}: {next:?}");
            return;
        }
        (Err(Error::NoSpace { .. }), None) => assert_eq!(before.errno, Errno::NOSPC, "{what}"),
        // A look that failed: nothing was written.
        (Err(Error::Io { operation, .. }), None) => {
            assert!(["open", "read", "list"].contains(operation), "{what}");
        }
        (Err(_), _) => panic!("{what}"),
    }
    assert!(next.is_ok(), "{what}: writing goes on, but {next:?}");
}

/// Fails each call of a start in turn.
fn every_call_of_a_start_fails(before: &Before<'_>) -> Failures {
    for call in 0.. {
        let dir = scratch();
        let data = dir.path().join("data");
        copy_tree(before.folder, &data);
        let watch = Watch::over(&data);
        watch.arm_any(call as u64, before.errno);
        let opened = open(&data);
        watch.disarm();
        let Some(failed) = watch.failed() else {
            opened.unwrap();
            return call;
        };
        let what = format!("start, {failed}: {}, then {opened:?}", before.errno);
        match &opened {
            Ok(store) => before
                .model
                .compare_answers(before.model, store)
                .unwrap_or_else(|why| panic!("{what}: {why}")),
            // The log tells of the call that failed where folders are still to be made after it.
            Err(error) => assert!(
                matches!(error, Error::Io { .. } | Error::NoSpace { .. } | Error::WritingStopped),
                "{what}"
            ),
        }
        drop(opened);
        start_and_compare(&data, before.model, before.model, &what);
    }
    unreachable!("a start makes an end of calls")
}

fn start_and_compare(data: &Path, least: &Model, most: &Model, what: &str) {
    let store = open(data).unwrap_or_else(|error| panic!("{what}: it does not start again: {error:?}"));
    least
        .compare(most, &store)
        .unwrap_or_else(|why| panic!("{what}: after a restart: {why}"));
}
