//! The digits example and models of others through the real runner process. Expected outputs were computed by ONNX Runtime.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::collections::BTreeMap;
use std::path::Path;

use carton_core::runner::LaunchPolicy;
use carton_core::self_test::SelfTestOutcome;
use carton_core::{ErrorKind, Load};
use carton_tensor::{DataType, NumericTensor, Tensor, Tolerance, allclose};
use carton_tests::onnx_runtime;
use carton_tests::place::TestPlace;

const RUNNER: &str = env!("CARGO_BIN_EXE_carton-test-runner");
const DIGITS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/digits");

const REAL: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../runners/onnx/tests/real");

async fn pack_digits(place: &TestPlace) -> std::path::PathBuf {
    let digits = Path::new(DIGITS);
    let text = std::fs::read_to_string(digits.join("carton.toml")).unwrap();
    let metadata = carton_core::metadata::Draft::parse(&text).unwrap();
    let output = place.path().join("digits.carton");
    let pack = place.pack(digits.join("model.onnx"), "onnx", &output).metadata(metadata).metadata_folder(digits);
    // Without a library a carton is packed unchecked.
    pack.check(onnx_runtime().is_some()).await.unwrap();
    output
}

/// Loads with the library at this path.
fn load(place: &TestPlace, carton: &Path, library: &str) -> Load {
    let variables = vec![("ORT_DYLIB_PATH".to_owned(), library.to_owned())];
    place.load(carton).policy(LaunchPolicy::default().with_variables(variables))
}

#[tokio::test]
async fn digits_pass_their_self_tests() {
    let Some(library) = onnx_runtime() else { return };
    let place = TestPlace::new(RUNNER);
    let carton = pack_digits(&place).await;
    for files in ["directory", "ranges"] {
        place.describe("onnx", &["__carton-runner", "onnx"], files);
        let model = load(&place, &carton, &library).await.unwrap();
        // The same implementation made the expected outputs; only the number of its threads makes a difference.
        let report = model.self_test().tolerance(Tolerance::new(1e-6, 1e-8)).await.unwrap();
        assert!(report.passed && report.self_tests.len() == 2, "{report:?}");
    }
}

/// Reads a tensor in the format of the models' `cases.json`.
fn tensor(json: &serde_json::Value) -> Tensor {
    let shape: Vec<usize> = serde_json::from_value(json["shape"].clone()).unwrap();
    let data = json["data"].clone();
    macro_rules! numbers {
        ($element:ty) => {
            Tensor::from_vec(serde_json::from_value::<Vec<$element>>(data).unwrap(), shape).unwrap()
        };
    }
    if let Some(bits) = json["bits"].as_array() {
        let dtype: DataType = json["dtype"].as_str().unwrap().parse().unwrap();
        let width = dtype.size().unwrap();
        let bytes = bits.iter().flat_map(|bits| bits.as_u64().unwrap().to_le_bytes()[..width].to_vec());
        return NumericTensor::copy_from_bytes(dtype, shape, &bytes.collect::<Vec<u8>>()).unwrap().into();
    }
    match json["dtype"].as_str().unwrap() {
        "float64" => numbers!(f64),
        "int64" => numbers!(i64),
        "string" => Tensor::from_strings(serde_json::from_value::<Vec<String>>(data).unwrap(), shape).unwrap(),
        other => panic!("{other}"),
    }
}

/// Pipelines of scikit-learn, quantized nets, float16 and bfloat16, with the signature that packing reads from the file.
#[tokio::test]
async fn models_of_others_on_an_installed_onnx_runtime() {
    let Some(library) = onnx_runtime() else { return };
    let place = TestPlace::new(RUNNER);
    let installed = place.config().runner_data_dir.join("onnxruntime/1.32.0");
    std::fs::create_dir_all(&installed).unwrap();
    // A link would lead to a folder that the runner may not read.
    std::fs::copy(library, installed.join("libonnxruntime.so.1.32.0")).unwrap();
    let cases: Vec<serde_json::Value> =
        serde_json::from_str(&std::fs::read_to_string(Path::new(REAL).join("cases.json")).unwrap()).unwrap();
    assert!(cases.len() >= 8);
    for case in &cases {
        let name = case["model"].as_str().unwrap();
        let output = place.path().join(format!("{name}.carton"));
        if !output.exists() {
            place.pack(Path::new(REAL).join(name), "onnx", &output).await.unwrap();
        }
        let model = place.load(&output).await.unwrap();
        let tensors = |json: &serde_json::Value| -> Vec<(String, Tensor)> {
            json.as_object().unwrap().iter().map(|(name, json)| (name.clone(), tensor(json))).collect()
        };
        let declared = &model.package().metadata().inputs();
        assert_eq!(declared.len(), case["inputs"].as_object().unwrap().len(), "{name}: {declared:?}");
        for _ in 0..2 {
            let outputs = model.infer(tensors(&case["inputs"]).into_iter().collect::<BTreeMap<_, _>>()).await.unwrap();
            for (output, expected) in tensors(&case["outputs"]) {
                // Processors with and without instructions for sums of int8 round to neighbouring steps, which are 0.018 apart here.
                let usual = Tolerance::default();
                let tolerance = if name.starts_with("quantized") { Tolerance::new(usual.rtol, 0.02) } else { usual };
                let comparison = allclose(&outputs.as_tensors()[output.as_str()], &expected, tolerance);
                assert!(comparison.passed, "{name}, {output}: {comparison:?}");
            }
        }
    }
}

#[tokio::test]
async fn a_missing_library_is_refused_with_the_way_out() {
    let place = TestPlace::new(RUNNER);
    let carton = pack_digits(&place).await;
    let error = load(&place, &carton, "/no/such.so").await.unwrap_err();
    // The exit code 5 of the command.
    assert_eq!(error.kind(), ErrorKind::NoRunner);
    // Installing one would not help while the variable is set.
    assert!(
        error.hint().is_some_and(|hint| hint.starts_with("set ORT_DYLIB_PATH to a libonnxruntime.so")),
        "{error:?}"
    );
    let cause = std::error::Error::source(&error).map(ToString::to_string);
    assert!(cause.is_some_and(|cause| cause.contains("/no/such.so")), "{error:?}");
}

#[tokio::test]
async fn a_self_test_with_a_wrong_expectation_fails() {
    let Some(library) = onnx_runtime() else { return };
    let place = TestPlace::new(RUNNER);
    let digits = Path::new(DIGITS);
    let text = std::fs::read_to_string(digits.join("carton.toml")).unwrap();
    // The image of the first self-test, but the sixteen answers of the second.
    let text = text.replacen("probabilities = \"probabilities.npy\"", "probabilities = \"cases.npz#probabilities\"", 1);
    let metadata = carton_core::metadata::Draft::parse(&text).unwrap();
    let output = place.path().join("wrong.carton");
    let pack = place.pack(digits.join("model.onnx"), "onnx", &output).metadata(metadata).metadata_folder(digits);
    pack.check(false).await.unwrap();
    let model = load(&place, &output, &library).await.unwrap();
    let report = model.self_test().await.unwrap();
    let outcomes = [SelfTestOutcome::Failed, SelfTestOutcome::Passed];
    assert!(!report.passed && report.self_tests.iter().map(|test| test.outcome).eq(outcomes), "{report:?}");
}
