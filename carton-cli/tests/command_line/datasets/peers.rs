//! Datasets read by Python's libraries.

use std::path::Path;
use std::process::Command;

use crate::sandbox::Sandbox;

#[test]
fn python_reads_what_is_written() {
    let Some(python) = std::env::var_os("CARTON_TEST_PYTHON") else {
        eprintln!("skipped: CARTON_TEST_PYTHON names no Python with safetensors, pyarrow and jsonschema");
        return;
    };
    let sandbox = Sandbox::new();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/python/dataset_peers.py");
    let output =
        Command::new(python).arg(script).arg(env!("CARGO_BIN_EXE_carton")).arg(sandbox.work()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(String::from_utf8_lossy(&output.stdout).ends_with("what_others_write passed\n"));
}
