//! Loading and calling models through a real runner process.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::path::PathBuf;
use std::time::{Duration, Instant};

use carton_core::self_test::SelfTestOutcome;
use carton_core::signature::SignatureMode;
use carton_core::{Carton, Error, ErrorKind, Inputs, Load};
use carton_tensor::{NestedTensor, NumericTensor, StringTensor, Tensor, Tolerance, allclose};
use carton_tests::place::TestPlace;
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
    let comparison = allclose(a, b, Tolerance::new(0.0, 0.0).equal_nan(true));
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

async fn noop(place: &TestPlace, metadata: &str) -> Carton {
    noop_with(place, metadata, |load| load).await
}

/// As [`noop`], with the settings that `set` applies.
async fn noop_with(place: &TestPlace, metadata: &str, set: impl FnOnce(Load) -> Load) -> Carton {
    match set(place.load(place.pack_noop(metadata).await)).await {
        Ok(model) => model,
        Err(error) => panic!("{}", chain(&error)),
    }
}

#[tokio::test]
async fn tensors_go_there_and_back() {
    let place = TestPlace::new(RUNNER);
    let model = noop(&place, SIGNATURE).await;
    for n in [0, 1, 3, 100_000] {
        let outputs = model.infer([("x", floats(n)), ("s", strings(n))]).await.unwrap();
        same(&outputs.as_tensors()["x"], &floats(n));
        same(&outputs.as_tensors()["s"], &strings(n));
        let outputs = model.infer(vec![floats(n), strings(n)]).await.unwrap();
        same(&outputs.as_tensors()["x"], &floats(n));
    }
}

#[tokio::test]
async fn a_model_without_a_signature_takes_anything() {
    let place = TestPlace::new(RUNNER);
    let model = noop(&place, "").await;
    assert!(model.infer(Inputs::none()).await.unwrap().is_empty());
    let nested = NestedTensor::new(vec![floats(1), floats(5)]).unwrap();
    let outputs = model.infer([("n", Tensor::from(nested.clone())), ("s", strings(2))]).await.unwrap();
    same(&outputs.as_tensors()["n"], &nested.into());
    let error = model.infer(vec![floats(1)]).await.unwrap_err();
    assert!(error.is_of_signature() && error.violations().is_empty(), "{error}");
}

