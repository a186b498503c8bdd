//! Witnesses: what is cosigned, what is refused, and what a gateway does without them.

use std::fs;

use serde_json::Value;
use tokio::net::TcpListener;

use crate::audits::key;
use crate::support::client;
use crate::support::disk;
use crate::support::gateway::Gateway;
use crate::support::gateway::Setup;
use crate::support::witness::Witness;

/// A gateway with samples that has run, and does not run now.
async fn written() -> Gateway {
    let samples = std::path::absolute("tests/fixtures/skills").unwrap();
    let gateway = Setup::new().folder("samples", &samples).written();
    key(&gateway).await;
    gateway
}

/// Names the witnesses in its configuration, and starts it.
async fn start_with(gateway: &mut Gateway, witnesses: &[String], more: &[&str]) {
    let line = format!("audit.witnesses = [{}]", witnesses.join(", "));
    gateway.reconfigure(|setup| more.iter().fold(setup.set(&line), |setup, line| setup.set(line)));
    gateway.start().await;
}

/// How the witnesses stand, as soon as `holds` of them.
async fn witnesses_when(gateway: &Gateway, what: &str, holds: impl Fn(&[Value]) -> bool) -> Vec<Value> {
    let mut interval = tokio::time::interval(std::time::Duration::from_millis(100));
    for _ in 0..600 {
        interval.tick().await;
        let health = gateway.cli(&["health", "--json"]).await.expect(0).json();
        let witnesses = health["witnesses"].as_array().unwrap().clone();
        if holds(&witnesses) {
            return witnesses;
        }
    }
    panic!("{what}: not in time; it says:\n{}", gateway.stderr());
}

fn all_cosigned(witnesses: &[Value]) -> bool {
    witnesses
        .iter()
        .all(|witness| witness["lacking_since"].is_null() && witness["cosigned"] != 0)
}

/// Posts a request to a witness.
async fn add(witness: &Witness, body: &[u8]) -> client::Answer {
    let request = client::http().post(format!("{}/add-checkpoint", witness.url()));
    client::send(request.body(body.to_vec())).await
}

#[tokio::test]
async fn two_witnesses_cosign_and_a_proof_carries_both() {
    let mut gateway = written().await;
    let log = key(&gateway).await;
    let (one, two) = (Witness::of(&log).await, Witness::of(&log).await);
    assert_ne!(one.key, two.key);
    start_with(&mut gateway, &[one.as_setting(), two.as_setting()], &[]).await;
    gateway.approve("samples/release-notes").await;
    witnesses_when(&gateway, "both have cosigned", all_cosigned).await;
    let cosigned = gateway.data().join("log/cosigned");
    assert_eq!(
        fs::read_to_string(&cosigned)
            .unwrap()
            .matches("— witness.example ")
            .count(),
        2
    );
    let served = client::http().get(format!("{}/log/checkpoint", gateway.admin()));
    let served = client::send(served).await.text;
    assert_eq!(served.matches("— witness.example ").count(), 2, "{served}");
    let file = gateway.data().with_file_name("leaf.tlog-proof");
    let path = file.to_str().unwrap();
    gateway.cli(&["audit", "prove", "0", "--out", path]).await.expect(0);
    let with = [
        "audit",
        "check",
        path,
        "--key",
        &log,
        "--witness",
        &one.key,
        "--witness",
        &two.key,
    ];
    let checked = gateway
        .cli_elsewhere(&[&with[..], &["--json"]].concat())
        .await
        .expect(0)
        .json();
    assert_eq!(checked["witnesses"].as_array().unwrap().len(), 2);
    for (key, witness) in [(&one.key, &one.key), (&log, &log)] {
        let swapped = ["audit", "check", path, "--key", key, "--witness", witness];
        gateway.cli(&swapped).await.expect(64);
    }
    let stranger = Witness::of(&log).await;
    gateway
        .cli(&["audit", "check", path, "--key", &log, "--witness", &stranger.key])
        .await
        .expect(1);
    // What a monitor finds at a witness.
    let origin = log.split('+').next().unwrap();
    let hash: String = portcullis::domain::Digest::of(origin.as_bytes()).hex();
    let shown = client::send(client::http().get(format!("{}/{hash}/checkpoint", one.url()))).await;
    assert!(shown.status == 200 && shown.text.starts_with(origin), "{}", shown.text);
    let unknown = client::http().get(format!("{}/{}/checkpoint", one.url(), "0".repeat(64)));
    assert_eq!(client::send(unknown).await.status, 404);
    gateway.finish().await;
}

/// The newest checkpoint of a gateway.
async fn checkpoint(gateway: &Gateway) -> String {
    let request = client::http().get(format!("{}/log/checkpoint", gateway.admin()));
    client::send(request).await.text
}

