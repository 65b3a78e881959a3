//! Where a runner is put together before it appears in `runner_dir`, and how it appears.
//!
//! ```text
//! <runner_dir>/
//!   .install-XXXXXX/       one installation in progress; the registry skips names that begin with a dot
//!     lock                 held as long as its process lives
//!     new/                 what becomes the runner's folder
//!   .lock-…                held while that runner is installed
//!   NAME-VERSION/          an installed runner
//! ```

use std::fs;
use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;

use crate::process_lock::{Mode, ProcessLock};

/// How the names of workspaces begin.
const PREFIX: &str = ".install-";
/// A workspace without a lock is as old as this before it counts as left behind: its process may not have come so far yet.
const LOCK_GRACE: Duration = Duration::from_secs(10 * 60);
/// Between two attempts to get a lock.
const LOCK_PAUSE: Duration = Duration::from_millis(20);

/// A folder for one installation. Dropping it deletes it with all that is in it.
#[derive(Debug)]
pub struct Workspace {
    path: PathBuf,
    _lock: Lock,
}

impl Workspace {
    /// Makes one in `runner_dir`, and deletes those that processes left there which are dead.
    ///
    /// # Errors
    /// The folder cannot be made or written to.
    pub fn create(runner_dir: &Path) -> io::Result<Self> {
        fs::create_dir_all(runner_dir)?;
        sweep(runner_dir);
        loop {
            let path = tempfile::Builder::new().prefix(PREFIX).tempdir_in(runner_dir)?.keep();
            // A sweeper that looks at this very moment may get the lock first; the folder is its then.
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

    /// Where it lies.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Makes `built`, a folder in here, the folder `target`. What was there is replaced at once: at no moment, and after no
    /// kill, is there nothing or something incomplete.
    ///
    /// # Errors
    /// `target` cannot be made or replaced.
    pub fn publish(&self, built: &Path, target: &Path) -> io::Result<()> {
        match renameat_with(CWD, built, CWD, target, RenameFlags::NOREPLACE) {
            Ok(()) => return Ok(()),
            Err(Errno::EXIST) => match renameat_with(CWD, built, CWD, target, RenameFlags::EXCHANGE) {
                Ok(()) => return Ok(()),
                // Removed meanwhile.
                Err(Errno::NOENT) => {}
                Err(error) if is_unsupported(error) => {}
                Err(error) => return Err(error.into()),
            },
            Err(error) if is_unsupported(error) => {}
            Err(error) => return Err(error.into()),
        }
        // Without the system's help there is a moment with nothing at `target`.
        self.take(target)?;
        fs::rename(built, target)
    }

    /// Takes `target` away at once, to be deleted with this workspace. Nothing there is no error.
    pub(super) fn take(&self, target: &Path) -> io::Result<()> {
        match fs::rename(target, self.path.join("taken")) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            other => other,
        }
    }
}

impl Drop for Workspace {
    fn drop(&mut self) {
        // What cannot be deleted now is swept later.
        let _ = fs::remove_dir_all(&self.path);
    }
}

fn is_unsupported(error: Errno) -> bool {
    matches!(error, Errno::INVAL | Errno::NOSYS | Errno::NOTSUP)
}

/// Deletes workspaces whose processes are dead. What cannot be deleted stays.
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

/// An exclusive lock of the runners' folder.
#[derive(Debug)]
pub(super) struct Lock {
    _lock: ProcessLock,
}

impl Lock {
    /// Waits for the lock at `path`; whether it had to wait is returned too. `None` when nobody wants it any more.
    pub(super) fn acquire(path: &Path, wanted: &dyn Fn() -> ControlFlow<()>) -> io::Result<Option<(Self, bool)>> {
        let mut waited = false;
        loop {
            if let Some(lock) = Self::try_acquire(path)? {
                return Ok(Some((lock, waited)));
            }
            if !waited {
                tracing::info!(lock = %path.display(), "waiting for another process");
            }
            waited = true;
            if wanted().is_break() {
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
        let keep_waiting = || ControlFlow::Continue(());
        let (first, waited) = Lock::acquire(&path, &keep_waiting).unwrap().unwrap();
        assert!(!waited);
        assert!(Lock::acquire(&path, &|| ControlFlow::Break(())).unwrap().is_none());
        let (waiting, is_waiting) = std::sync::mpsc::channel();
        let second = std::thread::spawn({
            let path = path.clone();
            // Asked only after an attempt that failed.
            let wanted = move || {
                let _ = waiting.send(());
                ControlFlow::Continue(())
            };
            move || Lock::acquire(&path, &wanted).unwrap().unwrap().1
        });
        is_waiting.recv().unwrap();
        drop(first);
        assert!(second.join().unwrap());
        assert!(!path.exists());
    }
}
