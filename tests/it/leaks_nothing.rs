//! No path, origin's address, credential or word of our own making reaches a host, and no credential reaches a log.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::json;

use crate::support::REFUNDS;
use crate::support::client::Answer;
use crate::support::client::Host;
use crate::support::gateway::Gateway;
use crate::support::gateway::Setup;
use crate::support::origin::Fault;
use crate::support::origin::Origin;
use crate::support::pipe::Pipe;
use crate::support::program::World;
use crate::support::refunds;
use crate::support::skill;
use crate::support::skill::Skill;
use crate::support::socket::Door;

/// A credential that is found wherever it turns up.
const SECRET: &str = "s3cret-4711-credential";

async fn gateway(origin: &Origin) -> Gateway {
    let settings = "refresh = \"1s\"\nheaders = { Authorization = \"Bearer ${env:ACME_TOKEN}\" }";
    Setup::new()
        .origin_with("acme", origin, settings)
        .env("ACME_TOKEN", SECRET)
        .set("log.level = \"trace\"")
        .start()
        .await
}

/// Everything that a host can ask about one skill, sensible or not.
async fn everything(host: &Host) -> Vec<Answer> {
    let mut answers = vec![host.list().await, host.list_from("/etc/passwd").await];
    for root in [
        "skill://acme/refunds",
        "skill://acme/nothing",
        "skill://nobody/refunds",
        "skill://refunds",
        "file:///etc",
    ] {
        answers.push(host.directory(root).await);
        for path in [
            "SKILL.md",
            "references/limits.md",
            "assets/form.bin",
            "nothing.md",
            "../../log/journal",
        ] {
            let uri = format!("{root}/{path}");
            answers.push(host.read(&uri).await);
            answers.push(host.get(&uri).await);
        }
    }
    for method in [
        "server/discover",
        "initialize",
        "resources/list",
        "resources/templates/list",
        "no/such",
        "skills/get",
    ] {
        answers.push(host.ask(method, json!({})).await);
    }
    answers
}

fn assert_nothing_leaked(gateway: &Gateway, origin: &Origin, answers: &[Answer]) {
    let data = gateway.data();
    let folder = data.parent().unwrap().to_str().unwrap();
    let url = origin.url();
    let address = url.trim_start_matches("http://").trim_end_matches("/mcp");
    let words = [
        folder,
        address,
        SECRET,
        "proxy.toml",
        "admin.sock",
        "panicked",
        "src/",
        ".rs:",
        "reqwest",
        "hyper",
        "rmcp",
        "sled",
        "os error",
        "RUST_BACKTRACE",
        "Some(",
        "Err(",
    ];
    for answer in answers {
        let headers = format!("{:?}", answer.headers);
        for word in words {
            assert!(!answer.text.contains(word), "{word:?} in {}", answer.text);
            assert!(!headers.contains(word), "{word:?} in {headers}");
        }
    }
    assert!(!gateway.stderr().contains(SECRET), "a credential in the log");
}

#[tokio::test]
async fn answers_about_what_is_served_held_and_unknown_leak_nothing() {
    let origin = Origin::with([refunds()]);
    let gateway = gateway(&origin).await;
    gateway.skill_is("acme/refunds", "pending").await;
    assert_eq!(
        origin.log()[0].authorization,
        Some(format!("Bearer {SECRET}")),
        "the origin gets it"
    );
    let hosts = [
        gateway.host(),
        Host::legacy(gateway.mcp()).await,
        Host::modern(&gateway.mcp_of("acme")),
    ];
    for host in &hosts {
        assert_nothing_leaked(&gateway, &origin, &everything(host).await);
    }
    gateway.approve("acme/refunds").await;
    for host in &hosts {
        assert_nothing_leaked(&gateway, &origin, &everything(host).await);
    }
    gateway.finish().await;
}

