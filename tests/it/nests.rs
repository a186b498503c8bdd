//! Skills inside skills: each needs its own approval, and a file of both is a file of both (S-25, H-5, H-54).

use crate::support::gateway::Gateway;
use crate::support::origin::Origin;
use crate::support::skill::Skill;

const INNER: &str = "skill://outer/inner/SKILL.md";

fn inner() -> Skill {
    Skill::at(INNER).text("deep.md", "deep")
}

/// An outer skill that lists the files of the one inside it, and that one.
async fn nested() -> (Origin, Gateway) {
    let own = String::from_utf8(inner().bytes("SKILL.md").to_vec()).unwrap();
    let outer = Skill::at("skill://outer/SKILL.md")
        .text("inner/SKILL.md", own)
        .text("inner/deep.md", "deep")
        .text("a.md", "a");
    let origin = Origin::with([outer, inner()]);
    let gateway = Gateway::of(&origin).await;
    gateway.skill_is("acme/outer/inner", "pending").await;
    (origin, gateway)
}

#[tokio::test]
async fn approving_the_outer_skill_makes_the_inner_one_a_file_and_no_skill() {
    // case J5.
    let (_origin, gateway) = nested().await;
    gateway.approve("acme/outer").await;
    let host = gateway.host();
    assert_eq!(host.uris().await, ["skill://acme/outer/SKILL.md"]);
    assert_eq!(host.get("skill://acme/outer/inner/SKILL.md").await.reason(), "held");
    let read = host.read("skill://acme/outer/inner/SKILL.md").await;
    assert_eq!(read.bytes(), inner().bytes("SKILL.md"));
    let listed = host.directory("skill://acme/outer/inner").await;
    assert_eq!(listed.result()["resources"].as_array().unwrap().len(), 2);
    gateway.finish().await;
}

#[tokio::test]
async fn approving_the_inner_skill_opens_nothing_of_the_outer_one() {
    let (_origin, gateway) = nested().await;
    gateway.approve("acme/outer/inner").await;
    let host = gateway.host();
    assert_eq!(host.uris().await, ["skill://acme/outer/inner/SKILL.md"]);
    assert_eq!(host.read("skill://acme/outer/inner/deep.md").await.bytes(), b"deep");
    for uri in ["skill://acme/outer/a.md", "skill://acme/outer/SKILL.md"] {
        assert_eq!(host.read(uri).await.reason(), "held");
    }
    assert_eq!(host.directory("skill://acme/outer").await.reason(), "held");
    gateway.finish().await;
}

#[tokio::test]
async fn a_changed_inner_file_holds_both() {
    let (origin, gateway) = nested().await;
    gateway.approve("acme/outer").await;
    gateway.approve("acme/outer/inner").await;
    origin.change_file(INNER, "deep.md", "deeper");
    origin.change_file("skill://outer/SKILL.md", "inner/deep.md", "deeper");
    gateway.skill_is("acme/outer", "changed").await;
    gateway.skill_is("acme/outer/inner", "changed").await;
    let host = gateway.host();
    assert_eq!(host.uris().await, [""; 0]);
    assert_eq!(host.read("skill://acme/outer/inner/deep.md").await.reason(), "held");
    gateway.finish().await;
}
