//! How fast the gateway is, in ratios to what no gateway can beat: a bare handler that has the answer's bytes at hand, and the
//! origin asked directly.
//!
//! `tests/bench/run [ROUNDS] [PART…]`. Gateway, bare handler and origin are processes of their own; the load is this one. Targets
//! take turns, in reversed order each second round; what is told is ratios of medians. With all parts, the table and the chart beside
//! this file are written anew.
#![expect(clippy::missing_docs_in_private_items, reason = "read from top to bottom, once")]
#![expect(clippy::print_stdout, reason = "a benchmark prints")]
#![expect(clippy::unwrap_used, reason = "a benchmark that cannot go on ends")]
#![expect(clippy::panic, reason = "a benchmark that cannot go on ends")]
#![expect(clippy::disallowed_methods, reason = "files of its own, in a folder of its own")]

mod data;
mod decisions;
mod deliveries;
mod listings;
mod load;
mod misses;
mod process;
mod reads;
mod report;
mod servers;
mod start;

use std::path::Path;

use report::Report;

fn main() {
    let arguments: Vec<_> = std::env::args().skip(1).filter(|word| word != "--bench").collect();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .unwrap();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["--bare", answer] => runtime.block_on(servers::bare(Path::new(answer))),
        ["--origin", skills] => runtime.block_on(servers::origin(Path::new(skills))),
        ref words => {
            let rounds = words.iter().find_map(|word| word.parse().ok()).unwrap_or(4);
            let parts = words
                .iter()
                .filter(|word| word.parse::<usize>().is_err())
                .copied()
                .collect();
            runtime.block_on(compare(rounds, parts));
        }
    }
}

/// Runs the parts that are named, or all of them.
async fn compare(rounds: usize, named: Vec<&str>) {
    let is_wanted = |part: &str| named.is_empty() || named.contains(&part);
    let mut report = Report::new(rounds);
    if is_wanted("reads") {
        Box::pin(reads::measure(&mut report, rounds)).await;
    }
    if is_wanted("deliveries") {
        Box::pin(deliveries::measure(&mut report, rounds)).await;
    }
    if is_wanted("misses") {
        Box::pin(misses::measure(&mut report, rounds)).await;
    }
    if is_wanted("listings") {
        Box::pin(listings::measure(&mut report, rounds)).await;
    }
    if is_wanted("start") {
        Box::pin(start::measure(&mut report, rounds)).await;
    }
    if is_wanted("decisions") {
        decisions::measure(&mut report, rounds);
    }
    report.print();
    if named.is_empty() {
        report.write();
    }
}

/// The middle one.
fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}
