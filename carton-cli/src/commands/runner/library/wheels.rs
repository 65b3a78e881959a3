//! Installs a library from wheels of a Python package index, which the runner's descriptor pins by their hashes.
//!
//! ```text
//! <runner_data_dir>/<library>/<version>/
//!   lib/          the files of the wheels that the runner uses
//!   dist-info/    the wheels' metadata and licenses
//! ```

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use carton_core::runner::{Descriptor, FoundLibrary, LibraryNeed, Workspace};
use carton_core::{CancelToken, Config};

use super::super::package_manager::{PackageManager, PythonTag};
use super::error::LibraryError;

/// The wheels that descriptors pin are those for this Python. `runners/torchscript/libtorch` takes the same.
const PYTHON: PythonTag = PythonTag { version: "3.11", abi: "cp311" };
/// How deep a folder `lib` may lie in an unpacked wheel: `nvidia/cu13/lib`.
const MAX_DEPTH: usize = 3;

/// Returns the folder for the library of a runner.
pub(super) fn root(need: &LibraryNeed, runner_data_dir: &Path) -> PathBuf {
    runner_data_dir.join(&need.name)
}

/// Returns the library of the wheels that `runner` pins, if it is installed.
pub(super) fn installed(runner: &Descriptor, need: &LibraryNeed, runner_data_dir: &Path) -> Option<FoundLibrary> {
    let folder = root(need, runner_data_dir).join(runner.framework_version.to_string()).join("lib");
    let folder = fs::canonicalize(folder).ok()?;
    let is_complete = need.missing_in(&folder).is_none();
    is_complete.then(|| FoundLibrary { version: runner.framework_version.clone(), read: vec![folder.clone()], folder })
}

/// Fetches the wheels of a runner's library, and keeps the files that the runner uses.
pub(super) fn install(
    runner: &Descriptor,
    need: &LibraryNeed,
    manager: &PackageManager,
    config: &Config,
    cancel_token: &CancelToken,
) -> Result<FoundLibrary, LibraryError> {
    let root = root(need, &config.runner_data_dir);
    let workspace = Workspace::create(&root).map_err(LibraryError::io("install into", &root))?;
    let [unpacked, new] = ["unpacked", "new"].map(|name| workspace.path().join(name));
    manager.install(&requirements(need), PYTHON, &unpacked, config, cancel_token)?;
    let library = new.join("lib");
    fs::create_dir_all(&library).map_err(LibraryError::io("create", &library))?;
    let folders = folders(&unpacked);
    for file in &need.wheel_files {
        let found = folders.iter().map(|folder| folder.join(file)).find(|path| path.is_file());
        let lacking = || LibraryError::WheelFile { name: need.name.clone(), file: file.clone() };
        let to = library.join(file);
        fs::rename(found.ok_or_else(lacking)?, &to).map_err(LibraryError::io("create", &to))?;
    }
    keep_metadata(&unpacked, &new.join("dist-info"))?;
    if cancel_token.is_cancelled() {
        return Err(LibraryError::Interrupted);
    }
    let target = root.join(runner.framework_version.to_string());
    workspace.publish(&new, &target).map_err(LibraryError::io("create", &target))?;
    installed(runner, need, &config.runner_data_dir).ok_or_else(|| LibraryError::WheelFile {
        name: need.name.clone(),
        file: need.missing_in(&target.join("lib")).unwrap_or("lib").to_owned(),
    })
}

/// Returns the lines of a requirements file. The descriptor's values were checked: none can be an option, a URL or a second line.
fn requirements(need: &LibraryNeed) -> String {
    need.wheels.iter().fold(String::new(), |mut text, wheel| {
        let _ = writeln!(text, "{}=={} --hash=sha256:{}", wheel.name, wheel.version, wheel.sha256);
        text
    })
}

/// Returns the folders called `lib` in unpacked wheels.
fn folders(unpacked: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut searched = vec![(unpacked.to_path_buf(), 0)];
    while let Some((folder, depth)) = searched.pop() {
        for entry in folder.read_dir().into_iter().flatten().flatten() {
            if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                continue;
            }
            if entry.file_name() == "lib" {
                found.push(entry.path());
            } else if depth + 1 < MAX_DEPTH {
                searched.push((entry.path(), depth + 1));
            }
        }
    }
    found
}

/// Moves the folders with the wheels' metadata, in which their licenses are.
fn keep_metadata(unpacked: &Path, target: &Path) -> Result<(), LibraryError> {
    fs::create_dir_all(target).map_err(LibraryError::io("create", target))?;
    for entry in unpacked.read_dir().map_err(LibraryError::io("read", unpacked))?.flatten() {
        let name = entry.file_name();
        if name.to_string_lossy().ends_with(".dist-info") {
            let to = target.join(&name);
            fs::rename(entry.path(), &to).map_err(LibraryError::io("create", &to))?;
        }
    }
    Ok(())
}
