//! Finds the program that confines runners (spec/sandbox.md, "How it is enforced").

use std::env;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Component, Path, PathBuf};

use carton_format::context::CancelToken;

use super::embedded;
use super::workspace::Lock;
use crate::config::Config;

/// The names in `PATH` of programs that are launchers.
const NAMES: &[&str] = &["carton", "carton-launcher"];

/// Returns this program, if it called `runner_main`; else an installed copy of a program that does; else one in `PATH`.
pub(crate) fn launcher(config: &Config) -> Option<PathBuf> {
    embedded::executable().map(Path::to_path_buf).or_else(|| installed(config)).or_else(in_path)
}

/// The file in `runner_dir` that names the installed copy of a program that is a launcher, relative to `runner_dir`. It is not part of a
/// runner, because whoever offers a runner does not decide what confines others.
const MARKER: &str = ".launcher";

/// The lock that is held while a runner's folder is replaced or removed, because the launcher may be in it.
const LOCK: &str = ".lock-launcher";

/// Keeps other processes from replacing or removing the folder that has the launcher, until the lock is dropped. `None` if `cancel_token` is
/// cancelled meanwhile.
pub(super) fn lock(runner_dir: &Path, cancel_token: &CancelToken) -> io::Result<Option<Lock>> {
    Ok(Lock::acquire(&runner_dir.join(LOCK), cancel_token)?.map(|(lock, _)| lock))
}

/// The longest marker that is read, in bytes: a path.
const MAX_BYTES: u64 = 4096;

/// Returns the installed copy of such a program.
fn installed(config: &Config) -> Option<PathBuf> {
    Some(config.runner_dir.join(marked(&config.runner_dir)?)).filter(|path| path.is_file())
}

/// Returns the path in the marker.
fn marked(runner_dir: &Path) -> Option<PathBuf> {
    let mut text = String::new();
    File::open(runner_dir.join(MARKER)).ok()?.take(MAX_BYTES).read_to_string(&mut text).ok()?;
    let path = PathBuf::from(text.trim_end_matches('\n'));
    path.components().all(|part| matches!(part, Component::Normal(_))).then_some(path)
}

/// Names `executable`, in `runner_dir`, as a launcher. The caller holds the lock.
pub(super) fn remember(runner_dir: &Path, executable: &Path) -> io::Result<()> {
    let relative = executable.strip_prefix(runner_dir).map_err(io::Error::other)?;
    let new = runner_dir.join(MARKER).with_extension("new");
    fs::write(&new, format!("{}\n", relative.display()))?;
    fs::rename(new, runner_dir.join(MARKER))
}

/// Forgets a launcher that is in `folder`, or that is gone. The caller holds the lock.
pub(super) fn forget(runner_dir: &Path, folder: &Path) -> io::Result<()> {
    match marked(runner_dir).map(|path| runner_dir.join(path)) {
        Some(path) if path.starts_with(folder) || !path.exists() => fs::remove_file(runner_dir.join(MARKER)),
        _ => Ok(()),
    }
}

fn in_path() -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    let folders: Vec<PathBuf> = env::split_paths(&path).filter(|folder| folder.is_absolute()).collect();
    NAMES.iter().flat_map(|name| folders.iter().map(move |folder| folder.join(name))).find(|path| path.is_file())
}
