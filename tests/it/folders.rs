//! A folder of skills is an origin like any other, and nothing outside it is served.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::symlink;
use std::path::Path;

use serde_json::Value;
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
        folder.path().join("linked/alias.txt"),
    )
    .unwrap();
    let gateway = gateway(&folder).await;
    gateway.approve("local/demo").await;
    let skills = gateway.cli(&["skills", "--json"]).await.expect(0).out;
    assert!(!skills.contains("elsewhere") && !skills.contains("secret"), "{skills}");
    for uri in [
        "skill://local/linked/alias.txt",
        "skill://local/linked/SKILL.md",
        "skill://local/elsewhere/SKILL.md",
        "skill://local/demo/../x",
    ] {
        gateway.host().read(uri).await.assert_shut();
    }
    let told = rejected(&gateway, 2).await;
    assert_eq!(
        rules(&told),
        [("link", None), ("link", Some("skill://linked/SKILL.md"))]
    );
    assert!(reason(&told, "linked").starts_with("linked/alias.txt: "), "{told:?}");
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
async fn what_cannot_be_published_is_named_with_its_rule_and_the_rest_is_served() {
    // case K3, case J1, case J2, case I3, case K8, each sorted before the good skill.
    let (folder, outside) = (folder(), TempDir::new().unwrap());
    write_what_cannot_be_published(folder.path(), outside.path());
    let gateway = gateway(&folder).await;
    gateway.approve("local/demo").await;
    let host = gateway.host();
    assert_eq!(host.uris().await, ["skill://local/demo/SKILL.md"]);
    let told = rejected(&gateway, 11).await;
    assert_eq!(
        rules(&told),
        [
            ("file-name", Some("skill://b-lower/SKILL.md")),
            ("frontmatter", Some("skill://b-none/SKILL.md")),
            ("link", None),
            ("link", Some("skill://b-link/SKILL.md")),
            ("name-differs", Some("skill://b-wrong-name/SKILL.md")),
            ("not-utf8", None),
            ("one-reading", Some("skill://b-twice/SKILL.md")),
            ("same-file", Some("skill://b-both/SKILL.md")),
            ("special-file", None),
            ("special-file", Some("skill://b-pipe/SKILL.md")),
            ("unquoted-value", Some("skill://b-colon/SKILL.md")),
        ]
    );
    assert_eq!(
        reason(&told, "b-colon"),
        "b-colon/SKILL.md, line 3: the frontmatter is not valid YAML, since a value that needs quotes has none; \
         write description: \"Make it ready: errors\""
    );
    let seen = gateway
        .origin_when("local", "is up", |origin| origin["state"] == "up")
        .await;
    assert_eq!(seen["skills"], 1);
    let log = gateway.stderr();
    for name in ["b-pipe", "b-colon", "b-wrong-name", "b-none", "b-link", "a-dangling"] {
        assert!(
            log.lines().any(|line| line.contains("WARN") && line.contains(name)),
            "{name} in\n{log}"
        );
    }
    gateway.finish().await;
}

#[tokio::test]
async fn a_skill_that_is_put_right_is_published_and_one_that_breaks_is_held() {
    // case I3.
    let folder = folder();
    let gateway = gateway(&folder).await;
    gateway.approve("local/demo").await;
    let own = folder.path().join("demo/SKILL.md");
    disk::write(&own, b"---\nname: demo\ndescription: now: broken\n---\n");
    gateway.skill_is("local/demo", "invalid").await;
    assert_eq!(
        rules(&rejected(&gateway, 1).await),
        [("unquoted-value", Some("skill://demo/SKILL.md"))]
    );
    assert_eq!(gateway.host().uris().await, [""; 0]);
    disk::write(&own, b"---\nname: demo\ndescription: \"now: whole\"\n---\n");
    gateway.approve("local/demo").await;
    assert_eq!(gateway.host().uris().await, ["skill://local/demo/SKILL.md"]);
    rejected(&gateway, 0).await;
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
    gateway.skill_is("local/demo", "invalid").await;
    let answer = gateway.host().read("skill://local/demo/notes.md").await;
    assert_eq!(answer.refusal(-32602)["dev.portcullis/reason"], "held");
    gateway.finish().await;
}

