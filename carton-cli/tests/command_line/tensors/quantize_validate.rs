//! `carton tensor quantize`, then `validate` against the description that the floats matched.

use std::collections::BTreeMap;

use carton_tensor::files::{ElementType, RawTensor};
use carton_tensor::weights::{Description, ExpectedTensor, Quantization};

use super::{tensor, write_safetensors};
use crate::sandbox::Sandbox;

/// The divisor for the sizes of built-in descriptions. Everything else in a description stays the same: each tensor, its name, its
/// dtypes, and how it is quantized. Counts of layers and heads, which are small, stay, too. The full sizes are 27 GB of numbers, which
/// take minutes in unoptimized code: `full_size` tests them.
const DIVISOR: usize = 64;

/// Returns a description with smaller sizes, and the options of `validate` for these sizes.
fn smaller(name: &str) -> (Description, String) {
    let text = Description::built_in_text(name).unwrap();
    let full: Description = text.parse().unwrap();
    let sizes: BTreeMap<String, usize> = full
        .sizes()
        .iter()
        .filter(|(_, size)| **size > 1000)
        .map(|(name, size)| (name.clone(), size / DIVISOR))
        .collect();
    let options: Vec<String> = sizes.iter().map(|(name, size)| format!("--size {name}={size}")).collect();
    let description = Description::with_sizes(text, &sizes).unwrap();
    assert_eq!(description.n_tensors(), full.n_tensors(), "a size that was divided counts tensors");
    (description, options.join(" "))
}

/// Makes a tensor that matches: ternary numbers if the description has them, else numbers from -0.5 to 0.5, in the first float dtype that
/// is allowed.
fn fitting(description: &Description, expected: &ExpectedTensor, seed: u32) -> RawTensor {
    let dtype = description.dtypes(expected).iter().copied().find(|dtype| dtype.is_float());
    let dtype = dtype.unwrap_or(ElementType::Float32);
    let mut state = seed.wrapping_mul(2_654_435_761).wrapping_add(1);
    let mut number = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) as f32 / 16_777_216.0 - 0.5
    };
    let is_quantized = expected.is_quantized();
    let mut fitting = || match description.quantization().filter(|_| is_quantized) {
        None => number(),
        Some(Quantization::Ternary { scale }) => (number() * 3.0).round() * scale.unwrap_or(1.0) as f32,
        Some(Quantization::Int8 { scale }) => (number() * 254.0).round() / scale.unwrap_or(1.0) as f32,
    };
    let numbers = (0..expected.shape().iter().product()).map(|_| fitting());
    assert_eq!(dtype, ElementType::Float32, "only numbers of float32 are made here");
    let bytes: Vec<u8> = numbers.flat_map(f32::to_le_bytes).collect();
    tensor(dtype, expected.shape(), bytes)
}

/// For every built-in description: a matching file that `quantize` has processed still matches, without any finding.
#[test]
fn quantized_files_match_the_same_description() {
    for name in Description::BUILT_IN {
        let sandbox = Sandbox::new();
        let (description, sizes) = smaller(name);
        let tensors: Vec<(&str, RawTensor)> = description
            .tensors()
            .zip(1..)
            .map(|((name, expected), seed)| (name, fitting(&description, expected, seed)))
            .collect();
        write_safetensors(&sandbox, "w.safetensors", &tensors);
        let validate = |file: &str| {
            let outcome = sandbox.carton(&format!("tensor validate {file} --model {name} {sizes} --json"));
            let json = outcome.expect_code(0).json();
            let nothing = serde_json::json!([]);
            assert_eq!((&json["errors"], &json["warnings"]), (&nothing, &nothing), "{file}");
            assert_eq!(json["n_parameters"], description.n_parameters(), "{file}");
            assert_eq!(json["n_tensors"], description.n_tensors(), "{file}");
            json["n_scales"].as_u64().unwrap()
        };
        assert_eq!(validate("w.safetensors"), 0);
        // Vectors do not become groups, and have a scale beside them.
        let n_vectors = description.tensors().filter(|(_, tensor)| tensor.shape().len() == 1).count();
        for (output, options) in [
            ("q.safetensors", ""),
            ("c.safetensors", " --per-channel"),
            ("q.zt", " --zstd 1"),
            ("c.zt", " --per-channel --digest crc32c"),
            ("g.zt", " --group-size 16"),
            ("g11.zt", " --group-size 1000 --version 1.1 --zstd 1"),
        ] {
            let quantize = format!("tensor quantize w.safetensors {output}{options} --report --json");
            let json = sandbox.carton(&quantize).expect_code(0).json();
            assert_eq!(json["quantized"].as_array().unwrap().len(), description.n_tensors());
            assert!(json["total"]["relative"].as_f64().unwrap() < 0.01, "{output}: {}", json["total"]);
            let n_scales = if output.starts_with('g') { n_vectors } else { description.n_tensors() };
            assert_eq!(validate(output), n_scales as u64);
        }
    }
}

#[test]
fn a_size_that_the_description_lacks_is_refused() {
    let sandbox = Sandbox::new();
    write_safetensors(&sandbox, "w.safetensors", &[("w", tensor(ElementType::Int8, &[1], [1]))]);
    let outcome = sandbox.carton("tensor validate w.safetensors --model bitnet-7b --size layers=2").expect_code(2);
    assert!(outcome.stderr.contains("there is no `layers` to replace: it has `hidden_size`, "), "{outcome}");
    let outcome = sandbox.carton("tensor validate w.safetensors --model bitnet-7b --size num_layers").expect_code(2);
    assert!(outcome.stderr.contains("expected NAME=NUMBER, such as num_layers=12"), "{outcome}");
}
