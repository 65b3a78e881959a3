//! The runners that the suite is called for.

mod installed;
pub mod node;
pub mod noop;
pub mod onnx;
mod onnx_file;
pub mod python;
pub mod torchscript;

use std::path::PathBuf;

/// Returns the path of a file of the checkout.
fn in_checkout(path: &str) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "..", path].iter().collect()
}

/// Returns the reason for skipping a subject that needs this program, if the program is missing.
fn unavailable_program(name: &str) -> Option<String> {
    let is_there =
        std::process::Command::new(name).arg("--version").output().is_ok_and(|output| output.status.success());
    (!is_there).then(|| format!("there is no `{name}` in PATH that runs"))
}
