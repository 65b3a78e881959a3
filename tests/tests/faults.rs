//! Runners that misbehave in every way, as real processes. After each of them the host keeps working, and within two seconds it
//! has the same descendants, descriptors and maps as before.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

use carton_core::sandbox::SandboxMode;
use carton_core::{Carton, Error, ErrorKind, Inputs, Load, block_on};
use carton_tensor::{NumericTensor, StringTensor, Tensor};
use carton_tests::census::Census;
use carton_tests::place::TestPlace;

const RUNNER: &str = env!("CARGO_BIN_EXE_carton-test-runner");
const PLAIN_RUNNER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/python/plain_runner.py");

/// A census counts the whole process, so only one test may run at a time.
static ALONE: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

fn python() -> String {
    std::env::var("CARTON_TEST_PYTHON").unwrap_or_else(|_| "python3".to_owned())
}

/// Makes a place where `plain` is the runner written in Python, in `mode`.
fn place(mode: &str) -> TestPlace {
    let place = TestPlace::new(RUNNER);
    std::fs::create_dir_all(place.config().runner_dir.join("plain")).unwrap();
    replace_runner(&place, "", mode);
    place.describe("plain", &[], "directory");
    place
}

/// Makes `plain` the runner written in Python, in `mode`, after a command of the shell. Each start of it is counted.
fn replace_runner(place: &TestPlace, before: &str, mode: &str) {
    let _ = std::fs::remove_file(place.starts());
    let script = format!("#!/bin/sh\n{before}\nexec {} {PLAIN_RUNNER} {mode}\n", python());
    write_executable(&place.config().runner_dir.join("plain/run"), &script);
}

/// How often the runner was started since it was replaced.
fn n_starts(place: &TestPlace) -> usize {
    std::fs::read_to_string(place.starts()).unwrap().lines().count()
}

/// Writes a file and renames it. A child that is being forked may still have the file open for writing, and such a file cannot be
/// executed.
fn write_executable(path: &std::path::Path, text: &str) {
    let unfinished = path.with_extension("new");
    std::fs::write(&unfinished, text).unwrap();
    std::fs::set_permissions(&unfinished, std::fs::Permissions::from_mode(0o755)).unwrap();
    std::fs::rename(&unfinished, path).unwrap();
}

/// Loads with the runner written in Python.
fn load(place: &TestPlace, carton: &std::path::Path) -> Load {
    place.load(carton).config(place.counting_config()).runner("plain").framework_version("=1.0.0".parse().unwrap())
}

/// The time in which a fault must be reported on a busy machine. An operation that takes longer hangs.
const PATIENCE: Duration = Duration::from_secs(20);

