//! Asking witnesses to cosign the log's checkpoints (C2SP tlog-witness).
//!
//! Each new checkpoint is offered, at most one a second, to every witness that is not being asked. One that is slow, dead
//! or talks nonsense is asked again later and later, and holds up no other and nothing else. Nothing is believed but a
//! signature line that verifies.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering;
use std::time::Duration;

use http::StatusCode;
use parking_lot::Mutex;
use reqwest::Url;
use serde::Deserialize;
use serde::Serialize;
use tokio::sync::Notify;
use tokio::sync::watch;
use tokio::time::Instant;

use super::Error;
use super::Gateway;
use super::Inner;
use crate::config;
use crate::config::WitnessMode;
use crate::domain::Timestamp;
use crate::domain::audit::AddCheckpoint;
use crate::domain::audit::MAX_CHECKPOINT_BYTES;
use crate::domain::audit::SignedCheckpoint;
use crate::domain::audit::VerifierKey;
use crate::store::Point;
use crate::store::Store;
use crate::telemetry::chain;

/// The shortest time between two checkpoints that are offered.
const ROUND: Duration = Duration::from_secs(1);

/// The longest that one witness may take to answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// The longest time until a witness that failed is asked again.
const LATEST_RETRY: Duration = Duration::from_secs(60);

/// How long a decision waits for the cosignatures it needs, under `witness_mode = "require"`.
const DECISION_WAIT: Duration = Duration::from_secs(5);

/// How long a witness may lack before health is red, under `witness_mode = "require"`.
const LATE: Duration = Duration::from_secs(60);

/// The witnesses of this log, and what each has said.
pub(super) struct Witnessing {
    witnesses: Vec<Witness>,
    quorum: usize,
    mode: WitnessMode,
    /// Held for a look.
    state: Mutex<State>,
    /// Somebody waits for cosignatures.
    hurry: Notify,
    /// Counts what witnesses said.
    said: watch::Sender<u64>,
    /// Whether they are being asked at all.
    has_begun: AtomicBool,
}

#[derive(Clone)]
struct Witness {
    key: VerifierKey,
    url: Url,
    client: reqwest::Client,
}

impl Witness {
    fn new(config: &config::Witness) -> Result<Self, Error> {
        let client = reqwest::Client::builder()
            .connect_timeout(PATIENCE)
            .timeout(PATIENCE)
            .redirect(reqwest::redirect::Policy::none())
            .build();
        Ok(Self {
            key: config.key.clone(),
            url: prefix(&config.url),
            client: client.map_err(|error| Error::Task(error.to_string()))?,
        })
    }

    async fn send(&self, request: &AddCheckpoint) -> Result<(StatusCode, Vec<u8>), Failed> {
        let mut response = self
            .client
            .post(self.url.clone())
            .body(request.to_text())
            .send()
            .await?;
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await? {
            body.extend_from_slice(&chunk);
            if body.len() > MAX_CHECKPOINT_BYTES {
                return Err(Failed::Endless);
            }
        }
        Ok((response.status(), body))
    }
}

/// What is known of the witnesses, in their order.
struct State {
    standings: Vec<Standing>,
    /// The newest checkpoint that any of them cosigned, with all cosignatures for it.
    collected: Option<SignedCheckpoint>,
}

/// What one witness has said.
#[derive(Clone, Debug, Default)]
struct Standing {
    /// Leaves that it cosigned; by its own word even before we have its signature.
    cosigned: u64,
    /// Leaves that it says it has seen.
    seen: u64,
    /// Since when it has not cosigned the newest checkpoint.
    lacking: Option<Timestamp>,
    /// What went wrong last, if that was the last thing.
    error: Option<String>,
    /// Failures in a row.
    failures: u32,
    /// Not to be asked before.
    rests_until: Option<Instant>,
    /// Whether it is being asked.
    is_asked: bool,
}

/// How a witness stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WitnessStatus {
    /// The name of its key.
    pub name: String,
    /// Leaves under the newest checkpoint that it cosigned.
    pub cosigned: u64,
    /// Since when it has not cosigned the newest one.
    pub lacking_since: Option<Timestamp>,
    /// What went wrong when it was last asked.
    pub error: Option<String>,
}

