//! Models with every kind of input and output that ONNX Runtime has (`tests/types/make.py`). Its Python package recorded their outputs.

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use carton_runner_interface::runner::{DeclaredTensor, RunnerError, Tensors};
use carton_tensor::{AlignedBytes, BytesTensor, DataType, NumericTensor, SymbolicShape, Tensor, f16};
use serde_json::Value;

use super::{TestFiles, onnx_runtime, open, open_with, run, tensors};
use crate::Onnx;
use crate::options::ModelOptions;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/types")
}

fn files(name: &str) -> TestFiles {
    TestFiles { files: [(name.to_owned(), std::fs::read(folder().join(name)).unwrap())].into(), directory: None }
}

fn cases() -> Vec<Value> {
    serde_json::from_str(&std::fs::read_to_string(folder().join("cases.json")).unwrap()).unwrap()
}

fn spec(name: &str, dtype: DataType) -> DeclaredTensor {
    DeclaredTensor { name: name.to_owned(), dtype, shape: SymbolicShape::Any, internal_name: None }
}

fn model(name: &str) -> Onnx {
    open(&files(name)).unwrap().0
}

fn called(name: &str, tensor: impl Into<Tensor>) -> Tensors {
    Tensors::from([(name.to_owned(), tensor.into())])
}

/// The same dtypes, shapes and bits, and nothing that is not recorded.
#[test]
fn recorded_outputs() {
    if onnx_runtime().is_none() {
        return;
    }
    let cases = cases();
    assert!(cases.len() >= 18);
    for case in cases.iter().filter(|case| case["model"] != "extension.onnx") {
        let name = case["model"].as_str().unwrap();
        let (model, warnings) = open(&files(name)).unwrap();
        assert_eq!(warnings, [""; 0], "{name}");
        for _ in 0..2 {
            let found = run(&model, &tensors(&case["inputs"])).unwrap_or_else(|error| panic!("{name}: {error:?}"));
            assert_eq!(found, tensors(&case["outputs"]), "{name}");
        }
    }
}

#[test]
fn declared_names_of_lists_optionals_and_maps() {
    if onnx_runtime().is_none() {
        return;
    }
    let renamed = |name: &str, inner: &str| DeclaredTensor {
        internal_name: Some(inner.to_owned()),
        ..spec(name, DataType::Float32)
    };
    let inputs = [renamed("cats", "x.cat"), renamed("dogs", "x.a.dog")];
    let (model, _) = open_with(&files("map_of_words.onnx"), &ModelOptions::default(), &inputs, &[]).unwrap();
    let found = run(&model, &called("dogs", Tensor::scalar(2.5_f32))).unwrap();
    assert_eq!(found["y"], Tensor::from_vec(vec![0.0_f32, 2.5, 0.0, 0.0], vec![1, 4]).unwrap());
    let message = run(&model, &called("x.cow", Tensor::scalar(1.0_f32))).unwrap_err().message;
    assert_eq!(message, "the model has no input `x.cow`; it takes `cats`, `dogs`");
    let message = run(&model, &called("cats", Tensor::scalar(1.0_f64))).unwrap_err().message;
    assert_eq!(message, "input `cats`: expected a scalar of float32, as an entry of a map");

    let outputs = [renamed("list", "same")];
    let (model, _) = open_with(&files("optionals.onnx"), &ModelOptions::default(), &[], &outputs).unwrap();
    assert_eq!(run(&model, &Tensors::new()).unwrap(), Tensors::new());
    let list = Tensor::nested(vec![Tensor::from_vec(vec![1.0_f32, 2.0], vec![1, 2]).unwrap()]).unwrap();
    assert_eq!(run(&model, &called("parts", list.clone())).unwrap(), called("list", list));
}

#[test]
fn lists_as_one_tensor_and_other_lists() {
    if onnx_runtime().is_none() {
        return;
    }
    let (length, words) = (model("length.onnx"), model("string_lists.onnx"));
    let count = |parts: Tensor| run(&length, &called("parts", parts)).map(|found| found["count"].clone());
    let rows = NumericTensor::from_vec(vec![1.0_f32; 12], vec![3, 2, 2]).unwrap();
    assert_eq!(count(rows.clone().into()).unwrap(), Tensor::scalar(3_i64));
    assert_eq!(count(Tensor::from_vec(Vec::<f32>::new(), vec![0, 2, 2]).unwrap()).unwrap(), Tensor::scalar(0_i64));
    let strings = Tensor::from_strings(["a", "b", "c", "d"], vec![2, 2]).unwrap();
    let joined = run(&words, &called("parts", strings)).unwrap();
    assert_eq!(joined["joined"], Tensor::from_strings(["a", "b", "c", "d"], vec![4]).unwrap());
    let check = |parts: Tensor, expected: &str| {
        assert_eq!(count(parts).unwrap_err().message, format!("input `parts`: {expected}"));
    };
    check(Tensor::scalar(1.0_f32), "expected a list of tensors of float32, found a scalar");
    check(
        Tensor::nested(vec![Tensor::scalar(1_i64)]).unwrap(),
        "expected a list of tensors of float32, found one of int64",
    );
    check(Tensor::from_vec(vec![1.0_f64], vec![1]).unwrap(), "expected a list of tensors of float32, found float64");
    let whole = Tensor::from_vec(Vec::<f32>::new(), vec![1 << 30, 0]).unwrap();
    assert_eq!(count(whole).unwrap_err().message, "a list of 1073741824 tensors, more than 1048576");
    let list = Tensor::nested(vec![rows.into()]).unwrap();
    let message = run(&model("float16.onnx"), &called("x", list)).unwrap_err().message;
    assert_eq!(message, "input `x`: expected float16, found a list of tensors");
}

