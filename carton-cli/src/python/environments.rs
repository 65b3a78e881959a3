//! Deletes environments that the python runner has made and that no process uses. `carton_runner/environments/store.py` defines the
//! folders and the locks.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use carton_core::CancelToken;

/// The folder of environments in the runners' data folder.
const FOLDER: &str = "python/environments-v1";
/// The file that marks a complete environment. It is deleted first, because half an environment must not be used.
const COMPLETE: &str = "complete";
/// The number of digits in the name of an environment.
const KEY_LENGTH: usize = 40;

/// An environment that was deleted, or would be.
#[derive(Debug)]
pub(crate) struct Environment {
    pub(crate) path: PathBuf,
    /// The bytes that deleting it frees: `uv` shares files with its own cache if possible.
    pub(crate) bytes: u64,
    /// `None` if it was never completed.
    pub(crate) last_used: Option<SystemTime>,
}

/// The result of [`prune`], or what it would be.
#[derive(Debug, Default)]
pub(crate) struct Pruned {
    pub(crate) environments: Vec<Environment>,
    /// The number of environments that were kept only because a process uses or makes them.
    pub(crate) n_in_use: usize,
}

/// An error of reading or deleting the folder, or something in it.
#[derive(Debug, thiserror::Error)]
#[error("cannot {what} `{}`", path.display())]
pub(crate) struct EnvironmentError {
    what: &'static str,
    path: PathBuf,
    source: io::Error,
}

impl EnvironmentError {
    fn of(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_path_buf();
        move |source| Self { what, path, source }
    }
}

/// Deletes the environments that no process uses: those not used for `older_than`, and those that were never completed. With `dry_run`
/// nothing is deleted.
///
/// # Errors
/// An environment cannot be examined or deleted; those before it are deleted. Once `cancel_token` is cancelled, the others stay.
pub(crate) fn prune(
    runner_data_dir: &Path,
    older_than: Option<Duration>,
    dry_run: bool,
    cancel_token: &CancelToken,
) -> Result<Pruned, EnvironmentError> {
    let folder = runner_data_dir.join(FOLDER);
    let mut pruned = Pruned::default();
    for key in keys(&folder)? {
        if cancel_token.is_cancelled() {
            break;
        }
        let (path, place) = (folder.join(&key), folder.join(format!("{key}.lock")));
        let Some(lock) = lock(&place).map_err(EnvironmentError::of("lock", &place))? else {
            pruned.n_in_use += 1;
            continue;
        };
        let last_used = last_used(&path, &lock);
        let is_recent = |time: SystemTime| older_than.is_some_and(|age| time.elapsed().unwrap_or_default() < age);
        if last_used.is_some_and(is_recent) {
            continue;
        }
        let exists = path.is_dir();
        let bytes = if exists { freed_by(&path) } else { 0 };
        if !dry_run {
            delete(&path).map_err(EnvironmentError::of("delete", &path))?;
            // The lock file is deleted last, while the lock is held: a process that waits for it checks whether the file still has its
            // name.
            fs::remove_file(&place).map_err(EnvironmentError::of("delete", &place))?;
        }
        if exists {
            pruned.environments.push(Environment { path, bytes, last_used });
        }
    }
    Ok(pruned)
}

/// Returns the names of environments, and of locks whose environment is gone. Files with other names were not made by the runner.
fn keys(folder: &Path) -> Result<BTreeSet<String>, EnvironmentError> {
    let entries = match folder.read_dir() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(BTreeSet::new()),
        entries => entries.map_err(EnvironmentError::of("read", folder))?,
    };
    let mut keys = BTreeSet::new();
    for entry in entries {
        let name = entry.map_err(EnvironmentError::of("read", folder))?.file_name();
        let key = name.to_str().map(|name| name.strip_suffix(".lock").unwrap_or(name)).unwrap_or_default();
        if key.len() == KEY_LENGTH && key.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            keys.insert(key.to_owned());
        }
    }
    Ok(keys)
}

