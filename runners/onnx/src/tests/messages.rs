//! The messages that users get about models, options, inputs and libraries.

use carton_runner_interface::runner::{DeclaredTensor, Tensors};
use carton_tensor::{DataType, NumericTensor, SymbolicShape, Tensor};

use super::{TestFiles, onnx_runtime, open, open_with, run};
use crate::library::SearchPath;
use crate::options::ModelOptions;
use crate::{Onnx, signature};

#[test]
fn warnings() {
    if onnx_runtime().is_none() {
        return;
    }
    let check = |model: &str, expected: &[&str]| {
        let (_, warnings) = open(&TestFiles::of_model(model)).unwrap();
        assert_eq!(warnings, expected, "{model}");
    };
    check("mlp.onnx", &[]);
    check("sequence.onnx", &[]);
}

#[test]
fn what_onnx_runtime_refuses() {
    if onnx_runtime().is_none() {
        return;
    }
    let error = open(&TestFiles::of_model("unknown_operator.onnx")).err().unwrap();
    assert!(error.message.starts_with("ONNX Runtime cannot load `unknown_operator.onnx`: "), "{}", error.message);
    assert!(!error.is_unavailable(), "{error:?}");
    let hint = error.hint.unwrap();
    assert!(hint.starts_with("the model uses operators of the domain `com.example`: name the library"), "{hint}");
}

#[test]
fn devices() {
    let Some(libraries) = onnx_runtime() else { return };
    let open = |device: &str, providers: &[&str]| {
        let execution_providers = providers.iter().map(|name| (*name).to_owned()).collect();
        let options = ModelOptions { execution_providers, ..ModelOptions::default() };
        let files = TestFiles::of_model("mlp.onnx");
        Onnx::open(&files, &options, Some(device), (&[], &[]), &libraries, &mut |_| {}).map(drop)
    };
    let check = |device: &str, providers: &[&str], expected: &str| {
        let error = open(device, providers).unwrap_err();
        assert!(error.is_unavailable() && error.hint.is_some(), "{error:?}");
        assert!(error.message.starts_with(expected), "{}", error.message);
    };
    assert!(open("cpu", &[]).is_ok());
    assert!(open("cpu", &["CPU"]).is_ok());
    check("0", &[], "device `0` cannot be used: this library of ONNX Runtime was built without CUDA");
    check("0", &["CPU"], "device `0` cannot be used: none of the execution providers");
    check("GPU-12ab", &[], "device `GPU-12ab` cannot be used: the onnx runner takes a GPU by its index");
    check("foo", &[], "there is no device `foo`");
    check("cpu", &["CUDA"], "this library of ONNX Runtime has no execution provider `CUDA`");
}

#[test]
fn inputs() {
    if onnx_runtime().is_none() {
        return;
    }
    let check = |model: &str, inputs: &[(&str, Tensor)], expected: &str| {
        let (model, _) = open(&TestFiles::of_model(model)).unwrap();
        let inputs: Tensors = inputs.iter().map(|(name, tensor)| ((*name).to_owned(), tensor.clone())).collect();
        let message = run(&model, &inputs).unwrap_err().message;
        assert!(message.contains(expected), "{message}");
    };
    let ids = |elements: Vec<i64>| Tensor::from(NumericTensor::from_vec(elements, vec![1, 3]).unwrap());
    let floats = |shape: Vec<usize>| {
        Tensor::from(NumericTensor::from_vec(vec![0.5_f32; shape.iter().product()], shape).unwrap())
    };
    check("tokens.onnx", &[], "input `ids` is missing; it takes `ids`");
    check(
        "tokens.onnx",
        &[("ids", ids(vec![0, 1, 2])), ("mask", ids(vec![1, 1, 1]))],
        "the model has no input `mask`; it takes `ids`",
    );
    check("tokens.onnx", &[("ids", floats(vec![1, 3]))], "input `ids`: expected int64, found float32");
    check("tokens.onnx", &[("ids", ids(vec![0, 1, 20]))], "idx=20 must be within the inclusive range");
    check("mlp.onnx", &[("x", floats(vec![2, 5]))], "Got invalid dimensions for input: x");
    check("mlp.onnx", &[("x", floats(vec![4]))], "Invalid rank for input: x");
    check(
        "branches.onnx",
        &[("flag", floats(vec![])), ("x", floats(vec![1]))],
        "input `flag`: expected bool, found float32",
    );
}

#[test]
fn declared_names() {
    let spec = |name: &str, internal_name: Option<&str>| DeclaredTensor {
        name: name.to_owned(),
        dtype: DataType::Float32,
        shape: SymbolicShape::Any,
        internal_name: internal_name.map(str::to_owned),
    };
    let check = |inputs: &[DeclaredTensor], outputs: &[DeclaredTensor], expected: &str| {
        let error =
            open_with(&TestFiles::of_model("mlp.onnx"), &ModelOptions::default(), inputs, outputs).err().unwrap();
        assert_eq!(error.message, expected);
    };
    check(
        &[spec("input", None)],
        &[],
        "the carton declares an input `input` that the model does not have; its inputs are `x`",
    );
    check(
        &[],
        &[spec("y", Some("logits"))],
        "the carton declares an output `logits` that the model does not have; its outputs are `y`",
    );
    check(&[spec("a", Some("x")), spec("x", None)], &[], "the carton declares the input `x` of the model twice");
}

