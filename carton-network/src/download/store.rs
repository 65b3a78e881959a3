//! The bytes of a download on disk, and the readers that wait for them.

use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use carton_format::url::ShownUrl;
use parking_lot::{Condvar, Mutex, MutexGuard};

use super::DownloadError;
use super::journal::Journal;
use super::ledger::{Ledger, Span};
use crate::http::{Activity, NetworkError};

/// Interval at which a waiting reader checks whether its activity was cancelled.
const CHECK_INTERVAL: Duration = Duration::from_millis(50);
/// A reader is woken when this many bytes are ready for it, not for each piece that arrives.
const WAKE_FOR: u64 = 256 << 10;

/// The `data` file, with the record of what it holds. Positions are offsets in this file.
#[derive(Debug)]
pub(super) struct Store {
    data: File,
    path: PathBuf,
    /// The URL of the remote file, for error messages.
    location: ShownUrl,
    /// `None` if a later attempt could not prove that it continues the same bytes.
    journal: Option<Journal>,
    activity: Arc<Activity>,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug)]
struct State {
    /// `None` for a stream, whose bytes arrive in order.
    ledger: Option<Ledger>,
    /// The number of bytes from the start that are present.
    frontier: u64,
    /// The total number of bytes, if known.
    length: Option<u64>,
    failure: Option<DownloadError>,
    /// The frontier at which a waiting reader is to be woken.
    wake_at: u64,
    /// A reader waits for bytes beyond the frontier.
    wake_always: bool,
    n_tasks: usize,
}

/// The parts that every store has.
#[derive(Debug)]
pub(super) struct Data {
    pub(super) file: File,
    pub(super) path: PathBuf,
    pub(super) location: ShownUrl,
    pub(super) activity: Arc<Activity>,
}

/// Counts a task as running for as long as the guard exists.
#[derive(Debug)]
pub(super) struct TaskGuard(pub(super) Arc<Store>);

impl Store {
    /// A store for ranges that arrive in any order.
    pub(super) fn ranged(data: Data, journal: Option<Journal>, ledger: Ledger) -> Store {
        let (frontier, length) = (ledger.frontier(), Some(ledger.length()));
        let ledger = Some(ledger);
        Store {
            journal,
            state: Mutex::new(State { ledger, frontier, ..State::new(length) }),
            ..Store::stream(data, None)
        }
    }

