//! Runs all tests once more by a user without privileges, when the current user is root.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::setting::is_root;
use crate::sources::{COPIES, Sources, copy_folder};
use crate::torchscript::TORCHSCRIPT;

/// The user and the group of nobody.
const NOBODY: u32 = 65534;

/// Returns an interpreter that this user can execute, and that can import the packages of the other one.
fn reachable_python(sources: &Sources) -> Option<PathBuf> {
    let can_run = |python: &Path| {
        let version = "import sys; print(sys.version_info[:2])";
        let output = Command::new(python).args(["-I", "-c", version]).uid(NOBODY).gid(NOBODY).current_dir("/").output();
        output.ok().filter(|output| output.status.success()).map(|output| output.stdout)
    };
    let own = Command::new(&sources.python)
        .args(["-I", "-c", "import sys; print(sys.version_info[:2])"])
        .output()
        .ok()?
        .stdout;
    let candidates = [sources.python.clone(), "/usr/bin/python3".into(), "/usr/local/bin/python3".into()];
    candidates.into_iter().find(|python| can_run(python).is_some_and(|version| version == own))
}

#[test]
fn an_ordinary_user_is_contained_too() {
    if !is_root() || std::env::var_os(COPIES).is_some() {
        return;
    }
    let Some(sources) = Sources::find() else { return };
    let Some(python) = reachable_python(&sources) else {
        eprintln!("skipped: no interpreter of the same version that an ordinary user can execute");
        return;
    };
    // Everything is copied, because the user may not be able to enter the folder of the checkout.
    let folder = tempfile::tempdir().unwrap();
    sources.copy(folder.path(), &python);
    let runners = folder.path().join("runners");
    let torchscript = std::env::var_os("CARTON_TEST_RUNNERS").map(|runners| Path::new(&runners).join(TORCHSCRIPT));
    if let Some(torchscript) = torchscript.filter(|torchscript| torchscript.is_dir()) {
        copy_folder(&torchscript, &runners.join(TORCHSCRIPT));
    }
    let executable = folder.path().join("tests");
    fs::copy(std::env::current_exe().unwrap(), &executable).unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let temporary = folder.path().join("temporary");
    fs::create_dir(&temporary).unwrap();
    chown(&temporary, Some(NOBODY), Some(NOBODY)).unwrap();
    let output = Command::new(&executable)
        .args(["--test-threads", "2"])
        .env(COPIES, folder.path())
        .env("HOME", &temporary)
        .env("TMPDIR", &temporary)
        .env_remove("CARTON_TEST_PYTHON")
        .env("CARTON_TEST_RUNNERS", &runners)
        .current_dir(&temporary)
        .uid(NOBODY)
        .gid(NOBODY)
        .output()
        .unwrap();
    // What a sandbox that failed has left there can be too deep for this process.
    crate::host::remove(&folder.keep());
    let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "as user {NOBODY}:\n{text}");
    // Nobody is skipped silently.
    assert!(!text.contains("skipped: tests of Python models"), "{text}");
}
