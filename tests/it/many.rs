//! Ten thousand decisions, many at once: each is on the record once, and the record verifies.

use std::path::Path;

use futures_util::StreamExt as _;
use futures_util::stream;
use portcullis::admin::Client;
use portcullis::admin::Command;
use portcullis::domain::SetId;
use portcullis::domain::SkillKey;
use serde_json::Value;

use crate::support::gateway::Gateway;
use crate::support::origin::Origin;
use crate::support::skill::Skill;

const SKILLS: usize = 200;

/// Each round approves every skill and revokes it again.
const ROUNDS: usize = 25;

/// Operators at work at once.
const AT_ONCE: usize = 32;

async fn ask(socket: &Path, command: Command) -> Value {
    let client = Client::connect(socket).await.unwrap().expect("it runs");
    let answer = client.run(&command, &mut |_| Ok(())).await;
    answer.unwrap_or_else(|failure| panic!("{command:?}: {failure}"))
}

async fn decide_all(socket: &Path, commands: impl Iterator<Item = Command>) {
    let decided = stream::iter(commands).map(|command| ask(socket, command));
    let changed = decided
        .buffer_unordered(AT_ONCE)
        .filter(|decided| std::future::ready(decided["changed"] == true));
    assert_eq!(changed.count().await, SKILLS);
}

#[tokio::test]
async fn ten_thousand_decisions_made_at_once_are_all_on_a_record_that_verifies() {
    let skills = (0..SKILLS).map(|number| Skill::at(&format!("skill://skill-{number}/SKILL.md")));
    let origin = Origin::with(skills);
    let gateway = Gateway::of(&origin).await;
    let seen = gateway.all_of("acme", SKILLS).await;
    let socket = gateway.data().join("admin.sock");
    let key = |item: &Value| SkillKey {
        label: "acme".parse().unwrap(),
        uri: item["uri"].as_str().unwrap().parse().unwrap(),
    };
    let set = |item: &Value| -> SetId { item["set"].as_str().unwrap().parse().unwrap() };
    for _ in 0..ROUNDS {
        let approvals = seen.iter().map(|item| Command::Approve {
            skill: key(item),
            set: set(item),
            note: None,
            expires_in: None,
            reviewed: None,
        });
        decide_all(&socket, approvals).await;
        let revocations = seen.iter().map(|item| Command::Revoke {
            skill: key(item),
            note: None,
        });
        decide_all(&socket, revocations).await;
    }
    let count = async |kind: &str| {
        let log = gateway.cli(&["audit", "log", "--json", "--kind", kind]).await.expect(0);
        log.json().as_array().unwrap().len()
    };
    assert_eq!(count("approved").await, SKILLS * ROUNDS);
    assert_eq!(count("revoked").await, SKILLS * ROUNDS);
    assert_eq!(gateway.host().uris().await, [""; 0]);
    gateway.finish().await;
}
