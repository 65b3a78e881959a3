//! Locks between processes, held on small files, so that the kernel releases them when their holder dies.
//!
//! Only the exclusive holder of a lock may delete its file. Therefore every new holder checks that its file is still the one
//! at that path, and starts over if not.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Shared,
    Exclusive,
}

/// A held lock. Dropping it releases it; dropping an exclusive lock deletes its file first.
#[derive(Debug)]
pub(crate) struct ProcessLock {
    /// Holds the lock: the kernel releases it when the last descriptor closes.
    /// `None` if the lock has no file and the file system cannot be written to.
    file: Option<File>,
    path: PathBuf,
    mode: Mode,
}

impl ProcessLock {
    /// Takes the lock unless another holder excludes it.
    pub(crate) fn try_acquire(path: &Path, mode: Mode) -> io::Result<Option<ProcessLock>> {
        loop {
            let created = OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path);
            let file = match created {
                Err(error) if mode == Mode::Shared && error.kind() == io::ErrorKind::ReadOnlyFilesystem => {
                    match File::open(path) {
                        // Without its file, no process holds the lock, and a process that would change something cannot take it here.
                        Err(error) if error.kind() == io::ErrorKind::NotFound => {
                            return Ok(Some(ProcessLock { file: None, path: path.to_path_buf(), mode }));
                        }
                        opened => opened?,
                    }
                }
                created => created?,
            };
            let locked = match mode {
                Mode::Shared => file.try_lock_shared(),
                Mode::Exclusive => file.try_lock(),
            };
            match locked {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => return Ok(None),
                Err(TryLockError::Error(error)) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(TryLockError::Error(error)) => return Err(error),
            }
            if is_file_at(&file, path)? {
                return Ok(Some(ProcessLock { file: Some(file), path: path.to_path_buf(), mode }));
            }
            // The last holder deleted the file between our open and our lock.
        }
    }
}

impl Drop for ProcessLock {
    fn drop(&mut self) {
        if self.mode == Mode::Exclusive {
            // Allowed while we hold the lock, see the module's documentation. A file that stays behind does no harm.
            let _ = std::fs::remove_file(&self.path);
        }
        // Closing alone may not release the lock: a child process that is just being started briefly shares the descriptor.
        let _ = self.file.as_ref().map(File::unlock);
    }
}

/// Whether `file` is the file that `path` names now.
fn is_file_at(file: &File, path: &Path) -> io::Result<bool> {
    let held = file.metadata()?;
    match std::fs::symlink_metadata(path) {
        Ok(named) => Ok((named.dev(), named.ino()) == (held.dev(), held.ino())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}
