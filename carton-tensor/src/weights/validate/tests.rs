#![allow(clippy::unwrap_used)]

use super::*;
use crate::files::SharedBytes;
use crate::safetensors::{self, Metadata};
use crate::weights::{Filter, LoaderStatistics, QuantizeOptions, quantize_all, quantize_groups};
use crate::ztensor::{self, QuantizedGroup};

fn floats(shape: &[usize], numbers: &[f32]) -> RawTensor {
    let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
    RawTensor::new(ElementType::Float32, shape.to_vec(), bytes.into()).unwrap()
}

const TINY: &str = "
version = 1
name = 'tiny'
dtypes = ['float32', 'int8']
sizes = { layers = 2 }
values = { min = -8.0, max = 8.0 }
quantization = { method = 'ternary', scale = 1.0 }
tensors = [
    { name = 'norm', shape = [2] },
    { name = 'layers.{layer}.w', repeat = 'layers', shape = [2, 2], quantized = true },
]
";

fn good() -> Vec<(&'static str, RawTensor)> {
    vec![
        ("norm", floats(&[2], &[0.5, 7.5])),
        ("layers.0.w", floats(&[2, 2], &[1.0, -1.0, 0.0, 1.0])),
        ("layers.1.w", floats(&[2, 2], &[0.0; 4])),
    ]
}

