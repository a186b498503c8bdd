//! Nothing is fetched before somebody needs it, and then once.

use futures_util::future::join_all;

use crate::support::REFUNDS;
use crate::support::approved;
use crate::support::gateway::Gateway;
use crate::support::origin::Fault;
use crate::support::origin::Origin;
use crate::support::refunds;
use crate::support::skill::Skill;

/// A file of the skill in the merged view.
const LIMITS: &str = "skill://acme/refunds/references/limits.md";

#[tokio::test]
async fn no_file_is_asked_for_before_a_host_reads_it() {
    let (origin, mut gateway) = approved().await;
    let host = gateway.host();
    host.list().await.result();
    host.get("skill://acme/refunds/SKILL.md").await.result();
    host.directory("skill://acme/refunds").await.result();
    gateway.cli(&["show", "acme/refunds", "--json"]).await.expect(0);
    gateway.cli(&["verify"]).await.expect(0);
    gateway.restart().await;
    origin.is_asked_again("skills/list").await;
    origin.is_asked_again("skills/list").await;
    assert_eq!(origin.reads(), [""; 0]);
    gateway.host().read(LIMITS).await.result();
    assert_eq!(
        origin.reads(),
        ["skill://refunds/references/limits.md"],
        "that file and no other"
    );
    gateway.finish().await;
}

#[tokio::test]
async fn what_was_fetched_is_not_fetched_again() {
    // of case I2, what was verified is what is sent again.
    let (origin, mut gateway) = approved().await;
    let first = gateway.host().read(LIMITS).await.bytes();
    gateway.host().read(LIMITS).await.result();
    gateway.restart().await;
    assert_eq!(gateway.host().read(LIMITS).await.bytes(), first);
    assert_eq!(origin.reads().len(), 1);
    gateway.finish().await;
}

#[tokio::test]
async fn many_first_readers_share_one_fetch() {
    // case M5.
    let (origin, gateway) = approved().await;
    origin.break_method("resources/read", Fault::Hang);
    let hosts: Vec<_> = (0..100).map(|_| gateway.host()).collect();
    let reads = join_all(hosts.iter().map(|host| host.read(LIMITS)));
    let mend = async {
        origin.was_asked("resources/read", 1).await;
        // Another answer means that the gateway has taken in what was sent before it.
        gateway.host().list().await.result();
        origin.mend();
    };
    let (answers, ()) = tokio::join!(reads, mend);
    for answer in answers {
        assert_eq!(answer.bytes(), refunds().bytes("references/limits.md"));
    }
    assert_eq!(origin.reads().len(), 1);
    gateway.finish().await;
}

#[tokio::test]
async fn a_first_reader_that_goes_away_spoils_nothing_for_a_hundred_others() {
    let (origin, gateway) = approved().await;
    origin.break_method("resources/read", Fault::Hang);
    let (gone, stay): (_, Vec<_>) = (gateway.host(), (0..100).map(|_| gateway.host()).collect());
    tokio::select! {
        answer = gone.read(LIMITS) => panic!("it hangs, but: {}", answer.text),
        () = origin.was_asked("resources/read", 1) => {}
    }
    let mend = async {
        gateway.host().list().await.result();
        origin.mend();
    };
    let (answers, ()) = tokio::join!(join_all(stay.iter().map(|host| host.read(LIMITS))), mend);
    for answer in answers {
        assert_eq!(answer.bytes(), refunds().bytes("references/limits.md"));
    }
    assert_eq!(origin.reads().len(), 1);
    gateway.finish().await;
}

#[tokio::test]
async fn whatever_was_read_in_a_rush_is_stored_when_the_process_has_ended() {
    let named = |n: usize| (format!("f{n}.md"), format!("text {n}"));
    let skill = |name: &str| {
        (0..40)
            .map(named)
            .fold(Skill::at(&format!("skill://{name}/SKILL.md")), |skill, (path, text)| {
                skill.text(&path, text)
            })
    };
    let mut origin = Origin::with([skill("a"), skill("b")]);
    let mut gateway = Gateway::of(&origin).await;
    gateway.approve_all("acme", 2).await;
    for is_again in [false, true] {
        let host = gateway.host();
        let reads = ["a", "b"]
            .iter()
            .flat_map(|name| (0..40).map(move |n| (name, named(n))))
            .map(async |(name, (path, text))| {
                let answer = host.read(&format!("skill://acme/{name}/{path}")).await;
                assert_eq!(answer.bytes(), text.as_bytes());
            });
        join_all(reads).await;
        assert_eq!(origin.reads().len(), 80);
        if !is_again {
            assert_eq!(gateway.stop().await, 0);
            origin.stop().await;
            gateway.start().await;
        }
    }
    gateway.finish().await;
}

#[tokio::test]
async fn a_pull_fetches_what_is_missing_and_goes_on_where_it_was_stopped() {
    let (mut origin, gateway) = approved().await;
    gateway.host().read("skill://acme/refunds/SKILL.md").await.result();
    gateway.stores("acme/refunds", "SKILL.md").await;
    origin.spoil(REFUNDS, "assets/form.bin", crate::support::skill::tampered);
    gateway.cli(&["pull", "acme/refunds"]).await.expect(1);
    origin.change(REFUNDS, Skill::unspoil);
    gateway.cli(&["pull", "acme/refunds"]).await.expect(0);
    let mut reads = origin.reads();
    reads.sort();
    reads.dedup();
    assert_eq!(
        reads,
        ["SKILL.md", "assets/form.bin", "references/limits.md"].map(|path| refunds().uri_of(path))
    );
    let asked = |uri: &str| origin.reads().iter().filter(|read| *read == uri).count();
    assert_eq!(
        (asked(REFUNDS), asked("skill://refunds/references/limits.md")),
        (1, 1),
        "once is enough"
    );
    origin.stop().await;
    for path in ["SKILL.md", "assets/form.bin", "references/limits.md"] {
        let answer = gateway.host().read(&format!("skill://acme/refunds/{path}")).await;
        assert_eq!(answer.bytes(), refunds().bytes(path));
    }
    gateway.finish().await;
}

#[tokio::test]
async fn an_operator_reads_a_file_that_is_held_and_a_host_does_not() {
    let origin = Origin::with([refunds()]);
    let gateway = Gateway::of(&origin).await;
    gateway.skill_is("acme/refunds", "pending").await;
    let printed = gateway
        .cli(&["cat", "acme/refunds", "references/limits.md"])
        .await
        .expect(0);
    assert_eq!(printed.out.as_bytes(), refunds().bytes("references/limits.md"));
    let printed = gateway.cli(&["cat", "acme/refunds"]).await.expect(0);
    assert_eq!(printed.out.as_bytes(), refunds().bytes("SKILL.md"));
    assert_eq!(gateway.host().read(LIMITS).await.reason(), "held");
    gateway.finish().await;
}
