//! Real servers and real hosts, with the gateway between them. They are installed by `tests/peers/install`, from the pins in
//! `npm` and `python`; what comes out stands in `RESULTS.md`.
#![cfg(test)]

mod grid;
mod hosts;
mod installed;
mod pinned;
mod programs;
mod results;
mod rust_sdk;
mod servers;
mod stdio;
mod suite;
#[expect(dead_code, reason = "the other tests use more of it")]
#[path = "../it/support/mod.rs"]
mod support;
mod tree;
