//! Hosts on a stream of messages: a command that they start, and a WebSocket. Both are one kind of connection to us.

use std::os::unix::fs::PermissionsExt as _;

use rustix::process::Signal;
use serde_json::Value;
use serde_json::json;
use tokio::time::Duration;
use tokio::time::Instant;
use tokio_tungstenite::tungstenite::Bytes;
use tokio_tungstenite::tungstenite::Error;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;

use crate::support::approved;
use crate::support::client;
use crate::support::client::LEGACY;
use crate::support::gateway::Gateway;
use crate::support::gateway::Setup;
use crate::support::origin::Fault;
use crate::support::origin::Origin;
use crate::support::pipe::Pipe;
use crate::support::pipe::upgrade;
use crate::support::refunds;
use crate::support::skill::Skill;

/// A file in the merged view.
const FILE: &str = "skill://acme/refunds/SKILL.md";

/// Another one.
const LIMITS: &str = "skill://acme/refunds/references/limits.md";

/// One of each kind.
async fn pipes(gateway: &Gateway) -> [Pipe; 2] {
    [Pipe::command(gateway, None), Pipe::socket(gateway, None).await]
}

#[tokio::test]
async fn both_views_are_reached_and_no_other() {
    let (_origin, gateway) = approved().await;
    for (mut all, mut one) in [
        (Pipe::command(&gateway, None), Pipe::command(&gateway, Some("acme"))),
        (
            Pipe::socket(&gateway, None).await,
            Pipe::socket(&gateway, Some("acme")).await,
        ),
    ] {
        assert_eq!(all.read(FILE).await.bytes(), refunds().bytes("SKILL.md"));
        assert_eq!(
            one.read("skill://refunds/SKILL.md").await.bytes(),
            refunds().bytes("SKILL.md")
        );
        one.read(FILE).await.refusal(-32602);
    }
    let refused = Pipe::command(&gateway, Some("other")).ended().await;
    assert_eq!((refused.code, refused.out.as_str()), (64, ""), "{}", refused.err);
    assert!(refused.err.contains("no origin has this label"), "{}", refused.err);
    let refused = upgrade(&gateway.websocket(Some("other")), &[]).await;
    assert!(matches!(refused, Err(Error::Http(response)) if response.status() == 404));
    gateway.finish().await;
}

#[tokio::test]
async fn both_eras_are_spoken_side_by_side_on_one_connection() {
    // base protocol §22.2.
    let (_origin, gateway) = approved().await;
    for mut pipe in pipes(&gateway).await {
        let found = pipe.ask("server/discover", json!({})).await;
        assert_eq!(found.result()["supportedVersions"], json!([client::MODERN]));
        pipe.ask("resources/list", json!({})).await.result();
        for method in ["initialize", "ping", "no/such"] {
            let params = json!({ "_meta": client::meta() });
            pipe.request(&json!("x"), method, params.clone()).await;
            if method == "initialize" {
                // The helper leaves a handshake as it is, so that this one carries the newest revision's metadata.
                assert_eq!(pipe.hear().await.json["error"]["code"], -32601);
            } else {
                pipe.hear().await.refusal(-32601);
            }
        }
        let mut pipe = pipe.speaking(LEGACY).await;
        pipe.ask("ping", json!({})).await.result();
        let listed = pipe.ask("resources/list", json!({})).await;
        assert!(listed.result().get("resultType").is_none(), "{}", listed.text);
        pipe.ask("initialize", client::hello(LEGACY)).await.refusal(-32600);
        let modern =
            json!({ "jsonrpc": "2.0", "id": "m", "method": "resources/list", "params": { "_meta": client::meta() } });
        pipe.say(&modern.to_string()).await;
        assert_eq!(pipe.hear().await.result()["resultType"], "complete");
    }
    gateway.finish().await;
}

