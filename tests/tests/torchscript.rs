//! Models made by Python's torch, packed, loaded and run with the installed torchscript runner. The outputs that Python computed are
//! recorded beside them (runners/torchscript/tests/models/make.py).
//!
//! The runner is that of the series 1.13, or of the series that CARTON_TEST_TORCHSCRIPT_SERIES names. The models are those of the newest
//! recorded torch that is not newer than the runner.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use carton_core::metadata::Draft;
use carton_core::{Carton, Error, ErrorKind, Inputs};
use carton_tensor::{Tensor, Tolerance, allclose, npy};
use carton_tests::place::TestPlace;
use serde_json::Value;

const RUNNER: &str = env!("CARGO_BIN_EXE_carton-test-runner");
const MODELS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../runners/torchscript/tests/models");

/// The release of libtorch whose runner is tested, and the folder of the models for it.
fn release() -> (&'static str, PathBuf) {
    let series = std::env::var("CARTON_TEST_TORCHSCRIPT_SERIES").unwrap_or_else(|_| "1.13".to_owned());
    let release = match series.as_str() {
        "1.13" => "1.13.1",
        "2.13" => "2.13.0",
        "2.14" => "2.14.1",
        "2.15" => "2.15.0",
        other => panic!("CARTON_TEST_TORCHSCRIPT_SERIES is {other}, expected 1.13, 2.13, 2.14 or 2.15"),
    };
    let made_by = if series == "1.13" { "1.13" } else { "2.13" };
    (release, Path::new(MODELS).join(made_by))
}

/// A place for one test with the installed runner in it.
struct Stage {
    place: TestPlace,
    installed: PathBuf,
}

impl Stage {
    /// Makes a stage. Returns `None`, and prints the reason, if the runner is not installed for the tests.
    fn new() -> Option<Self> {
        let Some(runners) = std::env::var_os("CARTON_TEST_RUNNERS").map(PathBuf::from) else {
            eprintln!("skipped: CARTON_TEST_RUNNERS names no folder where the torchscript runner is installed");
            return None;
        };
        let (release, _) = release();
        if !runners.join(format!("torchscript-{release}/runner.toml")).exists() {
            eprintln!("skipped: no torchscript {release} is installed in {}", runners.display());
            return None;
        }
        let stage = Self { place: TestPlace::new(RUNNER), installed: runners };
        Some(stage.with_files("ranges"))
    }

    /// Uses only the installed runner, with this value of `files` in its descriptor.
    fn with_files(self, files: &str) -> Self {
        let installed = self.installed.join(format!("torchscript-{}", release().0));
        let folder = self.place.config().runner_dir.join("torchscript");
        std::fs::create_dir_all(&folder).unwrap();
        let text = std::fs::read_to_string(installed.join("runner.toml")).unwrap();
        assert!(text.contains("files = \"ranges\""), "{text}");
        std::fs::write(folder.join("runner.toml"), text.replace("\"ranges\"", &format!("\"{files}\""))).unwrap();
        let program = "carton-runner-torchscript";
        if !folder.join(program).exists() {
            std::os::unix::fs::symlink(installed.join(program), folder.join(program)).unwrap();
        }
        self
    }

    async fn pack(&self, model: &Path, metadata: &str) -> Result<PathBuf, Error> {
        let output = self.place.path().join("model.carton");
        let pack = self.place.pack(model, "torchscript", &output).metadata(Draft::parse(metadata).unwrap());
        pack.metadata_folder(self.place.path()).check(false).await?;
        Ok(output)
    }

    async fn load(&self, carton: &Path) -> Carton {
        self.place.load(carton).await.unwrap()
    }
}

fn model(name: &str) -> PathBuf {
    release().1.join(format!("{name}.pt"))
}

/// Returns the cases that Python recorded for a model.
fn cases(name: &str) -> Vec<Value> {
    let text = std::fs::read_to_string(release().1.join("cases.json")).unwrap();
    let cases: Vec<Value> = serde_json::from_str(&text).unwrap();
    cases.into_iter().filter(|case| case["model"] == name).collect()
}

fn tensors(json: &Value) -> BTreeMap<String, Tensor> {
    json.as_object().unwrap().iter().map(|(name, value)| (name.clone(), tensor(value))).collect()
}