/// Leaves under a checkpoint.
fn size_of(checkpoint: &str) -> u64 {
    checkpoint.lines().nth(1).unwrap().parse().unwrap()
}

#[tokio::test]
async fn a_witness_answers_as_the_specification_says() {
    let gateway = crate::audits::with_leaves().await;
    let witness = Witness::of(&key(&gateway).await).await;
    let first = checkpoint(&gateway).await;
    let size = size_of(&first);
    let of_old = async |old: &str| add(&witness, format!("old {old}\n\n{first}").as_bytes()).await;
    let cosigned = of_old("0").await;
    assert_eq!(cosigned.status, 200);
    assert!(cosigned.text.starts_with("— witness.example ") && cosigned.text.ends_with('\n'));
    // The same again is cosigned again; an old size that is not the witness's is told.
    assert_eq!(of_old(&size.to_string()).await.status, 200);
    let conflict = of_old("0").await;
    assert_eq!((conflict.status, conflict.text), (409, format!("{size}\n")));
    assert_eq!(conflict.headers["content-type"], "text/x.tlog.size");
    for malformed in [&(size + 1).to_string(), "x", "00", "-1", "0\n", ""] {
        assert_eq!(of_old(malformed).await.status, 400, "{malformed}");
    }
    assert_eq!(add(&witness, first.as_bytes()).await.status, 400);
    assert_eq!(add(&witness, &vec![b'x'; 1024 * 1024]).await.status, 400);
    let forged = first.replacen(&format!("\n{size}\n"), &format!("\n{}\n", size + 1), 1);
    let forged = format!("old {size}\n\n{forged}");
    assert_eq!(add(&witness, forged.as_bytes()).await.status, 403);
    let other = Setup::new().written();
    key(&other).await;
    let strange = fs::read_to_string(other.data().join("log/checkpoint")).unwrap();
    let strange = format!("old 0\n\n{strange}");
    assert_eq!(add(&witness, strange.as_bytes()).await.status, 404);
    other.finish().await;
    gateway.finish().await;
}

#[tokio::test]
async fn what_goes_on_is_cosigned_with_its_proof_alone() {
    let gateway = crate::audits::with_leaves().await;
    let witness = Witness::of(&key(&gateway).await).await;
    let first = checkpoint(&gateway).await;
    let size = size_of(&first).to_string();
    assert_eq!(add(&witness, format!("old 0\n\n{first}").as_bytes()).await.status, 200);
    gateway.approve("samples/release-notes").await;
    let second = checkpoint(&gateway).await;
    let unproven = format!("old {size}\n\n{second}");
    assert_eq!(add(&witness, unproven.as_bytes()).await.status, 422);
    let new = size_of(&second).to_string();
    let found = gateway
        .cli(&["audit", "consistency", &size, &new, "--json"])
        .await
        .expect(0)
        .json();
    let proof: Vec<String> = serde_json::from_value(found["proof"].clone()).unwrap();
    let request = |proof: &[String]| format!("old {size}\n{}\n\n{second}", proof.join("\n"));
    let mut wrong = proof.clone();
    // A hash of the right form that proves something else: the root itself.
    wrong[0] = second.lines().nth(2).unwrap().to_owned();
    assert_ne!(wrong, proof);
    assert_eq!(add(&witness, request(&wrong).as_bytes()).await.status, 422);
    let proven = add(&witness, request(&proof).as_bytes()).await;
    assert_eq!(proven.status, 200, "{}", proven.text);
    gateway.finish().await;
}

#[tokio::test]
async fn required_witnesses_keep_shut_what_would_open_and_nothing_else() {
    let mut gateway = written().await;
    let log = key(&gateway).await;
    let mut witness = Witness::of(&log).await;
    start_with(
        &mut gateway,
        &[witness.as_setting()],
        &["audit.witness_mode = \"require\""],
    )
    .await;
    // Each decision waits for what is needed, one right after the other.
    gateway.approve("samples/release-notes").await;
    gateway.approve("samples/incident-review").await;
    witness.kill().await;
    gateway.cli(&["revoke", "samples/incident-review"]).await.expect(0);
    let set = gateway.skill_is("samples/incident-review", "revoked").await["set"].clone();
    let again = ["approve", "samples/incident-review", "--set", set.as_str().unwrap()];
    let refused = gateway.cli(&again).await.expect(1);
    assert!(
        refused.err.contains("witness.example (it cannot be reached"),
        "{}",
        refused.err
    );
    gateway.skill_is("samples/release-notes", "approved").await;
    let said = gateway.cli(&["health"]).await.expect(0).out;
    assert!(
        said.contains("not the newest since") && said.contains("cannot be reached"),
        "{said}"
    );
    witness.start().await;
    witnesses_when(&gateway, "it has cosigned again", all_cosigned).await;
    gateway.cli(&again).await.expect(0);
    // Without a gateway the command asks the witness itself.
    gateway.cli(&["revoke", "samples/incident-review"]).await.expect(0);
    assert_eq!(gateway.stop().await, 0);
    gateway.cli(&again).await.expect(0);
    gateway.finish().await;
}

