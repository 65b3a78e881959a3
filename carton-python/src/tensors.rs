//! Tensors as Python values, and Python values as tensors.

use std::collections::BTreeMap;

use carton_core::metadata::TensorSpec;
use carton_core::{DataType, Inputs, StringTensor, Tensor, Tensors};
use carton_tensor::BytesTensor;
use numpy::{PyUntypedArray, PyUntypedArrayMethods};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyDict, PyList, PyMapping, PyTuple};

use crate::runtime::Inside;
use crate::{errors, memory, python_call};

/// The module with the conversions that are said in Python.
fn conversions(py: Python<'_>) -> PyResult<&Bound<'_, PyModule>> {
    static MODULE: PyOnceLock<Py<PyModule>> = PyOnceLock::new();
    let module = MODULE.get_or_try_init(py, || py.import("carton._convert").map(Bound::unbind))?;
    Ok(module.bind(py))
}

/// A value as a tensor: an array, or whatever `carton._convert` makes one of. `name` is that of the input, for errors.
///
/// # Errors
/// The value has no elements that a tensor can have.
pub(crate) fn tensor(value: &Bound<'_, PyAny>, name: &str) -> PyResult<Tensor> {
    let py = value.py();
    // Subclasses may mean more than their elements: masked arrays do.
    if let Ok(array) = value.cast_exact::<PyUntypedArray>()
        && let Some(tensor) = of_array(array)
    {
        return tensor.map_err(|error| errors::invalid(py, &format!("input `{name}`: {error}")));
    }
    // A contiguous array of numbers; a list of strings or bytes and a shape; a list of tensors of several shapes; or the bits of floats that
    // NumPy lacks, whose kind is the name of their dtype.
    let (kind, converted, shape): (String, Bound<'_, PyAny>, Vec<usize>) = {
        let _inside = Inside::enter();
        let plain = conversions(py)?.getattr("plain")?;
        python_call::call(&plain, &(value, name).into_pyobject(py)?, None)?.extract()?
    };
    let invalid = |error: carton_core::TensorError| errors::invalid(py, &format!("input `{name}`: {error}"));
    match kind.as_str() {
        "strings" => Ok(StringTensor::new(converted.extract()?, shape).map_err(invalid)?.into()),
        "bytes" => {
            let elements: Vec<Bound<'_, PyBytes>> = converted.extract()?;
            let elements = elements.iter().map(|element| element.as_bytes().to_vec()).collect();
            Ok(BytesTensor::new(elements, shape).map_err(invalid)?.into())
        }
        "nested" => {
            let elements = converted.try_iter()?.map(|element| tensor(&element?, name)).collect::<PyResult<_>>()?;
            Tensor::nested(elements).map_err(invalid)
        }
        _ => {
            let array = converted.cast::<PyUntypedArray>()?;
            let refused = || errors::invalid(py, &format!("input `{name}` is not a tensor"));
            let bits = kind.parse().ok().filter(|dtype| memory::bits_of(*dtype).is_some());
            let tensor = match bits.filter(|_| array.is_c_contiguous()) {
                Some(dtype) if memory::dtype_of(array) == memory::bits_of(dtype) => {
                    memory::numeric_tensor(array, dtype).map(Tensor::from)
                }
                _ => of_array(array).ok_or_else(refused)?,
            };
            tensor.map_err(invalid)
        }
    }
}

/// The tensor of a contiguous array of numbers or booleans; `None` for other arrays.
fn of_array(array: &Bound<'_, PyUntypedArray>) -> Option<Result<Tensor, carton_core::TensorError>> {
    let dtype = memory::dtype_of(array).filter(|_| array.is_c_contiguous())?;
    Some(memory::numeric_tensor(array, dtype).map(Tensor::from))
}

/// The inputs of a call: by name, or in the order in which the carton declares them.
///
/// `specs` are the declared inputs, if the carton declares them. Structured values become their leaves.
///
/// # Errors
/// There are both; or a value is not a tensor.
pub(crate) fn inputs(
    positional: &Bound<'_, PyTuple>,
    named: Option<&Bound<'_, PyDict>>,
    specs: Option<&[TensorSpec]>,
) -> PyResult<Inputs> {
    let py = positional.py();
    let values = named.map(PyDictMethods::values);
    let has_structure = specs.unwrap_or_default().iter().any(|spec| spec.name.contains(['.', '[']))
        || positional.iter().any(|value| may_be_structured(&value))
        || values.is_some_and(|values| values.iter().any(|value| may_be_structured(&value)));
    if !has_structure || !positional.is_empty() && named.is_some_and(|named| !named.is_empty()) {
        return texts_for(py, specs.unwrap_or_default(), plain_inputs(positional, named)?);
    }
    let names: Option<Vec<&str>> = specs.map(|specs| specs.iter().map(|spec| spec.name.as_str()).collect());
    let (positional, named): (Bound<'_, PyTuple>, Bound<'_, PyDict>) = {
        let _inside = Inside::enter();
        let leaves = py.import("carton._structure")?.getattr("of_inputs")?;
        python_call::call(&leaves, &(positional, named, names).into_pyobject(py)?, None)?.extract()?
    };
    texts_for(py, specs.unwrap_or_default(), plain_inputs(&positional, Some(&named))?)
}

/// Whether a value may be of more than one tensor. Most are arrays, which are not looked at twice.
fn may_be_structured(value: &Bound<'_, PyAny>) -> bool {
    !value.is_exact_instance_of::<PyUntypedArray>()
        && (value.is_instance_of::<PyTuple>()
            || value.is_instance_of::<PyList>()
            || value.cast::<PyMapping>().is_ok()
            || value.hasattr("__dataclass_fields__").unwrap_or_default())
}

fn plain_inputs(positional: &Bound<'_, PyTuple>, named: Option<&Bound<'_, PyDict>>) -> PyResult<Inputs> {
    let py = positional.py();
    let has_named = named.is_some_and(|named| !named.is_empty());
    match (positional.len(), has_named) {
        (0, _) => Ok(Inputs::Named(named.map(named_tensors).transpose()?.unwrap_or_default())),
        (1, false) => {
            let first = positional.get_item(0)?;
            match as_dict(&first)? {
                Some(named) => Ok(Inputs::Named(named_tensors(&named)?)),
                None => Ok(Inputs::Positional(vec![tensor(&first, "0")?])),
            }
        }
        (_, false) => {
            let tensors = positional.iter().enumerate().map(|(number, value)| tensor(&value, &number.to_string()));
            Ok(Inputs::Positional(tensors.collect::<PyResult<_>>()?))
        }
        (_, true) => Err(errors::invalid(py, "inputs are passed by name or by position, not both")),
    }
}

/// The value as a dict, if it is a mapping.
fn as_dict<'py>(value: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyDict>>> {
    if let Ok(dict) = value.cast::<PyDict>() {
        return Ok(Some(dict.clone()));
    }
    match value.cast::<PyMapping>() {
        Ok(mapping) if !value.hasattr("__array__")? => {
            let dict = PyDict::new(value.py());
            dict.update(mapping)?;
            Ok(Some(dict))
        }
        _ => Ok(None),
    }
}

