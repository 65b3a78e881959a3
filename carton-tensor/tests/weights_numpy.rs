//! Compares statistics and int8 quantization with NumPy, over every float type of NumPy and `ml_dtypes`. Needs a Python interpreter
//! with both, named by `CARTON_TEST_PYTHON`, and is skipped without one.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::fs;
use std::path::Path;
use std::process::Command;

use carton_tensor::files::{ElementType, RawTensor};
use carton_tensor::weights::{self, LoadOptions, QuantizeOptions, QuantizedTensor};
use carton_tensor::{safetensors, safetensors::Metadata};
use tempfile::TempDir;

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

/// Returns a folder with the output of a script beside this file; `None` without an interpreter.
fn made_by(script: &str) -> Option<TempDir> {
    let Some(python) = std::env::var_os("CARTON_TEST_PYTHON") else {
        eprintln!("skipped: CARTON_TEST_PYTHON names no python3 that has NumPy and ml_dtypes");
        return None;
    };
    let folder = tempfile::tempdir().unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(script);
    let output = Command::new(python).arg(script).arg(folder.path()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(folder)
}

fn dtype_of(name: &str) -> ElementType {
    ElementType::ALL.into_iter().find(|known| known.name() == name).unwrap()
}

#[test]
fn statistics_and_quantization_agree_with_numpy() {
    let Some(folder) = made_by("weights_numpy.py") else { return };

    let mut n_cases = 0;
    for line in fs::read_to_string(folder.path().join("expected.txt")).unwrap().lines() {
        let fields: Vec<&str> = line.split(' ').collect();
        let &[label, dtype, count, min, max, mean, deviation, n_nan, n_infinite, scale] = fields.as_slice() else {
            panic!("not a line of the table: {line}");
        };
        let dtype = dtype_of(dtype);
        let bytes = fs::read(folder.path().join(format!("{label}.bin"))).unwrap();
        let tensor = RawTensor::new(dtype, vec![count.parse().unwrap()], bytes.into()).unwrap();

        let stats = weights::stats(&tensor).unwrap();
        let magnitude = stats.min.unwrap_or(0.0).abs().max(stats.max.unwrap_or(0.0).abs());
        assert_near(stats.min, min, 0.0, line);
        assert_near(stats.max, max, 0.0, line);
        // NumPy's sums, which are float64 and pairwise, are not exact either.
        assert_near(stats.mean, mean, 1e-13 * magnitude, line);
        let expected: f64 = deviation.parse().unwrap_or(0.0);
        assert_near(stats.standard_deviation, deviation, 1e-11 * expected + 1e-15 * magnitude, line);
        assert_eq!((stats.n_nan.to_string(), stats.n_infinite.to_string()), (n_nan.to_owned(), n_infinite.to_owned()));

        let quantized = weights::quantize(&tensor).unwrap();
        assert_eq!(quantized.scales.of_tensor(), Some(scale.parse::<f64>().unwrap()), "{line}");
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

/// Both granularities and their errors, for tensors in memory and for the same tensors in a file.
#[test]
fn scales_of_channels_and_errors_agree_with_numpy() {
    let Some(folder) = made_by("quantization_numpy.py") else { return };
    let path = |name: String| folder.path().join(name);
    let mut cases = Vec::new();
    for line in fs::read_to_string(path("expected.txt".to_owned())).unwrap().lines() {
        let fields: Vec<&str> = line.split(' ').collect();
        let &[label, dtype, shape, ref numbers @ ..] = fields.as_slice() else { panic!("not a line: {line}") };
        let shape: Vec<usize> =
            shape.split(',').filter(|_| shape != "scalar").map(|one| one.parse().unwrap()).collect();
        let bytes = fs::read(path(format!("{label}.bin"))).unwrap();
        let tensor = RawTensor::new(dtype_of(dtype), shape, bytes.into()).unwrap();
        let numbers: Vec<f64> = numbers.iter().map(|number| number.parse().unwrap()).collect();
        cases.push((label.to_owned(), tensor, numbers));
    }
    assert!(cases.len() > 50, "{} cases", cases.len());
    let file = path("all.safetensors".to_owned());
    let tensors = cases.iter().map(|(label, tensor, _)| (label, tensor));
    safetensors::write(tensors, &Metadata::default(), fs::File::create(&file).unwrap()).unwrap();

    let measured = QuantizeOptions::default().measured();
    for (granularity, options, first) in [("tensor", measured, 0), ("channel", measured.per_channel(), 2)] {
        let in_memory = weights::quantize_all(cases.iter().map(|(_, tensor, _)| tensor), &options).unwrap();
        let of_file = weights::load_quantized(&file, &LoadOptions::default(), &options).unwrap();
        for ((label, tensor, numbers), quantized) in cases.iter().zip(&in_memory) {
            let what = format!("{label} {:?} {granularity}", tensor.shape());
            let QuantizedTensor { scales, error, n_non_finite, .. } = quantized;
            let expected: Vec<f64> =
                bytemuck::pod_collect_to_vec(&fs::read(path(format!("{label}.{granularity}.f64"))).unwrap());
            assert_eq!(scales.as_slice(), expected, "{what}");
            let expected = fs::read(path(format!("{label}.{granularity}.i8"))).unwrap();
            assert!(**quantized.tensor.bytes() == *expected, "the integers of {what}");
            let error = error.unwrap();
            // NumPy computes differences of nearly equal numbers, which lose digits.
            let least = scales.as_slice().iter().copied().fold(f64::INFINITY, f64::min);
            let (relative, largest) = (numbers[first], numbers[first + 1]);
            assert_near(Some(error.relative()), &relative.to_string(), 1e-9 * relative + 1e-14, &what);
            assert_near(Some(error.max_absolute), &largest.to_string(), 1e-9 * largest + 1e-12 / least, &what);

            // The same to the last bit, however the file was divided and read.
            if tensor.dtype().bits() <= 8 {
                // A file has such numbers because they are quantized already.
                assert_eq!(of_file.unchanged[label], *tensor, "{what}");
                continue;
            }
            let same = &of_file.quantized[label];
            assert_eq!(
                (&same.tensor, &same.scales, same.error),
                (&quantized.tensor, scales, quantized.error),
                "{what}"
            );
            assert_eq!(same.n_non_finite, *n_non_finite);
            // The error per channel is below 1 %, which a single scale does not reach.
            if label.ends_with("layer") {
                let range = if granularity == "tensor" { 0.011..0.014 } else { 0.008..0.01 };
                assert!(range.contains(&error.relative()), "{what}: {}", error.relative());
            }
        }
    }
}
