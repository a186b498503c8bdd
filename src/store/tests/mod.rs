//! The store as a whole: what comes back, what heals, what is refused, what a crash leaves.
#![expect(clippy::disallowed_methods, reason = "what others do to the folder is done here")]

mod faults;
mod platter;
mod power_cuts;
mod record;
mod rot;
mod story;

use std::fs;
use std::path::Path;

use bytes::Bytes;
use proptest::prelude::*;
use rustix::io::Errno;

use super::*;
use crate::domain::Form;
use crate::domain::FrontmatterPolicy;
use crate::domain::Media;
use crate::domain::SkillUri;
use crate::domain::audit::Event;

const NOW: Timestamp = Timestamp::from_millis(1_790_000_000_000);

/// A folder for what is done so often that real flushes would take long: in memory, where there is such a place.
fn scratch() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm")
        .or_else(|_| tempfile::tempdir())
        .unwrap()
}

fn options(dir: &Path) -> Options {
    Options {
        data_dir: dir.to_owned(),
        allow_unsafe_location: false,
        limits: Limits::default(),
    }
}

fn open(dir: &Path) -> Result<Store, Error> {
    let store = Store::open(&options(dir), NOW)?;
    store.recover_deliveries(NOW)?;
    Ok(store)
}

/// A skill `name` with its files below it, beside a `SKILL.md` that is never stored here.
fn skill(name: &str, files: &[(&str, &[u8])]) -> (SkillKey, Arc<SkillEntry>) {
    let root = format!("skill://{name}");
    let own = format!("{root}/SKILL.md");
    let resource = |path: &str, bytes: &[u8]| {
        format!(
            r#"{{"uri":"{root}/{path}","digest":"{}","size":{}}}"#,
            Digest::of(bytes),
            bytes.len()
        )
    };
    let resources: Vec<_> = [("SKILL.md", &b"# x"[..])]
        .iter()
        .chain(files)
        .map(|(path, bytes)| resource(path, bytes))
        .collect();
    let last = name.rsplit('/').next().unwrap();
    let text = format!(
        r#"{{"uri":"{own}", "frontmatter":{{"name":"{last}","description":"d é","v":1.10}},"resources":[{}]}}"#,
        resources.join(",")
    );
    let entry = SkillEntry::parse(&text, &Limits::default()).unwrap();
    let key = SkillKey {
        label: "acme".parse().unwrap(),
        uri: own.parse().unwrap(),
    };
    (key, Arc::new(entry))
}

fn verified(entry: &SkillEntry, path: &str, bytes: &[u8], mime: &str) -> VerifiedFile {
    let uri = format!("{}/{path}", entry.uri().root());
    let media = Media {
        form: Form::Text,
        mime_type: Some(mime.to_owned()),
    };
    entry
        .verify(&uri, Bytes::copy_from_slice(bytes), media, FrontmatterPolicy::Readings)
        .unwrap()
}

fn resource(entry: &SkillEntry, path: &str) -> Resource {
    let uri = format!("{}/{path}", entry.uri().root());
    entry.resources().get(&uri).unwrap().clone()
}

fn held(name: &str) -> NewLeaf {
    NewLeaf {
        actor: Actor::Gateway,
        event: Event::Held {
            skill: skill(name, &[]).0,
            set: None,
        },
        note: Some("n".to_owned()),
    }
}

fn leaves(store: &Store) -> Vec<Leaf> {
    let mut leaves = Vec::new();
    store
        .replay(&mut |index, leaf| {
            assert_eq!(index as usize, leaves.len());
            leaves.push(leaf.clone());
        })
        .unwrap();
    leaves
}

fn faults(store: &Store) -> Vec<LogFault> {
    store.verify_log(&Kept::default(), &mut |_| {}).unwrap().faults
}

fn files_below(dir: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(files_below(&path));
        } else {
            files.push(path);
        }
    }
    files.sort();
    files
}

pub(super) fn copy_tree(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let target = to.join(path.file_name().unwrap());
        if path.is_dir() {
            copy_tree(&path, &target);
        } else {
            fs::copy(&path, &target).unwrap();
        }
    }
}

/// Writes over a file whatever its mode is.
fn overwrite(path: &Path, bytes: &[u8]) {
    let new = path.with_extension("overwritten");
    fs::copy(path, &new).unwrap();
    fs::set_permissions(&new, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    let file = fs::OpenOptions::new().write(true).truncate(true).open(&new).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, bytes, 0).unwrap();
    rustix::fs::rename(&new, path).unwrap();
}

pub(super) fn flip(path: &Path, at: usize) {
    let mut bytes = fs::read(path).unwrap();
    bytes[at] ^= 0x10;
    overwrite(path, &bytes);
}

pub(super) fn cut(path: &Path, len: usize) {
    let bytes = fs::read(path).unwrap();
    overwrite(path, &bytes[..len]);
}

fn content_path(dir: &Path, bytes: &[u8]) -> PathBuf {
    let hex = Digest::of(bytes).hex();
    let found = files_below(&dir.join("content"));
    found.into_iter().find(|path| path.ends_with(&hex)).unwrap()
}

