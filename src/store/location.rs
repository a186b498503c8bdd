//! Where the data folder lies, whose it is, and who holds it (design §6).
//!
//! Imports `durable` and `error`. Nothing is touched in a folder that is refused: the path is judged first, then `FORMAT`,
//! and only then is the lock taken and anything written.

use std::fs::File;
use std::fs::TryLockError;
use std::io::Read as _;
use std::path::Component;
use std::path::Path;
use std::path::PathBuf;

use super::durable;
use super::durable::Disk;
use super::durable::Place;
use super::durable::TMP;
use super::error::Error;
use crate::domain::Timestamp;

/// The version of the layout that this program writes and reads.
const LAYOUT: &str = "portcullis-data 1";

const FORMAT: &str = "FORMAT";
const LOCK: &str = "lock";

/// What may lie in a folder that we take for empty: our own first steps, and what `mkfs` leaves.
const NOTHING_YET: &[&str] = &[LOCK, TMP, "lost+found"];

/// What a lock file begins with.
const HOLDER: &str = "portcullis ";

/// Bytes of the small files read here.
const MAX_NOTE_BYTES: u64 = 1024;

/// A data folder that this process alone holds, until it is dropped.
#[derive(Debug)]
pub(super) struct Location {
    /// The folder, absolute.
    pub(super) dir: PathBuf,
    /// The random id that the store got when it was made: 32 hexadecimal digits.
    pub(super) store_id: String,
    /// Held for the advisory lock on it.
    _lock: File,
}

impl Location {
    /// Takes the folder, making it if it is missing.
    pub(super) fn take(dir: &Path, allow_unsafe: bool, now: Timestamp) -> Result<Self, Error> {
        let dir = std::path::absolute(dir).map_err(|source| Error::io("find", dir, source))?;
        if !allow_unsafe {
            refuse_discovery_path(&dir)?;
            refuse_network(&dir)?;
        }
        let known = store_id(&dir)?;
        let disk = Disk::new(&dir, "begin");
        let made_now = !dir.exists();
        disk.make_dir(&dir)?;
        let lock = lock(&dir, now)?;
        disk.make_dir(&dir.join(TMP))?;
        let store_id = match known {
            Some(id) => id,
            None => begin(&disk, &dir, made_now)?,
        };
        Ok(Self {
            dir,
            store_id,
            _lock: lock,
        })
    }
}

/// The id in `FORMAT`, or nothing for a folder that is missing or empty.
fn store_id(dir: &Path) -> Result<Option<String>, Error> {
    let path = dir.join(FORMAT);
    if let Some(bytes) = durable::read(&path, MAX_NOTE_BYTES)? {
        let text = String::from_utf8_lossy(&bytes);
        return match text.strip_prefix(LAYOUT).and_then(id_line) {
            Some(id) => Ok(Some(id.to_owned())),
            None => Err(Error::UnknownFormat {
                dir: dir.to_owned(),
                found: text.trim_end().to_owned(),
            }),
        };
    }
    let strange = durable::names(dir)?
        .iter()
        .any(|name| !NOTHING_YET.contains(&name.as_str()));
    let lock = durable::read(&dir.join(LOCK), MAX_NOTE_BYTES)?.unwrap_or_default();
    let tmp_is_ours = durable::names(&dir.join(TMP))?
        .iter()
        .all(|name| name.starts_with("begin-"));
    if strange || !is_our_lock(&lock) || !tmp_is_ours {
        return Err(Error::NotOurs { dir: dir.to_owned() });
    }
    Ok(None)
}

/// Says whether a lock file can be one of ours. It is never flushed, so that a power cut may have cut it short or left zeros.
fn is_our_lock(bytes: &[u8]) -> bool {
    let end = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    let text = bytes.get(..end).unwrap_or_default();
    text.starts_with(HOLDER.as_bytes()) || HOLDER.as_bytes().starts_with(text)
}

/// The id in what follows the layout's name: `\n`, 32 hexadecimal digits, `\n`.
fn id_line(rest: &str) -> Option<&str> {
    let id = rest.strip_prefix('\n')?.strip_suffix('\n')?;
    let is_hex = id.len() == 32 && id.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
    is_hex.then_some(id)
}

/// Makes an empty folder ours.
fn begin(disk: &Disk, dir: &Path, made_now: bool) -> Result<String, Error> {
    if let Some(id) = store_id(dir)? {
        return Ok(id);
    }
    if !made_now {
        disk.close_dir(dir);
    }
    disk.empty_tmp()?;
    let id = format!("{:032x}", rand::random::<u128>());
    let text = format!("{LAYOUT}\n{id}\n");
    disk.write(&dir.join(FORMAT), text.as_bytes(), durable::PRIVATE, Place::New)?;
    Ok(id)
}