#[tokio::test]
async fn dead_silent_and_lying_witnesses_hold_up_nothing() {
    let mut gateway = written().await;
    let log = key(&gateway).await;
    let (good, mut dead, strange) = (
        Witness::of(&log).await,
        Witness::of(&log).await,
        Witness::of(&log).await,
    );
    dead.kill().await;
    let (silent, _hold) = silent(&Witness::of(&log).await.key).await;
    // The gateway's own listener answers, but is no witness; and one key's witness is found at another's address.
    let liar = strange.as_setting().replace(&strange.url(), &good.url());
    let settings = [good.as_setting(), dead.as_setting(), silent, liar];
    start_with(&mut gateway, &settings, &["audit.witness_quorum = 1"]).await;
    gateway.approve("samples/release-notes").await;
    let stand = witnesses_when(
        &gateway,
        "the good one has cosigned and the others say why not",
        |all| all_cosigned(&all[..1]) && [1, 3].iter().all(|at| all[*at]["error"].is_string()),
    )
    .await;
    assert!(
        stand[3]["error"]
            .as_str()
            .unwrap()
            .contains("no cosignature of its key"),
        "{stand:?}"
    );
    assert!(gateway.data().join("log/cosigned").exists());
    gateway.finish().await;
}

/// Where somebody listens who never answers; and what keeps it so.
async fn silent(key: &str) -> (String, TcpListener) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    (format!("{{ key = \"{key}\", url = \"{url}\" }}"), listener)
}

#[tokio::test]
async fn a_witness_knows_after_a_crash_what_it_cosigned() {
    let gateway = crate::audits::with_leaves().await;
    let mut witness = Witness::of(&key(&gateway).await).await;
    let request = client::http().get(format!("{}/log/checkpoint", gateway.admin()));
    let checkpoint = client::send(request).await.text;
    let body = format!("old 0\n\n{checkpoint}");
    assert_eq!(add(&witness, body.as_bytes()).await.status, 200);
    let before = witness.key.clone();
    witness.kill().await;
    witness.start().await;
    assert_eq!(witness.key, before);
    assert_eq!(add(&witness, body.as_bytes()).await.status, 409);
    // One that lost its memory does not start, rather than cosign another history.
    witness.kill().await;
    for file in fs::read_dir(witness.state().join("logs")).unwrap() {
        disk::flip_a_byte(&file.unwrap().path());
    }
    let state = witness.state();
    let arguments = [
        "audit",
        "witness",
        "--listen",
        "127.0.0.1:0",
        "--state",
        state.to_str().unwrap(),
        "--log",
    ];
    let refused = gateway
        .cli_elsewhere(&[&arguments[..], &[&key(&gateway).await]].concat())
        .await
        .expect(1);
    assert!(refused.err.contains("does not vouch"), "{}", refused.err);
    gateway.finish().await;
}

#[tokio::test]
async fn a_witness_goes_along_with_another_key_once_it_is_told() {
    let mut gateway = written().await;
    let mut witness = Witness::of(&key(&gateway).await).await;
    start_with(&mut gateway, &[witness.as_setting()], &[]).await;
    gateway.approve("samples/release-notes").await;
    witnesses_when(&gateway, "it has cosigned", all_cosigned).await;
    gateway.cli(&["audit", "rotate-key"]).await.expect(0);
    let refused = |all: &[Value]| {
        all[0]["error"]
            .as_str()
            .is_some_and(|error| error.contains("not this key of it"))
    };
    witnesses_when(&gateway, "it refuses the strange key", refused).await;
    witness.kill().await;
    witness.learn(&key(&gateway).await);
    witness.start().await;
    witnesses_when(&gateway, "it has cosigned again", all_cosigned).await;
    gateway.finish().await;
}

#[tokio::test]
async fn where_witnesses_are_required_neither_a_rule_nor_a_trial_opens_anything_without_them() {
    let mut gateway = written().await;
    let log = key(&gateway).await;
    let mut witness = Witness::of(&log).await;
    witness.kill().await;
    let more = [
        "audit.witness_mode = \"require\"",
        "policy.trust = \"auto\"",
        "policy.observe = \"1h\"",
    ];
    start_with(&mut gateway, &[witness.as_setting()], &more).await;
    gateway.says("not on the record, nor in force", 1).await;
    gateway.skill_is("samples/release-notes", "pending").await;
    assert_eq!(gateway.host().uris().await, [""; 0]);
    witness.start().await;
    gateway.skill_is("samples/release-notes", "approved").await;
    gateway.finish().await;
}
