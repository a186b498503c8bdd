//! What the tests are written with: a scripted origin, the gateway as a real process, and hosts.

pub(crate) mod client;
pub(crate) mod disk;
pub(crate) mod gateway;
pub(crate) mod network;
pub(crate) mod origin;
pub(crate) mod pipe;
pub(crate) mod program;
pub(crate) mod skill;
pub(crate) mod socket;
pub(crate) mod toolbox;
pub(crate) mod witness;

/// Waits until something holds.
pub(crate) async fn eventually(mut holds: impl AsyncFnMut() -> bool) {
    let deadline = tokio::time::Instant::now() + std::time::Duration::from_secs(30);
    let mut interval = tokio::time::interval(std::time::Duration::from_millis(50));
    while !holds().await {
        assert!(tokio::time::Instant::now() < deadline, "it does not come about");
        interval.tick().await;
    }
}

/// The URI of the skill that most tests are about.
pub(crate) const REFUNDS: &str = "skill://refunds/SKILL.md";

/// A skill with a text and a blob, whose frontmatter has numbers that a parser would spell anew.
pub(crate) fn refunds() -> skill::Skill {
    skill::Skill::at(REFUNDS)
        .with_frontmatter(
            r#"{ "version": 1.10,"name":"refunds", "description":"How to pay money back.","order":12345678901234567890 }"#,
        )
        .text("references/limits.md", "# Limits\n\nAsk above 100 EUR.\n")
        .blob("assets/form.bin", [0, 159, 146, 150, 255])
}

/// An origin with that skill, and a gateway that serves it, approved.
pub(crate) async fn approved() -> (origin::Origin, gateway::Gateway) {
    let origin = origin::Origin::with([refunds()]);
    let gateway = gateway::Gateway::of(&origin).await;
    gateway.approve("acme/refunds").await;
    (origin, gateway)
}
