//! The audit log under many callers, under several keys, and against what an auditor kept.

use std::collections::BTreeMap;

use super::*;
use crate::domain::audit::TileName;
use crate::store::durable::Watch;

fn verify(store: &Store, kept: &Kept) -> LogReport {
    store.verify_log(kept, &mut |_| {}).unwrap()
}

fn checkpoint_kept(bytes: Vec<u8>) -> Kept {
    Kept {
        checkpoint: Some(bytes),
        key: None,
    }
}

/// Appends on many threads at once, each batch two leaves about a skill of its own and one that all share.
fn append_at_once(store: &Store, callers: usize, each: usize) -> Vec<Result<Vec<(u64, Leaf)>, Error>> {
    let answers = parking_lot::Mutex::new(Vec::new());
    let barrier = std::sync::Barrier::new(callers);
    std::thread::scope(|scope| {
        for caller in 0..callers {
            let (answers, barrier) = (&answers, &barrier);
            scope.spawn(move || {
                barrier.wait();
                for _ in 0..each {
                    let batch = vec![held(&format!("own-{caller}")), held("shared")];
                    let answer = store.append(batch, NOW);
                    answers.lock().push(answer);
                }
            });
        }
    });
    answers.into_inner()
}

#[test]
fn callers_at_once_share_frames_and_every_chain_is_right() {
    let dir = scratch();
    let store = open(dir.path()).unwrap();
    let answers = append_at_once(&store, 16, 20);
    let mut acknowledged = BTreeMap::new();
    for answer in answers {
        let leaves = answer.unwrap();
        assert_eq!(leaves.len(), 2);
        assert_eq!(leaves[0].0 + 1, leaves[1].0, "a batch stays together");
        acknowledged.extend(leaves);
    }
    let all: Vec<_> = acknowledged.into_values().collect();
    assert_eq!(all.len(), 16 * 20 * 2);
    assert_eq!(leaves(&store), all);
    let report = verify(&store, &Kept::default());
    assert!(report.is_sound(), "{report:?}");
    assert_eq!(report.leaves, all.len() as u64);
    assert!(report.checkpoints < 16 * 20, "{} frames", report.checkpoints);
    drop(store);
    let store = open(dir.path()).unwrap();
    assert_eq!(leaves(&store), all);
    assert_eq!(faults(&store), []);
}

#[test]
fn a_frame_that_fails_fails_for_all_of_its_callers_and_nothing_of_it_counts() {
    for call in 0..40 {
        let dir = scratch();
        let store = open(dir.path()).unwrap();
        store.append(vec![held("shared")], NOW).unwrap();
        store.0.log.settle();
        let watch = Watch::over(dir.path());
        watch.arm(call, Errno::IO);
        let answers = append_at_once(&store, 8, 4);
        store.0.log.settle();
        watch.disarm();
        let acknowledged: usize = answers.iter().map(|answer| answer.as_ref().map_or(0, Vec::len)).sum();
        assert!(answers.iter().any(Result::is_err), "{call}");
        assert_eq!(leaves(&store).len(), 1 + acknowledged, "{call}");
        drop(store);
        let store = open(dir.path()).unwrap();
        assert_eq!(leaves(&store).len(), 1 + acknowledged, "{call}");
        assert_eq!(faults(&store), [], "{call}");
    }
}

#[test]
fn a_batch_that_cannot_be_written_fails_alone() {
    let dir = scratch();
    let store = open(dir.path()).unwrap();
    let rotation = NewLeaf {
        event: Event::KeyRotated {
            from: "x".to_owned(),
            to: "y".to_owned(),
        },
        ..held("a")
    };
    let batch = |leaves| commit::Batch { leaves, now: NOW };
    let batches = vec![
        batch(vec![held("a")]),
        batch(vec![held("a"), rotation]),
        batch(vec![held("a"), held("b")]),
    ];
    let answers = store.0.log.core.write(batches);
    assert!(matches!(answers[1], Err(Error::Leaf { .. })), "{answers:?}");
    let chain: Vec<_> = [0, 2]
        .into_iter()
        .flat_map(|at| answers[at].as_ref().unwrap())
        .map(|(index, leaf)| (*index, leaf.prev))
        .collect();
    assert_eq!(chain, [(0, None), (1, Some(0)), (2, None)]);
    assert_eq!(leaves(&store).len(), 3);
}

