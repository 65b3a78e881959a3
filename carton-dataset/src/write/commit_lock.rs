//! The lock by which commits of one folder take turns (spec/dataset.md §5.2).

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use carton_tensor::context::Context;

use super::publish::remove;
use super::staging::TASKS;
use crate::error::DatasetError;

/// The name of the locked file in `_tasks`. It is removed together with `_tasks`.
const LOCK: &str = "commit.lock";

/// The time between two attempts to take the lock.
const BETWEEN_TRIES: Duration = Duration::from_millis(10);

/// The lock, held by the commit whose turn it is. When dropped, it removes `_tasks` if nothing else is left there.
#[derive(Debug)]
pub(super) struct CommitLock {
    dataset: PathBuf,
    /// `None` if there is no `_tasks`: no task has written, so nothing has to be done in turns.
    file: Option<File>,
}

impl CommitLock {
    /// Waits for the lock.
    ///
    /// # Errors
    /// [`DatasetError::Io`]; [`DatasetError::Interrupted`] if the wait was cancelled.
    pub(super) fn take(dataset: &Path, context: &Context) -> Result<Self, DatasetError> {
        let path = path(dataset);
        loop {
            let file = match File::options().create(true).truncate(false).write(true).open(&path) {
                Ok(file) => file,
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    return Ok(Self { dataset: dataset.to_owned(), file: None });
                }
                Err(error) => return Err(DatasetError::io("open", &path)(error)),
            };
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => {
                    context.check()?;
                    thread::sleep(BETWEEN_TRIES);
                    continue;
                }
                // Some network file systems do not support locks; there the caller has to ensure that only one commit runs at a time.
                Err(TryLockError::Error(error)) if error.kind() == io::ErrorKind::Unsupported => {}
                Err(TryLockError::Error(error)) => return Err(DatasetError::io("lock", &path)(error)),
            }
            // The previous holder may have removed the file. Other commits then wait for a new file, so this lock is worthless.
            if is_same(&file, &path) {
                return Ok(Self { dataset: dataset.to_owned(), file: Some(file) });
            }
        }
    }
}

impl Drop for CommitLock {
    fn drop(&mut self) {
        if self.file.is_some() {
            // Removes what a killed commit has left; only such files have names that begin with a dot.
            let entries = fs::read_dir(self.dataset.join(TASKS)).into_iter().flatten().flatten();
            for entry in entries.filter(|entry| entry.file_name().as_encoded_bytes().starts_with(b".")) {
                let _ = remove(&entry.path());
            }
            // Removed before the lock is released: a commit that waits for it sees that the file is gone, and creates another.
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
    // Here an open file cannot be removed.
    path.exists()
}
