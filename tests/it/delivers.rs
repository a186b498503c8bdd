//! Who received what: each answer about skills is on the record once, before it leaves, and the record proves it.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value;
use serde_json::json;
use tokio::time::Instant;

use crate::support::REFUNDS;
use crate::support::client::Host;
use crate::support::disk;
use crate::support::gateway::Gateway;
use crate::support::gateway::Setup;
use crate::support::origin::Origin;
use crate::support::refunds;
use crate::support::skill::Skill;

/// A skill that nobody approved.
const HELD: &str = "skill://acme/held/SKILL.md";

/// A file of the approved one, in the merged view.
const FILE: &str = "skill://acme/refunds/SKILL.md";

/// Whoever asks from this machine.
const HERE: &str = "address:127.0.0.1";

/// The longest that something may take.
const DEADLINE: Duration = Duration::from_secs(60);

/// A gateway with one approved skill and one that is held; the id of the approved set.
async fn gateway(setup: Setup) -> (Origin, Gateway, String) {
    let origin = Origin::with([refunds(), Skill::at("skill://held/SKILL.md")]);
    let gateway = setup.origin("acme", &origin).start().await;
    let set = gateway.approve("acme/refunds").await;
    gateway.skill_is("acme/held", "pending").await;
    (origin, gateway, set)
}

/// The deliveries that a question finds.
async fn deliveries(gateway: &Gateway, question: &[&str]) -> Vec<Value> {
    let words = [&["audit", "deliveries", "--json"], question].concat();
    let found = gateway.cli(&words).await.expect(0).json();
    found.as_array().unwrap().clone()
}

/// The members of a delivery that hang on what was asked.
fn told(delivery: &Value) -> Value {
    let mut told = delivery.clone();
    for member in ["time", "caller", "page"] {
        told.as_object_mut().unwrap().remove(member);
    }
    told
}

/// Every sealed segment, unpacked, and what is open.
fn lines(gateway: &Gateway) -> String {
    let unpacked = disk::files(&gateway.data().join("deliveries")).into_iter().map(|path| {
        let bytes = fs::read(&path).unwrap();
        let is_sealed = path.extension().is_some();
        let bytes = if is_sealed {
            zstd::decode_all(&bytes[..]).unwrap()
        } else {
            bytes
        };
        String::from_utf8(bytes).unwrap()
    });
    unpacked.collect()
}