#[test]
fn what_was_stored_is_read_back_after_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).unwrap();
    let (key, entry) = skill("refunds", &[("a.txt", b"same"), ("b.md", b"same"), ("empty", b"")]);
    let files = [
        verified(&entry, "a.txt", b"same", "text/plain"),
        verified(&entry, "b.md", b"same", "text/markdown"),
        verified(&entry, "empty", b"", "text/plain"),
    ];
    store.put_files(&files.each_ref().map(|file| (&key, file))).unwrap();
    store.put_file(&key, &files[0]).unwrap();
    store.put_set(&key, &entry, "https://acme.example/mcp", NOW).unwrap();
    let (id, actor) = (store.id().to_owned(), store.person("ada").unwrap());
    drop(store);

    let store = open(dir.path()).unwrap();
    assert_eq!(store.id(), id);
    assert_eq!(store.person("ada").unwrap(), actor);
    for (path, bytes, mime) in [
        ("a.txt", &b"same"[..], "text/plain"),
        ("b.md", b"same", "text/markdown"),
        ("empty", b"", "text/plain"),
    ] {
        let resource = resource(&entry, path);
        assert!(store.has_file(&key, &resource));
        let StoredFile::Intact(read, media) = store.read_file(&key, &resource, NOW).unwrap() else {
            panic!("{path}")
        };
        assert_eq!((&read[..], media.mime_type.as_deref()), (bytes, Some(mime)));
    }
    let own = resource(&entry, "SKILL.md");
    assert_eq!(store.read_file(&key, &own, NOW).unwrap(), StoredFile::Absent);
    assert_eq!(store.set(&key, entry.set()).unwrap().text(), entry.text());
    let other = SkillKey {
        uri: "skill://other/SKILL.md".parse().unwrap(),
        ..key.clone()
    };
    assert!(store.set(&other, entry.set()).is_none());
    assert_eq!(store.listing(&key.label).unwrap().heard, NOW);
    assert_eq!(store.listing(&"unheard".parse().unwrap()), None);
    let report = store.verify(&mut |_| {}).unwrap();
    assert_eq!((report.files, report.sets), (2, 1));
    assert!(report.damaged.is_empty() && report.strangers.is_empty(), "{report:?}");
}

#[test]
fn content_lies_as_the_design_says() {
    use std::os::unix::fs::PermissionsExt as _;
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).unwrap();
    let (key, entry) = skill("refunds", &[("a.txt", b"x")]);
    store
        .put_file(&key, &verified(&entry, "a.txt", b"x", "text/plain"))
        .unwrap();
    store.put_set(&key, &entry, "dir", NOW).unwrap();
    let path = dir
        .path()
        .join("content/acme/skill%3A%2F%2Frefunds%2FSKILL.md")
        .join(Digest::of(b"x").hex());
    assert_eq!(fs::read(&path).unwrap(), b"x");
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o444);
    assert!(path.with_extension("json").exists());
    assert!(path.with_file_name(format!("set-{}.json", entry.set().hex())).exists());
    for folder in [
        "content",
        "content/acme",
        "log",
        "keys",
        "head",
        "people",
        "tokens",
        "quarantine",
    ] {
        let mode = fs::metadata(dir.path().join(folder)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700, "{folder}");
    }
    let key_mode = fs::metadata(dir.path().join("keys/log")).unwrap().permissions().mode();
    assert_eq!(key_mode & 0o777, 0o600);
    assert!(files_below(dir.path()).iter().all(|path| !path.ends_with("SKILL.md")));
}

#[test]
fn a_second_process_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).unwrap();
    assert!(matches!(open(dir.path()), Err(Error::Locked { .. })));
    let clone = store.clone();
    drop(store);
    assert!(matches!(open(dir.path()), Err(Error::Locked { .. })));
    drop(clone);
    open(dir.path()).unwrap();
}

#[test]
fn a_damaged_file_is_put_aside_and_the_next_put_heals_it() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).unwrap();
    let (key, entry) = skill("refunds", &[("a.txt", b"good")]);
    let file = verified(&entry, "a.txt", b"good", "text/plain");
    let resource = resource(&entry, "a.txt");
    for bad in [&b"goof"[..], b"goods", b""] {
        store.put_file(&key, &file).unwrap();
        overwrite(&content_path(dir.path(), b"good"), bad);
        let read = store.read_file(&key, &resource, NOW).unwrap();
        assert_eq!(read, StoredFile::Damaged { got: Digest::of(bad) });
        assert_eq!(store.read_file(&key, &resource, NOW).unwrap(), StoredFile::Absent);
    }
    let notes: Vec<QuarantineNote> = files_below(&dir.path().join("quarantine"))
        .into_iter()
        .filter(|path| path.extension().is_some())
        .map(|path| serde_json::from_slice(&fs::read(path).unwrap()).unwrap())
        .collect();
    assert_eq!(notes.len(), 3);
    for note in notes {
        assert_eq!(
            (note.uri, note.expected, note.when),
            (resource.uri.to_string(), resource.digest.to_string(), NOW)
        );
    }
    store.put_file(&key, &file).unwrap();
    assert!(matches!(
        store.read_file(&key, &resource, NOW).unwrap(),
        StoredFile::Intact(..)
    ));
}

