//! The python runner of this checkout on the test interpreter, which has NumPy. Without environments: models run with the packages of
//! that interpreter, and packing does not change them. So nothing is fetched, and nothing has to be installed before.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use carton_core::Carton;

use crate::place::TestPlace;

/// Returns the interpreter; `None`, with the reason printed, if there is none.
#[must_use]
pub fn interpreter() -> Option<PathBuf> {
    let Some(python) = std::env::var_os("CARTON_TEST_PYTHON").filter(|python| !python.is_empty()) else {
        eprintln!(
            "skipped: tests of Python models: CARTON_TEST_PYTHON names no Python with NumPy (scripts/test makes one)"
        );
        return None;
    };
    let found = Command::new(&python).args(["-I", "-c", "import numpy"]).output();
    if !found.as_ref().is_ok_and(|found| found.status.success()) {
        eprintln!("skipped: tests of Python models: {} cannot import numpy", python.display());
        return None;
    }
    Some(python.into())
}

/// The files of runners that are written in Python: the test interpreter's, and those of this checkout.
pub(crate) fn files() -> &'static [PathBuf] {
    static FILES: OnceLock<Vec<PathBuf>> = OnceLock::new();
    FILES.get_or_init(|| {
        let python = std::env::var_os("CARTON_TEST_PYTHON").unwrap_or_else(|| "python3".into());
        let question =
            "import sys; print('\\n'.join({sys.prefix, sys.base_prefix, sys.exec_prefix, sys.base_exec_prefix}))";
        let answer = Command::new(&python).args(["-I", "-c", question]).output();
        let answer = answer.map(|answer| String::from_utf8_lossy(&answer.stdout).into_owned()).unwrap_or_default();
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        let ours = ["python", "../runners/python"].map(|folder| here.join(folder).canonicalize().unwrap());
        answer.lines().map(PathBuf::from).chain(ours).collect()
    })
}

/// Installs the runner in `place`, as `carton runner install python` does except for the two differences above.
///
/// # Panics
/// When it cannot be installed.
pub fn install(place: &TestPlace, interpreter: &Path) {
    let package = Path::new(env!("CARGO_MANIFEST_DIR")).join("../runners/python").canonicalize().unwrap();
    place.describe("python", &[], "directory");
    let run = place.config().runner_dir.join("python/run");
    let text = format!(
        "#!{} -IB\nimport sys\nsys.path.append({:?})\nfrom carton_runner import packing\n\
         packing.pack = lambda path, *_: {{'path': str(path)}}\nfrom carton_runner.__main__ import main\nmain()\n",
        interpreter.display(),
        package.display().to_string(),
    );
    std::fs::write(&run, text).unwrap();
    std::fs::set_permissions(&run, std::fs::Permissions::from_mode(0o755)).unwrap();
}

/// Packs a model of one file and loads it, with `metadata` (a draft of carton.toml) and its plain function `function`.
///
/// # Panics
/// When it cannot be packed or loaded.
pub async fn load(place: &TestPlace, source: &str, function: &str, metadata: &str) -> Carton {
    match place.load(pack(place, source, metadata).await).option("infer_fn", function).await {
        Ok(carton) => carton,
        Err(error) => panic!("{error}: {:?}", std::error::Error::source(&error)),
    }
}

/// Packs a model of one file.
///
/// # Panics
/// When it cannot be packed.
pub async fn pack(place: &TestPlace, source: &str, metadata: &str) -> PathBuf {
    let model = place.path().join("python-model");
    std::fs::create_dir_all(&model).unwrap();
    std::fs::write(model.join("main.py"), source).unwrap();
    let output = place.path().join("python.carton");
    let metadata = carton_core::metadata::Draft::parse(metadata).unwrap();
    match place.pack(&model, "python", &output).metadata(metadata).check(false).await {
        Ok(_) => output,
        Err(error) => panic!("{error}: {:?}", std::error::Error::source(&error)),
    }
}
