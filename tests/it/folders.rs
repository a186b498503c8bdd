//! A folder of skills is an origin like any other, and nothing outside it is served.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::symlink;
use std::path::Path;

use tempfile::TempDir;

use crate::support::client::strings;
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

#[tokio::test]
async fn what_cannot_be_published_is_named_in_the_log_and_the_rest_is_served() {
    // case K3, case J1, case J2, case I3, each sorted before the good skill.
    let (folder, outside) = (folder(), TempDir::new().unwrap());
    let root = folder.path();
    let skill = |name: &str, text: &str| {
        fs::create_dir_all(root.join(name)).unwrap();
        disk::write(&root.join(name).join("SKILL.md"), text.as_bytes());
    };
    symlink(root.join("nowhere"), root.join("a-dangling")).unwrap();
    disk::write(&root.join("a-file"), b"no folder");
    fifo(&root.join("a-pipe"));
    fs::create_dir_all(root.join(OsStr::from_bytes(b"a-\xff"))).unwrap();
    fs::create_dir_all(root.join("b-folder/SKILL.md")).unwrap();
    skill("b-pipe", "---\nname: b-pipe\ndescription: d\n---\n");
    fifo(&root.join("b-pipe/pipe"));
    skill(
        "b-colon",
        "---\nname: b-colon\ndescription: Make it ready: errors\n---\n",
    );
    skill("b-wrong-name", "---\nname: right-name\ndescription: d\n---\n");
    skill("b-none", "# No frontmatter\n");
    fs::create_dir_all(root.join("b-link")).unwrap();
    disk::write(
        &outside.path().join("SKILL.md"),
        b"---\nname: b-link\ndescription: d\n---\n",
    );
    symlink(outside.path().join("SKILL.md"), root.join("b-link/SKILL.md")).unwrap();
    fs::create_dir_all(root.join("b-lower")).unwrap();
    disk::write(
        &root.join("b-lower/skill.md"),
        b"---\nname: b-lower\ndescription: d\n---\n",
    );
    disk::write(&root.join("demo/skill.md"), b"in the shadow of the real one");
    let gateway = gateway(&folder).await;
    gateway.approve("local/demo").await;
    let host = gateway.host();
    assert_eq!(host.uris().await, ["skill://local/demo/SKILL.md"]);
    assert_eq!(
        host.read("skill://local/demo/skill.md").await.bytes(),
        b"in the shadow of the real one"
    );
    let seen = gateway
        .origin_when("local", "is up", |origin| origin["state"] == "up")
        .await;
    assert_eq!(seen["skills"], 1);
    let log = gateway.stderr();
    for name in ["b-pipe", "b-colon", "b-wrong-name", "b-none", "b-link"] {
        assert!(
            log.lines().any(|line| line.contains("WARN") && line.contains(name)),
            "{name} in\n{log}"
        );
    }
    gateway.finish().await;
}

#[tokio::test]
async fn a_link_put_where_a_file_was_is_not_followed() {
    // case K1.
    let (folder, outside) = (folder(), TempDir::new().unwrap());
    disk::write(&outside.path().join("secret.txt"), b"secret!");
    let gateway = gateway(&folder).await;
    gateway.approve("local/demo").await;
    let notes = folder.path().join("demo/notes.md");
    disk::remove(&notes);
    symlink(outside.path().join("secret.txt"), &notes).unwrap();
    let answer = gateway.host().read("skill://local/demo/notes.md").await;
    assert!(!answer.text.contains("secret!"), "{}", answer.text);
    gateway.skill_is("local/demo", "withdrawn").await;
    let answer = gateway.host().read("skill://local/demo/notes.md").await;
    assert_eq!(answer.refusal(-32602)["dev.portcullis/reason"], "held");
    gateway.finish().await;
}

