//! Whatever anybody sends, for however long: memory stays within its bounds, and the others are served.

use std::time::Duration;

use futures_util::future::join_all;
use serde_json::Value;
use serde_json::json;
use tokio::io::AsyncReadExt as _;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

use crate::support::REFUNDS;
use crate::support::client::Host;
use crate::support::client::http;
use crate::support::client::meta;
use crate::support::client::send;
use crate::support::gateway::Gateway;
use crate::support::gateway::Setup;
use crate::support::origin::Fault;
use crate::support::origin::Origin;
use crate::support::origin::Paging;
use crate::support::refunds;
use crate::support::skill::Skill;

/// The skill of the origin that behaves.
const GOOD: &str = "skill://good/refunds/SKILL.md";

/// The skill of the one that does not.
const BAD: &str = "skill://bad/refunds/SKILL.md";

/// MB of memory that one thing too much may take: a few of the largest answers, and nothing like a gibibyte.
const ROOM: f64 = 150.0;

/// Nesting that makes what recurses run out of its stack.
const DEEP: usize = 100_000;

/// A gateway with two origins whose one skill is approved; nothing of it is stored.
async fn beside() -> (Origin, Origin, Gateway) {
    let (good, bad) = (Origin::with([refunds()]), Origin::with([refunds()]));
    let setup = Setup::new().set("limits.listing_bytes = \"16 MiB\"");
    let setup = setup.origin("good", &good).origin("bad", &bad);
    let gateway = setup.start().await;
    gateway.approve("good/refunds").await;
    gateway.approve("bad/refunds").await;
    (good, bad, gateway)
}

/// Asserts that the good origin's skill is served, and that no more memory was taken than there is room for.
async fn assert_well(gateway: &Gateway, before: f64, after: &str) {
    let answer = gateway.host().read(GOOD).await;
    assert_eq!(answer.bytes(), refunds().bytes("SKILL.md"), "after {after}");
    let peak = gateway.peak_memory();
    assert!(peak < before + ROOM, "{after}: {before:.0} MB grew to {peak:.0} MB");
}

/// Says whether operators are told that something is wrong with an origin.
fn has_error(origin: &Value) -> bool {
    origin["last_error"].is_string()
}

/// Has the gateway ask the bad origin by each method.
async fn ask_by_every_method(bad: &Origin, host: &Host) {
    bad.is_asked_again("skills/list").await;
    assert!(host.get("skill://bad/other/SKILL.md").await.json["error"].is_object());
    assert!(host.read(BAD).await.json["error"].is_object());
}

#[tokio::test]
async fn an_origin_that_sends_without_end_is_cut_off() {
    for kind in ["application/json", "text/event-stream"] {
        let (_good, bad, mut gateway) = beside().await;
        let host = gateway.host();
        let before = gateway.peak_memory();
        bad.break_everything(Fault::Flood(kind));
        ask_by_every_method(&bad, &host).await;
        gateway.origin_when("bad", "at fault", has_error).await;
        assert_well(&gateway, before, kind).await;
        // Its handshake too.
        gateway.restart().await;
        bad.is_asked_again("server/discover").await;
        gateway.origin_when("bad", "at fault", has_error).await;
        assert_well(&gateway, before, kind).await;
        gateway.finish().await;
    }
}

#[tokio::test]
async fn an_origin_whose_listing_never_ends_takes_no_more_than_its_share() {
    let (_good, bad, gateway) = beside().await;
    let before = gateway.peak_memory();
    let big = |n: usize| {
        Skill::at(&format!("skill://s{n}/SKILL.md")).edited(|entry| entry["_meta"] = "x".repeat(100_000).into())
    };
    bad.set(|script| {
        script.skills = (0..50).map(big).collect();
        script.paging = Paging::Endless;
    });
    gateway.origin_when("bad", "short of entries", has_error).await;
    assert_well(&gateway, before, "an endless listing").await;
    gateway.finish().await;
}

