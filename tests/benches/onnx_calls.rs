//! The costs of a call of an ONNX model through Carton and a runner process, beside the same engine called directly in this
//! process: alternately in one run, on one thread each. A convolutional net at batch 1 and 32; a model that reads one element
//! of an input of 100 MB, so that a copy of it would be visible; and a model whose output has 100 MB.
//!
//! ONNX Runtime is the library that `CARTON_TEST_ONNXRUNTIME` names; without it only the built-in engine is measured. The goal is
//! at most 50 us or 2 % over the direct call, whichever is larger.

#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use carton_core::runner::LaunchPolicy;
use carton_tensor::{NumericTensor, Tensor};
use carton_tests::place::TestPlace;
use rten_tensor::prelude::*;

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
        let library = std::env::var_os("CARTON_TEST_ONNXRUNTIME").map(PathBuf::from);
        if library.is_none() {
            eprintln!("skipped for ONNX Runtime: CARTON_TEST_ONNXRUNTIME does not name its library");
        }
        // A process has only one environment.
        let environment =
            library.as_ref().map(|library| ort::init_from(library).unwrap().with_telemetry(false).build());
        let environment = environment.transpose().unwrap();
        for (model, shape, n_calls) in CASES {
            let path = Path::new(MODELS).join(model);
            if let (Some(library), Some(environment)) = (&library, &environment) {
                let direct = OnnxRuntime::load(&path, environment);
                measure("onnxruntime", Some(library), direct, &path, shape, n_calls).await;
            }
            measure("rten", None, Rten::load(&path), &path, shape, n_calls).await;
        }
    });
}

/// An engine in this process.
trait Direct {
    /// Runs the model. Returns the sum of a few elements of the output.
    fn run(&mut self, shape: &[usize], x: &[f32]) -> f32;
}

async fn measure(
    engine: &str,
    library: Option<&Path>,
    mut direct: impl Direct,
    path: &Path,
    shape: &[usize],
    n_calls: usize,
) {
    let place = TestPlace::new(RUNNER);
    let carton = place.path().join("model.carton");
    place.pack(path, "onnx", &carton).await.unwrap();
    let variables: Vec<(String, String)> = library
        .map(|library| ("ORT_DYLIB_PATH".to_owned(), library.to_string_lossy().into_owned()))
        .into_iter()
        .collect();
    let policy = LaunchPolicy::default().with_variables(variables);
    let load = place.load(&carton).option("engine", engine).option("num_threads", 1).policy(policy);
    let model = load.await.unwrap();

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
            found = digest(outputs["y"].as_numeric().unwrap());
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
    report(&format!("{name} {shape:?} on {engine}"), &mut ours, &mut bound);
}

fn digest(tensor: &NumericTensor) -> f32 {
    few(tensor.as_slice::<f32>().unwrap())
}

fn few(elements: &[f32]) -> f32 {
    elements.iter().take(5).chain(elements.iter().rev().take(5)).sum()
}

struct OnnxRuntime {
    session: ort::session::Session,
}

impl OnnxRuntime {
    fn load(path: &Path, environment: &ort::environment::Environment) -> Self {
        let session = ort::session::Session::builder(environment)
            .and_then(|builder| builder.with_intra_threads(1)?.commit_from_file(path));
        Self { session: session.unwrap() }
    }
}

impl Direct for OnnxRuntime {
    fn run(&mut self, shape: &[usize], x: &[f32]) -> f32 {
        let x = ort::value::TensorRef::from_array_view((shape, x)).unwrap();
        let outputs = self.session.run(ort::inputs!["x" => x]).unwrap();
        few(outputs["y"].try_extract_tensor::<f32>().unwrap().1)
    }
}

struct Rten {
    model: rten::Model,
    pool: std::sync::Arc<rten::ThreadPool>,
}

impl Rten {
    fn load(path: &Path) -> Self {
        let model = rten::Model::load_file(path).unwrap();
        Self { model, pool: std::sync::Arc::new(rten::ThreadPool::with_num_threads(1)) }
    }
}

impl Direct for Rten {
    fn run(&mut self, shape: &[usize], x: &[f32]) -> f32 {
        let x = rten_tensor::TensorView::from_data(shape, x);
        let (input, output) = (self.model.node_id("x").unwrap(), self.model.node_id("y").unwrap());
        let options = rten::RunOptions::default().with_thread_pool(Some(std::sync::Arc::clone(&self.pool)));
        let outputs = self.model.run(vec![(input, x.into())], &[output], Some(options)).unwrap();
        let Some(rten::Value::FloatTensor(y)) = outputs.into_iter().next() else { panic!("no floats") };
        few(&y.to_vec())
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
