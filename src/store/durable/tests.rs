//! Each way a write can fail, and what may lie under a name already.
#![expect(clippy::disallowed_methods, reason = "what others do to the folder is done here")]

use super::*;

fn disk() -> (tempfile::TempDir, Disk) {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join(TMP)).unwrap();
    let disk = Disk::new(dir.path(), "t");
    (dir, disk)
}

#[test]
fn a_new_file_never_replaces_another() {
    let (dir, disk) = disk();
    let to = dir.path().join("a");
    assert!(disk.write(&to, b"1", IMMUTABLE, Place::New).unwrap());
    assert!(!disk.write(&to, b"2", IMMUTABLE, Place::New).unwrap());
    assert_eq!(read(&to, 9).unwrap().unwrap(), b"1");
    assert!(disk.write(&to, b"2", PRIVATE, Place::Over).unwrap());
    assert_eq!(read(&to, 9).unwrap().unwrap(), b"2");
    assert!(names(&dir.path().join(TMP)).unwrap().is_empty());
    assert_eq!(disk.stopped(), None);
}

#[test]
fn the_first_failure_of_any_call_ends_writing_and_reads_go_on() {
    let mut failed = 0;
    for call in 0.. {
        let (dir, disk) = disk();
        disk.write(&dir.path().join("old"), b"old", PRIVATE, Place::New)
            .unwrap();
        disk.watch.arm(call, Errno::IO);
        let to = dir.path().join("new");
        let written = disk.write(&to, b"new", PRIVATE, Place::New);
        if disk.watch.disarm() {
            assert!(written.unwrap());
            break;
        }
        failed += 1;
        assert!(matches!(written, Err(Error::Io { .. })), "{written:?}");
        assert!(disk.stopped().is_some());
        assert!(matches!(
            disk.write(&to, b"new", PRIVATE, Place::New),
            Err(Error::WritingStopped)
        ));
        assert_eq!(read(&dir.path().join("old"), 9).unwrap().unwrap(), b"old");
    }
    assert_eq!(failed, 6, "open, fallocate, write, fsync, rename, fsync of the folder");
}

#[test]
fn a_full_disk_at_the_reservation_does_not_end_writing() {
    for call in 0..2 {
        let (dir, disk) = disk();
        let to = dir.path().join("new");
        disk.watch.arm(call, Errno::NOSPC);
        assert!(matches!(
            disk.write(&to, b"new", PRIVATE, Place::New),
            Err(Error::NoSpace { .. })
        ));
        assert!(names(&dir.path().join(TMP)).unwrap().is_empty());
        assert!(disk.write(&to, b"new", PRIVATE, Place::New).unwrap());
    }
}

#[test]
fn a_failed_append_leaves_the_file_as_it_was() {
    for call in 0..3 {
        let (dir, disk) = disk();
        let path = dir.path().join("journal");
        let mut file = disk.appender(&path).unwrap();
        file.append(&disk, b"one").unwrap();
        disk.watch.arm(call, Errno::IO);
        assert!(file.append(&disk, b"two").is_err());
        assert_eq!(read(&path, 99).unwrap().unwrap(), b"one");
        assert!(matches!(file.append(&disk, b"two"), Err(Error::WritingStopped)));
    }
}

#[test]
fn links_are_not_followed() {
    let (dir, _) = disk();
    fs::write(dir.path().join("a"), "1").unwrap();
    std::os::unix::fs::symlink(dir.path().join("a"), dir.path().join("b")).unwrap();
    assert!(matches!(open(&dir.path().join("b")).unwrap(), Found::Other));
    assert!(matches!(open(dir.path()).unwrap(), Found::Other));
    assert_eq!(read(&dir.path().join("b"), 9).unwrap(), None);
}
