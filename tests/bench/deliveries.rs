//! What the record of deliveries costs: the same reads with it and without.

use super::load;
use super::process::Home;
use super::reads::URI;
use super::reads::compare;
use super::reads::write_skill;
use super::report::Aim;
use super::report::Report;

/// An origin that is a folder beside the configuration.
const ORIGIN: &str = "[[origin]]\nlabel = \"bench\"\ndir = \"skills\"\n";

pub(crate) async fn measure(report: &mut Report, rounds: usize) {
    let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let homes = folders.each_ref().map(|folder| Home { folder: folder.path() });
    for (home, settings) in homes.iter().zip(["", "audit.deliveries = false\n"]) {
        write_skill(home.folder);
        home.configure(&format!("{settings}{ORIGIN}"));
    }
    let (recorded, unrecorded) = (homes[0].serve(&[]), homes[1].serve(&[]));
    for home in &homes {
        home.approve_all(1).await;
    }
    let request = load::request("/mcp", "resources/read", Some(URI));
    for gateway in [&recorded, &unrecorded] {
        load::ask_once(&gateway.address, &request).await;
    }
    for connections in [1, 32, 128] {
        let what = format!("read from memory with deliveries recorded, {connections} connections, of without");
        let targets = (&recorded, &unrecorded);
        compare(
            report,
            &what,
            Aim::AtLeast(0.85),
            targets,
            (&request, connections, rounds),
        )
        .await;
    }
    report.figure(
        "memory held while deliveries are recorded",
        recorded.memory(),
        Aim::None,
        format!("MB; {:.0} without", unrecorded.memory()),
    );
    let lines = std::fs::read_dir(folders[0].path().join("data/deliveries")).unwrap();
    let bytes: u64 = lines.map(|entry| entry.unwrap().metadata().unwrap().len()).sum();
    report.figure(
        "bytes on the disk for these deliveries",
        bytes as f64 / 1_000_000.0,
        Aim::None,
        "MB".to_owned(),
    );
}
