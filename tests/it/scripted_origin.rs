//! The tests' own tools: a scripted origin that cannot be told from a real one, and a process that is looked after.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use portcullis::clock::Clock;
use portcullis::domain::Limits;
use portcullis::domain::SkillUri;
use portcullis::shutdown::Shutdown;
use portcullis::upstream::Address;
use portcullis::upstream::Attempt;
use portcullis::upstream::Error;
use portcullis::upstream::Got;
use portcullis::upstream::Listing;
use portcullis::upstream::Settings;
use portcullis::upstream::Shortfall;
use portcullis::upstream::Upstream;
use portcullis::upstream::Web;

use crate::support::REFUNDS;
use crate::support::client;
use crate::support::disk;
use crate::support::gateway::Gateway;
use crate::support::origin::Answers;
use crate::support::origin::Era;
use crate::support::origin::Fault;
use crate::support::origin::Origin;
use crate::support::origin::Paging;
use crate::support::refunds;
use crate::support::skill;
use crate::support::skill::Skill;

const EVERY_WAY: [(Era, Answers); 8] = [
    (Era::Modern, Answers::Json),
    (Era::Modern, Answers::Events),
    (Era::Modern, Answers::CrlfEvents),
    (Era::Legacy, Answers::Json),
    (Era::Legacy, Answers::Events),
    (Era::LegacyWithSessions, Answers::Json),
    (Era::LegacyWithSessions, Answers::Events),
    (Era::LegacyWithSessions, Answers::PrimedEvents),
];

fn upstream(origin: &Origin) -> Upstream {
    // Clients are made without a provider of their own.
    let _client = client::http();
    let address = Address::Http(Web {
        url: origin.url(),
        headers: Default::default(),
        ca: None,
    });
    let settings = Settings {
        address,
        connect_timeout: Duration::from_secs(5),
        timeout: Duration::from_secs(10),
        total: Duration::from_secs(60),
        limits: Limits {
            listing_pages: 5,
            ..Limits::default()
        },
        clock: Clock::system(),
        shutdown: Shutdown::new(),
    };
    Upstream::new(&settings).unwrap()
}

/// Lists; on the heap, since the client's state is large.
async fn list(upstream: &Upstream) -> Result<Listing, Error> {
    Box::pin(upstream.list(Attempt::Probe)).await
}

#[tokio::test]
async fn the_sdk_reads_and_verifies_everything_in_every_era_and_form() {
    for (era, answers) in EVERY_WAY {
        let origin = Origin::speaking(era, answers, [refunds(), Skill::at("skill://a/b/leave/SKILL.md")]);
        origin.set(|script| script.paging = Paging::Of(1));
        let [discover, initialize] = client::lifecycles();
        let lifecycle = if era == Era::Modern { discover } else { initialize };
        let read = client::read_everything_with_the_sdk(&origin.url(), lifecycle).await;
        assert_eq!(read.len(), 4, "{era:?} {answers:?}: {read:?}");
        assert_eq!(origin.reads().len(), 4);
    }
}

#[tokio::test]
async fn the_gateways_own_client_finds_era_entries_and_files() {
    for (era, answers) in EVERY_WAY {
        let origin = Origin::speaking(
            era,
            answers,
            [refunds(), Skill::at("skill://secret/SKILL.md").unlisted()],
        );
        let upstream = upstream(&origin);
        let listing = list(&upstream).await.unwrap();
        assert_eq!(
            (listing.entries, listing.shortfall),
            (vec![refunds().entry()], None),
            "{era:?} {answers:?}"
        );
        let get = async |uri: &str| {
            let uri: SkillUri = uri.parse().unwrap();
            Box::pin(upstream.get(&uri, Attempt::Probe)).await.unwrap()
        };
        assert!(matches!(get("skill://secret/SKILL.md").await, Got::Entry(_)));
        drop(origin.withdraw(REFUNDS));
        assert_eq!(get(REFUNDS).await, Got::Unknown);
    }
}

#[tokio::test]
async fn listings_misbehave_as_they_are_told() {
    let origin = Origin::with([
        refunds(),
        Skill::at("skill://a/SKILL.md"),
        Skill::at("skill://b/SKILL.md"),
    ]);
    let upstream = upstream(&origin);
    for (paging, entries, shortfall) in [
        (Paging::EmptyCursor(1), 3, None),
        (Paging::Repeated, 6, Some(Shortfall::RepeatedCursor("again".to_owned()))),
        (Paging::Endless, 15, Some(Shortfall::TooManyPages(5))),
    ] {
        origin.set(|script| script.paging = paging);
        let listing = list(&upstream).await.unwrap();
        assert_eq!(
            (listing.entries.len(), listing.shortfall),
            (entries, shortfall),
            "{paging:?}"
        );
    }
}

#[tokio::test]
async fn requests_hang_until_the_origin_is_mended() {
    let origin = Origin::with([refunds()]);
    let upstream = upstream(&origin);
    origin.break_method("skills/list", Fault::Hang);
    let listing = list(&upstream);
    let mend = async {
        origin.was_asked("skills/list", 1).await;
        origin.mend();
    };
    assert_eq!(tokio::join!(listing, mend).0.unwrap().entries.len(), 1);
    origin.break_everything(Fault::Status(500));
    assert!(list(&upstream).await.is_err());
}

#[tokio::test]
async fn a_stopped_origin_comes_back_at_the_same_address() {
    let mut origin = Origin::speaking(Era::LegacyWithSessions, Answers::Json, [refunds()]);
    let upstream = upstream(&origin);
    list(&upstream).await.unwrap();
    origin.stop().await;
    assert!(list(&upstream).await.is_err());
    origin.restart();
    assert_eq!(list(&upstream).await.unwrap().entries.len(), 1);
}

#[test]
fn entries_and_files_disagree_only_when_told_to() {
    let mut honest = refunds();
    let uri = honest.uri_of("references/limits.md");
    let sent = |skill: &Skill| skill.content(&uri).unwrap()["text"].as_str().unwrap().to_owned();
    assert_eq!(sent(&honest).as_bytes(), honest.bytes("references/limits.md"));
    let entry = honest.entry();
    for spoil in [skill::tampered, skill::with_crlf, skill::truncated] {
        honest.spoil("references/limits.md", spoil);
        assert_ne!(sent(&honest).as_bytes(), honest.bytes("references/limits.md"));
        assert_eq!(honest.entry(), entry);
    }
    assert!(!refunds().edited(skill::without_sizes).entry().contains("size"));
}

#[tokio::test]
async fn the_gateways_process_is_started_asked_and_ended() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("portcullis");
    let script = "#!/bin/sh\n[ \"$3\" = serve ] || { echo '[]'; exit 0; }\n\
        trap 'exit 0' TERM\necho hello >&2\n\
        echo 'ready mcp=http://127.0.0.1:1/mcp admin=http://127.0.0.1:2'\nwhile :; do sleep 0.1; done\n";
    disk::write(&program, script.as_bytes());
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let mut gateway = Gateway::of_program(&program);
    gateway.start().await;
    assert_eq!(
        (gateway.mcp(), gateway.admin()),
        ("http://127.0.0.1:1/mcp", "http://127.0.0.1:2")
    );
    assert_eq!(
        gateway.cli(&["skills", "--json"]).await.expect(0).json(),
        serde_json::json!([])
    );
    gateway.restart().await;
    gateway.kill().await;
    assert_eq!(gateway.stderr(), "hello\nhello\n");
    gateway.finish().await;
}
