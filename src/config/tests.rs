//! What a configuration means, and that it keeps its secrets.

use std::path::Path;
use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::domain::Limits;
use crate::domain::OnChange;
use crate::domain::Policy;
use crate::domain::SkillKey;
use crate::domain::Trust;
use crate::domain::policy::Conditions;
use crate::domain::policy::Keys;
use crate::domain::policy::Source;

/// An origin that others can be put beside.
const ACME: &str = "[[origin]]\nlabel = \"acme\"\nurl = \"https://mcp.acme.example/mcp\"\n";

fn parse(text: &str) -> Result<Config, Invalid> {
    let environment = |name: &str| (name == "TOKEN").then(|| "hunter2".to_owned());
    Config::parse(text.as_bytes(), Path::new("/etc/portcullis/proxy.toml"), &environment)
}

/// The problems of a text that has some, as they are printed.
fn problems(text: &str) -> String {
    parse(text).unwrap_err().to_string()
}

#[test]
fn an_empty_file_means_the_safe_defaults() {
    let config = parse("").unwrap();
    assert_eq!(config.server.listen.to_string(), "127.0.0.1:8788");
    assert_eq!(config.admin.listen.to_string(), "127.0.0.1:8789");
    let hosts: Vec<&str> = config.server.hosts.iter().map(HostName::as_str).collect();
    assert_eq!(hosts, ["127.0.0.1", "localhost", "[::1]"]);
    assert_eq!(config.server.auth, Auth::None);
    assert_eq!(config.store.data_dir, Path::new("/etc/portcullis/data"));
    assert_eq!(config.policy, Keys::default());
    let skill = SkillKey {
        label: "acme".parse().unwrap(),
        uri: "skill://a/SKILL.md".parse().unwrap(),
    };
    assert_eq!(config.policies().of(&skill), Policy::default());
    assert_eq!(config.limits, Limits::default());
    assert_eq!(config.origins, []);
}

#[test]
fn an_origin_has_the_policy_of_the_file_but_for_what_it_says_itself() {
    let text = format!(
        "[policy]\non_change = \"keep\"\nmax_stale = \"7days\"\nfrontmatter = \"strict\"\n{ACME}trust = \"deny\"\nfrontmatter = \"readings\"\n"
    );
    let skill = SkillKey {
        label: "acme".parse().unwrap(),
        uri: "skill://a/SKILL.md".parse().unwrap(),
    };
    let policy = Policy {
        trust: Trust::Deny,
        source: Source::Origin(skill.label.clone()),
        on_change: OnChange::Keep,
        max_stale: Some(Duration::from_secs(7 * 24 * 60 * 60)),
        ..Policy::default()
    };
    assert_eq!(parse(&text).unwrap().policies().of(&skill), policy);
}

#[test]
fn rules_are_tried_in_the_order_of_the_file() {
    let text = format!(
        "{ACME}\n[[rule]]\nname = \"hr\"\norigin = \"acme\"\nskill = \"hr/**\"\ntrust = \"auto\"\nhold = \"48h\"\nauto = {{ max_new_bytes = \"64 KiB\", no_shebang = true }}\n\
         [[rule]]\nname = \"rest\"\ntrust = \"deny\"\n"
    );
    let policies = parse(&text).unwrap().policies();
    let of = |path: &str| {
        policies.of(&SkillKey {
            label: "acme".parse().unwrap(),
            uri: format!("skill://{path}/SKILL.md").parse().unwrap(),
        })
    };
    let hr = of("hr/leave");
    assert_eq!((hr.trust, hr.hold), (Trust::Auto, Duration::from_secs(48 * 60 * 60)));
    let conditions = Conditions {
        max_new_bytes: Some(64 * 1024),
        no_shebang: true,
        ..Conditions::default()
    };
    assert_eq!(hr.auto, conditions);
    assert_eq!(of("it/vpn").trust, Trust::Deny);
}

