//! The messages that users get about models, options, inputs and libraries.

use carton_runner_protocol::runner::{DeclaredTensor, Tensors};
use carton_tensor::{DataType, NumericTensor, SymbolicShape, Tensor};

use super::{TestFiles, onnx_runtime, open, open_with, run};
use crate::engine::library::SearchPath;
use crate::options::{EngineChoice, ModelOptions};
use crate::{Onnx, signature};

/// Loading `model` with the built-in engine fails with a message that begins so.
fn refused(model: &str, expected: &str) {
    let error = open(&TestFiles::of_model(model), EngineChoice::Rten).err().unwrap();
    assert!(error.message.starts_with(expected), "{model}: {}", error.message);
    assert!(error.hint.is_none_or(|hint| hint.starts_with("ONNX Runtime can run it: `carton runner install onnx`")));
}

#[test]
fn what_the_built_in_engine_lacks() {
    refused(
        "labels.onnx",
        "the built-in engine cannot run `labels.onnx`: it lacks the operator `StringConcat`, \
         `ai.onnx.ml.LabelEncoder`; input `words` is string, which it does not compute in; output `marked` is string, \
         which it does not compute in",
    );
    refused(
        "unknown_operator.onnx",
        "the built-in engine cannot run `unknown_operator.onnx`: it lacks the operator `com.example.Frobnicate`",
    );
    refused(
        "wide_constant.onnx",
        "the built-in engine cannot run `wide_constant.onnx`: constant `wide` holds 5000000000 at 1, beyond the int32",
    );
    refused(
        "external_wide/model.onnx",
        "the built-in engine cannot run `model.onnx`: constant `wide` holds -3000000000 at 2, beyond the int32",
    );
    refused(
        "deviations.onnx",
        "the built-in engine cannot run `deviations.onnx`: it computes `MaxPool` with auto_pad SAME_LOWER, `Resize` \
         with mode cubic otherwise than ONNX specifies",
    );
    refused(
        "half.onnx",
        "the built-in engine cannot run `half.onnx`: input `x` is float16, which it does not compute in",
    );
}

#[test]
fn warnings() {
    let check = |model: &str, options: &ModelOptions, expected: &[&str]| {
        let (_, warnings) = open_with(&TestFiles::of_model(model), options, &[], &[]).unwrap();
        assert_eq!(warnings, expected, "{model}");
    };
    let defaults = ModelOptions { engine: EngineChoice::Rten, ..ModelOptions::default() };
    check("mlp.onnx", &defaults, &[]);
    check(
        "sequence.onnx",
        &defaults,
        &["output `parts` is left out: it is a sequence, which Carton's tensors do not have"],
    );
    check("opset_27.onnx", &defaults, &["the model uses operator set 27, this runner knows sets up to 26"]);
    check(
        "mlp.onnx",
        &ModelOptions { inter_op_threads: Some(2), ..defaults },
        &["the built-in engine has no use for inter_op_threads: it runs operators one after another"],
    );
}