#[test]
fn a_put_over_other_bytes_replaces_them_and_keeps_them_aside() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).unwrap();
    let (key, entry) = skill("refunds", &[("a.txt", b"good")]);
    let file = verified(&entry, "a.txt", b"good", "text/plain");
    store.put_file(&key, &file).unwrap();
    let path = content_path(dir.path(), b"good");
    flip(&path, 0);
    store.put_file(&key, &file).unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"good");
    fs::rename(&path, dir.path().join("content/elsewhere")).unwrap();
    std::os::unix::fs::symlink(dir.path().join("content/elsewhere"), &path).unwrap();
    store.put_file(&key, &file).unwrap();
    assert!(path.symlink_metadata().unwrap().is_file());
    assert_eq!(files_below(&dir.path().join("quarantine")).len(), 4);
}

#[test]
fn an_entry_that_is_wrong_about_a_size_does_not_cost_the_file() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).unwrap();
    let (key, entry) = skill("refunds", &[("a.txt", b"good")]);
    store
        .put_file(&key, &verified(&entry, "a.txt", b"good", "text/plain"))
        .unwrap();
    let right = resource(&entry, "a.txt");
    let wrong = Resource {
        size: 9,
        ..right.clone()
    };
    assert!(!store.has_file(&key, &wrong));
    assert_eq!(store.read_file(&key, &wrong, NOW).unwrap(), StoredFile::Absent);
    assert!(matches!(
        store.read_file(&key, &right, NOW).unwrap(),
        StoredFile::Intact(..)
    ));
}

#[test]
fn many_sets_and_long_uris_are_stored_in_one_round() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).unwrap();
    let long = "x".repeat(150);
    let mut sets: Vec<_> = (0..50).map(|n| skill(&format!("s{n}"), &[])).collect();
    sets.push(skill(&format!("{long}/{long}/name"), &[]));
    store.put_sets(&sets, "dir", NOW).unwrap();
    let before = files_below(dir.path());
    store
        .put_sets(
            &sets,
            "elsewhere",
            NOW.checked_add(std::time::Duration::from_secs(9)).unwrap(),
        )
        .unwrap();
    assert_eq!(files_below(dir.path()), before);
    drop(store);
    let store = open(dir.path()).unwrap();
    for (key, entry) in &sets {
        assert_eq!(store.set(key, entry.set()).unwrap().text(), entry.text());
    }
    let report = store.verify(&mut |_| {}).unwrap();
    assert_eq!(report.sets, 51);
    assert!(report.damaged.is_empty() && report.strangers.is_empty(), "{report:?}");
    let rebuilt = store.rebuild_index().unwrap();
    assert_eq!((rebuilt.origins, rebuilt.sets), (1, 51));
    assert_eq!(store.listing(&sets[0].0.label).unwrap().heard, NOW);
}

#[test]
fn a_set_with_any_byte_flipped_is_not_returned_as_another() {
    let dir = tempfile::tempdir().unwrap();
    let (key, entry) = skill("refunds", &[]);
    open(dir.path()).unwrap().put_set(&key, &entry, "dir", NOW).unwrap();
    let name = format!("set-{}.json", entry.set().hex());
    let path = files_below(dir.path())
        .into_iter()
        .find(|path| path.ends_with(&name))
        .unwrap();
    let good = fs::read(&path).unwrap();
    let store = open(dir.path()).unwrap();
    let mut aside = 0;
    for at in 0..good.len() {
        let mut bad = good.clone();
        bad[at] ^= 0x10;
        fs::write(path.with_extension("x"), &bad).unwrap();
        fs::rename(path.with_extension("x"), &path).unwrap();
        *store.0.content.cache.lock() = sets::SetCache::default();
        match store.set(&key, entry.set()) {
            // White space between members became other white space.
            Some(read) => assert_eq!(read.text(), entry.text(), "{at}"),
            None => aside += 1,
        }
    }
    assert!(aside > good.len() * 8 / 10);
    store.put_set(&key, &entry, "dir", NOW).unwrap();
    assert!(store.set(&key, entry.set()).is_some());
}