/// Two people.
const PEOPLE: &str =
    "[[person]]\nname = \"Ada L\"\nuid = 1000\ntokens = [\"ada\"]\n[[person]]\nname = \"bob\"\noidc = \"sub-2\"\n";

#[test]
fn a_person_is_one_person_through_whatever_door() {
    let people = parse(PEOPLE).unwrap().people;
    assert_eq!(people.of_uid(1000), "Ada L");
    assert_eq!(people.of_uid(1001), "uid:1001");
    assert!(people.has_uid(1000) && !people.has_uid(1001));
    assert_eq!(people.of_token("ada", "uid:0"), "Ada L");
    assert_eq!(people.of_token("laptop", "uid:0"), "uid:0");
    assert_eq!(
        people.of_token("ada", "bob"),
        "bob",
        "who made it speaks, whatever it is called"
    );
}

#[test]
fn a_quorum_needs_as_many_people_and_each_of_them_once() {
    let quorum = |people: &str, number| parse(&format!("[policy]\nquorum = {number}\n{people}"));
    assert!(quorum(PEOPLE, 2).is_ok());
    assert!(quorum("", 1).is_ok());
    for (people, number) in [(PEOPLE, 3), ("", 2), (PEOPLE, 0)] {
        let told = quorum(people, number).unwrap_err().to_string();
        assert!(told.contains("policy.quorum"), "{told}");
    }
    for again in [
        "name = \"bob\"\nuid = 7",
        "name = \"eve\"\nuid = 1000",
        "name = \"eve\"\ntokens = [\"ada\"]",
        "name = \"eve\"\noidc = \"sub-2\"",
    ] {
        let told = problems(&format!("{PEOPLE}[[person]]\n{again}\n"));
        assert!(told.contains("belongs to a person above"), "{told}");
    }
}

#[test]
fn the_record_is_told_of_what_runs_and_of_no_secret() {
    let tables = |text: &str| parse(text).unwrap().tables();
    let written = format!("{ACME}headers = {{ Authorization = \"Bearer ${{env:TOKEN}}\" }}\nrefresh = \"5m\"\n");
    let other = format!("# words\n{ACME}headers = {{ authorization = \"Bearer other\" }}\n");
    assert_eq!(tables(&written), tables(&other), "neither spelling nor secrets");
    let names: Vec<String> = tables(&written).into_keys().collect();
    assert_eq!(
        names,
        [
            "admin",
            "audit",
            "bridge",
            "limits",
            "log",
            "origin.acme",
            "person",
            "policy",
            "rule",
            "server",
            "store"
        ]
    );
    let slower = tables(&format!("{ACME}refresh = \"6m\"\n"));
    let changed: Vec<_> = tables(ACME)
        .into_iter()
        .filter(|(name, digest)| slower[name] != *digest)
        .collect();
    assert_eq!(changed.len(), 1);
    assert_eq!(changed[0].0, "origin.acme");
}

#[test]
fn a_socket_for_people_lies_where_they_reach_it() {
    let admin = |text: &str| parse(&format!("[admin]\n{text}\n"));
    let told = admin("socket = \"people\"").unwrap_err().to_string();
    assert!(told.contains("admin.socket"), "{told}");
    let config = admin("socket = \"people\"\nsocket_path = \"run/p.sock\"").unwrap();
    assert_eq!(config.admin_socket(), Path::new("/etc/portcullis/run/p.sock"));
    assert_eq!(
        parse("").unwrap().admin_socket(),
        Path::new("/etc/portcullis/data/admin.sock")
    );
}

