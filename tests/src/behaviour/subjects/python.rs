//! The python runner on the interpreter that it was installed for, with NumPy from an environment that it made.

use std::time::Duration;

use carton_core::config::Config;
use carton_tensor::{DataType, Tensor};

use super::super::stage::floats;
use super::super::{Misfit, Model, Stream, Subject, Trouble, Troubled, Unusual};
use super::installed;
use crate::place::TestPlace;

/// The python runner for the newest installed interpreter, or for the version that `CARTON_TEST_PYTHON_SERIES` names, such as `3.9`.
pub struct Python;

fn series() -> Option<String> {
    std::env::var("CARTON_TEST_PYTHON_SERIES").ok().filter(|series| !series.is_empty())
}

const MODEL: &str = r#"
import os
import sys
import time

import carton_runner
import numpy


class Model:
    def infer_with_tensors(self, inputs):
        if "slow_ms" in inputs:
            end = time.monotonic() + int(inputs["slow_ms"]) / 1000
            while time.monotonic() < end and not carton_runner.is_cancelled():
                time.sleep(0.01)
        if "fail" in inputs:
            raise ValueError("no luck in Python")
        if "crash" in inputs:
            print("goodbye, cruel host", file=sys.stderr, flush=True)
            os.abort()
        return {"y": inputs["x"]}


class Streaming:
    def infer_with_tensors(self, inputs):
        for number in range(40):
            if "fail" in inputs and number == 3:
                raise ValueError("no luck later")
            yield {"y": inputs["x"], "number": numpy.array(number, dtype=numpy.int64)}


def get_model():
    return Model()


def get_streaming_model():
    return Streaming()
"#;

impl Subject for Python {
    fn name(&self) -> &'static str {
        "python"
    }

    fn runner(&self) -> &'static str {
        "python"
    }

    fn framework_version(&self) -> Option<String> {
        series().map(|series| format!("~{series}"))
    }

    fn unavailable(&self) -> Option<String> {
        installed::unavailable("python", &series().unwrap_or_else(|| "3".to_owned()))
            .or_else(|| super::unavailable_program("uv"))
    }

    fn config(&self, place: &TestPlace) -> Config {
        installed::config(place)
    }

    fn echo(&self, _: DataType) -> Model {
        let requirements = b"numpy\n".to_vec();
        Model::of(vec![("main.py", MODEL.as_bytes().to_vec()), ("requirements.txt", requirements)], "y")
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
            Trouble::Fail => Troubled { model, bad: with("fail", 1), good, words: "ValueError: no luck in Python" },
            Trouble::Crash => Troubled { model, bad: with("crash", 1), good, words: "goodbye, cruel host" },
            Trouble::FailInStream => {
                Troubled { model: self.stream().model, bad: with("fail", 1), good, words: "ValueError: no luck later" }
            }
        })
    }

    fn stream(&self) -> Stream {
        let model = self.echo(DataType::Float32).with("entrypoint_fn", "get_streaming_model");
        Stream { model, n_items: 40, is_numbered: true }
    }

    fn takes(&self, dtype: DataType) -> bool {
        dtype.carrier() == dtype || dtype.is_complex() || matches!(dtype, DataType::Bool | DataType::Float16)
    }

    fn refuses(&self, _: Unusual) -> Option<String> {
        None
    }

    fn complains_about(&self, misfit: Misfit) -> Option<&'static str> {
        match misfit {
            Misfit::Missing => Some("KeyError: 'x'"),
            // A dictionary may hold anything.
            Misfit::Surplus | Misfit::Dtype => None,
        }
    }

    fn n_copies(&self) -> u64 {
        0
    }
}
