//! libtorch's state of the whole process: its threads, and the GPUs that it finds.

use std::ffi::{CString, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use carton_runner_interface::runner::RunnerError;

use super::shim;

/// Returns the number of threads that an operator uses.
///
/// # Errors
/// libtorch reports an error.
pub fn threads() -> Result<i32, RunnerError> {
    let mut threads = 0;
    // SAFETY: the number may be written to.
    unsafe { shim::carton_threads(&raw mut threads) }.check()?;
    Ok(threads)
}

/// Sets the number of threads that an operator uses: at least one.
///
/// # Errors
/// libtorch reports an error.
pub fn set_threads(threads: i32) -> Result<(), RunnerError> {
    shim::carton_set_threads(threads).check()
}

/// Returns the number of threads that run operators that do not depend on one another.
///
/// # Errors
/// libtorch reports an error.
pub fn interop_threads() -> Result<i32, RunnerError> {
    let mut threads = 0;
    // SAFETY: the number may be written to.
    unsafe { shim::carton_interop_threads(&raw mut threads) }.check()?;
    Ok(threads)
}

/// Sets the number of threads that run operators that do not depend on one another: at least one.
///
/// # Errors
/// The number was set before, or libtorch has started these threads.
pub fn set_interop_threads(threads: i32) -> Result<(), RunnerError> {
    shim::carton_set_interop_threads(threads).check()
}

/// Whether this libtorch has CUDA, and CUDA finds a GPU. CUDA looks once: later changes of its environment have no effect.
///
/// # Errors
/// libtorch reports an error.
pub fn finds_gpu() -> Result<bool, RunnerError> {
    let mut found = false;
    // SAFETY: the flag may be written to.
    unsafe { shim::carton_finds_gpu(&raw mut found) }.check()?;
    Ok(found)
}

/// Loads a shared library that registers operators of TorchScript, for the rest of the process.
///
/// # Errors
/// The linker of the system refuses it.
pub fn load_library(path: &Path) -> Result<(), RunnerError> {
    let path = CString::new(path.as_os_str().as_bytes()).map_err(|_| RunnerError::new("a path with NUL"))?;
    // SAFETY: the path ends with NUL. What the library does when it is loaded is the responsibility of those who name it, as with the
    // model, which is a program too.
    unsafe { shim::carton_load_library(path.as_ptr()) }.check()
}

/// The file that libtorch was loaded from, without links; `None` if the system does not say it.
#[must_use]
pub fn libtorch_path() -> Option<PathBuf> {
    // SAFETY: the text lives as long as the process.
    let path = unsafe { shim::bytes_of(shim::carton_libtorch_path()) };
    std::fs::canonicalize(Path::new(OsStr::from_bytes(path))).ok()
}
