//! Compares conversions with NumPy and `ml_dtypes`, and files with Python's `safetensors`. The tests need an interpreter with these
//! packages, named by `CARTON_TEST_PYTHON`; without one they are skipped.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use arrow_array::{ArrayRef, Float32Array, Float64Array, RecordBatch};
use carton_dataset::{Rounding, TailStrategy};
use carton_tensor::files::ElementType;

use crate::support::{batch_mode, dataset};

/// Numbers in the middle of two neighbouring floats of 16 bits, exactly or nearly, and others of all magnitudes that `dtype` has.
fn numbers(dtype: ElementType) -> Vec<f64> {
    let mut numbers = vec![0.0, -0.0, f64::INFINITY, f64::NEG_INFINITY, 65_504.0, 65_519.999_999];
    numbers.extend([5e-324, f64::MIN_POSITIVE, 3.38e38, f64::from(f32::MAX), f64::from(f32::MIN_POSITIVE), 1e-45]);
    let mut state = 1_u64;
    let mut random = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state ^ state >> 29
    };
    for _ in 0..400 {
        let pattern = random() as u16;
        for short in [f64::from(half::f16::from_bits(pattern)), f64::from(half::bf16::from_bits(pattern))] {
            if !short.is_finite() {
                continue;
            }
            numbers.push(short);
            // The midpoint to the next float, and numbers on both sides of it, near and far.
            for half_step in [2_f64.powi(-11), 2_f64.powi(-8), 2_f64.powi(-9)] {
                let middle = short * (1.0 + half_step);
                let near = f64::from_bits(middle.to_bits() + 1);
                let below = f64::from_bits(middle.to_bits().saturating_sub(1));
                numbers.extend([
                    middle,
                    near,
                    below,
                    middle * (1.0 + 2_f64.powi(-30)),
                    middle * (1.0 - 2_f64.powi(-30)),
                ]);
            }
        }
        numbers.push(f64::from_bits(random()));
        numbers.push(f64::from(f32::from_bits(random() as u32)));
    }
    // Larger ones are refused.
    let most = match dtype {
        ElementType::Float16 => 65_519.999_999,
        ElementType::BFloat16 => 3.39e38,
        _ => f64::from(f32::MAX),
    };
    numbers.retain(|number| number.is_infinite() || number.abs() <= most);
    numbers
}

#[test]
fn floats_are_rounded_as_numpy_does_and_read_by_python() {
    let Some(python) = std::env::var_os("CARTON_TEST_PYTHON") else {
        eprintln!("skipped: CARTON_TEST_PYTHON names no python3 that has NumPy, ml_dtypes and safetensors");
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let mut n_numbers = 0;
    let bytes = |name: String, bytes: Vec<u8>| fs::write(folder.path().join(name), bytes).unwrap();
    for dtype in [ElementType::Float16, ElementType::BFloat16, ElementType::Float32, ElementType::Float64] {
        let longs = numbers(dtype);
        // The nearest float32 of the largest number is too large.
        let short = |number: &f64| match *number as f32 {
            65_520.0 if dtype == ElementType::Float16 => 65_519.996,
            short => short,
        };
        let shorts: Vec<f32> = longs.iter().map(short).collect();
        n_numbers += shorts.len();
        bytes(format!("{dtype}.f64"), longs.iter().flat_map(|number| number.to_le_bytes()).collect());
        bytes(format!("{dtype}.f32"), shorts.iter().flat_map(|number| number.to_le_bytes()).collect());
        let columns: [(&str, ArrayRef); 2] =
            [("f64", Arc::new(Float64Array::from(longs))), ("f32", Arc::new(Float32Array::from(shorts)))];
        let mut options = batch_mode(1 << 30, TailStrategy::Write);
        options.dtype = Some(dtype);
        let batch = RecordBatch::try_from_iter(columns).unwrap();
        dataset(&folder.path().join(dtype.name()), &options, [batch.clone()]).unwrap();
        options.rounding = Rounding::Truncate;
        dataset(&folder.path().join(format!("{dtype}-truncated")), &options, [batch]).unwrap();
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/write/rounding.py");
    let output = Command::new(python).arg(script).arg(folder.path()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), format!("{n_numbers} numbers are the same"));
}