#[tokio::test]
async fn answers_about_what_went_wrong_leak_nothing() {
    let mut origin = Origin::with([refunds()]);
    let gateway = gateway(&origin).await;
    gateway.approve("acme/refunds").await;
    let host = gateway.host();
    origin.spoil(REFUNDS, "references/limits.md", skill::tampered);
    assert_nothing_leaked(&gateway, &origin, &everything(&host).await);
    origin.change(REFUNDS, Skill::unspoil);
    for fault in [
        Fault::Status(500),
        Fault::Status(401),
        Fault::Body("<html>sled at src/main.rs:1</html>"),
    ] {
        origin.break_method("resources/read", fault);
        assert_nothing_leaked(
            &gateway,
            &origin,
            &[host.read("skill://acme/refunds/assets/form.bin").await],
        );
    }
    origin.stop().await;
    assert_nothing_leaked(&gateway, &origin, &everything(&host).await);
    gateway
        .origin_when("acme", "is down", |item| item["last_error"].is_string())
        .await;
    assert_nothing_leaked(&gateway, &origin, &everything(&host).await);
    gateway.finish().await;
}

#[tokio::test]
async fn what_operators_see_has_no_credential() {
    let origin = Origin::with([refunds()]);
    let gateway = gateway(&origin).await;
    gateway.approve("acme/refunds").await;
    for command in [
        &["origins", "--json"] as &[&str],
        &["skills", "--json"],
        &["show", "acme/refunds", "--json"],
        &["health", "--json"],
    ] {
        let said = gateway.cli(command).await.expect(0);
        assert!(!said.out.contains(SECRET) && !said.err.contains(SECRET), "{said:?}");
    }
    let stored = crate::support::disk::files(&gateway.data());
    let with_secret = stored.iter().filter(|path| {
        std::fs::read(path).is_ok_and(|bytes| bytes.windows(SECRET.len()).any(|window| window == SECRET.as_bytes()))
    });
    assert_eq!(with_secret.count(), 0, "a credential in the data folder");
    gateway.finish().await;
}

#[tokio::test]
async fn a_missing_credential_is_named_and_not_sent_empty() {
    let origin = Origin::with([refunds()]);
    let settings = "headers = { Authorization = \"Bearer ${env:NOT_SET_ANYWHERE}\" }";
    let gateway = Setup::new().origin_with("acme", &origin, settings).written();
    let refused = gateway.cli(&["serve"]).await.expect(64);
    assert!(refused.err.contains("NOT_SET_ANYWHERE"), "{}", refused.err);
    assert!(origin.log().is_empty());
    gateway.abandon();
}

/// A credential in whatever form it may be written down.
fn spellings(credential: &str) -> [String; 4] {
    [
        credential.chars().take(20).collect(),
        BASE64_STANDARD.encode(credential),
        BASE64_STANDARD.encode(format!("Bearer {credential}")),
        credential.bytes().map(|byte| format!("{byte:02x}")).collect(),
    ]
}

#[tokio::test]
async fn no_log_has_a_credential_in_any_form_whatever_it_is_told_to_show() {
    // case P4.
    let (origin, closed) = (Origin::with([refunds()]), Origin::with([refunds()]));
    closed.break_everything(Fault::Status(401));
    let door = Door::of(&origin, None).await;
    let world = World::with(&[refunds()]);
    let settings = "refresh = \"1s\"\nheaders = { Authorization = \"Bearer ${env:TOKEN}\", X-Key = \"${env:TOKEN}\" }";
    let gateway = Setup::new()
        .env("RUST_LOG", "trace")
        .env("TOKEN", SECRET)
        .set("server.auth = \"token\"")
        .origin_with("http", &origin, settings)
        .origin_with("closed", &closed, settings)
        .origin_at("socket", &door.url("ws"), settings)
        .table(&world.origin("flood", "env = { ACME_KEY = \"${env:TOKEN}\" }\n"))
        .table(&world.origin("dies", "env = { ACME_KEY = \"${env:TOKEN}\" }\n"))
        .start()
        .await;
    let token = gateway.cli(&["token", "new", "someone"]).await.expect(0).out;
    let token = token.split_whitespace().last().unwrap();
    for label in ["http", "socket", "flood"] {
        gateway.approve(&format!("{label}/refunds")).await;
        let uri = format!("skill://{label}/refunds/SKILL.md");
        gateway.host().with_token(token).read(&uri).await.result();
        Pipe::socket_with_token(&gateway, token).await.read(&uri).await.result();
    }
    for label in ["closed", "dies"] {
        gateway
            .origin_when(label, "is told of", |item| item["last_error"].is_string())
            .await;
    }
    let said = gateway.stderr();
    assert!(said.contains("TRACE"), "it shows everything");
    for spelling in [SECRET, token].into_iter().flat_map(spellings) {
        assert!(!said.contains(&spelling), "{spelling}");
    }
    gateway.finish().await;
}