/// Why a witness did not cosign.
#[derive(Debug, thiserror::Error)]
enum Failed {
    #[error("it cannot be reached")]
    Unreachable(#[from] reqwest::Error),
    #[error("it took longer than {} s", PATIENCE.as_secs())]
    Slow,
    #[error("its answer has over {MAX_CHECKPOINT_BYTES} bytes")]
    Endless,
    #[error("it says {0}")]
    Says(StatusCode),
    #[error("it does not know this log, or not this key of it")]
    Unknown,
    #[error("it says that history was rewritten: the log does not go on from what it cosigned")]
    Rewritten,
    #[error("it has cosigned {witness} leaves, and this log has {log}: an older log was put back")]
    Ahead { witness: u64, log: u64 },
    #[error("its answer is no cosignature of its key")]
    Nonsense,
}

impl Witnessing {
    /// The witnesses that the configuration names; what the store has of them counts.
    pub(super) fn new(config: &config::Audit, store: &Store) -> Result<Self, Error> {
        let witnesses: Vec<_> = config.witnesses.iter().map(Witness::new).collect::<Result<_, _>>()?;
        let collected = store.cosigned();
        let standing = |witness: &Witness| {
            let kept = collected.as_ref().filter(|kept| kept.verify(&witness.key).is_ok());
            let cosigned = kept.map_or(0, |kept| kept.checkpoint().size);
            Standing {
                cosigned,
                seen: cosigned,
                ..Standing::default()
            }
        };
        let standings = witnesses.iter().map(standing).collect();
        Ok(Self {
            witnesses,
            quorum: config.witness_quorum,
            mode: config.witness_mode,
            state: Mutex::new(State { standings, collected }),
            hurry: Notify::new(),
            said: watch::Sender::new(0),
            has_begun: AtomicBool::new(false),
        })
    }

    /// The newest checkpoint that any witness cosigned.
    pub(super) fn collected(&self) -> Option<SignedCheckpoint> {
        self.state.lock().collected.clone()
    }

    /// Says whether enough witnesses have cosigned so many leaves.
    fn is_witnessed(&self, size: u64) -> bool {
        let state = self.state.lock();
        let cosigned = state.standings.iter().filter(|standing| standing.cosigned >= size);
        cosigned.count() >= self.quorum
    }

    /// The witnesses that are to be asked about a checkpoint of so many leaves; they count as being asked from now on.
    fn to_ask(&self, size: u64, now: Timestamp) -> Vec<usize> {
        let mut state = self.state.lock();
        let mut asked = Vec::new();
        for (at, standing) in state.standings.iter_mut().enumerate() {
            if standing.cosigned >= size {
                standing.lacking = None;
                continue;
            }
            standing.lacking.get_or_insert(now);
            let rests = standing.rests_until.is_some_and(|until| Instant::now() < until);
            if !rests && !standing.is_asked {
                standing.is_asked = true;
                asked.push(at);
            }
        }
        asked
    }

    /// Takes in what a witness answered; gives the collected checkpoint when enough have cosigned that one.
    fn take(&self, at: usize, offered: &SignedCheckpoint, answer: Result<Vec<u8>, Failed>) -> Option<SignedCheckpoint> {
        let key = &self.witnesses.get(at)?.key;
        let mut state = self.state.lock();
        let State { standings, collected } = &mut *state;
        let standing = standings.get_mut(at)?;
        standing.is_asked = false;
        let size = offered.checkpoint().size;
        let is_newer = |known: &&mut SignedCheckpoint| known.checkpoint().size >= size;
        let taken = answer.and_then(|line| {
            let mut signed = match collected.as_mut().filter(is_newer) {
                // Cosignatures go to one checkpoint as long as it is the same.
                Some(known) if known.text() == offered.text() => known.clone(),
                Some(_) | None => offered.clone(),
            };
            signed.take_cosignature(key, &line).map_err(|_| Failed::Nonsense)?;
            Ok(signed)
        });
        let done = match taken {
            Ok(signed) => {
                standing.cosigned = standing.cosigned.max(size);
                standing.seen = standing.cosigned;
                standing.lacking = None;
                standing.error = None;
                standing.failures = 0;
                standing.rests_until = None;
                let is_older = collected.as_ref().is_some_and(|known| known.checkpoint().size > size);
                (!is_older).then(|| collected.insert(signed).clone())
            }
            Err(failed) => {
                standing.fail(key, &failed);
                None
            }
        };
        drop(state);
        self.said.send_modify(|count| *count += 1);
        done.filter(|signed| self.count(signed) >= self.quorum)
    }

    /// How many witnesses have cosigned a checkpoint.
    fn count(&self, signed: &SignedCheckpoint) -> usize {
        let signers = self
            .witnesses
            .iter()
            .filter(|witness| signed.verify(&witness.key).is_ok());
        signers.count()
    }

