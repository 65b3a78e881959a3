//! Python models through the library and a real process of the python runner: streams, errors, logs, memory, and models that misbehave.
//! Models with their own packages are in `python_environments.rs`.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::io;
use std::sync::{Mutex, OnceLock};
use std::time::{Duration, Instant};

use carton_core::{Carton, Error, ErrorKind, Inputs};
use carton_tensor::{BoolByte, BytesTensor, Complex, DataType, NumericTensor, Tensor, bf16, f16};
use carton_tests::place::TestPlace;
use carton_tests::python_runner::{install, interpreter, load, pack};

const RUNNER: &str = env!("CARGO_BIN_EXE_carton-test-runner");
/// The time that an immediate answer may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// Makes a place with the python runner. Returns `None`, and prints the reason, if there is no Python.
fn place() -> Option<TestPlace> {
    let interpreter = interpreter()?;
    let place = TestPlace::new(RUNNER);
    install(&place, &interpreter);
    Some(place)
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

fn text(text: &str) -> Tensor {
    Tensor::from_strings([text], vec![]).unwrap()
}

fn value(outputs: &carton_core::Outputs, name: &str) -> f64 {
    let bytes = outputs.tensor(name).unwrap().as_numeric().unwrap().bytes();
    f64::from_le_bytes(bytes.try_into().unwrap())
}

fn bytes(tensor: &Tensor) -> &[u8] {
    tensor.as_numeric().unwrap().bytes()
}

const GENERATOR: &str = r#"
import numpy as np

def generate(prompt, n):
    words = str(prompt[()]).split()
    for index in range(int(n)):
        yield {"token": np.array(words[index % len(words)] + " \0🙂", dtype=object)}
"#;

#[tokio::test]
async fn a_text_generator_streams() {
    let Some(place) = place() else { return };
    let model = load(&place, GENERATOR, "generate", "").await;
    let inputs = || [("prompt", text("to be or not")), ("n", Tensor::scalar(1000_i64))];
    for _ in 0..2 {
        let mut stream = model.infer(inputs()).stream().await.unwrap();
        let mut n_items = 0;
        while let Some(outputs) = stream.next().await {
            let outputs = outputs.unwrap();
            let expected = format!("{} \0🙂", ["to", "be", "or", "not"][n_items % 4]);
            assert_eq!(outputs.as_tensors()["token"].as_string().unwrap().elements(), [expected]);
            n_items += 1;
        }
        assert_eq!(n_items, 1000);
    }
    // A stream that is dropped early does not block other calls.
    let endless = [("prompt", text("x")), ("n", Tensor::scalar(1_i64 << 40))];
    let mut stream = model.infer(endless).stream().await.unwrap();
    assert!(stream.next().await.unwrap().is_ok());
    drop(stream);
    // `infer` answers with the item of a stream that has exactly one, and fails for other streams.
    let outputs = model.infer([("prompt", text("x")), ("n", Tensor::scalar(1_i64))]).await.unwrap();
    assert_eq!(outputs.as_tensors()["token"].as_string().unwrap().elements(), ["x \0🙂"]);
    let error = model.infer(inputs()).await.unwrap_err();
    assert!(chain(&error).contains("stream of several items"), "{}", chain(&error));
}

#[tokio::test]
async fn an_exception_is_an_error_of_its_call_with_its_traceback() {
    let Some(place) = place() else { return };
    let source = "import json\n\ndef f(x):\n    try:\n        json.loads('{')\n    except ValueError as error:\n        \
                  raise RuntimeError('no model today') from error\n";
    let model = load(&place, source, "f", "").await;
    for _ in 0..2 {
        let error = model.infer([("x", Tensor::scalar(1.0_f32))]).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Model);
        let text = chain(&error);
        for expected in [
            "RuntimeError: no model today",
            "JSONDecodeError: Expecting property name",
            "Traceback (most recent call last)",
            "raise RuntimeError('no model today') from error",
            "json/decoder.py",
        ] {
            assert!(text.contains(expected), "expected `{expected}` in: {text}");
        }
        assert!(!text.contains("carton_runner"), "{text}");
    }
    let error = model.infer([("z", Tensor::scalar(1.0_f32))]).await.unwrap_err();
    assert!(chain(&error).contains("TypeError: f() got an unexpected keyword argument 'z'"), "{}", chain(&error));
}