#[tokio::test]
async fn metadata_is_in_the_body_alone_and_must_be_complete() {
    // base protocol §9.
    let (_origin, gateway) = approved().await;
    for mut pipe in pipes(&gateway).await {
        for (method, key, code) in [
            ("skills/list", "io.modelcontextprotocol/clientCapabilities", -32602),
            ("resources/list", "io.modelcontextprotocol/clientCapabilities", -32602),
        ] {
            let mut meta = client::meta();
            meta.as_object_mut().unwrap().remove(key);
            let message = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": { "_meta": meta } });
            pipe.say(&message.to_string()).await;
            pipe.hear().await.refusal(code);
        }
        for method in ["skills/list", "resources/list"] {
            let mut meta = client::meta();
            meta["io.modelcontextprotocol/protocolVersion"] = json!("2099-01-01");
            let message = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": { "_meta": meta } });
            pipe.say(&message.to_string()).await;
            assert_eq!(pipe.hear().await.refusal(-32022)["requested"], "2099-01-01");
        }
        pipe.read(FILE).await.result();
    }
    gateway.finish().await;
}

#[tokio::test]
async fn equal_ids_on_two_connections_are_two_and_on_one_connection_are_refused() {
    // case S2.
    let (origin, gateway) = approved().await;
    let pairs = [
        (Pipe::command(&gateway, None), Pipe::command(&gateway, None)),
        (Pipe::socket(&gateway, None).await, Pipe::socket(&gateway, None).await),
    ];
    for (at, (mut one, mut two)) in pairs.into_iter().enumerate() {
        origin.break_method("resources/read", Fault::Hang);
        let (id, (file, path)) = (json!(1), [(FILE, "SKILL.md"), (LIMITS, "references/limits.md")][at]);
        one.request(&id, "resources/read", json!({ "uri": file })).await;
        origin.was_asked("resources/read", at + 1).await;
        two.request(&id, "skills/get", json!({ "uri": FILE })).await;
        assert_eq!(two.hear().await.result()["skill"]["uri"], FILE);
        for method in ["skills/list", "resources/list"] {
            one.request(&id, method, json!({})).await;
            one.hear().await.refusal(-32600);
        }
        one.request(&json!("1"), "skills/list", json!({})).await;
        assert_eq!(one.hear().await.json["id"], "1");
        origin.mend();
        let answer = one.hear().await;
        assert_eq!(
            (&answer.json["id"], answer.bytes().as_slice()),
            (&id, refunds().bytes(path))
        );
        one.request(&id, "skills/list", json!({})).await;
        one.hear().await.result();
    }
    gateway.finish().await;
}

#[tokio::test]
async fn a_slow_answer_is_not_waited_for_by_others_and_a_cancelled_one_never_comes() {
    // case S3.
    let (origin, gateway) = approved().await;
    origin.break_method("resources/read", Fault::Hang);
    for (at, mut pipe) in pipes(&gateway).await.into_iter().enumerate() {
        let file = [FILE, LIMITS][at];
        pipe.request(&json!("slow"), "resources/read", json!({ "uri": file }))
            .await;
        origin.was_asked("resources/read", at + 1).await;
        pipe.ask("skills/list", json!({})).await.result();
        let cancel =
            json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": "slow" } });
        pipe.say(&cancel.to_string()).await;
        // The id is free again, and its next answer is the only one.
        pipe.request(&json!("slow"), "skills/list", json!({})).await;
        assert!(pipe.hear().await.result()["skills"].is_array());
    }
    origin.mend();
    gateway.finish().await;
}

