//! Installs the library of ONNX Runtime, as part of `carton runner install onnx`.
//!
//! The library comes from the wheel on PyPI, which the user's own `uv` or `pip` fetches and compares with the hashes in this program; or
//! it is a copy of the file that `ORT_DYLIB_PATH` names. In both cases it is assembled in a folder that runners do not search, loaded
//! once in a separate process, and renamed.

mod error;
mod files;

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use carton_core::runner::{RUNNER_ARGUMENT, Workspace};
use carton_core::{CancelToken, Config};
use carton_runner_onnx::{RUNNER_NAME, onnx_runtime_library};

pub(super) use self::error::LibraryError;
use super::package_manager::{PackageManager, PythonTag};
use carton_core::program::{Ended, run};

/// The timeout for loading a library.
const CHECK_TIMEOUT: Duration = Duration::from_secs(120);

/// The wheel that is fetched. The library is the same in all of them.
const PYTHON: PythonTag = PythonTag { version: "3.12", abi: "cp312" };

/// The parameters of installing a library.
pub(super) struct Request<'a> {
    /// Its folder for the runners' data has the subfolder `onnxruntime` with the libraries.
    pub(super) config: &'a Config,
    /// Receives the current stage.
    pub(super) report: &'a (dyn Fn(&str) + Sync),
    /// Cancels the work.
    pub(super) cancel_token: &'a CancelToken,
}

/// An installed library.
#[derive(Debug)]
pub(super) struct Library {
    pub(super) version: String,
    pub(super) path: PathBuf,
    /// Its source; `None` if it was there before.
    pub(super) source: Option<String>,
}

impl Request<'_> {
    /// Installs the library, unless it is already there.
    ///
    /// # Errors
    /// See [`LibraryError`]. After an error nothing has changed.
    pub(super) fn bring_in(&self) -> Result<Library, LibraryError> {
        let root = onnx_runtime_library::folder(&self.config.runner_data_dir);
        if let Some(chosen) = env::var_os("ORT_DYLIB_PATH").filter(|path| !path.is_empty()) {
            let path = PathBuf::from(chosen);
            return self.copy(&root, &path).map_err(|error| match error {
                LibraryError::Interrupted => error,
                error => LibraryError::Chosen { path, source: Box::new(error) },
            });
        }
        let version = onnx_runtime_library::VERSION;
        let target = root.join(version).join(onnx_runtime_library::file_name(version));
        if target.is_file() && self.check(&target).is_ok() {
            return Ok(Library { version: version.to_owned(), path: target, source: None });
        }
        let managers = PackageManager::all_usable(&self.config.runner_data_dir, self.cancel_token);
        if managers.is_empty() {
            return Err(LibraryError::NoPackageManager);
        }
        let workspace = Workspace::create(&root).map_err(LibraryError::io("install into", &root))?;
        let mut failure = None;
        for manager in managers {
            (self.report)(&format!("installing ONNX Runtime {version} with {}", manager.name()));
            let wheel = workspace.path().join(manager.name());
            let requirements = onnx_runtime_library::REQUIREMENTS;
            match manager
                .install(requirements, PYTHON, &wheel, self.config, self.cancel_token)
                .map_err(LibraryError::from)
            {
                Ok(()) => {
                    let new = new_folder(&workspace)?;
                    files::take_from_wheel(&wheel, &new, version)?;
                    let path = self.publish(&workspace, &new, &root)?;
                    return Ok(Library { version: version.to_owned(), path, source: Some(manager.name().to_owned()) });
                }
                Err(LibraryError::Interrupted) => return Err(LibraryError::Interrupted),
                // Keeps the first error, because the first manager is the preferred one.
                Err(error) => _ = failure.get_or_insert(error),
            }
        }
        Err(failure.unwrap_or(LibraryError::NoPackageManager))
    }

    /// Copies the library that the user names.
    fn copy(&self, root: &Path, chosen: &Path) -> Result<Library, LibraryError> {
        let original = chosen.canonicalize().map_err(LibraryError::io("read", chosen))?;
        let installed = root.canonicalize().ok();
        let own_folder =
            original.parent().filter(|folder| installed.is_some() && folder.parent() == installed.as_deref());
        if let Some(version) = own_folder {
            let version = version.file_name().unwrap_or_default().to_string_lossy().into_owned();
            self.check(&original)?;
            return Ok(Library { version, path: original, source: None });
        }
        (self.report)(&format!("copying {}", original.display()));
        let version = self.check(&original)?;
        let workspace = Workspace::create(root).map_err(LibraryError::io("install into", root))?;
        let new = new_folder(&workspace)?;
        files::copy_with_providers(&original, &new, &version)?;
        let path = self.publish(&workspace, &new, root)?;
        Ok(Library { version, path, source: Some(original.display().to_string()) })
    }

    /// Loads the new library to check it, and renames its folder to its version.
    fn publish(&self, workspace: &Workspace, new: &Path, root: &Path) -> Result<PathBuf, LibraryError> {
        let library = files::library_in(new).ok_or_else(|| LibraryError::NoLibrary { place: new.to_owned() })?;
        (self.report)("loading ONNX Runtime");
        let version = self.check(&library)?;
        if self.cancel_token.is_cancelled() {
            return Err(LibraryError::Interrupted);
        }
        let target = root.join(version);
        workspace.publish(new, &target).map_err(LibraryError::io("create", &target))?;
        Ok(target.join(library.file_name().unwrap_or_default()))
    }

    /// Returns the version of the library at `path`. Loads the library in a runner process, because loading may end the process.
    fn check(&self, path: &Path) -> Result<String, LibraryError> {
        let unusable = |reason: String| LibraryError::Unusable { path: path.to_owned(), reason };
        let program = env::current_exe().map_err(LibraryError::io("start", Path::new("this program")))?;
        let mut command = Command::new(&program);
        command.args([RUNNER_ARGUMENT, RUNNER_NAME, onnx_runtime_library::CHECK_ARGUMENT]).arg(path);
        let ended = run(&mut command, Some(CHECK_TIMEOUT), self.cancel_token);
        match ended.map_err(LibraryError::io("start", &program))? {
            Ended::Interrupted => Err(LibraryError::Interrupted),
            Ended::TimedOut => Err(unusable(format!("loading it took more than {} s", CHECK_TIMEOUT.as_secs()))),
            Ended::Exited { status, stdout, .. } if status.success() => {
                let version = stdout.trim();
                // The version becomes the name of a folder.
                match semver::Version::parse(version) {
                    Ok(_) => Ok(version.to_owned()),
                    Err(error) => Err(unusable(format!("it says that its version is {version:?}: {error}"))),
                }
            }
            Ended::Exited { status, stderr, .. } if status.code() == Some(1) => Err(unusable(stderr)),
            Ended::Exited { status, stderr, .. } => Err(unusable(format!("loading it ended with {status}: {stderr}"))),
        }
    }
}

fn new_folder(workspace: &Workspace) -> Result<PathBuf, LibraryError> {
    let path = workspace.path().join("new");
    fs::create_dir(&path).map_err(LibraryError::io("create", &path))?;
    Ok(path)
}