pub(crate) fn named_tensors(named: &Bound<'_, PyDict>) -> PyResult<BTreeMap<String, Tensor>> {
    let tensors = named.iter().map(|(name, value)| {
        let name: String = name.extract()?;
        let tensor = tensor(&value, &name)?;
        Ok((name, tensor))
    });
    tensors.collect()
}

/// Makes text of bytes for the inputs that the carton declares as strings, where they are UTF-8: NumPy keeps ASCII in arrays of bytes.
///
/// # Errors
/// They are not UTF-8.
fn texts_for(py: Python<'_>, specs: &[TensorSpec], inputs: Inputs) -> PyResult<Inputs> {
    let text = |name: &str, tensor: Tensor| {
        let is_string = specs.iter().any(|spec| spec.name == name && spec.dtype == DataType::String);
        let Some(bytes) = tensor.as_bytes().filter(|_| is_string) else { return Ok(tensor) };
        let invalid = |text: &str| errors::invalid(py, &format!("input `{name}` takes texts, {text}"));
        let texts = bytes.elements().iter().map(|element| String::from_utf8(element.clone()));
        let texts = texts.collect::<Result<Vec<_>, _>>().map_err(|_| invalid("and these bytes are not UTF-8"))?;
        let texts = StringTensor::new(texts, bytes.shape().to_vec()).map_err(|error| invalid(&error.to_string()))?;
        Ok(Tensor::from(texts))
    };
    Ok(match inputs {
        Inputs::Named(named) => {
            let texts = named.into_iter().map(|(name, tensor)| {
                let tensor = text(&name, tensor)?;
                Ok((name, tensor))
            });
            Inputs::Named(texts.collect::<PyResult<_>>()?)
        }
        Inputs::Positional(tensors) => {
            let names = specs.iter().map(|spec| spec.name.as_str()).chain(std::iter::repeat(""));
            Inputs::Positional(names.zip(tensors).map(|(name, tensor)| text(name, tensor)).collect::<PyResult<_>>()?)
        }
        other => other,
    })
}