#[tokio::test]
async fn who_leaves_takes_nothing_from_others_who_wait_for_the_same_file() {
    // case S3, of a fetch that is shared.
    let files = ["0.md", "1.md", "2.md", "3.md"];
    let origin = Origin::with([files.iter().fold(refunds(), |skill, file| skill.text(file, *file))]);
    let gateway = Gateway::of(&origin).await;
    gateway.approve("acme/refunds").await;
    let leaving = pipes(&gateway).await.into_iter().chain(pipes(&gateway).await);
    for ((at, mut leaver), says_so) in leaving.enumerate().zip([true, true, false, false]) {
        let params = json!({ "uri": format!("skill://acme/refunds/{}", files[at]) });
        origin.break_method("resources/read", Fault::Hang);
        leaver.request(&json!("slow"), "resources/read", params.clone()).await;
        origin.was_asked("resources/read", at + 1).await;
        let mut staying = pipes(&gateway).await;
        for stayer in &mut staying {
            stayer.request(&json!(1), "resources/read", params.clone()).await;
        }
        if says_so {
            let cancel =
                json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": "slow" } });
            leaver.say(&cancel.to_string()).await;
            leaver.ask("skills/list", json!({})).await.result();
        }
        drop(leaver);
        let over_http = gateway.host();
        let reads = over_http.ask("resources/read", params);
        let mend = async {
            gateway.host().list().await.result();
            origin.mend();
        };
        let (read, ()) = tokio::join!(reads, mend);
        assert_eq!(read.bytes(), files[at].as_bytes());
        for mut stayer in staying {
            assert_eq!(stayer.hear().await.bytes(), files[at].as_bytes());
        }
    }
    assert_eq!(origin.reads().len(), files.len(), "each file is fetched once");
    gateway.finish().await;
}

#[tokio::test]
async fn one_id_through_every_door_at_once_is_answered_to_each_with_its_own() {
    // case S2.
    let files = ["SKILL.md", "references/limits.md", "assets/form.bin"];
    let (origin, gateway) = approved().await;
    origin.break_method("resources/read", Fault::Hang);
    let [mut command, mut socket] = pipes(&gateway).await;
    let file = |at: usize| json!({ "uri": format!("skill://acme/refunds/{}", files[at]) });
    for (at, pipe) in [&mut command, &mut socket].into_iter().enumerate() {
        pipe.request(&json!(1), "resources/read", file(at)).await;
    }
    let host = gateway.host();
    let mend = async {
        origin.was_asked("resources/read", files.len()).await;
        origin.mend();
    };
    let (third, ()) = tokio::join!(host.ask("resources/read", file(2)), mend);
    for (answer, path) in [command.hear().await, socket.hear().await, third].iter().zip(files) {
        assert_eq!(
            (&answer.json["id"], answer.bytes().as_slice()),
            (&json!(1), refunds().bytes(path))
        );
    }
    gateway.finish().await;
}

#[tokio::test]
async fn what_is_no_message_is_answered_and_ends_nothing() {
    let (_origin, gateway) = approved().await;
    for mut pipe in pipes(&gateway).await {
        for (text, code) in [
            ("{", -32700),
            ("null", -32600),
            ("[]", -32600),
            ("[1]", -32600),
            ("{\"jsonrpc\":\"1.0\",\"id\":1,\"method\":\"skills/list\"}", -32600),
            ("{\"jsonrpc\":\"2.0\",\"id\":1.5,\"method\":\"skills/list\"}", -32600),
            ("{\"jsonrpc\":\"2.0\",\"id\":[],\"method\":\"resources/list\"}", -32600),
            (
                "{\"jsonrpc\":\"2.0\",\"id\":18446744073709551615,\"method\":\"resources/list\"}",
                -32602,
            ),
        ] {
            pipe.say(text).await;
            let answer = pipe.hear().await;
            answer.refusal(code);
        }
        // Nobody waits for these.
        for text in [
            "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}",
            "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":9}}",
            "{\"jsonrpc\":\"2.0\",\"method\":\"skills/list\"}",
            "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}",
        ] {
            pipe.say(text).await;
        }
        pipe.read(FILE).await.result();
    }
    gateway.finish().await;
}

