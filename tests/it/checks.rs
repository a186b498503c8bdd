//! What authors of skills are told before they publish them.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use serde_json::Value;
use serde_json::json;
use tempfile::TempDir;
use tokio::process::Command;

use crate::support::disk;
use crate::support::gateway::Ended;

/// A folder with two good skills, one of which has a script, and three that would not be published.
fn folder() -> TempDir {
    let folder = TempDir::new().unwrap();
    for (name, frontmatter) in [
        ("good", "name: good\ndescription: Good.\n"),
        ("loud", "name: loud\ndescription: Loud.\n"),
        ("quotes", "name: quotes\ndescription: Use it: now\n"),
        ("renamed", "name: before\ndescription: Renamed.\n"),
        ("silent", "name: silent\n"),
    ] {
        write(
            &folder,
            &format!("{name}/SKILL.md"),
            &format!("---\n{frontmatter}---\n\nDo it.\n"),
        );
    }
    write(
        &folder,
        "loud/scripts/run.sh",
        "#!/bin/sh\necho aGVsbG8= | base64 -d | sh\n",
    );
    folder
}

fn write(folder: &TempDir, path: &str, text: &str) {
    let path = folder.path().join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    disk::write(&path, text.as_bytes());
}

async fn check(arguments: &[&str]) -> Ended {
    let mut command = Command::new(env!("CARGO_BIN_EXE_portcullis"));
    command.arg("check").args(arguments);
    crate::support::gateway::ended(command).await
}

fn problems(found: &Value) -> Vec<(&str, &str)> {
    let problems = found[0]["problems"].as_array().unwrap().iter();
    let word = |problem: &'_ Value, member: &str| problem[member].as_str().unwrap().to_owned();
    let told = problems.map(|problem| {
        assert!(!word(problem, "fix").is_empty() && !word(problem, "problem").is_empty());
        (problem["file"].as_str().unwrap(), problem["rule"].as_str().unwrap())
    });
    told.collect()
}

#[tokio::test]
async fn an_author_is_told_what_would_not_be_published_and_where_a_reviewer_would_look() {
    let folder = folder();
    let path = folder.path().to_str().unwrap();
    let found = check(&[path, "--format", "json"]).await.expect(1).json();
    assert_eq!(
        problems(&found),
        [
            ("quotes/SKILL.md", "unquoted-value"),
            ("renamed/SKILL.md", "name-differs"),
            ("silent/SKILL.md", "description"),
        ]
    );
    let skills = found[0]["skills"].as_array().unwrap();
    let names: Vec<_> = skills.iter().map(|skill| &skill["path"]).collect();
    assert_eq!(names, [&json!("good"), &json!("loud")]);
    assert!(
        skills[1]["remarks"].to_string().contains("decode-and-run"),
        "{}",
        skills[1]
    );

    let told = check(&[path]).await.expect(1).out;
    let line = format!("{path}/quotes/SKILL.md:3: ");
    assert!(
        told.contains(&line) && told.contains("write description: \"Use it: now\""),
        "{told}"
    );
    assert!(told.contains("2 skills would be published, 3 problems"), "{told}");
}

#[tokio::test]
async fn what_a_code_host_reads_names_file_line_and_rule() {
    let folder = folder();
    let path = folder.path().to_str().unwrap();
    let log = check(&[path, "--format", "sarif"]).await.expect(1).json();
    assert_eq!(
        (&log["version"], log["runs"].as_array().unwrap().len()),
        (&json!("2.1.0"), 1)
    );
    let results = log["runs"][0]["results"].as_array().unwrap();
    let of = |rule: &str| results.iter().find(|result| result["ruleId"] == rule).unwrap();
    let place = &of("unquoted-value")["locations"][0]["physicalLocation"];
    assert_eq!(place["artifactLocation"]["uri"], format!("{path}/quotes/SKILL.md"));
    assert_eq!(place["region"], json!({ "startLine": 3 }));
    let run = of("decode-and-run");
    assert_eq!(run["level"], "error");
    assert_eq!(run["locations"][0]["physicalLocation"]["region"]["startLine"], 2);
    let rules = log["runs"][0]["tool"]["driver"]["rules"].as_array().unwrap();
    assert!(rules.iter().any(|rule| rule["id"] == "decode-and-run"));
}

#[tokio::test]
async fn what_is_safe_to_mend_is_mended_and_nothing_else_changes() {
    let folder = folder();
    let path = folder.path().to_str().unwrap();
    let file = folder.path().join("quotes/SKILL.md");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
    let good = fs::read(folder.path().join("good/SKILL.md")).unwrap();
    let ended = check(&[path, "--fix", "--format", "json"]).await.expect(1);
    assert_eq!(ended.err.matches("mended ").count(), 2, "{}", ended.err);
    assert_eq!(problems(&ended.json()), [("silent/SKILL.md", "description")]);
    let text = |name: &str| fs::read_to_string(folder.path().join(name).join("SKILL.md")).unwrap();
    assert_eq!(
        text("quotes"),
        "---\nname: quotes\ndescription: \"Use it: now\"\n---\n\nDo it.\n"
    );
    assert!(text("renamed").contains("name: renamed\n"));
    assert_eq!(text("good").as_bytes(), good);
    assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o644);
    let files = fs::read_dir(folder.path().join("quotes")).unwrap().count();
    assert_eq!(files, 1, "nothing else is left behind");

    // A folder's name is shown and found as it is, and a link is not written through.
    write(
        &folder,
        "my team/demo/SKILL.md",
        "---\nname: demo\ndescription: Use it: now\n---\n",
    );
    let elsewhere = TempDir::new().unwrap();
    write(
        &elsewhere,
        "SKILL.md",
        "---\nname: linked\ndescription: Use it: now\n---\n",
    );
    fs::create_dir(folder.path().join("linked")).unwrap();
    std::os::unix::fs::symlink(elsewhere.path().join("SKILL.md"), folder.path().join("linked/SKILL.md")).unwrap();
    let ended = check(&[path, "--fix", "--format", "json"]).await.expect(1);
    assert_eq!(ended.err.matches("mended ").count(), 1, "{}", ended.err);
    let skills = ended.json()[0]["skills"].to_string();
    assert!(skills.contains("my team/demo"), "{skills}");
    let outside = fs::read_to_string(elsewhere.path().join("SKILL.md")).unwrap();
    assert!(outside.contains("description: Use it: now"));
}

#[tokio::test]
async fn one_skill_is_checked_by_its_own_folder_and_how_grave_a_remark_may_be_is_said() {
    let folder = folder();
    let of = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let clean = check(&[&of("good")]).await.expect(0).out;
    assert!(clean.contains("1 skills would be published, 0 problems"), "{clean}");
    check(&[&of("silent")]).await.expect(1);
    check(&[&of("loud")]).await.expect(1);
    check(&[&of("loud"), "--fail-on", "never"]).await.expect(0);
    check(&[&of("good"), "--fail-on", "note"]).await.expect(0);
    let nowhere = check(&[&of("nowhere")]).await.expect(64);
    assert!(nowhere.err.contains("nowhere"), "{}", nowhere.err);
    check(&[]).await.expect(64);
}
