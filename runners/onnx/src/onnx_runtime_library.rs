//! ONNX Runtime's library as those see it who bring it in: which release, where it belongs, whether a file is one.
//!
//! ```text
//! <runner_data_dir>/
//!   onnxruntime/
//!     .install-XXXXXX/                one installation in progress; names that begin with a dot are not looked into
//!     1.31.1/
//!       libonnxruntime.so.1.31.1      the library
//!       LICENSE, ThirdPartyNotices.txt
//! ```

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use crate::engine::library::newest_library;
use crate::engine::onnx_runtime;

/// The release that is brought in.
pub const VERSION: &str = "1.31.1";

/// That release with the hashes of its wheels, as `uv` and `pip` read it.
pub const REQUIREMENTS: &str = include_str!("../onnxruntime-requirements.txt");

/// The oldest release that can be used.
pub const OLDEST_VERSION: &str = "1.24";

/// An argument of the runner's executable: it does not serve models then, but loads the library that the next argument
/// names, and prints its version to standard output, or to standard error why it cannot be used.
pub const CHECK_ARGUMENT: &str = "--check-library";

/// Where libraries are installed, each in a folder named after its version.
#[must_use]
pub fn folder(runner_data_dir: &Path) -> PathBuf {
    runner_data_dir.join("onnxruntime")
}

/// The library that runners with this data folder use, unless `ORT_DYLIB_PATH` names another.
#[must_use]
pub fn installed(runner_data_dir: &Path) -> Option<PathBuf> {
    newest_library(&folder(runner_data_dir))
}

/// What the library of a version is called.
#[must_use]
pub fn file_name(version: &str) -> String {
    if cfg!(target_os = "macos") {
        format!("libonnxruntime.{version}.dylib")
    } else {
        format!("libonnxruntime.so.{version}")
    }
}

/// Does what [`CHECK_ARGUMENT`] asks for.
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
