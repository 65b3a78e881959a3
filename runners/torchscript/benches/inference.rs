//! Compares a call through Carton with the same call of libtorch in this process, measured in turns in the same run: a
//! convolutional net at batch 1 and 32, and a model that computes nothing, with an input of 100 MB. The call in this process uses the
//! runner's own binding and copies no output.

#![allow(clippy::unwrap_used, missing_docs)]

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use carton_core::Config;
use carton_core::{Carton, Inputs, Tensors};
use carton_runner_interface::runner::ModelFiles;
use carton_runner_torchscript::LIBTORCH_VERSION;
use carton_runner_torchscript::libtorch::{Device, Module, Results, SharedTensor, Value, process};
use carton_tensor::{NumericTensor, Tensor};

const RUNNER: &str = env!("CARGO_BIN_EXE_carton-runner-torchscript");
/// Calls of one kind that follow each other, as they do in use.
const IN_A_ROW: usize = 20;
/// Calls at the start of each such row that are not measured: threads of libtorch's pool spin for a while after a call, so the first
/// calls in one process compete with the last ones in the other.
const WARM_UP: usize = 4;

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let cores = std::thread::available_parallelism().unwrap().get();
    println!("libtorch {LIBTORCH_VERSION}, {cores} cores");
    for threads in [1, 2] {
        if threads > cores {
            continue;
        }
        process::set_threads(i32::try_from(threads).unwrap()).unwrap();
        for (batch, size, rounds) in [(1, 32, 2000), (1, 160, 500), (32, 64, 150)] {
            let name = format!("conv, batch {batch} of {size}x{size}, {threads} threads");
            runtime.block_on(compare(&name, "conv", "image", &[batch, 3, size, size], threads, rounds));
        }
        let name = format!("100 MB, {threads} threads");
        runtime.block_on(compare(&name, "total", "x", &[25_000_000], threads, 100));
    }
}

/// Calls the model in turns: in this process, through Carton with an input in memory of its pool, and through Carton with an input in
/// other memory.
async fn compare(name: &str, model: &str, input: &str, shape: &[usize], threads: usize, rounds: usize) {
    let models = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/models/1.13");
    let file = format!("{model}.pt");
    let direct = Module::load(ModelFiles::from_directory(&models).map(&file).unwrap(), Device::Cpu).unwrap();
    let place = tempfile::tempdir().unwrap();
    let loaded = load(place.path(), &models.join(file), threads).await;

    let mut random = fastrand::Rng::with_seed(1);
    let elements: Vec<f32> = (0..shape.iter().product()).map(|_| random.f32()).collect();
    let mut pooled = loaded.alloc::<f32>(shape).await.unwrap();
    pooled.as_mut_slice::<f32>().unwrap().unwrap().copy_from_slice(&elements);
    let heap = NumericTensor::from_vec(elements, shape.to_vec()).unwrap();
    let call_here = || {
        let arguments = [Value::Tensor(SharedTensor::new(&heap).unwrap())];
        direct.run(&arguments).unwrap()
    };
    let inputs =
        |tensor: &NumericTensor| Inputs::Named(Tensors::from([(input.to_owned(), Tensor::from(tensor.clone()))]));

    let (mut here, mut shared, mut copied) = (Vec::new(), Vec::new(), Vec::new());
    let mut expected = call_here();
    let outputs = loaded.infer(inputs(&pooled)).await.unwrap();
    check(&expected, outputs.tensor("output").unwrap());
    for _ in 0..rounds.div_ceil(IN_A_ROW) {
        for call in 0..IN_A_ROW + WARM_UP {
            let start = Instant::now();
            expected = call_here();
            here.extend((call >= WARM_UP).then(|| start.elapsed()));
        }
        for (tensor, times) in [(&pooled, &mut shared), (&heap, &mut copied)] {
            for call in 0..IN_A_ROW + WARM_UP {
                let start = Instant::now();
                let outputs = loaded.infer(inputs(tensor)).await.unwrap();
                times.extend((call >= WARM_UP).then(|| start.elapsed()));
                drop(outputs);
            }
        }
    }
    drop(expected);
    report(name, &mut here, &mut shared, &mut copied);
}

/// Checks that both sides return the same results.
fn check(expected: &Results<'_>, found: &Tensor) {
    let found = found.as_numeric().unwrap();
    let mut copied = NumericTensor::zeroed(found.dtype(), found.shape().to_vec()).unwrap();
    expected.output().copy_to(copied.bytes_mut().unwrap()).unwrap();
    let (expected, found) = (copied.as_slice::<f32>().unwrap(), found.as_slice::<f32>().unwrap());
    assert!(expected.iter().zip(found).all(|(one, other)| (one - other).abs() <= 1e-5 * one.abs().max(1.0)));
}

async fn load(place: &Path, model: &Path, threads: usize) -> Carton {
    let config = Config::in_folder(place);
    let folder = config.runner_dir.join("torchscript");
    std::fs::create_dir_all(&folder).unwrap();
    std::os::unix::fs::symlink(RUNNER, folder.join("run")).unwrap();
    let descriptor = format!(
        "version = 1\n[[runner]]\nrunner_name = \"torchscript\"\nframework_version = \"{LIBTORCH_VERSION}\"\n\
         runner_compat_version = 1\nrunner_interface_version = 2\nrunner_release_date = 2026-01-01T00:00:00Z\n\
         runner_path = \"run\"\nplatform = \"{}\"\nfiles = \"ranges\"\n",
        carton_core::runner::PLATFORM
    );
    std::fs::write(folder.join("runner.toml"), descriptor).unwrap();
    let output: PathBuf = place.join("model.carton");
    Carton::pack(model, &output).runner("torchscript").config(config.clone()).await.unwrap();
    let threads = i64::try_from(threads).unwrap();
    Carton::load(&output).config(config).option("num_threads", threads).await.unwrap()
}

fn report(name: &str, here: &mut [Duration], shared: &mut [Duration], copied: &mut [Duration]) {
    let median = |times: &mut [Duration]| {
        times.sort();
        times[times.len() / 2]
    };
    let (here, shared, copied) = (median(here), median(shared), median(copied));
    let over = |time: Duration| {
        let more = time.as_secs_f64() - here.as_secs_f64();
        format!("{time:?} ({:+.0} us, {:+.1} %)", more * 1e6, more / here.as_secs_f64() * 100.0)
    };
    println!("{name}: here {here:?}, through Carton {}, from other memory {}", over(shared), over(copied));
}
