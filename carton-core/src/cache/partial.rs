//! Folders for what is being made. The process that makes a folder holds its lock; a folder whose lock is free is a leftover of a process
//! that died, and is swept.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use super::CacheError;
use super::lock::{self, Lock, Mode};

const LOCK_SUFFIX: &str = ".lock";

/// A folder of our own in the partial area. Dropping it deletes its remaining contents.
#[derive(Debug)]
pub(super) struct Partial {
    path: PathBuf,
    next_name: AtomicU64,
    /// Released after the folder is deleted: only then may a sweeper look at it.
    lock: Option<Lock>,
}

impl Partial {
    pub(super) fn create(area: &Path) -> Result<Partial, CacheError> {
        static COUNTER: AtomicU64 = AtomicU64::new(0);
        loop {
            // Processes in different containers may share a process id and a cache. A name in use belongs to another process.
            let name = format!("{}-{}", std::process::id(), COUNTER.fetch_add(1, Ordering::Relaxed));
            let path = area.join(&name);
            let Some(lock) = lock::try_acquire(&area.join(format!("{name}{LOCK_SUFFIX}")), Mode::Exclusive)? else {
                continue;
            };
            match DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => return Ok(Partial { path, next_name: AtomicU64::new(0), lock: Some(lock) }),
                // A leftover of a dead process that had our id: we hold its lock.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    remove_tree(&path).map_err(CacheError::io("delete leftover", &path))?;
                }
                Err(error) => return Err(CacheError::io("create folder", &path)(error)),
            }
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// A new path in this folder, different at each call.
    pub(super) fn fresh_path(&self) -> PathBuf {
        self.path.join(format!("{}.tmp", self.next_name.fetch_add(1, Ordering::Relaxed)))
    }

    /// Writes a small file completely and then moves it to `destination`, replacing any file there.
    pub(super) fn publish(&self, bytes: &[u8], destination: &Path) -> Result<(), CacheError> {
        let temporary = self.fresh_path();
        let mut file = create_file(&temporary, 0o600)?;
        file.write_all(bytes).map_err(CacheError::io("write", destination))?;
        drop(file);
        std::fs::rename(&temporary, destination).map_err(CacheError::io("move into place", destination))
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        if let Err(error) = remove_tree(&self.path) {
            tracing::debug!(path = %self.path.display(), %error, "a partial folder stays for a later sweep");
        }
        drop(self.lock.take());
    }
}

/// Creates a new file. Fails if the path exists.
pub(super) fn create_file(path: &Path, mode: u32) -> Result<File, CacheError> {
    OpenOptions::new().write(true).create_new(true).mode(mode).open(path).map_err(CacheError::io("create", path))
}

/// Deletes a file, or a folder with its contents. A missing path is not an error.
pub(super) fn remove_tree(path: &Path) -> io::Result<()> {
    let removed = match std::fs::symlink_metadata(path) {
        Ok(metadata) if metadata.is_dir() => std::fs::remove_dir_all(path),
        Ok(_) => std::fs::remove_file(path),
        Err(error) => Err(error),
    };
    match removed {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

/// Deletes a file or a folder. Moves it to `trash`, which is quick; deletes it at once if there is no trash or the move fails, as on a
/// full disk, where there is no room for another name. A missing path is not an error.
pub(super) fn delete_by(trash: Option<&Partial>, path: &Path) -> Result<(), CacheError> {
    #[cfg(test)]
    super::tests::contention::before_deletion();
    if trash.is_some_and(|trash| std::fs::rename(path, trash.fresh_path()).is_ok()) {
        return Ok(());
    }
    remove_tree(path).map_err(CacheError::io("delete", path))
}

/// Deletes the leftovers of dead processes in the partial area. Failures to delete are only logged: a sweep must never make a cache
/// unusable.
pub(super) fn sweep(area: &Path) -> Result<(), CacheError> {
    let entries = std::fs::read_dir(area).map_err(CacheError::io("list", area))?;
    for entry in entries {
        let entry = entry.map_err(CacheError::io("list", area))?;
        let Ok(name) = entry.file_name().into_string() else { continue };
        let name = name.strip_suffix(LOCK_SUFFIX).unwrap_or(&name);
        let lock_path = area.join(format!("{name}{LOCK_SUFFIX}"));
        // The lock file is created before its folder and deleted after it, so holding the lock means that no process works there.
        match lock::try_acquire(&lock_path, Mode::Exclusive) {
            Ok(Some(_lock)) => {
                if let Err(error) = remove_tree(&area.join(name)) {
                    tracing::warn!(path = %area.join(name).display(), %error, "cannot delete a leftover");
                }
            }
            Ok(None) => {}
            Err(error) => tracing::warn!(%error, "cannot look at a leftover"),
        }
    }
    Ok(())
}
