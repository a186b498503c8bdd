//! Deliveries are there once: whatever ends the process, fills the disk, or takes the index.
#![expect(clippy::disallowed_methods, reason = "what others do to the folder is done here")]

use std::collections::BTreeSet;
use std::fs;
use std::ops::ControlFlow;
use std::time::Duration;

use proptest::prelude::*;
use rustix::io::Errno;

use super::*;
use crate::domain::Endpoint;
use crate::domain::Limits;
use crate::domain::Listed;
use crate::domain::Method;
use crate::domain::Outcome;
use crate::domain::SetId;
use crate::domain::SkillKey;
use crate::domain::Source;
use crate::domain::Wanted;
use crate::store::Kept;
use crate::store::Options;
use crate::store::Store;
use crate::store::durable::Watch;

const NOW: Timestamp = Timestamp::from_millis(1_790_000_000_000);

/// Skills and callers that there are.
const SOME: u64 = 4;

fn at(second: u64) -> Timestamp {
    Timestamp::from_millis(NOW.as_millis() + second * 1_000)
}

fn open_unrecovered(dir: &Path) -> Result<Store, Error> {
    let options = Options {
        data_dir: dir.to_owned(),
        allow_unsafe_location: false,
        limits: Limits::default(),
    };
    Store::open(&options, NOW)
}

fn open(dir: &Path) -> Store {
    let store = open_unrecovered(dir).unwrap();
    store.recover_deliveries(NOW).unwrap();
    store
}

/// A folder in memory, where there is such a place: real flushes would take long.
fn scratch() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm")
        .or_else(|_| tempfile::tempdir())
        .unwrap()
}

fn skill(number: u64) -> SkillKey {
    SkillKey {
        label: "acme".parse().unwrap(),
        uri: format!("skill://s{number}/SKILL.md").parse().unwrap(),
    }
}

fn set(number: u64) -> SetId {
    format!("set1:{number:064x}").parse().unwrap()
}

fn caller(number: u64) -> String {
    format!("person1:{number:064x}")
}

/// The delivery of this number: a read, or each fifth time a listing of two skills.
fn delivery(number: u64) -> NewDelivery {
    let which = number % SOME;
    let mut delivery = Delivery {
        time: at(number),
        caller: caller(number / SOME % SOME),
        endpoint: Endpoint(None),
        method: Method::Read,
        label: Some(skill(which).label),
        uri: Some(format!("skill://acme/s{which}/{number}")),
        skill: Some(skill(which).uri),
        digest: Some(Digest::of(&which.to_be_bytes())),
        set: Some(set(which)),
        approval: Some(which),
        page: None,
        outcome: Outcome::Delivered,
        source: Some(Source::Memory),
        would: None,
    };
    let listed = |number| Listed {
        skill: skill(number),
        set: set(number),
    };
    let page = (number % 5 == 4).then(|| Arc::new(Page::new(vec![listed(which), listed(SOME + which)])));
    if let Some(page) = &page {
        delivery.method = Method::List;
        delivery.page = Some(page.page);
        (delivery.skill, delivery.digest, delivery.set, delivery.source) = (None, None, None, None);
    }
    NewDelivery { delivery, page }
}

/// Writes deliveries; gives those that were not written, with the reason.
fn write(store: &Store, numbers: std::ops::Range<u64>) -> Result<(), (usize, Error)> {
    let mut waiting: VecDeque<_> = numbers.map(delivery).collect();
    let written = store.write_deliveries(&mut waiting, NOW);
    written.map_err(|error| (waiting.len(), error))
}

fn found(store: &Store, wanted: &Wanted) -> (Vec<Delivery>, Looked) {
    let mut found = Vec::new();
    let looked = store.deliveries(wanted, &mut |delivery| {
        found.push(delivery.clone());
        ControlFlow::Continue(())
    });
    (found, looked.unwrap())
}

fn all(store: &Store) -> Vec<Delivery> {
    let (found, looked) = found(store, &Wanted::default());
    assert_eq!((looked.damaged, looked.found), (Vec::new(), found.len() as u64));
    found
}

fn expected(numbers: std::ops::Range<u64>) -> Vec<Delivery> {
    numbers.map(|number| delivery(number).delivery).collect()
}

fn assert_sound(store: &Store, deliveries: u64) {
    let report = store.verify_deliveries(&mut |_| {}).unwrap();
    assert!(report.is_sound(), "{report:?}");
    assert_eq!(report.deliveries, deliveries);
    assert!(store.verify_log(&Kept::default(), &mut |_| {}).unwrap().is_sound());
}

