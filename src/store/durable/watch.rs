//! A watch over a folder: which calls are made below it, and one that fails; compiled for tests only.
//!
//! Imports `call`. A watch is found by the folder that a call is about, so that it hears every writer and every reader.

use std::io;
use std::path::Path;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::Weak;

use parking_lot::Mutex;
use rustix::io::Errno;

use super::call::Call;

/// All watches of the process, whose tests run side by side.
static WATCHES: Mutex<Vec<Weak<Watch>>> = Mutex::new(Vec::new());

/// What is watched below a folder, as long as somebody holds this.
#[derive(Debug)]
pub(crate) struct Watch {
    root: PathBuf,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The call that is to fail: how many come before it, how it fails, and whether looks count too.
    armed: Option<(u64, Errno, Counted)>,
    /// How every change fails, if it does.
    broken: Option<Errno>,
    /// What failed.
    failed: Option<String>,
    /// What was done, if that is recorded.
    done: Option<Vec<Done>>,
}

/// Which calls count until one fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Counted {
    /// Those that change the disk and whose failure is no matter of indifference.
    Changes,
    All,
}

/// A change that was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Done {
    MakeDir(PathBuf),
    Create(PathBuf),
    /// It has at least this length.
    Grow(PathBuf, u64),
    Write(PathBuf, u64, Vec<u8>),
    Cut(PathBuf, u64),
    Sync(PathBuf),
    SyncDir(PathBuf),
    SyncFileSystem,
    Rename(PathBuf, PathBuf),
    Remove(PathBuf),
}

impl Watch {
    /// The watch over a folder.
    pub(crate) fn over(root: &Path) -> Arc<Self> {
        let mut watches = WATCHES.lock();
        watches.retain(|watch| watch.strong_count() > 0);
        let known = watches
            .iter()
            .filter_map(Weak::upgrade)
            .find(|watch| watch.root == root);
        known.unwrap_or_else(|| {
            let watch = Arc::new(Self {
                root: root.to_owned(),
                state: Mutex::default(),
            });
            watches.push(Arc::downgrade(&watch));
            watch
        })
    }

    /// Lets `calls` changes pass and fails the next one.
    pub(crate) fn arm(&self, calls: u64, errno: Errno) {
        self.state.lock().armed = Some((calls, errno, Counted::Changes));
    }

    /// Lets `calls` calls of any kind pass and fails the next one.
    pub(crate) fn arm_any(&self, calls: u64, errno: Errno) {
        self.state.lock().armed = Some((calls, errno, Counted::All));
    }

    /// Fails every change.
    pub(crate) fn break_all(&self, errno: Errno) {
        self.state.lock().broken = Some(errno);
    }

    /// Says whether the failure is still to come, and takes it away.
    pub(crate) fn disarm(&self) -> bool {
        let mut state = self.state.lock();
        state.broken = None;
        state.armed.take().is_some()
    }

    /// The call that failed since this was last asked.
    pub(crate) fn failed(&self) -> Option<String> {
        self.state.lock().failed.take()
    }

    /// Records what is done from now on.
    pub(crate) fn record(&self) {
        self.state.lock().done = Some(Vec::new());
    }

    /// How many changes were recorded.
    pub(crate) fn recorded(&self) -> usize {
        self.state.lock().done.as_ref().map_or(0, Vec::len)
    }

    /// What was recorded.
    pub(crate) fn take_record(&self) -> Vec<Done> {
        self.state.lock().done.take().unwrap_or_default()
    }

    /// Lets one call pass, or says how it fails.
    fn let_pass(&self, call: Call<'_>) -> io::Result<()> {
        let mut state = self.state.lock();
        if let Some(errno) = state.broken.filter(|_| is_change(call)) {
            return Err(errno.into());
        }
        let Some((calls, errno, counted)) = state.armed else {
            return Ok(());
        };
        if counted == Counted::Changes && !is_change(call) {
            return Ok(());
        }
        if calls > 0 {
            state.armed = Some((calls - 1, errno, counted));
            return Ok(());
        }
        state.armed = None;
        state.failed = Some(format!("{} {}", call.operation(), call.path().display()));
        Err(errno.into())
    }
}

/// Makes a call, unless the watch over its folder has it fail.
pub(super) fn pass<T>(call: Call<'_>, make: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    let watches = WATCHES.lock();
    let watch = watches
        .iter()
        .filter_map(Weak::upgrade)
        .find(|watch| call.path().starts_with(&watch.root));
    drop(watches);
    let Some(watch) = watch else {
        return make();
    };
    watch.let_pass(call)?;
    let made = make()?;
    if let Some(done) = &mut watch.state.lock().done {
        done.extend(Done::of(call));
    }
    Ok(made)
}

fn is_change(call: Call<'_>) -> bool {
    !matches!(call, Call::Open(_) | Call::Read(_) | Call::List(_) | Call::Discard(_))
}

impl Done {
    fn of(call: Call<'_>) -> Option<Self> {
        Some(match call {
            Call::Open(_) | Call::Read(_) | Call::List(_) | Call::Reserve { grows: false, .. } => return None,
            Call::MakeDir(path) => Self::MakeDir(path.to_owned()),
            Call::Create(path) => Self::Create(path.to_owned()),
            Call::Reserve { path, end, .. } => Self::Grow(path.to_owned(), end),
            Call::Write { path, at, bytes } => Self::Write(path.to_owned(), at, bytes.to_owned()),
            Call::Cut { path, len } => Self::Cut(path.to_owned(), len),
            Call::Sync(path) => Self::Sync(path.to_owned()),
            Call::SyncDir(path) => Self::SyncDir(path.to_owned()),
            Call::SyncFileSystem(_) => Self::SyncFileSystem,
            Call::Rename { from, to } => Self::Rename(from.to_owned(), to.to_owned()),
            Call::Remove(path) | Call::RemoveTree(path) | Call::Discard(path) => Self::Remove(path.to_owned()),
        })
    }
}