#[test]
fn the_fingerprint_of_an_address_does_not_hang_on_how_it_is_written() {
    let of = |address: &str| {
        parse(&format!("[[origin]]\nlabel = \"acme\"\n{address}"))
            .unwrap()
            .origins[0]
            .fingerprint_text()
    };
    assert_eq!(of("url = \"https://Acme.example:443\""), "https://acme.example/");
    assert_eq!(
        of("url = \"https://acme.example/mcp?team=it\""),
        "https://acme.example/mcp?team=it"
    );
    assert_eq!(of("dir = \"./skills//\""), "/etc/portcullis/skills");
    assert_eq!(of("dir = \"/srv/skills\""), "/srv/skills");
    assert_eq!(of("url = \"wss://Acme.example:443/mcp\""), "wss://acme.example/mcp");
    let npx = of("command = [\"npx\", \"-y\", \"@acme/x\"]\nenv = { KEY = \"${env:TOKEN}\" }");
    assert_eq!(npx, "run npx -y @acme/x", "no variable is part of it");
    let odd = of("command = [\"a b\", \"\", \"it's\"]\ncwd = \"x y\"");
    assert_eq!(odd, r"run 'a b' '' 'it'\''s' in '/etc/portcullis/x y'");
}

#[test]
fn a_secret_comes_from_the_environment_or_a_file_and_is_never_printed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("proxy.toml");
    let mut token = tempfile::NamedTempFile::new_in(folder.path()).unwrap();
    std::io::Write::write_all(&mut token, b"correct horse\r\n").unwrap();
    let text = format!(
        "{ACME}headers = {{ Authorization = \"Bearer ${{env:TOKEN}}\", X-Key = \"file:{}\" }}",
        token.path().file_name().unwrap().display()
    );
    let config = Config::parse(text.as_bytes(), &path, &|_| Some("hunter2".to_owned())).unwrap();
    let headers = &config.origins[0].headers;
    let exposed: Vec<_> = headers
        .iter()
        .map(|(name, secret)| (name.as_str(), secret.expose()))
        .collect();
    assert_eq!(
        exposed,
        [("authorization", "Bearer hunter2"), ("x-key", "correct horse")]
    );
    let printed = format!("{config:#?}");
    assert!(printed.contains("***"));
    assert!(!printed.contains("hunter2") && !printed.contains("horse"), "{printed}");
}

#[test]
fn what_is_put_in_for_a_variable_is_not_looked_at_again() {
    let text = format!("{ACME}headers.X-Key = \"${{env:A}}\"");
    let twice = |name: &str| (name == "A").then(|| "${env:B}".to_owned());
    let config = Config::parse(text.as_bytes(), Path::new("proxy.toml"), &twice).unwrap();
    assert_eq!(config.origins[0].headers[0].1.expose(), "${env:B}");
}

#[test]
fn who_only_asks_a_running_gateway_needs_no_secret() {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    let text = format!("{ACME}headers = {{ X-One = \"${{env:NO_SUCH_VARIABLE}}\", X-Two = \"file:no-such-file\" }}");
    std::io::Write::write_all(&mut file, text.as_bytes()).unwrap();
    assert_eq!(Config::load(file.path()).unwrap_err().problems.len(), 2);
    let config = Config::load_without_secrets(file.path()).unwrap();
    assert!(
        config.origins[0]
            .headers
            .iter()
            .all(|(_, secret)| secret.expose().is_empty())
    );
}

#[test]
fn a_password_in_an_address_is_not_repeated() {
    for url in [
        "https://bob:hunter2@acme.example/",
        "https://bob:hunter2@acme.example:99999/",
        "ftp://bob:hunter2@a/",
    ] {
        let told = problems(&format!("[[origin]]\nlabel = \"acme\"\nurl = \"{url}\""));
        assert!(told.contains("origin.url") && !told.contains("hunter2"), "{told}");
    }
}

#[test]
fn a_header_that_the_transport_owns_is_refused_in_any_case() {
    for name in [
        "Host",
        "CONTENT-LENGTH",
        "Transfer-Encoding",
        "Connection",
        "Upgrade",
        "Mcp-Session-Id",
        "mcp-x",
    ] {
        let told = problems(&format!("{ACME}headers = {{ {name} = \"x\" }}"));
        assert!(told.contains("is set by the gateway itself"), "{name}: {told}");
    }
}