#[test]
fn verify_names_damage_and_leaves_strangers_alone() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).unwrap();
    let (key, entry) = skill("refunds", &[("a.txt", b"aaa"), ("b.txt", b"bbb")]);
    let files = [
        verified(&entry, "a.txt", b"aaa", "text/plain"),
        verified(&entry, "b.txt", b"bbb", "text/plain"),
    ];
    store.put_files(&files.each_ref().map(|file| (&key, file))).unwrap();
    store.put_set(&key, &entry, "dir", NOW).unwrap();
    flip(&content_path(dir.path(), b"aaa"), 1);
    fs::remove_file(content_path(dir.path(), b"bbb").with_extension("json")).unwrap();
    let set = content_path(dir.path(), b"bbb").with_file_name(format!("set-{}.json", entry.set().hex()));
    overwrite(&set, b"{}");
    let strangers = ["x", "acme/x", "acme/skill%3A%2F%2Frefunds%2FSKILL.md/SKILL.md"];
    for stranger in strangers {
        fs::write(dir.path().join("content").join(stranger), "x").unwrap();
    }
    let mut last = None;
    let report = store.verify(&mut |progress| last = Some(progress)).unwrap();
    assert_eq!(last.unwrap().done, 3);
    let mut what: Vec<_> = report
        .damaged
        .iter()
        .map(|damage| (damage.what, damage.expected.clone()))
        .collect();
    what.sort_by_key(|(what, _)| format!("{what:?}"));
    assert_eq!(
        what,
        [
            (Damaged::File, Digest::of(b"aaa").to_string()),
            (Damaged::Media, Digest::of(b"bbb").to_string()),
            (Damaged::Set, entry.set().to_string()),
        ]
    );
    assert!(report.damaged.iter().all(|damage| damage.key == key));
    assert_eq!(report.strangers.len(), 3);
    for stranger in strangers {
        assert!(dir.path().join("content").join(stranger).exists());
    }
    store.put_files(&files.each_ref().map(|file| (&key, file))).unwrap();
    assert_eq!(store.verify(&mut |_| {}).unwrap().damaged, []);
}

#[test]
fn the_quota_refuses_before_anything_is_written_and_removal_frees_it() {
    let dir = tempfile::tempdir().unwrap();
    let mut options = options(dir.path());
    options.limits.content_bytes = 2_000;
    let store = Store::open(&options, NOW).unwrap();
    let (key, entry) = skill("refunds", &[("a", &[1; 1_500]), ("b", &[2; 1_500])]);
    let (a, b) = (
        verified(&entry, "a", &[1; 1_500], "x"),
        verified(&entry, "b", &[2; 1_500], "x"),
    );
    store.put_file(&key, &a).unwrap();
    assert!(matches!(store.put_file(&key, &b), Err(Error::Quota { .. })));
    assert!(matches!(
        store.put_files(&[(&key, &a), (&key, &b)]),
        Err(Error::Quota { .. })
    ));
    assert!(!store.has_file(&key, &resource(&entry, "b")));
    let used = store.usage().content_bytes;
    assert!((1_500..2_000).contains(&used));
    assert_eq!(store.remove_origin(&key.label).unwrap(), used);
    assert_eq!(store.usage().content_bytes, 0);
    assert_eq!(store.remove_origin(&key.label).unwrap(), 0);
    store.put_file(&key, &b).unwrap();
    assert_eq!(store.usage().writing_stopped, None);
    assert!(fs::read_dir(dir.path().join("tmp")).unwrap().next().is_none());
}

#[test]
fn every_call_of_a_put_may_fail_and_reads_go_on() {
    let (key, entry) = skill("refunds", &[("old", b"old"), ("new", b"new")]);
    let old = verified(&entry, "old", b"old", "x");
    let new = verified(&entry, "new", b"new", "x");
    for call in 0.. {
        let dir = tempfile::tempdir().unwrap();
        let store = open(dir.path()).unwrap();
        store.put_file(&key, &old).unwrap();
        let kept = store.append(vec![held("refunds")], NOW).unwrap();
        store.0.log.settle();
        store.0.disk.watch.arm(call, Errno::IO);
        let put = store.put_file(&key, &new);
        if store.0.disk.watch.disarm() {
            put.unwrap();
            assert!(call > 8);
            break;
        }
        assert!(matches!(put, Err(Error::Io { .. })), "{call}: {put:?}");
        assert!(store.usage().writing_stopped.is_some());
        assert!(matches!(store.put_file(&key, &new), Err(Error::WritingStopped)));
        assert!(matches!(
            store.append(vec![held("refunds")], NOW),
            Err(Error::WritingStopped)
        ));
        assert!(matches!(store.person("ada"), Err(Error::WritingStopped)));
        assert!(matches!(
            store.read_file(&key, &resource(&entry, "old"), NOW).unwrap(),
            StoredFile::Intact(..)
        ));
        assert_eq!(store.leaf(0).unwrap(), Some(kept[0].1.clone()));
        drop(store);
        let store = open(dir.path()).unwrap();
        assert_eq!(store.verify(&mut |_| {}).unwrap().damaged, [], "{call}");
        store.put_file(&key, &new).unwrap();
    }
}

