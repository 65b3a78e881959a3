//! The costs of a call of a Python model through Carton, beside the same function called directly inside one Python process: an empty
//! function, some NumPy, and an input of 100 MB. Both are measured alternately, on one thread, and the direct calls by Python itself. The
//! goal is at most 50 us or 2 % over the direct call, whichever is larger.
//!
//! Needs `CARTON_TEST_PYTHON`, a Python with NumPy (scripts/test makes one).

#![allow(clippy::unwrap_used, missing_docs)]

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use carton_core::runner::LaunchPolicy;
use carton_core::{Carton, Inputs, Tensors};
use carton_tensor::{DataType, NumericTensor, Tensor};
use carton_tests::place::TestPlace;
use carton_tests::python_runner::{install, interpreter, pack};

const RUNNER: &str = env!("CARGO_BIN_EXE_carton-test-runner");

/// The model, which the direct calls import too.
const MODEL: &str = r#"
import numpy as np

try:
    import carton_runner
except ImportError:
    carton_runner = np

WEIGHTS = np.random.default_rng(7).standard_normal((256, 256), dtype=np.float32)

def empty():
    return {}

def small(x):
    return {"y": x}

def medium(x):
    for _ in range(4):
        x = np.tanh(x @ WEIGHTS)
    return {"y": x}

def large_in(x):
    return {"y": x[::4096].sum()}

def large_touched(x):
    return {"y": x.sum()}

def large_out(n):
    # An output of 100 MB, written once in either case.
    y = carton_runner.empty(int(n), np.float32)
    y.fill(1)
    return {"y": y}
"#;

/// Limits BLAS to one thread: a second one would spin on the other core, which the caller needs. Read when NumPy is imported.
const ONE_THREAD: (&str, &str) = ("OPENBLAS_NUM_THREADS", "1");

/// Times calls inside one Python process: reads a line with the number of calls, and prints the durations in nanoseconds.
const DIRECT: &str = r#"
import sys, time
import main
import numpy as np

inputs = {
    "empty": {},
    "small": {"x": np.ones(16, np.float32)},
    "medium": {"x": np.ones((64, 256), np.float32)},
    "large_in": {"x": np.ones(25_000_000, np.float32)},
    "large_touched": {"x": np.ones(25_000_000, np.float32)},
    "large_out": {"n": np.array(25_000_000)},
}[sys.argv[1]]
function = getattr(main, sys.argv[1])
clock = time.perf_counter_ns
for line in sys.stdin:
    times = []
    for _ in range(int(line)):
        start = clock()
        function(**inputs)
        times.append(clock() - start)
    print(*times, flush=True)
"#;

fn main() {
    let Some(python) = interpreter() else { return };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let place = TestPlace::new(RUNNER);
        install(&place, &python);
        let noop = place.load(place.pack_noop("").await).await.unwrap();
        let mut times = Times::default();
        for _ in 0..20 {
            for _ in 0..100 {
                times.ours.push(timed(&noop, &Tensors::new()).await);
            }
        }
        println!("noop runner, no inputs: {:?}", median(&mut times.ours));
        for (function, n_turns, n_calls) in [
            ("empty", 20, 200),
            ("small", 20, 200),
            ("medium", 20, 50),
            ("large_in", 10, 10),
            ("large_touched", 10, 5),
            ("large_out", 10, 5),
        ] {
            compare(&place, &python, function, n_turns, n_calls).await;
        }
    });
}

#[derive(Default)]
struct Times {
    ours: Vec<Duration>,
    direct: Vec<Duration>,
}

async fn compare(place: &TestPlace, python: &std::path::Path, function: &str, n_turns: usize, n_calls: usize) {
    let variables = [(ONE_THREAD.0.to_owned(), ONE_THREAD.1.to_owned())];
    let policy = LaunchPolicy::default().with_variables(variables);
    let load = place.load(pack(place, MODEL, "").await).option("infer_fn", function).policy(policy);
    let carton = load.await.unwrap();
    let inputs = inputs(&carton, function).await;
    let mut direct = Direct::start(place, python, function);
    let mut times = Times::default();
    for turn in 0..=n_turns {
        let (mut ours, theirs) = (Vec::new(), direct.calls(n_calls));
        for _ in 0..n_calls {
            ours.push(timed(&carton, &inputs).await);
        }
        // The first turn warms everything up.
        if turn > 0 {
            times.ours.extend(ours);
            times.direct.extend(theirs);
        }
    }
    let (ours, theirs) = (median(&mut times.ours), median(&mut times.direct));
    let over = ours.saturating_sub(theirs);
    let percent = 100.0 * over.as_secs_f64() / theirs.as_secs_f64().max(1e-9);
    let is_within = over <= Duration::from_micros(50).max(theirs / 50);
    let verdict = if is_within { "within" } else { "MISSES" };
    println!("{function}: {ours:?}, directly {theirs:?}: {over:?} more ({percent:.1} %, {verdict})");
}

async fn inputs(carton: &Carton, function: &str) -> Tensors {
    let filled = |mut tensor: NumericTensor| {
        let ones = 1.0_f32.to_le_bytes();
        tensor.bytes_mut().unwrap().chunks_exact_mut(4).for_each(|bytes| bytes.copy_from_slice(&ones));
        Tensors::from([("x".to_owned(), Tensor::from(tensor))])
    };
    let floats = async |shape: &[usize]| filled(carton.alloc_dtype(DataType::Float32, shape).await.unwrap());
    match function {
        "empty" => Tensors::new(),
        "small" => floats(&[16]).await,
        "medium" => floats(&[64, 256]).await,
        "large_out" => Tensors::from([("n".to_owned(), Tensor::scalar(25_000_000_i64))]),
        _ => floats(&[25_000_000]).await,
    }
}

async fn timed(carton: &Carton, inputs: &Tensors) -> Duration {
    let inputs: Inputs = inputs.clone().into();
    let start = Instant::now();
    let outputs = carton.infer(inputs).await.unwrap();
    let elapsed = start.elapsed();
    drop(outputs);
    elapsed
}

/// A Python process that calls the function itself.
struct Direct {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Direct {
    fn start(place: &TestPlace, python: &std::path::Path, function: &str) -> Self {
        let mut child = Command::new(python)
            .args(["-c", DIRECT, function])
            .env(ONE_THREAD.0, ONE_THREAD.1)
            .current_dir(place.path().join("python-model"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (input, output) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        Self { child, input, output }
    }

    fn calls(&mut self, n_calls: usize) -> Vec<Duration> {
        writeln!(self.input, "{n_calls}").unwrap();
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        line.split_whitespace().map(|time| Duration::from_nanos(time.parse().unwrap())).collect()
    }
}

impl Drop for Direct {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn median(times: &mut [Duration]) -> Duration {
    times.sort();
    times[times.len() / 2]
}
