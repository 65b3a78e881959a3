//! libtorch's state of the whole process: its threads, and the GPUs that it finds.

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
