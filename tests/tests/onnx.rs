//! The digits example through the real runner process, on each engine. Its expected outputs were computed by ONNX Runtime.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::path::Path;

use carton_core::runner::launch::LaunchPolicy;
use carton_core::{Carton, Error, ErrorKind, LoadOptions, PackOptions};
use carton_tensor::Tolerance;
use carton_tests::place::Place;

const RUNNER: &str = env!("CARGO_BIN_EXE_carton-test-runner");
const DIGITS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/digits");

async fn pack_digits(place: &Place) -> std::path::PathBuf {
    let digits = Path::new(DIGITS);
    let text = std::fs::read_to_string(digits.join("carton.toml")).unwrap();
    let options = PackOptions {
        metadata: carton_core::metadata::Draft::parse(&text).unwrap(),
        metadata_folder: Some(digits.to_path_buf()),
        config: Some(place.config()),
        ..PackOptions::default()
    };
    let output = place.path().join("digits.carton");
    Carton::pack(digits.join("model.onnx"), "onnx", &output, options).await.unwrap();
    output
}

fn with_engine(place: &Place, engine: &str, library: &str) -> LoadOptions {
    let variables = vec![("ORT_DYLIB_PATH".to_owned(), library.to_owned())];
    LoadOptions {
        options: [("engine".to_owned(), engine.into())].into(),
        policy: LaunchPolicy { variables, ..LaunchPolicy::default() },
        ..place.load_options()
    }
}

#[tokio::test]
async fn digits_pass_their_self_tests_on_the_built_in_engine() {
    let place = Place::new(RUNNER);
    let carton = pack_digits(&place).await;
    for files in ["directory", "ranges"] {
        place.describe("onnx", &["__carton-runner", "onnx"], files);
        let model = Carton::load(&carton, with_engine(&place, "rten", "")).await.unwrap();
        let report = model.self_test(Tolerance::default()).await.unwrap();
        assert!(report.passed && report.self_tests.len() == 2, "{report:?}");
    }
}

#[tokio::test]
async fn digits_pass_their_self_tests_on_onnx_runtime() {
    let Ok(library) = std::env::var("CARTON_TEST_ONNXRUNTIME") else {
        eprintln!("skipped: CARTON_TEST_ONNXRUNTIME does not name a library of ONNX Runtime");
        return;
    };
    let place = Place::new(RUNNER);
    let carton = pack_digits(&place).await;
    let model = Carton::load(&carton, with_engine(&place, "onnxruntime", &library)).await.unwrap();
    // The same implementation made the expected outputs: they are equal but for its threads.
    let report = model.self_test(Tolerance { rtol: 1e-6, ..Tolerance::default() }).await.unwrap();
    assert!(report.passed && report.self_tests.len() == 2, "{report:?}");
}

#[tokio::test]
async fn a_missing_engine_is_refused_with_the_way_out() {
    let place = Place::new(RUNNER);
    let carton = pack_digits(&place).await;
    let error = Carton::load(&carton, with_engine(&place, "onnxruntime", "/no/such.so")).await.unwrap_err();
    // The exit code 5 of the command.
    assert_eq!(error.kind(), ErrorKind::NoRunner);
    assert_eq!(error.hint().as_deref(), Some("set it to a libonnxruntime.so, or unset it"));
    let Error::LoadRefused { source, .. } = error else { panic!("{error}") };
    assert!(source.to_string().contains("/no/such.so"), "{source}");
}

#[tokio::test]
async fn a_self_test_with_a_wrong_expectation_fails() {
    let place = Place::new(RUNNER);
    let digits = Path::new(DIGITS);
    let text = std::fs::read_to_string(digits.join("carton.toml")).unwrap();
    // The picture of the first test, but the sixteen answers of the second.
    let text = text.replacen("probabilities = \"probabilities.npy\"", "probabilities = \"cases.npz#probabilities\"", 1);
    let options = PackOptions {
        metadata: carton_core::metadata::Draft::parse(&text).unwrap(),
        metadata_folder: Some(digits.to_path_buf()),
        config: Some(place.config()),
        ..PackOptions::default()
    };
    let output = place.path().join("wrong.carton");
    Carton::pack(digits.join("model.onnx"), "onnx", &output, options).await.unwrap();
    let model = Carton::load(&output, with_engine(&place, "rten", "")).await.unwrap();
    let report = model.self_test(Tolerance::default()).await.unwrap();
    assert!(!report.passed && !report.self_tests[0].passed && report.self_tests[1].passed, "{report:?}");
}
