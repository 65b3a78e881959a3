//! The kinds of errors that callers of the public API get: a table of failures.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::path::Path;
use std::time::{Duration, Instant};

use carton_core::metadata::Draft;
use carton_core::packing::Compression;
use carton_core::shrink::LeaveOut;
use carton_core::{Carton, DataType, Error, ErrorKind, Inputs, NumericTensor, Tensor};
use carton_tests::place::TestPlace;

const RUNNER: &str = env!("CARGO_BIN_EXE_carton-test-runner");

const SIGNATURE: &str = "[[input]]\nname = 'x'\ndtype = 'float32'\nshape = ['n']\n\
                         [[output]]\nname = 'x'\ndtype = 'float32'\nshape = ['n']\n";

fn floats(n: usize) -> Tensor {
    NumericTensor::from_vec(vec![1.0_f32; n], vec![n]).unwrap().into()
}

/// The kind of error of each failure.
#[derive(Default)]
struct Table {
    wrong: Vec<String>,
}

impl Table {
    fn check<T>(&mut self, what: &str, expected: ErrorKind, result: Result<T, Error>) {
        match result {
            Ok(_) => self.wrong.push(format!("{what}: no error")),
            Err(error) if error.kind() != expected => {
                self.wrong.push(format!("{what}: expected {expected:?}, found {:?}: {error:?}", error.kind()));
            }
            Err(_) => {}
        }
    }
}

impl Drop for Table {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            assert!(self.wrong.is_empty(), "{}", self.wrong.join("\n"));
        }
    }
}

/// Loads a model of the runner that returns its inputs, with these options.
async fn noop(place: &TestPlace, options: &str) -> Carton {
    place.load(place.pack_noop(&format!("[runner.opts]\n{options}\n")).await).await.unwrap()
}

#[tokio::test]
async fn of_calls() {
    let (place, mut table) = (TestPlace::new(RUNNER), Table::default());
    let short = Duration::from_millis(200);

    let model = noop(&place, "fail = 'no luck today'").await;
    table.check("the model fails", ErrorKind::Model, model.infer(Inputs::none()).await);
    let model = noop(&place, "crash = true").await;
    table.check("the runner dies", ErrorKind::RunnerCrashed, model.infer(Inputs::none()).await);

    let model = noop(&place, "delay_ms = 60000\nmax_concurrency = 1").await;
    table.check("it takes too long", ErrorKind::Timeout, model.infer(Inputs::none()).timeout(short).await);
    let stream = model.infer(Inputs::none()).timeout(short).stream().await;
    table.check("a stream takes too long", ErrorKind::Timeout, stream.unwrap().next().await.unwrap());

    // One call may run and another one may wait.
    let load = place.load(place.path().join("noop.carton")).max_waiting_calls(1);
    let model = load.await.unwrap();
    let running = tokio::spawn({
        let model = model.clone();
        async move { model.infer(Inputs::none()).await }
    });
    tokio::time::sleep(short).await;
    table.check("it waits too long", ErrorKind::Timeout, model.infer(Inputs::none()).timeout(short).await);
    let waiting = model.infer(Inputs::none());
    let one_more = async {
        tokio::time::sleep(short).await;
        model.infer(Inputs::none()).await
    };
    tokio::select! {
        _ = waiting => panic!("it has no turn"),
        result = one_more => table.check("too many wait", ErrorKind::Busy, result),
    }
    assert!(!running.is_finished(), "a call that only waited killed the runner");
    running.abort();

    let model = place.load(place.pack_noop("").await).pool_bytes(1 << 20).pool_wait(short).await.unwrap();
    let held = model.alloc::<u8>(&[700_000]).await.unwrap();
    let start = Instant::now();
    table.check("the shared memory is full", ErrorKind::Busy, model.alloc::<u8>(&[700_000]).await);
    assert!(start.elapsed() < Duration::from_secs(20), "it waited for {:?}", start.elapsed());
    drop(held);
    table.check("strings have no size", ErrorKind::InvalidInput, model.alloc_dtype(DataType::String, &[1]).await);
    table.check("no names to give", ErrorKind::InvalidInput, model.infer(vec![floats(1)]).await);
    let model = place.load(place.pack_noop(SIGNATURE).await).await.unwrap();
    table.check("an input is missing", ErrorKind::InvalidInput, model.infer(Inputs::none()).await);
    let strings = Tensor::from_strings(vec![String::new()], vec![1]).unwrap();
    table.check("of another dtype", ErrorKind::InvalidInput, model.infer([("x", strings.clone())]).await);
    table.check("sealed, of another dtype", ErrorKind::InvalidInput, model.seal([("x", strings)]).await);
    model.infer([("x", floats(2))]).await.unwrap();

    let sealed = model.seal([("x", floats(2))]).await.unwrap();
    // A model of the same carton is another one, and so is one whose memory the sealed model had.
    let other = place.load(place.path().join("noop.carton")).await.unwrap();
    table.check("sealed for another model", ErrorKind::InvalidInput, other.infer(&sealed).await);
    table.check("a stream of them", ErrorKind::InvalidInput, other.infer(&sealed).stream().await);
    model.clone().infer(&sealed).await.unwrap();
    drop(model);
    let other = place.load(place.path().join("noop.carton")).await.unwrap();
    table.check("sealed for a model that is gone", ErrorKind::InvalidInput, other.infer(&sealed).await);
}