    /// How each stands to a checkpoint of so many leaves.
    fn statuses(&self, size: u64, now: Timestamp) -> Vec<WitnessStatus> {
        let state = self.state.lock();
        let status = |(witness, standing): (&Witness, &Standing)| WitnessStatus {
            name: witness.key.name().to_owned(),
            cosigned: standing.cosigned,
            lacking_since: (standing.cosigned < size).then(|| standing.lacking.unwrap_or(now)),
            error: standing.error.clone(),
        };
        self.witnesses.iter().zip(&state.standings).map(status).collect()
    }

    /// Offers a checkpoint to a witness, once more where it knows another size than we thought.
    async fn offer(&self, at: usize, store: &Store, offered: &SignedCheckpoint) -> Result<Vec<u8>, Failed> {
        let size = offered.checkpoint().size;
        for _ in 0..2 {
            let (witness, seen) = {
                let state = self.state.lock();
                let (witness, standing) = self
                    .witnesses
                    .get(at)
                    .zip(state.standings.get(at))
                    .ok_or(Failed::Nonsense)?;
                (witness.clone(), standing.seen)
            };
            if seen > size {
                return Err(Failed::Ahead {
                    witness: seen,
                    log: size,
                });
            }
            let proof = store.consistency(&Point::Size(seen), &Point::Size(size)).proof;
            let request = AddCheckpoint {
                old: seen,
                proof,
                checkpoint: offered.clone(),
            };
            let (status, body) = tokio::time::timeout(PATIENCE, witness.send(&request))
                .await
                .map_err(|_elapsed| Failed::Slow)??;
            match status {
                StatusCode::OK => return Ok(body),
                StatusCode::CONFLICT => {
                    let told = size_in(&body).ok_or(Failed::Nonsense)?;
                    if let Some(standing) = self.state.lock().standings.get_mut(at) {
                        standing.seen = told;
                    }
                }
                StatusCode::NOT_FOUND | StatusCode::FORBIDDEN => return Err(Failed::Unknown),
                StatusCode::UNPROCESSABLE_ENTITY => return Err(Failed::Rewritten),
                other => return Err(Failed::Says(other)),
            }
        }
        Err(Failed::Nonsense)
    }
}

impl Standing {
    fn fail(&mut self, key: &VerifierKey, failed: &Failed) {
        let why = chain(failed);
        if self.error.as_ref() != Some(&why) {
            tracing::warn!(witness = key.name(), why, "a witness did not cosign the log");
        }
        self.error = Some(why);
        // What it says it has seen is asked again the next time.
        self.seen = self.cosigned;
        self.failures = self.failures.saturating_add(1);
        let rest = ROUND.saturating_mul(2_u32.saturating_pow(self.failures.min(16)));
        self.rests_until = Some(Instant::now() + rest.min(LATEST_RETRY));
    }
}

impl Gateway {
    /// Begins to ask the witnesses, if there are any and nobody has begun yet.
    pub fn start_witnessing(&self) {
        self.0.start_witnessing();
    }

    /// The same as [`Inner::witnessed`]; who opened the folder for one command asks the witnesses now that it has to.
    pub(super) async fn witnessed(&self) -> Result<(), Error> {
        self.start_witnessing();
        self.0.witnessed().await
    }

    /// How the witnesses stand.
    pub fn witnesses(&self) -> Vec<WitnessStatus> {
        self.0.witnessing.statuses(self.0.newest_size(), self.0.clock.now())
    }

    /// Names the witnesses for whose lack nothing is opened any more, if that is so for longer than a round or two.
    pub fn witnesses_too_late(&self) -> Option<String> {
        let witnessing = &self.0.witnessing;
        let now = self.0.clock.now();
        let is_late = |status: &WitnessStatus| {
            let until = status.lacking_since.and_then(|since| since.checked_add(LATE));
            until.is_some_and(|until| until < now)
        };
        let late: Vec<_> = self.witnesses().into_iter().filter(is_late).collect();
        let few = witnessing.witnesses.len() - late.len() < witnessing.quorum;
        (witnessing.mode == WitnessMode::Require && few).then(|| names(&late))
    }
}

impl Inner {
    /// Begins to ask the witnesses, if there are any and nobody has begun yet.
    fn start_witnessing(self: &Arc<Self>) {
        let witnessing = &self.witnessing;
        if witnessing.witnesses.is_empty() || witnessing.has_begun.swap(true, Ordering::Relaxed) {
            return;
        }
        let inner = Arc::clone(self);
        drop(self.shutdown.spawn(async move {
            while !inner.shutdown.is_begun() {
                inner.offer_newest();
                tokio::select! {
                    () = tokio::time::sleep(ROUND) => {}
                    () = inner.shutdown.begun() => {}
                }
                tokio::select! {
                    () = inner.witnessing.hurry.notified() => {}
                    () = tokio::time::sleep(ROUND) => {}
                    () = inner.shutdown.begun() => {}
                }
            }
        }));
    }