#[tokio::test]
async fn a_model_that_cannot_be_loaded_says_why() {
    let Some(place) = place() else { return };
    for (source, option, expected) in [
        (
            "import nonsense_that_is_nowhere",
            None,
            "main.py, line 1: ModuleNotFoundError: No module named 'nonsense_that_is_nowhere'",
        ),
        ("def f(:", None, "SyntaxError"),
        ("", Some(("infer_fn", "f")), "the module `main` (main.py) has no function `f`"),
        ("", Some(("entrypoint_package", "x")), "the model has no module `x` (there are these: main.py)"),
    ] {
        let carton = pack(&place, source, "").await;
        let mut load = place.load(carton);
        if let Some((name, value)) = option {
            load = load.option(name, value);
        }
        let error = load.await.err().unwrap();
        assert!(chain(&error).contains(expected), "expected `{expected}` in: {}", chain(&error));
        assert_eq!(error.kind(), ErrorKind::Model);
        let hint = error.hint().unwrap_or_default();
        assert_eq!(hint.contains("a line `nonsense_that_is_nowhere`"), expected.contains("nonsense"), "{hint}");
    }
}

const MEMORY: &str = r#"
import numpy as np
import carton_runner

def echo(x):
    assert not x.flags.writeable
    return {"all": x, "part": x[1:], "address": np.uint64(x.__array_interface__["data"][0])}

def pooled(n):
    y = carton_runner.empty((int(n),), np.float32)
    y[:] = np.arange(int(n))
    return {"y": y}

kept = []

def keeps(n):
    if not kept:
        kept.append(carton_runner.empty((int(n),), np.float32))
    kept[0][:] = kept[0][0] + 1 if len(kept) > 1 else 0
    kept.append(None)
    return {"y": kept[0]}
"#;

#[tokio::test]
async fn large_tensors_are_not_copied() {
    let Some(place) = place() else { return };
    let model = load(&place, MEMORY, "echo", "").await;
    let mut x = model.alloc_dtype(DataType::Float32, &[25_000_000]).await.unwrap();
    x.bytes_mut().unwrap().fill(7);
    let x = Tensor::from(x);
    let mut addresses = Vec::new();
    for _ in 0..2 {
        let outputs = model.infer([("x", x.clone())]).await.unwrap();
        // The outputs are at the addresses of the inputs: neither side has copied them.
        assert_eq!(bytes(&outputs.as_tensors()["all"]).as_ptr(), bytes(&x).as_ptr());
        assert_eq!(bytes(&outputs.as_tensors()["part"]).as_ptr(), bytes(&x)[4..].as_ptr());
        addresses.push(bytes(&outputs.as_tensors()["address"]).to_vec());
    }
    // The runner has mapped the region once.
    assert_eq!(addresses[0], addresses[1]);
}

#[tokio::test]
async fn inputs_may_be_written_to_where_the_model_says_so() {
    let Some(place) = place() else { return };
    let source = "def f(x):\n    x *= 2\n    return {'y': x}\n";
    let carton = pack(&place, source, "").await;
    let x = Tensor::from(NumericTensor::from_vec(vec![1.5_f32; 100_000], vec![100_000]).unwrap());
    let load = async |writable: Option<bool>| {
        let writable = writable.map(|writable| ("writable_inputs".to_owned(), writable.into()));
        place.load(&carton).option("infer_fn", "f").options(writable).await.unwrap()
    };
    for writable in [None, Some(false)] {
        let error = load(writable).await.infer([("x", x.clone())]).await.unwrap_err();
        assert!(chain(&error).contains("read-only"), "{}", chain(&error));
        assert!(error.hint().unwrap_or_default().contains("`writable_inputs = true`"), "{:?}", error.hint());
    }
    let model = load(Some(true)).await;
    for _ in 0..2 {
        let outputs = model.infer([("x", x.clone())]).await.unwrap();
        assert_eq!(
            outputs.as_tensors()["y"],
            Tensor::from(NumericTensor::from_vec(vec![3.0_f32; 100_000], vec![100_000]).unwrap())
        );
    }
}