/// Copies the inputs into memory of their own, which later changes to the caller's arrays do not reach.
///
/// # Errors
/// A size overflows.
pub(crate) fn owned(inputs: Inputs) -> Result<Inputs, carton_core::TensorError> {
    Ok(match inputs {
        Inputs::Named(named) => {
            let copied = named.into_iter().map(|(name, tensor)| Ok((name, tensor.copied()?)));
            Inputs::Named(copied.collect::<Result<_, _>>()?)
        }
        Inputs::Positional(tensors) => {
            Inputs::Positional(tensors.iter().map(Tensor::copied).collect::<Result<_, _>>()?)
        }
        other => other,
    })
}

/// Outputs as a dict of arrays.
pub(crate) fn outputs<'py>(py: Python<'py>, tensors: Tensors) -> PyResult<Bound<'py, PyDict>> {
    let outputs = PyDict::new(py);
    for (name, tensor) in tensors {
        outputs.set_item(name, value(py, tensor)?)?;
    }
    Ok(outputs)
}

/// Strings as an array of `str`.
pub(crate) fn strings<'py>(py: Python<'py>, elements: &[String], shape: &[usize]) -> PyResult<Bound<'py, PyAny>> {
    conversions(py)?.call_method1("strings", (elements, shape))
}

/// Bytes as an array of `bytes`.
pub(crate) fn bytes<'py, 'a>(
    py: Python<'py>,
    elements: impl ExactSizeIterator<Item = &'a [u8]>,
    shape: &[usize],
) -> PyResult<Bound<'py, PyAny>> {
    let elements = PyList::new(py, elements.map(|element| PyBytes::new(py, element)))?;
    conversions(py)?.call_method1("strings", (elements, shape))
}

/// A tensor as an array; a nested one as a list of arrays.
pub(crate) fn value<'py>(py: Python<'py>, tensor: Tensor) -> PyResult<Bound<'py, PyAny>> {
    match tensor {
        Tensor::Numeric(tensor) => memory::read_only_array(py, tensor),
        Tensor::String(tensor) => strings(py, tensor.elements(), tensor.shape()),
        Tensor::Bytes(tensor) => bytes(py, tensor.elements().iter().map(Vec::as_slice), tensor.shape()),
        Tensor::Nested(nested) => {
            let elements = nested.elements().iter().cloned().map(|element| value(py, element));
            Ok(PyList::new(py, elements.collect::<PyResult<Vec<_>>>()?)?.into_any())
        }
        other => Err(errors::invalid(py, &format!("there is no array for {other:?}"))),
    }
}
