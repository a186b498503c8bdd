//! What is within the protocol's bounds works, what is over them is refused with the rule, and nobody can send too much.

use futures_util::future::join_all;
use serde_json::json;
use tokio::io::AsyncReadExt as _;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio::time::Instant;

use crate::support::REFUNDS;
use crate::support::client;
use crate::support::client::Host;
use crate::support::client::strings;
use crate::support::gateway::Gateway;
use crate::support::gateway::Setup;
use crate::support::origin::Origin;
use crate::support::refunds;
use crate::support::skill::Skill;

/// Bytes of the largest skill.
const MOST_BYTES: usize = 16 * 1024 * 1024;

/// A skill with `files` files of `bytes` bytes together.
fn skill(name: &str, files: usize, bytes: usize) -> Skill {
    let mut skill = Skill::at(&format!("skill://{name}/SKILL.md"));
    let rest = bytes - skill.bytes("SKILL.md").len();
    for number in 2..files {
        skill.set_file(&format!("empty/{number}.txt"), b"");
    }
    skill.text("all.txt", "\0".repeat(rest))
}

#[tokio::test]
async fn the_largest_skill_there_may_be_is_served() {
    // deviation 18: one of them takes 100 MB on the wire.
    let (many, text) = (skill("many", 512, 1024), skill("text", 2, MOST_BYTES));
    let rest = MOST_BYTES - Skill::at("skill://blob/SKILL.md").bytes("SKILL.md").len();
    let blob = Skill::at("skill://blob/SKILL.md").blob("all.bin", vec![255; rest]);
    let files = [
        ("many", "empty/511.txt", 0),
        ("text", "all.txt", rest),
        ("blob", "all.bin", rest),
    ];
    let origin = Origin::with([many, text, blob]);
    let gateway = Gateway::of(&origin).await;
    let host = gateway.host();
    for (name, path, size) in files {
        gateway.approve(&format!("acme/{name}")).await;
        let answer = host.read(&format!("skill://acme/{name}/{path}")).await;
        assert_eq!(answer.bytes().len(), size);
    }
    let entry = host.get("skill://acme/many/SKILL.md").await;
    assert_eq!(entry.result()["skill"]["resources"].as_array().unwrap().len(), 512);
    gateway.finish().await;
}

#[tokio::test]
async fn one_file_or_one_byte_more_is_refused_with_its_rule() {
    let origin = Origin::with([skill("many", 513, 1024), skill("big", 2, MOST_BYTES + 1), refunds()]);
    let gateway = Gateway::of(&origin).await;
    gateway.approve("acme/refunds").await;
    let seen = gateway
        .origin_when("acme", "was listed", |item| {
            item["rejected"].as_array().is_some_and(|r| r.len() == 2)
        })
        .await;
    let mut rejected = strings(&seen["rejected"], "uri");
    rejected.sort();
    assert_eq!(rejected, ["skill://big/SKILL.md", "skill://many/SKILL.md"]);
    assert_eq!(strings(&seen["rejected"], "rule"), ["S-28", "S-28"]);
    for name in ["big", "many"] {
        let answer = gateway.host().get(&format!("skill://acme/{name}/SKILL.md")).await;
        assert_eq!(answer.refusal(-32602)["dev.portcullis/reason"], "limits");
    }
    gateway.finish().await;
}

#[tokio::test]
async fn a_file_that_is_longer_than_its_entry_says_is_not_read_to_its_end() {
    let origin = Origin::with([refunds()]);
    origin.spoil(REFUNDS, "references/limits.md", |_| vec![b'x'; 8 * 1024 * 1024]);
    let gateway = Gateway::of(&origin).await;
    gateway.approve("acme/refunds").await;
    let answer = gateway.host().read("skill://acme/refunds/references/limits.md").await;
    assert_eq!(answer.reason(), "mismatch", "{}", answer.text);
    gateway.finish().await;
}