    /// A store for bytes that arrive in order.
    pub(super) fn stream(data: Data, length: Option<u64>) -> Store {
        let Data { file, path, location, activity } = data;
        let (state, changed) = (Mutex::new(State::new(length)), Condvar::new());
        Store { data: file, path, location, journal: None, activity, state, changed }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// The total number of bytes, if known.
    pub(super) fn length(&self) -> Option<u64> {
        self.state().length
    }

    /// The URL of the remote file, for error messages.
    pub(super) fn location(&self) -> &ShownUrl {
        &self.location
    }

    pub(super) fn activity(&self) -> &Activity {
        &self.activity
    }

    /// The number of bytes from the start that are present.
    pub(super) fn frontier(&self) -> u64 {
        self.state().frontier
    }

    /// Hands out the first bytes that no task fetches. `size` gets the number of missing bytes and returns how many to fetch at once.
    /// Returns `None` if nothing is left to fetch, or if the download has failed.
    pub(super) fn take(&self, size: impl FnOnce(u64) -> u64) -> Option<Span> {
        let mut state = self.state();
        if state.failure.is_some() {
            return None;
        }
        let ledger = state.ledger.as_mut()?;
        let size = size(ledger.missing());
        ledger.take(size)
    }

    /// Returns a span.
    pub(super) fn release(&self, span: &Span) {
        if let Some(ledger) = &mut self.state().ledger {
            ledger.release(span);
        }
    }

    /// Writes bytes that continue a span or the stream, then records that they are present.
    pub(super) fn write(&self, position: u64, bytes: &[u8]) -> Result<(), DownloadError> {
        if self.activity.is_cancelled() {
            return Err(NetworkError::Interrupted.into());
        }
        self.data.write_all_at(bytes, position).map_err(DownloadError::io("write", &self.path))?;
        let end = position + bytes.len() as u64;
        let mut state = self.state();
        let mut recorded = (0, Vec::new());
        if let Some(ledger) = &mut state.ledger {
            let chunks = ledger.add(position..end);
            recorded = (chunks.start, chunks.map(|index| ledger.done(index)).collect());
            state.frontier = ledger.frontier();
        } else {
            state.frontier = end;
        }
        if state.wake_always || state.frontier >= state.wake_at || Some(state.frontier) == state.length {
            (state.wake_at, state.wake_always) = (u64::MAX, false);
            self.changed.notify_all();
        }
        drop(state);
        // After the write, never before it: the bytes that the journal claims must be present whenever this process is killed.
        if let Some(journal) = &self.journal {
            let (first, done) = recorded;
            journal.record(first, &done).map_err(DownloadError::io("write the journal of", &self.path))?;
        }
        Ok(())
    }

    /// Ends a stream whose length was not announced.
    pub(super) fn finish_stream(&self) {
        let mut state = self.state();
        state.length = Some(state.frontier);
        self.changed.notify_all();
    }

    /// Ends the download with an error. Only the first failure is kept.
    pub(super) fn fail(&self, error: DownloadError) {
        let mut state = self.state();
        if Some(state.frontier) != state.length {
            state.failure.get_or_insert(error);
        }
        self.changed.notify_all();
    }

    /// Waits until there are bytes after `position`, and returns the position up to which they are present. At the end of the download,
    /// that is `position` itself.
    pub(super) fn wait_beyond(&self, position: u64) -> Result<u64, DownloadError> {
        self.wait(|state| {
            let is_there = state.frontier > position || Some(state.frontier) == state.length;
            state.wake_at = state.wake_at.min(position.saturating_add(WAKE_FOR));
            is_there.then_some(state.frontier)
        })
    }

    /// Waits until all these bytes are present. False if the download is shorter.
    pub(super) fn wait_for(&self, range: &Range<u64>) -> Result<bool, DownloadError> {
        self.wait(|state| {
            if range.end <= state.frontier || state.ledger.as_ref().is_some_and(|ledger| ledger.has(range)) {
                return Some(true);
            }
            if Some(state.frontier) == state.length {
                return Some(false);
            }
            state.wake_always = true;
            None
        })
    }

    /// Waits until the length is known.
    pub(super) fn wait_for_length(&self) -> Result<u64, DownloadError> {
        self.wait(|state| state.length)
    }

    fn wait<T>(&self, mut look: impl FnMut(&mut State) -> Option<T>) -> Result<T, DownloadError> {
        let mut state = self.state();
        loop {
            if self.activity.is_cancelled() {
                return Err(NetworkError::Interrupted.into());
            }
            if let Some(found) = look(&mut state) {
                return Ok(found);
            }
            if let Some(failure) = &mut state.failure {
                let again = failure.again(&self.location);
                return Err(std::mem::replace(failure, again));
            }
            self.changed.wait_for(&mut state, CHECK_INTERVAL);
        }
    }

    /// Reads bytes that are present into `buffer`. Returns how many were read.
    pub(super) fn read(&self, position: u64, buffer: &mut [u8]) -> Result<usize, DownloadError> {
        self.data.read_at(buffer, position).map_err(DownloadError::io("read", &self.path))
    }

    /// Fills all of `buffer` with bytes that are present.
    pub(super) fn read_exact(&self, position: u64, buffer: &mut [u8]) -> Result<(), DownloadError> {
        self.data.read_exact_at(buffer, position).map_err(DownloadError::io("read", &self.path))
    }

    /// Waits until no task writes any more. The wait is short, because aborted tasks end at once.
    pub(super) fn wait_for_tasks(&self, at_most: Duration) {
        self.changed.wait_while_for(&mut self.state(), |state| state.n_tasks > 0, at_most);
    }
}

impl State {
    fn new(length: Option<u64>) -> State {
        State { ledger: None, frontier: 0, length, failure: None, wake_at: u64::MAX, wake_always: false, n_tasks: 0 }
    }
}

impl TaskGuard {
    pub(super) fn new(store: &Arc<Store>) -> TaskGuard {
        store.state().n_tasks += 1;
        TaskGuard(store.clone())
    }
}

impl Drop for TaskGuard {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.n_tasks -= 1;
        if state.n_tasks == 0 {
            // Only a task that panicked can leave the download incomplete without a failure. Readers would otherwise wait forever.
            if Some(state.frontier) != state.length && state.failure.is_none() {
                state.failure = Some(NetworkError::internal("a task of a download ended early").into());
            }
            self.0.changed.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn store(length: Option<u64>) -> Arc<Store> {
        let data = Data {
            file: tempfile::tempfile().unwrap(),
            path: PathBuf::new(),
            location: ShownUrl::of_text("http://host/file"),
            activity: Arc::default(),
        };
        Arc::new(Store::stream(data, length))
    }

    #[test]
    fn readers_do_not_wait_for_a_task_that_is_gone() {
        let unfinished = store(Some(3));
        let (one, other) = (TaskGuard::new(&unfinished), TaskGuard::new(&unfinished));
        drop(one);
        assert!(unfinished.state().failure.is_none(), "another task may finish the work");
        drop(other);
        let failure = unfinished.state().failure.take();
        assert!(matches!(failure, Some(DownloadError::Network(NetworkError::Internal(_)))), "{failure:?}");

        for length in [Some(3), None] {
            let finished = store(length);
            let guard = TaskGuard::new(&finished);
            finished.write(0, b"abc").unwrap();
            finished.finish_stream();
            drop(guard);
            assert_eq!(finished.wait_beyond(3).unwrap(), 3);
            assert!(finished.state().failure.is_none());
        }
    }
}
