//! Scans of real folders.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::Duration;

use tempfile::TempDir;

use super::Root;
use super::scan::Scan;
use super::scan::Scanner;
use super::snapshot::Roots;
use crate::clock::Clock;
use crate::domain::Digest;
use crate::domain::Limits;
use crate::domain::SkillEntry;
use crate::upstream::Error;
use crate::upstream::Got;

fn write(path: &Path, bytes: impl AsRef<[u8]>) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let mut file = fs::OpenOptions::new();
    let mut file = file.write(true).create(true).truncate(true).open(path).unwrap();
    std::io::Write::write_all(&mut file, bytes.as_ref()).unwrap();
}

#[expect(clippy::disallowed_methods, reason = "a test is not the store")]
fn move_to(from: &Path, to: impl AsRef<Path>) {
    fs::rename(from, to).unwrap();
}

fn write_skill(root: &Path, folder: &str) {
    let name = folder.rsplit('/').next().unwrap();
    let text = format!("---\nname: {name}\ndescription: d\n---\n\nDo it.\n");
    write(&root.join(folder).join("SKILL.md"), text);
}

fn scanner(root: &Path) -> Scanner {
    Scanner::new(Root::alone(root), Limits::default(), Clock::system())
}

fn scan(root: &Path) -> Scan {
    scanner(root).scan().unwrap()
}

fn entry(scan: &Scan, folder: &str) -> SkillEntry {
    SkillEntry::parse(&scan.skills[folder].entry, &Limits::default()).unwrap()
}

fn files(scan: &Scan, folder: &str) -> Vec<String> {
    entry(scan, folder)
        .resources()
        .iter()
        .map(|file| file.uri.to_string())
        .collect()
}

fn folders(scan: &Scan) -> Vec<&str> {
    scan.skills.keys().map(String::as_str).collect()
}

/// The rules by which nothing was published, and the words of them.
fn rejected(scan: &Scan) -> Vec<(&'static str, String)> {
    let told = |rejected: &crate::domain::RejectedEntry| (rejected.fault.rule(), rejected.fault.to_string());
    scan.rejected.iter().map(told).collect()
}

#[test]
fn a_manifest_has_every_file_once_in_the_order_of_uri_bytes() {
    // case K7; a nested skill's files are in both (S-25).
    let root = TempDir::new().unwrap();
    for skill in ["demo", "demo/inner"] {
        write_skill(root.path(), skill);
    }
    for file in ["Z.md", "a b.md", "a-b.md", "a/b.md", "é.md"] {
        write(&root.path().join("demo").join(file), file);
    }
    let scan = scan(root.path());
    assert_eq!(folders(&scan), ["demo", "demo/inner"]);
    assert_eq!(
        files(&scan, "demo"),
        [
            "skill://demo/%C3%A9.md",
            "skill://demo/SKILL.md",
            "skill://demo/Z.md",
            "skill://demo/a%20b.md",
            "skill://demo/a-b.md",
            "skill://demo/a/b.md",
            "skill://demo/inner/SKILL.md",
        ]
    );
    assert_eq!(files(&scan, "demo/inner"), ["skill://demo/inner/SKILL.md"]);
    let demo = entry(&scan, "demo");
    let file = demo.resources().get("skill://demo/a-b.md").unwrap();
    assert_eq!((file.digest, file.size), (Digest::of(b"a-b.md"), 6));
}

#[test]
fn what_git_ignores_and_what_editors_leave_is_no_part_of_a_skill() {
    // case K5.
    let root = TempDir::new().unwrap();
    write_skill(root.path(), "demo");
    write_skill(root.path(), "built/other");
    write(&root.path().join(".gitignore"), "built/\n*.log\n/demo/only-here.md\n");
    write(&root.path().join("demo/.gitignore"), "!kept.log\nout\n");
    for file in [
        "a.log",
        "kept.log",
        "only-here.md",
        "out/x",
        "x.md~",
        "y.swp",
        "__pycache__/x.pyc",
        ".env",
    ] {
        write(&root.path().join("demo").join(file), "x");
    }
    let scan = scan(root.path());
    assert_eq!(folders(&scan), ["demo"]);
    assert_eq!(files(&scan, "demo"), ["skill://demo/SKILL.md", "skill://demo/kept.log"]);
    assert!(scan.rejected.is_empty() && scan.gaps.is_empty());
}