/// Returns the findings for the good tensors with some of them replaced, added or removed, from a file and from memory.
fn findings(changes: &[(&'static str, Option<RawTensor>)]) -> (Vec<Category>, String) {
    let description: Description = TINY.parse().unwrap();
    let mut tensors: BTreeMap<String, RawTensor> =
        good().into_iter().map(|(name, tensor)| (name.to_owned(), tensor)).collect();
    for (name, change) in changes {
        match change {
            Some(tensor) => drop(tensors.insert((*name).to_owned(), tensor.clone())),
            None => drop(tensors.remove(*name)),
        }
    }
    let mut bytes = Vec::new();
    safetensors::write(&tensors, &Metadata::default(), &mut bytes).unwrap();
    let file = TensorFile::new(bytes, "tiny").unwrap();
    let of_file = validate(&file, &description, &LoadOptions::default()).unwrap();
    let of_memory =
        validate_weights(&Weights { tensors, statistics: LoaderStatistics::default() }, &description).unwrap();
    let sorted = |validation: &Validation| {
        let mut findings: Vec<_> = validation.errors.iter().chain(&validation.warnings).cloned().collect();
        findings.sort_by_key(|finding| (!finding.category.is_error(), finding.message.clone()));
        findings
    };
    let found = sorted(&of_file);
    assert!(of_file.errors.iter().all(|finding| finding.category.is_error()));
    assert!(of_file.warnings.iter().all(|finding| !finding.category.is_error()));
    // The message for an empty file names the file, which weights in memory do not have.
    if of_file.n_tensors > 0 {
        assert_eq!(found, sorted(&of_memory));
    }
    let messages: Vec<String> = found.iter().map(ToString::to_string).collect();
    (found.iter().map(|finding| finding.category).collect(), messages.join("\n"))
}

#[track_caller]
fn check(changes: &[(&'static str, Option<RawTensor>)], categories: &[Category], message: &str) {
    let (found, messages) = findings(changes);
    assert_eq!(found, categories, "{messages}");
    assert!(messages.contains(message), "{messages}");
}

#[test]
fn weights_that_match_have_no_findings() {
    check(&[], &[], "");
    let bitnet = Description::built_in("bitnet-7b").unwrap();
    assert!(verify_layer_structure(bitnet.tensors().map(|(name, _)| name), &bitnet).is_complete());
}

#[test]
fn errors_are_worded_as_their_specification_words_them() {
    use Category::*;
    let norm = |numbers: &[f32]| [("norm", Some(floats(&[2], numbers)))];
    check(&norm(&[f32::NAN, 0.0]), &[ContainsNan], "Tensor norm contains NaN (1 of 2 numbers)");
    check(&norm(&[f32::NEG_INFINITY, 0.0]), &[ContainsInf], "Tensor norm contains Inf (1 of 2 numbers)");
    check(&norm(&[8.5, 0.0]), &[ValueRange], "Tensor norm has values from 0 to 8.5, expected -8 to 8");
    check(&norm(&[-8.5, 0.0]), &[ValueRange], "-8.5");
    check(
        &[("norm", Some(floats(&[1, 2], &[1.0, 2.0])))],
        &[ShapeMismatch],
        "Tensor norm shape mismatch: [1, 2], expected [2]",
    );
    check(&[("norm", Some(floats(&[], &[1.0])))], &[EmptyShape, ParameterCount], "Tensor norm has empty shape");
    check(
        &[("norm", Some(floats(&[0], &[])))],
        &[ZeroDimension, ShapeMismatch, ParameterCount],
        "Tensor norm has zero dimension: [0]",
    );
    let half = RawTensor::new(ElementType::Float16, vec![2], vec![0_u8; 4].into()).unwrap();
    check(&[("norm", Some(half))], &[DtypeMismatch, InconsistentDtypes], "has dtype float16, expected float32 or int8");
    let weight = |numbers: &[f32]| [("layers.1.w", Some(floats(&[2, 2], numbers)))];
    check(&weight(&[1.0, -0.5, 0.0, 1.0]), &[Quantization], "not ternary: beside 0 it has magnitudes from 0.5 to 1");
    check(&weight(&[2.0, -2.0, 0.0, 2.0]), &[Quantization], "ternary with scale 2, expected 1");
}

#[test]
fn warnings_are_worded_as_their_specification_words_them() {
    use Category::*;
    check(&[("layers.1.w", None)], &[ParameterCount, MissingLayers], "Some expected layers are missing: 1 of 3");
    check(
        &[("layers.1.w", None)],
        &[ParameterCount, MissingLayers],
        "Parameter count differs from expected: 6, expected 10",
    );
    check(
        &[("bias\n", Some(floats(&[1], &[0.0])))],
        &[UnexpectedTensors, ParameterCount],
        "1 tensors are not expected (bias\\n)",
    );
    let all = [("norm", None), ("layers.0.w", None), ("layers.1.w", None)];
    let (found, messages) = findings(&all);
    assert_eq!((found.as_slice(), messages.as_str()), ([NoTensors].as_slice(), "No tensors found in tiny"));
}

#[test]
fn no_expected_tensor_is_an_error() {
    use Category::*;
    let others = [("norm", None), ("layers.0.w", None), ("layers.1.w", None), ("x", Some(floats(&[2], &[0.0; 2])))];
    check(
        &others,
        &[NoExpectedTensors, UnexpectedTensors, ParameterCount],
        "No expected tensors found: none is one of the 3 (layers.0.w, layers.1.w, norm)",
    );
}

#[test]
fn a_description_of_nothing_finds_nothing_that_it_expects() {
    let description: Description = "version = 1\nname = 'none'\n[sizes]\nlayers = 0\n\n[[tensors]]\nname = 'w{layer}'\nrepeat = 'layers'\nshape = [1]"
        .parse()
        .unwrap();
    let tensors = BTreeMap::from([("a".to_owned(), floats(&[1], &[1.0]))]);
    let weights = Weights { tensors, statistics: LoaderStatistics::default() };
    let found = validate_weights(&weights, &description).unwrap();
    assert_eq!(found.errors.len(), 1);
    assert_eq!(found.errors[0].message, "No expected tensors found: the description has none");
}

fn u64s(numbers: &[u64]) -> RawTensor {
    let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
    RawTensor::new(ElementType::Uint64, vec![numbers.len()], bytes.into()).unwrap()
}

/// An object that cannot be read does not prevent the others from being validated.
#[test]
fn an_unreadable_object_is_a_finding_about_it() {
    use Category::*;
    let description: Description = TINY.parse().unwrap();
    let mut writer = crate::ztensor::Writer::new(Vec::new()).unwrap();
    let raw = crate::ztensor::StoreAs::RAW;
    let (values, outside) = (floats(&[1], &[1.0]), u64s(&[0, 2]));
    let coo = [("values", &values, raw), ("coords", &outside, raw)];
    writer.object("layers.0.w", &[2, 2], "sparse_coo", &[].into(), &coo).unwrap();
    writer.object("layers.1.w", &[2, 2], "none_that_is_known", &[].into(), &[("x", &values, raw)]).unwrap();
    writer.object("extra", &[1], "none_that_is_known", &[].into(), &[("x", &values, raw)]).unwrap();
    writer.add("norm", &floats(&[2], &[f32::NAN, 0.0]), raw).unwrap();
    let file = TensorFile::new(writer.finish().unwrap(), "tiny.zt").unwrap();
    let validation = validate(&file, &description, &LoadOptions::default()).unwrap();
    let all: Vec<_> = validation.errors.iter().chain(&validation.warnings).collect();
    let has = |category, message: &str| {
        assert!(
            all.iter().any(|finding| finding.category == category && finding.message.contains(message)),
            "{category:?} {message} in {all:#?}"
        );
    };
    has(Unreadable, "Tensor layers.0.w cannot be read: component `coords` of object `layers.0.w` has the index 2");
    has(Unreadable, "Tensor layers.1.w is no tensor of numbers, it is of the format `none_that_is_known`");
    has(NotNumbers, "Tensor extra is no tensor of numbers");
    has(ContainsNan, "Tensor norm contains NaN");
    assert_eq!((validation.errors.len(), validation.n_tensors), (3, 4), "{all:#?}");
}

#[test]
fn strings_are_findings() {
    let mut npz = std::io::Cursor::new(Vec::new());
    let strings = crate::Tensor::from_strings(["a"], vec![1]).unwrap();
    let numbers: crate::Tensor = floats(&[2], &[0.5, 7.5]).to_numeric().unwrap().into();
    crate::npy::write_npz(&mut npz, [("layers.0.w", &strings), ("words", &strings), ("norm", &numbers)]).unwrap();
    let file = TensorFile::new(npz.into_inner(), "tiny.npz").unwrap();
    let validation = validate(&file, &TINY.parse().unwrap(), &LoadOptions::default()).unwrap();
    assert_eq!(validation.errors.len(), 1, "{validation:?}");
    assert_eq!(validation.errors[0].message, "Tensor layers.0.w is no tensor of numbers, it is an array of strings");
    assert!(validation.warnings.iter().any(|finding| finding.category == Category::NotNumbers));
}

#[test]
fn filtered_tensors_are_not_missing() {
    let mut bytes = Vec::new();
    let tensors = good();
    safetensors::write(tensors.iter().map(|(name, tensor)| (name, tensor)), &Metadata::default(), &mut bytes).unwrap();
    let file = TensorFile::new(bytes, "tiny").unwrap();
    let options = LoadOptions::default().filter(Filter::prefix("layers."));
    let validation = validate(&file, &TINY.parse().unwrap(), &options).unwrap();
    assert_eq!((validation.is_valid(), validation.warnings.len(), validation.n_parameters), (true, 0, 8));
}

#[test]
fn codes_of_integers_have_no_scale() {
    let codes =
        |bytes: &[u8]| RawTensor::new(ElementType::Int8, vec![bytes.len()], SharedBytes::from(bytes.to_vec())).unwrap();
    let ternary = Quantization::Ternary { scale: Some(1.0) };
    assert_eq!(validate_quantization(&codes(&[127, 0, 129]), ternary).unwrap(), None);
    assert!(validate_quantization(&codes(&[127, 0, 128]), ternary).unwrap().is_some());
    // The next numbers of float4_e2m1fn to 0.75 are 0.5 and 1.
    for (code, expected) in [(1_u8, true), (2, true), (3, false)] {
        let fp4 = RawTensor::new(ElementType::Float4E2m1, vec![2], vec![code].into()).unwrap();
        let scaled = Quantization::Ternary { scale: Some(0.75) };
        assert_eq!(validate_quantization(&fp4, scaled).unwrap().is_none(), expected, "{code}");
    }
    let int8 = Quantization::Int8 { scale: None };
    assert_eq!(validate_quantization(&codes(&[127, 0, 129]), int8).unwrap(), None);
    assert!(validate_quantization(&codes(&[128]), int8).unwrap().is_some());
    let fake = floats(&[3], &[-0.5, 0.25, 127.0 / 64.0]);
    assert_eq!(validate_quantization(&fake, Quantization::Int8 { scale: Some(64.0) }).unwrap(), None);
    assert!(validate_quantization(&fake, Quantization::Int8 { scale: Some(65.0) }).unwrap().is_some());
    assert!(validate_quantization(&fake, int8).unwrap().is_some());
    let complex = RawTensor::new(ElementType::Complex64, vec![1], vec![0_u8; 8].into()).unwrap();
    assert!(validate_quantization(&complex, int8).unwrap().is_some());
}

#[test]
fn single_checks() {
    let found = validate_tensor("a", &floats(&[2], &[f32::NAN, 1.0]), Some(&[3])).unwrap();
    let categories: Vec<Category> = found.iter().map(|finding| finding.category).collect();
    assert_eq!(categories, [Category::ShapeMismatch, Category::ContainsNan]);
    let range = ValueRange { min: Some(-1.0), max: None };
    assert_eq!(check_numerical_stability(&floats(&[1], &[1e30]), range).unwrap(), None);
    let problem = check_numerical_stability(&floats(&[3], &[f32::NAN, -2.0, f32::INFINITY]), range).unwrap().unwrap();
    assert_eq!(
        problem,
        "contains NaN (1 of 3 numbers); contains Inf (1 of 3 numbers); has values from -2 to -2, expected -1 to any"
    );
    use ElementType::{Bool, Float16, Float32, Int8};
    assert!(validate_dtype_consistency(&[Float32, Int8, Float32]));
    assert!(!validate_dtype_consistency(&[Float32, Float16]));
    assert!(!validate_dtype_consistency(&[Int8, Bool]));
}

/// A description with only floats. The quantized file that fits it has matrices of two rows: of 1 and 2, and of -0.5 and 8.
const FLOATS: &str = "
version = 1
name = 'floats'
dtypes = ['float32', 'bfloat16']
values = { min = -8.0, max = 8.0 }
quantization = { method = 'ternary', scale = 1.0 }
tensors = [
    { name = 'norm', shape = [2] },
    { name = 't', shape = [2, 2], quantized = true },
    { name = 'w', shape = [2, 2] },
]
";

fn quantized(options: QuantizeOptions) -> BTreeMap<String, RawTensor> {
    let originals = [
        ("norm", floats(&[2], &[0.5, 7.5])),
        ("t", floats(&[2, 2], &[1.0, -1.0, 0.0, 0.0])),
        ("w", floats(&[2, 2], &[1.0, 2.0, -0.5, 8.0])),
    ];
    let mut tensors = BTreeMap::new();
    for (name, original) in originals {
        let quantized = quantize_all([&original], &options).unwrap().remove(0);
        tensors.insert(format!("{name}.scale"), quantized.scales.to_tensor().unwrap());
        tensors.insert(name.to_owned(), quantized.tensor);
    }
    tensors
}

fn one(dtype: ElementType, shape: &[usize], bytes: Vec<u8>) -> RawTensor {
    RawTensor::new(dtype, shape.to_vec(), bytes.into()).unwrap()
}

/// Compares the findings for quantized tensors with some changes, in a file and in memory.
#[track_caller]
fn check_quantized(
    per_channel: bool,
    description: &str,
    changes: &[(&str, Option<RawTensor>)],
    expected: &[Category],
    message: &str,
) {
    let options = QuantizeOptions::default();
    let mut tensors = quantized(if per_channel { options.per_channel() } else { options });
    for (name, change) in changes {
        match change {
            Some(tensor) => drop(tensors.insert((*name).to_owned(), tensor.clone())),
            None => drop(tensors.remove(*name)),
        }
    }
    let mut bytes = Vec::new();
    safetensors::write(&tensors, &Metadata::default(), &mut bytes).unwrap();
    let file = TensorFile::new(bytes, "quantized").unwrap();
    let description: Description = description.parse().unwrap();
    let of_file = validate(&file, &description, &LoadOptions::default()).unwrap();
    let of_memory =
        validate_weights(&Weights { tensors, statistics: LoaderStatistics::default() }, &description).unwrap();
    for validation in [of_file, of_memory] {
        let mut findings: Vec<&Finding> = validation.errors.iter().chain(&validation.warnings).collect();
        findings.sort_by_key(|finding| finding.message.as_str());
        let messages: Vec<&str> = findings.iter().map(|finding| finding.message.as_str()).collect();
        let categories: Vec<Category> = findings.iter().map(|finding| finding.category).collect();
        assert_eq!(categories, expected, "{messages:?}");
        assert!(messages.iter().any(|one| one.contains(message)) || message.is_empty(), "{messages:?}");
    }
}

#[test]
fn integers_with_scales_stand_for_the_floats_that_are_described() {
    for per_channel in [false, true] {
        check_quantized(per_channel, FLOATS, &[], &[], "");
        let refused = FLOATS.replace("dtypes =", "accept_quantized = false\ndtypes =");
        check_quantized(
            per_channel,
            &refused,
            &[],
            &[Category::DtypeMismatch; 3],
            "norm has dtype int8, expected float32",
        );
        let refused = FLOATS.replace("dtypes = ['float32', 'bfloat16']", "accept_quantized = false");
        let problem = "norm is quantized to int8, expected tensors that are not quantized";
        check_quantized(per_channel, &refused, &[], &[Category::DtypeMismatch; 3], problem);
        let integers = FLOATS.replace("'float32', 'bfloat16'", "'int32'");
        check_quantized(per_channel, &integers, &[], &[Category::DtypeMismatch; 3], "expected int32");
    }
}

/// Rows of 1 and 2, and of -0.5 and 8. The represented numbers are compared, not the integers, which are outside every range here.
#[test]
fn represented_numbers_are_compared() {
    for per_channel in [false, true] {
        let narrow = FLOATS.replace("max = 8.0", "max = 7.0");
        check_quantized(per_channel, &narrow, &[], &[Category::ValueRange; 2], "w has values from");
        // The largest number of `norm` is 7.5, and half a step of it is 0.03.
        let range = FLOATS.replace("max = 8.0", "max = 7.99");
        check_quantized(per_channel, &range, &[], &[], "");
        let other = FLOATS.replace("scale = 1.0", "scale = 0.9");
        check_quantized(per_channel, &other, &[], &[Category::Quantization], "t is ternary with scale 1, expected 0.9");
    }
    // 3 of 127 steps of 1.0 is not a ternary number.
    let codes = one(ElementType::Int8, &[2, 2], vec![127, 3, 0, 0]);
    check_quantized(false, FLOATS, &[("t", Some(codes))], &[Category::Quantization], "t is not ternary");
    // Rows with different scales are not ternary with one scale.
    let scales = one(ElementType::Float64, &[2], [127.0_f64, 254.0].into_iter().flat_map(f64::to_le_bytes).collect());
    let codes = one(ElementType::Int8, &[2, 2], vec![127, 129, 0, 127]);
    check_quantized(
        true,
        FLOATS,
        &[("t", Some(codes)), ("t.scale", Some(scales))],
        &[Category::Quantization],
        "t is not ternary: beside 0 it has magnitudes from 0.5 to 1",
    );
}

#[test]
fn scales_that_are_missing_or_wrong_are_found() {
    let f64s = |shape: &[usize], numbers: &[f64]| {
        one(ElementType::Float64, shape, numbers.iter().flat_map(|number| number.to_le_bytes()).collect())
    };
    for per_channel in [false, true] {
        let check = |changes: &[(&str, Option<RawTensor>)], expected: &[Category], message: &str| {
            check_quantized(per_channel, FLOATS, changes, expected, message);
        };
        check(&[("w.scale", None)], &[Category::DtypeMismatch], "w has dtype int8 and no scale, expected float32");
        // If the description itself allows int8, integers without scales may be codes, but not if other int8 tensors have scales.
        let with_int8 = FLOATS.replace("'bfloat16'", "'int8'");
        let missing = &[("w.scale", None)];
        check_quantized(per_channel, &with_int8, missing, &[Category::MissingScale], "w has no scale that fits");
        // A scale whose tensor is missing.
        let orphan = &[("gone.scale", Some(f64s(&[1], &[1.0])))];
        check(
            orphan,
            &[Category::UnexpectedTensors, Category::ParameterCount],
            "1 tensors are not expected (gone.scale)",
        );
        // Scales of a wrong shape or dtype, or with invalid numbers.
        for (scale, message) in [
            (f64s(&[3], &[1.0; 3]), "w.scale holds no scales of w: it has shape [3], expected one number or [2]"),
            (f64s(&[2, 1], &[1.0; 2]), "it has shape [2, 1], expected one number or [2]"),
            (one(ElementType::Int32, &[], vec![1, 0, 0, 0]), "it has dtype int32, expected floats"),
            (f64s(&[], &[0.0]), "it has 0, expected finite numbers above 0"),
            (f64s(&[2], &[1.0, f64::NAN]), "it has NaN, expected finite numbers above 0"),
            (f64s(&[], &[f64::INFINITY]), "it has inf, expected finite numbers above 0"),
        ] {
            check(&[("w.scale", Some(scale))], &[Category::DtypeMismatch, Category::Scale], message);
        }
        let of_vector = &[("norm.scale", Some(f64s(&[2], &[1.0; 2])))];
        check(of_vector, &[Category::DtypeMismatch, Category::Scale], "it has shape [2], expected one number");
        // A tensor that is named like the scale of a float tensor is an unexpected tensor.
        let floats = &[("w", Some(floats(&[2, 2], &[1.0; 4]))), ("w.scale", Some(f64s(&[1], &[1.0])))];
        let expected = &[Category::UnexpectedTensors, Category::InconsistentDtypes, Category::ParameterCount];
        check(floats, expected, "1 tensors are not expected (w.scale)");
    }
}

/// A scale belongs to its tensor even if one of them is not selected.
#[test]
fn scales_are_found_beyond_the_filter() {
    let mut bytes = Vec::new();
    safetensors::write(&quantized(QuantizeOptions::default()), &Metadata::default(), &mut bytes).unwrap();
    let file = TensorFile::new(bytes, "quantized").unwrap();
    let description: Description = FLOATS.parse().unwrap();
    let options = LoadOptions::default().filter(Filter::names(["w", "t.scale"]));
    let validation = validate(&file, &description, &options).unwrap();
    assert!(validation.errors.is_empty() && validation.warnings.is_empty(), "{validation:?}");
    assert_eq!((validation.n_tensors, validation.n_scales, validation.n_parameters), (1, 1, 4));
}

/// 0.49 becomes 8 steps of 8 / 127, which is 0.504. Rounding explains the difference. A group counts as floats.
#[test]
fn groups_are_compared_to_half_a_step() {
    let matrix = floats(&[4, 1], &[-8.0, 0.49, 0.0, 0.0]);
    let quantized = quantize_groups(&matrix, 4, &QuantizeOptions::default()).unwrap();
    let group = QuantizedGroup::from_integers(&quantized.integers, 8, Some(4), quantized.scales).unwrap();
    let mut writer = ztensor::Writer::new(Vec::new()).unwrap();
    writer.quantized_group("w", &group, ztensor::StoreAs::RAW).unwrap();
    let file = TensorFile::new(writer.finish().unwrap(), "groups").unwrap();
    let check = |more: &str, max: f64, expected: &[Category]| {
        let text = format!(
            "version = 1\nname = 'g'\ndtypes = ['bfloat16']\n{more}\nvalues = {{ max = {max} }}\ntensors = [{{ name = 'w', shape = [4, 1] }}]"
        );
        let validation = validate(&file, &text.parse().unwrap(), &LoadOptions::default()).unwrap();
        let found: Vec<Category> = validation.errors.iter().map(|finding| finding.category).collect();
        assert_eq!(found, expected, "{validation:?}");
        assert!(validation.warnings.is_empty());
    };
    check("", 0.49, &[]);
    check("", 0.47, &[Category::ValueRange]);
    check("accept_quantized = false", 0.49, &[Category::DtypeMismatch]);
    // The format limits the integers of a group to 8 bits, whatever scale the description states for floats.
    let int8 = "version = 1\nname = 'g'\ndtypes = ['float32']\nquantization = { method = 'int8', scale = 1.0 }\n\
                tensors = [{ name = 'w', shape = [4, 1], quantized = true }]";
    let validation = validate(&file, &int8.parse().unwrap(), &LoadOptions::default()).unwrap();
    assert!(validation.errors.is_empty() && validation.warnings.is_empty(), "{validation:?}");
}
