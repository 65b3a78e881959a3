//! Why a library that a runner needs was not found, or cannot be used.

use std::io;
use std::path::{Path, PathBuf};

use semver::{Version, VersionReq};

use super::super::package_manager::PackageManagerError;
use crate::failure::{Exit, Failure};

/// An error of finding a library.
#[derive(Debug, thiserror::Error)]
pub(super) enum LibraryError {
    #[error("this program does not know how to find the library `{name}`")]
    Unknown { name: String },
    #[error("there is no libtorch in `{}`", path.display())]
    NotThere { path: PathBuf },
    #[error("the interpreter `{}` has no package `torch`", interpreter.display())]
    NoPackage { interpreter: PathBuf },
    #[error("cannot ask the interpreter `{}` for its package `torch`: {reason}", interpreter.display())]
    Interpreter { interpreter: PathBuf, reason: String },
    #[error("`{}` does not say its version: {found:?}", path.display())]
    Version { path: PathBuf, found: String },
    #[error("the {name} in `{}` is {found}; there are runners for {offered}", folder.display())]
    NotOffered { name: String, folder: PathBuf, found: Version, offered: String },
    #[error("the {name} in `{}` is {found}, required is `{required}`", folder.display())]
    NotRequired { name: String, folder: PathBuf, found: Version, required: VersionReq },
    #[error("`{}` lacks `{file}`, which the runner for {name} {version} needs", folder.display())]
    Incomplete { name: String, version: Version, folder: PathBuf, file: String },
    #[error("no {name} {version} was found on this machine")]
    NotFound { name: String, version: VersionReq },
    #[error("the wheels of {name} lack `{file}`")]
    WheelFile { name: String, file: String },
    #[error(transparent)]
    PackageManager(PackageManagerError),
    #[error("cannot {what} `{}`", path.display())]
    Io { what: &'static str, path: PathBuf, source: io::Error },
    #[error("interrupted")]
    Interrupted,
}

/// What names a libtorch, for hints.
const NAME_ONE: &str =
    "`--torch PATH` names a Python environment with torch, its interpreter, or the folder of a libtorch";

impl LibraryError {
    pub(super) fn io(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { what, path, source }
    }
}

impl From<PackageManagerError> for LibraryError {
    fn from(error: PackageManagerError) -> Self {
        match error {
            PackageManagerError::Interrupted => Self::Interrupted,
            error => Self::PackageManager(error),
        }
    }
}

impl From<LibraryError> for Failure {
    fn from(error: LibraryError) -> Self {
        let exit = match &error {
            LibraryError::Interrupted => Exit::Interrupted,
            LibraryError::PackageManager(PackageManagerError::Offline { .. }) => Exit::Network,
            LibraryError::PackageManager(_) | LibraryError::Io { .. } | LibraryError::WheelFile { .. } => Exit::Failure,
            _ => Exit::NoRunner,
        };
        let hint = match &error {
            LibraryError::NotThere { .. } | LibraryError::NoPackage { .. } => NAME_ONE.to_owned(),
            LibraryError::NotOffered { name, .. } => {
                format!("without `--torch` a {name} that fits is downloaded; {NAME_ONE}")
            }
            LibraryError::NotFound { version, .. } if version.matches(&Version::new(1, 13, 1)) => {
                format!("`apt-get install libtorch1.13` of Debian 12 has it; {NAME_ONE}")
            }
            LibraryError::NotFound { .. } => NAME_ONE.to_owned(),
            LibraryError::PackageManager(PackageManagerError::Offline { .. }) => {
                format!("run this again without --offline; {NAME_ONE}")
            }
            LibraryError::PackageManager(_) => NAME_ONE.to_owned(),
            _ => return Self::with_exit(exit, error),
        };
        Self::with_exit(exit, error).hint(hint)
    }
}