/// Takes the lock of a folder, and writes down who holds it.
pub(super) fn lock(dir: &Path, now: Timestamp) -> Result<File, Error> {
    let path = dir.join(LOCK);
    let file = Disk::lock_file(&path)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let mut holder = String::new();
            let read = (&file).take(MAX_NOTE_BYTES).read_to_string(&mut holder);
            let holder = match (read, holder.trim()) {
                (Ok(_), named) if !named.is_empty() => named.to_owned(),
                (Ok(_) | Err(_), _) => "another process".to_owned(),
            };
            return Err(Error::Locked {
                dir: dir.to_owned(),
                holder,
            });
        }
        Err(TryLockError::Error(source)) => return Err(Error::io("lock", path, source)),
    }
    let pid = std::process::id();
    Disk::inscribe(&file, &path, &format!("{HOLDER}process {pid}, started {now}\n"));
    Ok(file)
}

/// Refuses a folder below a `skills` folder of some host, as it is written and as it is after links (H-63).
fn refuse_discovery_path(dir: &Path) -> Result<(), Error> {
    for path in [dir.to_owned(), resolved(dir)] {
        if let Some(part) = discovery_part(&path) {
            return Err(Error::DiscoveryPath {
                dir: dir.to_owned(),
                part,
            });
        }
    }
    Ok(())
}

/// The part of a path from a folder with a dot to a folder `skills` below it: `.agents/skills`, `.claude/skills`, …
fn discovery_part(path: &Path) -> Option<String> {
    let names: Vec<_> = path
        .components()
        .filter_map(|component| match component {
            Component::Normal(name) => Some(name.to_string_lossy()),
            Component::Prefix(_) | Component::RootDir | Component::CurDir | Component::ParentDir => None,
        })
        .collect();
    let hidden = names.iter().position(|name| name.starts_with('.'))?;
    let below = names.get(hidden..)?;
    let skills = below.iter().position(|name| name.eq_ignore_ascii_case("skills"))?;
    Some(below.get(..=skills)?.join("/"))
}

/// The path with the links in its existing part followed.
fn resolved(dir: &Path) -> PathBuf {
    let existing = existing(dir);
    match (existing.canonicalize(), dir.strip_prefix(existing)) {
        (Ok(real), Ok(rest)) => real.join(rest),
        (Ok(_) | Err(_), Ok(_) | Err(_)) => dir.to_owned(),
    }
}

/// The nearest folder above, or the folder itself, that exists.
fn existing(dir: &Path) -> &Path {
    dir.ancestors()
        .find(|path| path.exists())
        .unwrap_or_else(|| Path::new("/"))
}

/// Refuses a folder on a file system over a network: its locks may not hold, and a flush may not reach a disk.
fn refuse_network(dir: &Path) -> Result<(), Error> {
    match network_kind(existing(dir)) {
        Some(kind) => Err(Error::NetworkFileSystem {
            dir: dir.to_owned(),
            kind,
        }),
        None => Ok(()),
    }
}

#[cfg(target_os = "linux")]
fn network_kind(path: &Path) -> Option<String> {
    let magic = rustix::fs::statfs(path).ok()?.f_type;
    // Numbers from statfs(2); the type is as wide as the machine, the numbers have 32 bits.
    match magic & 0xFFFF_FFFF {
        0x6969 => Some("NFS".to_owned()),
        0x517B => Some("SMB".to_owned()),
        0xFF53_4D42 => Some("CIFS".to_owned()),
        0xFE53_4D42 => Some("SMB2".to_owned()),
        0x0102_1997 => Some("9P".to_owned()),
        0x00C3_6400 => Some("CEPH".to_owned()),
        0x5346_414F => Some("AFS".to_owned()),
        0x0BD0_0BD0 => Some("Lustre".to_owned()),
        0x6573_5546 => fuse_kind(path),
        _ => None,
    }
}

#[cfg(not(target_os = "linux"))]
fn network_kind(_path: &Path) -> Option<String> {
    None
}

/// The kind behind a FUSE mount, unless it is one that lies on a local disk or the disk of the machine's own host.
#[cfg(target_os = "linux")]
fn fuse_kind(path: &Path) -> Option<String> {
    use std::os::linux::fs::MetadataExt as _;
    let device = path.metadata().ok()?.st_dev();
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let kind = fuse_kind_in(&mounts, &format!("{major}:{minor}")).unwrap_or("FUSE");
    (!matches!(kind, "fuseblk" | "virtiofs")).then(|| kind.to_owned())
}

