//! Each model returns the outputs that ONNX Runtime recorded for it.

use carton_runner_interface::runner::{DeclaredTensor, Tensors};
use carton_tensor::{DataType, NumericTensor, SymbolicShape, Tensor, Tolerance, allclose};
use serde_json::Value;

use super::{TestFiles, models, onnx_runtime, open, open_with, run, tensors};
use crate::options::ModelOptions;

fn cases() -> Vec<Value> {
    serde_json::from_str(&std::fs::read_to_string(models().join("cases.json")).unwrap()).unwrap()
}

/// Runs a case. Outputs that the case does not list are not declared, so that the model need not return them.
fn check(case: &Value, files: &TestFiles) {
    let name = case["model"].as_str().unwrap();
    let expected = tensors(&case["outputs"]);
    let declared: Vec<DeclaredTensor> = expected.iter().map(|(name, tensor)| spec(name, tensor, None)).collect();
    let (model, _) =
        open_with(files, &ModelOptions::default(), &[], &declared).unwrap_or_else(|error| panic!("{name}: {error:?}"));
    let found = run(&model, &tensors(&case["inputs"])).unwrap_or_else(|error| panic!("{name}: {error:?}"));
    compare(name, &found, &expected);
}

fn compare(name: &str, found: &Tensors, expected: &Tensors) {
    assert_eq!(found.keys().collect::<Vec<_>>(), expected.keys().collect::<Vec<_>>(), "{name}");
    let tolerance = Tolerance::new(1e-5, 1e-6);
    for (output, tensor) in found {
        let comparison = allclose(tensor, &expected[output], tolerance);
        assert!(comparison.passed, "{name}, {output}: {comparison:?}");
    }
}

fn spec(name: &str, tensor: &Tensor, internal_name: Option<&str>) -> DeclaredTensor {
    DeclaredTensor {
        name: name.to_owned(),
        dtype: tensor.dtype().unwrap_or(DataType::Float32),
        shape: SymbolicShape::Any,
        internal_name: internal_name.map(str::to_owned),
    }
}

#[test]
fn recorded_outputs() {
    if onnx_runtime().is_none() {
        return;
    }
    for case in cases() {
        let files = TestFiles::of_model(case["model"].as_str().unwrap());
        check(&case, &files);
        check(&case, &files.into_ranges());
    }
}

#[test]
fn threads_and_concurrent_calls() {
    let case = cases().into_iter().find(|case| case["model"] == "conv.onnx").unwrap();
    let (inputs, expected) = (tensors(&case["inputs"]), tensors(&case["outputs"]));
    if onnx_runtime().is_none() {
        return;
    }
    let options = ModelOptions { intra_op_threads: Some(2), inter_op_threads: Some(2), ..ModelOptions::default() };
    let (model, _) = open_with(&TestFiles::of_model("conv.onnx"), &options, &[], &[]).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..20 {
                    compare("conv.onnx", &run(&model, &inputs).unwrap(), &expected);
                }
            });
        }
    });
}

#[test]
fn names_of_the_carton() {
    if onnx_runtime().is_none() {
        return;
    }
    let case = cases().into_iter().find(|case| case["model"] == "tokens.onnx").unwrap();
    let ids = tensors(&case["inputs"])["ids"].clone();
    let inputs = [spec("words", &ids, Some("ids"))];
    let outputs = [spec("class", &ids, Some("best")), spec("mean", &ids, None)];
    let options = ModelOptions::default();
    let (model, warnings) = open_with(&TestFiles::of_model("tokens.onnx"), &options, &inputs, &outputs).unwrap();
    assert_eq!(warnings, [""; 0]);
    let found = run(&model, &Tensors::from([("words".to_owned(), ids)])).unwrap();
    let recorded = tensors(&case["outputs"]);
    let expected =
        Tensors::from([("class".to_owned(), recorded["best"].clone()), ("mean".to_owned(), recorded["mean"].clone())]);
    compare("tokens.onnx", &found, &expected);
}

#[test]
fn inputs_that_are_not_aligned() {
    if onnx_runtime().is_none() {
        return;
    }
    let case = cases().into_iter().find(|case| case["model"] == "tokens.onnx").unwrap();
    let mlp = cases().into_iter().find(|case| case["model"] == "mlp.onnx").unwrap();
    for (name, case) in [("tokens.onnx", case), ("mlp.onnx", mlp)] {
        let mut inputs = tensors(&case["inputs"]);
        for tensor in inputs.values_mut() {
            let Tensor::Numeric(numbers) = &*tensor else { panic!() };
            let moved = [&[0], numbers.bytes()].concat();
            let (dtype, shape) = (numbers.dtype(), numbers.shape().to_vec());
            *tensor = NumericTensor::with_offset(dtype, shape, std::sync::Arc::new(moved), 1).unwrap().into();
        }
        let (model, _) = open(&TestFiles::of_model(name)).unwrap();
        compare(name, &run(&model, &inputs).unwrap(), &tensors(&case["outputs"]));
    }
}