fn tensor() -> Tensor {
    NumericTensor::from_vec(vec![1.0_f32, 2.0, 3.0], vec![3]).unwrap().into()
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

/// Takes a census. Loads a good model first, so that everything that the runtime keeps exists before.
async fn census(place: &TestPlace, carton: &std::path::Path) -> Census {
    let good = place.load(carton).await.unwrap();
    good.infer([("x", tensor())]).await.unwrap();
    drop(good);
    Census::at_rest()
}

/// Checks that the load fails in time with an error that contains `expected`, and leaves nothing behind.
async fn check_load(mode: &str, expected: &[&str]) {
    let _alone = ALONE.lock().await;
    let place = place(mode);
    let carton = place.pack_noop("").await;
    let before = census(&place, &carton).await;
    let start = Instant::now();
    // The wait for a runner that hangs is short; all others get enough time to start.
    let start_timeout =
        if ["never-hello", "stopped-at-start"].contains(&mode) { Duration::from_secs(1) } else { PATIENCE * 2 };
    let error = load(&place, &carton).start_timeout(start_timeout).await.unwrap_err();
    assert!(start.elapsed() < PATIENCE, "{mode} took {:?}", start.elapsed());
    assert_eq!(error.kind(), ErrorKind::RunnerCrashed, "{mode}: {}", chain(&error));
    for expected in expected {
        assert!(chain(&error).contains(expected), "{mode}: {}", chain(&error));
    }
    before.assert_restored();
}

/// Checks that the call fails in time with an error that contains `expected`, that a later call gets a fresh runner, and that nothing
/// is left behind.
async fn check_infer(mode: &str, expected: &[&str]) {
    let _alone = ALONE.lock().await;
    let place = place(mode);
    let carton = place.pack_noop("").await;
    let before = census(&place, &carton).await;
    let model = load(&place, &carton).await.unwrap_or_else(|error| panic!("{mode}: {}", chain(&error)));
    for _ in 0..2 {
        let start = Instant::now();
        let error = model.infer([("x", tensor())]).await.unwrap_err();
        assert!(start.elapsed() < PATIENCE, "{mode} took {:?}", start.elapsed());
        assert_eq!(error.kind(), ErrorKind::RunnerCrashed, "{mode}: {}", chain(&error));
        for expected in expected {
            assert!(chain(&error).contains(expected), "{mode}: {}", chain(&error));
        }
    }
    model.ping().await.unwrap();
    drop(model);
    before.assert_restored();
}

#[tokio::test]
async fn a_plain_runner_without_shared_memory_works() {
    let _alone = ALONE.lock().await;
    let place = place("echo");
    let carton = place.pack_noop("").await;
    let before = census(&place, &carton).await;
    place.describe("plain", &[], "ranges");
    // Files that are not passed as descriptors are named by paths in /proc, which a confined process cannot open.
    load(&place, &carton)
        .sandbox(SandboxMode::Off)
        .await
        .unwrap_or_else(|error| panic!("from ranges: {}", chain(&error)));
    place.describe("plain", &[], "directory");
    let model = load(&place, &carton).await.unwrap();
    let strings = StringTensor::new(vec!["a\0b".to_owned(), String::new(), "🙂".to_owned()], vec![3]).unwrap();
    let large = NumericTensor::from_vec((0..1_000_000_i64).collect(), vec![1000, 1000]).unwrap();
    let inputs = [("x", tensor()), ("s", strings.clone().into()), ("large", large.clone().into())];
    let outputs = model.infer(inputs).await.unwrap();
    assert_eq!(outputs.as_tensors()["s"].as_string().unwrap(), &strings);
    assert_eq!(
        outputs.as_tensors()["large"].as_numeric().unwrap().as_slice::<i64>().unwrap(),
        large.as_slice::<i64>().unwrap()
    );
    let error = model.seal([("x", tensor())]).await.unwrap_err();
    assert!(chain(&error).contains("no seal here"), "{}", chain(&error));
    model.infer(Inputs::none()).await.unwrap();
    drop((model, outputs));
    before.assert_restored();
}

#[tokio::test]
async fn runners_that_do_not_start() {
    check_load("exit-at-start", &["exit status 3", "cannot find my framework"]).await;
    check_load("never-hello", &["it hangs: it did not say hello, and for 1s it neither ran"]).await;
    check_load("stopped-at-start", &["it hangs"]).await;
    check_load("fork-at-start", &["exit status 4"]).await;
    check_load("garbage-at-start", &["protocol"]).await;
    check_load("old-version", &["version"]).await;
}

#[tokio::test]
async fn a_runner_that_starts_slowly_is_waited_for_while_it_computes() {
    let _alone = ALONE.lock().await;
    let place = place("slow-at-start");
    let carton = place.pack_noop("").await;
    let start = Instant::now();
    let model = load(&place, &carton).start_timeout(Duration::from_secs(1)).await;
    let model = model.unwrap_or_else(|error| panic!("{}", chain(&error)));
    assert!(start.elapsed() > Duration::from_secs(3));
    model.ping().await.unwrap();
}

#[tokio::test]
async fn runners_that_die_or_lie_during_a_call() {
    check_infer("exit-in-infer", &["exit status 7", "I am leaving"]).await;
    check_infer("fork-in-infer", &["exit status 9"]).await;
    check_infer("close-in-infer", &["connection"]).await;
    check_infer("half-frame", &["exit status 0"]).await;
    for mode in
        ["garbage", "huge-frame", "bad-json", "unknown-id", "bad-region", "overflowing-shape", "outside-the-frame"]
    {
        check_infer(mode, &["protocol"]).await;
    }
}

#[tokio::test]
async fn a_runner_that_hangs_while_it_loads_is_killed_in_time() {
    let _alone = ALONE.lock().await;
    let place = place("block-in-load");
    let carton = place.pack_noop("").await;
    let before = census(&place, &carton).await;
    let start = Instant::now();
    let error = load(&place, &carton).load_timeout(Duration::from_millis(300)).await.unwrap_err();
    assert!(start.elapsed() < PATIENCE, "{:?}", start.elapsed());
    assert_eq!(error.kind(), ErrorKind::Timeout, "{}", chain(&error));
    assert_eq!(error.to_string(), "loading the model ran out of time; runner plain 1.0.0 was killed");
    before.assert_restored();
}

/// The answer and the end of the time are noticed together, because something else keeps the thread busy.
#[tokio::test]
async fn a_load_that_ends_after_its_deadline_is_a_timeout() {
    let _alone = ALONE.lock().await;
    let place = place("echo");
    let carton = place.pack_noop("").await;
    let before = census(&place, &carton).await;
    let busy = tokio::spawn(async {
        loop {
            std::thread::sleep(Duration::from_millis(200));
            tokio::task::yield_now().await;
        }
    });
    let error = load(&place, &carton).load_timeout(Duration::from_micros(1)).await.unwrap_err();
    busy.abort();
    assert_eq!(error.kind(), ErrorKind::Timeout, "{}", chain(&error));
    before.assert_restored();
}

/// Loads a model whose runner dies in its first call, and lets it die.
async fn load_and_crash(place: &TestPlace) -> Carton {
    let carton = place.pack_noop("").await;
    let model = load(place, &carton).start_timeout(PATIENCE * 2).await.unwrap();
    let error = model.infer([("x", tensor())]).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::RunnerCrashed, "{}", chain(&error));
    model
}

