//! Models made by scikit-learn, `onnxruntime.quantization` and others (`tests/real/make.py`), on ONNX Runtime. Its Python
//! package recorded their outputs.

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use carton_runner_interface::runner::{RunnerError, Tensors};
use carton_tensor::{AlignedBytes, DataType, NumericTensor, StringTensor, Tensor, Tolerance, allclose};
use serde_json::Value;

use super::{TestFiles, onnx_runtime, open, open_with, run, tensors};
use crate::Onnx;
use crate::options::ModelOptions;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/real")
}

fn files(name: &str) -> TestFiles {
    let bytes = std::fs::read(folder().join(name)).unwrap();
    TestFiles { files: [(name.to_owned(), bytes)].into(), directory: Some(folder()) }
}

fn cases() -> Vec<Value> {
    serde_json::from_str(&std::fs::read_to_string(folder().join("cases.json")).unwrap()).unwrap()
}

#[test]
fn recorded_outputs() {
    if onnx_runtime().is_none() {
        return;
    }
    let cases = cases();
    assert!(cases.len() >= 8);
    for case in cases {
        let name = case["model"].as_str().unwrap();
        let expected = tensors(&case["outputs"]);
        for files in [files(name), files(name).into_ranges()] {
            let (model, warnings) = open(&files).unwrap();
            assert_eq!(warnings, [""; 0], "{name}");
            let found = run(&model, &tensors(&case["inputs"])).unwrap();
            assert_eq!(found.keys().collect::<Vec<_>>(), expected.keys().collect::<Vec<_>>(), "{name}");
            for (output, tensor) in &found {
                assert_eq!(tensor.dtype(), expected[output].dtype(), "{name}, {output}");
                if name.ends_with("float16.onnx") {
                    // Zeros and infinities included.
                    let bytes = |tensor: &Tensor| tensor.as_numeric().unwrap().bytes().to_vec();
                    assert_eq!(bytes(tensor), bytes(&expected[output]), "{name}, {output}");
                } else {
                    // Processors with and without instructions for sums of int8 round to neighbouring steps, which are 0.018 apart here.
                    let usual = Tolerance::default();
                    let tolerance =
                        if name.starts_with("quantized") { Tolerance::new(usual.rtol, 0.02) } else { usual };
                    let comparison = allclose(tensor, &expected[output], tolerance);
                    assert!(comparison.passed, "{name}, {output}: {comparison:?}");
                }
            }
        }
    }
}

#[test]
fn no_rows_and_no_number() {
    if onnx_runtime().is_none() {
        return;
    }
    let (model, _) = open(&files("forest.onnx")).unwrap();
    let none = NumericTensor::from_vec(Vec::<f32>::new(), vec![0, 3]).unwrap();
    let found = run(&model, &Tensors::from([("x".to_owned(), none.into())])).unwrap();
    assert_eq!(found["output_probability"].shape(), Some(&[0, 0][..]));

    let (model, _) = open(&files("float16.onnx")).unwrap();
    let x = NumericTensor::from_vec(vec![f32::NAN, -f32::NAN], vec![2]).unwrap();
    let inputs = Tensors::from([("x".to_owned(), x.clone().into()), ("f".to_owned(), x.into())]);
    for tensor in run(&model, &inputs).unwrap().values() {
        let carried = carton_tensor::carried(tensor).unwrap();
        assert!(carried.as_numeric().unwrap().as_slice::<f32>().unwrap().iter().all(|value| value.is_nan()));
    }
}