#[tokio::test]
async fn of_loads() {
    let (place, mut table) = (TestPlace::new(RUNNER), Table::default());
    let refused = place.pack_noop("[runner.opts]\nfail_load = 'not this one'\n").await;
    table.check("the runner refuses the model", ErrorKind::Model, place.load(&refused).await);
    let lacking = place.pack_noop("[runner.opts]\nunavailable = 'no library'\n").await;
    table.check("the runner lacks something", ErrorKind::NoRunner, place.load(&lacking).await);
    let carton = place.pack_noop(SIGNATURE).await;
    table.check("no such runner", ErrorKind::NoRunner, place.load(&carton).runner("absent").await);
    let newer = place.load(&carton).framework_version(">=7".parse().unwrap());
    table.check("no such version", ErrorKind::NoRunner, newer.await);
    table.check("no such device", ErrorKind::NoRunner, place.load(&carton).device("99").await);

    let other = "00".repeat(32).parse().unwrap();
    table.check("another carton", ErrorKind::Integrity, place.load(&carton).expect_hash(other).await);
    table.check("another carton, opened", ErrorKind::Integrity, place.open(&carton).expect_hash(other).await);
    let damaged = place.path().join("damaged.carton");
    // Stored, so that the bytes of the file can be found in the carton.
    let pack = place.pack(place.path().join("model"), "noop", &damaged).compression(Compression::Stored);
    pack.await.unwrap();
    let bytes = std::fs::read(&damaged).unwrap();
    let start = bytes.windows(10).position(|window| window == [7; 10]).unwrap();
    let mut changed = bytes.clone();
    changed[start] ^= 1;
    std::fs::write(&damaged, &changed).unwrap();
    table.check("a byte is another one", ErrorKind::Integrity, place.load(&damaged).await);
    let read = place.open(&damaged).await.unwrap().read_file("model/weights.bin", 1 << 20);
    table.check("a byte is another one, read", ErrorKind::Integrity, read);
    let unpacked = place.open(&damaged).await.unwrap().unpack(place.path().join("unpacked")).await;
    table.check("a byte is another one, unpacked", ErrorKind::Integrity, unpacked);
    std::fs::write(&damaged, &bytes[..bytes.len() / 2]).unwrap();
    table.check("half of it", ErrorKind::Integrity, place.open(&damaged).await);

    table.check("nobody listens", ErrorKind::Network, place.load("http://127.0.0.1:9/model.carton").await);
    let mut offline = place.config();
    offline.offline = true;
    let load = Carton::load("http://127.0.0.1:9/model.carton").config(offline);
    table.check("no network is allowed", ErrorKind::Network, load.await);

    table.check("no such file", ErrorKind::InvalidInput, place.load(place.path().join("absent.carton")).await);
    table.check("below a file", ErrorKind::InvalidInput, place.open(carton.join("absent.carton")).await);
    let mut below_a_file = place.config();
    below_a_file.cache_dir = carton.join("cache");
    table.check("no place for a cache", ErrorKind::Machine, Carton::load(&carton).config(below_a_file).await);
    table.check("no such scheme", ErrorKind::InvalidInput, place.load("gopher://host/model.carton").await);
    let package = place.open(&carton).await.unwrap();
    table.check("no such file in it", ErrorKind::InvalidInput, package.read_file("model/absent", 1));
    table.check("larger than was asked for", ErrorKind::InvalidInput, package.read_file("model/weights.bin", 1));
    let elsewhere = place.pack_noop("required_platforms = ['sparc-sun-solaris']\n").await;
    let later = place.path().join("later");
    std::fs::create_dir(&later).unwrap();
    std::fs::write(later.join("carton.toml"), "spec_version = 2\n").unwrap();
    table.check("of a later version of the format", ErrorKind::Unsupported, place.open(&later).await);
    table.check("for other platforms", ErrorKind::Unsupported, place.load(&elsewhere).await);
}

#[tokio::test]
async fn of_what_is_written() {
    let (place, mut table) = (TestPlace::new(RUNNER), Table::default());
    let carton = place.pack_noop("").await;
    let (model, output) = (place.path().join("model"), place.path().join("output.carton"));
    let pack = |output: &Path| place.pack(&model, "noop", output);
    table.check("nowhere to write", ErrorKind::Machine, pack(Path::new("/proc/no/such.carton")).await);
    let absent = place.pack(place.path().join("absent"), "noop", &output);
    table.check("no such model", ErrorKind::InvalidInput, absent.await);
    table.check("no such runner", ErrorKind::NoRunner, place.pack(&model, "absent", &output).await);
    let two = [SIGNATURE, SIGNATURE].concat();
    let metadata = Draft::parse(&two).unwrap();
    table.check("metadata that breaks a rule", ErrorKind::InvalidInput, pack(&output).metadata(metadata).await);
    let test = "[[self_test]]\ninputs = { x = '@tensor_data/x' }\nexpected_out = { x = '@tensor_data/y' }\n";
    let metadata = Draft::parse(&[SIGNATURE, test].concat()).unwrap();
    let failing = pack(&output).metadata(metadata).tensor("x", floats(1)).tensor("y", floats(2));
    table.check("a self-test fails", ErrorKind::SelfTest, failing.await);
    assert!(!output.exists(), "nothing is written");
    let shrink = |leave_out| Carton::shrink(&carton, &output, leave_out).config(place.config());
    table.check("no URL", ErrorKind::InvalidInput, shrink(LeaveOut::large("no url")).await);
    table.check("nothing is large", ErrorKind::InvalidInput, shrink(LeaveOut::large("https://host/files")).await);
    let onto_itself = Carton::resolve(&carton, &carton).config(place.config());
    table.check("onto itself", ErrorKind::InvalidInput, onto_itself.await);
}
