//! What libtorch keeps for the whole process: its threads, and the GPUs that it finds.

use carton_runner_interface::runner::RunnerError;

use super::shim;

/// How many threads an operator uses.
///
/// # Errors
/// Whatever libtorch says.
pub fn threads() -> Result<i32, RunnerError> {
    let mut threads = 0;
    // SAFETY: the number may be written to.
    unsafe { shim::carton_threads(&raw mut threads) }.check()?;
    Ok(threads)
}

/// Tells libtorch how many threads an operator uses: at least one.
///
/// # Errors
/// Whatever libtorch says.
pub fn set_threads(threads: i32) -> Result<(), RunnerError> {
    shim::carton_set_threads(threads).check()
}

/// How many threads run operators that do not depend on one another.
///
/// # Errors
/// Whatever libtorch says.
pub fn interop_threads() -> Result<i32, RunnerError> {
    let mut threads = 0;
    // SAFETY: the number may be written to.
    unsafe { shim::carton_interop_threads(&raw mut threads) }.check()?;
    Ok(threads)
}

/// Tells libtorch how many threads run operators that do not depend on one another: at least one.
///
/// # Errors
/// It was told before, or has started these threads.
pub fn set_interop_threads(threads: i32) -> Result<(), RunnerError> {
    shim::carton_set_interop_threads(threads).check()
}

/// Whether this libtorch has CUDA, and CUDA has a GPU. CUDA looks once: later changes of its environment do not count.
///
/// # Errors
/// Whatever libtorch says.
pub fn finds_gpu() -> Result<bool, RunnerError> {
    let mut found = false;
    // SAFETY: the flag may be written to.
    unsafe { shim::carton_finds_gpu(&raw mut found) }.check()?;
    Ok(found)
}
