//! Packed tensors that libraries wrote become the dense ones that the same libraries compute, bit by bit. tests/packed_files.py made the files.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::path::{Path, PathBuf};

use proptest::prelude::*;

use super::{Described, PackedError, QuantizationConfig, packed, packed_of};
use crate::any_file::TensorFile;
use crate::files::{ElementType, RawTensor};
use crate::safetensors::{Metadata, write};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/packed")
}

fn config_of(name: &str) -> Option<QuantizationConfig> {
    let text = std::fs::read(folder().join(format!("{name}.json"))).ok()?;
    Some(QuantizationConfig::of_json(&text).unwrap())
}

/// The elements, with all NaN alike.
fn bits(tensor: &RawTensor) -> Vec<u32> {
    let bits = |number: f32| if number.is_nan() { u32::MAX } else { number.to_bits() };
    tensor.to_f32().unwrap().into_iter().map(bits).collect()
}

#[test]
fn what_libraries_wrote_is_what_they_compute() {
    let mut n_files = 0;
    for entry in std::fs::read_dir(folder()).unwrap() {
        let path = entry.unwrap().path();
        let file_name = path.file_name().unwrap().to_str().unwrap();
        let Some(name) = file_name.strip_suffix(".dense.safetensors") else { continue };
        n_files += 1;
        let dense = TensorFile::open(&path).unwrap();
        for file in
            [TensorFile::open, TensorFile::map].map(|open| open(folder().join(format!("{name}.safetensors"))).unwrap())
        {
            let found = packed_of(&file, config_of(name).as_ref());
            let names: Vec<&str> = dense.entries().map(|entry| entry.name()).collect();
            let logical: Vec<_> =
                found.iter().map(|packed| packed.logical().unwrap_or_else(|error| panic!("{name}: {error}"))).collect();
            assert_eq!(logical.iter().map(|logical| logical.name()).collect::<Vec<_>>(), names, "{name}");
            for logical in logical {
                let expected = dense.read(logical.name()).unwrap();
                let tensor = logical.dequantize(&file).unwrap();
                assert_eq!((logical.dtype(), logical.shape()), (expected.dtype(), expected.shape()), "{name}");
                let (tensor, expected) = (bits(&tensor), bits(&expected));
                let differs = tensor.iter().zip(&expected).position(|(found, expected)| found != expected);
                if let Some(at) = differs {
                    let [found, expected] = [tensor[at], expected[at]].map(f32::from_bits);
                    panic!("{name}: element {at} is {found}, expected {expected}");
                }
            }
        }
    }
    assert_eq!(n_files, 38);
}

/// The names of the files.
fn names() -> Vec<String> {
    let entries = std::fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> =
        entries.filter_map(|name| Some(name.strip_suffix(".dense.safetensors")?.to_owned())).collect();
    names.sort();
    names
}

fn open(name: &str) -> TensorFile {
    TensorFile::open(folder().join(format!("{name}.safetensors"))).unwrap()
}

/// The tensors of a file, to be changed.
fn tensors_of(name: &str) -> Vec<(String, RawTensor)> {
    let file = open(name);
    file.entries().map(|entry| (entry.name().to_owned(), entry.read().unwrap())).collect()
}

fn file_of(tensors: &[(String, RawTensor)]) -> TensorFile {
    let mut bytes = Vec::new();
    write(tensors.iter().map(|(name, tensor)| (name, tensor)), &Metadata::default(), &mut bytes).unwrap();
    TensorFile::new(bytes, "changed").unwrap()
}

fn json(text: &str) -> Option<QuantizationConfig> {
    Some(QuantizationConfig::of_json(text.as_bytes()).unwrap())
}

