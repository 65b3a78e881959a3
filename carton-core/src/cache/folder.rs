//! Folders of the cache: creates them, and reads and sets their times.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::time::SystemTime;

use super::CacheError;

/// Creates a folder that only this user can access, unless it exists.
pub(super) fn create_folder(path: &Path) -> Result<(), CacheError> {
    match DirBuilder::new().mode(0o700).create(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        other => other.map_err(CacheError::io("create folder", path)),
    }
}

/// Sets the modification time of a folder to now. The time only orders deletions, so a failure is not an error.
pub(super) fn touch(path: &Path) {
    use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, UTIME_NOW, UTIME_OMIT, utimensat};
    let times = Timestamps {
        last_access: Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
        last_modification: Timespec { tv_sec: 0, tv_nsec: UTIME_NOW },
    };
    if let Err(error) = utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW) {
        tracing::debug!(path = %path.display(), %error, "cannot record a use");
    }
}

/// Time of the last change of the folder or of an entry directly in it. Entries of its subfolders do not count.
pub(super) fn last_change(folder: &Path) -> Option<SystemTime> {
    let modified = |path: &Path| std::fs::symlink_metadata(path).and_then(|metadata| metadata.modified()).ok();
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| modified(&entry.path())).chain(modified(folder)).max()
}
