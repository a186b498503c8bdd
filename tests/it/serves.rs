//! What hosts are served: two views of one catalog, in both eras, under the labels of origins that cannot be confused.

use std::collections::BTreeSet;
use std::fs;

use serde_json::Value;
use serde_json::json;
use tempfile::TempDir;

use crate::support::REFUNDS;
use crate::support::client;
use crate::support::client::Answer;
use crate::support::client::Host;
use crate::support::client::strings;
use crate::support::disk;
use crate::support::gateway::Gateway;
use crate::support::gateway::Setup;
use crate::support::origin::Origin;
use crate::support::refunds;
use crate::support::skill::Skill;

/// Another skill at the same address.
fn other_refunds() -> Skill {
    Skill::at(REFUNDS).text("references/limits.md", "# Limits\n\nNever ask.\n")
}

/// Two origins with the same URI, both approved.
async fn two_origins() -> (Origin, Origin, Gateway) {
    let (acme, globex) = (Origin::with([refunds()]), Origin::with([other_refunds()]));
    let gateway = Setup::new()
        .origin("acme", &acme)
        .origin("globex", &globex)
        .start()
        .await;
    gateway.approve("acme/refunds").await;
    gateway.approve("globex/refunds").await;
    (acme, globex, gateway)
}

async fn hosts(url: &str) -> [Host; 2] {
    [Host::modern(url), Host::legacy(url).await]
}

#[tokio::test]
async fn the_same_uri_of_two_origins_is_two_skills() {
    // case A3, case A5; of case A2 (d), a raw URI that two origins know names neither.
    let (_acme, _globex, gateway) = two_origins().await;
    for host in hosts(gateway.mcp()).await {
        assert_eq!(
            host.uris().await,
            ["skill://acme/refunds/SKILL.md", "skill://globex/refunds/SKILL.md"]
        );
        for (label, skill) in [("acme", refunds()), ("globex", other_refunds())] {
            for path in ["SKILL.md", "references/limits.md"] {
                let uri = format!("skill://{label}/refunds/{path}");
                let answer = host.read(&uri).await;
                assert_eq!(answer.bytes(), skill.bytes(path), "{uri}");
                assert_eq!(answer.result()["contents"][0]["uri"], uri.as_str());
                assert_eq!(answer.result()["_meta"]["dev.portcullis/origin"], label);
            }
        }
        assert_eq!(
            host.read(REFUNDS).await.reason(),
            "unknown",
            "nothing stands without its label"
        );
    }
    gateway.finish().await;
}

#[tokio::test]
async fn approving_one_does_not_unlock_the_other() {
    // case A5.
    let (acme, globex) = (Origin::with([refunds()]), Origin::with([refunds()]));
    let gateway = Setup::new()
        .origin("acme", &acme)
        .origin("globex", &globex)
        .start()
        .await;
    let approved = gateway.approve("acme/refunds").await;
    let other = gateway.skill_is("globex/refunds", "pending").await;
    assert_eq!(other["set"], approved.as_str(), "the very same set");
    let host = gateway.host();
    assert_eq!(host.uris().await, ["skill://acme/refunds/SKILL.md"]);
    assert_eq!(host.read("skill://globex/refunds/SKILL.md").await.reason(), "held");
    assert_eq!(globex.reads(), [""; 0]);
    gateway.finish().await;
}

#[tokio::test]
async fn removing_one_origin_leaves_the_other_as_it_was() {
    // case A5.
    let (_acme, globex, mut gateway) = two_origins().await;
    let before = gateway.host().get("skill://globex/refunds/SKILL.md").await;
    gateway.reconfigure(|mut setup| {
        setup.without_origin("acme");
        setup
    });
    gateway.restart().await;
    gateway.cli(&["origin", "remove", "acme"]).await.expect(0);
    gateway.skill_is("globex/refunds", "approved").await;
    let host = gateway.host();
    assert_eq!(host.uris().await, ["skill://globex/refunds/SKILL.md"]);
    assert_eq!(
        host.get("skill://globex/refunds/SKILL.md").await.result()["skill"],
        before.result()["skill"]
    );
    assert_eq!(host.read("skill://acme/refunds/SKILL.md").await.reason(), "unknown");
    assert_eq!(
        host.read("skill://globex/refunds/SKILL.md").await.bytes(),
        other_refunds().bytes("SKILL.md")
    );
    assert!(!gateway.data().join("content/acme").exists());
    drop(globex);
    gateway.finish().await;
}