#[tokio::test]
async fn nesting_without_end_is_refused_from_either_side() {
    let deep = "[".repeat(DEEP) + &"]".repeat(DEEP);
    let (_good, bad, gateway) = beside().await;
    let host = gateway.host();
    let before = gateway.peak_memory();
    for method in [
        "skills/list",
        "skills/get",
        "resources/read",
        "resources/directory/read",
        "server/discover",
        "prompts/list",
    ] {
        for params in [
            format!("{{\"uri\":{deep}}}"),
            format!("{{\"_meta\":{{\"x\":{deep}}}}}"),
            deep.clone(),
        ] {
            let body = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{params}}}"#);
            let request = http().post(gateway.mcp()).header("mcp-protocol-version", "2026-07-28");
            let request = request
                .header("accept", "application/json, text/event-stream")
                .header("content-type", "application/json");
            let answer = send(request.header("mcp-method", method).body(body)).await;
            // The SDK says so in words of its own, with the status of a body that it cannot read.
            let is_refused = answer.json["error"].is_object() || answer.status == 415;
            assert!(is_refused, "{method}: {} {}", answer.status, answer.text);
        }
    }
    for result in [
        deep.clone(),
        format!("{{\"skills\":[{deep}],\"x\":{deep}}}"),
        format!("{{\"skill\":{deep}}}"),
        format!(
            "{{\"contents\":[{{\"uri\":{},\"text\":\"\",\"x\":{deep}}}]}}",
            json!(REFUNDS)
        ),
    ] {
        let body = format!(r#"{{"jsonrpc":"2.0","id":{{id}},"result":{result}}}"#);
        bad.break_everything(Fault::Whole(200, "application/json", body.leak()));
        ask_by_every_method(&bad, &host).await;
    }
    bad.mend();
    let with_deep = |text: &str| Skill::at("skill://deep/SKILL.md").with_skill_file(text.replace("{deep}", &deep));
    bad.publish(with_deep("---\nname: deep\ndescription: d\nx: {deep}\n---\n"));
    gateway.skill_is("bad/deep", "pending").await;
    gateway.cli(&["pull", "bad/deep"]).await.expect(1);
    assert_well(&gateway, before, "nesting").await;
    gateway.finish().await;
}

#[tokio::test]
async fn a_host_that_sends_without_end_is_cut_off() {
    let (_good, _bad, gateway) = beside().await;
    let before = gateway.peak_memory();
    let floods = (0..8).map(async |_| {
        let mut socket = connected(&gateway).await;
        let head = "POST /mcp HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n";
        socket.write_all(head.as_bytes()).await.unwrap();
        let piece = [b"10000\r\n".as_slice(), &[b'a'; 0x10000], b"\r\n"].concat();
        let mut sent = 0;
        while sent < 1 << 30 && socket.write_all(&piece).await.is_ok() {
            sent += piece.len();
        }
        assert!(sent < 64 << 20, "{sent} bytes were taken");
    });
    join_all(floods).await;
    assert_well(&gateway, before, "requests").await;
    gateway.finish().await;
}

#[tokio::test]
async fn hosts_that_do_not_read_what_they_asked_for_hold_no_copy_of_it() {
    let (_good, bad, gateway) = beside().await;
    let big = |n: usize| {
        Skill::at(&format!("skill://s{n}/SKILL.md")).edited(|entry| entry["_meta"] = "x".repeat(100_000).into())
    };
    bad.set(|script| script.skills.extend((0..20).map(big)));
    gateway.approve_all("bad", 21).await;
    let host = gateway.host();
    let listed = host.list().await.text.len();
    assert!(listed > 2_000_000, "{listed}");
    let before = gateway.peak_memory();
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "skills/list", "params": { "_meta": meta() } }).to_string();
    let request = format!(
        "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nMCP-Protocol-Version: 2026-07-28\r\n\
         Mcp-Method: skills/list\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let mut silent = Vec::new();
    for _ in 0..200 {
        let mut socket = connected(&gateway).await;
        socket.write_all(request.as_bytes()).await.unwrap();
        silent.push(socket);
    }
    for socket in &mut silent {
        // The first byte is there: the answer is on its way and now waits for this host.
        tokio::time::timeout(Duration::from_secs(30), socket.read_u8())
            .await
            .unwrap()
            .unwrap();
    }
    assert_well(&gateway, before, "two hundred silent hosts").await;
    let (mut late, mut answer) = (silent.swap_remove(0), Vec::new());
    while answer.len() < listed {
        assert!(
            late.read_buf(&mut answer).await.unwrap() > 0,
            "who reads late gets all of it"
        );
    }
    gateway.finish().await;
}

/// A connection to the hosts' listener.
async fn connected(gateway: &Gateway) -> TcpStream {
    let address = gateway.mcp().trim_start_matches("http://").trim_end_matches("/mcp");
    TcpStream::connect(address).await.unwrap()
}
