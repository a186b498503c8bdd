//! Verified files on their way to the disk: stored behind the answers, in one round of flushes where many come at once.
//!
//! What waits is bounded in bytes. When the disk is so slow that there is no room for long, a file is served and not stored.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::OwnedSemaphorePermit;
use tokio::sync::Semaphore;

use super::Error;
use super::Inner;
use super::obtain::FlightKey;
use crate::domain::VerifiedFile;
use crate::store::Store;
use crate::telemetry::chain;

/// KiB of files that may wait to be stored: a few of the largest.
const ROOM_KIB: u32 = 64 * 1024;

/// How long an answer waits for that room.
const ROOM_WAIT: Duration = Duration::from_secs(1);

/// Files stored in one round of flushes.
const BATCH: usize = 256;

/// Files that wait to be stored.
pub(super) struct Behind {
    room: Arc<Semaphore>,
    /// Held for a look.
    queue: Mutex<Queue>,
}

#[derive(Default)]
struct Queue {
    files: Vec<Waiting>,
    /// Whether a task stores them.
    is_worked_off: bool,
}

/// One file, with the flight that answers who asks for it until it is stored: so that it is fetched once.
struct Waiting {
    flight: FlightKey,
    file: Arc<VerifiedFile>,
    _room: OwnedSemaphorePermit,
}

impl Default for Behind {
    fn default() -> Self {
        Self {
            room: Arc::new(Semaphore::new(ROOM_KIB as usize)),
            queue: Mutex::default(),
        }
    }
}

impl Behind {
    /// Takes a file in; says whether somebody has to begin to work the queue off. Gives the flight back when there is no
    /// room.
    async fn take(&self, flight: FlightKey, file: &Arc<VerifiedFile>) -> Result<bool, FlightKey> {
        let kib = u32::try_from(file.bytes().len() / 1024 + 1).unwrap_or(ROOM_KIB);
        let room = Arc::clone(&self.room).acquire_many_owned(kib.min(ROOM_KIB));
        let Ok(Ok(room)) = tokio::time::timeout(ROOM_WAIT, room).await else {
            return Err(flight);
        };
        let mut queue = self.queue.lock();
        queue.files.push(Waiting {
            flight,
            file: Arc::clone(file),
            _room: room,
        });
        Ok(!std::mem::replace(&mut queue.is_worked_off, true))
    }

    /// The next files to store together; none when nothing is left to do.
    fn next(&self) -> Option<Vec<Waiting>> {
        let mut queue = self.queue.lock();
        let count = queue.files.len().min(BATCH);
        queue.is_worked_off = count > 0;
        (count > 0).then(|| queue.files.drain(..count).collect())
    }
}

impl Inner {
    /// Stores a verified file behind the answer; the drain waits for it.
    pub(super) async fn keep(self: &Arc<Self>, flight: FlightKey, file: &Arc<VerifiedFile>) {
        match self.behind.take(flight, file).await {
            Ok(true) => {
                let inner = Arc::clone(self);
                drop(self.shutdown.spawn(async move { inner.work_off().await }));
            }
            Ok(false) => {}
            Err(flight) => {
                tracing::warn!(skill = %flight.skill, "a verified file is served and not stored: the disk does not keep up");
                self.flights.lock().remove(&flight);
            }
        }
    }

    async fn work_off(&self) {
        while let Some(batch) = self.behind.next() {
            if self.store(&batch).await.is_err() {
                // Nothing of the round is stored; one that has no room keeps no other out.
                for one in &batch {
                    if let Err(error) = self.store(std::slice::from_ref(one)).await {
                        let skill = &one.flight.skill;
                        tracing::warn!(%skill, error = %chain(&error), "a verified file is served and not stored");
                    }
                }
            }
            let mut flights = self.flights.lock();
            for one in &batch {
                flights.remove(&one.flight);
                // Rules may ask about what is in files.
                self.look_soon(&one.flight.skill.label);
            }
        }
    }

    /// Stores files in one round of flushes.
    async fn store(&self, files: &[Waiting]) -> Result<(), Error> {
        let files = files
            .iter()
            .map(|one| (Arc::clone(&one.flight.skill), Arc::clone(&one.file)));
        let files: Vec<_> = files.collect();
        let put = move |store: &Store| {
            let files = files.iter().map(|(skill, file)| (skill.as_ref(), file.as_ref()));
            store.put_files(&files.collect::<Vec<_>>())
        };
        self.on_disk(put).await
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use serde_json::json;

    use super::*;
    use crate::domain::Digest;
    use crate::domain::Form;
    use crate::domain::FrontmatterPolicy;
    use crate::domain::Limits;
    use crate::domain::Media;
    use crate::domain::SkillEntry;
    use crate::domain::SkillKey;
    use crate::upstream::Attempt;

    /// A quarter of the room.
    const QUARTER: usize = 16 * 1024 * 1024 - 1;

    fn waiting() -> (FlightKey, Arc<VerifiedFile>) {
        let (uri, bytes) = ("skill://a/big.bin", Bytes::from(vec![0; QUARTER]));
        let resource = |uri: &str, bytes: &[u8]| json!({ "uri": uri, "digest": Digest::of(bytes).to_string(), "size": bytes.len() });
        let entry = json!({
            "uri": "skill://a/SKILL.md",
            "frontmatter": { "name": "a", "description": "d" },
            "resources": [resource("skill://a/SKILL.md", b""), resource(uri, &bytes)],
        });
        let entry = SkillEntry::parse(&entry.to_string(), &Limits::default()).unwrap();
        let media = Media {
            form: Form::Blob,
            mime_type: None,
        };
        let file = entry.verify(uri, bytes, media, FrontmatterPolicy::Strict).unwrap();
        let skill = SkillKey {
            label: "acme".parse().unwrap(),
            uri: entry.uri().clone(),
        };
        let flight = FlightKey {
            attempt: Attempt::Ordinary,
            skill: Arc::new(skill),
            set: entry.set(),
            uri: file.uri().clone(),
        };
        (flight, Arc::new(file))
    }

    #[tokio::test(start_paused = true)]
    async fn what_waits_is_bounded_and_there_is_room_again_when_it_is_stored() {
        let (behind, (flight, file)) = (Behind::default(), waiting());
        for turn in 0..2 {
            for number in 0..4 {
                let is_first = behind.take(flight.clone(), &file).await;
                assert_eq!(is_first, Ok(number == 0), "one task works the queue off");
            }
            assert_eq!(
                behind.take(flight.clone(), &file).await,
                Err(flight.clone()),
                "turn {turn}"
            );
            assert_eq!(behind.next().map(|batch| batch.len()), Some(4));
            assert!(behind.next().is_none());
        }
    }
}