#[test]
fn every_call_of_an_append_may_fail_and_what_was_acknowledged_stays() {
    for call in 0.. {
        let dir = tempfile::tempdir().unwrap();
        let store = open(dir.path()).unwrap();
        store.append(vec![held("a"), held("b")], NOW).unwrap();
        store.0.log.settle();
        store.0.disk.watch.arm(call, Errno::IO);
        let appended = store.append(vec![held("a")], NOW);
        store.0.log.settle();
        let passed = store.0.disk.watch.disarm();
        let acknowledged = 2 + usize::from(appended.is_ok());
        assert_eq!(leaves(&store).len(), acknowledged, "{call}");
        assert_eq!(store.usage().writing_stopped.is_some(), !passed);
        drop(store);
        let store = open(dir.path()).unwrap();
        assert_eq!(leaves(&store).len(), acknowledged, "{call}");
        assert_eq!(faults(&store), [], "{call}");
        let next = store.append(vec![held("a")], NOW).unwrap();
        assert_eq!(next[0].1.prev, Some(if acknowledged == 3 { 2 } else { 0 }));
        if passed {
            assert!(call > 10);
            break;
        }
    }
}

#[test]
fn a_full_disk_at_the_reservation_refuses_the_batch_and_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).unwrap();
    store.append(vec![held("a")], NOW).unwrap();
    store.0.log.settle();
    store.0.disk.watch.arm(0, Errno::NOSPC);
    assert!(matches!(store.append(vec![held("b")], NOW), Err(Error::NoSpace { .. })));
    let next = store.append(vec![held("a")], NOW).unwrap();
    assert_eq!((next[0].0, next[0].1.prev), (1, Some(0)));
    assert_eq!(faults(&store), []);
}

#[test]
fn leaves_get_their_index_and_the_chain_of_their_skill() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).unwrap();
    assert_eq!(store.append(Vec::new(), NOW).unwrap(), []);
    let batch = store.append(vec![held("a"), held("b"), held("a")], NOW).unwrap();
    let prevs: Vec<_> = batch.iter().map(|(index, leaf)| (*index, leaf.prev)).collect();
    assert_eq!(prevs, [(0, None), (1, None), (2, Some(0))]);
    drop(store);
    let store = open(dir.path()).unwrap();
    let batch = store.append(vec![held("b")], NOW).unwrap();
    assert_eq!((batch[0].0, batch[0].1.prev), (3, Some(1)));
    assert_eq!(store.leaf(3).unwrap().as_ref(), Some(&batch[0].1));
    assert_eq!(store.leaf(4).unwrap(), None);
    let mut last = None;
    let report = store
        .verify_log(&Kept::default(), &mut |progress| last = Some(progress))
        .unwrap();
    assert_eq!(last, Some(Progress { done: 4, total: 4 }));
    assert_eq!((report.leaves, report.checkpoints, report.is_sound()), (4, 2, true));
}

#[test]
fn a_stranger_with_the_public_key_verifies_checkpoint_entries_and_root() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).unwrap();
    let batch: Vec<_> = (0..300).map(|n| held(&format!("s{n}"))).collect();
    store.append(batch, NOW).unwrap();
    store.0.log.settle();
    let verifier = signed_note::StandardVerifier::new(&store.verifier_key().to_string()).unwrap();
    let shown = fs::read(dir.path().join("log/checkpoint")).unwrap();
    assert_eq!(shown, store.checkpoint());
    assert_eq!(shown, fs::read(dir.path().join("head/checkpoint")).unwrap());
    let note = signed_note::Note::from_bytes(&shown).unwrap();
    note.verify(&signed_note::VerifierList::new(vec![Box::new(verifier)]))
        .unwrap();
    let text = tlog_tiles::Checkpoint::from_bytes(note.text()).unwrap();
    assert_eq!(
        (text.origin(), text.size()),
        (format!("portcullis/{}", store.id()).as_str(), 300)
    );
    let mut tree = crate::domain::audit::Tree::default();
    for bundle in ["log/tile/entries/000", "log/tile/entries/001.p/44"] {
        let bundle = fs::read(dir.path().join(bundle)).unwrap();
        let mut rest = &bundle[..];
        while let Some((len, after)) = rest.split_first_chunk::<2>() {
            let (leaf, after) = after.split_at(usize::from(u16::from_be_bytes(*len)));
            tree.push(leaf);
            rest = after;
        }
    }
    assert_eq!(tree.root_at(300), Some(*text.hash()));
    assert!(dir.path().join("log/tile/1/000.p/1").exists());
}

#[test]
fn a_last_batch_cut_at_any_byte_is_dropped_whole() {
    let dir = tempfile::tempdir().unwrap();
    let base = dir.path().join("base");
    let store = open(&base).unwrap();
    store.append(vec![held("a"), held("b")], NOW).unwrap();
    drop(store);
    let journal = fs::read(base.join("log/journal")).unwrap();
    let before = dir.path().join("before");
    copy_tree(&base, &before);
    let store = open(&base).unwrap();
    store.append(vec![held("a"), held("c")], NOW).unwrap();
    drop(store);
    let whole = fs::read(base.join("log/journal")).unwrap();
    assert!(whole.starts_with(&journal));
    for len in journal.len()..=whole.len() {
        // The crash came before the head followed.
        overwrite(&before.join("log/journal"), &whole[..len]);
        let head = fs::read(before.join("head/checkpoint")).unwrap();
        let store = open(&before).unwrap();
        let expected = if len == whole.len() { 4 } else { 2 };
        assert_eq!(leaves(&store).len(), expected, "{len}");
        assert_eq!(faults(&store), [], "{len}");
        drop(store);
        if len < whole.len() {
            assert_eq!(
                fs::metadata(before.join("log/journal")).unwrap().len(),
                journal.len() as u64
            );
            assert_eq!(fs::read(before.join("head/checkpoint")).unwrap(), head);
        }
    }
    // With the head the batch was acknowledged, and a cut is no accident.
    cut(&base.join("log/journal"), whole.len() - 1);
    let opened = open(&base);
    assert!(
        matches!(opened, Err(Error::HeadAhead { head: 4, log: 2 })),
        "{opened:?}"
    );
}

