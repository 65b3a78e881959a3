//! The costs of a call of an ONNX model through Carton and a runner process, beside ONNX Runtime called directly in this
//! process: alternately in one run, on one thread each. A convolutional net at batch 1 and 32; a model that reads one element
//! of an input of 100 MB, so that a copy of it would be visible; and a model whose output has 100 MB.
//!
//! ONNX Runtime is the library that `CARTON_TEST_ONNXRUNTIME` names. The goal is at most 50 us or 2 % over the direct call, whichever is larger.

#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use carton_core::runner::LaunchPolicy;
use carton_tensor::{NumericTensor, Tensor};
use carton_tests::place::TestPlace;

const RUNNER: &str = env!("CARGO_BIN_EXE_carton-test-runner");
const MODELS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../runners/onnx/tests/real");

/// Calls of one kind that follow each other, as they do in use.
const IN_A_ROW: usize = 10;
/// Calls at the start of each such row that are not measured: they find cold caches, and at first untouched memory.
const WARM_UP: usize = 2;

/// Elements of 100 MB.
const LARGE: usize = 25_000_000;

/// A model, the shape of its input, and how often it is called.
const CASES: [(&str, &[usize], usize); 4] = [
    ("convnet.onnx", &[1, 3, 96, 96], 300),
    ("convnet.onnx", &[32, 3, 96, 96], 20),
    ("first.onnx", &[LARGE], 150),
    ("negative.onnx", &[LARGE], 30),
];

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    runtime.block_on(async {
        let Some(library) = std::env::var_os("CARTON_TEST_ONNXRUNTIME").map(PathBuf::from) else {
            eprintln!("skipped: CARTON_TEST_ONNXRUNTIME does not name a library of ONNX Runtime");
            return;
        };
        // A process has only one environment.
        let environment = ort::init_from(&library).unwrap().with_telemetry(false).build().unwrap();
        for (model, shape, n_calls) in CASES {
            let path = Path::new(MODELS).join(model);
            measure(&library, Direct::load(&path, &environment), &path, shape, n_calls).await;
        }
    });
}

async fn measure(library: &Path, mut direct: Direct, path: &Path, shape: &[usize], n_calls: usize) {
    let place = TestPlace::new(RUNNER);
    let carton = place.path().join("model.carton");
    place.pack(path, "onnx", &carton).await.unwrap();
    let variables = vec![("ORT_DYLIB_PATH".to_owned(), library.to_string_lossy().into_owned())];
    let policy = LaunchPolicy::default().with_variables(variables);
    let model = place.load(&carton).option("num_threads", 1).policy(policy).await.unwrap();

    let elements: Vec<f32> = (0..shape.iter().product()).map(|index: usize| (index % 251) as f32 / 251.0).collect();
    let mut x = model.alloc::<f32>(shape).await.unwrap();
    x.as_mut_slice::<f32>().unwrap().unwrap().copy_from_slice(&elements);
    let x = Tensor::from(x);
    let (mut ours, mut bound) = (Vec::new(), Vec::new());
    for _ in 0..n_calls.div_ceil(IN_A_ROW) {
        let (mut found, mut expected) = (0.0, 0.0);
        for call in 0..IN_A_ROW + WARM_UP {
            let start = Instant::now();
            let outputs = model.infer([("x", x.clone())]).await.unwrap();
            found = digest(outputs.as_tensors()["y"].as_numeric().unwrap());
            ours.extend((call >= WARM_UP).then(|| start.elapsed()));
            drop(outputs);
        }
        for call in 0..IN_A_ROW + WARM_UP {
            let start = Instant::now();
            expected = direct.run(shape, &elements);
            bound.extend((call >= WARM_UP).then(|| start.elapsed()));
        }
        assert!((found - expected).abs() <= 1e-3 * expected.abs().max(1.0), "{found} {expected}");
    }
    let name = path.file_name().unwrap().to_string_lossy();
    report(&format!("{name} {shape:?}"), &mut ours, &mut bound);
}

fn digest(tensor: &NumericTensor) -> f32 {
    few(tensor.as_slice::<f32>().unwrap())
}

fn few(elements: &[f32]) -> f32 {
    elements.iter().take(5).chain(elements.iter().rev().take(5)).sum()
}

/// ONNX Runtime in this process.
struct Direct {
    session: ort::session::Session,
}

impl Direct {
    fn load(path: &Path, environment: &ort::environment::Environment) -> Self {
        let session = ort::session::Session::builder(environment)
            .and_then(|builder| builder.with_intra_threads(1)?.commit_from_file(path));
        Self { session: session.unwrap() }
    }

    /// Runs the model. Returns the sum of a few elements of the output.
    fn run(&mut self, shape: &[usize], x: &[f32]) -> f32 {
        let x = ort::value::TensorRef::from_array_view((shape, x)).unwrap();
        let outputs = self.session.run(ort::inputs!["x" => x]).unwrap();
        few(outputs["y"].try_extract_tensor::<f32>().unwrap().1)
    }
}

/// Prints the medians, so that other work on the machine has no effect, and the time that Carton adds to a direct call.
fn report(name: &str, ours: &mut [Duration], bound: &mut [Duration]) {
    let median = |times: &mut [Duration]| {
        times.sort();
        times[times.len() / 2]
    };
    let fastest = |times: &[Duration]| times.iter().min().copied().unwrap_or_default();
    let (best_ours, best_bound) = (fastest(ours), fastest(bound));
    let (ours, bound) = (median(ours), median(bound));
    let added = ours.as_secs_f64() - bound.as_secs_f64();
    let allowed = (bound.as_secs_f64() * 0.02).max(50e-6);
    println!(
        "{name}: {ours:?} / {bound:?} = {:.3}, {:+.0} us ({} of {:.0} us); fastest {best_ours:?} / {best_bound:?}",
        ours.as_secs_f64() / bound.as_secs_f64(),
        added * 1e6,
        if added <= allowed { "within" } else { "MISSES" },
        allowed * 1e6
    );
}