fn actions(store: &Store) -> Vec<String> {
    let mut actions = Vec::new();
    store
        .replay(&mut |_, leaf| actions.push(leaf.event.action().to_owned()))
        .unwrap();
    actions
}

fn segment(dir: &Path, segment: u64) -> PathBuf {
    dir.join("deliveries").join(file_name(segment))
}

#[test]
fn what_is_written_is_found_open_sealed_and_after_a_restart() {
    let dir = scratch();
    let store = open(dir.path());
    write(&store, 0..7).unwrap();
    assert_eq!(all(&store), expected(0..7));
    store.seal_deliveries(NOW).unwrap();
    store.seal_deliveries(NOW).unwrap();
    write(&store, 7..10).unwrap();
    assert_eq!(all(&store), expected(0..10));
    assert_sound(&store, 7);
    drop(store);
    let store = open(dir.path());
    assert_eq!(all(&store), expected(0..10));
    assert_sound(&store, 10);
    assert_eq!(actions(&store), ["sealed", "sealed"]);
    use std::os::unix::fs::PermissionsExt as _;
    let mode = fs::metadata(segment(dir.path(), 0)).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o444);
}

#[test]
fn the_leaf_says_what_is_in_the_segment() {
    let dir = scratch();
    let store = open(dir.path());
    write(&store, 3..9).unwrap();
    store.seal_deliveries(NOW).unwrap();
    let packed = fs::read(segment(dir.path(), 0)).unwrap();
    let event = store.leaf(0).unwrap().unwrap().event;
    let sealed = Event::Sealed {
        segment: 0,
        digest: Digest::of(&packed),
        deliveries: 6,
        bytes: packed.len() as u64,
        from: at(3),
        until: at(8),
    };
    assert_eq!(event, sealed);
}

#[test]
fn a_torn_end_is_left_out_and_the_rest_sealed() {
    let dir = scratch();
    let store = open(dir.path());
    write(&store, 0..3).unwrap();
    drop(store);
    let path = dir.path().join("deliveries/open");
    let whole = fs::read(&path).unwrap();
    let no_check = whole.len() - whole.rsplit(|byte| *byte == b'{').next().unwrap().len() - 1;
    for (torn, left) in [
        ([&whole[..], b"{\"time\":\"20"].concat(), 3),
        (whole[..whole.len() - 1].to_vec(), 3),
        (whole[..no_check - 1].to_vec(), 2),
        ([&whole[..], &[0; 300]].concat(), 3),
        (whole[..8].to_vec(), 0),
        (vec![0; whole.len()], 0),
        (Vec::new(), 0),
    ] {
        let copy = scratch();
        crate::store::tests::copy_tree(dir.path(), copy.path());
        fs::write(copy.path().join("deliveries/open"), torn).unwrap();
        let store = open(copy.path());
        assert_eq!(all(&store), expected(0..left));
        write(&store, left..9).unwrap();
        drop(store);
        let store = open(copy.path());
        assert_eq!(all(&store), expected(0..9));
        assert_sound(&store, 9);
    }
}

#[test]
fn damage_of_what_is_open_is_named_and_what_is_whole_is_sealed_once() {
    let dir = scratch();
    let store = open(dir.path());
    write(&store, 0..2).unwrap();
    store.seal_deliveries(NOW).unwrap();
    let sealed = fs::read(segment(dir.path(), 0)).unwrap();
    write(&store, 2..4).unwrap();
    write(&store, 4..6).unwrap();
    drop(store);
    let path = dir.path().join("deliveries/open");
    let whole = fs::read(&path).unwrap();
    let (mut lost, mut kept) = (0, 0);
    for (at, bit) in (0..whole.len()).step_by(7).map(|at| (at, at % 8)) {
        let copy = scratch();
        crate::store::tests::copy_tree(dir.path(), copy.path());
        let mut flipped = whole.clone();
        flipped[at] ^= 1 << bit;
        fs::write(copy.path().join("deliveries/open"), &flipped).unwrap();
        let store = open(copy.path());
        let (found, looked) = found(&store, &Wanted::default());
        if found == expected(0..6) {
            kept += 1;
        } else {
            assert_eq!(looked.damaged.len(), 1, "{at} {bit}");
            assert_eq!(store.verify_deliveries(&mut |_| {}).unwrap().faults, looked.damaged);
            lost += 1;
        }
        assert!(found.len() >= 4, "{at} {bit}: {}", found.len());
        assert_eq!(fs::read(segment(copy.path(), 0)).unwrap(), sealed);
        let noted = store.leaf(1).unwrap().unwrap().note;
        assert_eq!(noted.is_some(), !looked.damaged.is_empty());
    }
    assert!(lost > 50 && kept > 5, "{lost} {kept}");
}

