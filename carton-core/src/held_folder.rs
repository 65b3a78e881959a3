//! Temporary folders outside of the cache. The process that makes one holds its lock as long as it uses it, so that another process can tell
//! what a killed one has left.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use tempfile::TempDir;

/// How old a folder is that is swept. A new one is locked only after it is made.
const MIN_AGE: Duration = Duration::from_secs(5);
/// The most entries of a folder that are looked at.
const MAX_ENTRIES: usize = 10_000;

/// A new folder that only this user can access. Dropping it deletes it.
#[derive(Debug)]
pub(crate) struct HeldFolder {
    folder: TempDir,
    /// The folder itself, locked. The kernel releases the lock when this process ends, however it does.
    _lock: File,
}

impl HeldFolder {
    /// Makes a folder in `parent` whose name begins with `prefix`.
    pub(crate) fn create(parent: &Path, prefix: &str) -> io::Result<Self> {
        // Private whatever the umask is: a confined process could not change that.
        let private = std::fs::Permissions::from_mode(0o700);
        let folder = tempfile::Builder::new().prefix(prefix).permissions(private).tempdir_in(parent)?;
        let lock = File::open(folder.path())?;
        // A file system without locks only means that nothing is swept there.
        let _ = lock.try_lock_shared();
        Ok(Self { folder, _lock: lock })
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Returns the path of the folder, which is not deleted then.
    pub(crate) fn keep(self) -> PathBuf {
        self.folder.keep()
    }
}

/// Deletes the folders of this user in `parent` whose names begin with `prefix` and that no process holds, by `delete`. Failures are not
/// reported: they are those of another process.
pub(crate) fn sweep(parent: &Path, prefix: &str, delete: impl Fn(&Path) -> io::Result<()>) {
    let Ok(entries) = std::fs::read_dir(parent) else { return };
    let user = rustix::process::geteuid().as_raw();
    for entry in entries.flatten().take(MAX_ENTRIES) {
        if !entry.file_name().as_encoded_bytes().starts_with(prefix.as_bytes()) {
            continue;
        }
        let path = entry.path();
        let is_old = |metadata: &std::fs::Metadata| {
            let changed = metadata.modified().ok().and_then(|time| SystemTime::now().duration_since(time).ok());
            changed.is_some_and(|age| age > MIN_AGE)
        };
        let Ok(metadata) = std::fs::symlink_metadata(&path) else { continue };
        if !metadata.is_dir() || metadata.uid() != user || !is_old(&metadata) {
            continue;
        }
        let Ok(folder) = OpenOptions::new().read(true).custom_flags(folder_flags()).open(&path) else { continue };
        if folder.try_lock().is_ok() {
            tracing::debug!(path = %path.display(), "deleting a folder that a killed process has left");
            let _ = delete(&path);
        }
    }
}

/// Opens a folder, and no link to one.
fn folder_flags() -> i32 {
    let flags = rustix::fs::OFlags::DIRECTORY | rustix::fs::OFlags::NOFOLLOW;
    i32::try_from(flags.bits()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::fs::FileTimes;

    use super::*;

    #[test]
    fn only_what_nobody_holds_is_swept() {
        let parent = tempfile::tempdir().unwrap();
        let held = HeldFolder::create(parent.path(), "mine-").unwrap();
        let make_old = |path: &Path| {
            let old = SystemTime::now() - Duration::from_secs(3600);
            File::open(path).unwrap().set_times(FileTimes::new().set_modified(old)).unwrap();
        };
        for name in ["mine-left", "mine-new", "other"] {
            std::fs::create_dir_all(parent.path().join(name).join("inside")).unwrap();
        }
        std::fs::write(parent.path().join("mine-file"), "").unwrap();
        std::os::unix::fs::symlink("other", parent.path().join("mine-link")).unwrap();
        for name in ["mine-left", "other"] {
            make_old(&parent.path().join(name));
        }
        make_old(held.path());
        sweep(parent.path(), "mine-", |path| std::fs::remove_dir_all(path));
        let is_there = |name: &str| parent.path().join(name).symlink_metadata().is_ok();
        assert!(held.path().exists() && !is_there("mine-left"));
        assert!(["mine-new", "other", "mine-file", "mine-link"].into_iter().all(is_there));
        // What a killed process held is free.
        let path = held.keep();
        make_old(&path);
        sweep(parent.path(), "mine-", |path| std::fs::remove_dir_all(path));
        assert!(!path.exists());
    }
}
