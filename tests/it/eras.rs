//! Which way of opening a session an origin understands, found out once and believed for a time (base protocol §22.1).

use std::time::Duration;

use futures_util::future::join_all;
use portcullis::clock::Clock;
use portcullis::domain::Limits;
use portcullis::shutdown::Shutdown;
use portcullis::upstream::Address;
use portcullis::upstream::Attempt;
use portcullis::upstream::Error;
use portcullis::upstream::Listing;
use portcullis::upstream::Settings;
use portcullis::upstream::Upstream;
use portcullis::upstream::Web;
use serde_json::json;

use crate::support::client;
use crate::support::origin::Answers;
use crate::support::origin::Era;
use crate::support::origin::Fault;
use crate::support::origin::Origin;
use crate::support::refunds;

/// How long an older server is taken for one.
const HOUR: Duration = Duration::from_secs(60 * 60);

/// An older server that has no sessions.
fn older() -> Origin {
    Origin::speaking(Era::Legacy, Answers::Json, [refunds()])
}

fn upstream(origin: &Origin, timeout: Duration) -> Upstream {
    // Clients are made without a provider of their own.
    drop(client::http());
    let settings = Settings {
        address: Address::Http(Web {
            url: origin.url(),
            headers: Default::default(),
            ca: None,
        }),
        connect_timeout: Duration::from_secs(5),
        timeout,
        total: Duration::from_secs(60),
        limits: Limits::default(),
        clock: Clock::system(),
        shutdown: Shutdown::new(),
    };
    Upstream::new(&settings).unwrap()
}

fn patient(origin: &Origin) -> Upstream {
    upstream(origin, Duration::from_secs(30))
}

async fn list(upstream: &Upstream) -> Result<Listing, Error> {
    Box::pin(upstream.list(Attempt::Probe)).await
}

/// Lists a listing that is as it should be.
async fn lists(upstream: &Upstream) {
    let listing = list(upstream).await.unwrap();
    assert_eq!((listing.entries, listing.shortfall), (vec![refunds().entry()], None));
}

/// How often it was asked to open a session, one way and the other.
fn handshakes(origin: &Origin) -> (usize, usize) {
    (origin.count("server/discover"), origin.count("initialize"))
}

#[tokio::test]
async fn whatever_an_older_server_says_to_the_probe_it_is_spoken_with_and_not_probed_again() {
    // case C1.
    let refusals = [
        (
            200,
            "application/json",
            r#"{"jsonrpc":"2.0","id":{id},"error":{"code":-32601,"message":"no"}}"#,
        ),
        (
            404,
            "application/json",
            r#"{"jsonrpc":"2.0","id":{id},"error":{"code":-32601,"message":"no"}}"#,
        ),
        (
            400,
            "application/json",
            r#"{"jsonrpc":"2.0","id":{id},"error":{"code":-32600,"message":"no"}}"#,
        ),
        (
            400,
            "application/json",
            r#"{"jsonrpc":"2.0","id":{id},"error":{"code":-32602,"message":"no"}}"#,
        ),
        (
            200,
            "application/json",
            r#"{"jsonrpc":"2.0","id":{id},"error":{"code":0,"message":"no"}}"#,
        ),
        (
            400,
            "application/json",
            r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"session header required"}}"#,
        ),
        (
            400,
            "application/json",
            r#"{"jsonrpc":"2.0","id":"server-error","error":{"code":-32600,"message":"no"}}"#,
        ),
        (404, "text/plain", "not here"),
        (405, "text/html", "<h1>no</h1>"),
        (400, "text/plain", ""),
    ];
    for (status, kind, text) in refusals {
        let origin = older();
        origin.break_method("server/discover", Fault::Whole(status, kind, text));
        let upstream = patient(&origin);
        for _turn in 0..3 {
            lists(&upstream).await;
        }
        assert_eq!(upstream.era().as_deref(), Some(client::LEGACY), "{status} {text}");
        assert_eq!(handshakes(&origin), (1, 1), "{status} {text}");
    }
}

#[tokio::test]
async fn every_revision_with_a_handshake_is_served_and_told_of() {
    // case C2.
    for revision in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"] {
        let origin = older();
        origin.rewrite(move |method, result| {
            if method == "initialize" {
                result["protocolVersion"] = json!(revision);
            }
        });
        let upstream = patient(&origin);
        assert_eq!(list(&upstream).await.unwrap().entries.len(), 1, "{revision}");
        assert_eq!(upstream.era().as_deref(), Some(revision));
    }
}