#[test]
fn a_last_batch_of_zeros_is_a_torn_end_and_zeros_in_the_middle_are_damage() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).unwrap();
    store.append(vec![held("a")], NOW).unwrap();
    drop(store);
    let path = dir.path().join("log/journal");
    let good = fs::read(&path).unwrap();
    overwrite(&path, &[&good[..], &[0; 700]].concat());
    let store = open(dir.path()).unwrap();
    assert_eq!(leaves(&store).len(), 1);
    store.append(vec![held("b")], NOW).unwrap();
    drop(store);
    let mut bad = fs::read(&path).unwrap();
    bad[..good.len()].fill(0);
    overwrite(&path, &bad);
    assert!(matches!(open(dir.path()), Err(Error::LogDamaged { index: 0, .. })));
}

#[test]
fn every_flipped_byte_of_the_journal_is_refused_with_its_index() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).unwrap();
    store.append(vec![held("a"), held("b")], NOW).unwrap();
    let second = fs::metadata(dir.path().join("log/journal")).unwrap().len() as usize;
    store.append(vec![held("a")], NOW).unwrap();
    let path = dir.path().join("log/journal");
    let len = fs::metadata(&path).unwrap().len() as usize;
    let journal = fs::read(&path).unwrap();
    for at in (0..len).step_by(3) {
        let mut bad = journal.clone();
        bad[at] ^= 0x10;
        // In place, as the disk would: an open store sees it when it verifies, a new one when it opens.
        let file = fs::OpenOptions::new().write(true).open(&path).unwrap();
        std::os::unix::fs::FileExt::write_all_at(&file, &bad, 0).unwrap();
        let expected = if at < second { 0 } else { 2 };
        assert_eq!(faults(&store)[0].index, expected, "{at}");
    }
    drop(store);
    for at in (0..len).step_by(7) {
        let mut bad = journal.clone();
        bad[at] ^= 0x10;
        overwrite(&path, &bad);
        let expected = if at < second { 0 } else { 2 };
        match open(dir.path()) {
            Err(Error::LogDamaged { index, .. }) => assert_eq!(index, expected, "{at}"),
            other => panic!("{at}: {other:?}"),
        }
    }
    overwrite(&path, &journal);
    assert_eq!(faults(&open(dir.path()).unwrap()), []);
}

#[test]
fn every_flipped_byte_of_tiles_and_checkpoints_is_named_and_tiles_are_mended_at_start() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).unwrap();
    store.append(vec![held("a"), held("b")], NOW).unwrap();
    store.0.log.settle();
    let mut derived = files_below(&dir.path().join("log"));
    derived.retain(|path| !path.ends_with("journal"));
    assert_eq!(derived.len(), 3, "{derived:?}");
    let head = dir.path().join("head/checkpoint");
    for path in derived.iter().chain([&head]) {
        let good = fs::read(path).unwrap();
        for at in (0..good.len()).step_by(5) {
            flip(path, at);
            let found = faults(&store);
            assert_eq!(found.len(), 1, "{} {at}: {found:?}", path.display());
            assert!(found[0].why.contains(path.file_name().unwrap().to_str().unwrap()));
            overwrite(path, &good);
        }
    }
    assert_eq!(faults(&store), []);
    drop(store);
    for (path, at) in derived.iter().zip([0, 5, 9]) {
        flip(path, at);
    }
    fs::write(dir.path().join("log/tile/0/777"), "x").unwrap();
    assert_eq!(faults(&open(dir.path()).unwrap()), []);
    fs::remove_dir_all(dir.path().join("log/tile")).unwrap();
    fs::remove_file(dir.path().join("log/checkpoint")).unwrap();
    assert_eq!(faults(&open(dir.path()).unwrap()), []);
    let good = fs::read(&head).unwrap();
    for at in (0..good.len()).step_by(5) {
        flip(&head, at);
        assert!(matches!(open(dir.path()), Err(Error::Head { .. })), "{at}");
        overwrite(&head, &good);
    }
    open(dir.path()).unwrap();
}