#[tokio::test]
async fn contradictions_of_the_signature_are_named() {
    let place = TestPlace::new(RUNNER);
    let model = noop(&place, SIGNATURE).await;
    let error = model.infer([("x", floats(2)), ("s", strings(3))]).await.unwrap_err();
    assert!(error.to_string().contains("`s`"), "{error}");
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    let error = model.infer([("x", floats(2))]).await.unwrap_err();
    assert!(error.to_string().contains("`s`"), "{error}");
    // The refused inputs did not reach the runner.
    model.infer([("x", floats(2)), ("s", strings(2))]).await.unwrap();

    for mode in [SignatureMode::Warn, SignatureMode::Off] {
        let model = noop_with(&place, SIGNATURE, |load| load.signature(mode)).await;
        model.infer([("x", floats(2)), ("s", strings(3))]).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn many_calls_at_once() {
    let place = TestPlace::new(RUNNER);
    let model = noop(&place, "[runner.opts]\nmax_concurrency = 8\n").await;
    let calls: Vec<_> = (0..64)
        .map(|i| {
            let model = model.clone();
            tokio::spawn(async move {
                let tensor = Tensor::from(NumericTensor::from_vec(vec![i as f32; 10_000], vec![10_000]).unwrap());
                let outputs = model.infer([("x", tensor.clone())]).await.unwrap();
                same(&outputs.as_tensors()["x"], &tensor);
            })
        })
        .collect();
    for call in calls {
        call.await.unwrap();
    }
}

#[tokio::test]
async fn sealed_inputs_are_used_many_times_and_survive_a_crash() {
    let place = TestPlace::new(RUNNER);
    let model = noop(&place, SIGNATURE).await;
    let sealed = model.seal([("x", floats(3)), ("s", strings(3))]).await.unwrap();
    for _ in 0..3 {
        same(&model.infer(&sealed).await.unwrap().as_tensors()["x"], &floats(3));
    }
    kill_runners(&place);
    // The death may be noticed by the first call.
    let _ = model.infer(&sealed).await;
    same(&model.infer(&sealed).await.unwrap().as_tensors()["x"], &floats(3));
}

#[tokio::test]
async fn streams_end() {
    let place = TestPlace::new(RUNNER);
    let model = noop(&place, "[runner.opts]\nstream_items = 40\n").await;
    let mut stream = model.infer([("x", floats(3))]).stream().await.unwrap();
    let mut items = 0;
    while let Some(outputs) = stream.next().await {
        same(&outputs.unwrap().as_tensors()["x"], &floats(3));
        items += 1;
    }
    assert_eq!(items, 40);
    // A stream that is dropped before its end does not block other calls.
    let stream = model.infer([("x", floats(3))]).stream().await.unwrap();
    drop(stream);
    model.infer([("x", floats(3))]).await.unwrap();
}

#[tokio::test]
async fn tensors_in_the_pool_need_no_copy() {
    let place = TestPlace::new(RUNNER);
    let model = noop(&place, "").await;
    let mut tensor = model.alloc::<f32>(&[1000, 1000]).await.unwrap();
    tensor.as_mut_slice::<f32>().unwrap().unwrap().fill(1.5);
    let address = tensor.bytes().as_ptr();
    let outputs = model.infer([("x", tensor)]).await.unwrap();
    let returned = outputs.as_tensors()["x"].as_numeric().unwrap();
    assert_eq!(returned.bytes().as_ptr(), address, "the runner returned its input, which lies where it lay");
    assert!(returned.as_slice::<f32>().unwrap().iter().all(|&x| x == 1.5));
}

fn kill_runners(place: &TestPlace) {
    signal_runners(place, Signal::KILL);
}

/// Sends a signal to every runner of this place. Runners are found by the path that they were started from.
fn signal_runners(place: &TestPlace, signal: Signal) {
    let path = place.config().runner_dir.into_os_string().into_encoded_bytes();
    let mut n_found = 0;
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let id = entry.file_name().to_str().and_then(|name| name.parse().ok()).and_then(Pid::from_raw);
        let command = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        if let Some(id) = id.filter(|_| command.starts_with(&path)) {
            kill_process(id, signal).unwrap();
            n_found += 1;
            // The signal is there at once, and takes effect when the process is interrupted.
            let is_running =
                || !std::fs::read_to_string(entry.path().join("stat")).unwrap_or_default().contains(") T ");
            while signal == Signal::STOP && is_running() {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    }
    assert!(n_found > 0, "no runner was running");
}

#[tokio::test]
async fn a_killed_runner_fails_the_call_and_is_started_again() {
    let place = TestPlace::new(RUNNER);
    let model = noop(&place, "[runner.opts]\ndelay_ms = 60000\n").await;
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

    let model = noop_with(&place, "", |load| load.restart(false)).await;
    model.infer(Inputs::none()).await.unwrap();
    kill_runners(&place);
    let first = model.infer(Inputs::none()).await.unwrap_err();
    assert_eq!(first.kind(), ErrorKind::RunnerCrashed, "{first}");
    let later = model.infer(Inputs::none()).await.unwrap_err();
    assert!(later.kind() == ErrorKind::RunnerCrashed && later.is_of_start(), "{later}");
}

#[tokio::test]
async fn only_a_timeout_kills() {
    let place = TestPlace::new(RUNNER);
    let model = noop(&place, "[runner.opts]\ndelay_ms = 1000\nignore_cancel = true\n").await;
    // A dropped call is discarded; the next one waits its turn and is answered.
    let dropped = tokio::time::timeout(Duration::from_millis(100), model.infer([("x", floats(1))])).await;
    assert!(dropped.is_err());
    same(&model.infer([("x", floats(2))]).await.unwrap().as_tensors()["x"], &floats(2));

    let model = noop(&place, "[runner.opts]\ndelay_ms = 60000\nignore_cancel = true\n").await;
    let start = Instant::now();
    let error = model.infer([("x", floats(1))]).timeout(Duration::from_millis(200)).await.unwrap_err();
    assert!(error.kind() == ErrorKind::Timeout && error.is_runner_lost(), "{error}");
    assert!(start.elapsed() < Duration::from_secs(30), "{:?}", start.elapsed());
    model.ping().await.unwrap();
}

#[tokio::test]
async fn a_ping_that_is_not_answered_kills_nothing() {
    let place = TestPlace::new(RUNNER);
    let set = |load: Load| load.restart(false).timeout(Duration::from_millis(300));
    let model = noop_with(&place, "", set).await;
    signal_runners(&place, Signal::STOP);
    let error = model.ping().await.unwrap_err();
    assert!(error.kind() == ErrorKind::Timeout && !error.is_runner_lost(), "{error}");
    assert!(!error.to_string().contains("killed"), "{error}");
    signal_runners(&place, Signal::CONT);
    // The same process answers: no other one would be started.
    model.infer([("x", floats(1))]).timeout(Duration::from_secs(30)).await.unwrap();
}

/// A runner that runs one call at a time, and hangs in calls with an input `slow`.
const ONE_AT_A_TIME: &str =
    "[runner.opts]\nmax_concurrency = 1\ndelay_ms = 60000\nignore_cancel = true\nonly_with = \"slow\"\n";

/// Makes a call that is killed at its deadline, and meanwhile calls of every kind that wait behind it. Returns the results of those.
async fn behind_a_killed_call(model: &Carton) -> Vec<(&'static str, Result<Tensor, Error>)> {
    let sealed = model.seal([("x", floats(3))]).await.unwrap();
    // In memory that is shared with the runner that will be killed.
    let mut shared = model.alloc::<f32>(&[3, 2]).await.unwrap();
    let Tensor::Numeric(numbers) = floats(3) else { panic!("floats are numbers") };
    shared.as_mut_slice::<f32>().unwrap().unwrap().copy_from_slice(numbers.as_slice().unwrap());
    let x = |outputs: carton_core::Outputs| outputs.as_tensors()["x"].clone();
    let slow = async {
        let error = model.infer([("slow", floats(1))]).timeout(Duration::from_secs(1)).await.unwrap_err();
        assert!(error.kind() == ErrorKind::Timeout && error.is_runner_lost(), "{}", chain(&error));
        Instant::now()
    };
    let waiting = async {
        tokio::time::sleep(Duration::from_millis(200)).await;
        let start = Instant::now();
        let calls = tokio::join!(
            async { model.infer([("x", floats(3))]).await.map(x) },
            async { model.infer([("x", shared)]).await.map(x) },
            async { model.infer(&sealed).await.map(x) },
            async {
                let mut stream = model.infer([("x", floats(3))]).stream().await?;
                stream.next().await.unwrap().map(x)
            },
            async { model.infer(&model.seal([("x", floats(3))]).await?).await.map(x) },
        );
        (start, calls)
    };
    let (killed, (start, (plain, shared, sealed, stream, seal))) = tokio::join!(slow, waiting);
    assert!(start < killed, "they did not wait");
    vec![("plain", plain), ("shared", shared), ("sealed", sealed), ("stream", stream), ("seal", seal)]
}

#[tokio::test]
async fn calls_that_wait_behind_a_killed_one_are_answered_by_the_fresh_runner() {
    let place = TestPlace::new(RUNNER);
    let model = noop(&place, ONE_AT_A_TIME).await;
    for (call, answer) in behind_a_killed_call(&model).await {
        match answer {
            Ok(x) => same(&x, &floats(3)),
            Err(error) => panic!("{call}: {}", chain(&error)),
        }
    }
}

#[tokio::test]
async fn calls_that_wait_behind_a_killed_one_fail_with_it_where_no_runner_is_started_again() {
    let place = TestPlace::new(RUNNER);
    let model = noop_with(&place, ONE_AT_A_TIME, |load| load.restart(false)).await;
    for (call, answer) in behind_a_killed_call(&model).await {
        let error = answer.err().unwrap_or_else(|| panic!("{call}"));
        assert_eq!(error.kind(), ErrorKind::RunnerCrashed, "{call}: {}", chain(&error));
        assert!(chain(&error).contains("ran out of time"), "{call}: {}", chain(&error));
    }
}

#[tokio::test]
async fn errors_of_the_model_leave_the_runner_alive() {
    let place = TestPlace::new(RUNNER);
    let model = noop(&place, "[runner.opts]\nfail = \"no luck today\"\n").await;
    for _ in 0..3 {
        let error = model.infer(Inputs::none()).await.unwrap_err();
        assert!(chain(&error).contains("no luck today"), "{}", chain(&error));
        assert_eq!(error.kind(), ErrorKind::Model);
    }
}

#[tokio::test]
async fn the_wrong_carton_or_platform_or_runner_is_refused() {
    let place = TestPlace::new(RUNNER);
    let path = place.pack_noop("required_platforms = [\"sparc-sun-solaris\"]\n").await;
    let error = place.load(&path).await.unwrap_err();
    assert!(error.to_string().contains("sparc-sun-solaris"), "{error}");

    let path = place.pack_noop("").await;
    let error = place.load(&path).expect_hash("00".repeat(32).parse().unwrap()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Integrity, "{}", chain(&error));

    let error = place.load(&path).framework_version(">=7".parse().unwrap()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NoRunner, "{}", chain(&error));
    assert!(error.hint().unwrap().contains("accept another version of the framework"), "{error}");
}

/// Packs a model of the runner that returns its inputs, with one self-test.
async fn pack_with_a_self_test(place: &TestPlace, options: &str) -> PathBuf {
    let path = place.pack_noop("").await;
    let metadata = format!(
        "{SIGNATURE}[runner.opts]\n{options}\n\
         [[self_test]]\nname = \"echo\"\ninputs = {{ x = \"@tensor_data/x\", s = \"@tensor_data/s\" }}\n"
    );
    let metadata = carton_core::metadata::Draft::parse(&metadata).unwrap();
    let pack = place.pack(place.path().join("model"), "noop", &path).metadata(metadata).check(false);
    pack.tensor("x", floats(2)).tensor("s", strings(2)).await.unwrap();
    path
}

#[tokio::test]
async fn a_self_test_that_gets_no_turn_says_nothing_about_the_model() {
    let place = TestPlace::new(RUNNER);
    let path = pack_with_a_self_test(&place, "max_concurrency = 1\ndelay_ms = 5000\nignore_cancel = true").await;
    let impatient = [
        (ErrorKind::Busy, place.load(&path).max_waiting_calls(0)),
        (ErrorKind::Timeout, place.load(&path).timeout(Duration::from_millis(200))),
    ];
    for (expected, load) in impatient {
        let model = load.await.unwrap();
        assert_eq!(model.max_concurrency(), 1);
        let other = model.infer([("x", floats(2)), ("s", strings(2))]).timeout(Duration::from_secs(60));
        let (other, error) = tokio::join!(other, async {
            tokio::time::sleep(Duration::from_millis(500)).await;
            model.self_test().await.unwrap_err()
        });
        other.unwrap();
        assert_eq!(error.kind(), expected, "{}", chain(&error));
    }
}

#[tokio::test]
async fn a_self_test_whose_call_fails_tells_the_kind_of_the_error() {
    let place = TestPlace::new(RUNNER);
    let path = pack_with_a_self_test(&place, "fail = \"no luck today\"").await;
    let model = place.load(&path).await.unwrap();
    assert_eq!(model.max_concurrency(), 64);
    let report = model.self_test().await.unwrap();
    let test = &report.self_tests[0];
    assert_eq!((test.outcome, test.kind), (SelfTestOutcome::Failed, Some(ErrorKind::Model)), "{report:?}");
    let json = serde_json::to_value(test).unwrap();
    assert!(json.get("error").is_some() && json.get("kind").is_none(), "{json}");
}

#[tokio::test]
async fn outputs_outlive_their_model() {
    let place = TestPlace::new(RUNNER);
    let model = noop(&place, "[runner.opts]\ncopy = true\n").await;
    let outputs = model.infer([("x", floats(100_000))]).await.unwrap();
    drop(model);
    tokio::time::sleep(Duration::from_millis(1500)).await;
    same(&outputs.as_tensors()["x"], &floats(100_000));
}

#[tokio::test]
async fn bare_models_and_unpacked_cartons_load() {
    let place = TestPlace::new(RUNNER);
    let path = place.pack_noop(SIGNATURE).await;
    let folder = place.path().join("unpacked");
    place.open(&path).await.unwrap().unpack(&folder).await.unwrap();
    let model = place.load(&folder).await.unwrap();
    same(&model.infer([("x", floats(2)), ("s", strings(2))]).await.unwrap().as_tensors()["x"], &floats(2));

    for bare in [folder.join("model"), folder.join("model/weights.bin")] {
        let version = "=1.0.0".parse().unwrap();
        let load = Carton::load_bare(bare, "noop").framework_version(version).config(place.config());
        let model = load.await.unwrap();
        assert!(model.infer(Inputs::none()).await.unwrap().is_empty());
    }
}

#[tokio::test]
async fn a_program_whose_main_returns_the_error_tells_it_to_people() {
    let place = TestPlace::new(RUNNER);
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

    let model = place.load(&carton).await.unwrap();
    let error = model.infer(Inputs::none()).await.unwrap_err();
    let told = program(&carton);
    assert_eq!(
        told,
        format!("Error: {}\n\nhint: {}\n", error.to_string().replace('\n', "\n    "), error.hint().unwrap())
    );
    assert!(told.contains("input `x`") && !told.contains("Violation"), "{told}");
}
