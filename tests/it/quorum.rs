//! Several people: whose word counts, for what, and for how long.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use serde_json::Value;

use crate::support::REFUNDS;
use crate::support::gateway::Ended;
use crate::support::gateway::Gateway;
use crate::support::gateway::Setup;
use crate::support::gateway::ended;
use crate::support::origin::Origin;
use crate::support::refunds;

/// The skill in the merged view.
const MERGED: &str = "skill://acme/refunds/SKILL.md";

/// User ids of nobody who runs tests.
const OTHERS: [u32; 3] = [2_000_000_001, 2_000_000_002, 2_000_000_003];

fn my_uid() -> u32 {
    rustix::process::getuid().as_raw()
}

/// Ada, Bob and Cem, of whom the one named is whoever runs the tests.
fn people(me: &str) -> String {
    let person = |(name, other)| {
        let uid = if name == me { my_uid() } else { other };
        format!("[[person]]\nname = \"{name}\"\nuid = {uid}\n")
    };
    ["ada", "bob", "cem"].into_iter().zip(OTHERS).map(person).collect()
}

/// Everything takes two people, and the commands are this one's.
fn two(origin: &Origin, me: &str) -> Setup {
    Setup::new()
        .set("policy.quorum = 2")
        .origin("acme", origin)
        .table(&people(me))
}

/// Starts anew with somebody else at the keyboard.
async fn is_now(gateway: &mut Gateway, origin: &Origin, me: &str) {
    gateway.reconfigure(|_| two(origin, me));
    gateway.restart().await;
}

async fn approve(gateway: &Gateway, set: &str) -> Ended {
    gateway.cli(&["approve", "acme/refunds", "--set", set, "--json"]).await
}

