//! Statistics and int8 quantization beside NumPy, over every float type that NumPy and `ml_dtypes` have. It needs an interpreter that
//! has both, named by `CARTON_TEST_PYTHON`; without one it is skipped.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::fs;
use std::path::Path;
use std::process::Command;

use carton_tensor::files::{ElementType, RawTensor};
use carton_tensor::weights;

#[track_caller]
fn assert_near(actual: Option<f64>, expected: &str, tolerance: f64, what: &str) {
    let expected: Option<f64> = (expected != "none").then(|| expected.parse().unwrap());
    let near = match (actual, expected) {
        (Some(actual), Some(expected)) => (actual - expected).abs() <= tolerance,
        (None, None) => true,
        _ => false,
    };
    assert!(near, "{what}: {actual:?}, expected {expected:?}");
}

#[test]
fn statistics_and_quantization_agree_with_numpy() {
    let Some(python) = std::env::var_os("CARTON_TEST_PYTHON") else {
        eprintln!("skipped: CARTON_TEST_PYTHON names no python3 that has NumPy and ml_dtypes");
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/weights_numpy.py");
    let output = Command::new(python).arg(script).arg(folder.path()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));

    let mut n_cases = 0;
    for line in fs::read_to_string(folder.path().join("expected.txt")).unwrap().lines() {
        let fields: Vec<&str> = line.split(' ').collect();
        let &[label, dtype, count, min, max, mean, deviation, n_nan, n_infinite, scale] = fields.as_slice() else {
            panic!("not a line of the table: {line}");
        };
        let dtype = ElementType::ALL.into_iter().find(|known| known.name() == dtype).unwrap();
        let bytes = fs::read(folder.path().join(format!("{label}.bin"))).unwrap();
        let tensor = RawTensor::new(dtype, vec![count.parse().unwrap()], bytes.into()).unwrap();

        let stats = weights::stats(&tensor).unwrap();
        let magnitude = stats.min.unwrap_or(0.0).abs().max(stats.max.unwrap_or(0.0).abs());
        assert_near(stats.min, min, 0.0, line);
        assert_near(stats.max, max, 0.0, line);
        // NumPy's own sums, in float64 and pairwise, are not exact either.
        assert_near(stats.mean, mean, 1e-13 * magnitude, line);
        let expected: f64 = deviation.parse().unwrap_or(0.0);
        assert_near(stats.standard_deviation, deviation, 1e-11 * expected + 1e-15 * magnitude, line);
        assert_eq!((stats.n_nan.to_string(), stats.n_infinite.to_string()), (n_nan.to_owned(), n_infinite.to_owned()));

        let quantized = weights::quantize(&tensor).unwrap();
        assert_eq!(quantized.scale, scale.parse::<f64>().unwrap(), "{line}");
        assert_eq!(quantized.n_non_finite, stats.n_nan + stats.n_infinite, "{line}");
        let expected = fs::read(folder.path().join(format!("{label}.i8"))).unwrap();
        if let Some(position) = (0..expected.len()).find(|&index| quantized.tensor.bytes()[index] != expected[index]) {
            let found = quantized.tensor.bytes()[position] as i8;
            panic!("{line}: number {position} becomes {found}, expected {}", expected[position] as i8);
        }
        n_cases += 1;
    }
    assert!(n_cases > 200, "{n_cases} cases");
}