#[test]
fn libraries() {
    let folder = tempfile::tempdir().unwrap();
    let not_a_library = folder.path().join("libonnxruntime.so");
    std::fs::write(&not_a_library, "not a library").unwrap();
    let not_a_library = not_a_library.canonicalize().unwrap();
    let refused = |libraries: &SearchPath| {
        let files = TestFiles::of_model("mlp.onnx");
        let error =
            Onnx::open(&files, &ModelOptions::default(), None, (&[], &[]), libraries, &mut |_| {}).err().unwrap();
        (error.is_unavailable(), error.message, error.hint.unwrap())
    };
    let nowhere = SearchPath { chosen: None, installed: Some("/data/onnxruntime".into()), wanted: None };
    let (is_unavailable, message, hint) = refused(&nowhere);
    assert_eq!(message, "ONNX Runtime is not installed; looked at ORT_DYLIB_PATH (not set) and /data/onnxruntime");
    assert!(hint.starts_with("`carton runner install onnx` installs it") && is_unavailable, "{hint}");

    let missing = SearchPath { chosen: Some("/no/such.so".into()), installed: None, wanted: None };
    let (is_unavailable, message, hint) = refused(&missing);
    assert_eq!(message, "ORT_DYLIB_PATH names /no/such.so, which is not there");
    let another = "set ORT_DYLIB_PATH to a libonnxruntime.so of version 1.24 or later; or unset it, and";
    assert!(hint.starts_with(another) && is_unavailable, "{hint}");

    let broken = SearchPath { chosen: Some(not_a_library.clone()), installed: None, wanted: None };
    let (is_unavailable, message, hint) = refused(&broken);
    let expected = format!("cannot use the ONNX Runtime library {}: ", not_a_library.display());
    assert!(message.starts_with(&expected) && !is_unavailable, "{message}");
    assert!(hint.starts_with(another), "{hint}");
    let broken = SearchPath { chosen: None, installed: Some(folder.path().to_owned()), wanted: None };
    assert_eq!(refused(&broken).2, "`carton runner install onnx` installs the library again");
}

#[test]
fn signatures() {
    let check = |model: &str, expected: Result<(&str, &str), &str>| {
        let bytes = std::fs::read(super::models().join(model)).unwrap();
        let file = crate::model_file::ModelFile::parse(&bytes).unwrap();
        let list = |specs: Vec<DeclaredTensor>| {
            let texts: Vec<String> = specs
                .iter()
                .map(|spec| format!("{} {} {}", spec.name, spec.dtype, serde_json::to_string(&spec.shape).unwrap()))
                .collect();
            texts.join("; ")
        };
        let found = signature::of_file(&file).map(|(inputs, outputs)| (list(inputs), list(outputs)));
        let expected = expected.map(|(inputs, outputs)| (inputs.to_owned(), outputs.to_owned()));
        assert_eq!(found, expected.map_err(str::to_owned), "{model}");
    };
    check("mlp.onnx", Ok((r#"x float32 ["batch",4]"#, r#"y float32 ["batch",3]"#)));
    // The model's initializers are listed as inputs too.
    check("opset_7.onnx", Ok((r#"x float32 ["batch",4]"#, r#"y float32 ["batch",3]"#)));
    check(
        "tokens.onnx",
        Ok((
            r#"ids int64 ["batch","length"]"#,
            r#"mean float32 ["batch",6]; best int64 ["batch"]; positive bool ["batch",6]; next int64 ["batch","length"]"#,
        )),
    );
    check("scalar.onnx", Ok(("x float32 []; i int64 []; b bool []", "y float32 []; j int64 []; c bool []")));
    check("branches.onnx", Ok((r#"flag bool []; x float32 ["n"]"#, r#"y float32 "*""#)));
    check("half.onnx", Ok((r#"x float16 ["n"]"#, r#"y float16 ["n"]"#)));
    check(
        "../real/forest.onnx",
        Ok((r#"x float32 ["*",3]"#, r#"output_label int64 ["*"]; output_probability float32 ["*","*"]"#)),
    );
    check("sequence.onnx", Ok(("x float32 [4]", r#"parts float32 "*"; y float32 [4]"#)));
    check(
        "../types/optionals.onnx",
        Ok((
            r#"x float32 "*"; parts float32 ["*","*",2]"#,
            r#"has_x bool []; has_parts bool []; y float32 "*"; same float32 ["*","*",2]"#,
        )),
    );
    check("../types/map_of_words.onnx", Err("the model does not say what keys input `x` has, which is a map"));
    check("signatures/untyped.onnx", Err("the model does not say what output `y` is"));
    check("signatures/of_sequence.onnx", Ok((r#"parts float32 "*""#, r#"y float32 ["n"]"#)));
}
