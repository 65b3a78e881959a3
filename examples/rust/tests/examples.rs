//! Runs the examples and checks their output.

#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use carton_core::Config;
use tempfile::TempDir;

const DIGITS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../digits/model.onnx");

/// Returns the path of an example's program, which `cargo test` builds beside the tests.
fn example(name: &str) -> PathBuf {
    let tests = std::env::current_exe().unwrap();
    tests.parent().and_then(Path::parent).unwrap().join("examples").join(name)
}

fn run(home: &TempDir, name: &str, arguments: &[&str]) -> Output {
    let config = Config::in_folder(home.path());
    let output = Command::new(example(name))
        .args(arguments)
        .env("CARTON_CONFIG_PATH", home.path().join("config.toml"))
        .env("CARTON_RUNNER_DIR", config.runner_dir)
        .env("CARTON_RUNNER_DATA_DIR", config.runner_data_dir)
        .env("CARTON_CACHE_DIR", config.cache_dir)
        .output()
        .unwrap();
    assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
    output
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn a_model_is_packed_loaded_and_called() {
    let home = tempfile::tempdir().unwrap();
    std::fs::write(home.path().join("config.toml"), "").unwrap();
    let carton = home.path().join("digits.carton");
    let carton = carton.to_str().unwrap();
    let packed = text(&run(&home, "packing", &[DIGITS, carton]));
    assert!(packed.contains("sha256:") && packed.ends_with("1 self-test passed\n"), "{packed}");
    let inferred = text(&run(&home, "infer", &[carton]));
    assert!(inferred.contains("output probabilities: [1, 10]"), "{inferred}");
    assert!(inferred.contains("InvalidInput: "), "{inferred}");
    let streamed = text(&run(&home, "streaming", &[carton]));
    assert_eq!(streamed, "probabilities: [1, 10]\n");
    let called = text(&run(&home, "many_calls", &[carton, "200"]));
    assert!(called.starts_with("200 calls in "), "{called}");
}

#[test]
fn a_runner_of_ones_own_streams() {
    let home = tempfile::tempdir().unwrap();
    assert_eq!(text(&run(&home, "own_runner", &[])), "[1]\n[2]\n[3]\n[4]\n[5]\n");
}
