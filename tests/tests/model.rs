//! Loading and calling models through a real runner process.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::time::{Duration, Instant};

use carton_core::signature::SignatureMode;
use carton_core::{Carton, Error, ErrorKind, InferOptions, Inputs, LoadOptions};
use carton_tensor::{NestedTensor, NumericTensor, StringTensor, Tensor, Tolerance, allclose};
use carton_tests::place::Place;
use rustix::process::{Pid, Signal, kill_process};

const RUNNER: &str = env!("CARGO_BIN_EXE_carton-test-runner");

const SIGNATURE: &str = r#"
[[input]]
name = "x"
dtype = "float32"
shape = ["n", 2]
[[input]]
name = "s"
dtype = "string"
shape = ["n"]
[[output]]
name = "x"
dtype = "float32"
shape = ["n", 2]
[[output]]
name = "s"
dtype = "string"
shape = ["n"]
"#;

fn floats(n: usize) -> Tensor {
    NumericTensor::from_vec((0..2 * n).map(|i| i as f32).collect(), vec![n, 2]).unwrap().into()
}

fn strings(n: usize) -> Tensor {
    StringTensor::new((0..n).map(|i| format!("string {i} \0 🙂")).collect(), vec![n]).unwrap().into()
}

fn same(a: &Tensor, b: &Tensor) {
    let comparison = allclose(a, b, Tolerance { rtol: 0.0, atol: 0.0, equal_nan: true });
    assert!(comparison.passed, "{comparison:?}");
}

fn chain(error: &Error) -> String {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}

async fn noop(place: &Place, metadata: &str, options: LoadOptions) -> Carton {
    let path = place.pack_noop(metadata).await;
    match Carton::load(path, options).await {
        Ok(model) => model,
        Err(error) => panic!("{}", chain(&error)),
    }
}

#[tokio::test]
async fn tensors_go_there_and_back() {
    let place = Place::new(RUNNER);
    let model = noop(&place, SIGNATURE, place.load_options()).await;
    for n in [0, 1, 3, 100_000] {
        let outputs = model.infer([("x", floats(n)), ("s", strings(n))]).await.unwrap();
        same(&outputs["x"], &floats(n));
        same(&outputs["s"], &strings(n));
        let outputs = model.infer(vec![floats(n), strings(n)]).await.unwrap();
        same(&outputs["x"], &floats(n));
    }
}

#[tokio::test]
async fn a_model_without_a_signature_takes_anything() {
    let place = Place::new(RUNNER);
    let model = noop(&place, "", place.load_options()).await;
    assert!(model.infer(Inputs::none()).await.unwrap().is_empty());
    let nested = NestedTensor::new(vec![floats(1), floats(5)]).unwrap();
    let outputs = model.infer([("n", Tensor::from(nested.clone())), ("s", strings(2))]).await.unwrap();
    same(&outputs["n"], &nested.into());
    let error = model.infer(vec![floats(1)]).await.unwrap_err();
    assert!(matches!(error, Error::TooManyPositional(_)), "{error}");
}

