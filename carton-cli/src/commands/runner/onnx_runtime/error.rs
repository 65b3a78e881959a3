//! Errors of installing the library of ONNX Runtime, with their exit codes and hints.

use std::io;
use std::path::{Path, PathBuf};

use carton_runner_onnx::onnx_runtime_library::OLDEST_VERSION;

use super::super::package_manager::PackageManagerError;
use crate::failure::{Exit, Failure};

/// An error of installing the library.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LibraryError {
    #[error("neither uv nor pip is there to install it with")]
    NoPackageManager,
    #[error(transparent)]
    PackageManager(PackageManagerError),
    #[error("no library of ONNX Runtime found in {}", place.display())]
    NoLibrary { place: PathBuf },
    #[error("cannot use {}: {reason}", path.display())]
    Unusable { path: PathBuf, reason: String },
    #[error("cannot {what} {}", path.display())]
    Io {
        what: &'static str,
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("ORT_DYLIB_PATH names {}, which cannot be used", path.display())]
    Chosen {
        path: PathBuf,
        #[source]
        source: Box<LibraryError>,
    },
    #[error("interrupted")]
    Interrupted,
}

/// The library was not installed, and neither was the runner.
#[derive(Debug, thiserror::Error)]
#[error("cannot install ONNX Runtime")]
struct NotInstalled(#[source] LibraryError);

impl LibraryError {
    pub(super) fn io(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { what, path, source }
    }

    /// Converts the error to the failure of the command. The exit code is 5 if something has to be installed first, and 7 if the network
    /// was needed but not allowed.
    pub(crate) fn into_failure(self) -> Failure {
        let exit = match &self {
            Self::NoPackageManager => Exit::NoRunner,
            Self::PackageManager(PackageManagerError::Offline { .. }) => Exit::Network,
            Self::Interrupted => Exit::Interrupted,
            _ => Exit::Failure,
        };
        let first = match &self {
            Self::NoPackageManager => "install uv or pip and run this again, or ",
            Self::PackageManager(PackageManagerError::Offline { .. }) => "run this again without --offline, or ",
            Self::PackageManager(PackageManagerError::Failed { .. }) | Self::NoLibrary { .. } => "",
            Self::Chosen { .. } => {
                let hint = format!(
                    "set it to a libonnxruntime.so of version {OLDEST_VERSION} or later; or unset it, and the library comes from \
                     PyPI"
                );
                return Failure::with_exit(exit, NotInstalled(self)).hint(hint);
            }
            Self::Unusable { .. } | Self::Io { .. } | Self::Interrupted | Self::PackageManager(_) => {
                return Failure::with_exit(exit, NotInstalled(self));
            }
        };
        Failure::with_exit(exit, NotInstalled(self)).hint(format!(
            "{first}set ORT_DYLIB_PATH to a libonnxruntime.so of version {OLDEST_VERSION} or later first"
        ))
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
