//! How the process ends, and that there is only one of it.

use rustix::process::Signal;

use crate::support::approved;
use crate::support::gateway::Setup;
use crate::support::origin::Fault;
use crate::support::refunds;

/// A file in the merged view.
const FILE: &str = "skill://acme/refunds/SKILL.md";

#[tokio::test]
async fn a_read_under_way_is_answered_before_the_end() {
    let (origin, mut gateway) = approved().await;
    origin.break_method("resources/read", Fault::Hang);
    let host = gateway.host();
    let read = host.read(FILE);
    let end = async {
        origin.was_asked("resources/read", 1).await;
        gateway.signal(Signal::TERM);
        origin.mend();
        gateway.ended().await
    };
    let (answer, code) = tokio::join!(read, end);
    assert_eq!(code, 0);
    assert_eq!(answer.bytes(), refunds().bytes("SKILL.md"));
    gateway.finish().await;
}

#[tokio::test]
async fn an_origin_that_never_answers_does_not_hold_up_the_end() {
    let (origin, mut gateway) = approved().await;
    origin.break_everything(Fault::Hang);
    let host = gateway.host();
    tokio::select! {
        answer = host.read(FILE) => panic!("it hangs, but: {}", answer.text),
        () = origin.was_asked("resources/read", 1) => {}
    }
    assert_eq!(gateway.stop().await, 0);
    gateway.finish().await;
}

#[tokio::test]
async fn a_second_signal_ends_it_at_once() {
    let (origin, mut gateway) = approved().await;
    origin.break_method("resources/read", Fault::Hang);
    let host = gateway.host();
    let end = async {
        origin.was_asked("resources/read", 1).await;
        // The listener closes once the first signal is seen; only then is the second one a second.
        gateway.signal(Signal::INT);
        gateway.accepts_no_more().await;
        gateway.signal(Signal::INT);
        gateway.ended().await
    };
    let mut reading = tokio::task::JoinSet::new();
    reading.spawn(async move { host.read(FILE).await });
    assert_eq!(end.await, 130);
    let read = reading.join_next().await.unwrap();
    assert!(read.is_err(), "its connection broke");
    gateway.finish().await;
}

#[tokio::test]
async fn a_second_process_on_the_same_folder_is_refused_and_told_who_holds_it() {
    // case M4.
    let (_origin, gateway) = approved().await;
    let refused = gateway.cli(&["serve"]).await;
    assert!([2, 64].contains(&refused.code), "{refused:?}");
    assert_eq!(refused.out, "", "it is not ready");
    let holder = gateway.process_id().to_string();
    assert!(refused.err.contains(&holder), "{holder} in {}", refused.err);
    assert_eq!(gateway.host().uris().await, [FILE]);
    gateway.finish().await;
}

#[tokio::test]
async fn a_folder_that_is_not_ours_is_not_touched() {
    let gateway = Setup::new().written();
    let file = gateway.data().join("letter.txt");
    std::fs::create_dir(gateway.data()).unwrap();
    crate::support::disk::write(&file, b"Dear reader");
    let refused = gateway.cli(&["serve"]).await;
    assert_eq!((refused.code, refused.out.as_str()), (64, ""), "{}", refused.err);
    assert_eq!(crate::support::disk::files(&gateway.data()), [file]);
    gateway.abandon();
}

#[tokio::test]
async fn a_killed_process_leaves_nothing_in_the_way_of_the_next() {
    let (origin, mut gateway) = approved().await;
    origin.break_method("resources/read", Fault::Hang);
    let host = gateway.host();
    tokio::select! {
        answer = host.read(FILE) => panic!("it hangs, but: {}", answer.text),
        () = origin.was_asked("resources/read", 1) => {}
    }
    gateway.kill().await;
    origin.mend();
    gateway.start().await;
    assert_eq!(gateway.host().read(FILE).await.bytes(), refunds().bytes("SKILL.md"));
    gateway.finish().await;
}