#[tokio::test]
async fn a_device_that_is_not_there_is_unavailable() {
    let Some(place) = place() else { return };
    let carton = pack(&place, "def f():\n    return {}\n", "").await;
    for device in ["foo", "99", "GPU-00000000"] {
        let error = place.load(&carton).option("infer_fn", "f").device(device).await.err().unwrap();
        assert_eq!(error.kind(), ErrorKind::NoRunner, "{}", chain(&error));
        assert!(chain(&error).contains(&format!("`{device}`")), "{}", chain(&error));
    }
}

#[tokio::test]
async fn arrays_in_the_pool_of_the_runner() {
    let Some(place) = place() else { return };
    let expected: Vec<u8> = (0..100_000).flat_map(|index| (index as f32).to_le_bytes()).collect();
    let model = load(&place, MEMORY, "pooled", "").await;
    let mut earlier = Vec::new();
    for _ in 0..20 {
        let outputs = model.infer([("n", Tensor::scalar(100_000_i64))]).await.unwrap();
        earlier.push(outputs);
    }
    // All outputs are held at the same time, and none was written to again.
    assert!(earlier.iter().all(|outputs| bytes(&outputs.as_tensors()["y"]) == expected));
    // A model that keeps its array, and writes to it again, does not change its earlier answers.
    let model = load(&place, MEMORY, "keeps", "").await;
    let mut answers = Vec::new();
    for _ in 0..5 {
        answers.push(model.infer([("n", Tensor::scalar(50_000_i64))]).await.unwrap());
    }
    for (index, outputs) in answers.iter().enumerate() {
        let first = f32::from_le_bytes(bytes(&outputs.as_tensors()["y"])[..4].try_into().unwrap());
        assert_eq!(first as usize, index);
    }
}

#[tokio::test]
async fn sealed_inputs_are_kept_by_the_runner() {
    let Some(place) = place() else { return };
    let model = load(&place, "def f(x):\n    return {'y': x.sum(dtype='f8')}\n", "f", "").await;
    let x = NumericTensor::from_vec(vec![0.5_f32; 100_000], vec![100_000]).unwrap();
    let sealed = model.seal([("x", Tensor::from(x))]).await.unwrap();
    for _ in 0..3 {
        assert_eq!(value(&model.infer(&sealed).await.unwrap(), "y"), 50_000.0);
    }
}

#[tokio::test]
async fn outputs_of_the_wrong_type_are_errors_of_their_call() {
    let Some(place) = place() else { return };
    let source = "import numpy as np\n\
        def f(kind):\n    return {'y': {'mixed': [1, 'a'], 'listed': [1.0, None], 'set': {1}, 'good': 1.0}[kind[()]]}\n";
    let model = load(&place, source, "f", "").await;
    for (kind, expected) in [
        ("mixed", "output `y` is a list of numbers that holds text: 'a'"),
        ("listed", "output `y` is a list that holds None"),
        ("set", "output `y` is a set, which is no tensor"),
        ("other", "KeyError: 'other'"),
    ] {
        let error = model.infer([("kind", text(kind))]).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Model);
        assert!(chain(&error).contains(expected), "expected `{expected}` in: {}", chain(&error));
        assert_eq!(value(&model.infer([("kind", text("good"))]).await.unwrap(), "y"), 1.0);
    }
}

fn bools<const N: usize>(elements: [u8; N]) -> Tensor {
    Tensor::from_vec(elements.map(BoolByte).to_vec(), vec![N]).unwrap()
}

