//! What the program does, seen from outside: one binary, one module a behaviour.
#![cfg(test)]

mod approves;
mod audits;
mod bridges;
mod checks;
mod config;
mod connects;
mod crashes;
mod delivers;
mod deviations;
mod doors;
mod eras;
mod folders;
mod full_disk;
mod http;
mod inspects;
mod isolates;
mod layering;
mod lazy;
mod leaks_nothing;
mod limits;
mod load;
mod locks;
mod many;
mod matrix;
mod nests;
mod offline;
mod passes;
mod policy;
mod programs;
mod quorum;
mod reaches;
mod recalls;
mod recorded;
mod scripted_origin;
mod second_verifier;
mod serves;
mod sessions;
mod shuts_down;
mod streams;
mod support;
mod tampers;
mod tls;
mod verifies;
mod walks;
mod websockets;
mod witnesses;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// This file, which has to name every other one.
const HERE: &str = include_str!("main.rs");

#[test]
fn no_file_of_tests_is_forgotten() {
    assert_eq!(named(HERE), stems(Path::new("tests/it"), "main"));
    let folders = fs::read_dir("tests/it").unwrap().map(|entry| entry.unwrap().path());
    for folder in folders.filter(|path| path.is_dir()) {
        let own = fs::read_to_string(folder.join("mod.rs")).unwrap();
        assert_eq!(named(&own), stems(&folder, "mod"), "{}", folder.display());
    }
}

/// The modules that a file names.
fn named(text: &str) -> BTreeSet<String> {
    text.lines()
        .filter_map(|line| {
            line.trim_start_matches("pub(crate) ")
                .strip_prefix("mod ")?
                .strip_suffix(';')
        })
        .map(str::to_owned)
        .collect()
}

/// The modules that lie in a folder, without the file that names them.
fn stems(folder: &Path, own: &str) -> BTreeSet<String> {
    fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned())
        .filter(|stem| stem != own)
        .collect()
}
