//! The temporary folder in which a runner is assembled, and the step that moves it to its place in `runner_dir`.
//!
//! ```text
//! <runner_dir>/
//!   .install-XXXXXX/       one installation in progress; reading skips names that begin with a dot
//!     lock                 held as long as the installing process lives
//!     new/                 becomes the runner's folder
//!   .lock-…                held while that runner is installed
//!   .lock-launcher         held while a runner's folder is replaced or removed
//!   .launcher              which of the runners is the program that confines others
//!   NAME-VERSION/          an installed runner
//! ```

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use carton_format::context::CancelToken;
use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;

use crate::process_lock::{Mode, ProcessLock};

/// The prefix of the names of workspaces.
const PREFIX: &str = ".install-";
/// The age from which a workspace without a lock counts as left behind. The process of a younger one may not have created its
/// lock yet.
const LOCK_GRACE: Duration = Duration::from_secs(10 * 60);
/// The pause between two attempts to take a lock.
const LOCK_PAUSE: Duration = Duration::from_millis(20);

/// The folder of one installation. Dropping the value deletes the folder with its contents.
#[derive(Debug)]
pub struct Workspace {
    path: PathBuf,
    _lock: Lock,
}

impl Workspace {
    /// Makes a workspace in `runner_dir`, and deletes the workspaces that dead processes left there.
    ///
    /// # Errors
    /// The folder cannot be made or written to.
    pub fn create(runner_dir: &Path) -> io::Result<Self> {
        fs::create_dir_all(runner_dir)?;
        sweep(runner_dir);
        loop {
            let path = tempfile::Builder::new().prefix(PREFIX).tempdir_in(runner_dir)?.keep();
            // A sweep of another process may take the lock first. It then deletes the folder, so a new one is made.
            match Lock::try_acquire(&path.join("lock")) {
                Ok(Some(lock)) => return Ok(Self { path, _lock: lock }),
                Ok(None) => {}
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => {
                    let _ = fs::remove_dir_all(&path);
                    return Err(error);
                }
            }
        }
    }

    /// Returns the path of the folder.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Moves `built`, a folder in this workspace, to `target`. An existing folder there is replaced atomically: at no time, even
    /// if the process is killed, is `target` missing or incomplete. Only where the system cannot exchange two folders is it
    /// missing for a moment.
    ///
    /// # Errors
    /// `target` cannot be made or replaced.
    pub fn publish(&self, built: &Path, target: &Path) -> io::Result<()> {
        match renameat_with(CWD, built, CWD, target, RenameFlags::NOREPLACE) {
            Ok(()) => return Ok(()),
            Err(Errno::EXIST) => match renameat_with(CWD, built, CWD, target, RenameFlags::EXCHANGE) {
                Ok(()) => return Ok(()),
                // Another process removed it in between.
                Err(Errno::NOENT) => {}
                Err(error) if is_unsupported(error) => {}
                Err(error) => return Err(error.into()),
            },
            Err(error) if is_unsupported(error) => {}
            Err(error) => return Err(error.into()),
        }
        // Without support of the system, nothing is at `target` for a moment.
        self.take(target)?;
        fs::rename(built, target)
    }

    /// Moves `target` into this workspace in one step, to be deleted with it. A missing `target` is not an error.
    pub(super) fn take(&self, target: &Path) -> io::Result<()> {
        match fs::rename(target, self.path.join("taken")) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            other => other,
        }
    }
}

impl Drop for Workspace {
    fn drop(&mut self) {
        // If something cannot be deleted now, a later sweep deletes it.
        let _ = fs::remove_dir_all(&self.path);
    }
}

fn is_unsupported(error: Errno) -> bool {
    matches!(error, Errno::INVAL | Errno::NOSYS | Errno::NOTSUP)
}