#[tokio::test]
async fn contradictions_of_the_signature_are_named() {
    let place = Place::new(RUNNER);
    let model = noop(&place, SIGNATURE, place.load_options()).await;
    let error = model.infer([("x", floats(2)), ("s", strings(3))]).await.unwrap_err();
    assert!(error.to_string().contains("`s`"), "{error}");
    assert_eq!(error.kind(), ErrorKind::Failure);
    let error = model.infer([("x", floats(2))]).await.unwrap_err();
    assert!(error.to_string().contains("`s`"), "{error}");
    // Nothing of it reached the runner.
    model.infer([("x", floats(2)), ("s", strings(2))]).await.unwrap();

    for mode in [SignatureMode::Warn, SignatureMode::Off] {
        let options = LoadOptions { signature: mode, ..place.load_options() };
        let model = noop(&place, SIGNATURE, options).await;
        model.infer([("x", floats(2)), ("s", strings(3))]).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn many_calls_at_once() {
    let place = Place::new(RUNNER);
    let model = noop(&place, "[runner.opts]\nmax_concurrency = 8\n", place.load_options()).await;
    let calls: Vec<_> = (0..64)
        .map(|i| {
            let model = model.clone();
            tokio::spawn(async move {
                let tensor = Tensor::from(NumericTensor::from_vec(vec![i as f32; 10_000], vec![10_000]).unwrap());
                let outputs = model.infer([("x", tensor.clone())]).await.unwrap();
                same(&outputs["x"], &tensor);
            })
        })
        .collect();
    for call in calls {
        call.await.unwrap();
    }
}

#[tokio::test]
async fn sealed_inputs_are_used_many_times_and_survive_a_crash() {
    let place = Place::new(RUNNER);
    let model = noop(&place, SIGNATURE, place.load_options()).await;
    let sealed = model.seal([("x", floats(3)), ("s", strings(3))]).await.unwrap();
    for _ in 0..3 {
        same(&model.infer_sealed(&sealed).await.unwrap()["x"], &floats(3));
    }
    kill_runners(&place);
    // The death may be noticed by the first call.
    let _ = model.infer_sealed(&sealed).await;
    same(&model.infer_sealed(&sealed).await.unwrap()["x"], &floats(3));
}

#[tokio::test]
async fn streams_end() {
    let place = Place::new(RUNNER);
    let model = noop(&place, "[runner.opts]\nstream_items = 40\n", place.load_options()).await;
    let mut stream = model.infer_stream([("x", floats(3))]).await.unwrap();
    let mut items = 0;
    while let Some(outputs) = stream.next().await {
        same(&outputs.unwrap()["x"], &floats(3));
        items += 1;
    }
    assert_eq!(items, 40);
    // A stream that nobody reads to its end does not keep the runner from other calls.
    let stream = model.infer_stream([("x", floats(3))]).await.unwrap();
    drop(stream);
    model.infer([("x", floats(3))]).await.unwrap();
}

#[tokio::test]
async fn tensors_in_the_pool_need_no_copy() {
    let place = Place::new(RUNNER);
    let model = noop(&place, "", place.load_options()).await;
    let mut tensor = model.alloc::<f32>(&[1000, 1000]).await.unwrap();
    tensor.as_mut_slice::<f32>().unwrap().unwrap().fill(1.5);
    let address = tensor.bytes().as_ptr();
    let outputs = model.infer([("x", tensor)]).await.unwrap();
    let returned = outputs["x"].as_numeric().unwrap();
    assert_eq!(returned.bytes().as_ptr(), address, "the runner returned its input, which lies where it lay");
    assert!(returned.as_slice::<f32>().unwrap().iter().all(|&x| x == 1.5));
}

/// Kills every runner of this place: they are started by their path in it.
fn kill_runners(place: &Place) {
    let path = place.config().runner_dir.into_os_string().into_encoded_bytes();
    let mut n_killed = 0;
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let id = entry.file_name().to_str().and_then(|name| name.parse().ok()).and_then(Pid::from_raw);
        let command = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        if let Some(id) = id.filter(|_| command.starts_with(&path)) {
            kill_process(id, Signal::KILL).unwrap();
            n_killed += 1;
        }
    }
    assert!(n_killed > 0, "no runner was running");
}

#[tokio::test]
async fn a_killed_runner_fails_the_call_and_is_started_again() {
    let place = Place::new(RUNNER);
    let model = noop(&place, "[runner.opts]\ndelay_ms = 60000\n", place.load_options()).await;
    let start = Instant::now();
    let call = tokio::spawn({
        let model = model.clone();
        async move { model.infer([("x", floats(1))]).await }
    });
    tokio::time::sleep(Duration::from_millis(300)).await;
    kill_runners(&place);
    let error = call.await.unwrap().unwrap_err();
    assert!(start.elapsed() < Duration::from_secs(30));
    assert_eq!(error.kind(), ErrorKind::RunnerCrashed);
    assert!(error.to_string().contains("killed by signal 9"), "{error}");
    model.ping().await.unwrap();

    let options = LoadOptions { restart: false, ..place.load_options() };
    let model = noop(&place, "", options).await;
    model.infer(Inputs::none()).await.unwrap();
    kill_runners(&place);
    let first = model.infer(Inputs::none()).await.unwrap_err();
    assert_eq!(first.kind(), ErrorKind::RunnerCrashed, "{first}");
    let later = model.infer(Inputs::none()).await.unwrap_err();
    assert!(matches!(later, Error::RunnerGone { .. }), "{later}");
}

#[tokio::test]
async fn only_a_timeout_kills() {
    let place = Place::new(RUNNER);
    let model = noop(&place, "[runner.opts]\ndelay_ms = 1000\nignore_cancel = true\n", place.load_options()).await;
    // A dropped call is discarded; the next one waits its turn and is answered.
    let dropped = tokio::time::timeout(Duration::from_millis(100), model.infer([("x", floats(1))])).await;
    assert!(dropped.is_err());
    same(&model.infer([("x", floats(2))]).await.unwrap()["x"], &floats(2));

    let model = noop(&place, "[runner.opts]\ndelay_ms = 60000\nignore_cancel = true\n", place.load_options()).await;
    let options = InferOptions { timeout: Some(Duration::from_millis(200)) };
    let start = Instant::now();
    let error = model.infer_with([("x", floats(1))], options).await.unwrap_err();
    assert!(matches!(error, Error::Timeout { waiting: false, .. }), "{error}");
    assert!(start.elapsed() < Duration::from_secs(30), "{:?}", start.elapsed());
    model.ping().await.unwrap();
}

#[tokio::test]
async fn errors_of_the_model_leave_the_runner_alive() {
    let place = Place::new(RUNNER);
    let model = noop(&place, "[runner.opts]\nfail = \"no luck today\"\n", place.load_options()).await;
    for _ in 0..3 {
        let error = model.infer(Inputs::none()).await.unwrap_err();
        assert!(chain(&error).contains("no luck today"), "{}", chain(&error));
        assert_eq!(error.kind(), ErrorKind::Failure);
    }
}

#[tokio::test]
async fn the_wrong_carton_or_platform_or_runner_is_refused() {
    let place = Place::new(RUNNER);
    let path = place.pack_noop("required_platforms = [\"sparc-sun-solaris\"]\n").await;
    let error = Carton::load(&path, place.load_options()).await.unwrap_err();
    assert!(error.to_string().contains("sparc-sun-solaris"), "{error}");

    let path = place.pack_noop("").await;
    let options = LoadOptions { expect: Some("00".repeat(32).parse().unwrap()), ..place.load_options() };
    let error = Carton::load(&path, options).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Integrity, "{}", chain(&error));

    let options = LoadOptions { framework_version: Some(">=7".parse().unwrap()), ..place.load_options() };
    let error = Carton::load(&path, options).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NoRunner, "{}", chain(&error));
    assert!(error.hint().unwrap().contains("--framework-version"), "{error}");
}

