//! Supports programs that install ONNX Runtime's library: the release to install, its folder, and a check of a library file.
//!
//! ```text
//! <runner_data_dir>/
//!   onnxruntime/
//!     .install-XXXXXX/                an installation in progress; folders that begin with a dot are not searched
//!     1.32.0/
//!       libonnxruntime.so.1.32.0      the library
//!       LICENSE, ThirdPartyNotices.txt
//! ```

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use crate::library::{LibrarySearch, SearchPath, newest_library, stated_version};
use crate::onnx_runtime;

/// The release to install.
pub const VERSION: &str = "1.32.0";

/// The requirement of that release with the hashes of its wheels, in the format of `uv` and `pip`.
pub const REQUIREMENTS: &str = include_str!("../onnxruntime-requirements.txt");

/// The oldest usable release.
pub const OLDEST_VERSION: &str = "1.24";

/// An argument of the runner's executable. With it, the executable does not serve models: it loads the library that the next
/// argument names, and prints its version to standard output, or to standard error the reason why it cannot be used.
pub const CHECK_ARGUMENT: &str = "--check-library";

/// Returns the folder where libraries are installed, each in a folder named after its version.
#[must_use]
pub fn folder(runner_data_dir: &Path) -> PathBuf {
    runner_data_dir.join("onnxruntime")
}

/// Returns the library that runners with this data folder use, unless `ORT_DYLIB_PATH` names another.
#[must_use]
pub fn installed(runner_data_dir: &Path) -> Option<PathBuf> {
    newest_library(&folder(runner_data_dir))
}

/// Returns the version of the library that runners with this data folder use, as far as its path states it: the framework
/// version of this runner. Without a library, the release to install.
#[must_use]
pub fn version(runner_data_dir: &Path) -> String {
    framework_version(&SearchPath::of_data_folder(runner_data_dir))
}

/// The version of the library at one of `libraries`.
pub(crate) fn framework_version(libraries: &SearchPath) -> String {
    let stated = match libraries.find() {
        LibrarySearch::Library(path) => stated_version(&path),
        LibrarySearch::ChosenIsMissing(_) | LibrarySearch::Nothing => None,
    };
    stated.unwrap_or_else(|| VERSION.to_owned())
}

/// Returns the file name of the library of a version.
#[must_use]
pub fn file_name(version: &str) -> String {
    if cfg!(target_os = "macos") {
        format!("libonnxruntime.{version}.dylib")
    } else {
        format!("libonnxruntime.so.{version}")
    }
}

/// Checks the library at `path`, as [`CHECK_ARGUMENT`] requests.
pub(crate) fn check(path: &Path) -> ExitCode {
    match onnx_runtime::load_library(path) {
        Ok(library) => {
            println!("{}", library.version);
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{}", error.message);
            error.causes.iter().for_each(|cause| eprintln!("{cause}"));
            ExitCode::FAILURE
        }
    }
}