#[test]
fn what_could_be_two_files_or_none_is_refused_for_its_skill_alone() {
    let root = TempDir::new().unwrap();
    for skill in ["a-link", "b-socket", "c-case", "d-accent", "e-own", "good"] {
        write_skill(root.path(), skill);
    }
    symlink("SKILL.md", root.path().join("a-link/copy.md")).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(root.path().join("b-socket/s")).unwrap();
    for file in [
        "c-case/Read.md",
        "c-case/README.md",
        "c-case/read.md",
        "d-accent/caf\u{e9}",
        "d-accent/cafe\u{301}",
        "e-own/skill.md",
    ] {
        write(&root.path().join(file), "x");
    }
    symlink(root.path().join("good"), root.path().join("f-alias")).unwrap();
    write(
        &root.path().join("g-lower/skill.md"),
        "---\nname: g-lower\ndescription: d\n---\n",
    );
    write(&root.path().join("SKILL.md"), "x");
    let scan = scan(root.path());
    assert_eq!(folders(&scan), ["good"]);
    let rules: Vec<_> = rejected(&scan).into_iter().map(|(rule, _)| rule).collect();
    assert_eq!(
        rules,
        [
            "skill-at-root",
            "link",
            "special-file",
            "same-file",
            "same-file",
            "same-file",
            "link",
            "file-name"
        ]
    );
    let told = rejected(&scan).remove(3).1;
    assert!(told.contains("c-case/read.md: ") && told.contains("Read.md"), "{told}");
}

#[test]
fn bounds_cut_the_search_and_say_so() {
    let root = TempDir::new().unwrap();
    write_skill(root.path(), "1/2/3/4/5/six");
    write_skill(root.path(), "1/2/3/4/5/6/seven");
    write_skill(root.path(), "deep");
    write(&root.path().join("deep/1/2/3/4/5/6/7/x"), "x");
    let scan = scan(root.path());
    assert_eq!(folders(&scan), ["1/2/3/4/5/six"]);
    assert_eq!(
        scan.gaps.iter().map(ToString::to_string).collect::<Vec<_>>(),
        ["1/2/3/4/5/6/seven lies deeper than is searched"]
    );
    assert_eq!(
        rejected(&scan).into_iter().map(|(rule, _)| rule).collect::<Vec<_>>(),
        ["bounds"]
    );
}

#[test]
fn more_folders_than_are_looked_into_cut_the_search() {
    let root = TempDir::new().unwrap();
    for number in 0..2_001 {
        fs::create_dir(root.path().join(format!("{number:04}"))).unwrap();
    }
    write_skill(root.path(), "0000/first");
    write_skill(root.path(), "last");
    let scan = scan(root.path());
    assert_eq!(folders(&scan), ["0000/first"]);
    assert_eq!(
        scan.gaps.iter().map(ToString::to_string).collect::<Vec<_>>(),
        ["there are over 2000 folders"]
    );
    assert!(scan.gaps[0].hides("skill://last"));
}

#[test]
fn a_skill_over_the_limits_is_declined() {
    // Exactly at them is inside (S-28).
    let root = TempDir::new().unwrap();
    for skill in ["many", "large", "just"] {
        write_skill(root.path(), skill);
    }
    let own = fs::metadata(root.path().join("just/SKILL.md")).unwrap().len();
    for number in 0..3 {
        write(&root.path().join(format!("many/{number}")), "x");
    }
    write(&root.path().join("large/x"), vec![0; 1024]);
    write(
        &root.path().join("just/x"),
        vec![0; usize::try_from(1024 - own).unwrap()],
    );
    write(&root.path().join("just/y"), "");
    let limits = Limits {
        skill_files: 3,
        skill_bytes: 1024,
        ..Limits::default()
    };
    let scan = Scanner::new(Root::alone(root.path()), limits, Clock::system())
        .scan()
        .unwrap();
    assert_eq!(folders(&scan), ["just"]);
    let rules: Vec<_> = rejected(&scan).into_iter().map(|(rule, _)| rule).collect();
    assert_eq!(rules, ["S-28", "S-28"]);
}

#[test]
fn what_did_not_change_is_not_read_again_and_what_did_is() {
    let root = TempDir::new().unwrap();
    write_skill(root.path(), "demo");
    write(&root.path().join("demo/notes.md"), "one");
    let mut scanner = scanner(root.path());
    let first = scanner.scan().unwrap();
    assert!(
        !scanner.is_as_it_was(),
        "hashed too soon after a change to be relied upon"
    );
    write(&root.path().join("demo/notes.md"), "two");
    let second = scanner.scan().unwrap();
    assert!(!first.shows_as(&second));
    assert_eq!(second.skills["demo"].files[1].digest, Digest::of(b"two"));
    assert!(second.shows_as(&scanner.scan().unwrap()));
}