#[test]
fn another_key_signs_from_its_rotation_on_and_the_old_ones_count_for_their_time() {
    let dir = scratch();
    let mut store = open(dir.path()).unwrap();
    let mut keys = vec![store.verifier_key()];
    let mut kept = vec![store.checkpoint()];
    for round in 1..4_u64 {
        store.append(vec![held("a")], NOW).unwrap();
        kept.push(store.checkpoint());
        let (index, leaf) = store
            .rotate_key(Actor::Gateway, Some("yearly".to_owned()), NOW)
            .unwrap();
        assert_eq!((index, leaf.event.action()), (round * 2 - 1, "key-rotated"));
        kept.push(store.checkpoint());
        keys.push(store.verifier_key());
        store.0.log.settle();
        assert_eq!(
            fs::read(dir.path().join("head/checkpoint")).unwrap(),
            store.checkpoint()
        );
        if round % 2 == 0 {
            drop(store);
            store = open(dir.path()).unwrap();
        }
        assert_eq!(Some(&store.verifier_key()), keys.last());
    }
    keys.dedup();
    assert_eq!(keys.len(), 4);
    assert_eq!(
        store
            .earlier_keys()
            .iter()
            .map(|earlier| earlier.until)
            .collect::<Vec<_>>(),
        [2, 4, 6]
    );
    assert!(!dir.path().join("keys/next").exists());
    for checkpoint in kept {
        let report = verify(&store, &checkpoint_kept(checkpoint));
        assert_eq!((report.faults, report.keys), (Vec::new(), 4));
    }
    for key in keys {
        let kept = Kept {
            checkpoint: None,
            key: Some(key),
        };
        assert_eq!(verify(&store, &kept).faults, []);
    }
    let stranger = Kept {
        checkpoint: None,
        key: Some(key::generate("portcullis/x").unwrap().verifier().clone()),
    };
    assert!(verify(&store, &stranger).faults[0].why.contains("never handed over"));
}

#[test]
fn a_rotation_cut_short_between_its_steps_is_finished_or_undone() {
    let dir = scratch();
    let (before, data) = (dir.path().join("before"), dir.path().join("data"));
    let store = open(&before).unwrap();
    store.append(vec![held("a")], NOW).unwrap();
    drop(store);
    let old = fs::read(before.join("keys/log")).unwrap();
    copy_tree(&before, &data);
    let store = open(&data).unwrap();
    store.rotate_key(Actor::Gateway, None, NOW).unwrap();
    let rotated = store.verifier_key();
    drop(store);
    let new = fs::read(data.join("keys/log")).unwrap();
    // The key lies there, and the leaf does not: undone.
    fs::write(before.join("keys/next"), &new).unwrap();
    let store = open(&before).unwrap();
    assert_ne!(store.verifier_key(), rotated);
    assert!(!before.join("keys/next").exists());
    drop(store);
    // The leaf lies there, and the key is not in its place: finished.
    fs::write(data.join("keys/log"), &old).unwrap();
    fs::write(data.join("keys/next"), &new).unwrap();
    let store = open(&data).unwrap();
    assert_eq!(store.verifier_key(), rotated);
    assert_eq!(fs::read(data.join("keys/log")).unwrap(), new);
    assert_eq!(faults(&store), []);
    drop(store);
    // The new key is nowhere: whoever has only the old one cannot go on.
    fs::write(data.join("keys/log"), &old).unwrap();
    let opened = open(&data);
    assert!(matches!(opened, Err(Error::Key { .. })), "{opened:?}");
    // And with an old log, the new key does not go on either.
    fs::write(data.join("keys/log"), &new).unwrap();
    overwrite(
        &data.join("log/journal"),
        &fs::read(before.join("log/journal")).unwrap(),
    );
    let opened = open(&data);
    assert!(
        matches!(opened, Err(Error::HeadAhead { head: 2, log: 1 })),
        "{opened:?}"
    );
}

