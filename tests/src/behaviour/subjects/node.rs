//! The example of a runner in another language, `examples/runner-in-node`. It does not use shared memory.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use carton_core::config::Config;
use carton_tensor::{DataType, Tensor};

use super::super::stage::floats;
use super::super::{Misfit, Model, Stream, Subject, Trouble, Troubled, Unusual};
use super::{in_checkout, unavailable_program};
use crate::place::TestPlace;

/// The runner in Node.
pub struct Node;

const FOLDER: &str = "examples/runner-in-node";

const MODEL: &str = r#"
import { setTimeout as sleep } from "node:timers/promises";

export const maxConcurrency = 8;

export async function infer(inputs, { signal }) {
  if (inputs.slow_ms) await sleep(Number(inputs.slow_ms.data[0]), undefined, { signal });
  if (inputs.fail) throw new Error("no luck in Node");
  if (inputs.crash) {
    console.error("goodbye, cruel host");
    process.abort();
  }
  if (!inputs.x) throw new Error("`x` is missing");
  return { y: inputs.x };
}

export async function* inferStream(inputs) {
  for (let number = 0; number < 40; number++) {
    if (inputs.fail && number === 3) throw new Error("no luck later");
    yield { y: inputs.x, number: { dtype: "int64", shape: [], data: BigInt64Array.of(BigInt(number)) } };
  }
}
"#;

impl Subject for Node {
    fn name(&self) -> &'static str {
        "node"
    }

    // V8 lets garbage grow to some 90 MiB before it collects all of it; calls whose tensors leaked would leave 100 MiB.
    fn kept_memory(&self) -> u64 {
        64
    }

    fn runner(&self) -> &'static str {
        "node"
    }

    fn unavailable(&self) -> Option<String> {
        let folder = in_checkout(FOLDER);
        if !folder.exists() {
            return Some(format!("{} is not there", folder.display()));
        }
        unavailable_program("node")
    }

    fn config(&self, place: &TestPlace) -> Config {
        let config = place.config();
        let installed = config.runner_dir.join("node");
        if !installed.exists() {
            copy_runner(&in_checkout(FOLDER), &installed);
        }
        config
    }

    fn echo(&self, _: DataType) -> Model {
        Model::of(vec![("model.mjs", MODEL.as_bytes().to_vec())], "y")
    }

    fn troubled(&self, trouble: Trouble) -> Option<Troubled> {
        let model = self.echo(DataType::Float32);
        let good = vec![("x", floats(3, 1))];
        let with = |name, value: i64| [&good[..], &[(name, Tensor::scalar(value))]].concat();
        Some(match trouble {
            Trouble::Slow(time) => {
                let milliseconds = time.min(Duration::from_secs(600)).as_millis();
                Troubled { model, bad: with("slow_ms", i64::try_from(milliseconds).ok()?), good, words: "" }
            }
            Trouble::Fail => Troubled { model, bad: with("fail", 1), good, words: "no luck in Node" },
            Trouble::Crash => Troubled { model, bad: with("crash", 1), good, words: "goodbye, cruel host" },
            Trouble::FailInStream => Troubled { model, bad: with("fail", 1), good, words: "no luck later" },
        })
    }

    fn stream(&self) -> Stream {
        Stream { model: self.echo(DataType::Float32), n_items: 40, is_numbered: true }
    }

    fn refuses(&self, _: Unusual) -> Option<String> {
        None
    }

    fn complains_about(&self, misfit: Misfit) -> Option<&'static str> {
        match misfit {
            Misfit::Missing => Some("`x` is missing"),
            Misfit::Surplus | Misfit::Dtype => None,
        }
    }

    fn n_copies(&self) -> u64 {
        0
    }

    fn shares_memory(&self) -> bool {
        false
    }
}

/// Copies the files of the runner, and writes the descriptor for the Node of this machine, as its README says.
fn copy_runner(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        if path.is_file() {
            std::fs::copy(&path, to.join(path.file_name().unwrap())).unwrap();
        }
    }
    let descriptor = Command::new("node").arg(from.join("descriptor.mjs")).output().unwrap();
    assert!(descriptor.status.success(), "{}", String::from_utf8_lossy(&descriptor.stderr));
    std::fs::write(to.join("runner.toml"), descriptor.stdout).unwrap();
}