#[tokio::test]
async fn a_server_without_sessions_is_asked_for_nothing_that_needs_one_and_a_strict_one_gets_its_headers() {
    // case C3; the strict one refuses whatever lacks its session's id or the revision.
    for era in [Era::Legacy, Era::LegacyWithSessions] {
        let origin = Origin::speaking(era, Answers::Json, [refunds()]);
        let upstream = patient(&origin);
        lists(&upstream).await;
        lists(&upstream).await;
        if era == Era::Legacy {
            assert_eq!(origin.count("GET"), 0, "a stream belongs to a session");
        }
        for method in ["ping", "subscriptions/listen"] {
            assert_eq!(origin.count(method), 0, "{era:?} {method}");
        }
    }
}

#[tokio::test]
async fn a_newer_server_that_has_other_revisions_is_no_older_one() {
    // case C5.
    let refusal = |supported: &'static str| Fault::Whole(400, "application/json", supported);
    let origin = Origin::with([refunds()]);
    let upstream = patient(&origin);
    origin.break_method(
        "server/discover",
        refusal(
            r#"{"jsonrpc":"2.0","id":{id},"error":{"code":-32022,"message":"no","data":{"supported":["2027-01-01"],"requested":"2026-07-28"}}}"#,
        ),
    );
    let told = list(&upstream).await.unwrap_err().to_string();
    assert!(told.contains("2027-01-01") && told.contains(client::MODERN), "{told}");
    assert_eq!(handshakes(&origin), (1, 0), "no handshake is sent to it");
    origin.mend();
    origin.break_once(
        "server/discover",
        refusal(
            r#"{"jsonrpc":"2.0","id":{id},"error":{"code":-32022,"message":"no","data":{"supported":["2026-07-28"],"requested":"2026-07-28"}}}"#,
        ),
    );
    lists(&upstream).await;
    assert_eq!(handshakes(&origin), (3, 0), "it is asked again the same way");
    assert_eq!(upstream.era().as_deref(), Some(client::MODERN));
    for code in ["-32020", "-32021"] {
        let origin = Origin::with([refunds()]);
        let text = format!(r#"{{"jsonrpc":"2.0","id":{{id}},"error":{{"code":{code},"message":"no"}}}}"#);
        origin.break_method("server/discover", refusal(text.leak()));
        assert!(list(&patient(&origin)).await.is_err());
        assert_eq!(handshakes(&origin), (1, 0), "{code}");
    }
}

#[tokio::test]
async fn a_server_of_the_first_transport_is_told_from_one_that_is_broken() {
    // case C7.
    let origin = older();
    origin.break_everything(Fault::Status(405));
    let told = list(&patient(&origin)).await.unwrap_err().to_string();
    assert!(!told.contains("2024-11-05"), "{told}");
    origin.set(|script| script.stream = Some("event: endpoint\ndata: /messages?session=1\n\n"));
    let told = list(&patient(&origin)).await.unwrap_err().to_string();
    assert!(told.contains("the transport of 2024-11-05 (HTTP+SSE)"), "{told}");
}

#[tokio::test]
async fn refused_credentials_failures_and_silence_prove_nothing() {
    // case C8.
    for (fault, timeout, error) in [
        (Fault::Status(401), 30, Some(Error::Unauthorized(401))),
        (Fault::Status(403), 30, Some(Error::Unauthorized(403))),
        (Fault::Status(503), 30, None),
        (Fault::Status(429), 30, None),
        (Fault::Hang, 1, Some(Error::TimedOut(Duration::from_secs(1)))),
    ] {
        let origin = Origin::with([refunds()]);
        let upstream = upstream(&origin, Duration::from_secs(timeout));
        origin.break_everything(fault.clone());
        let failed = list(&upstream).await.unwrap_err();
        assert!(error.is_none_or(|error| error == failed), "{fault:?}: {failed}");
        assert_eq!((handshakes(&origin).1, upstream.era()), (0, None), "{fault:?}");
        origin.mend();
        lists(&upstream).await;
        assert_eq!(upstream.era().as_deref(), Some(client::MODERN), "{fault:?}");
    }
}

#[tokio::test]
async fn a_lost_session_is_made_anew_once_for_all_who_wait() {
    // case D1.
    let mut origin = Origin::speaking(Era::LegacyWithSessions, Answers::Json, [refunds()]);
    let upstream = patient(&origin);
    lists(&upstream).await;
    origin.stop().await;
    origin.restart();
    join_all((0..10).map(|_| lists(&upstream))).await;
    assert_eq!(handshakes(&origin), (1, 2), "one for ten");
}

#[tokio::test]
async fn a_refusal_that_is_about_the_session_is_a_lost_session_once() {
    // case D2.
    let refusal = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32001,"message":"Session not found"}}"#;
    let refusal = Fault::Whole(401, "application/json", refusal);
    let origin = Origin::speaking(Era::LegacyWithSessions, Answers::Json, [refunds()]);
    let upstream = patient(&origin);
    lists(&upstream).await;
    origin.break_once("skills/list", refusal.clone());
    lists(&upstream).await;
    assert_eq!(handshakes(&origin), (1, 2));
    origin.break_method("skills/list", refusal);
    assert_eq!(list(&upstream).await, Err(Error::Unauthorized(401)));
    assert_eq!(handshakes(&origin), (1, 3), "not over and over");
    origin.mend();
    origin.break_method("skills/list", Fault::Whole(401, "text/plain", "no such token"));
    assert_eq!(list(&upstream).await, Err(Error::Unauthorized(401)));
    assert_eq!(handshakes(&origin), (1, 3), "a refused credential is none");
}

