//! Supports programs that install ONNX Runtime's library: the release to install, its folder, and a check of a library file.
//!
//! ```text
//! <runner_data_dir>/
//!   onnxruntime/
//!     .install-XXXXXX/                an installation in progress; folders that begin with a dot are not searched
//!     1.31.1/
//!       libonnxruntime.so.1.31.1      the library
//!       LICENSE, ThirdPartyNotices.txt
//! ```

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use crate::engine::library::newest_library;
use crate::engine::onnx_runtime;

/// The release to install.
pub const VERSION: &str = "1.31.1";

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
