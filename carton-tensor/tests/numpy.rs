//! Agreement with NumPy: for `allclose`, with a committed table of NumPy's verdicts; for files, in both directions by running NumPy.
//! The latter needs a Python interpreter with NumPy, named by `CARTON_TEST_PYTHON`, and is skipped without one.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use carton_tensor::npy::{self, NpyError, Npz};
use carton_tensor::{CastError, DataType, Tensor, Tolerance, allclose, cast};

fn manifest_path(relative: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(relative)
}

/// Returns the Python interpreter. Without one, prints that the test is skipped and returns `None`.
fn python() -> Option<OsString> {
    let python = std::env::var_os("CARTON_TEST_PYTHON");
    if python.is_none() {
        eprintln!("skipped: CARTON_TEST_PYTHON names no python3 that has NumPy (tests/python/setup.sh makes one)");
    }
    python
}

fn run(python: &OsString, arguments: &[&str]) {
    let script = manifest_path("tests/numpy_interop.py");
    let output = Command::new(python).arg(script).args(arguments).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

fn elements(dtype: &str, words: &str) -> Tensor {
    let words: Vec<u64> = words.split(',').map(|word| u64::from_str_radix(word, 16).unwrap()).collect();
    let shape = vec![words.len()];
    match dtype {
        "float32" => {
            let elements = words.iter().map(|&word| f32::from_bits(u32::try_from(word).unwrap())).collect();
            Tensor::from_vec(elements, shape).unwrap()
        }
        "float64" => Tensor::from_vec(words.into_iter().map(f64::from_bits).collect(), shape).unwrap(),
        _ => panic!("no table has {dtype}"),
    }
}

/// NumPy decides which elements of each type keep their value, and what `astype` turns them into. Each of the other elements must be
/// refused.
#[test]
fn casts_keep_what_astype_keeps_and_refuse_the_rest() {
    let Some(python) = python() else { return };
    let directory = tempfile::tempdir().unwrap();
    run(&python, &["casts", directory.path().to_str().unwrap()]);
    let mut n_refused = 0;
    let numbers = || DataType::V1.into_iter().filter(|dtype| dtype.size().is_some());
    for from in numbers() {
        for to in numbers() {
            let read = |what: &str| npy::read_path(directory.path().join(format!("{from}-{to}-{what}.npy"))).unwrap();
            let kept = read("kept");
            assert!(kept.shape().unwrap()[0] >= 3);
            assert_eq!(cast(&kept, to), Ok(read("expected")), "{from} to {to}");
            let refused = directory.path().join(format!("{from}-{to}-refused.npz"));
            let mut refused = Npz::open(refused).unwrap();
            for name in refused.names().to_vec() {
                let element = refused.read(&name).unwrap();
                assert!(matches!(cast(&element, to), Err(CastError::Element { .. })), "{element:?} to {to}");
                n_refused += 1;
            }
        }
    }
    assert!(n_refused > 100, "{n_refused} refused");
}

/// Checks that every line of a table gets NumPy's verdict.
fn check_verdicts(table: &str) {
    let mut n_cases = 0;
    for line in table.lines().filter(|line| !line.starts_with('#')) {
        let fields: Vec<&str> = line.split(' ').collect();
        let [dtype, rtol, atol, equal_nan, actual, expected, close] = fields.as_slice() else {
            panic!("not a line of the table: {line}");
        };
        let tolerance = Tolerance::new(rtol.parse().unwrap(), atol.parse().unwrap()).equal_nan(*equal_nan == "1");
        let comparison = allclose(&elements(dtype, actual), &elements(dtype, expected), tolerance);
        assert_eq!(comparison.passed, *close == "1", "{line}: {comparison:?}");
        assert_eq!(comparison.passed, comparison.detail.is_none(), "{line}: {comparison:?}");
        n_cases += 1;
    }
    assert!(n_cases > 1000, "{n_cases} cases");
}

#[test]
fn verdicts_of_the_committed_table_agree() {
    check_verdicts(&fs::read_to_string(manifest_path("tests/data/allclose.txt")).unwrap());
}

#[test]
fn files_and_verdicts_of_this_numpy_agree() {
    let Some(python) = python() else { return };
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path();
    run(&python, &["make", place.to_str().unwrap()]);

    check_verdicts(&fs::read_to_string(place.join("allclose.txt")).unwrap());

    let mut n_files = 0;
    for entry in fs::read_dir(place.join("in")).unwrap() {
        let path = entry.unwrap().path();
        let tensor = npy::read_path(&path).unwrap();
        let output = place.join("out").join(path.file_name().unwrap());
        npy::write(fs::File::create(output).unwrap(), &tensor).unwrap();
        n_files += 1;
    }
    assert!(n_files > 300, "{n_files} files");

    let mut n_unsupported = 0;
    for entry in fs::read_dir(place.join("unsupported")).unwrap() {
        let error = npy::read_path(entry.unwrap().path()).unwrap_err();
        assert!(matches!(error, NpyError::Unsupported { .. }), "{error}");
        assert!(error.to_string().contains("dtype"), "{error}");
        n_unsupported += 1;
    }
    assert_eq!(n_unsupported, 6);

    let mut stored = Npz::open(place.join("stored.npz")).unwrap();
    let mut deflated = Npz::open(place.join("deflated.npz")).unwrap();
    let names: Vec<String> = fs::read_to_string(place.join("names.txt")).unwrap().lines().map(str::to_owned).collect();
    assert_eq!((stored.names(), deflated.names()), (names.as_slice(), names.as_slice()));
    let tensors: Vec<Tensor> = names.iter().map(|name| stored.read(name).unwrap()).collect();
    for (name, tensor) in names.iter().zip(&tensors) {
        assert_eq!(&deflated.read(name).unwrap(), tensor, "{name}");
    }
    let file = fs::File::create(place.join("ours.npz")).unwrap();
    npy::write_npz(file, names.iter().map(String::as_str).zip(&tensors)).unwrap();
    run(&python, &["check", place.to_str().unwrap()]);
}