#[tokio::test]
async fn hidden_files_are_no_part_of_a_skill_and_all_others_are() {
    // case K5.
    let folder = folder();
    let gateway = gateway(&folder).await;
    gateway.approve("local/demo").await;
    let demo = folder.path().join("demo");
    let before = gateway.skill_is("local/demo", "approved").await;
    fs::create_dir_all(demo.join(".git")).unwrap();
    disk::write(&demo.join(".git/config"), b"[core]\n");
    disk::write(&demo.join(".DS_Store"), b"\0");
    let refreshed = gateway
        .origin_when("local", "is up", |origin| origin["state"] == "up")
        .await;
    gateway
        .origin_when("local", "is read anew", |origin| {
            origin["last_refresh"] != refreshed["last_refresh"]
        })
        .await;
    assert_eq!(gateway.skill_is("local/demo", "approved").await["set"], before["set"]);
    let host = gateway.host();
    for hidden in [".DS_Store", ".git/config"] {
        let answer = host.read(&format!("skill://local/demo/{hidden}")).await;
        assert_eq!(answer.refusal(-32602)["dev.portcullis/reason"], "unknown");
    }
    let listed = host.directory("skill://local/demo").await;
    assert_eq!(strings(&listed.result()["resources"], "name"), ["demo", "notes.md"]);
    fs::create_dir_all(demo.join("__pycache__")).unwrap();
    disk::write(&demo.join("__pycache__/x.pyc"), b"\0");
    gateway.skill_is("local/demo", "changed").await;
    gateway.finish().await;
}

#[tokio::test]
async fn every_way_to_edit_a_folder_is_seen() {
    // case K6: made after the start, a file renamed, a file replaced by another, a file removed, a skill added.
    let parent = TempDir::new().unwrap();
    let root = parent.path().join("skills");
    let gateway = Setup::new().folder("local", &root).start().await;
    gateway
        .origin_when("local", "is not there", |origin| origin["state"] == "down")
        .await;
    write_skill(&root, "demo", "What it is for.");
    let notes = root.join("demo/notes.md");
    disk::write(&notes, b"# Notes\n");
    gateway.approve("local/demo").await;
    let renamed = root.join("demo/renamed.md");
    disk::rename(&notes, &renamed);
    gateway.skill_is("local/demo", "changed").await;
    gateway.approve("local/demo").await;
    assert_eq!(
        gateway.host().read("skill://local/demo/renamed.md").await.bytes(),
        b"# Notes\n"
    );
    assert_eq!(
        gateway.host().read("skill://local/demo/notes.md").await.reason(),
        "unknown"
    );
    disk::write(&root.join("demo/.new"), b"# Other\n");
    disk::rename(&root.join("demo/.new"), &renamed);
    gateway.skill_is("local/demo", "changed").await;
    gateway.approve("local/demo").await;
    assert_eq!(
        gateway.host().read("skill://local/demo/renamed.md").await.bytes(),
        b"# Other\n"
    );
    disk::remove(&renamed);
    write_skill(&root, "another", "Came later.");
    gateway.skill_is("local/demo", "changed").await;
    gateway.skill_is("local/another", "pending").await;
    gateway.finish().await;
}

#[tokio::test]
async fn what_a_folder_publishes_is_verified_like_anything_else() {
    // case K8, case I11: the folder's reader lets the last of two equal keys win, which no host has to accept.
    let folder = folder();
    let twice = "---\nname: twice\ndescription: d\nnote: a\nnote: b\n---\n";
    fs::create_dir_all(folder.path().join("twice")).unwrap();
    disk::write(&folder.path().join("twice/SKILL.md"), twice.as_bytes());
    let gateway = gateway(&folder).await;
    gateway.approve_all("local", 2).await;
    let host = gateway.host();
    let answer = host.read("skill://local/twice/SKILL.md").await;
    assert_eq!(answer.refusal(-32603)["dev.portcullis/reason"], "mismatch");
    assert!(
        answer.text.contains("the key note stands a second time in line 5"),
        "{}",
        answer.text
    );
    host.read("skill://local/demo/SKILL.md").await.result();
    gateway.finish().await;
}

/// Makes a named pipe, which nobody will ever write to.
fn fifo(path: &Path) {
    rustix::fs::mknodat(
        rustix::fs::CWD,
        path,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
        0,
    )
    .unwrap();
}
