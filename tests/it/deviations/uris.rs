//! URIs as real servers spell them: kept, asked for and compared byte for byte, or refused.

use serde_json::Value;
use serde_json::json;

use super::rejected;
use super::served;
use crate::support::client::Host;
use crate::support::client::strings;
use crate::support::skill::Skill;

/// The names of files that servers spell in more than one way, each in all its spellings.
const SPELLINGS: [&str; 14] = [
    "Q&A.md",
    "Q%26A.md",
    "(p).md",
    "%28p%29.md",
    "c++.md",
    "c%2B%2B.md",
    "a:b.md",
    "a%3Ab.md",
    "pi|pe.md",
    "pi%7Cpe.md",
    "a b.md",
    "a%20b.md",
    "\u{65e5}\u{672c}.md",
    "100%.md",
];

#[tokio::test]
async fn each_spelling_of_a_file_name_is_a_file_of_its_own_and_asked_for_as_it_stands() {
    // deviation 21.
    let mut skill = Skill::at("skill://names/SKILL.md");
    for name in SPELLINGS {
        skill.set_file(name, format!("this is {name}").as_bytes());
    }
    let (origin, gateway) = served([skill]).await;
    let views = [
        (gateway.host(), "skill://acme/names"),
        (Host::legacy(gateway.mcp()).await, "skill://acme/names"),
        (Host::modern(&gateway.mcp_of("acme")), "skill://names"),
    ];
    for (host, root) in &views {
        for name in SPELLINGS {
            let uri = format!("{root}/{name}");
            let answer = host.read(&uri).await;
            assert_eq!(answer.bytes(), format!("this is {name}").as_bytes(), "{uri}");
            assert_eq!(answer.result()["contents"][0]["uri"], uri.as_str());
        }
        for other in ["%51&A.md", "q&A.md", "%28p).md", "c%2b%2b.md", "%E6%97%A5%E6%9C%AC.md"] {
            let answer = host.read(&format!("{root}/{other}")).await;
            let reason = &answer.json["error"]["data"]["dev.portcullis/reason"];
            assert_eq!(reason, "unknown", "{other}: {}", answer.text);
        }
    }
    let mut asked = origin.reads();
    asked.sort();
    let mut listed = SPELLINGS.map(|name| format!("skill://names/{name}"));
    listed.sort();
    assert_eq!(asked, listed, "once each, as the entry spells it");
    gateway.finish().await;
}

#[tokio::test]
async fn a_server_that_cannot_read_back_what_it_lists_is_said_to_be_at_fault() {
    // deviation 21: olaservo lists `a b.md` and answers -32602 when it is asked for it.
    let (origin, gateway) = served([Skill::at("skill://names/SKILL.md").text("a b.md", "a")]).await;
    let code = r#"{"jsonrpc":"2.0","id":{id},"error":{"code":-32602,"message":"Invalid URI"}}"#;
    let refused = crate::support::origin::Fault::Whole(200, "application/json", code);
    origin.break_uri("skill://names/a b.md", refused);
    let host = gateway.host();
    let answer = host.read("skill://acme/names/a b.md").await;
    assert_eq!(answer.refusal(-32603)["dev.portcullis/reason"], "origin-fault");
    assert!(
        answer
            .text
            .contains("its origin lists it and says that it does not have it"),
        "{}",
        answer.text
    );
    host.read("skill://acme/names/SKILL.md").await.result();
    gateway.finish().await;
}

#[tokio::test]
async fn an_answer_under_another_spelling_is_not_the_file_that_was_asked_for() {
    // deviation 22: servers echo the lower-case scheme, or the escape that they were asked with.
    let (origin, gateway) = served([Skill::at("skill://names/SKILL.md").text("a.md", "a")]).await;
    for other in [
        "SKILL://names/a.md",
        "skill://names/%61.md",
        "skill://NAMES/a.md",
        "a.md",
    ] {
        origin.rewrite(move |method, result| {
            if method == "resources/read" {
                result["contents"][0]["uri"] = json!(other);
            }
        });
        let answer = gateway.host().read("skill://acme/names/a.md").await;
        assert_eq!(
            answer.refusal(-32603)["dev.portcullis/reason"],
            "origin-fault",
            "{other}"
        );
    }
    assert!(
        gateway
            .stderr()
            .contains("it does not have skill://names/a.md, which was asked for")
    );
    gateway.finish().await;
}

