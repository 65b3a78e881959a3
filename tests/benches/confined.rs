//! What the sandbox costs: the start of a program and of a Python model, and calls of that model, without the sandbox, in it, and in it with
//! namespaces. All are measured alternately. The goal is at most 5 ms more for a start, and nothing for a call.
//!
//! Needs `CARTON_TEST_PYTHON`, a Python with NumPy (scripts/test makes one).

#![allow(clippy::unwrap_used, missing_docs)]

use std::io::Read;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use carton_core::machine::{SandboxGap, sandbox_support};
use carton_core::sandbox::SandboxMode;
use carton_core::{Carton, Tensors};
use carton_tensor::Tensor;
use carton_tests::place::TestPlace;
use carton_tests::python_runner::{install, interpreter, pack};

const RUNNER: &str = env!("CARGO_BIN_EXE_carton-test-runner");

/// The model: one function does nothing, one makes a thousand system calls.
const MODEL: &str = r#"
import os

def empty(x):
    return {"y": x}

def thousand_system_calls(x):
    for _ in range(1000):
        os.getppid()
    return {"y": x}
"#;

const STARTS_OF_PROGRAM: usize = 300;
const STARTS_OF_MODEL: usize = 20;
const TURNS: usize = 20;
const CALLS: usize = 100;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Confinement {
    Off,
    Plain,
    Namespaces,
}

const ALL: [(&str, Confinement); 3] = [
    ("without a sandbox", Confinement::Off),
    ("in the sandbox", Confinement::Plain),
    ("in the sandbox, with namespaces", Confinement::Namespaces),
];

fn main() {
    let support = sandbox_support(&TestPlace::new(RUNNER).config()).unwrap().unwrap();
    let has_namespaces = !support.gaps.contains(&SandboxGap::Namespaces);
    let here: Vec<_> =
        ALL.into_iter().filter(|(_, which)| has_namespaces || *which != Confinement::Namespaces).collect();
    if !has_namespaces {
        println!("skipped: namespaces, which this user cannot make");
    }
    start_program(&here);
    let Some(python) = interpreter() else { return };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut models = Vec::new();
        for (name, which) in here {
            models.push(Model::new(name, which, &python).await);
        }
        start_models(&models).await;
        for function in ["empty", "thousand_system_calls"] {
            call(&models, function).await;
        }
    });
}

/// From the start of `/bin/echo` to the first byte that it writes.
fn start_program(here: &[(&str, Confinement)]) {
    let mut times = vec![Vec::new(); here.len()];
    for _ in 0..STARTS_OF_PROGRAM {
        for ((_, which), times) in here.iter().zip(&mut times) {
            let mut command = match which {
                Confinement::Off => Command::new("/bin/echo"),
                Confinement::Plain => launcher(r#"{"namespaces":false}"#),
                Confinement::Namespaces => launcher(r#"{"namespaces":true}"#),
            };
            command.arg("x").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
            // A launcher kills its group when nobody reads its output any more.
            command.process_group(0);
            let start = Instant::now();
            let mut child = command.spawn().unwrap();
            let mut output = child.stdout.take().unwrap();
            output.read_exact(&mut [0]).unwrap();
            times.push(start.elapsed());
            child.wait().unwrap();
            drop(output);
        }
    }
    report("a start of a program", here.iter().map(|(name, _)| *name), times);
}

fn launcher(policy: &str) -> Command {
    let mut command = Command::new(RUNNER);
    command.args(["__carton-launcher", policy, "/bin/echo"]);
    command
}

/// A Python model, and how it is confined.
struct Model {
    name: &'static str,
    place: TestPlace,
    carton: std::path::PathBuf,
    mode: SandboxMode,
}

impl Model {
    async fn new(name: &'static str, which: Confinement, python: &std::path::Path) -> Self {
        let place = TestPlace::new(RUNNER);
        install(&place, python);
        if which == Confinement::Plain {
            let descriptor = place.config().runner_dir.join("python/runner.toml");
            let text = std::fs::read_to_string(&descriptor).unwrap();
            std::fs::write(&descriptor, text.replace("namespaces = true", "namespaces = false")).unwrap();
        }
        let carton = pack(&place, MODEL, "").await;
        let mode = if which == Confinement::Off { SandboxMode::Off } else { SandboxMode::On };
        Self { name, place, carton, mode }
    }

    async fn load(&self, function: &str) -> Carton {
        self.place.load(&self.carton).option("infer_fn", function).sandbox(self.mode).await.unwrap()
    }
}

async fn start_models(models: &[Model]) {
    let mut times = vec![Vec::new(); models.len()];
    for _ in 0..STARTS_OF_MODEL {
        for (model, times) in models.iter().zip(&mut times) {
            let start = Instant::now();
            let carton = model.load("empty").await;
            times.push(start.elapsed());
            drop(carton);
        }
    }
    report("a load of a Python model", models.iter().map(|model| model.name), times);
}

async fn call(models: &[Model], function: &str) {
    let mut times = vec![Vec::new(); models.len()];
    let mut cartons = Vec::new();
    for model in models {
        cartons.push(model.load(function).await);
    }
    for turn in 0..=TURNS {
        for (carton, times) in cartons.iter().zip(&mut times) {
            for _ in 0..CALLS {
                let inputs = Tensors::from([("x".to_owned(), Tensor::scalar(1_i64))]);
                let start = Instant::now();
                drop(carton.infer(inputs).await.unwrap());
                // The first turn warms everything up.
                if turn > 0 {
                    times.push(start.elapsed());
                }
            }
        }
    }
    report(&format!("a call of `{function}`"), models.iter().map(|model| model.name), times);
}

/// Prints the median of each, and how much it is over the first.
fn report<'a>(what: &str, names: impl Iterator<Item = &'a str>, times: Vec<Vec<Duration>>) {
    let medians = times.into_iter().map(|mut times| {
        times.sort();
        times[times.len() / 2]
    });
    let medians: Vec<Duration> = medians.collect();
    for (name, median) in names.zip(&medians) {
        let over = median.as_secs_f64() - medians[0].as_secs_f64();
        println!("{what} {name}: {:.3} ms ({:+.3} ms)", median.as_secs_f64() * 1e3, over * 1e3);
    }
}