#[test]
fn a_fresh_runner_starts_although_every_call_gives_up_before_it_is_there() {
    let _alone = ALONE.blocking_lock();
    let place = place("exit-in-infer");
    // Every `block_on` has a runtime of its own, which ends with the call.
    let model = block_on(async { Ok::<_, Error>(load_and_crash(&place).await) }).unwrap();
    replace_runner(&place, "sleep 3", "echo");
    let start = Instant::now();
    let impatient = Duration::from_millis(200);
    let error = block_on(model.infer([("x", tensor())]).timeout(impatient)).unwrap_err();
    assert!(error.kind() == ErrorKind::Timeout && !error.is_runner_lost(), "{}", chain(&error));
    assert!(start.elapsed() < Duration::from_secs(3), "the call waited for the fresh runner: {:?}", start.elapsed());
    loop {
        let call = async { Ok::<_, Error>(tokio::time::timeout(impatient, model.infer([("x", tensor())])).await) };
        if let Ok(answer) = block_on(call).unwrap() {
            answer.unwrap();
            break;
        }
        assert!(start.elapsed() < PATIENCE, "there is still no runner");
    }
    assert_eq!(n_starts(&place), 1);
}

#[tokio::test]
async fn calls_that_wait_for_a_fresh_runner_share_its_failure() {
    let _alone = ALONE.lock().await;
    let place = place("exit-in-infer");
    let model = load_and_crash(&place).await;
    replace_runner(&place, "sleep 1; exit 5", "echo");
    let call = || async { model.infer([("x", tensor())]).await.unwrap_err() };
    let (first, second, third, fourth) = tokio::join!(call(), call(), call(), async {
        match model.alloc::<f32>(&[3]).await {
            Ok(_) => panic!("there is no runner to share memory with"),
            Err(error) => error,
        }
    });
    for error in [first, second, third, fourth] {
        assert_eq!(error.kind(), ErrorKind::RunnerCrashed, "{}", chain(&error));
        assert!(chain(&error).contains("exit status 5"), "{}", chain(&error));
    }
    assert_eq!(n_starts(&place), 1);
    // The next call tries again.
    replace_runner(&place, "", "echo");
    model.infer([("x", tensor())]).await.unwrap();
}

#[tokio::test]
async fn nothing_is_left_of_a_model_that_is_dropped_while_a_fresh_runner_starts() {
    let _alone = ALONE.lock().await;
    let place = place("exit-in-infer");
    let carton = place.pack_noop("").await;
    let before = census(&place, &carton).await;
    let model = load_and_crash(&place).await;
    replace_runner(&place, "", "never-hello");
    let error = model.infer([("x", tensor())]).timeout(Duration::from_millis(500)).await.unwrap_err();
    assert!(error.kind() == ErrorKind::Timeout && !error.is_runner_lost(), "{}", chain(&error));
    assert_eq!(n_starts(&place), 1);
    drop(model);
    before.assert_restored();
}

#[tokio::test]
async fn noise_on_the_output_is_harmless() {
    let _alone = ALONE.lock().await;
    let place = place("stdout-noise");
    let carton = place.pack_noop("").await;
    let model = load(&place, &carton).await.unwrap();
    model.infer([("x", tensor())]).await.unwrap();
}

#[tokio::test]
async fn a_runner_that_ignores_cancel_is_only_killed_by_a_timeout() {
    let _alone = ALONE.lock().await;
    let place = place("block");
    let carton = place.pack_noop("").await;
    let before = census(&place, &carton).await;
    let model = load(&place, &carton).await.unwrap();
    let dropped = tokio::time::timeout(Duration::from_millis(100), model.infer([("x", tensor())])).await;
    assert!(dropped.is_err());
    let error = model.infer([("x", tensor())]).timeout(Duration::from_millis(300)).await.unwrap_err();
    assert!(error.kind() == ErrorKind::Timeout, "{}", chain(&error));
    drop(model);
    before.assert_restored();
}

#[tokio::test]
async fn runners_that_cannot_be_executed() {
    let _alone = ALONE.lock().await;
    let place = place("echo");
    let carton = place.pack_noop("").await;
    let executable = place.config().runner_dir.join("plain/run");
    let check = |error: Error| {
        assert_eq!(error.kind(), ErrorKind::RunnerCrashed, "{}", chain(&error));
        assert!(chain(&error).contains("plain/run"), "{}", chain(&error));
    };
    std::fs::set_permissions(&executable, std::fs::Permissions::from_mode(0o644)).unwrap();
    check(load(&place, &carton).await.unwrap_err());
    std::fs::remove_file(&executable).unwrap();
    check(load(&place, &carton).await.unwrap_err());
}

#[tokio::test]
async fn nothing_is_left_of_a_dropped_model() {
    let _alone = ALONE.lock().await;
    let place = TestPlace::new(RUNNER);
    let carton = place.pack_noop("").await;
    let before = census(&place, &carton).await;
    for _ in 0..3 {
        let model = place.load(&carton).await.unwrap();
        let input = model.alloc::<f32>(&[1 << 20]).await.unwrap();
        let outputs = model.infer([("x", input)]).await.unwrap();
        drop((model, outputs));
    }
    before.assert_restored();
}