#[tokio::test]
async fn members_are_known_by_their_exact_names_and_once() {
    // case S1.
    let origin = Origin::with([refunds(), Skill::at("skill://held/SKILL.md")]);
    let gateway = Gateway::of(&origin).await;
    gateway.approve("acme/refunds").await;
    gateway.skill_is("acme/held", "pending").await;
    let (meta, held) = (client::meta(), "skill://acme/held/SKILL.md");
    let read = |members: &str| format!(r#"{{"jsonrpc":"2.0","id":1,"method":"resources/read",{members}}}"#);
    let known = format!(r#""params":{{"uri":"{FILE}","_meta":{meta}}}"#);
    for mut pipe in pipes(&gateway).await {
        for others in [
            format!(r#""params":{{"uri":"{FILE}","Uri":"{held}","URI":1,"_meta":{meta}}}"#),
            format!(r#"{known},"Params":{{"uri":"{held}"}},"param\u017f":{{"uri":"{held}"}}"#),
            format!(r#"{known},"Method":"skills/list","ID":2"#),
        ] {
            pipe.say(&read(&others)).await;
            let answer = pipe.hear().await;
            assert_eq!(
                (&answer.json["id"], answer.bytes().as_slice()),
                (&json!(1), refunds().bytes("SKILL.md"))
            );
        }
        for unknown in [
            format!(r#""params":{{"Uri":"{FILE}","_meta":{meta}}}"#),
            format!(r#""param\u017f":{{"uri":"{FILE}","_meta":{meta}}}"#),
            format!(r#""params":{{"uri":"{held}","uri":"{FILE}","_meta":{meta}}}"#),
            format!(r#""params":{{"uri":"{held}","_meta":{meta}}},{known}"#),
        ] {
            pipe.say(&read(&unknown)).await;
            let answer = pipe.hear().await;
            assert!(answer.json["error"].is_object(), "{unknown}: {}", answer.text);
        }
    }
    gateway.finish().await;
}

#[tokio::test]
async fn lines_that_are_too_long_or_no_text_are_answered_and_ends_nothing() {
    let origin = Origin::with([refunds()]);
    let setup = Setup::new()
        .origin("acme", &origin)
        .set("limits.request_bytes = \"64 KiB\"");
    let gateway = setup.start().await;
    gateway.approve("acme/refunds").await;
    let mut pipe = Pipe::command(&gateway, None);
    pipe.say_bytes(&[0xff, 0xfe]).await;
    pipe.hear().await.refusal(-32700);
    pipe.say_bytes(b"").await;
    pipe.say_bytes(&vec![b'x'; 1024 * 1024]).await;
    pipe.hear().await.refusal(-32600);
    pipe.read(FILE).await.result();
    pipe.close_input();
    assert_eq!(pipe.ended().await.expect(0).out, "");
    for (frame, code) in [
        (Message::Binary(Bytes::from_static(b"{}")), CloseCode::Unsupported),
        (Message::text("x".repeat(1024 * 1024)), CloseCode::Size),
    ] {
        let pipe = Pipe::socket(&gateway, None).await;
        let said = pipe.goodbye_after(frame).await.expect("a reason");
        assert_eq!(said.code, code, "{said}");
    }
    gateway.finish().await;
}

#[tokio::test]
async fn large_files_come_whole_to_hosts_that_take_their_time() {
    // case E2, case F1.
    let bytes: Vec<u8> = (0..8 * 1024 * 1024_u32).map(|at| (at % 251) as u8).collect();
    let text = "\u{1f600} and \u{e9}\n".repeat(100_000);
    let origin = Origin::with([refunds()
        .blob("large.bin", bytes.clone())
        .text("large.md", text.clone())]);
    let gateway = Gateway::of(&origin).await;
    gateway.approve("acme/refunds").await;
    for mut pipe in pipes(&gateway).await {
        let files = [("large.bin", bytes.as_slice()), ("large.md", text.as_bytes())];
        for (id, (file, _)) in (1..).zip(files) {
            let uri = format!("skill://acme/refunds/{file}");
            pipe.request(&json!(id), "resources/read", json!({ "uri": uri })).await;
            origin.was_asked("resources/read", id).await;
        }
        // Nobody else waits for this one to take what it asked for.
        Pipe::socket(&gateway, None).await.read(FILE).await.result();
        for _ in files {
            let answer = pipe.hear().await;
            let at = answer.json["id"].as_u64().unwrap() - 1;
            assert!(answer.bytes() == files[usize::try_from(at).unwrap()].1, "{at}");
        }
    }
    gateway.finish().await;
}

#[tokio::test]
async fn what_was_asked_before_the_input_ended_is_answered() {
    let (_origin, gateway) = approved().await;
    let mut pipe = Pipe::command(&gateway, None);
    for id in 0..100 {
        pipe.request(&json!(id), "resources/read", json!({ "uri": FILE })).await;
    }
    pipe.close_input();
    let ended = pipe.ended().await.expect(0);
    let mut ids: Vec<u64> = ended
        .out
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["id"].as_u64().unwrap())
        .collect();
    ids.sort_unstable();
    assert_eq!(ids, (0..100).collect::<Vec<_>>());
    gateway.finish().await;
}

#[tokio::test]
async fn without_a_gateway_the_command_says_so() {
    let gateway = Setup::new().written();
    let ended = Pipe::command(&gateway, None).ended().await.expect(2);
    assert!(ended.err.contains("portcullis serve"), "{}", ended.err);
    assert_eq!(ended.out, "");
    gateway.abandon();
}

#[tokio::test]
async fn a_command_can_be_the_gateway_itself() {
    let origin = Origin::with([refunds()]);
    let mut gateway = Setup::new().origin("acme", &origin).written();
    let mut pipe = Pipe::of_command(&gateway, &["stdio", "--standalone"]);
    pipe.ask("skills/list", json!({})).await.result();
    gateway.approve("acme/refunds").await;
    assert_eq!(pipe.read(FILE).await.bytes(), refunds().bytes("SKILL.md"));
    let mut bridged = Pipe::command(&gateway, Some("acme"));
    bridged.read("skill://refunds/SKILL.md").await.result();
    pipe.close_input();
    assert_eq!(pipe.ended().await.expect(0).out, "");
    let ended = bridged.ended().await.expect(2);
    assert!(ended.err.contains("the gateway ended"), "{}", ended.err);
    assert!(!gateway.data().join("mcp.sock").exists());
    gateway.start().await;
    gateway.finish().await;
}

#[tokio::test]
async fn the_socket_is_its_owners_alone_and_leaves_with_the_gateway() {
    let (_origin, mut gateway) = approved().await;
    let socket = gateway.data().join("mcp.sock");
    let mode = std::fs::metadata(&socket).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    gateway.kill().await;
    assert!(socket.exists(), "nobody cleared it");
    gateway.start().await;
    Pipe::command(&gateway, None).read(FILE).await.result();
    assert_eq!(gateway.stop().await, 0);
    assert!(!socket.exists());
    gateway.finish().await;
}

#[tokio::test]
async fn the_record_says_which_user_asked() {
    let origin = Origin::with([refunds()]);
    let uid = rustix::process::getuid().as_raw();
    let mut gateway = Setup::new().origin("acme", &origin).start().await;
    gateway.approve("acme/refunds").await;
    for who in [format!("uid:{uid}"), "ada".to_owned()] {
        if who == "ada" {
            gateway.reconfigure(|setup| setup.table(&format!("[[person]]\nname = \"ada\"\nuid = {uid}")));
            gateway.restart().await;
        }
        Pipe::command(&gateway, None).read(FILE).await.result();
        let told = gateway
            .cli(&["audit", "deliveries", "--who", &who, "--json"])
            .await
            .expect(0)
            .json();
        let read = |item: &Value| item["method"] == "read";
        assert!(told.as_array().unwrap().iter().any(read), "{who}: {told:#}");
    }
    gateway.finish().await;
}

#[tokio::test]
async fn a_websocket_is_for_who_may_ask_and_ends_when_they_may_not() {
    let origin = Origin::with([refunds()]);
    let setup = Setup::new().origin("acme", &origin).set("server.auth = \"token\"");
    let gateway = setup.start().await;
    gateway.approve("acme/refunds").await;
    let made = gateway.cli(&["token", "new", "laptops"]).await.expect(0);
    let token = made.out.split_whitespace().last().unwrap().to_owned();
    let status = async |headers: &[(&'static str, &str)]| match upgrade(&gateway.websocket(None), headers).await {
        Err(Error::Http(response)) => response.status().as_u16(),
        other => panic!("{other:?}"),
    };
    assert_eq!(status(&[]).await, 401);
    let bearer = format!("Bearer {token}");
    assert_eq!(status(&[("authorization", "Bearer x")]).await, 401);
    assert_eq!(
        status(&[("authorization", &bearer), ("origin", "https://evil.example")]).await,
        403
    );
    assert_eq!(
        status(&[("authorization", &bearer), ("host", "evil.example")]).await,
        403
    );
    assert_eq!(
        status(&[("authorization", &bearer), ("sec-websocket-protocol", "chat")]).await,
        400
    );
    let mut pipe = Pipe::socket_with_token(&gateway, &token).await;
    pipe.read(FILE).await.result();
    gateway.cli(&["token", "revoke", "laptops"]).await.expect(0);
    pipe.request(&json!(9), "skills/list", json!({})).await;
    assert_eq!(pipe.goodbye().await.expect("a reason").code, CloseCode::Policy);
    gateway.finish().await;
}

#[tokio::test]
async fn what_runs_is_answered_before_the_end_and_idle_connections_hold_it_up_not_at_all() {
    let (origin, mut gateway) = approved().await;
    origin.break_method("resources/read", Fault::Hang);
    let mut asking = pipes(&gateway).await;
    let idle = Pipe::socket(&gateway, None).await;
    let files = [(FILE, "SKILL.md"), (LIMITS, "references/limits.md")];
    for (pipe, (file, _)) in asking.iter_mut().zip(files) {
        pipe.request(&json!(1), "resources/read", json!({ "uri": file })).await;
    }
    origin.was_asked("resources/read", 2).await;
    gateway.signal(Signal::TERM);
    gateway.accepts_no_more().await;
    let begin = Instant::now();
    origin.mend();
    for (mut pipe, (_, path)) in asking.into_iter().zip(files) {
        assert_eq!(pipe.hear().await.bytes(), refunds().bytes(path));
    }
    assert_eq!(idle.goodbye().await.expect("a reason").code, CloseCode::Away);
    assert_eq!(gateway.ended().await, 0);
    assert!(begin.elapsed() < Duration::from_secs(8), "{:?}", begin.elapsed());
    gateway.finish().await;
}

#[tokio::test]
async fn a_batch_is_taken_where_its_revision_was_agreed_on() {
    // base protocol §23.4.
    let (_origin, gateway) = approved().await;
    let list = |id: u64| json!({ "jsonrpc": "2.0", "id": id, "method": "skills/list", "params": {} });
    let batch = json!([list(100), list(101)]).to_string();
    for version in ["2025-03-26", LEGACY] {
        for pipe in pipes(&gateway).await {
            let mut pipe = pipe.speaking(version).await;
            pipe.say(&batch).await;
            if version == LEGACY {
                pipe.hear().await.refusal(-32600);
                continue;
            }
            let mut ids = [pipe.hear().await, pipe.hear().await].map(|answer| answer.json["id"].as_u64());
            ids.sort_unstable();
            assert_eq!(ids, [Some(100), Some(101)]);
        }
    }
    gateway.finish().await;
}