#[test]
fn devices() {
    let open = |engine: EngineChoice, libraries: &SearchPath, device: &str, providers: &[&str]| {
        let execution_providers = providers.iter().map(|name| (*name).to_owned()).collect();
        let options = ModelOptions { engine, execution_providers, ..ModelOptions::default() };
        let files = TestFiles::of_model("mlp.onnx");
        Onnx::open(&files, &options, Some(device), (&[], &[]), libraries, &mut |_| {}).map(drop)
    };
    let check = |engine: EngineChoice, libraries: &SearchPath, device: &str, providers: &[&str], expected: &str| {
        let error = open(engine, libraries, device, providers).unwrap_err();
        assert!(error.is_unavailable() && error.hint.is_some(), "{error:?}");
        assert!(error.message.starts_with(expected), "{}", error.message);
    };
    let nowhere = SearchPath::default();
    let on_cpu = "the built-in engine runs on the CPU alone";
    for engine in [EngineChoice::Auto, EngineChoice::Rten] {
        assert!(open(engine, &nowhere, "cpu", &[]).is_ok());
        check(engine, &nowhere, "0", &[], &format!("device `0` cannot be used: {on_cpu}"));
        check(engine, &nowhere, "GPU-12ab", &[], &format!("device `GPU-12ab` cannot be used: {on_cpu}"));
        check(engine, &nowhere, "foo", &[], "there is no device `foo`");
    }
    if let Some(libraries) = onnx_runtime() {
        let engine = EngineChoice::OnnxRuntime;
        assert!(open(engine, &libraries, "cpu", &[]).is_ok());
        assert!(open(engine, &libraries, "cpu", &["CPU"]).is_ok());
        check(
            engine,
            &libraries,
            "0",
            &[],
            "device `0` cannot be used: this library of ONNX Runtime was built without CUDA",
        );
        check(engine, &libraries, "0", &["CPU"], "device `0` cannot be used: none of the execution providers");
        check(engine, &libraries, "foo", &[], "there is no device `foo`");
        check(engine, &libraries, "cpu", &["CUDA"], "this library of ONNX Runtime has no execution provider `CUDA`");
    }
}