#[test]
fn strings_that_are_not_text() {
    if onnx_runtime().is_none() {
        return;
    }
    let bytes = BytesTensor::new(vec![b"\xff\0\xfe".to_vec(), b"text".to_vec()], vec![2]).unwrap();
    let options = ModelOptions::default();
    let declared = [spec("y", DataType::Bytes)];
    let (model, _) = open_with(&files("strings.onnx"), &options, &[spec("x", DataType::Bytes)], &declared).unwrap();
    assert_eq!(run(&model, &called("x", bytes.clone())).unwrap(), called("y", bytes.clone()));
    let texts = Tensor::from_strings(["a", "b"], vec![2]).unwrap();
    let as_bytes = BytesTensor::new(vec![b"a".to_vec(), b"b".to_vec()], vec![2]).unwrap();
    assert_eq!(run(&model, &called("x", texts)).unwrap(), called("y", as_bytes));
    let (model, _) = open(&files("strings.onnx")).unwrap();
    let error = run(&model, &called("x", bytes)).unwrap_err();
    assert_eq!(error.message, "output `y`: string 0 of the output is not valid UTF-8");
    assert!(error.hint.unwrap().contains("`dtype = \"bytes\"`"));
}

#[test]
fn booleans_are_0_or_1() {
    if onnx_runtime().is_none() {
        return;
    }
    let model = model("bool.onnx");
    let of_bytes = |dtype| NumericTensor::copy_from_bytes(dtype, vec![3], &[1, 0, 2]).unwrap();
    for dtype in [DataType::Bool, DataType::Uint8] {
        let message = run(&model, &called("x", of_bytes(dtype))).unwrap_err().message;
        assert!(message.starts_with("input `x`: element [2]: 2 "), "{message}");
    }
    let carried = NumericTensor::copy_from_bytes(DataType::Uint8, vec![2], &[1, 0]).unwrap();
    let found = run(&model, &called("x", carried)).unwrap();
    assert_eq!(found["y"].as_numeric().map(|y| (y.dtype(), y.bytes())), Some((DataType::Bool, &[0, 1][..])));
}

/// Half floats are neither copied on the way in, nor on the way out once their shape is known.
#[test]
fn half_floats_are_written_in_place() {
    if onnx_runtime().is_none() {
        return;
    }
    let (model, _) = open(&TestFiles::of_model("half.onnx")).unwrap();
    let x = NumericTensor::from_vec(vec![f16::ONE; 1 << 15], vec![1 << 15]).unwrap();
    let allocations = |refused: bool| {
        let count = Cell::new(0);
        let found = model.run(&called("x", x.clone()), &|dtype, shape| {
            count.set(count.get() + 1);
            if refused && count.get() == 1 {
                return Err(RunnerError::new("the pool is full"));
            }
            let n_bytes = NumericTensor::n_bytes_of(dtype, shape)?;
            Ok(NumericTensor::new(dtype, shape.to_vec(), Arc::new(AlignedBytes::zeroed(n_bytes)))?)
        });
        found.map(|found| assert_eq!(found["y"].dtype(), Some(DataType::Float16))).map(|()| count.get())
    };
    assert!(allocations(true).is_err());
    assert_eq!(allocations(false).unwrap(), 1);
    // The memory of the output is allocated before the run.
    assert_eq!(allocations(true).unwrap(), 2);
}

/// The operators of onnxruntime-extensions: from the package beside the library of ONNX Runtime, and from a file of the model.
#[test]
fn operators_of_a_library() {
    let Some(search) = onnx_runtime() else { return };
    let library = search.chosen.as_ref().unwrap().canonicalize().unwrap();
    let package = library.ancestors().nth(3).unwrap().join("onnxruntime_extensions");
    let Ok(entries) = package.read_dir() else {
        eprintln!("skipped: {} is not there", package.display());
        return;
    };
    let case = cases().into_iter().find(|case| case["model"] == "extension.onnx").unwrap();
    let with = |files: &TestFiles, libraries: &[&str]| {
        let libraries = libraries.iter().map(|name| (*name).to_owned()).collect();
        open_with(files, &ModelOptions { libraries, ..ModelOptions::default() }, &[], &[]).map(|(model, _)| model)
    };
    let check = |model: Onnx| assert_eq!(run(&model, &tensors(&case["inputs"])).unwrap(), tensors(&case["outputs"]));
    check(with(&files("extension.onnx"), &["onnxruntime_extensions"]).unwrap());
    check(with(&files("extension.onnx"), &["onnxruntime-extensions"]).unwrap());
    let hint = with(&files("extension.onnx"), &[]).err().unwrap().hint.unwrap();
    assert!(hint.contains("`libraries = [\"onnxruntime_extensions\"]`"), "{hint}");

    let is_library = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "so");
    let path = entries.map(|entry| entry.unwrap().path()).find(is_library).unwrap();
    let name = format!("libs/{}", path.file_name().unwrap().to_str().unwrap());
    let mut packed = files("extension.onnx");
    packed.files.insert(name.clone(), std::fs::read(path).unwrap());
    check(with(&packed, &[&name]).unwrap());
    packed.files.insert("libs/ops.so".to_owned(), b"no library".to_vec());
    let message = with(&packed, &["libs/ops.so"]).err().unwrap().message;
    assert!(message.starts_with("the library `libs/ops.so` of operators cannot be loaded: "), "{message}");
    let error = with(&packed, &["no_such_package"]).err().unwrap();
    assert!(error.is_unavailable() && error.message.contains("the package `no_such_package`"), "{error:?}");
}