#[test]
fn a_listener_that_others_reach_needs_tls_and_tokens_or_a_word() {
    let tls = "tls = { cert = \"c.pem\", key = \"k.pem\" }\n";
    let token = "auth = \"token\"\n";
    for (open, more, fine) in [
        ("127.0.0.1:1", String::new(), true),
        ("[::1]:1", String::new(), true),
        ("[::ffff:127.0.0.1]:1", String::new(), true),
        ("0.0.0.0:1", String::new(), false),
        ("192.168.1.1:1", tls.to_owned(), false),
        ("192.168.1.1:1", token.to_owned(), false),
        ("[::]:1", format!("{tls}{token}"), true),
        ("[::]:1", "insecure_listen = true".to_owned(), true),
    ] {
        assert_eq!(
            parse(&format!("[server]\nlisten = \"{open}\"\n{more}")).is_ok(),
            fine,
            "{open} {more}"
        );
    }
}

#[test]
fn the_two_listeners_never_share_an_address() {
    for (server, admin, fine) in [
        ("127.0.0.1:1", "127.0.0.1:1", false),
        ("127.0.0.1:1", "[::ffff:127.0.0.1]:1", false),
        ("127.0.0.1:1", "0.0.0.0:1", false),
        ("127.0.0.1:1", "127.0.0.2:1", true),
        ("127.0.0.1:1", "127.0.0.1:2", true),
        ("127.0.0.1:0", "127.0.0.1:0", true),
    ] {
        let text = format!("[server]\nlisten = \"{server}\"\n[admin]\nlisten = \"{admin}\"");
        assert_eq!(parse(&text).is_ok(), fine, "{server} {admin}");
    }
}

#[test]
fn sizes_are_numbers_with_or_without_a_unit() {
    let size = |written: &str| parse(&format!("[limits]\nskill_bytes = {written}")).map(|c| c.limits.skill_bytes);
    for (written, bytes) in [
        ("7", 7),
        ("0x10", 16),
        ("\"7B\"", 7),
        ("\"2 KiB\"", 2048),
        ("\"1GiB\"", 1 << 30),
        ("\"3 kB\"", 3000),
    ] {
        assert_eq!(size(written), Ok(bytes), "{written}");
    }
    for bad in [
        "0",
        "-1",
        "1.5",
        "\"\"",
        "\"7\"",
        "\"GiB\"",
        "\"1.5 GiB\"",
        "\"1  GiB\"",
        "\"1 gib\"",
        "\"99999999 TiB\"",
    ] {
        assert!(size(bad).is_err(), "{bad}");
    }
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..512)) {
        let told = Config::parse(&bytes, Path::new("proxy.toml"), &|_| None);
        prop_assert!(told.is_ok_and(|config| config.origins.is_empty()) || !bytes.is_empty());
    }

    #[test]
    fn no_text_that_looks_like_one_makes_it_panic(
        text in r#"((\[\[origin\]\]|\[(server|admin|store|policy|log|limits)\]|(label|url|dir|listen|hosts|tls|headers|refresh|trust|skill_bytes) = ("[a-z0-9:/.$\{\}]{0,12}"|-?[0-9]{1,20}|true|\[("x"|1|,){0,4}\]|\{ [a-z]{1,4} = "x" \}))\n){0,12}"#
    ) {
        if let Err(invalid) = Config::parse(text.as_bytes(), Path::new("proxy.toml"), &|_| None) {
            prop_assert!(!invalid.problems.is_empty());
            let lines = text.lines().count().max(1);
            prop_assert!(invalid.problems.iter().all(|problem| problem.line.is_none_or(|line| (1..=lines).contains(&line))));
            prop_assert!(invalid.problems.is_sorted_by_key(|problem| problem.line));
        }
    }
}