/// NumPy's own results for the same arrays.
#[tokio::test]
async fn masks_are_booleans() {
    let Some(place) = place() else { return };
    let source = "def f(x, mask):\n    return {'y': x[mask], 'inverted': ~mask, 'type': mask.dtype.name}\n";
    let metadata = |dtype: &str| {
        format!(
            "input = [{{ name = 'x', dtype = 'float64', shape = ['n'] }}, {{ name = 'mask', dtype = '{dtype}', shape = ['n'] }}]\n\
             output = [{{ name = 'y', dtype = 'float64', shape = ['*'] }}, {{ name = 'inverted', dtype = '{dtype}', shape = ['n'] }}, \
             {{ name = 'type', dtype = 'string', shape = [] }}]\n"
        )
    };
    let x = Tensor::from_vec(vec![5.0_f64, -1.0, 7.0], vec![3]).unwrap();
    let plain = |elements: [u8; 3]| Tensor::from_vec(elements.to_vec(), vec![3]).unwrap();
    let call = async |model: &Carton, mask: Tensor| model.infer([("x", x.clone()), ("mask", mask)]).await;

    let model = load(&place, source, "f", &metadata("bool")).await;
    for mask in [bools([1, 0, 1]), plain([1, 0, 1])] {
        let outputs = call(&model, mask).await.unwrap();
        assert_eq!(outputs.as_tensors()["y"], Tensor::from_vec(vec![5.0_f64, 7.0], vec![2]).unwrap());
        assert_eq!(outputs.as_tensors()["inverted"], bools([0, 1, 0]));
        assert_eq!(outputs.as_tensors()["type"], text("bool"));
        // An output is a mask for another call.
        assert_eq!(
            call(&model, outputs.as_tensors()["inverted"].clone()).await.unwrap().as_tensors()["inverted"],
            bools([1, 0, 1])
        );
    }
    let error = call(&model, plain([1, 0, 2])).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    assert!(chain(&error).contains("[2]"), "{}", chain(&error));
    let sealed = model.seal([("x", x.clone()), ("mask", bools([0, 0, 1]))]).await.unwrap();
    let outputs = model.infer(&sealed).await.unwrap();
    assert_eq!(outputs.as_tensors()["y"], Tensor::from_vec(vec![7.0_f64], vec![1]).unwrap());

    // Where integers are declared, the model gets integers.
    let model = load(&place, source, "f", &metadata("uint8")).await;
    let outputs = call(&model, plain([1, 0, 1])).await.unwrap();
    assert_eq!(outputs.as_tensors()["type"], text("uint8"));
    assert_eq!(outputs.as_tensors()["inverted"], plain([254, 255, 254]));
}

/// Self-tests hold booleans as such.
#[tokio::test]
async fn masks_of_self_tests() {
    let Some(place) = place() else { return };
    let model = place.path().join("m.py");
    std::fs::write(&model, "def f(mask):\n    return {'y': ~mask}\n").unwrap();
    let file = std::fs::File::create(place.path().join("mask.npy")).unwrap();
    carton_tensor::npy::write(file, &bools([1, 0])).unwrap();
    let metadata = "input = [{ name = 'mask', dtype = 'bool', shape = ['n'] }]\n\
                    output = [{ name = 'y', dtype = 'bool', shape = ['n'] }]\n\
                    [[self_test]]\ninputs = { mask = 'mask.npy' }\n";
    let draft = carton_core::metadata::Draft::parse(metadata).unwrap();
    let output = place.path().join("m.carton");
    let pack = place.pack(&model, "python", &output).metadata(draft).metadata_folder(place.path());
    pack.option("infer_fn", "f").await.unwrap();
}