    /// Lets through what opens: where witnesses are required, the newest checkpoint must be cosigned by enough of them.
    ///
    /// # Errors
    ///
    /// [`Error::NotWitnessed`] when that is not so within a few seconds.
    pub(super) async fn witnessed(&self) -> Result<(), Error> {
        let witnessing = &self.witnessing;
        if witnessing.mode == WitnessMode::Warn {
            return Ok(());
        }
        let size = self.newest_size();
        let mut said = witnessing.said.subscribe();
        let cosigned = async {
            while !witnessing.is_witnessed(size) {
                witnessing.hurry.notify_one();
                if said.changed().await.is_err() {
                    break;
                }
            }
        };
        let waited = tokio::time::timeout(DECISION_WAIT, cosigned).await;
        if waited.is_ok() && witnessing.is_witnessed(size) {
            return Ok(());
        }
        let all = witnessing.statuses(size, self.clock.now()).into_iter();
        let lacking = all.filter(|status| status.cosigned < size);
        Err(Error::NotWitnessed {
            size,
            quorum: witnessing.quorum,
            lacking: names(&lacking.collect::<Vec<_>>()),
        })
    }

    /// Leaves under the newest checkpoint.
    fn newest_size(&self) -> u64 {
        let newest = SignedCheckpoint::parse(&self.store.checkpoint());
        newest.map_or(u64::MAX, |newest| newest.checkpoint().size)
    }

    /// Offers the newest checkpoint to every witness that has not cosigned it.
    fn offer_newest(self: &Arc<Self>) {
        let Ok(newest) = SignedCheckpoint::parse(&self.store.checkpoint()) else {
            return;
        };
        for at in self.witnessing.to_ask(newest.checkpoint().size, self.clock.now()) {
            let (inner, newest) = (Arc::clone(self), newest.clone());
            drop(self.shutdown.spawn(async move { inner.ask(at, &newest).await }));
        }
    }