#[tokio::test]
async fn outputs_outlive_their_model() {
    let place = Place::new(RUNNER);
    let model = noop(&place, "[runner.opts]\ncopy = true\n", place.load_options()).await;
    let outputs = model.infer([("x", floats(100_000))]).await.unwrap();
    drop(model);
    tokio::time::sleep(Duration::from_millis(1500)).await;
    same(&outputs["x"], &floats(100_000));
}

#[tokio::test]
async fn bare_models_and_unpacked_cartons_load() {
    let place = Place::new(RUNNER);
    let path = place.pack_noop(SIGNATURE).await;
    let package = Carton::open(&path, carton_core::OpenOptions { config: Some(place.config()), ..Default::default() })
        .await
        .unwrap();
    let folder = place.path().join("unpacked");
    package.contents().unpack(&folder, &carton_core::contents::silent).unwrap();
    let model = Carton::load(&folder, place.load_options()).await.unwrap();
    same(&model.infer([("x", floats(2)), ("s", strings(2))]).await.unwrap()["x"], &floats(2));

    let version = || "=1.0.0".parse().unwrap();
    for bare in [folder.join("model"), folder.join("model/weights.bin")] {
        let model = Carton::load_unpacked(bare, "noop", version(), place.load_options()).await.unwrap();
        assert!(model.infer(Inputs::none()).await.unwrap().is_empty());
    }
}

#[tokio::test]
async fn a_program_whose_main_returns_the_error_tells_it_to_people() {
    let place = Place::new(RUNNER);
    let carton = place.pack_noop(SIGNATURE).await;
    let program = |path: &std::path::Path| {
        let config = place.config();
        let output = std::process::Command::new(env!("CARGO_BIN_EXE_carton-test-program"))
            .arg(path)
            .env("HOME", place.path())
            .env("CARTON_RUNNER_DIR", config.runner_dir)
            .env("CARTON_RUNNER_DATA_DIR", config.runner_data_dir)
            .env("CARTON_CACHE_DIR", config.cache_dir)
            .output()
            .unwrap();
        assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(1), [].as_slice()));
        String::from_utf8(output.stderr).unwrap()
    };
    let missing = place.path().join("missing.carton");
    let expected = format!(
        "Error: cannot open `{}`\n\nCaused by:\n    No such file or directory (os error 2)\n",
        missing.display()
    );
    assert_eq!(program(&missing), expected);

    let model = Carton::load(&carton, place.load_options()).await.unwrap();
    let error = model.infer(Inputs::none()).await.unwrap_err();
    let told = program(&carton);
    assert_eq!(
        told,
        format!("Error: {}\n\nhint: {}\n", error.to_string().replace('\n', "\n    "), error.hint().unwrap())
    );
    assert!(told.contains("input `x`") && !told.contains("Violation"), "{told}");
}