/// What a carton of others declares as float32 is converted without a loss, or refused.
#[test]
fn carriers_are_converted_exactly() {
    if onnx_runtime().is_none() {
        return;
    }
    for (name, largest, lost) in [("float16", 65_504.0, 65_520.0), ("bfloat16", 3.389_531_4e38, 3.4e38)] {
        let (model, _) = open(&files(&format!("{name}.onnx"))).unwrap();
        let run = |x: Vec<f32>| {
            let f: Tensor = NumericTensor::from_vec(vec![0.5_f32; 3], vec![3]).unwrap().into();
            let x: Tensor = NumericTensor::from_vec(x, vec![3]).unwrap().into();
            run(&model, &Tensors::from([("x".to_owned(), x), ("f".to_owned(), f)]))
        };
        let found = run(vec![largest, f32::NEG_INFINITY, -0.0]).unwrap();
        let wide = found["wide"].as_numeric().unwrap().as_slice::<f32>().unwrap().to_vec();
        assert_eq!(wide, [largest, f32::NEG_INFINITY, -0.0], "{name}");
        assert_eq!(found["same"].dtype().map(DataType::name), Some(name));
        for lost in [-lost, 0.1] {
            let message = run(vec![1.0, f32::INFINITY, lost]).unwrap_err().message;
            assert!(message.starts_with("input `x`: element [2]: ") && message.contains(name), "{message}");
        }
    }
}

#[test]
fn strings_with_nul_and_emoji_pass() {
    if onnx_runtime().is_none() {
        return;
    }
    let (model, _) = open(&TestFiles::of_model("every_dtype.onnx")).unwrap();
    let cases: Vec<Value> =
        serde_json::from_str(&std::fs::read_to_string(super::models().join("cases.json")).unwrap()).unwrap();
    let case = cases.iter().find(|case| case["model"] == "every_dtype.onnx").unwrap();
    let mut inputs = tensors(&case["inputs"]);
    let strings = ["a\0b", "\0", "🦀\0"].map(str::to_owned).to_vec();
    inputs.insert("string_in".to_owned(), StringTensor::new(strings.clone(), vec![3]).unwrap().into());
    let found = run(&model, &inputs).unwrap();
    assert_eq!(found["string_out"].as_string().unwrap().elements(), strings);
}

/// Runs a model, counting allocations, of which the first fails if `refuse_first`.
fn run_counted(model: &Onnx, inputs: &Tensors, refuse_first: bool) -> (Result<Tensors, RunnerError>, usize) {
    let count = Cell::new(0);
    let outputs = model.run(inputs, &|dtype, shape| {
        count.set(count.get() + 1);
        if refuse_first && count.get() == 1 {
            return Err(RunnerError::new("the pool is full"));
        }
        let n_bytes = shape.iter().product::<usize>() * dtype.size().unwrap_or(0);
        let mut memory = AlignedBytes::zeroed(n_bytes);
        memory.as_mut_slice().fill(0xee);
        Ok(NumericTensor::new(dtype, shape.to_vec(), Arc::new(memory))?)
    });
    (outputs, count.get())
}

/// Compares the outputs of `deceptive.onnx` with a plain computation.
fn check_deceptive(found: &Tensors, x: &[f32], repeats: usize) {
    let floats = |name: &str| found[name].as_numeric().unwrap().as_slice::<f32>().unwrap().to_vec();
    let negated: Vec<f32> = x.iter().map(|value| -value).collect();
    for (name, expected) in [("y", x.repeat(repeats)), ("z", negated), ("c", vec![7.0; 8192]), ("x", x.to_vec())] {
        if found.contains_key(name) {
            assert!(floats(name) == expected, "{name}");
        }
    }
    if let Some(flags) = found.get("flags") {
        assert_eq!(flags.dtype(), Some(DataType::Bool));
        let expected: Vec<u8> = x.iter().map(|value| u8::from(*value > 0.0)).collect();
        assert!(flags.as_numeric().unwrap().bytes() == expected);
    }
}