/// Takes the lock of an environment; `None` if a process uses or makes it.
fn lock(place: &Path) -> io::Result<Option<File>> {
    loop {
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(place)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(None),
            Err(TryLockError::Error(error)) => return Err(error),
        }
        let held = file.metadata()?;
        match fs::symlink_metadata(place) {
            Ok(named) if (named.dev(), named.ino()) == (held.dev(), held.ino()) => return Ok(Some(file)),
            // The last holder has deleted the file meanwhile.
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
}

/// Returns when a complete environment was last used: every use touches its lock. The marker file may be newer than the lock, if the
/// environment was made before uses were recorded.
fn last_used(path: &Path, lock: &File) -> Option<SystemTime> {
    let made = fs::metadata(path.join(COMPLETE)).and_then(|metadata| metadata.modified()).ok()?;
    let used = lock.metadata().and_then(|metadata| metadata.modified()).ok()?;
    Some(made.max(used))
}

/// Returns the bytes on disk of files without another hard link.
fn freed_by(path: &Path) -> u64 {
    let mut bytes = 0;
    let mut folders = vec![path.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in folder.read_dir().into_iter().flatten().flatten() {
            let Ok(metadata) = entry.metadata() else { continue };
            if metadata.is_dir() {
                folders.push(entry.path());
            } else if metadata.nlink() == 1 {
                bytes += metadata.blocks() * 512;
            }
        }
    }
    bytes
}

fn delete(path: &Path) -> io::Result<()> {
    for gone in [fs::remove_file(path.join(COMPLETE)), fs::remove_dir_all(path)] {
        match gone {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn what_is_in_use_stays() {
        let data = tempfile::tempdir().unwrap();
        let folder = data.path().join(FOLDER);
        let key = |digit: char| digit.to_string().repeat(KEY_LENGTH);
        let make = |name: &str, is_complete: bool| {
            fs::create_dir_all(folder.join(name).join("lib")).unwrap();
            fs::write(folder.join(name).join("lib/package.py"), "x = 1").unwrap();
            if is_complete {
                fs::write(folder.join(name).join(COMPLETE), "").unwrap();
            }
        };
        for digit in ['a', 'b', 'c'] {
            make(&key(digit), true);
        }
        make(&key('d'), false);
        make("somebody's own", true);
        fs::write(folder.join(format!("{}.lock", key('e'))), "").unwrap();
        let place = folder.join(format!("{}.lock", key('b')));
        let used = File::create(&place).unwrap();
        used.lock_shared().unwrap();
        let old = SystemTime::now() - Duration::from_secs(7200);
        File::options().write(true).open(folder.join(key('c')).join(COMPLETE)).unwrap().set_modified(old).unwrap();
        File::create(folder.join(format!("{}.lock", key('c')))).unwrap().set_modified(old).unwrap();

        let run = |older_than, dry_run| {
            let pruned = prune(data.path(), older_than, dry_run, &CancelToken::default()).unwrap();
            let names =
                pruned.environments.iter().map(|one| one.path.file_name().unwrap().to_str().unwrap().to_owned());
            assert_eq!(pruned.n_in_use, 1);
            assert!(pruned.environments.iter().all(|one| one.bytes > 0), "{pruned:?}");
            names.collect::<Vec<_>>()
        };
        let hour = Some(Duration::from_secs(3600));
        assert_eq!(run(hour, true), [key('c'), key('d')]);
        assert_eq!(run(None, true), [key('a'), key('c'), key('d')]);
        assert_eq!(run(hour, false), [key('c'), key('d')]);
        assert_eq!(run(None, false), [key('a')]);
        assert_eq!(run(None, false), [""; 0]);
        let mut left: Vec<String> =
            folder.read_dir().unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        left.sort();
        assert_eq!(left, [key('b'), format!("{}.lock", key('b')), "somebody's own".to_owned()]);
        drop(used);
        assert_eq!(prune(data.path(), None, false, &CancelToken::default()).unwrap().environments.len(), 1);
        assert_eq!(
            prune(&data.path().join("nothing"), None, false, &CancelToken::default()).unwrap().environments.len(),
            0
        );
    }
}
