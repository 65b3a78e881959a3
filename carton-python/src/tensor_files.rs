//! Tensor files: safetensors, sharded checkpoints, zTensor, `.npy` and `.npz`.

use carton_core::ErrorKind;
use carton_tensor::any_file::{TensorFile as AnyFile, TensorFileError};
use pyo3::exceptions::PyKeyError;
use pyo3::prelude::*;

use crate::paths::GivenPath;
use crate::{errors, memory, tensors};

fn failed(py: Python<'_>, error: &TensorFileError) -> PyErr {
    let kind = match error {
        error if error.is_malformed() => ErrorKind::Integrity,
        error if error.is_about_content() => ErrorKind::InvalidInput,
        _ => ErrorKind::Machine,
    };
    errors::of_kind_with_hint(py, kind, error, error.hint())
}

/// An open tensor file, whose tensors are views of the mapped file. `carton.tensors` documents it.
#[pyclass(frozen, module = "carton.tensors", name = "_TensorFile")]
pub(crate) struct TensorFile(AnyFile);

#[pymethods]
impl TensorFile {
    #[new]
    fn new(py: Python<'_>, path: GivenPath) -> PyResult<Self> {
        py.detach(|| AnyFile::map(path.0)).map(Self).map_err(|error| failed(py, &error))
    }

    #[getter]
    fn format(&self) -> &'static str {
        self.0.format().name()
    }

    fn names(&self) -> Vec<&str> {
        self.0.entries().map(|entry| entry.name()).collect()
    }

    fn metadata(&self, py: Python<'_>) -> PyResult<Vec<(String, String)>> {
        self.0.metadata().map_err(|error| failed(py, &error))
    }

    /// The dtype's name, the shape and the layout of a tensor; the dtype is `None` where it is not a number.
    fn describe(&self, name: &str) -> PyResult<(Option<String>, Vec<usize>, &str)> {
        let entry = self.0.entry(name).map_err(|_| PyKeyError::new_err(name.to_owned()))?;
        Ok((entry.dtype().map(|dtype| dtype.to_string()), entry.shape().to_vec(), entry.layout()))
    }

    /// The dtype's name, the shape, and the bytes of a tensor as an array of `uint8`; or, of strings, an array of them.
    fn read<'py>(&self, py: Python<'py>, name: &str) -> PyResult<(Option<String>, Vec<usize>, Bound<'py, PyAny>)> {
        let entry = self.0.entry(name).map_err(|_| PyKeyError::new_err(name.to_owned()))?;
        if entry.dtype().is_none() {
            let tensor = py.detach(|| entry.read_tensor()).map_err(|error| failed(py, &error))?;
            return Ok((None, entry.shape().to_vec(), tensors::value(py, tensor)?));
        }
        let tensor = py.detach(|| entry.read()).map_err(|error| failed(py, &error))?;
        let array = memory::bytes_array(py, tensor.bytes())?;
        Ok((Some(tensor.dtype().to_string()), tensor.shape().to_vec(), array))
    }
}
