//! The same tables in pyarrow, and the same model in ONNX Runtime.

use std::path::Path;
use std::process::Command;

use super::pack_digits;
use crate::sandbox::{Sandbox, digits};

#[test]
fn a_loop_in_python_gives_the_same_rows() {
    let Some(python) = std::env::var_os("CARTON_TEST_PYTHON") else {
        eprintln!("skipped: CARTON_TEST_PYTHON names no Python with pyarrow and onnxruntime");
        return;
    };
    let sandbox = Sandbox::new();
    pack_digits(&sandbox);
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/python/rows_peers.py");
    let carton = sandbox.command(["run"]);
    let mut command = Command::new(python);
    command.arg(script).arg(carton.get_program()).arg(sandbox.work()).arg(digits("model.onnx"));
    for (name, value) in carton.get_envs().filter(|(name, _)| *name != "PATH") {
        command.env(name, value.unwrap());
    }
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(String::from_utf8_lossy(&output.stdout), "18 tables are the same\n");
}
