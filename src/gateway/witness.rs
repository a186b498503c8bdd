//! A witness of other logs: cosigns what goes on from what it cosigned last (C2SP tlog-witness).
//!
//! Needs no data folder of a gateway. What is decided is pure and stands in `domain::audit`; what is kept is the store's.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use super::Error;
use crate::clock::Clock;
use crate::domain::audit::AddCheckpoint;
use crate::domain::audit::Refused;
use crate::domain::audit::VerifierKey;
use crate::store::WitnessFolder;

/// How a witness is run.
#[derive(Clone, Debug)]
pub struct WitnessOptions {
    /// Where it listens.
    pub listen: SocketAddr,
    /// The folder of its key and its memory.
    pub state: PathBuf,
    /// The keys of the logs that it witnesses; a log may have several.
    pub logs: Vec<VerifierKey>,
    /// The name of its key, when that is made.
    pub name: String,
}

/// A witness. Cheap to clone.
#[derive(Clone)]
pub struct Witness(Arc<Inner>);

struct Inner {
    folder: WitnessFolder,
    logs: Vec<VerifierKey>,
    clock: Clock,
}

impl Witness {
    /// Takes the folder.
    ///
    /// # Errors
    ///
    /// [`Error::Store`] when it is in use or damaged.
    pub async fn open(options: &WitnessOptions, clock: Clock) -> Result<Self, Error> {
        let (state, name, now) = (options.state.clone(), options.name.clone(), clock.now());
        let folder = off_the_runtime(move || WitnessFolder::open(&state, &name, now)).await??;
        Ok(Self(Arc::new(Inner {
            folder,
            logs: options.logs.clone(),
            clock,
        })))
    }

    /// The key that it cosigns with, as C2SP signed-note writes it.
    pub fn key(&self) -> String {
        self.0.folder.key().to_string()
    }

    /// Answers a request to add a checkpoint with the signature line, which is durable by then.
    ///
    /// # Errors
    ///
    /// [`Error::Store`] when it cannot be kept, and then nothing is cosigned.
    pub async fn add_checkpoint(&self, body: &[u8]) -> Result<Result<Vec<u8>, Refused>, Error> {
        let request = match AddCheckpoint::parse(body) {
            Ok(request) => request,
            Err(refused) => return Ok(Err(refused)),
        };
        let inner = Arc::clone(&self.0);
        let add = move || {
            let checkpoint = request.checkpoint.checkpoint();
            let time = inner.clock.now().as_millis() / 1_000;
            let answer = inner.folder.add(&request, &inner.logs, time);
            if let Ok(Err(refused @ Refused::Inconsistent)) = &answer {
                tracing::error!(
                    origin = checkpoint.origin,
                    size = checkpoint.size,
                    checkpoint = ?String::from_utf8_lossy(&request.checkpoint.to_bytes()),
                    "not cosigned: {refused}"
                );
            }
            answer
        };
        Ok(off_the_runtime(add).await??)
    }

    /// The checkpoint cosigned last of the log whose origin line has this SHA-256, in hexadecimal.
    pub fn checkpoint(&self, origin_hash: &str) -> Option<Vec<u8>> {
        self.0.folder.checkpoint(origin_hash)
    }
}

async fn off_the_runtime<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, Error> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| Error::Task(error.to_string()))
}