#[test]
fn a_left_over_is_known_without_its_first_line() {
    let dir = scratch();
    let store = open(dir.path());
    write(&store, 0..2).unwrap();
    let left = fs::read(dir.path().join("deliveries/open")).unwrap();
    store.seal_deliveries(NOW).unwrap();
    drop(store);
    for at in [0, 12] {
        let mut flipped = left.clone();
        flipped[at] ^= 1;
        fs::write(dir.path().join("deliveries/open"), &flipped).unwrap();
        let store = open(dir.path());
        assert_eq!(all(&store), expected(0..2));
    }
}

/// A life: what of it was acknowledged.
fn live(store: &Store) -> u64 {
    let mut written = 0;
    for until in [3, 6, 9] {
        match write(store, written..until) {
            Ok(()) => written = until,
            Err(_) => return written,
        }
        if store.flush_deliveries().is_err() || (until == 6 && store.seal_deliveries(NOW).is_err()) {
            return written;
        }
    }
    let _sealed = store.seal_deliveries(NOW).is_ok();
    written
}

#[test]
fn a_process_that_ends_at_any_call_leaves_each_delivery_once() {
    for call in 0.. {
        let dir = scratch();
        let watch = Watch::over(dir.path());
        let store = open(dir.path());
        // After a failure nothing more is written: as if the process had ended there.
        watch.arm(call, Errno::IO);
        let written = live(&store);
        let is_over = watch.disarm();
        drop(store);
        let store = open(dir.path());
        let found = all(&store);
        assert!(found.len() as u64 >= written, "call {call}: {written} were written");
        assert_eq!(found, expected(0..found.len() as u64), "call {call}");
        assert_sound(&store, found.len() as u64);
        if is_over {
            assert!(call > 20, "only {call} calls");
            break;
        }
    }
}

#[test]
fn a_disk_that_is_full_at_any_call_loses_nothing_and_goes_on_with_room() {
    for call in 0.. {
        let dir = scratch();
        let watch = Watch::over(dir.path());
        let store = open(dir.path());
        watch.arm(call, Errno::NOSPC);
        let mut written = live(&store);
        let is_over = watch.disarm();
        if store.usage().writing_stopped.is_none() {
            store.seal_deliveries(NOW).unwrap();
            write(&store, written..12).unwrap();
            store.seal_deliveries(NOW).unwrap();
            assert_eq!(all(&store), expected(0..12), "call {call}");
            written = 12;
        }
        drop(store);
        let store = open(dir.path());
        let found = all(&store);
        assert!(found.len() as u64 >= written, "call {call}");
        assert_eq!(found, expected(0..found.len() as u64), "call {call}");
        assert_sound(&store, found.len() as u64);
        if is_over {
            break;
        }
    }
}

#[test]
fn a_start_that_ends_at_any_call_leaves_each_delivery_once() {
    let left = scratch();
    let store = open(left.path());
    write(&store, 0..5).unwrap();
    drop(store);
    for errno in [Errno::IO, Errno::NOSPC] {
        for call in 0.. {
            let dir = scratch();
            crate::store::tests::copy_tree(left.path(), dir.path());
            let watch = Watch::over(dir.path());
            let store = open_unrecovered(dir.path()).unwrap();
            watch.arm(call, errno);
            let recovered = store.recover_deliveries(NOW);
            let is_over = watch.disarm();
            if errno == Errno::NOSPC && store.usage().writing_stopped.is_none() {
                recovered.unwrap();
                write(&store, 5..6).unwrap();
                assert_eq!(all(&store), expected(0..6));
            }
            drop(store);
            let store = open(dir.path());
            let found = all(&store).len() as u64;
            assert_eq!(all(&store), expected(0..found));
            assert!(found >= 5);
            assert_sound(&store, found);
            if is_over {
                break;
            }
        }
    }
}

