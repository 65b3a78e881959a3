//! Commits of one folder take turns.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use super::attempt::{TASKS, io_error};
use super::publish::remove;
use crate::error::DatasetError;

/// The file that is locked, below `_tasks`, with which it goes.
const LOCK: &str = "commit.lock";

/// How long a commit sleeps before it looks again whether its turn has come.
const BETWEEN_TRIES: Duration = Duration::from_millis(10);

/// Held by the commit whose turn it is. Dropped, it removes `_tasks` if nothing is left there.
#[derive(Debug)]
pub(super) struct CommitLock {
    dataset: PathBuf,
    /// None where no tasks have written, so that nothing is to be done in turns.
    file: Option<File>,
}

impl CommitLock {
    /// Waits for its turn, as long as `is_wanted` says so.
    ///
    /// # Errors
    /// [`DatasetError::Io`]; what `is_wanted` fails with.
    pub(super) fn take(dataset: &Path, is_wanted: impl Fn() -> Result<(), DatasetError>) -> Result<Self, DatasetError> {
        let path = path(dataset);
        loop {
            let file = match File::options().create(true).truncate(false).write(true).open(&path) {
                Ok(file) => file,
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    return Ok(Self { dataset: dataset.to_owned(), file: None });
                }
                Err(error) => return Err(io_error(&path)(error)),
            };
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => {
                    is_wanted()?;
                    thread::sleep(BETWEEN_TRIES);
                    continue;
                }
                // Some network file systems have no locks; there the caller sees to it that one commit runs at a time.
                Err(TryLockError::Error(error)) if error.kind() == io::ErrorKind::Unsupported => {}
                Err(TryLockError::Error(error)) => return Err(io_error(&path)(error)),
            }
            // The one before may have removed the file: then another one is what commits wait for.
            if is_same(&file, &path) {
                return Ok(Self { dataset: dataset.to_owned(), file: Some(file) });
            }
        }
    }
}

impl Drop for CommitLock {
    fn drop(&mut self) {
        if self.file.is_some() {
            // What a commit that was killed has left: nothing else has such names.
            let entries = fs::read_dir(self.dataset.join(TASKS)).into_iter().flatten().flatten();
            for entry in entries.filter(|entry| entry.file_name().as_encoded_bytes().starts_with(b".")) {
                let _ = remove(&entry.path());
            }
            // Before the lock is released: who waits for it sees that the file is gone, and makes another.
            let _ = fs::remove_file(path(&self.dataset));
            let _ = fs::remove_dir(self.dataset.join(TASKS));
        }
    }
}

fn path(dataset: &Path) -> PathBuf {
    dataset.join(TASKS).join(LOCK)
}

#[cfg(unix)]
fn is_same(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let identity = |metadata: fs::Metadata| (metadata.dev(), metadata.ino());
    let (open, named) = (file.metadata().map(identity), fs::metadata(path).map(identity));
    open.ok().is_some_and(|open| named.is_ok_and(|named| open == named))
}

#[cfg(not(unix))]
fn is_same(_: &File, path: &Path) -> bool {
    // A file that is open cannot be removed.
    path.exists()
}
