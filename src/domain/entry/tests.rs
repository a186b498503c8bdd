//! Each structural rule broken once, and what must survive reading.
#![expect(clippy::too_many_lines, reason = "one table with a row a rule")]

use proptest::prelude::*;

use super::read::MAX_DESCRIPTION_CHARS;
use super::*;

const DIGEST: &str = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

fn resource(uri: &str, size: &str) -> String {
    format!(r#"{{"uri":"{uri}","digest":"{DIGEST}","size":{size}}}"#)
}

fn entry(uri: &str, frontmatter: &str, resources: &str) -> String {
    format!(r#"{{"uri":"{uri}","frontmatter":{frontmatter},"resources":{resources}}}"#)
}

fn good(resources: &str) -> String {
    entry(
        "skill://refunds/SKILL.md",
        r#"{"name":"refunds","description":"d"}"#,
        resources,
    )
}

fn own() -> String {
    resource("skill://refunds/SKILL.md", "0")
}

fn rule(text: &str) -> (&'static str, String) {
    let rejected = ReadEntry::parse(text, false, &Limits::default()).expect_err(text);
    (rejected.fault.rule(), rejected.to_string())
}

fn whole(text: &str) -> SkillEntry {
    SkillEntry::parse(text, &Limits::default()).unwrap()
}

#[test]
fn each_broken_rule_is_named_with_uri_and_value() {
    let own = own();
    let named = |uri: &str, name: &str| {
        entry(
            uri,
            &format!(r#"{{"name":"{name}","description":"d"}}"#),
            &format!("[{}]", resource(uri, "0")),
        )
    };
    for (text, expected, value) in [
        ("{".to_owned(), "json", "EOF"),
        ("[]".to_owned(), "S-20", "an array"),
        (named("skill://refunds/skill.md", "refunds"), "S-5", "SKILL.md"),
        (named("skill:refunds/SKILL.md", "refunds"), "S-5", "scheme"),
        (named("skill://Refunds/SKILL.md", "Refunds"), "S-9", "Refunds"),
        (named("skill://a--b/SKILL.md", "a--b"), "S-9", "a--b"),
        (named("skill://数据/SKILL.md", "数据"), "S-9", "数据"),
        (
            named("skill://wrong-folder/SKILL.md", "right-name"),
            "S-17",
            "right-name",
        ),
        (
            entry("skill://refunds/SKILL.md", r#"{"name":"refunds"}"#, "[]"),
            "S-6",
            "description is missing",
        ),
        (
            entry(
                "skill://refunds/SKILL.md",
                r#"{"name":"refunds","description":" "}"#,
                "[]",
            ),
            "S-6",
            "empty",
        ),
        (
            entry("skill://refunds/SKILL.md", r#"{"name":7,"description":"d"}"#, "[]"),
            "S-6",
            "a number",
        ),
        (
            entry("skill://refunds/SKILL.md", r#"["name"]"#, "[]"),
            "S-6",
            "an array",
        ),
        (
            r#"{"uri":"skill://refunds/SKILL.md","frontmatter":{"name":"refunds","description":"d"}}"#.to_owned(),
            "S-20",
            "missing",
        ),
        (good("null"), "S-20", "null"),
        (good(r#""Dynamic""#), "S-20", "Dynamic"),
        (good(r#""dynamic""#), "S-26", "dynamic"),
        (good("{}"), "S-20", "an object"),
        (good("[]"), "S-21", "SKILL.md"),
        (
            good(&format!("[{}]", resource("skill://refunds/a", "0"))),
            "S-21",
            "SKILL.md",
        ),
        (good(&format!("[{own},{own}]")), "S-21", "twice"),
        (
            good(&format!("[{own},{}]", resource("skill://refunds-evil/x", "0"))),
            "S-22",
            "refunds-evil",
        ),
        (
            good(&format!("[{own},{}]", resource("skill://other/secret.md", "0"))),
            "S-22",
            "secret.md",
        ),
        (
            good(&format!("[{own},{}]", resource("file:/etc/hostname", "0"))),
            "S-22",
            "file:/etc/hostname",
        ),
        (
            good(&format!("[{own},{}]", resource("skill://refunds/../x", "0"))),
            "S-22",
            "dot segment",
        ),
        (
            good(&format!("[{own},{}]", resource("skill://refunds/a%2Fb", "0"))),
            "S-22",
            "%2F",
        ),
        (
            good(&format!("[{own},{}]", resource("skill://refunds/a#b", "0"))),
            "S-22",
            "#",
        ),
        (good(&own.replace("sha256:e3", "sha256:E3")), "S-24", "E3b0"),
        (
            good(&format!("[{}]", own.replace("sha256:e3", "sha256:E3"))),
            "S-24",
            "E3b0",
        ),
        (
            good(&format!("[{}]", own.replace(r#","size":0"#, ""))),
            "S-23",
            "no size",
        ),
        (
            good(&format!("[{}]", resource("skill://refunds/SKILL.md", "-1"))),
            "S-23",
            "-1",
        ),
        (
            good(&format!("[{}]", resource("skill://refunds/SKILL.md", "1.0"))),
            "S-23",
            "1.0",
        ),
        (
            good(&format!(
                "[{}]",
                resource("skill://refunds/SKILL.md", "9007199254740992")
            )),
            "S-23",
            "9007199254740992",
        ),
        (
            good(&format!("[{}]", resource("skill://refunds/SKILL.md", "\"3\""))),
            "S-23",
            "a string",
        ),
        (
            good(&format!("[{}]", resource("skill://refunds/SKILL.md", "16777217"))),
            "S-28",
            "16777217",
        ),
        (
            good(&format!("[{own}]")).replace("{\"name\"", "{\"name\":\"x\",\"name\""),
            "duplicate-key",
            "name",
        ),
        (
            good(&format!("[{own}]")).replace("\"resources\"", "\"Resources\":1,\"resources\""),
            "case-twin",
            "Resources",
        ),
        (
            good(&format!("[{}]", own.replace("\"size\"", "\"Size\":1,\"size\""))),
            "case-twin",
            "Size",
        ),
        (
            good(&format!("[{own}]")).replace("{\"name\"", "{\"Name\":\"x\",\"name\""),
            "case-twin",
            "Name",
        ),
        (
            good(&format!("[{own}]")).replace(
                "\"uri\":\"skill://refunds/SKILL.md\",\"front",
                "\"uRI\":\"x\",\"uri\":\"skill://refunds/SKILL.md\",\"front",
            ),
            "case-twin",
            "uRI",
        ),
    ] {
        // A resource without its array is S-20 whatever else is wrong inside it.
        let expected = if text.contains(r#""resources":{"uri""#) {
            "S-20"
        } else {
            expected
        };
        let (found, message) = rule(&text);
        assert_eq!(found, expected, "{text}");
        assert!(
            expected == "S-20" || message.contains(value),
            "{message} should name {value}"
        );
    }
}

#[test]
fn refusals_name_the_skill() {
    let rejected = ReadEntry::parse(&good("null"), false, &Limits::default()).unwrap_err();
    assert_eq!(rejected.uri.as_deref(), Some("skill://refunds/SKILL.md"));
    assert_eq!(
        rejected.to_string(),
        r#"skill://refunds/SKILL.md: its resources are null where an array or "dynamic" is required (S-20)"#
    );
}

#[test]
fn exactly_the_limits_are_inside_and_one_more_is_not() {
    let files = |count: usize| {
        let list: Vec<_> = (1..count)
            .map(|n| resource(&format!("skill://refunds/{n}"), "1"))
            .chain([own()])
            .collect();
        good(&format!("[{}]", list.join(",")))
    };
    assert_eq!(whole(&files(512)).resources().len(), 512);
    assert_eq!(rule(&files(513)).0, "S-28");
    let bytes = |size: u64| {
        good(&format!(
            "[{}]",
            resource("skill://refunds/SKILL.md", &size.to_string())
        ))
    };
    assert_eq!(whole(&bytes(16_777_216)).resources().bytes(), 16_777_216);
    assert_eq!(rule(&bytes(16_777_217)).0, "S-28");
    let long = entry(
        "skill://refunds/SKILL.md",
        &format!(r#"{{"name":"refunds","description":"{}"}}"#, "x".repeat(1 << 20)),
        "[]",
    );
    assert_eq!(rule(&long).0, "entry-limit");
}

#[test]
fn the_text_stays_as_it_came_and_only_uris_are_mapped() {
    let text = format!(
        r#"{{ "resources": [ {{"size":0,"uri":"skill://refunds/SKILL.md","x":1.10,"digest":"{DIGEST}"}} ],
          "uri":"skill:\/\/refunds/SKILL.md", "_meta":{{"com.example/x":1}},
          "frontmatter": {{"z":1.0,"name":"refunds","n":null,"description":"d","uri":"skill://refunds/SKILL.md"}} }}"#
    );
    let entry = whole(&text);
    assert_eq!(entry.text(), text);
    let mapped = entry.text_with_uris(|uri| format!("mapped:{uri}"));
    assert_eq!(
        mapped,
        format!(
            r#"{{"resources":[{{"size":0,"uri":"mapped:skill://refunds/SKILL.md","x":1.10,"digest":"{DIGEST}"}}],"uri":"mapped:skill://refunds/SKILL.md","_meta":{{"com.example/x":1}},"frontmatter":{{"z":1.0,"name":"refunds","n":null,"description":"d","uri":"skill://refunds/SKILL.md"}}}}"#
        )
    );
}

#[test]
fn missing_sizes_are_mended_only_where_the_operator_says_so() {
    let text = good(&format!(
        r#"[{{"uri":"skill://refunds/SKILL.md","digest":"{DIGEST}"}},{{"uri":"skill://refunds/b","digest":"{DIGEST}","size":0}}]"#
    ));
    assert_eq!(rule(&text).0, "S-23");
    let ReadEntry::Unsized(entry) = ReadEntry::parse(&text, true, &Limits::default()).unwrap() else {
        panic!("sizes are missing")
    };
    let own: ResourceUri = "skill://refunds/SKILL.md".parse().unwrap();
    assert_eq!(
        entry.complete(|_| None, &Limits::default()).unwrap_err(),
        IncompleteEntry::NotMeasured(own)
    );
    let whole = entry.complete(|_| Some(0), &Limits::default()).unwrap();
    assert_eq!(
        whole.text(),
        good(&format!(
            r#"[{{"uri":"skill://refunds/SKILL.md","digest":"{DIGEST}","size":0}},{{"uri":"skill://refunds/b","digest":"{DIGEST}","size":0}}]"#
        ))
    );
}

#[test]
fn a_long_description_is_shown_to_the_reviewer() {
    let description = "x".repeat(MAX_DESCRIPTION_CHARS + 1);
    let text = entry(
        "skill://refunds/SKILL.md",
        &format!(r#"{{"name":"refunds","description":"{description}","allowed-tools":["a"]}}"#),
        &format!("[{}]", own()),
    );
    assert_eq!(
        whole(&text).findings(),
        [Finding::LongDescription {
            chars: MAX_DESCRIPTION_CHARS + 1
        }]
    );
}

#[test]
fn members_that_no_approval_covers_are_shown_to_the_reviewer() {
    let with = |resource: &str, more: &str| {
        let text = good(&format!("[{}]", own().replacen('{', &format!("{{{resource}"), 1)));
        whole(&text.replacen('{', &format!("{{{more}"), 1)).findings().to_vec()
    };
    assert_eq!(with("", ""), []);
    for (resource, more, said) in [
        ("", r#""_meta":{"a":1},"#, "the entry has the member \"_meta\" that"),
        (r#""x\n":1,"#, "", "the entry has the member \"x\\n\" that"),
        (
            r#""x":1,"#,
            r#""y":1,"z":2,"#,
            "the entry has the member \"y\" and 2 more that",
        ),
    ] {
        let findings = with(resource, more);
        assert_eq!(findings.len(), 1);
        assert!(findings[0].to_string().starts_with(said), "{}", findings[0]);
    }
}

proptest! {
    #[test]
    fn no_text_makes_it_panic(text in ".{0,200}") {
        let _outcome = ReadEntry::parse(&text, true, &Limits::default()).is_ok();
    }

    #[test]
    fn mapping_back_gives_the_same_entry(extra in "[a-z]{1,8}", files in prop::collection::btree_set("[a-z]{1,6}", 0..6)) {
        prop_assume!(!["uri", "frontmatter", "resources"].contains(&extra.as_str()));
        let list: Vec<_> = files.iter().map(|file| resource(&format!("skill://refunds/{file}"), "3")).chain([own()]).collect();
        let text = good(&format!("[{}]", list.join(","))).replacen('{', &format!("{{\"{extra}\":[1.0,{{}}],"), 1);
        let entry = whole(&text);
        let there = entry.text_with_uris(|uri| uri.as_str().replace("skill://", "skill://it/"));
        let back = whole(&there).text_with_uris(|uri| uri.as_str().replace("skill://it/", "skill://"));
        prop_assert_eq!(back, text);
    }
}
