//! Real models, made and run by other programs (`tests/models/make.py`), through ONNX Runtime.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod cases;
mod hostile;
mod messages;
mod packing;
mod real;
mod types;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use carton_runner_interface::runner::{DeclaredTensor, RunnerError, Tensors};
use carton_tensor::{AlignedBytes, BoolByte, DataType, NumericTensor, Storage, StringTensor, Tensor};
use serde_json::Value;

use crate::Onnx;
use crate::library::SearchPath;
use crate::model_source::Files;
use crate::options::ModelOptions;

/// The folder with the models.
pub(super) fn models() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/models")
}

/// The files of a model: by name, in memory, and in a folder if ONNX Runtime is to use one.
#[derive(Default)]
pub(crate) struct TestFiles {
    pub(crate) files: BTreeMap<String, Vec<u8>>,
    pub(crate) directory: Option<PathBuf>,
}

impl TestFiles {
    /// One model of `tests/models`: a single `.onnx` file, or all files of its folder.
    pub(super) fn of_model(name: &str) -> Self {
        let (folder, names) = match name.split_once('/') {
            Some((folder, _)) => (models().join(folder), None),
            None => (models(), Some(name)),
        };
        let mut files = BTreeMap::new();
        let mut folders = vec![(folder.clone(), String::new())];
        while let Some((folder, prefix)) = folders.pop() {
            for entry in folder.read_dir().unwrap().map(Result::unwrap) {
                let path = format!("{prefix}{}", entry.file_name().into_string().unwrap());
                if entry.file_type().unwrap().is_dir() {
                    if names.is_none() {
                        folders.push((entry.path(), format!("{path}/")));
                    }
                } else if names.is_none_or(|name| name == path) {
                    files.insert(path, std::fs::read(entry.path()).unwrap());
                }
            }
        }
        Self { files, directory: Some(folder) }
    }

    /// A model of the given bytes.
    pub(super) fn of_bytes(bytes: Vec<u8>) -> Self {
        Self { files: BTreeMap::from([("model.onnx".to_owned(), bytes)]), directory: None }
    }

    /// The same files without a folder, as a runner sees them whose files are mapped inside the carton.
    pub(super) fn into_ranges(mut self) -> Self {
        self.directory = None;
        self
    }
}

impl Files for TestFiles {
    fn paths(&self) -> Vec<String> {
        self.files.keys().cloned().collect()
    }

    fn directory(&self) -> Option<&Path> {
        self.directory.as_deref()
    }

    fn map(&self, path: &str) -> std::io::Result<Arc<dyn Storage>> {
        let bytes = self.files.get(path).ok_or(std::io::ErrorKind::NotFound)?;
        Ok(Arc::new(AlignedBytes::copy_of(bytes)))
    }
}

/// The location of ONNX Runtime, which `CARTON_TEST_ONNXRUNTIME` names (`scripts/test` sets it). Without it, returns `None`
/// and prints that to standard error.
pub(super) fn onnx_runtime() -> Option<SearchPath> {
    let Some(library) = std::env::var_os("CARTON_TEST_ONNXRUNTIME") else {
        eprintln!("skipped: CARTON_TEST_ONNXRUNTIME does not name a library of ONNX Runtime");
        return None;
    };
    Some(SearchPath { chosen: Some(library.into()), installed: None, wanted: None })
}

/// Loads a model and returns it with the warnings it gave.
pub(super) fn open(files: &TestFiles) -> Result<(Onnx, Vec<String>), RunnerError> {
    open_with(files, &ModelOptions::default(), &[], &[])
}

/// Loads a model with options and a declared signature. Without a library, what is checked before one is loaded still is.
pub(super) fn open_with(
    files: &TestFiles,
    options: &ModelOptions,
    inputs: &[DeclaredTensor],
    outputs: &[DeclaredTensor],
) -> Result<(Onnx, Vec<String>), RunnerError> {
    let libraries = onnx_runtime().unwrap_or_default();
    let mut warnings = Vec::new();
    let model = Onnx::open(files, options, None, (inputs, outputs), &libraries, &mut |warning| warnings.push(warning))?;
    Ok((model, warnings))
}

/// Runs a model with outputs on the heap.
pub(super) fn run(model: &Onnx, inputs: &Tensors) -> Result<Tensors, RunnerError> {
    model.run(inputs, &|dtype, shape| {
        let n_bytes = shape.iter().product::<usize>() * dtype.size().unwrap_or(0);
        Ok(NumericTensor::new(dtype, shape.to_vec(), Arc::new(AlignedBytes::zeroed(n_bytes)))?)
    })
}

/// Reads tensors in the format of `cases.json`.
pub(super) fn tensors(json: &Value) -> Tensors {
    json.as_object().unwrap().iter().map(|(name, json)| (name.clone(), tensor(json))).collect()
}

/// A tensor as its elements or their bits, or a list of tensors.
fn tensor(json: &Value) -> Tensor {
    if let Some(list) = json["list"].as_array() {
        return Tensor::nested(list.iter().map(tensor).collect()).unwrap();
    }
    let shape: Vec<usize> = serde_json::from_value(json["shape"].clone()).unwrap();
    let dtype: DataType = json["dtype"].as_str().unwrap().parse().unwrap();
    if let Some(bits) = json["bits"].as_array() {
        let width = dtype.size().unwrap();
        let bytes = bits.iter().flat_map(|bits| bits.as_u64().unwrap().to_le_bytes()[..width].to_vec());
        return NumericTensor::copy_from_bytes(dtype, shape, &bytes.collect::<Vec<u8>>()).unwrap().into();
    }
    macro_rules! numbers {
        ($element:ty) => {{
            let elements: Vec<$element> = serde_json::from_value(json["data"].clone()).unwrap();
            NumericTensor::from_vec(elements, shape).unwrap().into()
        }};
    }
    match dtype {
        DataType::Float32 => numbers!(f32),
        DataType::Float64 => numbers!(f64),
        DataType::Int8 => numbers!(i8),
        DataType::Int16 => numbers!(i16),
        DataType::Int32 => numbers!(i32),
        DataType::Int64 => numbers!(i64),
        DataType::Uint8 => numbers!(u8),
        DataType::Uint16 => numbers!(u16),
        DataType::Uint32 => numbers!(u32),
        DataType::Uint64 => numbers!(u64),
        DataType::Bool => {
            let elements: Vec<u8> = serde_json::from_value(json["data"].clone()).unwrap();
            NumericTensor::from_vec(elements.into_iter().map(BoolByte).collect(), shape).unwrap().into()
        }
        DataType::String => {
            let elements: Vec<String> = serde_json::from_value(json["data"].clone()).unwrap();
            StringTensor::new(elements, shape).unwrap().into()
        }
        other => panic!("{other}"),
    }
}
