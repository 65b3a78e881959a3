//! The files that the tests use.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

const CHECKOUT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

/// Tells where an interpreter's files are, and where NumPy is.
const QUESTION: &str = r#"
import json, os, sys, sysconfig
import numpy
files = [sys.executable, os.path.realpath(sys.executable), sys.prefix]
files += [os.path.join(prefix, "lib") for prefix in (sys.prefix, sys.base_prefix)]
files += [path for path in sysconfig.get_paths().values() if "lib" in path]
files += [os.path.join(sysconfig.get_config_var("LIBDIR") or "", sysconfig.get_config_var("INSTSONAME") or "")]
base = os.path.dirname(os.path.dirname(os.path.abspath(numpy.__file__)))
print(json.dumps({"files": [path for path in files if os.path.exists(path)] + [base], "packages": base}))
"#;

/// Returns the test runner.
pub(crate) fn test_runner() -> PathBuf {
    env!("CARGO_BIN_EXE_carton-test-runner").into()
}

/// Returns the folder of the models that try to escape.
pub(crate) fn escapes() -> PathBuf {
    Path::new(CHECKOUT).canonicalize().unwrap().join("tests/models/escapes")
}

/// The files that the tests use.
#[derive(Clone)]
pub(crate) struct Sources {
    /// The folder of the model that tries to escape.
    pub(crate) escapes: PathBuf,
    /// The program that it tries to reach.
    pub(crate) victim: PathBuf,
    /// The folder with the package of the python runner.
    pub(crate) runner_package: PathBuf,
    /// The test runner.
    pub(crate) test_runner: PathBuf,
    /// The interpreter.
    pub(crate) python: PathBuf,
    /// The folder with NumPy.
    pub(crate) packages: PathBuf,
    /// What a confined interpreter has to read.
    pub(crate) python_files: Vec<PathBuf>,
}

impl Sources {
    /// Finds them. Returns `None`, and prints the reason, if there is no Python with NumPy, or if this system lacks parts of the sandbox.
    pub(crate) fn find() -> Option<Self> {
        let strict = Command::new(test_runner())
            .args(["__carton-launcher", r#"{"strict":true}"#, "/bin/true"])
            .output()
            .unwrap();
        if !strict.status.success() {
            let reason = String::from_utf8_lossy(&strict.stderr).into_owned();
            eprintln!("skipped: this system does not enforce all of the sandbox: {}", reason.trim_end());
            return None;
        }
        let python = carton_tests::python_runner::interpreter()?;
        let checkout = Path::new(CHECKOUT).canonicalize().unwrap();
        let (packages, python_files) = ask(&python)?;
        Some(Self {
            escapes: escapes(),
            victim: checkout.join("tests/python/victim.py"),
            runner_package: checkout.join("runners/python"),
            test_runner: test_runner(),
            python,
            packages,
            python_files,
        })
    }
}

/// Returns the folder of NumPy and the files of an interpreter.
fn ask(python: &Path) -> Option<(PathBuf, Vec<PathBuf>)> {
    let answer = Command::new(python).args(["-B", "-c", QUESTION]).output().unwrap();
    if !answer.status.success() {
        eprintln!("skipped: {} finds no NumPy: {}", python.display(), String::from_utf8_lossy(&answer.stderr));
        return None;
    }
    let answer: Value = serde_json::from_slice(&answer.stdout).unwrap();
    let path = |value: &Value| PathBuf::from(value.as_str().unwrap());
    Some((path(&answer["packages"]), answer["files"].as_array().unwrap().iter().map(path).collect()))
}

/// Copies a folder, without compiled bytecode.
pub(crate) fn copy_folder(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if !entry.file_type().unwrap().is_dir() {
            fs::copy(entry.path(), target).unwrap();
        } else if entry.file_name() != "__pycache__" && entry.file_name() != "tests" {
            copy_folder(&entry.path(), &target);
        }
    }
}