#[test]
fn outputs_are_written_straight_into_memory_of_ours() {
    if onnx_runtime().is_none() {
        return;
    }
    let of_size = |n: usize, repeats: i64| {
        let x: Vec<f32> = (0..n).map(|index| index as f32 - 5.5).collect();
        let inputs = Tensors::from([
            ("x".to_owned(), NumericTensor::from_vec(x.clone(), vec![n]).unwrap().into()),
            ("repeats".to_owned(), NumericTensor::from_vec(vec![repeats], vec![1]).unwrap().into()),
        ]);
        (x, inputs)
    };
    let spec = |name: &str| carton_runner_interface::runner::DeclaredTensor {
        name: name.to_owned(),
        dtype: DataType::Float32,
        shape: carton_tensor::SymbolicShape::Any,
        internal_name: None,
    };
    let options = ModelOptions::default();
    let load = |outputs: &[&str]| {
        let outputs: Vec<_> = outputs.iter().map(|name| spec(name)).collect();
        open_with(&files("deceptive.onnx"), &options, &[], &outputs).unwrap().0
    };
    let (x, inputs) = of_size(1 << 16, 1);
    let check = |model: &Onnx, (x, inputs): &(Vec<f32>, Tensors), repeats: usize, expected: usize| {
        let (found, count) = run_counted(model, inputs, false);
        check_deceptive(&found.unwrap(), x, repeats);
        assert_eq!(count, expected, "allocations");
    };
    let is_bound = |model: &Onnx| run_counted(model, &inputs, true).0.is_ok();

    // After the first run the shape is trusted; when the pool is full, memory is allocated once more after the run.
    for name in ["z", "flags"] {
        let model = load(&[name]);
        assert!(!is_bound(&model), "{name}");
        check(&model, &(x.clone(), inputs.clone()), 1, 1);
        assert!(is_bound(&model), "{name}");
        check(&model, &(x.clone(), inputs.clone()), 1, 1);
        check(&model, &of_size(20_000, 1), 1, 1);
    }
    // A trusted output that turns out longer: the model runs again without bound outputs, and this one is never bound again.
    let model = load(&["y"]);
    check(&model, &of_size(1 << 16, 1), 1, 1);
    assert!(is_bound(&model));
    check(&model, &of_size(1 << 16, 3), 3, 2);
    assert!(!is_bound(&model));
    check(&model, &of_size(1 << 16, 2), 2, 1);
    // An output whose declaration is wrong from the start.
    let model = load(&["y"]);
    check(&model, &of_size(1 << 16, 2), 2, 1);
    assert!(!is_bound(&model));
    // An input that is also an output is returned as another value: the runner detects once that nothing was written.
    let model = load(&["x"]);
    check(&model, &of_size(1 << 16, 1), 1, 1);
    assert!(is_bound(&model));
    check(&model, &of_size(1 << 16, 1), 1, 2);
    assert!(!is_bound(&model));
    check(&model, &of_size(1 << 16, 1), 1, 1);
    let model = load(&["c"]);
    for _ in 0..3 {
        let (found, _) = run_counted(&model, &inputs, false);
        check_deceptive(&found.unwrap(), &x, 1);
    }
    // All outputs together, small and large, with an error of the model in between.
    let model = load(&[]);
    for (n, repeats) in [(5, 1), (1 << 16, 1), (1 << 16, 2), (1 << 16, -1), (1 << 15, 1), (1 << 15, 0), (0, 1)] {
        let (x, inputs) = of_size(n, repeats);
        let (found, _) = run_counted(&model, &inputs, false);
        match usize::try_from(repeats) {
            Ok(repeats) => check_deceptive(&found.unwrap(), &x, repeats),
            Err(_) => assert!(found.is_err()),
        }
    }
}

#[test]
fn execution_providers() {
    if onnx_runtime().is_none() {
        return;
    }
    let options = |providers: &[&str]| ModelOptions {
        execution_providers: providers.iter().map(|name| (*name).to_owned()).collect(),
        ..ModelOptions::default()
    };
    assert!(open_with(&files("forest.onnx"), &options(&["CPU"]), &[], &[]).is_ok());
    let error = open_with(&files("forest.onnx"), &options(&["NoSuch", "CPU"]), &[], &[]).err().unwrap();
    let expected = "this library of ONNX Runtime has no execution provider `NoSuch`; it has ";
    assert!(error.message.starts_with(expected) && error.message.contains("`CPU`"), "{}", error.message);
}
