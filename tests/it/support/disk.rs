//! The few changes that tests make to files, which the house otherwise leaves to its store.

use std::fs;
use std::os::unix::fs::DirBuilderExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::path::PathBuf;

/// Writes a file, also over one that is read-only.
#[expect(clippy::disallowed_methods, reason = "a test is not the store")]
pub(crate) fn write(path: &Path, bytes: &[u8]) {
    if path.exists() {
        fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
    }
    fs::write(path, bytes).unwrap();
}

/// Writes to a file of the kernel's.
#[expect(clippy::disallowed_methods, reason = "a test is not the store")]
pub(crate) fn write_in_place(path: &Path, bytes: &[u8]) {
    fs::write(path, bytes).unwrap();
}

/// Copies a folder with all that is in it.
pub(crate) fn copy_folder(from: &Path, to: &Path) {
    for file in files(from) {
        let copy = to.join(file.strip_prefix(from).unwrap());
        fs::create_dir_all(copy.parent().unwrap()).unwrap();
        write(&copy, &fs::read(file).unwrap());
    }
}

/// Takes a file away.
#[expect(clippy::disallowed_methods, reason = "a test is not the store")]
pub(crate) fn remove(path: &Path) {
    fs::remove_file(path).unwrap();
}

/// Changes one byte of a file in place.
pub(crate) fn flip_a_byte(path: &Path) {
    let mut bytes = fs::read(path).unwrap();
    bytes[0] ^= 1;
    write(path, &bytes);
}

/// Gives a file another name, in place of what has it.
#[expect(clippy::disallowed_methods, reason = "a test is not the store")]
pub(crate) fn rename(from: &Path, to: &Path) {
    fs::rename(from, to).unwrap();
}

/// Every file below a folder with its bytes, for [`restore`].
pub(crate) fn copy(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let files = files(folder).into_iter().filter(|path| path.is_file());
    files.map(|path| (path.clone(), fs::read(path).unwrap())).collect()
}

/// Makes a folder again what it was when it was copied.
#[expect(clippy::disallowed_methods, reason = "a test is not the store")]
pub(crate) fn restore(folder: &Path, copy: &[(PathBuf, Vec<u8>)]) {
    fs::remove_dir_all(folder).unwrap();
    for (path, bytes) in copy {
        let parent = path.parent().unwrap();
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(parent)
            .unwrap();
        fs::write(path, bytes).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
    }
}

/// Every file below a folder.
pub(crate) fn files(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else {
        return Vec::new();
    };
    let mut found = Vec::new();
    for entry in entries {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path));
        } else {
            found.push(path);
        }
    }
    found
}

/// The one file below a folder with exactly these bytes.
pub(crate) fn file_with(folder: &Path, bytes: &[u8]) -> PathBuf {
    let mut found: Vec<PathBuf> = files(folder)
        .into_iter()
        .filter(|path| path.extension().is_none() && fs::read(path).is_ok_and(|held| held == bytes))
        .collect();
    assert_eq!(found.len(), 1, "files below {} with these bytes", folder.display());
    found.remove(0)
}
