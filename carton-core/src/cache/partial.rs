//! Folders for what is being made. Each has a lock held by its maker; what nobody holds is a leftover of a process that
//! died, and is swept.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use super::CacheError;
use super::lock::{self, Lock, Mode};

const LOCK_SUFFIX: &str = ".lock";

/// A folder of our own in the partial area. Dropping it deletes what is still in it.
#[derive(Debug)]
pub(super) struct Partial {
    path: PathBuf,
    next_name: AtomicU64,
    /// Dropped after the folder is gone: only then may a sweeper look at it.
    lock: Option<Lock>,
}

impl Partial {
    pub(super) fn create(area: &Path) -> Result<Partial, CacheError> {
        static COUNTER: AtomicU64 = AtomicU64::new(0);
        loop {
            // Processes in different containers may share an id and a cache: a name in use is simply not ours.
            let name = format!("{}-{}", std::process::id(), COUNTER.fetch_add(1, Ordering::Relaxed));
            let path = area.join(&name);
            let Some(lock) = lock::try_acquire(&area.join(format!("{name}{LOCK_SUFFIX}")), Mode::Exclusive)? else {
                continue;
            };
            match DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => return Ok(Partial { path, next_name: AtomicU64::new(0), lock: Some(lock) }),
                // A leftover of a process with our id: nobody holds its lock but us.
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

    /// A name in this folder that nobody has been given yet.
    pub(super) fn fresh_path(&self) -> PathBuf {
        self.path.join(format!("{}.tmp", self.next_name.fetch_add(1, Ordering::Relaxed)))
    }

    /// Writes a small file as a whole and moves it to `destination`, replacing what was there.
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

/// Creates a file that must not be there yet.
pub(super) fn create_file(path: &Path, mode: u32) -> Result<File, CacheError> {
    OpenOptions::new().write(true).create_new(true).mode(mode).open(path).map_err(CacheError::io("create", path))
}

/// Deletes a file or a folder with all that is in it; nothing there is fine.
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

/// Deletes a file or a folder by moving it to `trash`, which is quick, or at once if there is no trash or it cannot be moved
/// there: on a full disk there is no room for a name. Nothing there is fine.
pub(super) fn delete_by(trash: Option<&Partial>, path: &Path) -> Result<(), CacheError> {
    #[cfg(test)]
    super::tests::contention::before_deletion();
    if trash.is_some_and(|trash| std::fs::rename(path, trash.fresh_path()).is_ok()) {
        return Ok(());
    }
    remove_tree(path).map_err(CacheError::io("delete", path))
}

/// Deletes what processes that died left in the partial area. What cannot be deleted is left and logged: a sweep must
/// never keep a cache from being used.
pub(super) fn sweep(area: &Path) -> Result<(), CacheError> {
    let entries = std::fs::read_dir(area).map_err(CacheError::io("list", area))?;
    for entry in entries {
        let entry = entry.map_err(CacheError::io("list", area))?;
        let Ok(name) = entry.file_name().into_string() else { continue };
        let name = name.strip_suffix(LOCK_SUFFIX).unwrap_or(&name);
        let lock_path = area.join(format!("{name}{LOCK_SUFFIX}"));
        // Made before its folder and taken away after it, so holding it means that nobody works there.
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