#[test]
fn a_full_segment_is_sealed_while_it_is_written() {
    let dir = scratch();
    let store = open(dir.path());
    let long = |number: u64| {
        let mut new = delivery(number * 5);
        new.delivery.uri = Some("x".repeat(1024 * 1024));
        new
    };
    let mut waiting: VecDeque<_> = (0..20).map(long).collect();
    store.write_deliveries(&mut waiting, NOW).unwrap();
    assert!(waiting.is_empty());
    assert_eq!(actions(&store), ["sealed", "sealed"]);
    store.seal_deliveries(NOW).unwrap();
    assert_sound(&store, 20);
    assert_eq!(found(&store, &Wanted::default()).0.len(), 20);
}

#[test]
fn what_is_too_old_or_too_much_leaves_on_the_record() {
    let dir = scratch();
    let store = open(dir.path());
    for number in 0..6 {
        write(&store, number..number + 1).unwrap();
        store.seal_deliveries(NOW).unwrap();
    }
    let nothing = store.retire_deliveries(Keep::default(), at(1_000_000)).unwrap();
    assert_eq!(nothing, 0);
    let age = Keep {
        age: Some(Duration::from_secs(10)),
        bytes: None,
    };
    assert_eq!(store.retire_deliveries(age, at(10)).unwrap(), 0);
    assert_eq!(store.retire_deliveries(age, at(12)).unwrap(), 2);
    assert_eq!(all(&store), expected(2..6));
    let bytes = (4..6).map(|number| fs::metadata(segment(dir.path(), number)).unwrap().len());
    let size = Keep {
        age: None,
        bytes: Some(bytes.sum()),
    };
    assert_eq!(store.retire_deliveries(size, at(12)).unwrap(), 2);
    assert_eq!(store.retire_deliveries(size, at(12)).unwrap(), 0);
    let removed = |first, last, reason: &str| Event::SegmentsRemoved {
        first,
        last,
        reason: reason.to_owned(),
    };
    assert_eq!(store.leaf(6).unwrap().unwrap().event, removed(0, 1, "age"));
    assert_eq!(store.leaf(7).unwrap().unwrap().event, removed(2, 3, "size"));
    assert_sound(&store, 2);
    drop(store);
    let store = open(dir.path());
    assert_eq!(all(&store), expected(4..6));
    assert_sound(&store, 2);
    assert!(!segment(dir.path(), 3).exists());
}

#[test]
fn a_removal_that_is_interrupted_is_finished_by_the_next_start() {
    for call in 0.. {
        let dir = scratch();
        let watch = Watch::over(dir.path());
        let store = open(dir.path());
        for number in 0..4 {
            write(&store, number..number + 1).unwrap();
            store.seal_deliveries(NOW).unwrap();
        }
        watch.arm(call, Errno::IO);
        let keep = Keep {
            age: Some(Duration::ZERO),
            bytes: None,
        };
        let removed = store.retire_deliveries(keep, at(3));
        let is_over = watch.disarm();
        drop(store);
        let store = open(dir.path());
        let kept = all(&store);
        assert!(
            kept == expected(3..4) || removed.is_err() && kept == expected(0..4),
            "call {call}"
        );
        assert_sound(&store, kept.len() as u64);
        assert_eq!(filed(&dir.path().join("deliveries")).unwrap().len(), kept.len());
        if is_over {
            break;
        }
    }
}

#[test]
fn a_damaged_segment_is_named_and_the_others_are_read() {
    let dir = scratch();
    let store = open(dir.path());
    for number in 0..3 {
        write(&store, number..number + 1).unwrap();
        store.seal_deliveries(NOW).unwrap();
    }
    for (name, harm) in [
        (
            "its file does not have its digest",
            &crate::store::tests::flip as &dyn Fn(&Path, usize),
        ),
        ("its file does not have its digest", &crate::store::tests::cut),
        ("its file is missing", &|path: &Path, _| fs::remove_file(path).unwrap()),
    ] {
        harm(&segment(dir.path(), 1), 20);
        let wanted = Wanted {
            skill: Some(skill(1)),
            ..Wanted::default()
        };
        for (wanted, fitting) in [(Wanted::default(), vec![0, 2]), (wanted, vec![])] {
            let (found, looked) = found(&store, &wanted);
            let fitting: Vec<_> = fitting.into_iter().map(|number| delivery(number).delivery).collect();
            assert_eq!(found, fitting);
            assert_eq!(looked.damaged, [SegmentFault::new(1, Some(1), name)]);
        }
        let report = store.verify_deliveries(&mut |_| {}).unwrap();
        assert_eq!(report.faults, [SegmentFault::new(1, Some(1), name)]);
        assert_eq!(report.deliveries, 2);
    }
}

