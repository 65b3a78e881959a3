//! The ONNX runner.

use std::time::Duration;

use carton_tensor::{DataType, Tensor};

use super::super::stage::floats;
use super::super::{Misfit, Model, Subject, Trouble, Troubled, Unusual};
use super::onnx_file::{Graph, element};

/// The ONNX runner, with the library of ONNX Runtime that `CARTON_TEST_ONNXRUNTIME` names.
pub struct Onnx;

impl Subject for Onnx {
    fn name(&self) -> &'static str {
        "onnx"
    }

    fn runner(&self) -> &'static str {
        "onnx"
    }

    fn unavailable(&self) -> Option<String> {
        match std::env::var_os("CARTON_TEST_ONNXRUNTIME") {
            Some(library) if !library.is_empty() => None,
            _ => Some("CARTON_TEST_ONNXRUNTIME does not name a library of ONNX Runtime".to_owned()),
        }
    }

    fn variables(&self) -> Vec<(String, String)> {
        let library = std::env::var("CARTON_TEST_ONNXRUNTIME").unwrap_or_default();
        vec![("ORT_DYLIB_PATH".to_owned(), library)]
    }

    fn echo(&self, dtype: DataType) -> Model {
        echo(dtype)
    }

    fn troubled(&self, trouble: Trouble) -> Option<Troubled> {
        troubled(trouble)
    }

    fn takes(&self, dtype: DataType) -> bool {
        // The operator that returns its input has no floats of 8 bits in the operator set of these models.
        !dtype.is_complex() && (dtype.carrier() == dtype || dtype.size() != Some(1) || dtype == DataType::Bool)
    }

    fn refuses(&self, unusual: Unusual) -> Option<String> {
        match unusual {
            Unusual::Nested => Some("input `x`: expected float32, found a list of tensors".to_owned()),
            _ => None,
        }
    }

    fn complains_about(&self, misfit: Misfit) -> Option<&'static str> {
        Some(complaint(misfit))
    }

    fn n_copies(&self) -> u64 {
        1
    }
}

fn complaint(misfit: Misfit) -> &'static str {
    match misfit {
        Misfit::Missing => "input `x` is missing",
        Misfit::Surplus => "the model has no input `surplus`",
        Misfit::Dtype => "input `x`: expected float32, found int32",
    }
}

fn model(graph: &Graph) -> Model {
    Model::of(vec![("model.onnx", graph.file())], "y")
}

fn echo(dtype: DataType) -> Model {
    let element = match dtype {
        DataType::Float32 => element::FLOAT,
        DataType::Uint8 => 2,
        DataType::Int8 => 3,
        DataType::Uint16 => 4,
        DataType::Int16 => 5,
        DataType::Int32 => 6,
        DataType::Int64 => element::INT64,
        DataType::String => 8,
        DataType::Float64 => 11,
        DataType::Uint32 => 12,
        DataType::Uint64 => 13,
        DataType::Bool => element::BOOL,
        DataType::Float16 => 10,
        DataType::BFloat16 => 16,
        other => panic!("ONNX has no {other}"),
    };
    let graph =
        Graph::default().node("Identity", &["x"], &["y"]).input("x", element, false).output("y", element, false);
    model(&graph)
}

/// Models that an input makes slow, or makes fail. ONNX Runtime cannot be made to do more by inputs alone.
fn troubled(trouble: Trouble) -> Option<Troubled> {
    match trouble {
        Trouble::Slow(time) => {
            // A loop that multiplies two matrices in each round, for as many rounds as the input `n` says.
            let body = Graph::default()
                .node("MatMul", &["power", "matrix"], &["next_power"])
                .node("Identity", &["on"], &["still_on"])
                .input("round", element::INT64, true)
                .input("on", element::BOOL, true)
                .input("power", element::FLOAT, false)
                .output("still_on", element::BOOL, true)
                .output("next_power", element::FLOAT, false);
            let matrix: Vec<u8> = (0..64 * 64).flat_map(|_| (1.0 / 64.0_f32).to_le_bytes()).collect();
            let graph = Graph::default()
                .constant("matrix", element::FLOAT, &[64, 64], &matrix)
                .constant("yes", element::BOOL, &[], &[1])
                .node_with("Loop", &["n", "yes", "matrix"], &["powers"], &[("body", body)])
                .node("Identity", &["x"], &["y"])
                .input("x", element::FLOAT, false)
                .input("n", element::INT64, true)
                .output("y", element::FLOAT, false)
                .output("powers", element::FLOAT, false);
            let rounds = |n: u64| Tensor::scalar(i64::try_from(n).unwrap_or(i64::MAX).min(1 << 30));
            let x = || ("x", floats(3, 1));
            let n_rounds = u64::try_from(time.max(Duration::from_millis(1)).as_micros()).unwrap_or(u64::MAX) / 20;
            Some(Troubled {
                model: model(&graph),
                good: vec![x(), ("n", rounds(0))],
                bad: vec![x(), ("n", rounds(n_rounds))],
                words: "",
            })
        }
        Trouble::Fail => {
            // Only a tensor of one or two elements can be added to one of two.
            let zeros = [0_u8; 8];
            let graph = Graph::default()
                .constant("zeros", element::FLOAT, &[2], &zeros)
                .node("Add", &["x", "zeros"], &["y"])
                .input("x", element::FLOAT, false)
                .output("y", element::FLOAT, false);
            let model = model(&graph);
            Some(Troubled {
                model,
                good: vec![("x", floats(2, 1))],
                bad: vec![("x", floats(3, 1))],
                words: "broadcast",
            })
        }
        Trouble::Crash | Trouble::FailInStream => None,
    }
}