/// The sealed segments as soon as there are so many.
async fn segments(gateway: &Gateway, count: usize) -> Vec<PathBuf> {
    let deadline = Instant::now() + DEADLINE;
    loop {
        let mut files = disk::files(&gateway.data().join("deliveries"));
        files.retain(|path| path.extension().is_some());
        files.sort();
        if files.len() >= count {
            return files;
        }
        assert!(Instant::now() < deadline, "{} segments", files.len());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// One JSON object with the members of two.
fn with(mut base: Value, more: &Value) -> Value {
    base.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    base
}

/// A delivery in the merged view to a host on this machine.
fn merged(method: &str, outcome: &str, about: &Value) -> Value {
    let base = json!({ "endpoint": "/mcp", "method": method, "outcome": outcome, "name": HERE });
    with(base, about)
}

#[tokio::test]
async fn each_answer_is_recorded_once_with_what_it_was_about() {
    let (_origin, mut gateway, set) = gateway(Setup::new()).await;
    let host = gateway.host();
    let entry = host.get(FILE).await;
    let digest = &entry.result()["skill"]["resources"][0]["digest"];
    let approval = &entry.result()["_meta"]["dev.portcullis/approval"];
    host.read(FILE).await.result();
    host.read(FILE).await.result();
    host.directory("skill://acme/refunds").await.result();
    host.list().await.result();
    assert_eq!(host.read(HELD).await.reason(), "held");
    assert_eq!(host.get("skill://acme/none/SKILL.md").await.reason(), "unknown");
    assert_eq!(host.directory("skill://acme/held").await.reason(), "held");
    host.list_from("made-up").await.refusal(-32602);
    host.ask("skills/get", json!({})).await.refusal(-32602);
    Host::modern(&gateway.mcp_of("acme")).read(REFUNDS).await.result();

    let served = json!({ "label": "acme", "skill": REFUNDS, "set": set, "approval": approval });
    let at = |uri: &str| with(served.clone(), &json!({ "uri": uri }));
    let read = |source: &str| with(at(FILE), &json!({ "digest": digest, "source": source }));
    let held = |uri: &str| json!({ "label": "acme", "skill": "skill://held/SKILL.md", "uri": uri });
    let unknown = json!({ "label": "acme", "uri": "skill://acme/none/SKILL.md" });
    let own = json!({ "uri": REFUNDS, "endpoint": "/mcp/acme" });
    let nothing = json!({});
    let expected = [
        merged("get", "delivered", &at(FILE)),
        merged("read", "delivered", &read("fetched")),
        merged("read", "delivered", &read("memory")),
        merged("directory", "delivered", &at("skill://acme/refunds")),
        merged("list", "delivered", &nothing),
        merged("read", "held", &held(HELD)),
        merged("get", "unknown", &unknown),
        merged("directory", "held", &held("skill://acme/held")),
        merged("list", "invalid", &nothing),
        merged("get", "invalid", &nothing),
        with(merged("read", "delivered", &read("memory")), &own),
    ];
    let found = deliveries(&gateway, &[]).await;
    assert_eq!(found.iter().map(told).collect::<Vec<_>>(), expected);
    assert!(found[4]["page"].is_string());

    gateway.restart().await;
    gateway.host().read(FILE).await.result();
    let found = deliveries(&gateway, &[]).await;
    assert_eq!((found.len(), &found[11]["source"]), (12, &json!("disk")));
    gateway.finish().await;
}

#[tokio::test]
async fn who_received_a_set_covers_listings_and_every_filter_narrows() {
    let (_origin, gateway, set) = gateway(Setup::new()).await;
    let host = gateway.host();
    host.list().await.result();
    host.read(FILE).await.result();
    assert_eq!(host.read(HELD).await.reason(), "held");
    let digest = deliveries(&gateway, &[]).await[1]["digest"]
        .as_str()
        .unwrap()
        .to_owned();
    let none = format!("set1:{}", "0".repeat(64));
    for (question, count) in [
        (vec!["--set", &set], 2),
        (vec!["--set", &none], 0),
        (vec!["--skill", "acme/refunds"], 2),
        (vec!["--skill", "acme/held"], 1),
        (vec!["--digest", &digest], 1),
        (vec!["--digest", &digest, "--skill", "acme/held"], 0),
        (vec!["--who", "127.0.0.1"], 3),
        (vec!["--who", "127.0.0.2"], 0),
        (vec!["--since", "1h"], 3),
        (vec!["--since", "2099-01-01T00:00:00Z"], 0),
        (vec!["--until", "1h"], 0),
    ] {
        for turn in ["open or sealed", "made anew"] {
            assert_eq!(
                deliveries(&gateway, &question).await.len(),
                count,
                "{question:?} {turn}"
            );
            segments(&gateway, 1).await;
            gateway.cli(&["rebuild-index"]).await.expect(0);
        }
    }
    let shown = gateway
        .cli(&["audit", "deliveries", "--skill", "acme/held"])
        .await
        .expect(0)
        .out;
    assert!(
        shown.contains(HERE) && shown.contains("held  acme") && shown.contains(HELD),
        "{shown}"
    );
    gateway.finish().await;
}

#[tokio::test]
async fn a_token_is_known_by_its_name_and_the_record_has_no_name_and_no_address() {
    let (_origin, gateway, _) = gateway(Setup::new().set("server.auth = \"token\"")).await;
    let made = gateway
        .cli(&["token", "new", "anns-laptop", "--json"])
        .await
        .expect(0)
        .json();
    let (id, secret) = (made["id"].as_str().unwrap(), made["secret"].as_str().unwrap());
    let other = gateway.cli(&["token", "new", "ci", "--json"]).await.expect(0).json();
    gateway.host().with_token(secret).read(FILE).await.result();
    gateway
        .host()
        .with_token(other["secret"].as_str().unwrap())
        .read(FILE)
        .await
        .result();
    assert_eq!(gateway.host().read(FILE).await.status, 401);
    let found = deliveries(&gateway, &[]).await;
    let names: Vec<_> = found
        .iter()
        .map(|delivery| delivery["name"].as_str().unwrap())
        .collect();
    assert_eq!(
        names,
        [
            format!("token:{id}:anns-laptop"),
            format!("token:{}:ci", other["id"].as_str().unwrap())
        ]
    );
    let commitment = found[0]["caller"].as_str().unwrap();
    for who in ["anns-laptop", id, commitment] {
        assert_eq!(deliveries(&gateway, &["--who", who]).await, found[..1], "{who}");
    }
    let listed = gateway.cli(&["token", "list", "--json"]).await.expect(0).json();
    assert!(listed[0]["by"].as_str().unwrap().starts_with("uid:"), "{listed}");
    gateway.cli(&["token", "revoke", "anns-laptop"]).await.expect(0);
    segments(&gateway, 1).await;
    let journal = fs::read(gateway.data().join("log/journal")).unwrap();
    let (journal, lines) = (String::from_utf8_lossy(&journal), lines(&gateway));
    for action in ["token-made", "token-revoked"] {
        let leaf = format!("\"action\":\"{action}\",\"actor\":{{\"person\":\"person1:");
        assert!(journal.contains(&leaf), "{action}");
    }
    for name in ["anns-laptop", "uid:", secret] {
        assert!(!journal.contains(name) && !lines.contains(name), "{name}");
    }
    assert!(lines.contains(commitment));
    gateway.finish().await;
}

#[tokio::test]
async fn an_address_stands_in_no_record() {
    let (_origin, gateway, _) = gateway(Setup::new()).await;
    gateway.host().list().await.result();
    assert_eq!(gateway.host().read(HELD).await.reason(), "held");
    segments(&gateway, 1).await;
    let found = deliveries(&gateway, &[]).await;
    assert_eq!(found.len(), 2);
    let lines = lines(&gateway);
    assert!(
        lines.contains(found[0]["caller"].as_str().unwrap()) && !lines.contains("127.0.0.1"),
        "{lines}"
    );
    let people = disk::files(&gateway.data().join("people")).into_iter();
    assert!(
        people
            .map(|path| fs::read_to_string(path).unwrap())
            .any(|person| person.contains(HERE))
    );
    gateway.finish().await;
}

#[tokio::test]
async fn what_was_written_survives_kill_and_is_there_once() {
    let (_origin, mut gateway, _) = gateway(Setup::new()).await;
    let mut read = 0;
    for _ in 0..3 {
        for _ in 0..20 {
            gateway.host().read(FILE).await.result();
        }
        read += 20;
        // What the queue had is written within a moment; what came after may be lost.
        assert_eq!(deliveries(&gateway, &[]).await.len(), read);
        gateway.kill().await;
        gateway.start().await;
        assert_eq!(deliveries(&gateway, &[]).await.len(), read);
    }
    gateway.finish().await;
}

#[tokio::test]
async fn a_strict_record_has_every_answer_that_left() {
    let (_origin, mut gateway, _) = gateway(Setup::new().set("audit.strict = true")).await;
    for read in 1..=5 {
        gateway.host().read(FILE).await.result();
        gateway.kill().await;
        gateway.start().await;
        assert_eq!(deliveries(&gateway, &[]).await.len(), read);
    }
    gateway.finish().await;
}

#[tokio::test]
async fn a_damaged_segment_is_named_by_every_command_and_the_others_are_read() {
    let (_origin, gateway, _) = gateway(Setup::new()).await;
    for sealed in 1..=3 {
        gateway.host().read(FILE).await.result();
        segments(&gateway, sealed).await;
    }
    gateway.cli(&["audit", "verify"]).await.expect(0);
    disk::flip_a_byte(&segments(&gateway, 3).await[1]);
    let verified = gateway.cli(&["audit", "verify", "--json"]).await.expect(1).json();
    let [fault] = verified["report"]["deliveries"]["faults"]
        .as_array()
        .unwrap()
        .as_slice()
    else {
        panic!("one fault, not {verified}")
    };
    assert_eq!(
        (&fault["segment"], &fault["why"]),
        (&json!(1), &json!("its file does not have its digest"))
    );
    assert!(fault["leaf"].is_u64());
    let listed = gateway.cli(&["audit", "deliveries"]).await.expect(1);
    assert!(listed.err.contains("segment 1 (leaf "), "{}", listed.err);
    assert_eq!(listed.out.lines().count(), 2);
    gateway.abandon();
}

#[tokio::test]
async fn a_full_queue_refuses_what_it_cannot_record() {
    let (_origin, gateway, _) = gateway(Setup::new().set("audit.queue_bytes = \"64 KiB\"")).await;
    let host = gateway.host();
    host.read(FILE).await.result();
    assert_eq!(deliveries(&gateway, &[]).await.len(), 1);
    gateway.write_no_more();
    let long = format!("{}?{}", HELD, "x".repeat(4_000));
    let mut served = 0;
    let refused = loop {
        // Long names fill the queue soon.
        let answer = host.get(&long).await;
        if answer.reason() == "internal" {
            break answer;
        }
        served += 1;
        assert!(served < 1_000, "it is never full");
    };
    assert!(served > 5, "{served}");
    let words = refused.json["error"]["message"].as_str().unwrap();
    assert!(words.contains("cannot write its record"), "{words}");
    let health = gateway.cli(&["health"]).await.expect(1);
    assert!(health.err.contains("deliveries wait"), "{}", health.err);
    gateway.abandon();
}

#[tokio::test]
async fn what_is_kept_no_longer_leaves_on_the_record() {
    let (_origin, mut gateway, _) = gateway(Setup::new()).await;
    gateway.host().read(FILE).await.result();
    segments(&gateway, 1).await;
    gateway.reconfigure(|setup| setup.set("audit.keep_bytes = 0"));
    gateway.restart().await;
    gateway.says("deliveries that are kept no longer were removed", 1).await;
    assert_eq!(deliveries(&gateway, &[]).await, Vec::<Value>::new());
    let journal = fs::read(gateway.data().join("log/journal")).unwrap();
    assert!(String::from_utf8_lossy(&journal).contains("\"action\":\"segments-removed\""));
    gateway.finish().await;
}

#[tokio::test]
async fn not_recording_is_an_explicit_choice_and_said_loudly() {
    let (_origin, gateway, _) = gateway(Setup::new().set("audit.deliveries = false")).await;
    gateway.host().read(FILE).await.result();
    assert_eq!(deliveries(&gateway, &[]).await, Vec::<Value>::new());
    gateway.says("nobody can say who received what", 1).await;
    let health = gateway.cli(&["health"]).await.expect(0).out;
    assert!(health.contains("DELIVERIES ARE NOT RECORDED"), "{health}");
    gateway.finish().await;
}

#[tokio::test]
async fn an_orderly_end_seals_everything() {
    let (_origin, mut gateway, _) = gateway(Setup::new()).await;
    for _ in 0..50 {
        gateway.host().read(FILE).await.result();
    }
    assert_eq!(gateway.stop().await, 0);
    assert_eq!(fs::read(gateway.data().join("deliveries/open")).unwrap(), b"");
    assert_eq!(deliveries(&gateway, &[]).await.len(), 50);
    gateway.finish().await;
}

#[tokio::test]
async fn a_caller_is_forgotten_by_its_address_and_what_it_received_stays() {
    let (_origin, gateway, _) = gateway(Setup::new()).await;
    gateway.host().read(FILE).await.result();
    let before = deliveries(&gateway, &["--who", "127.0.0.1"]).await;
    assert_eq!(before.len(), 1);
    gateway.cli(&["audit", "forget", "127.0.0.1"]).await.expect(0);
    assert!(deliveries(&gateway, &["--who", "127.0.0.1"]).await.is_empty());
    let after = deliveries(&gateway, &[]).await;
    assert_eq!(
        (&after[0]["caller"], &after[0]["name"]),
        (&before[0]["caller"], &Value::Null)
    );
    gateway.finish().await;
}