/// What the model gets and returns has the dtype that was passed: nothing is cast.
#[tokio::test]
async fn every_dtype_is_passed_as_it_is() {
    let Some(place) = place() else { return };
    let source = "def f(x):\n    return {'y': x, 'type': str(getattr(x, 'dtype', None)), 'list': [x, x]}\n";
    let model = load(&place, source, "f", "").await;
    let complex = Complex { re: 1.0_f32, im: f32::NEG_INFINITY };
    for (x, expected) in [
        (bools([1, 0]), "bool"),
        (Tensor::from_vec(vec![f16::from_f32(0.1), f16::NEG_INFINITY], vec![2]).unwrap(), "float16"),
        (Tensor::from_vec(vec![bf16::from_f32(0.1); 100_000], vec![100_000]).unwrap(), "bfloat16"),
        (Tensor::from_vec(vec![complex; 10_000], vec![10, 1000]).unwrap(), "complex64"),
        (Tensor::scalar(Complex { re: -0.0_f64, im: 1e300 }), "complex128"),
        (BytesTensor::new(vec![vec![0xFF, 0], vec![]], vec![2]).unwrap().into(), "object"),
    ] {
        let outputs = model.infer([("x", x.clone())]).await.unwrap();
        let outputs = outputs.as_tensors();
        assert_eq!(outputs["type"], text(expected));
        assert_eq!(outputs["y"], x, "{expected}");
        assert_eq!(outputs["list"].as_nested().unwrap().elements().len(), 2);
        assert_eq!(outputs["list"].dtype(), x.dtype());
    }
}

/// The names of spec/structured-values.md.
#[tokio::test]
async fn structured_values_have_leaves() {
    let Some(place) = place() else { return };
    let source = "import numpy as np\nfrom typing import NamedTuple\n\
        class State(NamedTuple):\n    h: np.ndarray\n    c: np.ndarray\n\
        def f(x, state: State):\n    \
            return {'y': x + state.h, 'state': State(state.h + 1, state.c), 'found': [{'row': row, 'at': (i, None)} for i, row in enumerate(x)]}\n";
    let model = load(&place, source, "f", "").await;
    let rows = |rows: &[f64]| Tensor::from_vec(rows.to_vec(), vec![rows.len()]).unwrap();
    let inputs = [("x", rows(&[1.0, 2.0])), ("state.h", rows(&[3.0, 4.0])), ("state.c", Tensor::scalar(5.0_f64))];
    let outputs = model.infer(inputs).await.unwrap();
    let outputs = outputs.as_tensors();
    let names: Vec<_> = outputs.keys().map(String::as_str).collect();
    assert_eq!(names, ["found[].at.0", "found[].row", "state.c", "state.h", "y"]);
    assert_eq!(outputs["y"], rows(&[4.0, 6.0]));
    assert_eq!(outputs["state.h"], rows(&[4.0, 5.0]));
    assert_eq!(outputs["state.c"], Tensor::scalar(5.0_f64));
    assert_eq!(outputs["found[].at.0"], Tensor::nested(vec![Tensor::scalar(0_i64), Tensor::scalar(1_i64)]).unwrap());
    let error = model.infer([("x", rows(&[1.0])), ("state.h", rows(&[1.0]))]).await.unwrap_err();
    assert!(chain(&error).contains("input `state.c` is missing, and State needs it"), "{}", chain(&error));
}

const MISBEHAVING: &str = r#"
import ctypes
import os
import resource
import signal
import sys
import time

import numpy as np

def f(trouble):
    trouble = trouble[()]
    if trouble == "fork":
        # The child returns from the call too.
        if os.fork() == 0:
            return {"y": 666.0}
        os.wait()
    elif trouble == "fork and stay":
        if os.fork() == 0:
            time.sleep(1000)
    elif trouble == "binary":
        os.write(1, bytes(range(256)) * 5000)
        os.write(2, b"\xff" * 100000)
        sys.stdout.buffer.write(b"\x80\n")
    elif trouble == "close descriptors":
        os.closerange(3, 256)
    elif trouble == "close all descriptors":
        os.closerange(0, 65536)
    elif trouble == "block":
        time.sleep(1000)
    elif trouble == "spin":
        while True:
            pass
    elif trouble == "exit":
        print("I have had enough", file=sys.stderr)
        sys.exit(3)
    elif trouble == "segfault":
        ctypes.string_at(0)
    elif trouble == "out of memory":
        # The kernel does this when there is no memory left.
        os.kill(os.getpid(), signal.SIGKILL)
    elif trouble == "no more memory":
        resource.setrlimit(resource.RLIMIT_AS, (1 << 31, 1 << 31))
        np.ones(1 << 40, dtype=np.uint8)
    return {"y": 1.0}