/// What is no request at all, with the code that says so where the protocol names one.
fn bad_bodies() -> Vec<(String, Option<i64>)> {
    let deep = |open: &str, close: &str| {
        let nested = format!("{}1{}", open.repeat(20_000), close.repeat(20_000));
        format!(r#"{{"jsonrpc":"2.0","id":1,"method":"skills/list","params":{nested}}}"#)
    };
    let (parse, invalid) = (Some(-32700), Some(-32600));
    vec![
        (String::new(), parse),
        ("{".to_owned(), parse),
        ("\u{0}".to_owned(), parse),
        (r#"{"jsonrpc":"2.0","id":1,"method":"skills/list"} x"#.to_owned(), parse),
        ("null".to_owned(), invalid),
        ("7".to_owned(), invalid),
        (r#"{"jsonrpc":"1.0","id":1,"method":"skills/list"}"#.to_owned(), invalid),
        (r#"{"jsonrpc":"2.0","id":1,"method":7}"#.to_owned(), invalid),
        (r#"{"jsonrpc":"2.0","id":1}"#.to_owned(), None),
        (deep(r#"{"a":"#, "}"), None),
        (deep("[", "]"), None),
    ]
}

#[tokio::test]
async fn malformed_requests_are_refused_and_the_next_one_is_answered() {
    let origin = Origin::with([refunds()]);
    let gateway = Gateway::of(&origin).await;
    gateway.approve("acme/refunds").await;
    for (body, code) in bad_bodies() {
        let head: String = body.chars().take(80).collect();
        let request = client::http()
            .post(gateway.mcp())
            .header("accept", "application/json, text/event-stream")
            .header("content-type", "application/json")
            .header("mcp-protocol-version", client::MODERN)
            .header("mcp-method", "skills/list");
        let answer = client::send(request.body(body)).await;
        assert!(answer.json.get("result").is_none(), "{head}: {}", answer.text);
        if let Some(code) = code {
            answer.refusal(code);
            assert_eq!(answer.status, 400, "{head}");
        }
        assert_eq!(gateway.host().uris().await.len(), 1);
    }
    gateway.finish().await;
}

#[tokio::test]
async fn requests_over_the_limit_are_refused_and_the_next_one_is_answered() {
    let origin = Origin::with([refunds()]);
    let gateway = Gateway::of(&origin).await;
    gateway.approve("acme/refunds").await;
    let host = gateway.host();
    let long_cursor = json!({ "cursor": "x".repeat(4 * 1024 * 1024) });
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "skills/list", "params": long_cursor });
    let long_body = client::http().post(gateway.mcp()).body(body.to_string());
    let long_header = client::http()
        .post(gateway.mcp())
        .header("x-long", "x".repeat(1024 * 1024))
        .body("{}");
    for (request, statuses) in [(long_body, [413, 413]), (long_header, [400, 431])] {
        // Closing the connection while the sender still sends is an answer too.
        if let Ok(response) = request.send().await {
            assert!(statuses.contains(&response.status().as_u16()), "{}", response.status());
        }
    }
    let long_uri = format!("skill://acme/{}/SKILL.md", "x".repeat(5000));
    host.get(&long_uri).await.refusal(-32602);
    assert_eq!(Host::modern(gateway.mcp()).uris().await.len(), 1);
    gateway.finish().await;
}

/// A connection to the hosts' listener that has said nothing yet.
async fn connected(gateway: &Gateway) -> TcpStream {
    let address = gateway.mcp().trim_start_matches("http://").trim_end_matches("/mcp");
    TcpStream::connect(address).await.unwrap()
}

#[tokio::test]
async fn a_request_that_does_not_come_to_its_end_is_given_up() {
    let origin = Origin::with([refunds()]);
    let setup = Setup::new().origin("acme", &origin).set("limits.request_time = \"1s\"");
    let gateway = setup.start().await;
    for (beginning, answer) in [
        ("", ""),
        ("POST /mcp HTTP/1.1\r\nHost: local", ""),
        (
            "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{",
            "HTTP/1.1 408",
        ),
    ] {
        let mut socket = connected(&gateway).await;
        socket.write_all(beginning.as_bytes()).await.unwrap();
        let mut answered = String::new();
        socket.read_to_string(&mut answered).await.unwrap();
        assert!(answered.starts_with(answer), "{beginning:?}: {answered}");
    }
    assert_eq!(gateway.host().uris().await, [""; 0], "others are served");
    gateway.finish().await;
}

#[tokio::test]
async fn a_connection_over_the_limit_waits_for_another_to_end() {
    let origin = Origin::with([refunds()]);
    let setup = Setup::new()
        .origin("acme", &origin)
        .set("limits.request_time = \"1s\"")
        .set("limits.connections = 1");
    let gateway = setup.start().await;
    let mut idle = connected(&gateway).await;
    let first_ends = async {
        let mut nothing = Vec::new();
        idle.read_to_end(&mut nothing).await.unwrap();
        Instant::now()
    };
    let second_is_served = async {
        gateway.host().uris().await;
        Instant::now()
    };
    let (ended, served) = tokio::join!(first_ends, second_is_served);
    assert!(ended < served);
    gateway.finish().await;
}

#[tokio::test]
async fn what_leaves_a_small_memory_is_still_read_whole() {
    // case M3: twenty readers of more than fits, all at once.
    let files = ["a", "b", "c", "d"].map(|name| (name, vec![name.as_bytes()[0]; 100_000]));
    let big = |skill: Skill, (name, bytes): &(&str, Vec<u8>)| skill.blob(name, bytes.clone());
    let origin = Origin::with([files.iter().fold(Skill::at("skill://big/SKILL.md"), big)]);
    let setup = Setup::new().origin("acme", &origin);
    let gateway = setup.set("limits.memory_cache_bytes = 150000").start().await;
    gateway.approve("acme/big").await;
    let host = gateway.host();
    let reads = (0..20).flat_map(|_| &files).map(async |(name, bytes)| {
        let read = host.read(&format!("skill://acme/big/{name}")).await;
        assert_eq!(&read.bytes(), bytes, "{name}");
    });
    join_all(reads).await;
    gateway.finish().await;
}

#[tokio::test]
async fn a_file_that_there_is_no_room_to_store_is_served_all_the_same() {
    // case M2, case M10: the cap on content, and a disk on which nothing can be written any more.
    let bytes = vec![b'x'; 300_000];
    let origin = Origin::with([
        Skill::at("skill://big/SKILL.md").blob("all.bin", bytes.clone()),
        refunds(),
    ]);
    let setup = Setup::new()
        .origin("acme", &origin)
        .set("limits.memory_cache_bytes = 0");
    let gateway = setup.set("limits.content_bytes = \"100 kB\"").start().await;
    gateway.approve_all("acme", 2).await;
    let host = gateway.host();
    for times in 1..=2 {
        assert_eq!(host.read("skill://acme/big/all.bin").await.bytes(), bytes);
        gateway.says("served and not stored", times).await;
        assert_eq!(origin.reads().len(), times, "it is not stored");
    }
    gateway.cli(&["pull", "acme/big"]).await.expect(2);
    gateway.write_no_more();
    let limits = host.read("skill://acme/refunds/references/limits.md").await;
    assert_eq!(limits.bytes(), refunds().bytes("references/limits.md"));
    let seen = gateway.skill_is("acme/refunds", "approved").await;
    let set = seen["set"].as_str().unwrap();
    let refused = gateway.cli(&["approve", "acme/big", "--set", set]).await;
    assert_ne!(refused.code, 0, "{refused:?}");
    gateway.abandon();
}
