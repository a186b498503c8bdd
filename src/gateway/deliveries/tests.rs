//! The queue: what waits is bounded, nothing is dropped, and nothing leaves that cannot be recorded.

use std::net::Ipv4Addr;
use std::ops::ControlFlow;
use std::path::Path;

use rustix::io::Errno;

use super::*;
use crate::clock::Clock;
use crate::config::Config;
use crate::gateway::DeliveryQuery;
use crate::gateway::Mode;
use crate::shutdown::Shutdown;
use crate::store::Watch;

/// Answers that fit into the queue of these tests.
const FITTING: usize = 64 * 1024 / size_of::<Accepted>();

async fn gateway(folder: &Path, settings: &str) -> Gateway {
    let text = format!("[store]\nallow_unsafe_location = true\n[audit]\nqueue_bytes = \"64 KiB\"\n{settings}");
    let config = Config::parse(text.as_bytes(), &folder.join("proxy.toml"), &|_| None).unwrap();
    let opened = Gateway::open(&config, Mode::default(), Clock::system(), Shutdown::new());
    let gateway = Box::pin(opened).await.unwrap();
    gateway.0.store.settle();
    gateway
}

fn asked() -> Asked {
    Asked {
        caller: Caller::at(Ipv4Addr::LOCALHOST.into()),
        view: View::Merged,
        method: Method::Read,
        uri: None,
        about: About::default(),
        outcome: Outcome::Delivered,
    }
}

async fn found(gateway: &Gateway) -> u64 {
    let hear = |_| ControlFlow::Continue(());
    gateway.deliveries(&DeliveryQuery::default(), hear).await.unwrap().found
}

/// Waits until everything that was accepted is written.
async fn all_written(gateway: &Gateway) {
    while gateway.0.deliveries.recording().waiting > 0 {
        tokio::time::sleep(GATHER).await;
    }
}

#[tokio::test(start_paused = true)]
async fn with_a_full_disk_answers_leave_until_the_queue_is_full_and_again_when_there_is_room() {
    let folder = tempfile::tempdir().unwrap();
    let gateway = gateway(folder.path(), "").await;
    gateway.record(asked()).await.unwrap();
    all_written(&gateway).await;
    let watch = Watch::over(&folder.path().join("data"));
    watch.break_all(Errno::NOSPC);
    let mut accepted = 1;
    let begun = loop {
        let begun = Instant::now();
        match gateway.record(asked()).await {
            Ok(()) => accepted += 1,
            Err(Unrecorded) => break begun,
        }
    };
    assert!(begun.elapsed() >= ROOM_WAIT && begun.elapsed() < ROOM_WAIT * 2);
    assert!((FITTING..FITTING + 2).contains(&accepted), "{accepted} of {FITTING}");
    let recording = gateway.0.deliveries.recording();
    let problem = recording.problem.unwrap();
    assert!(problem.contains("no space"), "{problem}");
    assert_eq!(recording.waiting as usize, accepted - 1);
    watch.disarm();
    gateway.record(asked()).await.unwrap();
    all_written(&gateway).await;
    assert_eq!(gateway.0.deliveries.recording().problem, None);
    assert_eq!(found(&gateway).await as usize, accepted + 1);
    gateway.close_deliveries().await;
    assert!(
        gateway
            .verify_record(store::Kept::default(), |_, _| {})
            .await
            .unwrap()
            .is_sound()
    );
}

#[tokio::test(start_paused = true)]
async fn one_who_waits_for_room_gets_it_as_soon_as_there_is_some() {
    let folder = tempfile::tempdir().unwrap();
    let gateway = gateway(folder.path(), "").await;
    // Nothing is written before the gathering is over, so that these fill the queue.
    for _ in 0..FITTING {
        gateway.record(asked()).await.unwrap();
    }
    let begun = Instant::now();
    for _ in 0..FITTING {
        gateway.record(asked()).await.unwrap();
    }
    assert!(begun.elapsed() < ROOM_WAIT, "{:?}", begun.elapsed());
    assert_eq!(found(&gateway).await as usize, 2 * FITTING);
    gateway.close_deliveries().await;
}

#[tokio::test(start_paused = true)]
async fn a_strict_record_refuses_what_it_cannot_flush() {
    let folder = tempfile::tempdir().unwrap();
    let gateway = gateway(folder.path(), "strict = true").await;
    gateway.record(asked()).await.unwrap();
    assert_eq!(gateway.0.deliveries.recording().waiting, 0);
    let watch = Watch::over(&folder.path().join("data"));
    watch.break_all(Errno::IO);
    assert_eq!(gateway.record(asked()).await, Err(Unrecorded));
    watch.disarm();
}

#[tokio::test(start_paused = true)]
async fn the_end_seals_what_was_accepted_and_accepts_nothing_more() {
    let folder = tempfile::tempdir().unwrap();
    let gateway = gateway(folder.path(), "").await;
    for _ in 0..10 {
        gateway.record(asked()).await.unwrap();
    }
    gateway.close_deliveries().await;
    assert_eq!(gateway.record(asked()).await, Err(Unrecorded));
    let report = gateway.verify_record(store::Kept::default(), |_, _| {}).await.unwrap();
    assert_eq!((report.deliveries.segments, report.deliveries.deliveries), (1, 10));
    assert!(gateway.0.shutdown.drain(Duration::from_secs(60)).await.all);
}

#[tokio::test(start_paused = true)]
async fn who_received_is_told_by_caller_with_the_first_and_the_last_time() {
    let folder = tempfile::tempdir().unwrap();
    let gateway = gateway(folder.path(), "").await;
    let from = |last: u8, outcome| Asked {
        caller: Caller::at(Ipv4Addr::new(192, 0, 2, last).into()),
        outcome,
        ..asked()
    };
    for last in [1, 2, 1, 1] {
        gateway.record(from(last, Outcome::Delivered)).await.unwrap();
    }
    gateway.record(from(3, Outcome::Refused("held".into()))).await.unwrap();
    let (receivers, looked) = gateway.who_received(&DeliveryQuery::default()).await.unwrap();
    let mut told: Vec<_> = receivers
        .iter()
        .map(|receiver| (receiver.name.as_deref(), receiver.count))
        .collect();
    told.sort_unstable();
    assert_eq!(told, [(Some("address:192.0.2.1"), 3), (Some("address:192.0.2.2"), 1)]);
    assert!(receivers.iter().all(|receiver| receiver.first <= receiver.last));
    assert!(looked.damaged.is_empty());
    gateway.close_deliveries().await;
}
