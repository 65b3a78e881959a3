//! The models that packing accepts, its answers and its messages.

use std::path::Path;

use carton_runner_interface::runner::{DeclaredTensor, PackRequest, PackResponse};
use carton_tensor::DataType;
use serde_json::json;

use super::{TestFiles, models, open};
use crate::options::ModelOptions;
use crate::pack::pack;

struct Packed {
    response: Result<PackResponse, String>,
    warnings: Vec<String>,
    scratch: tempfile::TempDir,
}

fn pack_with(path: &Path, options: &ModelOptions) -> Packed {
    pack_request(PackRequest { path: path.to_owned(), ..PackRequest::default() }, options)
}

fn pack_request(mut request: PackRequest, options: &ModelOptions) -> Packed {
    let scratch = tempfile::tempdir().unwrap();
    scratch.path().clone_into(&mut request.scratch);
    let mut warnings = Vec::new();
    let response = pack(&request, options, &mut |warning| warnings.push(warning));
    Packed { response: response.map_err(|error| error.message), warnings, scratch }
}

fn pack_path(path: &Path) -> Packed {
    pack_with(path, &ModelOptions::default())
}

/// The names in a folder, sorted.
fn list(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        folder.read_dir().unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn copy_into(folder: &Path, model: &str, name: &str) {
    std::fs::copy(models().join(model), folder.join(name)).unwrap();
}

#[test]
fn a_file() {
    let path = models().join("mlp.onnx");
    let packed = pack_path(&path);
    let response = packed.response.unwrap();
    assert_eq!(response.path, path);
    assert_eq!(response.required_framework_version.as_deref(), Some(">=1.24.0, <2"));
    assert_eq!((response.inputs.len(), response.outputs.len()), (1, 1));
    assert_eq!(packed.warnings, [""; 0]);
}

#[test]
fn booleans_are_declared_as_such() {
    let response = pack_path(&models().join("scalar.onnx")).response.unwrap();
    let declared =
        |specs: &[DeclaredTensor]| -> Vec<_> { specs.iter().map(|spec| (spec.name.clone(), spec.dtype)).collect() };
    let expected = |float: &str, integer: &str, boolean: &str| {
        vec![
            (float.to_owned(), DataType::Float32),
            (integer.to_owned(), DataType::Int64),
            (boolean.to_owned(), DataType::Bool),
        ]
    };
    assert_eq!(declared(&response.inputs), expected("x", "i", "b"));
    assert_eq!(declared(&response.outputs), expected("y", "j", "c"));
}

#[test]
fn a_file_with_external_data_brings_it() {
    let packed = pack_path(&models().join("external_elsewhere/model.onnx"));
    let response = packed.response.unwrap();
    assert_eq!(response.path, packed.scratch.path());
    assert_eq!(list(packed.scratch.path()), ["model.onnx", "sub"]);
    let weights = std::fs::read(packed.scratch.path().join("sub/weights")).unwrap();
    assert_eq!(weights, std::fs::read(models().join("external_elsewhere/sub/weights")).unwrap());
}

#[test]
fn a_folder() {
    let folder = models().join("external");
    let packed = pack_path(&folder);
    assert_eq!(packed.response.unwrap().path, folder);
    assert_eq!(list(packed.scratch.path()), [""; 0]);

    let folder = tempfile::tempdir().unwrap();
    let message = |options: &ModelOptions| pack_with(folder.path(), options).response.map(|response| response.path);
    let place = folder.path().display();
    let defaults = ModelOptions::default();
    assert_eq!(message(&defaults), Err(format!("{place}: no .onnx file found")));
    copy_into(folder.path(), "mlp.onnx", "a.onnx");
    copy_into(folder.path(), "conv.onnx", "b.onnx");
    assert_eq!(
        message(&defaults),
        Err(format!("{place}: there are 2 .onnx files: `a.onnx`, `b.onnx`; choose one with the option model = \"…\""))
    );
    let chosen = ModelOptions { model: Some("b.onnx".to_owned()), ..defaults };
    assert_eq!(message(&chosen), Ok(folder.path().to_owned()));
}

#[test]
fn warnings() {
    let check = |model: &str, n_declared: (usize, usize), expected: &[&str]| {
        let packed = pack_path(&models().join(model));
        let response = packed.response.unwrap();
        assert_eq!((response.inputs.len(), response.outputs.len()), n_declared, "{model}");
        assert_eq!(packed.warnings.len(), expected.len(), "{:?}", packed.warnings);
        for (warning, expected) in packed.warnings.iter().zip(expected) {
            assert!(warning.starts_with(expected), "{warning}");
        }
    };
    check("tokens.onnx", (1, 4), &[]);
    check("labels.onnx", (1, 2), &[]);
    check("half.onnx", (1, 1), &[]);
    check(
        "signatures/untyped.onnx",
        (0, 0),
        &["no inputs and outputs are declared: the model does not say what output `y` is"],
    );
    check("sequence.onnx", (1, 2), &[]);
    check(
        "../types/map_of_words.onnx",
        (0, 0),
        &["no inputs and outputs are declared: the model does not say what keys input `x` has, which is a map"],
    );
}

#[test]
fn sizes_without_a_name() {
    let response = pack_path(&models().join("signatures/placeholders.onnx")).response.unwrap();
    let shapes = |specs: &[DeclaredTensor]| specs.iter().map(|spec| spec.shape.to_string()).collect::<Vec<_>>();
    let expected = [r#"["*", 3, "*", "*"]"#, r#"["*", "*", "*"]"#];
    assert_eq!(
        (shapes(&response.inputs), shapes(&response.outputs)),
        (expected.map(str::to_owned).to_vec(), expected.map(str::to_owned).to_vec())
    );
}

#[test]
fn models_whose_values_no_tensor_holds() {
    let check = |model: &str, expected: &str| {
        let refused = pack_path(&models().join(model));
        assert_eq!(refused.response.unwrap_err(), expected);
        // The model is refused in the same words if it was packed by others.
        let bytes = std::fs::read(models().join(model)).unwrap();
        let error = open(&TestFiles::of_bytes(bytes)).map(drop).unwrap_err();
        assert_eq!(error.message, expected);
    };
    check(
        "signatures/of_sequence.onnx",
        "the model cannot be called: input `z` is complex64, which ONNX Runtime does not have",
    );
    check("../types/int4.onnx", "the model cannot be called: input `x` is int4, which Carton's tensors do not have");
    check(
        "../types/float4.onnx",
        "the model cannot be called: input `x` is float4e2m1, which Carton's tensors do not have",
    );
    check(
        "../types/complex64.onnx",
        "the model cannot be called: input `x` is complex64, which ONNX Runtime does not have",
    );
}

#[test]
fn optional_values_are_declared_as_such() {
    let response = pack_path(&models().join("../types/optionals.onnx")).response.unwrap();
    assert_eq!(response.optional_inputs, ["x", "parts"]);
    assert_eq!(response.optional_outputs, ["y", "same"]);
}

#[test]
fn libraries_are_packed_with_the_model() {
    let folder = tempfile::tempdir().unwrap();
    copy_into(folder.path(), "mlp.onnx", "model.onnx");
    std::fs::create_dir(folder.path().join("libs")).unwrap();
    std::fs::write(folder.path().join("libs/ops.so"), "library").unwrap();
    let pack = |libraries: &[&str]| {
        let libraries = libraries.iter().map(|name| (*name).to_owned()).collect();
        pack_with(&folder.path().join("model.onnx"), &ModelOptions { libraries, ..ModelOptions::default() })
    };
    let packed = pack(&["libs/ops.so", "onnxruntime_extensions"]);
    assert_eq!(packed.response.unwrap().path, packed.scratch.path());
    assert_eq!(list(packed.scratch.path()), ["libs", "model.onnx"]);
    for (library, expected) in [
        ("../ops.so", "option `libraries` names `../ops.so`, which is not the path of a file of the model"),
        ("none.so", "option `libraries` names `none.so`: reading "),
    ] {
        let message = pack(&[library]).response.map(drop).unwrap_err();
        assert!(message.starts_with(expected), "{message}");
    }
    let expected =
        "`ops/none.so` of option `libraries` is not a file of the model, and is taken for a file of a package";
    assert_eq!(pack(&["ops/none.so"]).warnings, [expected]);
}

#[test]
fn what_contradicts_the_model() {
    let pack = |model: &str, inputs: serde_json::Value, outputs: serde_json::Value| {
        let specs = |specs| serde_json::from_value::<Option<Vec<DeclaredTensor>>>(specs).unwrap();
        let path = models().join(model);
        let request = PackRequest { path, inputs: specs(inputs), outputs: specs(outputs), ..PackRequest::default() };
        pack_request(request, &ModelOptions::default()).response.unwrap()
    };
    let check = |model: &str, inputs: serde_json::Value, outputs: serde_json::Value, expected: &[&str]| {
        assert_eq!(pack(model, inputs, outputs).mismatches, expected, "{model}");
    };
    let spec =
        |name: &str, dtype: &str, shape: serde_json::Value| json!({"name": name, "dtype": dtype, "shape": shape});
    let x = |dtype, shape| json!([spec("x", dtype, shape)]);
    check("mlp.onnx", json!(null), json!(null), &[]);
    check("mlp.onnx", x("float32", json!(["batch", 4])), json!([]), &[]);
    check("mlp.onnx", x("float32", json!([2, "features"])), json!([]), &[]);
    check(
        "mlp.onnx",
        x("float32", json!(["batch", 5])),
        json!(null),
        &["input `x`, dimension 1: declared 5, the model has 4"],
    );
    check("mlp.onnx", x("float64", json!("*")), json!(null), &["input `x`: declared float64, the model has float32"]);
    check(
        "mlp.onnx",
        json!([spec("img", "float32", json!("*"))]),
        json!([spec("z", "float32", json!("*"))]),
        &[
            "input `img`: the model has no such input; it has `x`",
            "input `x` of the model is not declared",
            "output `z`: the model has no such output; it has `y`",
        ],
    );
    // Up to IR version 3, as here, initializers are listed among the inputs; callers need not pass them.
    check("opset_7.onnx", x("float32", json!("*")), json!(null), &[]);
    // A carton of others may declare what carries the model's dtype.
    check("half.onnx", x("float32", json!("*")), json!(null), &[]);
    check("half.onnx", x("float16", json!("*")), json!(null), &[]);
    check(
        "half.onnx",
        x("bfloat16", json!("*")),
        json!(null),
        &["input `x`: declared bfloat16, the model has float16"],
    );
    // Strings may be declared as bytes, because the runtime does not read them.
    check("../types/strings.onnx", x("bytes", json!(["n"])), json!([spec("y", "bytes", json!(["n"]))]), &[]);
    check(
        "../types/strings.onnx",
        x("int8", json!(["n"])),
        json!(null),
        &["input `x`: declared int8, the model has string"],
    );
    // A list is one more dimension, and the keys of a map are inputs.
    check("sequence.onnx", json!(null), json!([spec("parts", "float32", json!("*"))]), &[]);
    let list = |shape| json!([spec("parts", "float32", shape)]);
    check("../types/length.onnx", list(json!(["n", "*", 2])), json!(null), &[]);
    check(
        "../types/length.onnx",
        list(json!(["n", "*", 3])),
        json!(null),
        &["input `parts`, dimension 2: declared 3, the model has 2"],
    );
    check("../types/map_of_words.onnx", json!([spec("x.cat", "float32", json!([]))]), json!(null), &[]);
    check(
        "../types/map_of_words.onnx",
        json!([spec("x.cat", "float64", json!([]))]),
        json!(null),
        &["input `x.cat`: declared float64, the model has float32"],
    );
    // Optional inputs need not be declared.
    check("../types/optionals.onnx", json!([]), json!(null), &[]);
    // The model's own signature does not contradict the model.
    for entry in models().read_dir().unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        if name.ends_with(".onnx") {
            let own = pack(&name, json!(null), json!(null));
            let (inputs, outputs) = (json!(own.inputs), json!(own.outputs));
            if !own.inputs.is_empty() {
                check(&name, inputs, outputs, &[]);
            }
        }
    }
}

#[test]
fn requirements() {
    for (opset, expected) in [(7, ">=1.24.0, <2"), (13, ">=1.24.0, <2"), (26, ">=1.25.0, <2"), (27, ">=1.32.0, <2")] {
        let response = pack_path(&models().join(format!("opset_{opset}.onnx"))).response.unwrap();
        assert_eq!(response.required_framework_version.as_deref(), Some(expected));
    }
}

#[test]
fn refusals() {
    let check = |path: &Path, expected: &str| {
        let message = pack_path(path).response.map(|response| response.path).unwrap_err();
        assert!(message.contains(expected), "{message}");
    };
    check(&models().join("make.py"), "is neither a .onnx file nor a folder with one");
    check(&models().join("gone.onnx"), "gone.onnx: No such file");

    let folder = tempfile::tempdir().unwrap();
    let model = folder.path().join("model.onnx");
    std::fs::write(&model, "hello").unwrap();
    check(&model, "model.onnx is not a");
    copy_into(folder.path(), "external/model.onnx", "model.onnx");
    check(&model, "reading ");
    let data = folder.path().join("model.onnx.data");
    std::fs::write(&data, "short").unwrap();
    check(&model, "`model.onnx.data` is too short for tensor `w1`: expected 128 bytes at 0, found a file of 5");
    std::fs::remove_file(&data).unwrap();
    std::os::unix::fs::symlink(models().join("external/model.onnx.data"), &data).unwrap();
    check(&model, "outside the model's folder");

    let bytes = std::fs::read(models().join("external/model.onnx")).unwrap();
    for (location, expected) in
        [("../m.onnx.data ", "has `..` in its path"), ("/etc/alternativ", "is an absolute path")]
    {
        let from = b"model.onnx.data";
        assert_eq!(location.len(), from.len());
        let mut changed = bytes.clone();
        while let Some(position) = changed.windows(from.len()).position(|window| window == from) {
            changed[position..position + from.len()].copy_from_slice(location.as_bytes());
        }
        std::fs::write(&model, changed).unwrap();
        check(&model, expected);
    }
}