#[test]
fn a_segment_in_anothers_place_and_one_without_a_leaf_are_named() {
    let dir = scratch();
    let store = open(dir.path());
    for number in 0..2 {
        write(&store, number..number + 1).unwrap();
        store.seal_deliveries(NOW).unwrap();
    }
    fs::copy(segment(dir.path(), 0), segment(dir.path(), 7)).unwrap();
    let report = store.verify_deliveries(&mut |_| {}).unwrap();
    assert_eq!(
        report.faults,
        [SegmentFault::new(7, None, "no leaf of the log names it")]
    );
    drop(store);
    // It gets no leaf by a restart, and no segment takes its place.
    let store = open(dir.path());
    write(&store, 2..3).unwrap();
    store.seal_deliveries(NOW).unwrap();
    assert_eq!(all(&store), expected(0..3));
    let report = store.verify_deliveries(&mut |_| {}).unwrap();
    assert_eq!(
        report.faults,
        [SegmentFault::new(7, None, "no leaf of the log names it")]
    );
}

#[test]
fn answers_do_not_hang_on_the_index() {
    let dir = scratch();
    let store = open(dir.path());
    for number in 0..20 {
        write(&store, number..number + 1).unwrap();
        store.seal_deliveries(NOW).unwrap();
    }
    write(&store, 20..23).unwrap();
    let questions: Vec<Wanted> = questions().collect();
    let answers: Vec<_> = questions.iter().map(|wanted| found(&store, wanted)).collect();
    let few = &answers[0].1;
    assert!(few.found > 0 && few.segments < 8, "the index leads there: {few:?}");
    let compare = |store: &Store, what: &str| {
        for (wanted, (known, _)) in questions.iter().zip(&answers) {
            assert_eq!(&found(store, wanted).0, known, "{what}: {wanted:?}");
        }
    };
    drop(store);
    fs::remove_dir_all(dir.path().join("index")).unwrap();
    let store = open(dir.path());
    compare(&store, "no index");
    assert_eq!(store.index_deliveries(7).unwrap(), 7);
    compare(&store, "half an index");
    assert_sound(&store, 23);
    assert_eq!(store.index_deliveries(1_000).unwrap(), 14);
    compare(&store, "an index that was made anew in the background");
    let segments = found(&store, &questions[0]).1.segments;
    assert!(
        segments <= few.segments + 1,
        "what was open is a segment too: {segments}"
    );
    assert_eq!(store.rebuild_index().unwrap().segments, 21);
    compare(&store, "an index that was made anew");
    drop(store);
    for name in ["db", "conf"] {
        fs::write(dir.path().join("index").join(name), "garbage").unwrap();
    }
    let store = open(dir.path());
    compare(&store, "a damaged index");
}

#[test]
fn an_index_of_another_time_is_noticed() {
    let (dir, later) = (scratch(), scratch());
    let store = open(dir.path());
    write(&store, 0..1).unwrap();
    store.seal_deliveries(NOW).unwrap();
    drop(store);
    crate::store::tests::copy_tree(dir.path(), later.path());
    let store = open(later.path());
    for number in 10..14 {
        write(&store, number..number + 1).unwrap();
        store.seal_deliveries(NOW).unwrap();
    }
    drop(store);
    fs::remove_dir_all(dir.path().join("index")).unwrap();
    crate::store::tests::copy_tree(&later.path().join("index"), &dir.path().join("index"));
    let store = open(dir.path());
    for number in 1..6 {
        write(&store, number..number + 1).unwrap();
        store.seal_deliveries(NOW).unwrap();
    }
    for wanted in questions() {
        let plain = (0..6).map(delivery).filter(|new| fits(&wanted, new));
        assert_eq!(
            found(&store, &wanted).0,
            plain.map(|new| new.delivery).collect::<Vec<_>>()
        );
    }
    assert_sound(&store, 6);
}

/// The naive answer to whether a delivery is wanted.
fn fits(wanted: &Wanted, new: &NewDelivery) -> bool {
    wanted.fits(&new.delivery, new.page.as_ref().is_some_and(|page| page.shows(wanted)))
}