    async fn ask(&self, at: usize, newest: &SignedCheckpoint) {
        let answer = tokio::select! {
            answer = self.witnessing.offer(at, &self.store, newest) => answer,
            () = self.shutdown.begun() => return,
        };
        if let Some(signed) = self.witnessing.take(at, newest, answer)
            && let Err(error) = self.on_disk(move |store| store.keep_cosigned(&signed)).await
        {
            tracing::error!(error = %chain(&error), "a cosigned checkpoint is not kept");
        }
    }
}

/// Where requests go.
fn prefix(url: &Url) -> Url {
    let mut whole = url.clone();
    let path = format!("{}/add-checkpoint", url.path().trim_end_matches('/'));
    whole.set_path(&path);
    whole
}

/// The size that a witness tells who thought another one.
fn size_in(body: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(body).ok()?.strip_suffix('\n')?;
    let size: u64 = text.parse().ok()?;
    (size.to_string() == text).then_some(size)
}

fn names(statuses: &[WitnessStatus]) -> String {
    let name = |status: &WitnessStatus| match &status.error {
        Some(error) => format!("{} ({error})", status.name),
        None => status.name.clone(),
    };
    statuses.iter().map(name).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::clock::Clock;
    use crate::config::Config;
    use crate::domain::audit::KeyKind;
    use crate::domain::audit::NoteKey;
    use crate::gateway::Mode;
    use crate::shutdown::Shutdown;

    const NOW: Timestamp = Timestamp::from_millis(1_790_000_000_000);

    fn key(seed: u8) -> NoteKey {
        NoteKey::new("witness.example", KeyKind::Witness, &[seed; 32]).unwrap()
    }

    /// A gateway with two witnesses that are never asked, one of which is enough; and its clock.
    async fn gateway(data: &Path) -> (Gateway, Clock) {
        crate::tls::install_provider();
        let witness = |seed| {
            let key = key(seed);
            format!("{{ key = \"{}\", url = \"http://127.0.0.1:1/w/\" }}", key.verifier())
        };
        let text = format!(
            "store.data_dir = \"{}\"\n[audit]\nwitnesses = [{}, {}]\nwitness_quorum = 1\nwitness_mode = \"require\"\n\
             [[origin]]\nlabel = \"none\"\ndir = \"nothing\"\n",
            data.display(),
            witness(1),
            witness(2)
        );
        let config = Config::parse(text.as_bytes(), Path::new("/proxy.toml"), &|_| None).unwrap();
        let clock = Clock::manual(NOW);
        let opened = Gateway::open(&config, Mode::default(), clock.clone(), Shutdown::new()).await;
        (opened.unwrap(), clock)
    }

    fn newest(gateway: &Gateway) -> SignedCheckpoint {
        SignedCheckpoint::parse(&gateway.0.store.checkpoint()).unwrap()
    }

    #[tokio::test]
    async fn the_cosignatures_of_one_checkpoint_come_together_and_are_served_with_it() {
        let folder = tempfile::tempdir().unwrap();
        let (gateway, _clock) = gateway(&folder.path().join("data")).await;
        let (witnessing, offered) = (&gateway.0.witnessing, newest(&gateway));
        let size = offered.checkpoint().size;
        assert_eq!(witnessing.to_ask(size, NOW), [0, 1]);
        assert_eq!(
            witnessing.to_ask(size, NOW),
            [0_usize; 0],
            "each is asked once at a time"
        );
        let nonsense = witnessing.take(0, &offered, Ok(b"200 OK\n".to_vec()));
        assert!(nonsense.is_none() && !witnessing.is_witnessed(size));
        // The key of another witness does not count for this one.
        let strange = key(2).sign(offered.text(), 1);
        assert!(witnessing.take(0, &offered, Ok(strange)).is_none());
        for (at, seed) in [(1, 2), (0, 1)] {
            let line = key(seed).sign(offered.text(), 1_790_000_000);
            let kept = witnessing.take(at, &offered, Ok(line)).unwrap();
            gateway.0.store.keep_cosigned(&kept).unwrap();
        }
        assert!(witnessing.is_witnessed(size) && !witnessing.is_witnessed(size + 1));
        let served = SignedCheckpoint::parse(&gateway.checkpoint()).unwrap();
        for seed in [1, 2] {
            served.verify(key(seed).verifier()).unwrap();
        }
        assert_eq!(gateway.cosigned_checkpoint(), Some(served.to_bytes()));
        gateway.witnessed().await.unwrap();
    }

    #[tokio::test]
    async fn health_is_red_once_too_few_have_cosigned_for_long() {
        let folder = tempfile::tempdir().unwrap();
        let (gateway, clock) = gateway(&folder.path().join("data")).await;
        let (witnessing, offered) = (&gateway.0.witnessing, newest(&gateway));
        let size = offered.checkpoint().size;
        assert_eq!(witnessing.to_ask(size, NOW), [0, 1]);
        clock.advance(LATE);
        assert_eq!(gateway.witnesses_too_late(), None);
        clock.advance(Duration::from_secs(1));
        let late = gateway.witnesses_too_late().unwrap();
        assert_eq!(late, "witness.example, witness.example");
        let line = key(1).sign(offered.text(), 1);
        assert!(witnessing.take(0, &offered, Ok(line)).is_some());
        assert_eq!(gateway.witnesses_too_late(), None, "one is enough");
        let lacking: Vec<_> = gateway.witnesses().iter().map(|one| one.lacking_since).collect();
        assert_eq!(lacking, [None, Some(NOW)]);
    }

    #[tokio::test(start_paused = true)]
    async fn who_fails_is_asked_later_and_later_and_a_claim_is_not_believed_for_ever() {
        let mut standing = Standing {
            cosigned: 3,
            ..Standing::default()
        };
        let mut rests = Vec::new();
        for _ in 0..9 {
            standing.seen = u64::MAX;
            standing.fail(key(1).verifier(), &Failed::Slow);
            assert_eq!(standing.seen, 3);
            rests.push((standing.rests_until.unwrap() - Instant::now()).as_secs());
        }
        assert_eq!(rests, [2, 4, 8, 16, 32, 60, 60, 60, 60]);
    }

    #[test]
    fn requests_go_below_the_prefix() {
        for (url, whole) in [
            ("https://w.example", "https://w.example/add-checkpoint"),
            ("https://w.example/a/", "https://w.example/a/add-checkpoint"),
        ] {
            assert_eq!(prefix(&url.parse().unwrap()).as_str(), whole);
        }
        assert_eq!(size_in(b"12\n"), Some(12));
        for nonsense in [
            &b"12"[..],
            b"012\n",
            b"-1\n",
            b"\n",
            b"12\n\n",
            b"99999999999999999999\n",
        ] {
            assert_eq!(size_in(nonsense), None);
        }
    }
}
