//! Locks between processes: `flock` on small files, so that the kernel drops them when their holder dies.
//!
//! A lock file may be deleted, but only by somebody who holds it exclusively; whoever gets a lock checks that its file
//! is still the one at that path, and starts over if not.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use rustix::fs::{FlockOperation, flock};

use super::CacheError;

/// How long a lock is waited for. Long enough for another process to write a model of many gigabytes.
pub(super) const LONGEST_WAIT: Duration = Duration::from_secs(15 * 60);
/// After this long a wait is logged, and again each time it has doubled.
const FIRST_LOG: Duration = Duration::from_secs(1);
/// The pause between two attempts starts here and doubles up to `LONGEST_PAUSE`.
const SHORTEST_PAUSE: Duration = Duration::from_millis(1);
const LONGEST_PAUSE: Duration = Duration::from_millis(50);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    Shared,
    Exclusive,
}

/// A held lock. Dropping it releases it; an exclusive one takes its file away first.
#[derive(Debug)]
pub(crate) struct Lock {
    /// Keeps the lock: the kernel releases it when the last descriptor closes.
    file: File,
    path: PathBuf,
    mode: Mode,
}

impl Lock {
    /// Waits for the lock at `path`, calling `checkpoint` between attempts so that the caller can give up. When the longest
    /// wait is over, it begins anew if `progress` changed meanwhile: downloads take as long as they take.
    pub(super) fn acquire<E: From<CacheError>>(
        path: &Path,
        mode: Mode,
        longest_wait: Duration,
        progress: &dyn Fn() -> Option<SystemTime>,
        checkpoint: &dyn Fn() -> Result<(), E>,
    ) -> Result<Lock, E> {
        // The usual case, without a look at the progress.
        if let Some(lock) = Lock::try_acquire(path, mode)? {
            return Ok(lock);
        }
        let start = Instant::now();
        let mut deadline = longest_wait;
        let mut last_progress = progress();
        let mut next_log = FIRST_LOG;
        let mut pause = SHORTEST_PAUSE;
        loop {
            if let Some(lock) = Lock::try_acquire(path, mode)? {
                return Ok(lock);
            }
            checkpoint()?;
            let waited = start.elapsed();
            if waited >= deadline {
                let now = progress();
                if now != last_progress {
                    (deadline, last_progress) = (waited.saturating_add(longest_wait), now);
                    continue;
                }
                return Err(CacheError::Locked { path: path.to_path_buf(), waited }.into());
            }
            if waited >= next_log {
                tracing::info!(lock = %path.display(), seconds = waited.as_secs(), "waiting for another process");
                next_log *= 2;
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// The lock if nobody holds it against us.
    pub(super) fn try_acquire(path: &Path, mode: Mode) -> Result<Option<Lock>, CacheError> {
        loop {
            let file = OpenOptions::new()
                .read(true)
                .write(true)
                .create(true)
                .truncate(false)
                .mode(0o600)
                .open(path)
                .map_err(CacheError::io("open lock", path))?;
            let operation = match mode {
                Mode::Shared => FlockOperation::NonBlockingLockShared,
                Mode::Exclusive => FlockOperation::NonBlockingLockExclusive,
            };
            match flock(&file, operation) {
                Ok(()) => {}
                Err(rustix::io::Errno::WOULDBLOCK) => return Ok(None),
                Err(rustix::io::Errno::INTR) => continue,
                Err(error) => return Err(CacheError::io("lock", path)(error.into())),
            }
            if is_file_at(&file, path)? {
                return Ok(Some(Lock { file, path: path.to_path_buf(), mode }));
            }
            // Its last holder deleted it between our open and our lock.
        }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        if self.mode == Mode::Exclusive {
            // Allowed while we hold it, see the module's text. A file that stays behind does no harm.
            let _ = std::fs::remove_file(&self.path);
        }
        // Closing is not enough: a child process that is just being started has the descriptor too, for a moment.
        let _ = flock(&self.file, FlockOperation::Unlock);
    }
}

/// Whether `file` is the file that `path` names now.
fn is_file_at(file: &File, path: &Path) -> Result<bool, CacheError> {
    let held = file.metadata().map_err(CacheError::io("inspect lock", path))?;
    match std::fs::symlink_metadata(path) {
        Ok(named) => Ok((named.dev(), named.ino()) == (held.dev(), held.ino())),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(CacheError::io("inspect lock", path)(error)),
    }
}