#[tokio::test]
async fn names_do_not_change_when_a_second_origin_comes() {
    // case A4, where the second origin comes with a restart.
    let (acme, globex) = (Origin::with([refunds()]), Origin::with([other_refunds()]));
    let mut gateway = Gateway::of(&acme).await;
    gateway.approve("acme/refunds").await;
    let alone = gateway.host().uris().await;
    assert_eq!(alone, ["skill://acme/refunds/SKILL.md"]);
    gateway.reconfigure(|setup| setup.origin("globex", &globex));
    gateway.restart().await;
    gateway.skill_is("globex/refunds", "pending").await;
    assert_eq!(gateway.host().uris().await, alone);
    gateway.finish().await;
}

#[tokio::test]
async fn the_view_of_one_origin_has_its_own_uris_and_the_entrys_own_text() {
    // of case A10, frontmatter keeps its text.
    let (_acme, _globex, gateway) = two_origins().await;
    for host in hosts(&gateway.mcp_of("acme")).await {
        for answer in [host.list().await, host.get(REFUNDS).await] {
            assert!(answer.text.contains(&refunds().entry()), "{}", answer.text);
        }
        assert_eq!(host.read(REFUNDS).await.bytes(), refunds().bytes("SKILL.md"));
        assert_eq!(host.read("skill://acme/refunds/SKILL.md").await.reason(), "unknown");
    }
    for url in [gateway.mcp_of("nobody"), gateway.mcp_of("acme/refunds")] {
        let answer = Host::modern(&url).list().await;
        assert!(answer.json.get("result").is_none(), "{}", answer.text);
    }
    gateway.finish().await;
}