#[tokio::test]
async fn hidden_and_left_over_files_are_no_part_of_a_skill_and_all_others_are() {
    // case K5.
    let folder = folder();
    let gateway = gateway(&folder).await;
    gateway.approve("local/demo").await;
    let demo = folder.path().join("demo");
    let before = gateway.skill_is("local/demo", "approved").await;
    fs::create_dir_all(demo.join(".git")).unwrap();
    disk::write(&demo.join(".git/config"), b"[core]\n");
    fs::create_dir_all(demo.join("__pycache__")).unwrap();
    for left in [
        ".DS_Store",
        "__pycache__/x.pyc",
        "notes.md~",
        "notes.md.swp",
        "~$notes.docx",
        "#notes.md#",
    ] {
        disk::write(&demo.join(left), b"\0");
    }
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
    for hidden in [".DS_Store", ".git/config", "__pycache__/x.pyc", "notes.md~"] {
        let answer = host.read(&format!("skill://local/demo/{hidden}")).await;
        assert_eq!(answer.refusal(-32602)["dev.portcullis/reason"], "unknown");
    }
    let listed = host.directory("skill://local/demo").await;
    assert_eq!(strings(&listed.result()["resources"], "name"), ["demo", "notes.md"]);
    disk::write(&demo.join("swp"), b"a file like any other");
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
async fn a_change_is_seen_long_before_the_next_refresh() {
    // case K6.
    let folder = folder();
    let table = format!(
        "[[origin]]\nlabel = \"local\"\ndir = \"{}\"\nrefresh = \"1h\"\n",
        folder.path().display()
    );
    let gateway = Setup::new().table(&table).start().await;
    gateway.approve("local/demo").await;
    disk::write(&folder.path().join("demo/notes.md"), b"# Other notes\n");
    gateway.skill_is("local/demo", "changed").await;
    write_skill(folder.path(), "another", "Came later.");
    gateway.skill_is("local/another", "pending").await;
    fs::remove_dir_all(folder.path().join("another")).unwrap();
    gateway.skill_is("local/another", "withdrawn").await;
    gateway.finish().await;
}

#[tokio::test]
async fn a_host_that_reads_during_edits_gets_what_was_approved_or_nothing() {
    // case K6.
    let folder = folder();
    let notes = folder.path().join("demo/notes.md");
    let state = |round: u8| vec![b'a' + round; 100_000];
    disk::write(&notes, &state(0));
    let gateway = gateway(&folder).await;
    let host = gateway.host();
    for round in 0..3 {
        gateway.approve("local/demo").await;
        let edit = tokio::task::spawn_blocking({
            let (notes, state) = (notes.clone(), state(round + 1));
            move || disk::write(&notes, &state)
        });
        for _ in 0..10 {
            let answer = host.read("skill://local/demo/notes.md").await;
            if answer.json["result"].is_object() {
                assert!(answer.bytes() == state(round), "a mix, or what nobody approved");
            } else {
                assert_eq!(answer.reason(), "held", "{}", answer.text);
            }
        }
        edit.await.unwrap();
        gateway.skill_is("local/demo", "changed").await;
    }
    gateway.finish().await;
}

/// An origin of several folders, written as a list of tables.
fn folders(dir: &str) -> String {
    format!("[[origin]]\nlabel = \"local\"\ndir = [{dir}]\nrefresh = \"1s\"\n")
}

#[tokio::test]
async fn a_skill_in_two_folders_is_served_from_both_and_the_later_one_is_told_of() {
    // case A6.
    let (project, user) = (folder(), folder());
    write_skill(user.path(), "more", "Only here.");
    disk::write(&user.path().join("demo/notes.md"), b"# Others\n");
    let dir = format!(
        "{{ name = \"project\", path = \"{}\" }}, {{ name = \"user\", path = \"{}\" }}, {{ name = \"none\", path = \"/no/such\" }}",
        project.path().display(),
        user.path().display()
    );
    let gateway = Setup::new().table(&folders(&dir)).start().await;
    for skill in ["local/project/demo", "local/user/demo", "local/user/more"] {
        gateway.approve(skill).await;
    }
    let host = gateway.host();
    for (uri, text) in [
        ("skill://local/project/demo/notes.md", &b"# Notes\n"[..]),
        ("skill://local/user/demo/notes.md", b"# Others\n"),
    ] {
        assert_eq!(host.read(uri).await.bytes(), text);
    }
    let findings = gateway.skill_is("local/user/demo", "approved").await["findings"].clone();
    let told = "skill://project/demo/SKILL.md has the same name, and its folder goes before this one's";
    assert!(findings.as_array().unwrap().contains(&told.into()), "{findings}");
    let findings = gateway.skill_is("local/project/demo", "approved").await["findings"].to_string();
    assert!(!findings.contains("goes before"), "{findings}");
    gateway
        .origin_when("local", "tells of the folder that is not there", |origin| {
            origin["state"] == "up" && origin["last_error"].to_string().contains("none cannot be read")
        })
        .await;
    gateway.finish().await;
}

#[tokio::test]
async fn a_projects_skills_are_published_once_the_project_is_trusted() {
    let folder = folder();
    let dir = |trusted: &str| {
        let path = folder.path().display();
        folders(&format!(
            "{{ name = \"project\", path = \"{path}\", project = true{trusted} }}"
        ))
    };
    let mut gateway = Setup::new().table(&dir("")).start().await;
    let told = rejected(&gateway, 1).await;
    assert_eq!(rules(&told), [("untrusted", Some("skill://project/demo/SKILL.md"))]);
    let reason = reason(&told, "project/demo");
    for part in [
        folder.path().to_str().unwrap(),
        "set trusted = true for the folder project",
    ] {
        assert!(reason.contains(part), "{reason}");
    }
    gateway
        .host()
        .read("skill://local/project/demo/SKILL.md")
        .await
        .assert_shut();
    gateway.reconfigure(|mut setup| {
        setup.without_origin("local");
        setup.table(&dir(", trusted = true"))
    });
    gateway.restart().await;
    gateway.approve("local/project/demo").await;
    assert_eq!(gateway.host().uris().await, ["skill://local/project/demo/SKILL.md"]);
    gateway.finish().await;
}

/// Everything that can be wrong with a folder, but for limits.
fn write_what_cannot_be_published(root: &Path, outside: &Path) {
    let skill = |name: &str, text: &str| {
        fs::create_dir_all(root.join(name)).unwrap();
        disk::write(&root.join(name).join("SKILL.md"), text.as_bytes());
    };
    symlink(root.join("nowhere"), root.join("a-dangling")).unwrap();
    disk::write(&root.join("a-file"), b"no folder");
    fifo(&root.join("a-pipe"));
    fs::create_dir_all(root.join(OsStr::from_bytes(b"a-\xff"))).unwrap();
    fs::create_dir_all(root.join("b-folder/SKILL.md")).unwrap();
    skill("b-both", "---\nname: b-both\ndescription: d\n---\n");
    disk::write(&root.join("b-both/skill.md"), b"in the shadow of the real one");
    skill("b-pipe", "---\nname: b-pipe\ndescription: d\n---\n");
    fifo(&root.join("b-pipe/pipe"));
    skill(
        "b-colon",
        "---\nname: b-colon\ndescription: Make it ready: errors\n---\n",
    );
    skill("b-wrong-name", "---\nname: right-name\ndescription: d\n---\n");
    skill("b-none", "# No frontmatter\n");
    skill("b-twice", "---\nname: b-twice\ndescription: d\nnote: a\nnote: b\n---\n");
    fs::create_dir_all(root.join("b-link")).unwrap();
    disk::write(&outside.join("SKILL.md"), b"---\nname: b-link\ndescription: d\n---\n");
    symlink(outside.join("SKILL.md"), root.join("b-link/SKILL.md")).unwrap();
    fs::create_dir_all(root.join("b-lower")).unwrap();
    disk::write(
        &root.join("b-lower/skill.md"),
        b"---\nname: b-lower\ndescription: d\n---\n",
    );
}

/// What an origin tells of as not published, in the order of rules, once there is so much of it.
async fn rejected(gateway: &Gateway, count: usize) -> Vec<Value> {
    let list = |origin: &Value| origin["rejected"].as_array().cloned().unwrap_or_default();
    let origin = gateway
        .origin_when("local", "tells what is not published", |origin| {
            list(origin).len() == count
        })
        .await;
    let mut rejected = list(&origin);
    rejected.sort_by_key(|item| (item["rule"].to_string(), item["uri"].as_str().map(str::to_owned)));
    rejected
}

fn rules(rejected: &[Value]) -> Vec<(&str, Option<&str>)> {
    let rules = rejected.iter();
    rules
        .map(|item| (item["rule"].as_str().unwrap(), item["uri"].as_str()))
        .collect()
}

/// Why the skill of this name is not published.
fn reason<'r>(rejected: &'r [Value], skill: &str) -> &'r str {
    let uri = format!("skill://{skill}/SKILL.md");
    let item = rejected.iter().find(|item| item["uri"] == uri.as_str());
    item.unwrap()["reason"].as_str().unwrap()
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