#[test]
fn an_older_log_put_back_is_refused_with_the_numbers() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let store = open(&data).unwrap();
    store.append(vec![held("a")], NOW).unwrap();
    drop(store);
    copy_tree(&data.join("log"), &dir.path().join("old"));
    let store = open(&data).unwrap();
    store.append(vec![held("a"), held("b")], NOW).unwrap();
    drop(store);
    copy_tree(&data.join("log"), &dir.path().join("new"));
    fs::remove_dir_all(data.join("log")).unwrap();
    copy_tree(&dir.path().join("old"), &data.join("log"));
    assert!(matches!(open(&data), Err(Error::HeadAhead { head: 3, log: 1 })));
    fs::remove_dir_all(data.join("log")).unwrap();
    assert!(matches!(open(&data), Err(Error::HeadAhead { head: 3, log: 0 })));
    fs::remove_dir_all(data.join("log")).unwrap();
    copy_tree(&dir.path().join("new"), &data.join("log"));
    assert_eq!(leaves(&open(&data).unwrap()).len(), 3);
}

#[test]
fn a_damaged_last_batch_is_not_cut_off_as_torn_while_any_checkpoint_covers_it() {
    let dir = tempfile::tempdir().unwrap();
    let (journal, head) = (dir.path().join("log/journal"), dir.path().join("head/checkpoint"));
    let store = open(dir.path()).unwrap();
    store.append(vec![held("a")], NOW).unwrap();
    store.0.log.settle();
    let older = fs::read(&head).unwrap();
    store.append(vec![held("b")], NOW).unwrap();
    drop(store);
    overwrite(&head, &older);
    let good = fs::read(&journal).unwrap();
    flip(&journal, good.len() - 1);
    assert!(matches!(open(dir.path()), Err(Error::LogDamaged { index: 1, .. })));
    assert_eq!(fs::metadata(&journal).unwrap().len(), good.len() as u64);
    overwrite(&journal, &good);
    assert_eq!(leaves(&open(dir.path()).unwrap()).len(), 2);
}

#[test]
fn a_log_of_another_history_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let (one, two) = (dir.path().join("one"), dir.path().join("two"));
    open(&one).unwrap().append(vec![held("a")], NOW).unwrap();
    copy_tree(&one, &two);
    open(&one).unwrap().append(vec![held("b")], NOW).unwrap();
    open(&two).unwrap().append(vec![held("c")], NOW).unwrap();
    fs::copy(one.join("head/checkpoint"), two.join("head/checkpoint")).unwrap();
    assert!(matches!(open(&two), Err(Error::Head { .. })));
    fs::remove_file(two.join("head/checkpoint")).unwrap();
    assert!(matches!(open(&two), Err(Error::Head { .. })));
    // What the message tells an operator to do who accepts the log as it is.
    fs::copy(two.join("log/checkpoint"), two.join("head/checkpoint")).unwrap();
    open(&two).unwrap();
}

#[test]
fn a_head_that_somebody_else_moved_stops_writing() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).unwrap();
    let first = fs::read(dir.path().join("head/checkpoint")).unwrap();
    store.append(vec![held("a")], NOW).unwrap();
    store.0.log.settle();
    overwrite(&dir.path().join("head/checkpoint"), &first);
    store.append(vec![held("b")], NOW).unwrap();
    store.0.log.settle();
    assert!(matches!(store.append(vec![held("c")], NOW), Err(Error::WritingStopped)));
    assert_eq!(leaves(&store).len(), 2);
}

#[test]
fn a_lost_key_does_not_begin_a_new_log() {
    let dir = tempfile::tempdir().unwrap();
    open(dir.path()).unwrap().append(vec![held("a")], NOW).unwrap();
    let key = fs::read(dir.path().join("keys/log")).unwrap();
    fs::remove_file(dir.path().join("keys/log")).unwrap();
    assert!(matches!(open(dir.path()), Err(Error::Key { .. })));
    fs::write(dir.path().join("keys/log"), "PRIVATE+KEY+x").unwrap();
    assert!(matches!(open(dir.path()), Err(Error::Key { .. })));
    fs::write(dir.path().join("keys/log"), key).unwrap();
    open(dir.path()).unwrap();
}

#[test]
fn a_first_start_that_fails_anywhere_can_be_repeated() {
    for call in 0.. {
        let dir = tempfile::tempdir().unwrap();
        let location = location::Location::take(dir.path(), false, NOW).unwrap();
        let disk = Arc::new(durable::Disk::new(&location.dir, "store"));
        disk.watch.arm(call, Errno::IO);
        let opened = log::Log::open(Arc::clone(&disk), &location.store_id);
        let passed = disk.watch.disarm();
        drop((opened, location));
        let store = open(dir.path()).unwrap();
        store.append(vec![held("a")], NOW).unwrap();
        assert_eq!(faults(&store), []);
        if passed {
            assert!(call > 15);
            break;
        }
    }
}