#[test]
fn what_an_old_key_signs_after_its_rotation_is_refused_and_named() {
    let dir = scratch();
    let store = open(dir.path()).unwrap();
    let stolen = fs::read(dir.path().join("keys/log")).unwrap();
    store.append(vec![held("a")], NOW).unwrap();
    store.rotate_key(Actor::Gateway, None, NOW).unwrap();
    store.append(vec![held("a")], NOW).unwrap();
    drop(store);
    // The thief writes a batch of their own, with everything right but the key.
    let mut tree = crate::domain::audit::Tree::default();
    let store = open(dir.path()).unwrap();
    leaves(&store).iter().for_each(|leaf| tree.push(&leaf.to_bytes()));
    let id = store.id().to_owned();
    drop(store);
    let thief = key::parse(&stolen, &format!("portcullis/{id}"), Path::new("keys/log")).unwrap();
    let leaf = Leaf {
        v: Leaf::VERSION,
        time: NOW,
        actor: Actor::Gateway,
        event: held("a").event,
        note: None,
        prev: Some(2),
    };
    tree.push(&leaf.to_bytes());
    let note = log::sign(&thief, &tree).unwrap();
    let frame = journal::encode(3, &[leaf.to_bytes()], &note).unwrap();
    let journal = dir.path().join("log/journal");
    overwrite(&journal, &[fs::read(&journal).unwrap(), frame].concat());
    let Err(Error::LogDamaged { index: 3, why }) = open(dir.path()) else {
        panic!("not refused")
    };
    assert!(why.contains("was not the log's key"), "{why}");
}

#[test]
fn a_checkpoint_kept_elsewhere_shows_what_was_cut_or_rewritten() {
    let dir = scratch();
    let (one, two) = (dir.path().join("one"), dir.path().join("two"));
    let store = open(&one).unwrap();
    store.append(vec![held("a"), held("b")], NOW).unwrap();
    drop(store);
    copy_tree(&one, &two);
    let store = open(&one).unwrap();
    store.append(vec![held("c"), held("d")], NOW).unwrap();
    let kept = store.checkpoint();
    assert_eq!(verify(&store, &checkpoint_kept(kept.clone())).faults, []);
    // The same key goes on from an old copy: first it is shorter, then it is another history.
    let fork = open(&two).unwrap();
    let report = verify(&fork, &checkpoint_kept(kept.clone()));
    assert_eq!(report.faults[0].index, 2);
    assert!(report.faults[0].why.contains("leaves 2 to 3 are missing"), "{report:?}");
    fork.append(vec![held("x"), held("y"), held("z")], NOW).unwrap();
    assert_eq!(faults(&fork), [], "by itself nothing is wrong with it");
    let report = verify(&fork, &checkpoint_kept(kept));
    assert!(report.faults[0].why.contains("history was rewritten"), "{report:?}");
    let other = open(&dir.path().join("three")).unwrap();
    let report = verify(&fork, &checkpoint_kept(other.checkpoint()));
    assert!(report.faults[0].why.contains("no key of this log"), "{report:?}");
    assert!(!verify(&fork, &checkpoint_kept(b"nonsense".to_vec())).is_sound());
}

#[test]
fn every_tile_that_is_asked_for_is_the_one_on_the_disk_or_its_beginning() {
    let dir = scratch();
    let store = open(dir.path()).unwrap();
    for size in [3, 250, 300] {
        store
            .append((0..size).map(|n| held(&format!("s{n}"))).collect(), NOW)
            .unwrap();
    }
    store.0.log.settle();
    let log = dir.path().join("log");
    let mut tiles = 0;
    for path in files_below(&log.join("tile")) {
        let name: TileName = path.strip_prefix(&log).unwrap().to_str().unwrap().parse().unwrap();
        assert_eq!(store.tile(&name).unwrap(), Some(fs::read(&path).unwrap()), "{name}");
        if !name.to_string().contains("entries") {
            let narrow = TileName { width: 1, ..name };
            assert_eq!(store.tile(&narrow).unwrap().unwrap(), fs::read(&path).unwrap()[..32]);
        }
        tiles += 1;
    }
    assert_eq!(tiles, 7);
    for absent in [
        "tile/0/002.p/42",
        "tile/0/003",
        "tile/1/000.p/3",
        "tile/2/000.p/1",
        "tile/entries/002.p/42",
    ] {
        assert_eq!(store.tile(&absent.parse().unwrap()).unwrap(), None, "{absent}");
    }
}