#[tokio::test]
async fn an_older_server_is_looked_at_again_after_an_hour_and_goes_on_meanwhile() {
    let origin = older();
    let upstream = patient(&origin);
    lists(&upstream).await;
    pass(HOUR - Duration::from_secs(60)).await;
    lists(&upstream).await;
    assert_eq!(handshakes(&origin), (1, 1));
    pass(Duration::from_secs(60)).await;
    origin.break_method("server/discover", Fault::Status(503));
    lists(&upstream).await;
    assert_eq!(
        handshakes(&origin),
        (2, 1),
        "what fails proves nothing, and the session is as good as before"
    );
    lists(&upstream).await;
    assert_eq!(handshakes(&origin), (2, 1), "nor is it tried with each request");
    origin.mend();
    origin.break_once("server/discover", Fault::Status(404));
    pass(Duration::from_secs(5 * 60)).await;
    lists(&upstream).await;
    lists(&upstream).await;
    assert_eq!(handshakes(&origin), (3, 2), "it is one still");
}

#[tokio::test]
async fn any_method_can_be_asked_and_the_answer_is_the_servers_own_text() {
    for origin in [Origin::with([refunds()]), older()] {
        let upstream = patient(&origin);
        let ask = async |method, params, cap| Box::pin(upstream.ask(method, params, cap, Attempt::Probe)).await;
        let answer = ask("resources/templates/list", json!({}), 1000).await.unwrap();
        assert!(answer.starts_with(r#"{"resourceTemplates":[]"#), "{answer}");
        let refused = ask("no/such", json!({}), 1000).await;
        assert!(matches!(refused, Err(Error::Rpc { code: -32601, .. })), "{refused:?}");
        let missing = ask("resources/read", json!({ "uri": "file:///x" }), 1000).await;
        assert!(matches!(missing, Err(Error::Rpc { code: -32602, .. })), "{missing:?}");
        let long = ask("skills/list", json!({}), 100).await;
        assert_eq!(long, Err(Error::TooLong { limit: 100 }));
    }
}

#[tokio::test]
async fn who_gives_a_request_up_tells_the_origin() {
    // cases S3 and S4, where nobody else waits.
    let origin = older();
    let upstream = patient(&origin);
    lists(&upstream).await;
    origin.break_method("no/such", Fault::Hang);
    let asked = Box::pin(upstream.ask("no/such", json!({}), 1000, Attempt::Probe));
    let impatient = async { origin.was_asked("no/such", 1).await };
    tokio::select! {
        answer = asked => panic!("it hangs: {answer:?}"),
        () = impatient => {}
    }
    origin.was_asked("notifications/cancelled", 1).await;
}

/// Lets time pass, as far as anything in this process can tell.
async fn pass(time: Duration) {
    tokio::time::pause();
    tokio::time::advance(time).await;
    tokio::time::resume();
}
