//! A folder of skills is an origin like any other, and nothing outside it is served.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use tempfile::TempDir;

use crate::support::disk;
use crate::support::gateway::Gateway;
use crate::support::gateway::Setup;

/// A folder with one skill of two files.
fn folder() -> TempDir {
    let folder = TempDir::new().unwrap();
    write_skill(folder.path(), "demo", "What it is for.");
    disk::write(&folder.path().join("demo/notes.md"), b"# Notes\n");
    folder
}

fn write_skill(folder: &Path, name: &str, description: &str) {
    fs::create_dir_all(folder.join(name)).unwrap();
    let text = format!("---\nname: {name}\ndescription: {description}\n---\n\nDo it.\n");
    disk::write(&folder.join(name).join("SKILL.md"), text.as_bytes());
}

async fn gateway(folder: &TempDir) -> Gateway {
    Setup::new().folder("local", folder.path()).start().await
}

#[tokio::test]
async fn a_folder_is_held_approved_and_read_like_any_origin() {
    let folder = folder();
    let gateway = gateway(&folder).await;
    gateway.approve("local/demo").await;
    let host = gateway.host();
    assert_eq!(host.uris().await, ["skill://local/demo/SKILL.md"]);
    assert_eq!(host.read("skill://local/demo/notes.md").await.bytes(), b"# Notes\n");
    gateway.finish().await;
}

#[tokio::test]
async fn a_file_that_changes_holds_the_skill() {
    // case K6.
    let folder = folder();
    let gateway = gateway(&folder).await;
    gateway.approve("local/demo").await;
    gateway.cli(&["pull", "local/demo"]).await.expect(0);
    disk::write(&folder.path().join("demo/notes.md"), b"# Other notes\n");
    gateway.skill_is("local/demo", "changed").await;
    assert_eq!(
        gateway.host().read("skill://local/demo/notes.md").await.reason(),
        "held"
    );
    gateway.cli(&["pull", "local/demo"]).await.expect(0);
    let diff = gateway.cli(&["diff", "local/demo"]).await.expect(1).out;
    assert!(diff.contains("-# Notes") && diff.contains("+# Other notes"), "{diff}");
    gateway.finish().await;
}

#[tokio::test]
async fn links_out_of_the_folder_are_neither_listed_nor_served() {
    // case K1, case K2.
    let (folder, outside) = (folder(), TempDir::new().unwrap());
    write_skill(outside.path(), "elsewhere", "Not ours.");
    disk::write(&outside.path().join("secret.txt"), b"secret");
    symlink(outside.path().join("elsewhere"), folder.path().join("elsewhere")).unwrap();
    write_skill(folder.path(), "linked", "Has a link.");
    symlink(
        outside.path().join("secret.txt"),
        folder.path().join("linked/secret.txt"),
    )
    .unwrap();
    let gateway = gateway(&folder).await;
    gateway.approve("local/demo").await;
    let skills = gateway.cli(&["skills", "--json"]).await.expect(0).out;
    assert!(!skills.contains("elsewhere") && !skills.contains("secret"), "{skills}");
    for uri in [
        "skill://local/linked/secret.txt",
        "skill://local/elsewhere/SKILL.md",
        "skill://local/demo/../x",
    ] {
        gateway.host().read(uri).await.assert_shut();
    }
    gateway.finish().await;
}

#[tokio::test]
async fn a_folder_that_is_gone_is_reported_and_what_is_stored_is_served() {
    // case K4.
    let folder = folder();
    let gateway = gateway(&folder).await;
    gateway.approve("local/demo").await;
    gateway.cli(&["pull", "local/demo"]).await.expect(0);
    folder.close().unwrap();
    gateway
        .origin_when("local", "is down", |origin| {
            origin["state"] == "down" && origin["last_error"].is_string()
        })
        .await;
    let host = gateway.host();
    assert_eq!(host.uris().await, ["skill://local/demo/SKILL.md"]);
    assert_eq!(host.read("skill://local/demo/notes.md").await.bytes(), b"# Notes\n");
    gateway.finish().await;
}

#[tokio::test]
async fn the_example_configuration_serves_its_samples_once_approved() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/skills");
    let gateway = Setup::new().folder("samples", &folder).start().await;
    for skill in [
        "samples/release-notes",
        "samples/incident-review",
        "samples/teams/onboarding",
    ] {
        gateway.approve(skill).await;
        gateway.cli(&["pull", skill]).await.expect(0);
    }
    assert_eq!(gateway.host().uris().await.len(), 3);
    gateway.finish().await;
}