/// Entries that name another place than their own, or could be read to: the refusal's words, the URI, the entry.
fn entries_that_could_lead_elsewhere() -> [(&'static str, &'static str, String); 16] {
    let digest = format!("sha256:{}", "0".repeat(64));
    let resource = |uri: &str| json!({ "uri": uri, "digest": digest, "size": 1 });
    let entry = |uri: &str, files: &[&str]| {
        let name = uri.trim_end_matches("/SKILL.md").rsplit(['/', ':']).next().unwrap();
        let resources: Value = files.iter().map(|file| resource(file)).collect();
        json!({ "uri": uri, "frontmatter": { "name": name, "description": "d" }, "resources": resources }).to_string()
    };
    let alone = |words, uri| (words, uri, entry(uri, &[uri]));
    let with = |words, name: &str, file| {
        let own = format!("skill://{name}/SKILL.md");
        (words, file, entry(&own, &[&own, file]))
    };
    [
        alone("has a dot segment", "skill://a/b/../c/SKILL.md"),
        alone("has an empty segment", "skill://a//b/SKILL.md"),
        alone("has the escape %2E", "skill://a/%2E%2E/b/SKILL.md"),
        alone("has the escape %2f", "skill://a%2fb/c/SKILL.md"),
        alone("has the character '?'", "skill://a/b/SKILL.md?x=/SKILL.md"),
        alone("has the character '#'", "skill://a/b#/SKILL.md"),
        alone("has the character '@'", "skill://me@a/b/SKILL.md"),
        alone("does not begin with a lower-case scheme", "SKILL://a/b/SKILL.md"),
        alone("does not begin with a lower-case scheme", "docs:team/refunds/SKILL.md"),
        with("does not begin with a lower-case scheme", "n1", "file:/etc/hostname"),
        with("does not begin with a lower-case scheme", "n2", "FILE:///etc/hostname"),
        with("has an empty segment", "n3", "file:///etc/hostname"),
        with("lies outside the skill's directory", "n4", "skill://other/secret.md"),
        with("lies outside the skill's directory", "n5", "skill://n5-evil/x"),
        with("lies outside the skill's directory", "n6", "docs://n6/x"),
        with("has the character '['", "n7", "skill://n7/[x].md"),
    ]
}

#[tokio::test]
async fn uris_are_kept_byte_for_byte_and_those_that_could_lead_elsewhere_are_refused() {
    // case G1, case G2, case G3, and of deviation 22 what an entry may not be called.
    let good = [
        "skill://Acme/Tools/one/SKILL.md",
        "skill://acme/tools/one/SKILL.md",
        "skill://caf%C3%A9/two/SKILL.md",
        "skill://caf%c3%a9/two/SKILL.md",
        "skill://caf\u{e9}/two/SKILL.md",
        "skill://host:8080/three/SKILL.md",
    ];
    let (origin, gateway) = served(good.map(Skill::at)).await;
    let bad = entries_that_could_lead_elsewhere();
    origin.set(|script| script.extra_entries = bad.iter().map(|(_, _, text)| text.clone()).collect());
    let refused = rejected(&gateway, "acme", bad.len()).await;
    for (words, uri, _) in &bad {
        let said = refused
            .iter()
            .any(|(of, _, reason)| reason.contains(words) && (of == uri || reason.contains(uri)));
        assert!(said, "{uri} {words}: {refused:#?}");
    }
    let own = Host::modern(&gateway.mcp_of("acme"));
    let listed = own.list().await;
    let mut found = strings(&listed.result()["skills"], "uri");
    found.sort();
    let mut wanted = good;
    wanted.sort_unstable();
    assert_eq!(found, wanted);
    for uri in good {
        assert_eq!(own.read(uri).await.bytes(), Skill::at(uri).bytes("SKILL.md"), "{uri}");
    }
    let mut asked = origin.reads();
    asked.sort();
    assert_eq!(
        asked, wanted,
        "nothing was asked for by another name, and nothing else was asked for"
    );
    gateway.finish().await;
}