/// The set now seen, once there is one.
async fn seen(gateway: &Gateway) -> String {
    let seen = gateway
        .skill_when("acme/refunds", "seen", |item| item["set"].is_string())
        .await;
    seen["set"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn two_people_approve_and_one_person_twice_does_not() {
    let origin = Origin::with([refunds()]);
    let mut gateway = two(&origin, "ada").start().await;
    let set = seen(&gateway).await;
    let voted = approve(&gateway, &set).await.expect(0).json();
    assert_eq!(
        (&voted["state"], &voted["votes"]["votes"], &voted["votes"]["of"]),
        (&"voted".into(), &1.into(), &2.into())
    );
    let again = gateway.cli(&["approve", "acme/refunds", "--set", &set]).await.expect(0);
    assert!(again.out.contains("1 of 2, yours already"), "{}", again.out);
    gateway.skill_is("acme/refunds", "pending").await;
    assert_eq!(gateway.host().uris().await, [""; 0]);
    is_now(&mut gateway, &origin, "bob").await;
    let approved = approve(&gateway, &set).await.expect(0).json();
    assert_eq!((&approved["state"], approved.get("votes")), (&"approved".into(), None));
    assert_eq!(gateway.host().uris().await, [MERGED]);
    let leaves = gateway.log(&["voted", "approved"]).await;
    let [vote, approval] = leaves.as_slice() else {
        panic!("{leaves:?}")
    };
    assert_eq!((&vote["who"], &approval["who"]), (&"ada".into(), &"bob".into()));
    assert_eq!(approval["votes"], Value::from(vec![vote["index"].clone()]));
    // Closing takes one.
    gateway.cli(&["revoke", "acme/refunds"]).await.expect(0);
    assert_eq!(gateway.host().uris().await, [""; 0]);
    gateway.finish().await;
}

#[tokio::test]
async fn who_is_not_listed_does_not_count_and_is_told_so() {
    let origin = Origin::with([refunds()]);
    let gateway = two(&origin, "nobody").start().await;
    let set = seen(&gateway).await;
    let refused = approve(&gateway, &set).await.expect(1);
    assert!(
        refused.err.contains("2 people") && refused.err.contains("[[person]]"),
        "{}",
        refused.err
    );
    assert_eq!(gateway.log(&["voted", "approved"]).await.len(), 0);
    gateway.cli(&["deny", "acme/refunds"]).await.expect(0);
    gateway.finish().await;
}

#[tokio::test]
async fn a_vote_for_a_set_that_changed_meanwhile_counts_for_no_other() {
    let origin = Origin::with([refunds()]);
    let mut gateway = two(&origin, "ada").start().await;
    let old = seen(&gateway).await;
    approve(&gateway, &old).await.expect(0);
    origin.change_file(REFUNDS, "references/limits.md", "# No limits\n");
    let new = gateway
        .skill_when("acme/refunds", "changed", |item| item["set"] != old.as_str())
        .await;
    let new = new["set"].as_str().unwrap().to_owned();
    is_now(&mut gateway, &origin, "bob").await;
    let refused = approve(&gateway, &old).await.expect(1);
    for set in [&old, &new] {
        assert!(refused.err.contains(set.as_str()), "{}", refused.err);
    }
    let voted = approve(&gateway, &new).await.expect(0).json();
    assert_eq!(
        (&voted["state"], &voted["votes"]["votes"]),
        (&"voted".into(), &1.into())
    );
    assert_eq!(gateway.host().uris().await, [""; 0]);
    gateway.finish().await;
}

#[tokio::test]
async fn who_left_counts_no_more() {
    let origin = Origin::with([refunds()]);
    let mut gateway = two(&origin, "ada").start().await;
    let set = seen(&gateway).await;
    approve(&gateway, &set).await.expect(0);
    is_now(&mut gateway, &origin, "bob").await;
    gateway.cli(&["audit", "forget", "ada"]).await.expect(0);
    let voted = approve(&gateway, &set).await.expect(0).json();
    assert_eq!(voted["votes"]["votes"], 1, "ada's word went with her name");
    // Cem's comes, and Bob's goes with his line in the file.
    gateway.reconfigure(|_| {
        let without_bob = people("cem").replace("name = \"bob\"", "name = \"dan\"");
        Setup::new()
            .set("policy.quorum = 2")
            .origin("acme", &origin)
            .table(&without_bob)
    });
    gateway.restart().await;
    let voted = approve(&gateway, &set).await.expect(0).json();
    assert_eq!(voted["votes"]["votes"], 1);
    assert_eq!(gateway.host().uris().await, [""; 0]);
    gateway.finish().await;
}

#[tokio::test]
async fn a_label_that_points_elsewhere_is_suspended_until_as_many_accept() {
    let (here, there) = (Origin::with([refunds()]), Origin::with([refunds()]));
    let mut gateway = two(&here, "ada").start().await;
    let set = seen(&gateway).await;
    approve(&gateway, &set).await.expect(0);
    is_now(&mut gateway, &here, "bob").await;
    approve(&gateway, &set).await.expect(0);
    assert_eq!(gateway.host().uris().await, [MERGED]);
    is_now(&mut gateway, &there, "bob").await;
    assert_eq!(gateway.host().uris().await, [""; 0]);
    for _ in 0..2 {
        let voted = gateway
            .cli(&["origin", "accept", "acme", "--json"])
            .await
            .expect(0)
            .json();
        assert_eq!(voted["votes"]["votes"], 1);
    }
    assert_eq!(gateway.host().uris().await, [""; 0]);
    assert_eq!(gateway.log(&["accept-voted"]).await.len(), 1);
    is_now(&mut gateway, &there, "cem").await;
    let accepted = gateway.cli(&["origin", "accept", "acme"]).await.expect(0);
    assert!(accepted.out.contains("accepted the address"), "{}", accepted.out);
    assert_eq!(gateway.host().uris().await, [MERGED]);
    gateway.finish().await;
}

#[tokio::test]
async fn removing_an_origin_and_naming_it_again_brings_back_neither_approvals_nor_votes() {
    let origin = Origin::with([refunds()]);
    let mut gateway = two(&origin, "ada").start().await;
    let set = seen(&gateway).await;
    approve(&gateway, &set).await.expect(0);
    gateway.cli(&["origin", "remove", "acme"]).await.expect(0);
    is_now(&mut gateway, &origin, "bob").await;
    gateway.skill_is("acme/refunds", "pending").await;
    let voted = approve(&gateway, &set).await.expect(0).json();
    assert_eq!(voted["votes"]["votes"], 1);
    is_now(&mut gateway, &origin, "cem").await;
    approve(&gateway, &set).await.expect(0);
    assert_eq!(gateway.host().uris().await, [MERGED]);
    gateway.cli(&["origin", "remove", "acme"]).await.expect(0);
    is_now(&mut gateway, &origin, "cem").await;
    gateway.skill_is("acme/refunds", "pending").await;
    assert_eq!(gateway.host().uris().await, [""; 0]);
    gateway.finish().await;
}

/// Runs a command as another user of this machine, which takes root.
async fn as_user(gateway: &Gateway, uid: u32, arguments: &[&str]) -> Ended {
    let mut command = gateway.command(arguments);
    command.uid(uid).current_dir("/");
    ended(command).await
}

#[tokio::test]
async fn people_share_a_socket_each_under_their_own_user_id() {
    let origin = Origin::with([refunds()]);
    let mut gateway = two(&origin, "nobody").written();
    let socket = gateway.folder().join("portcullis.sock");
    let path = format!("admin.socket_path = \"{}\"", socket.display());
    gateway.reconfigure(|setup| setup.set("admin.socket = \"people\"").set(&path));
    gateway.start().await;
    // People reach the socket and read the file that says where it is, and nothing else.
    for (path, mode) in [
        (gateway.folder().to_owned(), 0o755),
        (gateway.folder().join("proxy.toml"), 0o644),
    ] {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }
    assert_eq!(fs::metadata(&socket).unwrap().permissions().mode() & 0o777, 0o666);
    // The gateway's own user goes on being let in.
    let set = seen(&gateway).await;
    if my_uid() != 0 {
        eprintln!("only root can be several users: what follows is not looked at");
        return gateway.finish().await;
    }
    let ask = ["approve", "acme/refunds", "--set", &set, "--json"];
    let stranger = as_user(&gateway, 2_000_000_009, &ask).await.expect(1);
    assert!(stranger.err.contains("uid 2000000009"), "{}", stranger.err);
    as_user(&gateway, 2_000_000_009, &["skills"]).await.expect(1);
    let refused = gateway.log(&["refused"]).await;
    assert_eq!(refused.len(), 1, "once, however often one knocks");
    assert_eq!(refused[0]["who"], "uid:2000000009");
    for (uid, state) in [(OTHERS[0], "voted"), (OTHERS[0], "voted"), (OTHERS[1], "approved")] {
        let answer = as_user(&gateway, uid, &ask).await.expect(0).json();
        assert_eq!(answer["state"], state);
    }
    assert_eq!(gateway.host().uris().await, [MERGED]);
    let who: Vec<Value> = gateway
        .log(&["voted", "approved"])
        .await
        .iter()
        .map(|leaf| leaf["who"].clone())
        .collect();
    assert_eq!(who, ["ada", "bob"]);
    gateway.finish().await;
}