/// The file system type that mountinfo (proc_pid_mountinfo(5)) has for a device.
#[cfg(target_os = "linux")]
fn fuse_kind_in<'a>(mounts: &'a str, device: &str) -> Option<&'a str> {
    mounts.lines().find_map(|line| {
        let (mount, source) = line.split_once(" - ")?;
        let same = mount.split(' ').nth(2)? == device;
        same.then(|| source.split(' ').next()).flatten()
    })
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "what others do to the folder is done here")]
mod tests {
    use std::fs;

    use super::*;

    const NOW: Timestamp = Timestamp::from_millis(1_790_000_000_000);

    fn take(dir: &Path) -> Result<Location, Error> {
        Location::take(dir, false, NOW)
    }

    #[test]
    fn a_new_folder_gets_an_id_that_stays() {
        let dir = tempfile::tempdir().unwrap();
        let data = dir.path().join("a/data");
        let id = take(&data).unwrap().store_id;
        assert_eq!(take(&data).unwrap().store_id, id);
        use std::os::unix::fs::PermissionsExt as _;
        assert_eq!(fs::metadata(&data).unwrap().permissions().mode() & 0o777, 0o700);
    }

    #[test]
    fn a_second_holder_is_refused_with_the_first_ones_name() {
        let dir = tempfile::tempdir().unwrap();
        let first = take(dir.path()).unwrap();
        let Err(Error::Locked { holder, .. }) = take(dir.path()) else {
            panic!("not refused")
        };
        assert_eq!(
            holder,
            format!("portcullis process {}, started {NOW}", std::process::id())
        );
        drop(first);
        take(dir.path()).unwrap();
    }

    #[test]
    fn a_folder_of_somebody_else_is_refused_untouched() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("thesis.txt"), "x").unwrap();
        assert!(matches!(take(dir.path()), Err(Error::NotOurs { .. })));
        assert_eq!(durable::names(dir.path()).unwrap(), ["thesis.txt"]);
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("lock"), "x").unwrap();
        assert!(matches!(take(dir.path()), Err(Error::NotOurs { .. })));
        assert_eq!(fs::read(dir.path().join("lock")).unwrap(), b"x");
    }

    #[test]
    fn another_layout_is_refused_untouched() {
        let id = "0".repeat(32);
        for format in [
            format!("portcullis-data 2\n{id}\n"),
            format!("portcullis-data 11\n{id}\n"),
            format!("portcullis-data 1\n{id}"),
            format!("portcullis-data 1\n{}\n", "0".repeat(31)),
            String::new(),
        ] {
            let dir = tempfile::tempdir().unwrap();
            fs::write(dir.path().join(FORMAT), &format).unwrap();
            assert!(matches!(take(dir.path()), Err(Error::UnknownFormat { .. })), "{format}");
            assert_eq!(durable::names(dir.path()).unwrap(), [FORMAT]);
        }
    }

    #[test]
    fn what_an_interrupted_first_start_left_is_no_obstacle() {
        for lock in ["portcullis process 1, started\n", "portcul", "", "\0\0\0\0"] {
            let dir = tempfile::tempdir().unwrap();
            fs::write(dir.path().join(LOCK), lock).unwrap();
            fs::create_dir(dir.path().join(TMP)).unwrap();
            fs::write(dir.path().join(TMP).join("begin-0"), "port").unwrap();
            take(dir.path()).unwrap();
        }
    }

    #[test]
    fn paths_where_hosts_look_for_skills_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        for part in [
            ".agents/skills",
            ".claude/skills/x/data",
            ".codex/Skills",
            ".github/a/skills/b",
        ] {
            let data = dir.path().join(part);
            assert!(matches!(take(&data), Err(Error::DiscoveryPath { .. })), "{part}");
            assert!(!data.exists());
            Location::take(&data, true, NOW).unwrap();
        }
        let real = dir.path().join(".cursor/skills");
        fs::create_dir_all(&real).unwrap();
        std::os::unix::fs::symlink(&real, dir.path().join("harmless")).unwrap();
        assert!(matches!(
            take(&dir.path().join("harmless/data")),
            Err(Error::DiscoveryPath { .. })
        ));
        assert_eq!(discovery_part(Path::new("/srv/skills/data")), None);
        assert_eq!(discovery_part(Path::new("/srv/.x/skillset")), None);
    }

    #[test]
    fn a_mount_is_found_by_its_device() {
        let mounts = "36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw\n\
                      40 35 0:52 / /far rw - fuse.sshfs host:/x rw\n";
        assert_eq!(fuse_kind_in(mounts, "0:52"), Some("fuse.sshfs"));
        assert_eq!(fuse_kind_in(mounts, "0:5"), None);
    }
}
