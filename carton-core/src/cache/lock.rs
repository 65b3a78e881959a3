//! Waiting for the locks of the cache (see [`Lock`]).

use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

use carton_format::context::CancelToken;

use super::CacheError;

pub(super) use crate::process_lock::{Mode, ProcessLock as Lock};

/// How long to wait for a lock: long enough for another process to write a model of many gigabytes.
pub(super) const LONGEST_WAIT: Duration = Duration::from_secs(15 * 60);
/// A wait is logged after this time, and again each time the waiting time has doubled.
const FIRST_LOG: Duration = Duration::from_secs(1);
/// The pause between two attempts starts at this and doubles up to `LONGEST_PAUSE`.
const SHORTEST_PAUSE: Duration = Duration::from_millis(1);
const LONGEST_PAUSE: Duration = Duration::from_millis(50);

/// Waits for the lock at `path`, until `cancel_token` is cancelled. When `longest_wait` is over, the wait
/// starts again if the result of `progress` has changed meanwhile, because a download may take any time.
pub(super) fn acquire(
    path: &Path,
    mode: Mode,
    longest_wait: Duration,
    progress: &dyn Fn() -> Option<SystemTime>,
    cancel_token: &CancelToken,
) -> Result<Lock, CacheError> {
    // The usual case, without asking for the progress.
    if let Some(lock) = try_acquire(path, mode)? {
        return Ok(lock);
    }
    let start = Instant::now();
    let mut deadline = longest_wait;
    let mut last_progress = progress();
    let mut next_log = FIRST_LOG;
    let mut pause = SHORTEST_PAUSE;
    loop {
        if let Some(lock) = try_acquire(path, mode)? {
            return Ok(lock);
        }
        cancel_token.check()?;
        let waited = start.elapsed();
        if waited >= deadline {
            let now = progress();
            if now != last_progress {
                (deadline, last_progress) = (waited.saturating_add(longest_wait), now);
                continue;
            }
            return Err(CacheError::Locked { path: path.to_path_buf(), waited });
        }
        if waited >= next_log {
            tracing::info!(lock = %path.display(), seconds = waited.as_secs(), "waiting for another process");
            next_log *= 2;
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// Returns the lock, or `None` if another holder has it in a conflicting mode.
pub(super) fn try_acquire(path: &Path, mode: Mode) -> Result<Option<Lock>, CacheError> {
    Lock::try_acquire(path, mode).map_err(CacheError::io("lock", path))
}