/// Deletes the workspaces of dead processes. Errors are ignored.
fn sweep(runner_dir: &Path) {
    let Ok(entries) = fs::read_dir(runner_dir) else { return };
    for entry in entries.flatten() {
        let path = entry.path();
        let is_workspace = entry.file_name().as_encoded_bytes().starts_with(PREFIX.as_bytes());
        if !is_workspace || !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            continue;
        }
        let modified = || entry.metadata().and_then(|metadata| metadata.modified()).ok();
        let age = || SystemTime::now().duration_since(modified()?).ok();
        let lock = path.join("lock");
        if !lock.exists() && age().is_none_or(|age| age <= LOCK_GRACE) {
            continue;
        }
        if let Ok(Some(_lock)) = Lock::try_acquire(&lock) {
            tracing::debug!(path = %path.display(), "deleting what an installation left behind");
            let _ = fs::remove_dir_all(&path);
        }
    }
}

/// An exclusive lock between processes, in the folder of the runners.
#[derive(Debug)]
pub(super) struct Lock {
    _lock: ProcessLock,
}

impl Lock {
    /// Waits for the lock at `path`. Also returns whether it had to wait. Returns `None` if `cancel_token` is cancelled
    /// in the meantime.
    pub(super) fn acquire(path: &Path, cancel_token: &CancelToken) -> io::Result<Option<(Self, bool)>> {
        let mut waited = false;
        loop {
            if let Some(lock) = Self::try_acquire(path)? {
                return Ok(Some((lock, waited)));
            }
            if !waited {
                tracing::info!(lock = %path.display(), "waiting for another process");
            }
            waited = true;
            if cancel_token.is_cancelled() {
                return Ok(None);
            }
            std::thread::sleep(LOCK_PAUSE);
        }
    }

    fn try_acquire(path: &Path) -> io::Result<Option<Self>> {
        Ok(ProcessLock::try_acquire(path, Mode::Exclusive)?.map(|lock| Self { _lock: lock }))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::fs::File;

    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let mut names: Vec<String> =
            fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_folder_appears_whole_and_replaces_whole() {
        let root = tempfile::tempdir().unwrap();
        for content in ["one", "two"] {
            let workspace = Workspace::create(root.path()).unwrap();
            let built = workspace.path().join("new");
            fs::create_dir(&built).unwrap();
            fs::write(built.join(content), content).unwrap();
            workspace.publish(&built, &root.path().join("r")).unwrap();
            drop(workspace);
            assert_eq!(names(root.path()), ["r"]);
            assert_eq!(names(&root.path().join("r")), [content]);
        }
        let workspace = Workspace::create(root.path()).unwrap();
        workspace.take(&root.path().join("r")).unwrap();
        workspace.take(&root.path().join("r")).unwrap();
        drop(workspace);
        assert!(names(root.path()).is_empty());
    }

    #[test]
    fn only_what_the_dead_left_is_swept() {
        let root = tempfile::tempdir().unwrap();
        let alive = Workspace::create(root.path()).unwrap();
        let dead = root.path().join(".install-dead");
        fs::create_dir(&dead).unwrap();
        fs::write(dead.join("lock"), "").unwrap();
        let starting = root.path().join(".install-starting");
        fs::create_dir(&starting).unwrap();
        let old = root.path().join(".install-old");
        fs::create_dir(&old).unwrap();
        let long_ago = SystemTime::now() - LOCK_GRACE * 2;
        File::open(&old).unwrap().set_modified(long_ago).unwrap();
        let runner = root.path().join("installed");
        fs::create_dir(&runner).unwrap();
        sweep(root.path());
        assert!(alive.path().exists() && starting.exists() && runner.exists());
        assert!(!dead.exists() && !old.exists());
    }

    #[test]
    fn who_waited_for_a_lock_knows() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join(".lock-x");
        let cancel_token = CancelToken::default();
        let (first, waited) = Lock::acquire(&path, &cancel_token).unwrap().unwrap();
        assert!(!waited);
        let second = std::thread::spawn({
            let path = path.clone();
            move || Lock::acquire(&path, &CancelToken::default()).unwrap().unwrap().1
        });
        cancel_token.cancel();
        assert!(Lock::acquire(&path, &cancel_token).unwrap().is_none());
        // The other thread's first attempt comes long before the end of this pause.
        std::thread::sleep(25 * LOCK_PAUSE);
        drop(first);
        assert!(second.join().unwrap());
        assert!(!path.exists());
    }
}