fn tensor(json: &Value) -> Tensor {
    let shape: Vec<usize> = serde_json::from_value(json["shape"].clone()).unwrap();
    let data = json["data"].clone();
    match json["dtype"].as_str().unwrap() {
        "float32" => Tensor::from_vec::<f32>(serde_json::from_value(data).unwrap(), shape),
        "int64" => Tensor::from_vec::<i64>(serde_json::from_value(data).unwrap(), shape),
        "string" => Tensor::from_strings::<String>(serde_json::from_value::<Vec<_>>(data).unwrap(), shape),
        dtype => panic!("{dtype}"),
    }
    .unwrap()
}

fn chain(error: &Error) -> String {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        text = format!("{text}\n{cause}");
        source = cause.source();
    }
    text
}

fn check_outputs(found: &BTreeMap<String, Tensor>, expected: &Value) {
    let expected = tensors(expected);
    assert_eq!(found.keys().collect::<Vec<_>>(), expected.keys().collect::<Vec<_>>());
    for (name, expected) in &expected {
        let comparison = allclose(&found[name], expected, Tolerance::default());
        assert!(comparison.passed, "{name}: {comparison:?}");
    }
}

/// Checks every recorded call of a model through a carton of it.
async fn check_model(name: &str, files: &str) {
    let Some(stage) = Stage::new() else { return };
    let stage = stage.with_files(files);
    let carton = stage.pack(&model(name), "").await.unwrap();
    let loaded = stage.load(&carton).await;
    let cases = cases(name);
    assert!(cases.iter().any(|case| case["outputs"].is_object()), "{name}");
    for case in cases {
        let answer = loaded.infer(Inputs::Named(tensors(&case["inputs"]))).await;
        match case["error"].as_str() {
            None => check_outputs(answer.unwrap().as_tensors(), &case["outputs"]),
            Some(expected) => {
                let error = answer.unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Model, "{error}");
                // Later releases put the operator before the message of some errors.
                let (kind, text) = expected.split_once(':').unwrap();
                let is_same = chain(&error).contains(&format!("{kind}: ")) && chain(&error).contains(text.trim());
                assert!(is_same, "{name}: {}\n\nexpected: {expected}", chain(&error));
            }
        }
    }
}

#[tokio::test]
async fn a_dictionary_of_tensors() {
    check_model("mlp", "ranges").await;
    check_model("mlp", "directory").await;
}

#[tokio::test]
async fn a_convolutional_network_traced_with_a_positional_input() {
    check_model("conv", "ranges").await;
    check_model("conv", "directory").await;
}

#[tokio::test]
async fn strings() {
    check_model("words", "ranges").await;
}

#[tokio::test]
async fn exceptions_of_the_model() {
    check_model("raises", "ranges").await;
}

/// The carton's own names, bound to the model's, pass the self-tests that Python recorded.
#[tokio::test]
async fn self_tests_with_a_signature() {
    let Some(stage) = Stage::new() else { return };
    let case = cases("conv").remove(0);
    let save = |name: &str, tensor: &Tensor| {
        npy::write(std::fs::File::create(stage.place.path().join(name)).unwrap(), tensor).unwrap();
    };
    save("picture.npy", &tensor(&case["inputs"]["image"]));
    save("scores.npy", &tensor(&case["outputs"]["output"]));
    let metadata = r#"
        model_name = "conv"
        [[input]]
        name = "picture"
        dtype = "float32"
        shape = ["batch", 3, "height", "width"]
        [[output]]
        name = "scores"
        dtype = "float32"
        shape = ["batch", 5]
        [[self_test]]
        inputs = { picture = "picture.npy" }
        expected_out = { scores = "scores.npy" }
    "#;
    let carton = stage.pack(&model("conv"), metadata).await.unwrap();
    let loaded = stage.load(&carton).await;
    let report = loaded.self_test().await.unwrap();
    assert!(report.passed && report.self_tests.len() == 1, "{report:?}");
    assert_eq!(loaded.runner().framework_version.to_string(), release().0);
}

#[tokio::test]
async fn what_is_no_model_is_not_packed() {
    let Some(stage) = Stage::new() else { return };
    let error = stage.pack(&model("weights"), "").await.unwrap_err();
    assert!(chain(&error).contains("a file of torch.save, not TorchScript"), "{}", chain(&error));
    let cut_off = stage.place.path().join("cut.pt");
    std::fs::write(&cut_off, &std::fs::read(model("mlp")).unwrap()[..3000]).unwrap();
    let error = stage.pack(&cut_off, "").await.unwrap_err();
    assert!(chain(&error).contains("not a TorchScript file, or one that was cut off"), "{}", chain(&error));
}
