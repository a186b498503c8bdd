//! The record under a second verifier, written in another language from the public specifications alone.

use std::fs;
use std::path::Path;

use tempfile::TempDir;
use tokio::process::Command;

use crate::audits::key;
use crate::support::disk;
use crate::support::gateway::Ended;
use crate::support::gateway::Gateway;
use crate::support::gateway::Setup;
use crate::support::gateway::ended;
use crate::support::witness::Witness;

/// Skills in the folder: more than a tile has room for.
const SKILLS: usize = 300;

/// Runs the second verifier.
async fn verify(arguments: &[&str]) -> Ended {
    let found = Command::new("python3").arg("--version").output().await;
    assert!(
        found.is_ok_and(|found| found.status.success()),
        "the second verifier needs python3; install it, as with: apt-get install python3"
    );
    let mut command = Command::new("python3");
    command
        .arg("tests/verifier/verify.py")
        .args(arguments)
        .kill_on_drop(true);
    ended(command).await
}

/// A gateway whose log fills more than one tile.
async fn with_many_leaves(skills: &TempDir) -> Gateway {
    for number in 0..SKILLS {
        let name = format!("skill-{number}");
        let folder = skills.path().join(&name);
        fs::create_dir(&folder).unwrap();
        let text = format!("---\nname: {name}\ndescription: Ünïcode \"{number}\"\n---\n# {name}\n");
        disk::write(&folder.join("SKILL.md"), text.as_bytes());
    }
    let gateway = Setup::new().folder("many", skills.path()).start().await;
    gateway.approve("many/skill-7").await;
    gateway
        .cli(&["revoke", "many/skill-7", "--note", "a \"note\"\n\u{1}\u{7f}é"])
        .await
        .expect(0);
    gateway
}

#[tokio::test]
async fn published_vectors_pass() {
    let said = verify(&["vectors"]).await.expect(0).out;
    assert_eq!(said, "verified: 3 signatures, 2 notes, 8 roots\n");
}

#[tokio::test]
async fn the_whole_log_is_verified_over_http_and_on_the_disk() {
    let skills = TempDir::new().unwrap();
    let mut gateway = with_many_leaves(&skills).await;
    let url = format!("{}/log", gateway.admin());
    let first = key(&gateway).await;
    let said = verify(&["log", &url, "--key", &first]).await.expect(0).out;
    assert!(said.starts_with("verified: 30"), "{said}");
    gateway.cli(&["audit", "rotate-key"]).await.expect(0);
    let second = key(&gateway).await;
    verify(&["log", &url, "--key", &second, "--earlier", &first])
        .await
        .expect(0);
    verify(&["log", &url, "--key", &first]).await.expect(1);
    gateway.approve("many/skill-8").await;
    assert_eq!(gateway.stop().await, 0);
    let log = gateway.data().join("log");
    let place = log.to_str().unwrap();
    verify(&["log", place, "--key", &second, "--earlier", &first])
        .await
        .expect(0);
    let copy = gateway.data().with_file_name("copy");
    let tampered = copy.to_str().unwrap();
    for file in disk::files(&log).iter().filter(|file| !file.ends_with("journal")) {
        disk::copy_folder(&log, &copy);
        let copied = copy.join(file.strip_prefix(&log).unwrap());
        flip_the_middle(&copied);
        let refused = verify(&["log", tampered, "--key", &second]).await.expect(1);
        assert!(
            refused.err.starts_with("wrong: "),
            "{}: {}",
            file.display(),
            refused.err
        );
        disk::remove(&copied);
        verify(&["log", tampered, "--key", &second]).await.expect(1);
    }
    gateway.finish().await;
}

#[tokio::test]
async fn proofs_and_cosignatures_are_verified() {
    let mut gateway = crate::audits::with_leaves().await;
    let log = key(&gateway).await;
    let witness = Witness::of(&log).await;
    let setting = format!("audit.witnesses = [{}]", witness.as_setting());
    gateway.reconfigure(|setup| setup.set(&setting).set("audit.witness_mode = \"require\""));
    gateway.restart().await;
    // Each decision waits for the cosignature of what came before it.
    gateway.approve("samples/release-notes").await;
    gateway.approve("samples/incident-review").await;
    let url = format!("{}/log", gateway.admin());
    verify(&["log", &url, "--key", &log, "--witness", &witness.key])
        .await
        .expect(0);
    let file = gateway.data().with_file_name("leaf.tlog-proof");
    let path = file.to_str().unwrap();
    for index in ["0", "3", "5"] {
        gateway.cli(&["audit", "prove", index, "--out", path]).await.expect(0);
        let said = verify(&["proof", path, "--key", &log, "--witness", &witness.key])
            .await
            .expect(0)
            .out;
        assert!(said.starts_with(&format!("verified: leaf {index} (")), "{said}");
    }
    verify(&["proof", path, "--key", &witness.key]).await.expect(1);
    flip_the_middle(&file);
    verify(&["proof", path, "--key", &log]).await.expect(1);
    gateway.finish().await;
}

/// Turns one bit over in the middle of a file.
fn flip_the_middle(path: &Path) {
    let mut bytes = fs::read(path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    disk::write(path, &bytes);
}