fn refusal(file: &TensorFile, config: Option<&QuantizationConfig>) -> String {
    let found = packed_of(file, config);
    let [packed] = found.as_slice() else { panic!("{found:?}") };
    match packed.logical().and_then(|logical| logical.dequantize(file)) {
        Ok(dense) => panic!("{dense:?}"),
        Err(PackedError::Refused { reason, .. }) => reason,
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn what_is_ambiguous_is_refused() {
    let check = |name: &str, config: Option<QuantizationConfig>, expected: &str| {
        let reason = refusal(&open(name), config.as_ref());
        assert!(reason.contains(expected), "{name}: {reason}");
    };
    let gptq = |rest: &str| json(&format!(r#"{{"quantization_config": {{"quant_method": "gptq"{rest}}}}}"#));
    check("gptq-4", None, "only `checkpoint_format`");
    check("gptq-4", json(r#"{"hidden_size": 1}"#), "only `checkpoint_format`");
    check("gptq-4", gptq(r#", "checkpoint_format": "marlin""#), "the layout `marlin`");
    check("gptq-4", gptq(r#", "bits": 3"#), "is not that of 3 bits");
    check("gptq-4", gptq(r#", "bits": 0"#), "is not that of 0 bits");
    check("gptq-4-no-index", gptq(""), "there is no `g_idx`");
    check("gptq-4-no-index", gptq(r#", "desc_act": true"#), "there is no `g_idx`");
    for size in ["0", "-2", "64", "9223372036854775807"] {
        check("gptq-4-no-index", gptq(&format!(r#", "desc_act": false, "group_size": {size}"#)), "are not 3 groups");
    }
    check("awq", gptq(""), "its shapes are those of awq");
    let awq = |rest: &str| json(&format!(r#"{{"quantization_config": {{"quant_method": "AWQ"{rest}}}}}"#));
    check("awq", awq(r#", "version": "gemv""#), "the layout `gemv`");
    check("awq", awq(r#", "w_bit": 3"#), "AWQ of 3 bits");
    check("fp8-block", json(r#"{"quantization_config": {"weight_block_size": [8, 8]}}"#), "`weight_block_size`");
    check("fp8-block", None, "`weight_block_size`");
}

#[test]
fn parts_that_do_not_fit_are_refused() {
    let check = |name: &str, part: &str, change: &dyn Fn(&RawTensor) -> Option<RawTensor>, expected: &str| {
        let mut tensors = tensors_of(name);
        let position = tensors.iter().position(|(name, _)| name.ends_with(part)).unwrap();
        match change(&tensors[position].1) {
            Some(changed) => tensors[position].1 = changed,
            None => drop(tensors.remove(position)),
        }
        let reason = refusal(&file_of(&tensors), config_of(name).as_ref());
        assert!(reason.contains(expected), "{name}: {reason}");
    };
    let words = |words: Vec<i32>| {
        move |_: &RawTensor| {
            RawTensor::new(ElementType::Int32, vec![words.len()], bytemuck::cast_slice::<_, u8>(&words).to_vec().into())
                .ok()
        }
    };
    let text = |text: &'static str| {
        move |_: &RawTensor| RawTensor::new(ElementType::Uint8, vec![text.len()], text.as_bytes().to_vec().into()).ok()
    };
    check("gptq-4", "qzeros", &|_| None, "there is no `layers.0.q_proj.qzeros`");
    check("gptq-4", "scales", &words(vec![1]), "its scales are int32");
    check("gptq-4", "g_idx", &words(vec![0; 95]), "expected [96]");
    check("gptq-4", "g_idx", &words(vec![-1; 96]), "element [0] is -1, expected one of 3 groups");
    check("gptq-4", "g_idx", &words(vec![3; 96]), "element [0] is 3, expected one of 3 groups");
    let state = "quant_state.bitsandbytes__nf4";
    check("bnb-nf4", state, &|_| None, "it has 0 `quant_state`");
    check("bnb-nf4", state, &text("{"), "is not JSON");
    check(
        "bnb-nf4",
        state,
        &text(r#"{"quant_type": "nf4", "dtype": "bfloat16", "blocksize": 0}"#),
        "`blocksize` of its `quant_state` is `0`",
    );
    check(
        "bnb-nf4",
        state,
        &text(r#"{"quant_type": "nf4", "dtype": "int8"}"#),
        "`dtype` of its `quant_state` is `\"int8\"`",
    );
    let shape = r#"{"quant_type": "nf4", "dtype": "bfloat16", "blocksize": 64, "shape": [4294967296, 4294967296]}"#;
    check("bnb-nf4", state, &text(shape), "`shape` of its `quant_state`");
    check(
        "bnb-nf4",
        state,
        &text(r#"{"quant_type": "nf4", "dtype": "bfloat16", "blocksize": 64, "shape": [24, 63]}"#),
        "expected 756 bytes",
    );
    check(
        "bnb-int8",
        "weight_format",
        &|_| RawTensor::new(ElementType::Uint8, vec![], vec![2_u8].into()).ok(),
        "reordered",
    );
    let shape = |shape: [i64; 2]| {
        move |_: &RawTensor| {
            RawTensor::new(ElementType::Int64, vec![2], bytemuck::cast_slice::<_, u8>(&shape).to_vec().into()).ok()
        }
    };
    check("ct-4", "weight_shape", &shape([24, -1]), "is [24, -1]");
    check("ct-4", "weight_shape", &shape([24, i64::MAX]), "does not say how many bits");
    check(
        "gpt-oss",
        "_scales",
        &|_| RawTensor::new(ElementType::Uint8, vec![2, 8], vec![0_u8; 16].into()).ok(),
        "expected [2, 8, 16]",
    );
}

#[test]
fn a_dense_tensor_of_the_name_is_not_replaced() {
    let mut tensors = tensors_of("awq");
    let weight = RawTensor::new(ElementType::Uint8, vec![1], vec![0_u8].into()).unwrap();
    tensors.push(("q_proj.weight".to_owned(), weight));
    assert!(refusal(&file_of(&tensors), config_of("awq").as_ref()).contains("there is another tensor `q_proj.weight`"));
}

#[test]
fn parts_of_two_packed_tensors_are_refused_with_both() {
    let tensor = |dtype: ElementType, shape: &[usize]| {
        let n_bytes = dtype.n_bytes(shape.iter().product()).unwrap();
        RawTensor::new(dtype, shape.to_vec(), vec![0x38_u8; n_bytes].into()).unwrap()
    };
    let named = |name: &str, dtype, shape: &[usize]| (name.to_owned(), tensor(dtype, shape));
    let mut tensors = vec![
        named("w", ElementType::Float8E4m3Fn, &[2, 2]),
        named("w_scale", ElementType::Float8E8m0Fnu, &[1, 1]),
        named("other", ElementType::Float8E4m3Fn, &[2, 2]),
        named("other_scale", ElementType::Float32, &[1, 1]),
    ];
    let reasons = |tensors: &[(String, RawTensor)]| -> Vec<(String, Option<String>)> {
        let found = packed_of(&file_of(tensors), None);
        found.iter().map(|packed| (packed.base().to_owned(), packed.reason().map(str::to_owned))).collect()
    };
    assert_eq!(reasons(&tensors), [("other".to_owned(), None), ("w".to_owned(), None)]);
    tensors.push(named("w_scale_scale", ElementType::Float32, &[1, 1]));
    let [other, w, scale] = reasons(&tensors).try_into().unwrap();
    assert_eq!(other.1, None);
    assert_eq!(w.1.as_deref(), Some("its part `w_scale` is a part of another packed tensor, too"));
    assert!(scale.0 == "w_scale" && scale.1.is_some(), "{scale:?}");
}

#[test]
fn sizes_that_overflow_are_refused() {
    let reason = |method: &str, qweight: [usize; 2], qzeros: &[usize], scales: [usize; 2]| {
        let described = |name, dtype, shape| Described { name, dtype: Some(dtype), shape };
        let tensors = [
            described("qweight", ElementType::Int32, &qweight[..]),
            described("qzeros", ElementType::Int32, qzeros),
            described("scales", ElementType::Float16, &scales[..]),
            described("g_idx", ElementType::Int32, &[0]),
        ];
        let config = json(&format!(r#"{{"quant_method": "{method}", "bits": 4}}"#));
        let found = packed(tensors, config.as_ref(), &|_| None);
        let [packed] = found.as_slice() else { panic!("{found:?}") };
        packed.reason().unwrap().to_owned()
    };
    let gptq = reason("gptq", [0, usize::MAX], &[1], [1, usize::MAX]);
    assert!(gptq.contains("which is not that of 4 bits"), "{gptq}");
    let columns = 1 << (usize::BITS - 4);
    let awq = reason("awq", [0, columns], &[1, columns], [1, 8 * columns]);
    assert_eq!(awq, format!("{} outputs are too many", 8 * columns));
}

#[test]
fn pieces_have_the_wanted_size() {
    let file = open("awq");
    let found = packed_of(&file, None);
    let logical = found[0].logical().unwrap();
    let (mut sizes, mut bytes) = (Vec::new(), Vec::new());
    logical
        .visit(&file, 1000, |piece| {
            sizes.push(piece.len());
            bytes.extend_from_slice(piece);
            Ok::<_, PackedError>(())
        })
        .unwrap();
    assert_eq!(sizes, [2000, 2000, 2000, 2000, 1216]);
    assert_eq!(bytes, **logical.dequantize(&file).unwrap().bytes());
    let stopped = logical.visit(&file, 1000, |_| Err(PackedError::refused("stop", "enough")));
    assert!(matches!(stopped, Err(PackedError::Refused { name, .. }) if name == "stop"));
}

const DTYPES: [ElementType; 8] = [
    ElementType::Int32,
    ElementType::Uint8,
    ElementType::Int8,
    ElementType::Float16,
    ElementType::Float32,
    ElementType::Float8E4m3Fn,
    ElementType::Float8E8m0Fnu,
    ElementType::Int64,
];

/// Keys that a configuration of quantization may have, and values for them, some of which fit.
const KEYS: [&str; 16] = [
    "quant_method",
    "bits",
    "w_bit",
    "checkpoint_format",
    "desc_act",
    "config_groups",
    "group_size",
    "q_group_size",
    "version",
    "dynamic",
    "weight_block_size",
    "dtype",
    "torch_dtype",
    "quantization_config",
    "compression_config",
    "text_config",
];
const VALUES: [&str; 16] = [
    "null",
    "true",
    "false",
    "0",
    "-1",
    "4",
    "64",
    "1e999",
    "9223372036854775807",
    "\"gptq\"",
    "\"gemm\"",
    "\"bfloat16\"",
    "\"compressed-tensors\"",
    "[2, 2]",
    "[-1, 18446744073709551615]",
    r#"{"a": {"weights": {"block_structure": [8, 8]}}, "dtype": "float16", "bits": 8, "desc_act": false}"#,
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    /// Whatever the configuration says, tensors are refused, or become as many numbers as their description says.
    #[test]
    fn configurations_never_panic(
        which in any::<prop::sample::Index>(),
        settings in prop::collection::vec((prop::sample::select(KEYS.to_vec()), prop::sample::select(VALUES.to_vec())), 0..6),
        is_inner in any::<bool>(),
    ) {
        let names = names();
        let settings: Vec<String> = settings.into_iter().map(|(key, value)| format!("\"{key}\": {value}")).collect();
        let text = format!("{{{}}}", settings.join(", "));
        let text = if is_inner { format!("{{\"quantization_config\": {text}}}") } else { text };
        if let Ok(config) = QuantizationConfig::of_json(text.as_bytes()) {
            let file = open(which.get(&names).as_str());
            for packed in packed_of(&file, Some(&config)) {
                let Ok(logical) = packed.logical() else { continue };
                match logical.dequantize(&file) {
                    Ok(dense) => prop_assert_eq!((dense.dtype(), dense.shape()), (logical.dtype(), logical.shape())),
                    Err(error) => prop_assert!(matches!(error, PackedError::Refused { .. }), "{}: {}", text, error),
                }
            }
        }
    }

    /// Tensors whose types, shapes and elements are changed are refused, or become as many numbers as their description says.
    #[test]
    fn changed_tensors_never_panic(
        which in any::<prop::sample::Index>(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), 0_usize..12, prop::collection::vec(0_usize..40, 0..4)), 0..3),
        (bits, group_size) in (-1_i64..10, -2_i64..200),
        (has_config, has_bits, is_v2) in any::<(bool, bool, bool)>(),
        byte in any::<u8>(),
    ) {
        let names = names();
        let name = which.get(&names);
        let mut tensors = tensors_of(name);
        for (which, kind, mut shape) in changes {
            let position = which.index(tensors.len());
            let old = &tensors[position].1;
            let dtype = DTYPES.get(kind).copied().unwrap_or(old.dtype());
            if kind == 11 {
                shape = old.shape().to_vec();
            }
            let Some(n_bytes) = dtype.n_bytes(shape.iter().product()) else { continue };
            tensors[position].1 = RawTensor::new(dtype, shape, vec![byte; n_bytes].into()).unwrap();
        }
        let config = match (has_config, has_bits) {
            (false, _) => config_of(name),
            (true, false) => None,
            (true, true) => json(&format!(
                r#"{{"quantization_config": {{"bits": {bits}, "group_size": {group_size}, "desc_act": false,
                    "checkpoint_format": "gptq{}", "weight_block_size": [{bits}, {group_size}]}}}}"#,
                if is_v2 { "_v2" } else { "" }
            )),
        };
        let file = file_of(&tensors);
        for packed in packed_of(&file, config.as_ref()) {
            let Ok(logical) = packed.logical() else { continue };
            match logical.dequantize(&file) {
                Ok(dense) => prop_assert_eq!((dense.dtype(), dense.shape()), (logical.dtype(), logical.shape())),
                Err(error) => prop_assert!(matches!(error, PackedError::Refused { .. }), "{}", error),
            }
        }
    }
}
