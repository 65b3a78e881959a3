//! Declared inputs and outputs.

use std::hash::{Hash, Hasher};

use carton_core::metadata;
use carton_core::tensor::ElementKind;
use carton_core::{DataType, Dimension, SymbolicShape};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString, PyTuple};

use crate::errors;

/// What a carton declares of one input or output.
#[pyclass(frozen, eq, hash, module = "carton")]
#[derive(Clone, Debug)]
pub(crate) struct TensorSpec(pub(crate) metadata::TensorSpec);

impl TensorSpec {
    /// What makes two specs equal. That an input is not optional may be said, or not.
    fn parts(&self) -> (&str, DataType, Option<ElementKind>, String, Option<&str>, Option<&str>, bool) {
        let spec = &self.0;
        let texts = (spec.description.as_deref(), spec.internal_name.as_deref());
        (&spec.name, spec.dtype, spec.element, spec.shape.to_string(), texts.0, texts.1, spec.is_optional())
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
    #[pyo3(signature = (name, dtype, shape=None, *, element=None, description=None, internal_name=None, optional=None))]
    fn new(
        name: String,
        dtype: &Bound<'_, PyAny>,
        shape: Option<&Bound<'_, PyAny>>,
        element: Option<&str>,
        description: Option<String>,
        internal_name: Option<String>,
        optional: Option<bool>,
    ) -> PyResult<Self> {
        let shape = shape.map_or(Ok(SymbolicShape::Any), symbolic_shape)?;
        let invalid = |text: String| errors::invalid(dtype.py(), &text);
        let (data_type, kind) = elements(dtype)?;
        let mut spec = metadata::TensorSpec::new(name, data_type, shape);
        spec.element = match element {
            Some(name) => Some(name.parse::<ElementKind>().map_err(|error| invalid(error.to_string()))?),
            None => kind,
        };
        if let Some(kind) = spec.element.filter(|kind| kind.dtype() != data_type) {
            return Err(invalid(format!(
                "element={:?} needs dtype={:?}, found {data_type}",
                kind.name(),
                kind.dtype().name()
            )));
        }
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

    /// The element type, such as `float32`; `string` for texts.
    #[getter]
    fn dtype(&self) -> String {
        self.0.dtype.to_string()
    }

    /// What the elements are, where `dtype` does not say it: `bool` for `uint8` that are booleans; otherwise None.
    #[getter]
    fn element(&self) -> Option<&'static str> {
        self.0.element.map(ElementKind::name)
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
        named.set_item("element", self.element())?;
        named.set_item("description", self.description())?;
        named.set_item("internal_name", self.internal_name())?;
        named.set_item("optional", self.0.optional)?;
        ((self.name(), self.dtype(), self.shape(py)?), named).into_pyobject(py)
    }

    fn __repr__(&self) -> String {
        format!("TensorSpec({:?}, {:?}, {})", self.0.name, self.0.element_name(), self.0.shape)
    }
}

/// The elements that a value names, a name of the format or anything that `numpy.dtype` takes: their dtype, and what they are beyond it.
///
/// # Errors
/// Cartons have no such dtype.
pub(crate) fn elements(value: &Bound<'_, PyAny>) -> PyResult<(DataType, Option<ElementKind>)> {
    let named = |text: &str| match text.parse::<ElementKind>() {
        Ok(kind) => Some((kind.dtype(), Some(kind))),
        Err(_) => text.parse::<DataType>().ok().map(|dtype| (dtype, None)),
    };
    let direct = value.cast::<PyString>().ok().map(|text| text.to_string());
    if let Some(elements) = direct.as_deref().and_then(named) {
        return Ok(elements);
    }
    let numpy = value.py().import("numpy")?.call_method1("dtype", (value,))?;
    let name: String = numpy.getattr("name")?.extract()?;
    let is_text = ["U", "T", "O"].contains(&numpy.getattr("kind")?.extract::<String>()?.as_str());
    let elements = if is_text { Some((DataType::String, None)) } else { named(&name) };
    elements.ok_or_else(|| errors::invalid(value.py(), &format!("cartons have no tensors of dtype {name}")))
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
