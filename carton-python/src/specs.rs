//! Declared inputs and outputs.

use std::hash::{Hash, Hasher};

use carton_core::metadata;
use carton_core::{DataType, Dimension, SymbolicShape, signature};
use carton_tensor::UnknownDataType;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString, PyTuple};

use crate::{errors, runtime, tensors};

/// What a carton declares of one input or output.
#[pyclass(frozen, eq, hash, module = "carton")]
#[derive(Clone, Debug)]
pub(crate) struct TensorSpec(pub(crate) metadata::TensorSpec);

impl TensorSpec {
    /// What makes two specs equal. That an input is not optional may be said, or not.
    fn parts(&self) -> (&str, DataType, String, Option<&str>, Option<&str>, bool) {
        let spec = &self.0;
        let texts = (spec.description.as_deref(), spec.internal_name.as_deref());
        (&spec.name, spec.dtype, spec.shape.to_string(), texts.0, texts.1, spec.is_optional())
    }
}

impl PartialEq for TensorSpec {
    fn eq(&self, other: &Self) -> bool {
        self.parts() == other.parts()
    }
}

impl Hash for TensorSpec {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.parts().hash(state);
    }
}

#[pymethods]
impl TensorSpec {
    #[new]
    #[pyo3(signature = (name, dtype, shape=None, *, description=None, internal_name=None, optional=None))]
    fn new(
        name: String,
        dtype: &Bound<'_, PyAny>,
        shape: Option<&Bound<'_, PyAny>>,
        description: Option<String>,
        internal_name: Option<String>,
        optional: Option<bool>,
    ) -> PyResult<Self> {
        let shape = shape.map_or(Ok(SymbolicShape::Any), symbolic_shape)?;
        let mut spec = metadata::TensorSpec::new(name, data_type(dtype)?, shape);
        spec.description = description;
        spec.internal_name = internal_name;
        spec.optional = optional;
        Ok(Self(spec))
    }

    /// The name that callers use.
    #[getter]
    fn name(&self) -> &str {
        &self.0.name
    }

    /// The element type, such as `float32` or `bool`; `string` for texts, `bytes` for bytes.
    #[getter]
    fn dtype(&self) -> String {
        self.0.dtype.to_string()
    }

    /// A tuple of sizes (`int`), symbols (`str`) and `"*"`; or one text for the whole shape.
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        Ok(match &self.0.shape {
            SymbolicShape::Any => PyString::new(py, "*").into_any(),
            SymbolicShape::Symbol(name) => PyString::new(py, name).into_any(),
            SymbolicShape::Dimensions(dimensions) => {
                let sizes = dimensions.iter().map(|dimension| match dimension {
                    Dimension::Any => Ok(PyString::new(py, "*").into_any()),
                    Dimension::Symbol(name) => Ok(PyString::new(py, name).into_any()),
                    Dimension::Fixed(size) => Ok(size.into_pyobject(py)?.into_any()),
                });
                PyTuple::new(py, sizes.collect::<PyResult<Vec<_>>>()?)?.into_any()
            }
        })
    }

    /// What it is, in Markdown.
    #[getter]
    fn description(&self) -> Option<&str> {
        self.0.description.as_deref()
    }

    /// The name inside the model, if it differs.
    #[getter]
    fn internal_name(&self) -> Option<&str> {
        self.0.internal_name.as_deref()
    }

    /// Whether a call may leave the input out.
    #[getter]
    fn optional(&self) -> bool {
        self.0.is_optional()
    }

    /// What `pickle` makes an equal spec of.
    fn __getnewargs_ex__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let named = PyDict::new(py);
        named.set_item("description", self.description())?;
        named.set_item("internal_name", self.internal_name())?;
        named.set_item("optional", self.0.optional)?;
        ((self.name(), self.dtype(), self.shape(py)?), named).into_pyobject(py)
    }

    fn __repr__(&self) -> String {
        format!("TensorSpec({:?}, {:?}, {})", self.0.name, self.0.dtype.name(), self.0.shape)
    }
}

/// The dtype that a value names: a name of the format, or anything that `numpy.dtype` takes.
///
/// # Errors
/// Cartons have no such dtype.
pub(crate) fn data_type(value: &Bound<'_, PyAny>) -> PyResult<DataType> {
    let py = value.py();
    let refused =
        |name: &str, advice: &str| errors::invalid(py, &format!("cartons have no tensors of dtype {name}{advice}"));
    let direct = value.cast::<PyString>().ok().map(|text| text.to_string().parse::<DataType>());
    if let Some(Ok(dtype)) = direct {
        return Ok(dtype);
    }
    let numpy = match (py.import("numpy")?.call_method1("dtype", (value,)), direct) {
        (Ok(numpy), _) => numpy,
        // A name that not even NumPy has.
        (Err(_), Some(Err(unknown))) => return Err(errors::invalid(py, &unknown.to_string())),
        (Err(error), _) => return Err(error),
    };
    let name: String = numpy.getattr("name")?.extract()?;
    let dtype = match numpy.getattr("kind")?.extract::<String>()?.as_str() {
        "U" | "T" | "O" => Some(DataType::String),
        "S" => Some(DataType::Bytes),
        _ => name.parse().ok(),
    };
    dtype.ok_or_else(|| refused(&name, UnknownDataType(name.clone()).advice()))
}

fn symbolic_shape(value: &Bound<'_, PyAny>) -> PyResult<SymbolicShape> {
    if let Ok(text) = value.cast::<PyString>() {
        return Ok(match text.to_str()? {
            "*" => SymbolicShape::Any,
            name => SymbolicShape::Symbol(name.to_owned()),
        });
    }
    let dimensions = value.try_iter()?.map(|dimension| {
        let dimension = dimension?;
        if dimension.is_none() {
            return Ok(Dimension::Any);
        }
        if let Ok(text) = dimension.cast::<PyString>() {
            return Ok(match text.to_str()? {
                "*" => Dimension::Any,
                name => Dimension::Symbol(name.to_owned()),
            });
        }
        let size = dimension.extract::<u64>();
        size.map(Dimension::Fixed)
            .map_err(|_| PyTypeError::new_err("a dimension is an int, a symbol (str), \"*\" or None"))
    });
    Ok(SymbolicShape::Dimensions(dimensions.collect::<PyResult<_>>()?))
}

/// Casts values to the dtypes of the declared inputs, where nothing changes but floats that are rounded to shorter ones: for numbers of
/// tables and of JSON. What is not declared stays as it is.
#[pyfunction]
pub(crate) fn cast_inputs<'py>(
    py: Python<'py>,
    specs: Vec<PyRef<'py, TensorSpec>>,
    inputs: &Bound<'py, PyDict>,
) -> PyResult<Bound<'py, PyDict>> {
    let values = tensors::named_tensors(inputs)?;
    let specs: Vec<metadata::TensorSpec> = specs.iter().map(|spec| spec.0.clone()).collect();
    tensors::outputs(py, runtime::blocking(py, None, move |_| signature::cast_inputs(&specs, values))?)
}