#[test]
fn ten_thousand_decisions_verify_and_prove_themselves() {
    let dir = scratch();
    let store = open(dir.path()).unwrap();
    for frame in 0..40 {
        let batch = (0..250).map(|n| held(&format!("s{}", (frame * 250 + n) % 700)));
        store.append(batch.collect(), NOW).unwrap();
    }
    let report = verify(&store, &Kept::default());
    assert_eq!(
        (report.leaves, report.checkpoints, report.faults),
        (10_000, 40, Vec::new())
    );
    let key = store.verifier_key();
    for index in (0..10_000).step_by(997) {
        let proof = store.prove(index).unwrap().unwrap();
        assert!(proof.hashes.len() <= 14);
        assert_eq!(Some(proof.check(&key).unwrap()), store.leaf(index).unwrap());
    }
    assert!(store.prove(10_000).unwrap().is_none());
    for (old, new) in [(0, 10_000), (1, 256), (9_999, 10_000), (4_096, 8_192)] {
        let found = store.consistency(&Point::Size(old), &Point::Size(new));
        assert_eq!(found.why, None);
        let proven = crate::domain::audit::is_consistent(&found.proof, found.old.unwrap(), found.new.unwrap());
        assert!(proven, "{old} {new}");
    }
}

/// Writes the whole record anew with the key, but for one leaf that says something else.
fn rewrite(data: &Path, store_id: &str) {
    let key = fs::read(data.join("keys/log")).unwrap();
    let key = key::parse(&key, &format!("portcullis/{store_id}"), Path::new("keys/log")).unwrap();
    let path = data.join("log/journal");
    let (file, mut at, mut frames) = (fs::File::open(&path).unwrap(), 0, Vec::new());
    let len = fs::metadata(&path).unwrap().len();
    let mut tree = crate::domain::audit::Tree::default();
    let mut note = Vec::new();
    while at < len {
        let (mut frame, next) = journal::read(&file, at, len, tree.size()).unwrap();
        for bytes in &mut frame.leaves {
            let mut leaf = Leaf::from_bytes(bytes).unwrap();
            if tree.size() == 1 {
                leaf.note = Some("this was never written".to_owned());
            }
            *bytes = leaf.to_bytes();
            tree.push(bytes);
        }
        note = log::sign(&key, &tree).unwrap();
        frames.extend(journal::encode(frame.first, &frame.leaves, &note).unwrap());
        at = next;
    }
    overwrite(&path, &frames);
    overwrite(&data.join("head/checkpoint"), &note);
    fs::remove_dir_all(data.join("log/tile")).unwrap();
    fs::remove_file(data.join("log/checkpoint")).unwrap();
}

#[test]
fn a_record_rewritten_with_the_stolen_key_is_whole_and_not_what_was_kept() {
    let dir = scratch();
    let store = open(dir.path()).unwrap();
    store.append(vec![held("a"), held("b")], NOW).unwrap();
    let kept = store.checkpoint();
    store.append(vec![held("a")], NOW).unwrap();
    let id = store.id().to_owned();
    drop(store);
    rewrite(dir.path(), &id);
    let store = open(dir.path()).unwrap();
    assert_eq!(faults(&store), [], "by itself nothing is wrong with it");
    let report = verify(&store, &checkpoint_kept(kept.clone()));
    assert!(
        report.faults[0].why.contains("history was rewritten before leaf 2"),
        "{report:?}"
    );
    // Nor does a witness that has cosigned the first one go along.
    let found = store.consistency(&Point::Checkpoint(String::from_utf8(kept).unwrap()), &Point::Size(3));
    assert!(found.why.unwrap().contains("are not the log's"));
}