#[tokio::test]
async fn in_the_merged_view_frontmatter_keeps_its_text_and_only_uris_are_mapped() {
    let (_acme, _globex, gateway) = two_origins().await;
    let text = gateway.host().get("skill://acme/refunds/SKILL.md").await.text;
    let frontmatter = refunds().entry();
    let (_, frontmatter) = frontmatter.split_once(r#""frontmatter":"#).unwrap();
    let (frontmatter, _) = frontmatter.split_once(r#","resources""#).unwrap();
    assert!(text.contains(frontmatter), "{text}");
    let mapped = refunds().entry().replace("skill://refunds/", "skill://acme/refunds/");
    let answer: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(
        answer["result"]["skill"],
        serde_json::from_str::<Value>(&mapped).unwrap()
    );
    gateway.finish().await;
}

#[tokio::test]
async fn a_skill_of_another_scheme_is_a_skill_too() {
    let origin = Origin::with([Skill::at("repo://team/deploy/SKILL.md")]);
    let gateway = Gateway::of(&origin).await;
    let is_it = |item: &Value| item["uri"] == "repo://team/deploy/SKILL.md";
    let listed = gateway.wait_until("it is seen", "skills", is_it).await;
    assert_eq!(listed["merged_uri"], "skill://acme/~repo/team/deploy/SKILL.md");
    gateway.finish().await;
}

#[tokio::test]
async fn the_sdks_client_reads_and_verifies_everything_at_both_endpoints_in_both_eras() {
    let (_acme, _globex, gateway) = two_origins().await;
    for lifecycle in client::lifecycles() {
        let merged = client::read_everything_with_the_sdk(gateway.mcp(), lifecycle.clone()).await;
        assert_eq!(merged.len(), 5, "{merged:?}");
        let own = client::read_everything_with_the_sdk(&gateway.mcp_of("acme"), lifecycle).await;
        assert_eq!(
            own,
            ["SKILL.md", "assets/form.bin", "references/limits.md"].map(|path| refunds().uri_of(path))
        );
    }
    gateway.finish().await;
}

#[tokio::test]
async fn resource_lists_answer_and_leak_nothing_that_is_held() {
    let origin = Origin::with([refunds(), Skill::at("skill://secret/SKILL.md")]);
    let gateway = Gateway::of(&origin).await;
    gateway.approve("acme/refunds").await;
    gateway.skill_is("acme/secret", "pending").await;
    for url in [gateway.mcp().to_owned(), gateway.mcp_of("acme")] {
        for host in hosts(&url).await {
            for (method, member) in [
                ("resources/list", "resources"),
                ("resources/templates/list", "resourceTemplates"),
            ] {
                let answer = host.ask(method, json!({})).await;
                assert!(answer.result()[member].is_array(), "{}", answer.text);
                assert!(!answer.text.contains("secret"), "{}", answer.text);
            }
        }
    }
    gateway.finish().await;
}

#[tokio::test]
async fn directories_are_read_off_the_manifest() {
    let (_acme, _globex, gateway) = two_origins().await;
    for host in hosts(gateway.mcp()).await {
        let answer = host.directory("skill://acme/refunds").await;
        let children = &answer.result()["resources"];
        let root = "skill://acme/refunds";
        assert_eq!(
            strings(children, "uri"),
            [
                format!("{root}/SKILL.md"),
                format!("{root}/assets"),
                format!("{root}/references")
            ]
        );
        assert_eq!(
            strings(children, "mimeType"),
            ["text/markdown", "inode/directory", "inode/directory"]
        );
        assert_eq!(strings(children, "name")[1..], ["assets", "references"]);
        let below = host.directory("skill://acme/refunds/references").await;
        assert_eq!(
            strings(&below.result()["resources"], "uri"),
            [format!("{root}/references/limits.md")]
        );
        for nothing in ["/SKILL.md", "/", "/nothing", "/references/", "/reference"] {
            host.directory(&format!("{root}{nothing}")).await.refusal(-32602);
        }
        for nothing in ["skill://acme", "skill://nobody/refunds", "skill://refunds"] {
            host.directory(nothing).await.refusal(-32602);
        }
    }
    gateway.finish().await;
}

#[tokio::test]
async fn results_have_the_members_of_their_era() {
    // deviation 24; of case C9, hints stand in the results of their era alone.
    let (_acme, _globex, gateway) = two_origins().await;
    let uri = "skill://acme/refunds/SKILL.md";
    for host in hosts(gateway.mcp()).await {
        for answer in [host.list().await, host.get(uri).await, host.read(uri).await] {
            let result = answer.result();
            if host.is_modern() {
                assert_eq!(result["resultType"], "complete");
                assert_eq!(result["cacheScope"], "private");
                assert!(
                    result["ttlMs"].as_u64().is_some_and(|ttl| ttl <= 30_000),
                    "{}",
                    answer.text
                );
            } else {
                for member in ["resultType", "cacheScope", "ttlMs"] {
                    assert!(result.get(member).is_none(), "{member} in {}", answer.text);
                }
            }
        }
        let directory = host.directory("skill://acme/refunds").await;
        assert_eq!(directory.result().get("resultType").is_some(), host.is_modern());
    }
    gateway.finish().await;
}

#[tokio::test]
async fn results_say_where_they_come_from_and_entries_do_not() {
    let origin = Origin::with([refunds()]);
    let gateway = Gateway::of(&origin).await;
    let set = gateway.approve("acme/refunds").await;
    for host in hosts(gateway.mcp()).await {
        for answer in [
            host.get("skill://acme/refunds/SKILL.md").await,
            host.read("skill://acme/refunds/SKILL.md").await,
        ] {
            let meta = &answer.result()["_meta"];
            assert_eq!(meta["dev.portcullis/origin"], "acme");
            assert_eq!(meta["dev.portcullis/set"], set.as_str());
            assert!(meta["dev.portcullis/approval"].is_u64(), "{meta}");
            assert_ne!(meta["dev.portcullis/stale"], true, "{meta}");
            assert!(answer.result()["skill"].get("_meta").is_none());
        }
    }
    gateway.finish().await;
}

fn page(answer: &Answer) -> (Vec<String>, Option<String>) {
    let result = answer.result();
    (
        strings(&result["skills"], "uri"),
        result["nextCursor"].as_str().map(str::to_owned),
    )
}

#[tokio::test]
async fn pages_neither_skip_nor_repeat_while_skills_come_and_go() {
    // case L4.
    let names = ["b", "c", "e", "f"];
    let uri = |name: &str| format!("skill://{name}/SKILL.md");
    let origin = Origin::with(names.map(|name| Skill::at(&uri(name))));
    let gateway = Setup::new()
        .origin("acme", &origin)
        .set("limits.page_entries = 1")
        .start()
        .await;
    for name in names {
        gateway.approve(&format!("acme/{name}")).await;
    }
    let host = gateway.host();
    let (mut seen, mut next) = page(&host.list().await);
    drop(origin.withdraw(&uri("b")));
    origin.publish(Skill::at(&uri("a")));
    origin.publish(Skill::at(&uri("d")));
    gateway.approve("acme/a").await;
    gateway.approve("acme/d").await;
    while let Some(cursor) = next {
        let (more, after) = page(&host.list_from(&cursor).await);
        seen.extend(more);
        next = after;
    }
    let once: BTreeSet<&String> = seen.iter().collect();
    assert_eq!(once.len(), seen.len(), "none is repeated: {seen:?}");
    for stayed in ["c", "e", "f"] {
        assert!(
            seen.contains(&format!("skill://acme/{stayed}/SKILL.md")),
            "{stayed} is skipped: {seen:?}"
        );
    }
    gateway.finish().await;
}

#[tokio::test]
async fn a_cursor_that_was_never_given_is_refused() {
    // case L4.
    let names = ["a", "b"];
    let origin = Origin::with(names.map(|name| Skill::at(&format!("skill://{name}/SKILL.md"))));
    let setup = Setup::new().origin("acme", &origin).origin("globex", &origin);
    let gateway = setup.set("limits.page_entries = 1").start().await;
    for label in ["acme", "globex"] {
        for name in names {
            gateway.approve(&format!("{label}/{name}")).await;
        }
    }
    let (_, foreign) = page(&Host::modern(&gateway.mcp_of("globex")).list().await);
    for host in hosts(&gateway.mcp_of("acme")).await {
        let (_, own) = page(&host.list().await);
        let own = own.unwrap();
        host.list_from(&own).await.result();
        for bad in [
            foreign.as_deref().unwrap(),
            "",
            "x",
            "!",
            &format!("{own}x"),
            own.split_at(own.len() / 2).0,
        ] {
            host.list_from(bad).await.refusal(-32602);
        }
    }
    gateway.finish().await;
}

#[tokio::test]
async fn directories_are_answered_whatever_the_origins_declare() {
    // case A1: one origin declares directory reads, one nothing optional, one no skills at all.
    let origins = ["all", "some", "none"].map(|label| (label, Origin::with([refunds()])));
    let mut setup = Setup::new();
    for (label, origin) in &origins {
        let skills = match *label {
            "all" => json!({ "io.modelcontextprotocol/skills": { "directoryRead": true } }),
            "some" => json!({ "io.modelcontextprotocol/skills": {} }),
            _ => json!({}),
        };
        origin.rewrite(move |method, result| {
            if method == "server/discover" {
                result["capabilities"]["extensions"] = skills.clone();
            }
        });
        setup = setup.origin(label, origin);
    }
    let gateway = setup.start().await;
    for label in ["all", "some"] {
        gateway.approve(&format!("{label}/refunds")).await;
        for host in hosts(gateway.mcp()).await {
            let listed = host.directory(&format!("skill://{label}/refunds")).await;
            assert_eq!(listed.result()["resources"].as_array().unwrap().len(), 3);
        }
    }
    for url in [gateway.mcp().to_owned(), gateway.mcp_of("none")] {
        let answer = Host::modern(&url).ask("server/discover", json!({})).await;
        let extensions = &answer.result()["capabilities"]["extensions"];
        assert_eq!(extensions["io.modelcontextprotocol/skills"]["directoryRead"], true);
        Host::modern(&url).list().await.result();
    }
    gateway.finish().await;
}

#[tokio::test]
async fn every_label_makes_uris_that_lead_back() {
    // case A3.
    let labels = ["a", "my-team", "x0-9-y", "a-label-of-thirty-two-characters"];
    let origin = Origin::with([refunds(), Skill::at("repo://~x/y/deploy/SKILL.md")]);
    let setup = labels
        .into_iter()
        .fold(Setup::new(), |setup, label| setup.origin(label, &origin));
    let gateway = setup.start().await;
    let host = gateway.host();
    for label in labels {
        gateway.approve_all(label, 2).await;
        for (uri, name) in [
            (format!("skill://{label}/refunds/SKILL.md"), "refunds"),
            (format!("skill://{label}/~repo/~x/y/deploy/SKILL.md"), "deploy"),
        ] {
            assert!(host.uris().await.contains(&uri));
            let got = host.get(&uri).await;
            assert_eq!(got.result()["skill"]["uri"], uri.as_str());
            assert_eq!(got.result()["skill"]["frontmatter"]["name"], name);
            assert_eq!(uri.rsplit('/').nth(1), Some(name));
            host.read(&uri).await.result();
            let root = uri.trim_end_matches("/SKILL.md");
            let children = host.directory(root).await;
            assert!(strings(&children.result()["resources"], "uri").contains(&uri));
        }
    }
    gateway.finish().await;
}

#[tokio::test]
async fn a_raw_uri_from_inside_a_file_is_answered_with_its_name_here_and_with_no_other_skill() {
    // case A2 (d): bytes are never rewritten, so a link in them reaches the merged view as its author wrote it.
    let only = Skill::at("skill://hr/leave/SKILL.md").text("rules.md", "r");
    let held = Skill::at("skill://hr/secret/SKILL.md");
    let acme = Origin::with([refunds(), only, held]);
    let globex = Origin::with([other_refunds()]);
    let setup = Setup::new().origin("acme", &acme).origin("globex", &globex);
    let gateway = setup.start().await;
    gateway.approve("acme/hr/leave").await;
    gateway.approve("globex/refunds").await;
    gateway.skill_is("acme/hr/secret", "pending").await;
    gateway.skill_is("acme/refunds", "pending").await;
    for host in hosts(gateway.mcp()).await {
        let code = if host.is_modern() { -32602 } else { -32002 };
        for (raw, named) in [
            ("skill://hr/leave/SKILL.md", "skill://acme/hr/leave/SKILL.md"),
            ("skill://hr/leave/rules.md", "skill://acme/hr/leave/rules.md"),
        ] {
            let answer = host.read(raw).await;
            let data = answer.refusal(code);
            assert_eq!(data["dev.portcullis/reason"], "unknown");
            assert_eq!(data["dev.portcullis/meant"], named);
            assert!(
                answer
                    .text
                    .contains(&format!("what its origin calls so is {named} here")),
                "{}",
                answer.text
            );
            host.read(named).await.result();
        }
        let got = host.get("skill://hr/leave/SKILL.md").await;
        assert_eq!(
            got.refusal(-32602)["dev.portcullis/meant"],
            "skill://acme/hr/leave/SKILL.md"
        );
        // What is held is not told of, nor is one origin's skill in place of another's that is held.
        for raw in [
            "skill://hr/secret/SKILL.md",
            REFUNDS,
            "skill://hr/leave/none.md",
            "skill://none/SKILL.md",
        ] {
            let answer = host.read(raw).await;
            let data = answer.refusal(code);
            assert_eq!(data["dev.portcullis/reason"], "unknown");
            assert!(data.get("dev.portcullis/meant").is_none(), "{}", answer.text);
            assert!(
                !answer.text.contains("acme") && !answer.text.contains("globex"),
                "{}",
                answer.text
            );
        }
    }
    let own = Host::modern(&gateway.mcp_of("globex"));
    let answer = own.read("skill://hr/leave/SKILL.md").await;
    assert!(
        answer.refusal(-32602).get("dev.portcullis/meant").is_none(),
        "{}",
        answer.text
    );
    gateway.finish().await;
}

#[tokio::test]
async fn members_that_nobody_knows_stay_in_an_entry() {
    // case A10.
    let odd = Skill::at(REFUNDS)
        .with_frontmatter(r#"{"name":"refunds","description":"d","x-nested":{"deep":[1.0,null,{"a":"b"}]}}"#)
        .edited(|entry| {
            entry["com.example.x"] = json!({ "a": 1 });
            entry["_meta"] = json!({ "com.example/x": 1 });
            entry["resources"][0]["com.example.y"] = json!("z");
        });
    let listed: Value = serde_json::from_str(&odd.entry()).unwrap();
    let origin = Origin::with([odd]);
    let gateway = Gateway::of(&origin).await;
    gateway.approve("acme/refunds").await;
    let shown = gateway.skill_is("acme/refunds", "approved").await;
    let finding = shown["findings"][0].as_str().unwrap();
    assert!(
        finding.contains("and 2 more that the extension does not define"),
        "{finding}"
    );
    let own = Host::modern(&gateway.mcp_of("acme")).get(REFUNDS).await;
    assert_eq!(own.result()["skill"], listed);
    let merged = gateway.host().get("skill://acme/refunds/SKILL.md").await;
    let skill = &merged.result()["skill"];
    for member in ["frontmatter", "com.example.x", "_meta"] {
        assert_eq!(skill[member], listed[member], "{member}");
    }
    assert_eq!(skill["resources"][0]["com.example.y"], "z");
    let meta = merged.result()["_meta"].as_object().unwrap();
    assert!(
        meta.keys()
            .all(|key| !key.starts_with("io.modelcontextprotocol.skills/")),
        "{meta:?}"
    );
    gateway.finish().await;
}

#[tokio::test]
async fn a_skill_that_no_listing_shows_is_reached_by_its_uri() {
    // case J6.
    let menu = || Skill::at("skill://secret-menu/SKILL.md").text("a.md", "a").unlisted();
    let origin = Origin::with([menu()]);
    let gateway = Gateway::of(&origin).await;
    let host = gateway.host();
    let uri = "skill://acme/secret-menu/SKILL.md";
    gateway
        .origin_when("acme", "was listed", |item| item["state"] == "up")
        .await;
    assert_eq!(host.get(uri).await.refusal(-32602)["dev.portcullis/reason"], "held");
    gateway.approve("acme/secret-menu").await;
    host.get(uri).await.result();
    assert_eq!(host.read(uri).await.bytes(), menu().bytes("SKILL.md"));
    // A listing without it says nothing of it.
    origin.is_asked_again("skills/list").await;
    origin.is_asked_again("skills/list").await;
    gateway.skill_is("acme/secret-menu", "approved").await;
    assert_eq!(host.read("skill://acme/secret-menu/a.md").await.bytes(), b"a");
    gateway.finish().await;
}

#[tokio::test]
async fn skills_of_one_name_are_all_there_and_the_reviewer_is_told() {
    // case A6, case A7: two origins, a folder, and two in one listing.
    let deploy = |team: &str| Skill::at(&format!("skill://{team}/deploy/SKILL.md")).text("team.md", team);
    let folder = TempDir::new().unwrap();
    fs::create_dir_all(folder.path().join("deploy")).unwrap();
    let own = b"---\nname: deploy\ndescription: d\n---\n";
    disk::write(&folder.path().join("deploy/SKILL.md"), own);
    let (acme, globex) = (Origin::with([deploy("x"), deploy("z")]), Origin::with([deploy("y")]));
    let setup = Setup::new().origin("globex", &globex).origin("acme", &acme);
    let mut gateway = setup.folder("local", folder.path()).start().await;
    for (label, skills) in [("acme", 2), ("globex", 1), ("local", 1)] {
        gateway.approve_all(label, skills).await;
    }
    let uris = [
        "skill://acme/x/deploy/SKILL.md",
        "skill://acme/z/deploy/SKILL.md",
        "skill://globex/y/deploy/SKILL.md",
        "skill://local/deploy/SKILL.md",
    ];
    assert_eq!(gateway.host().uris().await, uris);
    gateway.restart().await;
    let host = gateway.host();
    assert_eq!(host.uris().await, uris, "in the same order");
    for (label, team) in [("acme", "x"), ("acme", "z"), ("globex", "y")] {
        let read = host.read(&format!("skill://{label}/{team}/deploy/team.md")).await;
        assert_eq!(read.bytes(), team.as_bytes());
    }
    assert_eq!(host.read("skill://local/deploy/SKILL.md").await.bytes(), own);
    for bare in ["skill://deploy/SKILL.md", "skill://acme/deploy/SKILL.md", "deploy"] {
        host.get(bare).await.refusal(-32602);
    }
    gateway.cli(&["show", "acme/deploy", "--json"]).await.expect(1);
    for (skill, finding) in [
        (
            "acme/x/deploy",
            "skill://z/deploy/SKILL.md of acme and 2 more have the same name",
        ),
        (
            "local/deploy",
            "skill://x/deploy/SKILL.md of acme and 2 more have the same name",
        ),
    ] {
        let shown = gateway.cli(&["show", skill, "--json"]).await.expect(0).json();
        assert_eq!(shown["findings"], json!([finding]), "{skill}");
        let listed = gateway.skill_is(skill, "approved").await;
        assert_eq!(listed["findings"], shown["findings"]);
    }
    gateway.finish().await;
}
