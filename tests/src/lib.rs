//! Shared by the end-to-end tests: the suite that every runner passes, a temporary place with its own configuration, installed test
//! runners, a census of this process's resources, a second run as another user, and files that stand for weights. The servers, a real one and one that misbehaves, are in
//! a separate crate that the unit tests of `carton-network` use too.

#[cfg(target_os = "linux")]
pub mod behaviour;
pub mod census;
#[cfg(target_os = "linux")]
pub mod ordinary_user;
pub mod place;
pub mod python_runner;
pub mod weights;

/// Returns the library of ONNX Runtime that `CARTON_TEST_ONNXRUNTIME` names. Without it, prints that the test is skipped.
#[must_use]
pub fn onnx_runtime() -> Option<String> {
    let library = std::env::var("CARTON_TEST_ONNXRUNTIME").ok().filter(|library| !library.is_empty());
    if library.is_none() {
        eprintln!("skipped: CARTON_TEST_ONNXRUNTIME does not name a library of ONNX Runtime");
    }
    library
}