#[test]
fn a_settled_skill_is_the_same_one_in_the_next_scan() {
    let root = TempDir::new().unwrap();
    write_skill(root.path(), "demo");
    let clock = Clock::manual(Clock::system().now());
    clock.advance(Duration::from_secs(60));
    let mut scanner = Scanner::new(Root::alone(root.path()), Limits::default(), clock);
    let first = scanner.scan().unwrap();
    assert!(scanner.is_as_it_was());
    let second = scanner.scan().unwrap();
    assert!(std::sync::Arc::ptr_eq(&first.skills["demo"], &second.skills["demo"]));
    write(&root.path().join("demo/new.md"), "x");
    assert!(!scanner.is_as_it_was());
}

#[test]
fn no_manifest_mixes_two_states_of_a_folder_that_is_being_written() {
    // case K6: two files that are always written alike, as fast as can be.
    let root = TempDir::new().unwrap();
    write_skill(root.path(), "demo");
    let (one, other) = (root.path().join("demo/a"), root.path().join("demo/b"));
    let both = |text: &str| {
        write(&one, text);
        write(&other, text);
    };
    both("0");
    let mut scanner = scanner(root.path());
    scanner.scan().unwrap();
    let is_over = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for number in 0_u32.. {
                if is_over.load(std::sync::atomic::Ordering::SeqCst) {
                    return;
                }
                both(&(number % 10).to_string());
            }
        });
        for _ in 0..10 {
            let scan = scanner.scan().unwrap();
            let files = &scan.skills["demo"].files;
            assert_eq!(files[1].digest, files[2].digest);
        }
        is_over.store(true, std::sync::atomic::Ordering::SeqCst);
    });
    let scan = scanner.scan().unwrap();
    assert!(scan.gaps.is_empty());
    assert_eq!(
        scan.skills["demo"].files[1].digest,
        Digest::of(&fs::read(&one).unwrap())
    );
}

#[test]
fn a_skill_that_never_stands_still_keeps_its_last_state_and_is_told_of() {
    let root = TempDir::new().unwrap();
    write_skill(root.path(), "demo");
    let clock = Clock::manual(Clock::system().now());
    clock.advance(Duration::from_secs(60));
    let mut scanner = Scanner::new(Root::alone(root.path()), Limits::default(), clock.clone());
    let before = scanner.scan().unwrap();
    write(&root.path().join("demo/new.md"), "x");
    // By this clock, the file has just been written for as long as anybody looks.
    clock.set(Clock::system().now());
    let after = scanner.scan().unwrap();
    assert_eq!(
        after.gaps.iter().map(ToString::to_string).collect::<Vec<_>>(),
        ["demo is being written"]
    );
    assert_eq!(after.skills["demo"].entry, before.skills["demo"].entry);
    clock.advance(Duration::from_secs(60));
    let last = scanner.scan().unwrap();
    assert!(last.gaps.is_empty());
    assert_eq!(files(&last, "demo"), ["skill://demo/SKILL.md", "skill://demo/new.md"]);
}

#[test]
fn a_root_that_cannot_be_looked_into_keeps_what_it_had_and_the_others_go_on() {
    // case K4, case A6.
    let parent = TempDir::new().unwrap();
    let (first, second) = (parent.path().join("first"), parent.path().join("second"));
    for skill in [first.join("demo"), second.join("demo"), second.join("more")] {
        write_skill(skill.parent().unwrap(), skill.file_name().unwrap().to_str().unwrap());
    }
    let scanner = |name: &str, path: &Path| {
        let root = Root {
            name: Some(name.parse().unwrap()),
            path: path.to_owned(),
            is_held: false,
        };
        Scanner::new(root, Limits::default(), Clock::system())
    };
    let mut roots = Roots::new(vec![scanner("one", &first), scanner("two", &second)]);
    let before = roots.scan().unwrap().listing();
    let shadowed = (
        "skill://two/demo/SKILL.md".to_owned(),
        "skill://one/demo/SKILL.md".to_owned(),
    );
    assert_eq!((before.entries.len(), before.shadowed), (3, vec![shadowed]));
    move_to(&second, parent.path().join("away"));
    let snapshot = roots.scan().unwrap();
    let after = snapshot.listing();
    assert_eq!(after.entries, before.entries);
    let told = after.shortfall.unwrap().to_string();
    assert!(
        told.starts_with("not all of the folder was looked at: two cannot be read: "),
        "{told}"
    );
    assert!(snapshot.get(&"skill://two/none/SKILL.md".parse().unwrap()).is_err());
    assert_eq!(
        snapshot.get(&"skill://one/none/SKILL.md".parse().unwrap()),
        Ok(Got::Unknown)
    );
    move_to(&first, parent.path().join("away-too"));
    assert!(matches!(roots.scan().map(drop), Err(Error::Folder(_))));
    move_to(&parent.path().join("away"), &second);
    assert_eq!(roots.scan().unwrap().listing().entries.len(), 3);
}