#[test]
fn inputs() {
    let check = |model: &str, engine: EngineChoice, inputs: &[(&str, Tensor)], expected: &str| {
        let (model, _) = open(&TestFiles::of_model(model), engine).unwrap();
        let inputs: Tensors = inputs.iter().map(|(name, tensor)| ((*name).to_owned(), tensor.clone())).collect();
        let message = run(&model, &inputs).unwrap_err().message;
        assert!(message.contains(expected), "{message}");
    };
    let ids = |elements: Vec<i64>| Tensor::from(NumericTensor::from_vec(elements, vec![1, 3]).unwrap());
    let floats = |shape: Vec<usize>| {
        Tensor::from(NumericTensor::from_vec(vec![0.5_f32; shape.iter().product()], shape).unwrap())
    };
    let rten = EngineChoice::Rten;
    check("tokens.onnx", rten, &[], "input `ids` is missing; it takes `ids`");
    check(
        "tokens.onnx",
        rten,
        &[("ids", ids(vec![0, 1, 2])), ("mask", ids(vec![1, 1, 1]))],
        "the model has no input `mask`; it takes `ids`",
    );
    check("tokens.onnx", rten, &[("ids", floats(vec![1, 3]))], "input `ids`: expected int64, found float32");
    check(
        "tokens.onnx",
        rten,
        &[("ids", ids(vec![0, 1, 3_000_000_000]))],
        "input `ids` holds 3000000000 at [0, 2]; the built-in engine computes int64 in int32, which ends at 2147483647",
    );
    check(
        "tokens.onnx",
        rten,
        &[("ids", ids(vec![0, i64::MIN, 0]))],
        "input `ids` holds -9223372036854775808 at [0, 1]; the built-in engine computes int64 in int32, which ends at \
         -2147483648",
    );
    // Not covered by the table: the engine's own message.
    check("tokens.onnx", rten, &[("ids", ids(vec![0, 1, 20]))], "Index 20 is out of range");
    check("mlp.onnx", rten, &[("x", floats(vec![2, 5]))], "input \"x\" is invalid: expected dim 1 to have size 4");
    check("mlp.onnx", rten, &[("x", floats(vec![4]))], "expected tensor with 2 dims but got 1");
    check(
        "branches.onnx",
        rten,
        &[("flag", floats(vec![])), ("x", floats(vec![1]))],
        "input `flag`: expected uint8 (for bool), found float32",
    );
    if onnx_runtime().is_some() {
        let runtime = EngineChoice::OnnxRuntime;
        check("mlp.onnx", runtime, &[("x", floats(vec![2, 5]))], "Got invalid dimensions for input: x");
    }
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
        let options = ModelOptions { engine: EngineChoice::Rten, ..ModelOptions::default() };
        let error = open_with(&TestFiles::of_model("mlp.onnx"), &options, inputs, outputs).err().unwrap();
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
    let open_model = |model: &str, engine: EngineChoice, libraries: &SearchPath| {
        let mut warnings = Vec::new();
        let options = ModelOptions { engine, ..ModelOptions::default() };
        let opened = Onnx::open(&TestFiles::of_model(model), &options, None, (&[], &[]), libraries, &mut |warning| {
            warnings.push(warning);
        });
        (
            opened
                .map(drop)
                .map_err(|error| (error.is_unavailable(), error))
                .map_err(|(is_unavailable, error)| (error.message, error.hint, is_unavailable)),
            warnings,
        )
    };

    let open = |engine: EngineChoice, libraries: &SearchPath| open_model("mlp.onnx", engine, libraries);

    let nowhere = SearchPath { chosen: None, installed: Some("/data/onnxruntime".into()) };
    let (opened, _) = open(EngineChoice::OnnxRuntime, &nowhere);
    let (message, hint, is_unavailable) = opened.unwrap_err();
    assert_eq!(
        message,
        "the library of ONNX Runtime was not found; looked at ORT_DYLIB_PATH (not set) and /data/onnxruntime"
    );
    assert!(hint.unwrap().starts_with("`carton runner install onnx` installs it") && is_unavailable);
    assert_eq!(open(EngineChoice::Auto, &nowhere), (Ok(()), Vec::new()));

    let missing = SearchPath { chosen: Some("/no/such.so".into()), installed: None };
    let (opened, _) = open(EngineChoice::OnnxRuntime, &missing);
    let (message, hint, is_unavailable) = opened.unwrap_err();
    assert_eq!(message, "ORT_DYLIB_PATH names /no/such.so, which is not there");
    let another = "set ORT_DYLIB_PATH to a libonnxruntime.so of version 1.24 or later; or unset it, and";
    assert!(hint.unwrap().starts_with(another) && is_unavailable);
    let (opened, warnings) = open(EngineChoice::Auto, &missing);
    assert_eq!(opened, Ok(()));
    assert_eq!(warnings, ["ORT_DYLIB_PATH names /no/such.so, which is not there; using the built-in engine"]);

    // A model that the built-in engine cannot run.
    for (libraries, way_out) in
        [(&nowhere, "ONNX Runtime can run it: `carton runner install onnx`"), (&missing, another)]
    {
        let (opened, _) = open_model("half.onnx", EngineChoice::Auto, libraries);
        let (message, hint, is_unavailable) = opened.unwrap_err();
        assert!(hint.unwrap_or_default().starts_with(way_out) && is_unavailable, "{message}");
    }

    let broken = SearchPath { chosen: Some(not_a_library.clone()), installed: None };
    let expected = format!("cannot use the ONNX Runtime library {}: ", not_a_library.display());
    let (opened, _) = open(EngineChoice::OnnxRuntime, &broken);
    let (message, hint, is_unavailable) = opened.unwrap_err();
    assert!(message.starts_with(&expected) && !is_unavailable, "{message}");
    assert!(hint.unwrap().starts_with(another));
    let (opened, warnings) = open(EngineChoice::Auto, &broken);
    assert_eq!(opened, Ok(()));
    assert!(warnings[0].starts_with(&expected) && warnings[0].ends_with("; using the built-in engine"), "{warnings:?}");
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
            r#"mean float32 ["batch",6]; best int64 ["batch"]; positive uint8 ["batch",6]; next int64 ["batch","length"]"#,
        )),
    );
    check("scalar.onnx", Ok(("x float32 []; i int64 []; b uint8 []", "y float32 []; j int64 []; c uint8 []")));
    check("branches.onnx", Ok((r#"flag uint8 []; x float32 ["n"]"#, r#"y float32 "*""#)));
    check("half.onnx", Ok((r#"x float32 ["n"]"#, r#"y float32 ["n"]"#)));
    check(
        "../real/forest.onnx",
        Ok((r#"x float32 ["*",3]"#, r#"output_label int64 ["*"]; output_probability float32 ["*","*"]"#)),
    );
    check("sequence.onnx", Err("output `parts` is a sequence"));
}