"#;

async fn good(model: &Carton) {
    match model.infer([("trouble", text("none"))]).await {
        Ok(outputs) => assert_eq!(value(&outputs, "y"), 1.0),
        Err(error) => panic!("{}", chain(&error)),
    }
}

#[tokio::test]
async fn a_misbehaving_model_answers_all_the_same() {
    let Some(place) = place() else { return };
    let model = load(&place, MISBEHAVING, "f", "").await;
    for trouble in ["fork", "fork and stay", "binary", "close descriptors"] {
        for _ in 0..2 {
            let outputs = model.infer([("trouble", text(trouble))]).await.unwrap();
            assert_eq!(value(&outputs, "y"), 1.0, "{trouble}");
        }
        good(&model).await;
    }
    let error = model.infer([("trouble", text("no more memory"))]).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Model, "{}", chain(&error));
    assert!(chain(&error).contains("MemoryError"), "{}", chain(&error));
    good(&model).await;
}

#[tokio::test]
async fn a_model_that_ends_its_process_is_a_crash() {
    let Some(place) = place() else { return };
    let model = load(&place, MISBEHAVING, "f", "").await;
    for (trouble, expected) in [
        ("exit", "I have had enough"),
        ("exit", "exit status: 3"),
        ("segfault", "killed by signal 11"),
        ("out of memory", "killed by signal 9"),
        ("close all descriptors", ""),
    ] {
        good(&model).await;
        let start = Instant::now();
        let error = model.infer([("trouble", text(trouble))]).await.unwrap_err();
        assert!(start.elapsed() < PATIENCE, "{trouble}: {:?}", start.elapsed());
        assert_eq!(error.kind(), ErrorKind::RunnerCrashed, "{trouble}: {}", chain(&error));
        let text = chain(&error).replace("exit status 3", "exit status: 3");
        assert!(text.contains(expected), "expected `{expected}` in: {text}");
    }
    good(&model).await;
}

#[tokio::test]
async fn a_model_that_blocks_for_ever_ends_at_its_timeout() {
    let Some(place) = place() else { return };
    let model = load(&place, MISBEHAVING, "f", "").await;
    for trouble in ["block", "spin"] {
        good(&model).await;
        let start = Instant::now();
        let call = model.infer([("trouble", text(trouble))]).timeout(Duration::from_millis(300));
        let error = call.await.unwrap_err();
        assert!(error.kind() == ErrorKind::Timeout && error.is_runner_lost(), "{}", chain(&error));
        assert!(start.elapsed() < PATIENCE, "{:?}", start.elapsed());
    }
    good(&model).await;
}

#[tokio::test]
async fn what_a_model_prints_becomes_log_records() {
    let Some(place) = place() else { return };
    start_log();
    let source = "import sys\n\
        def f():\n    print('a line of the model é')\n    print('to standard error \\ud800', file=sys.stderr)\n    \
        print('without an end', end='')\n    return {}\n";
    let carton = pack(&place, source, "").await;
    let model = place.load(carton).option("infer_fn", "f").option("nonsense", 1).await.unwrap();
    model.infer(Inputs::none()).await.unwrap();
    drop(model);
    let expected =
        ["a line of the model é", "to standard error \\ud800", "without an end", "unknown option `nonsense`"];
    let start = Instant::now();
    loop {
        let log = String::from_utf8_lossy(&LOG.lock().unwrap()).into_owned();
        if expected.iter().all(|line| log.contains(line)) {
            return;
        }
        assert!(start.elapsed() < PATIENCE, "{log}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

static LOG: Mutex<Vec<u8>> = Mutex::new(Vec::new());

fn start_log() {
    static STARTED: OnceLock<()> = OnceLock::new();
    STARTED.get_or_init(|| {
        let subscriber = tracing_subscriber::fmt()
            .with_env_filter("carton::runner=info")
            .with_ansi(false)
            .with_writer(|| Keep)
            .finish();
        tracing::subscriber::set_global_default(subscriber).unwrap();
    });
}

struct Keep;

impl io::Write for Keep {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        LOG.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