#[test]
fn answers_are_the_same_whatever_happens_to_the_index() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).unwrap();
    let (key, entry) = skill("refunds", &[("a", b"a")]);
    store.put_file(&key, &verified(&entry, "a", b"a", "x")).unwrap();
    store.put_set(&key, &entry, "dir", NOW).unwrap();
    store.append(vec![held("refunds")], NOW).unwrap();
    let (id, secret) = store.new_token("ci", Some("ada"), NOW).unwrap();
    drop(store);
    let index = dir.path().join("index");
    let harm: [&dyn Fn(); 4] = [
        &|| fs::remove_dir_all(&index).unwrap(),
        &|| {
            for path in files_below(&index) {
                overwrite(&path, &[0xA5; 3_000]);
            }
        },
        &|| fs::write(index.join("snap.0000000000000009.generating"), "x").unwrap(),
        &|| {
            fs::remove_dir_all(&index).unwrap();
            fs::write(&index, "no folder").unwrap();
        },
    ];
    for harm in harm {
        harm();
        let store = open(dir.path()).unwrap();
        assert!(store.usage().index_open);
        assert!(store.listing(&key.label).is_none_or(|note| note.heard == NOW));
        assert!(store.set(&key, entry.set()).is_some());
        assert_eq!(leaves(&store).len(), 2);
        assert_eq!(store.token_by_secret(&secret).unwrap().id, id);
        assert_eq!(store.usage().writing_stopped, None);
    }
}

#[test]
fn a_token_is_on_the_record_whenever_it_opens_and_whenever_it_was_ended() {
    for call in 0.. {
        let dir = scratch();
        let store = open(dir.path()).unwrap();
        let watch = Watch::over(dir.path());
        let (id, secret) = store.new_token("kept", Some("ada"), NOW).unwrap();
        watch.arm(call, Errno::IO);
        let made = store.new_token("ci", Some("ada"), NOW);
        let ended = store.revoke_token(&id, Some("bob"), NOW);
        let is_over = watch.disarm();
        drop(store);
        let store = Store::open(&options(dir.path()), NOW).unwrap();
        let first = leaves(&store);
        store.record_ended_tokens(NOW).unwrap();
        let all = leaves(&store);
        let opens = store.token_by_secret(&secret).is_some();
        let revoked = Event::TokenRevoked { token: id.to_string() };
        let told = all.iter().filter(|leaf| leaf.event == revoked).count();
        assert_eq!(told, usize::from(!opens), "call {call}");
        assert!(ended.is_err() || first.len() == all.len(), "call {call}");
        if let Ok((id, secret)) = made {
            let made = Event::TokenMade { token: id.to_string() };
            assert!(all.iter().any(|leaf| leaf.event == made), "call {call}");
            assert!(store.token_by_secret(&secret).is_some(), "call {call}");
        }
        if is_over {
            assert!(call > 10, "only {call} calls");
            break;
        }
    }
}

#[test]
fn unfinished_writes_are_gone_after_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    drop(open(dir.path()).unwrap());
    fs::write(dir.path().join("tmp/store-0"), "half").unwrap();
    fs::create_dir_all(dir.path().join("tmp/store-1/acme")).unwrap();
    fs::write(dir.path().join("tmp/store-1/acme/x"), "removed").unwrap();
    drop(open(dir.path()).unwrap());
    assert!(fs::read_dir(dir.path().join("tmp")).unwrap().next().is_none());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn any_batches_come_back_in_order_and_verify(
        batches in prop::collection::vec(prop::collection::vec("[a-c]", 1..5), 1..8),
        restart in any::<u8>(),
    ) {
        let dir = tempfile::tempdir().unwrap();
        let mut store = open(dir.path()).unwrap();
        let mut expected = Vec::new();
        for (at, batch) in batches.into_iter().enumerate() {
            let new = batch.iter().map(|name| held(name)).collect();
            expected.extend(store.append(new, NOW).unwrap().into_iter().map(|(_, leaf)| leaf));
            if restart >> (at % 8) & 1 == 1 {
                drop(store);
                store = open(dir.path()).unwrap();
            }
        }
        prop_assert_eq!(leaves(&store), expected);
        prop_assert_eq!(faults(&store), []);
    }

    #[test]
    fn no_bytes_in_the_journal_make_opening_panic(garbage in prop::collection::vec(any::<u8>(), 0..200)) {
        let dir = tempfile::tempdir().unwrap();
        drop(open(dir.path()).unwrap());
        fs::write(dir.path().join("log/journal"), &garbage).unwrap();
        if let Ok(store) = open(dir.path()) {
            prop_assert_eq!(leaves(&store), []);
        }
    }
}

#[test]
fn the_key_of_a_skill_decides_where_its_files_lie() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).unwrap();
    let (key, entry) = skill("refunds", &[("a", b"a")]);
    store.put_file(&key, &verified(&entry, "a", b"a", "x")).unwrap();
    let elsewhere = SkillKey {
        label: "other".parse().unwrap(),
        ..key.clone()
    };
    let another: SkillUri = "skill://returns/SKILL.md".parse().unwrap();
    for stranger in [
        elsewhere,
        SkillKey {
            uri: another,
            ..key.clone()
        },
    ] {
        let read = store.read_file(&stranger, &resource(&entry, "a"), NOW).unwrap();
        assert_eq!(read, StoredFile::Absent);
    }
}
