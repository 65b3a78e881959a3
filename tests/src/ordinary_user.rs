//! Runs tests once more as a user without privileges, when the current user is root.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_bind_recursive, mount_change};
use rustix::thread::{UnshareFlags, set_thread_gid, set_thread_groups, set_thread_uid, unshare_unsafe};
use tempfile::TempDir;

/// The user and the group of nobody.
const NOBODY: u32 = 65534;

/// Is set in the second run.
const IS_RERUN: &str = "CARTON_TEST_ORDINARY_USER";

/// What the tests read, besides the checkout and their own program: the paths in these variables.
const NEEDED: [&str; 3] = ["CARTON_TEST_PYTHON", "CARTON_TEST_ONNXRUNTIME", "CARTON_TEST_RUNNERS"];

/// Whether these tests run once more, as a user without privileges.
#[must_use]
pub fn is_current() -> bool {
    std::env::var_os(IS_RERUN).is_some()
}

/// Runs the tests of this program once more as a user without privileges. Returns what they print, and a folder of that user with what they
/// have left; `None` if the current user is not root, or if this is that run.
///
/// The user may not be able to enter the folders on the way to the checkout and to the interpreter. So the run has mounts of its own, in which
/// these folders hold nothing but what it needs, and can be entered.
///
/// # Panics
/// When it cannot be started, or when a test fails.
#[must_use]
pub fn run_again() -> Option<(String, TempDir)> {
    if is_current() {
        return None;
    }
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: a second run as another user: only root can become one");
        return None;
    }
    let executable = std::env::current_exe().unwrap();
    // The checkout itself must be open to others, the folders on the way to it need not.
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("../Cargo.toml");
    let variables = NEEDED.iter().filter_map(std::env::var_os).map(PathBuf::from);
    let needed: Vec<PathBuf> = [executable.clone(), manifest].into_iter().chain(variables).collect();
    let folder = tempfile::tempdir().unwrap();
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let [home, stage] = ["home", "stage"].map(|name| folder.path().join(name));
    std::fs::create_dir(&home).unwrap();
    std::fs::create_dir(&stage).unwrap();
    chown(&home, Some(NOBODY), Some(NOBODY)).unwrap();

    let closed = closed_folders(&needed);
    let mut command = Command::new(&executable);
    command.args(["--test-threads", "2", "--show-output"]).env(IS_RERUN, "1").env("HOME", &home).env("TMPDIR", &home);
    let become_nobody = move || {
        open_folders(&closed, &stage)?;
        set_thread_groups(&[])?;
        set_thread_gid(rustix::process::Gid::from_raw(NOBODY))?;
        set_thread_uid(rustix::process::Uid::from_raw(NOBODY))?;
        std::env::set_current_dir(&home)
    };
    // SAFETY: the closure allocates and makes system calls; the C library permits the former after a fork too.
    let output = unsafe { command.pre_exec(become_nobody) }.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "as user {NOBODY}:\n{text}");
    Some((text, folder))
}

/// The folders on the way to `needed` that others cannot enter, with the names in them that are on that way. The outer ones come first.
fn closed_folders(needed: &[PathBuf]) -> BTreeMap<PathBuf, BTreeSet<OsString>> {
    let mut closed: BTreeMap<_, BTreeSet<_>> = BTreeMap::new();
    for path in needed {
        for path in [std::path::absolute(path).unwrap(), path.canonicalize().unwrap()] {
            for (folder, next) in path.ancestors().skip(1).zip(path.ancestors()) {
                let is_closed = folder.metadata().unwrap().mode() & 0o001 == 0;
                if let Some(name) = next.file_name().filter(|_| is_closed) {
                    closed.entry(folder.canonicalize().unwrap()).or_default().insert(name.to_owned());
                }
            }
        }
    }
    closed
}

/// Gives this process mounts of its own, in which everybody may enter `closed`, reduced to these names. `stage` is an empty folder.
fn open_folders(closed: &BTreeMap<PathBuf, BTreeSet<OsString>>, stage: &Path) -> io::Result<()> {
    // SAFETY: the flag changes no descriptors.
    unsafe { unshare_unsafe(UnshareFlags::NEWNS) }?;
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)?;
    for (folder, names) in closed {
        mount("tmpfs", stage, "tmpfs", MountFlags::empty(), c"mode=755")?;
        for name in names {
            let (source, place) = (folder.join(name), stage.join(name));
            if source.is_dir() {
                std::fs::create_dir(&place)?;
            } else {
                std::fs::File::create(&place)?;
            }
            mount_bind_recursive(source, place)?;
        }
        mount_bind_recursive(stage, folder)?;
    }
    Ok(())
}
