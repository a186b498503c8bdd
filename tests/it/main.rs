//! What the program does, seen from outside: one binary, one module a behaviour.
#![cfg(test)]

mod approves;
mod config;
mod crashes;
mod doors;
mod folders;
mod http;
mod isolates;
mod layering;
mod lazy;
mod leaks_nothing;
mod limits;
mod nests;
mod offline;
mod scripted_origin;
mod serves;
mod shuts_down;
mod support;
mod tls;
mod verifies;

use std::collections::BTreeSet;
use std::fs;

/// This file, which has to name every other one.
const HERE: &str = include_str!("main.rs");

#[test]
fn no_file_of_tests_is_forgotten() {
    let named: BTreeSet<String> = HERE
        .lines()
        .filter_map(|line| line.strip_prefix("mod ")?.strip_suffix(';'))
        .map(str::to_owned)
        .collect();
    let present: BTreeSet<String> = fs::read_dir("tests/it")
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned())
        .filter(|stem| stem != "main")
        .collect();
    assert_eq!(named, present);
}