fn questions() -> impl Iterator<Item = Wanted> {
    let which = [
        Wanted {
            digest: Some(Digest::of(&1_u64.to_be_bytes())),
            ..Wanted::default()
        },
        Wanted {
            skill: Some(skill(2)),
            ..Wanted::default()
        },
        Wanted {
            set: Some(set(SOME + 1)),
            ..Wanted::default()
        },
        Wanted {
            callers: Some(BTreeSet::from([caller(1), caller(3)])),
            ..Wanted::default()
        },
        Wanted {
            skill: Some(skill(1)),
            callers: Some(BTreeSet::from([caller(0)])),
            ..Wanted::default()
        },
        Wanted {
            digest: Some(Digest::of(b"never")),
            ..Wanted::default()
        },
        Wanted::default(),
    ];
    let spans = [(None, None), (Some(at(2)), Some(at(11))), (Some(at(18)), None)];
    which.into_iter().flat_map(move |wanted| {
        spans.map(|(since, until)| Wanted {
            since,
            until,
            ..wanted.clone()
        })
    })
}

#[test]
fn one_who_has_heard_enough_is_told_no_more() {
    let dir = scratch();
    let store = open(dir.path());
    write(&store, 0..9).unwrap();
    store.seal_deliveries(NOW).unwrap();
    write(&store, 9..12).unwrap();
    for enough in [1, 5, 10] {
        let mut heard = 0;
        let looked = store.deliveries(&Wanted::default(), &mut |_| {
            heard += 1;
            if heard < enough {
                ControlFlow::Continue(())
            } else {
                ControlFlow::Break(())
            }
        });
        assert_eq!((heard, looked.unwrap().found), (enough, enough));
    }
}

#[test]
fn a_million_deliveries_are_verified() {
    const SEGMENTS: u64 = 100;
    const EACH: u64 = 10_000;
    let dir = scratch();
    let store = open(dir.path());
    // The same lines, in a segment of their own each time.
    let mut contents = Contents::new(0);
    let mut draft = Draft::default();
    (0..EACH).for_each(|number| contents.draft(&mut draft, &delivery(number)));
    contents.adopt(draft);
    let after_first = contents.text.iter().position(|byte| *byte == b'\n').unwrap() + 1;
    let lines = contents.text.split_off(after_first);
    let deliveries = &store.0.deliveries;
    for segment in 0..SEGMENTS {
        contents.text = [&Contents::new(segment).text[..], &lines].concat();
        let open = Open {
            segment,
            contents,
            stage: Stage::Growing,
            note: None,
            is_flushed: false,
        };
        let filed = deliveries.file(&open).unwrap();
        deliveries.record(&store.0.log, &open, filed, NOW).unwrap();
        contents = open.contents;
    }
    let report = store.verify_deliveries(&mut |_| {}).unwrap();
    assert!(report.is_sound(), "{:?}", report.faults);
    assert_eq!((report.segments, report.deliveries), (SEGMENTS, SEGMENTS * EACH));
}

/// What is done to deliveries, in any order.
#[derive(Clone, Debug)]
enum Act {
    Write(u64),
    Seal,
    Restart,
    LoseIndex,
    Index(u64),
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let act = prop_oneof![
        4 => (1..6_u64).prop_map(Act::Write),
        3 => Just(Act::Seal),
        1 => Just(Act::Restart),
        1 => Just(Act::LoseIndex),
        1 => (0..4_u64).prop_map(Act::Index),
    ];
    prop::collection::vec(act, 1..16)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn whatever_is_done_every_question_has_the_naive_answer(acts in acts()) {
        let dir = scratch();
        let mut store = open(dir.path());
        let mut written = 0;
        for act in acts {
            match act {
                Act::Write(count) => {
                    write(&store, written..written + count).unwrap();
                    written += count;
                }
                Act::Seal => store.seal_deliveries(NOW).unwrap(),
                Act::Restart => {
                    drop(store);
                    store = open(dir.path());
                }
                Act::LoseIndex => {
                    drop(store);
                    fs::remove_dir_all(dir.path().join("index")).unwrap();
                    store = open(dir.path());
                }
                Act::Index(most) => drop(store.index_deliveries(most).unwrap()),
            }
        }
        for wanted in questions() {
            let plain = (0..written).map(delivery).filter(|new| fits(&wanted, new));
            prop_assert_eq!(found(&store, &wanted).0, plain.map(|new| new.delivery).collect::<Vec<_>>());
        }
        let report = store.verify_deliveries(&mut |_| {}).unwrap();
        prop_assert!(report.is_sound(), "{:?}", report);
    }
}
