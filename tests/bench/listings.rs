//! `skills/list` of many skills in one page, beside a bare handler with the same bytes.

use super::data::Amount;
use super::load;
use super::median;
use super::process::Home;
use super::reads::bare;
use super::report::Aim;
use super::report::Report;

/// Listings in one turn.
const TURN: usize = 10;

pub(crate) async fn measure(report: &mut Report, rounds: usize) {
    for skills in [1_000, 10_000] {
        let folder = tempfile::tempdir().unwrap();
        let home = Home { folder: folder.path() };
        let amount = Amount {
            origins: 1,
            skills,
            files: 2,
        };
        let one_page = "limits.page_entries = 20000\nlimits.page_bytes = 67108864\n";
        home.configure(&format!("{one_page}{}", amount.settings()));
        amount.store(folder.path());
        let gateway = home.serve(&["--offline"]);
        let request = load::request("/mcp", "skills/list", None);
        let before = gateway.memory();
        let answer = load::ask_once(&gateway.address, &request).await;
        let listed: serde_json::Value = serde_json::from_slice(&answer).unwrap();
        assert_eq!(
            listed["result"]["skills"].as_array().map(Vec::len),
            Some(skills),
            "all in one page"
        );
        let limit = bare(folder.path(), &answer);
        let mut times = [Vec::new(), Vec::new()];
        for round in 0..rounds {
            let order = if round % 2 == 0 { [0, 1] } else { [1, 0] };
            for which in order {
                let address = &[&gateway, &limit][which].address;
                times[which].extend(load::latencies(address, &request, TURN).await);
            }
        }
        let [ours, theirs] = times.map(median);
        let detail = format!(
            "{:.1} : {:.1} ms for {:.2} MB; {:.1} MB of memory more than before the first",
            ours * 1e3,
            theirs * 1e3,
            answer.len() as f64 / 1e6,
            gateway.memory() - before
        );
        report.ratio(
            &format!("`skills/list` of {skills} skills, time"),
            ours / theirs,
            Aim::None,
            detail,
        );
    }
}
