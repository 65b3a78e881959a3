//! Outputs as Arrow arrays, and Arrow arrays as inputs, through the PyCapsule interface: neither side needs pyarrow.
//!
//! A tensor of rank n is an array of nested fixed-size lists, one element for each element of its first dimension.

use std::ffi::CStr;
use std::ptr::NonNull;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::ffi::{self, FFI_ArrowArray, FFI_ArrowSchema};
use arrow_array::ffi_stream::ArrayStreamReader;
use arrow_array::{
    Array, ArrayReader, ArrayRef, BinaryArray, LargeBinaryArray, LargeStringArray, OffsetSizeTrait, StringArray,
    StructArray, make_array, types,
};
use arrow_buffer::{Buffer, OffsetBuffer};
use arrow_data::ArrayData;
use arrow_schema::{ArrowError, DataType as ArrowType, Field, Fields};
use carton_core::{DataType, NumericTensor};
use carton_dataset::column::{ExtensionType, Fault};
use numpy::{PyUntypedArray, PyUntypedArrayMethods};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyCapsule, PyTuple};

use crate::row_source::STREAM;
use crate::{errors, memory, tensors};

const SCHEMA: &CStr = c"arrow_schema";
const ARRAY: &CStr = c"arrow_array";

/// A tensor as an Arrow array, or a dict of tensors as a struct array. `carton.arrow` makes it.
#[pyclass(frozen, module = "carton", name = "ArrowArray")]
pub(crate) struct ArrowArray(ArrayRef);

fn invalid(py: Python<'_>, error: &ArrowError) -> PyErr {
    errors::invalid(py, &error.to_string())
}

/// The owner of a buffer of Arrow: keeps the NumPy array alive whose elements the buffer shows.
struct Elements {
    _array: Py<PyAny>,
}

// Nothing is read through the reference.
impl std::panic::RefUnwindSafe for Elements {}

/// An Arrow array of an array of numbers or booleans in C order. Numbers that Arrow has are not copied; floats that it lacks become `float`,
/// which is exact. `bits` is the dtype of floats whose bits the array has.
#[pyfunction]
#[pyo3(signature = (array, bits=None))]
pub(crate) fn arrow_numbers(array: &Bound<'_, PyUntypedArray>, bits: Option<&str>) -> PyResult<ArrowArray> {
    let py = array.py();
    let dtype = match bits.and_then(|name| name.parse().ok()) {
        Some(bits) => Some(bits).filter(|bits| memory::bits_of(*bits) == memory::dtype_of(array)),
        None => memory::dtype_of(array),
    };
    let dtype = dtype.filter(|_| array.is_c_contiguous());
    let dtype = dtype.ok_or_else(|| errors::invalid(py, "expected a contiguous array of numbers"))?;
    if dtype.is_complex() {
        return Err(errors::invalid(py, "Arrow has no complex numbers: pass the real and the imaginary parts"));
    }
    if memory::bits_of(dtype).is_some() {
        let longer = memory::numeric_tensor(array, dtype).map_err(|error| errors::invalid(py, &error.to_string()))?;
        let longer = carton_tensor::carried(&longer.into()).map_err(|error| errors::invalid(py, &error.to_string()))?;
        let floats = longer.view::<f32>().map_err(|error| errors::invalid(py, &error.to_string()))?;
        let floats: arrow_array::Float32Array = floats.iter().map(|float| Some(*float)).collect();
        return Ok(ArrowArray(nested(py, floats.into_data(), array.shape())?));
    }
    let n_bytes = NumericTensor::n_bytes_of(dtype, array.shape());
    let n_bytes = n_bytes.map_err(|error| errors::invalid(py, &error.to_string()))?;
    // SAFETY: an array object is valid while it is borrowed.
    let data = NonNull::new(unsafe { (*array.as_array_ptr()).fields.data.cast::<u8>() });
    let buffer = match data.filter(|_| n_bytes > 0) {
        // SAFETY: a contiguous array has the bytes of its elements at its address as long as it lives. The buffer owns a reference to it.
        Some(data) => unsafe {
            Buffer::from_custom_allocation(
                data,
                n_bytes,
                Arc::new(Elements { _array: array.clone().unbind().into_any() }),
            )
        },
        None => Buffer::default(),
    };
    let length = array.shape().iter().product();
    if dtype == DataType::Bool {
        // Arrow has a bit for each.
        let bools: arrow_array::BooleanArray = buffer.iter().map(|element| Some(*element != 0)).collect();
        return Ok(ArrowArray(nested(py, bools.into_data(), array.shape())?));
    }
    // The builder copies elements that are not aligned.
    let leaf =
        ArrayData::builder(carton_rows::arrow_type(dtype)).len(length).add_buffer(buffer).align_buffers(true).build();
    Ok(ArrowArray(nested(py, leaf.map_err(|error| invalid(py, &error))?, array.shape())?))
}

/// An Arrow array of strings in C order. They are copied.
#[pyfunction]
pub(crate) fn arrow_strings(py: Python<'_>, elements: Vec<String>, shape: Vec<usize>) -> PyResult<ArrowArray> {
    let n_bytes: usize = elements.iter().map(String::len).sum();
    let leaf = match i32::try_from(n_bytes) {
        Ok(_) => StringArray::from(elements).into_data(),
        Err(_) => LargeStringArray::from(elements).into_data(),
    };
    Ok(ArrowArray(nested(py, leaf, &shape)?))
}

/// An Arrow array of bytes in C order. They are copied.
#[pyfunction]
pub(crate) fn arrow_bytes(
    py: Python<'_>,
    elements: Vec<Bound<'_, PyBytes>>,
    shape: Vec<usize>,
) -> PyResult<ArrowArray> {
    let n_bytes: usize = elements.iter().map(|element| element.as_bytes().len()).sum();
    let elements = elements.iter().map(|element| element.as_bytes());
    let leaf = match i32::try_from(n_bytes) {
        Ok(_) => BinaryArray::from_iter_values(elements).into_data(),
        Err(_) => LargeBinaryArray::from_iter_values(elements).into_data(),
    };
    Ok(ArrowArray(nested(py, leaf, &shape)?))
}

/// A struct array with a field for each of these arrays, which consumers take for a record batch.
#[pyfunction]
pub(crate) fn arrow_struct(
    py: Python<'_>,
    names: Vec<String>,
    arrays: Vec<Bound<'_, ArrowArray>>,
) -> PyResult<ArrowArray> {
    let arrays: Vec<ArrayRef> = arrays.iter().map(|array| Arc::clone(&array.get().0)).collect();
    let fields: Fields =
        names.iter().zip(&arrays).map(|(name, array)| Field::new(name, array.data_type().clone(), true)).collect();
    let made = StructArray::try_new(fields, arrays, None);
    Ok(ArrowArray(Arc::new(made.map_err(|error| invalid(py, &error))?)))
}

/// Puts the elements into lists, one level for each dimension but the first.
fn nested(py: Python<'_>, leaf: ArrayData, shape: &[usize]) -> PyResult<ArrayRef> {
    let mut data = leaf;
    for dimension in (1..shape.len()).rev() {
        let size = i32::try_from(shape[dimension]);
        let size = size.map_err(|_| errors::invalid(py, "a dimension is too large for a list of Arrow"))?;
        let item = Field::new("item", data.data_type().clone(), true);
        let lists = ArrayData::builder(ArrowType::FixedSizeList(Arc::new(item), size));
        let length = shape[..dimension].iter().product();
        data = lists.len(length).add_child_data(data).build().map_err(|error| invalid(py, &error))?;
    }
    Ok(make_array(data))
}

#[pymethods]
impl ArrowArray {
    /// The array, for consumers of the Arrow PyCapsule interface: capsules of its schema and of its data. The data is not copied.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_array__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyTuple>> {
        // The interface lets a producer ignore what it cannot do.
        let _ = requested_schema;
        let (array, schema) = ffi::to_ffi(&self.0.to_data()).map_err(|error| invalid(py, &error))?;
        PyTuple::new(py, [PyCapsule::new_with_value(py, schema, SCHEMA)?, PyCapsule::new_with_value(py, array, ARRAY)?])
    }

    /// The type of the array, for consumers of the Arrow PyCapsule interface.
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        let schema = FFI_ArrowSchema::try_from(self.0.data_type()).map_err(|error| invalid(py, &error))?;
        PyCapsule::new_with_value(py, schema, SCHEMA)
    }

    fn __len__(&self) -> usize {
        self.0.len()
    }

    fn __repr__(&self) -> String {
        format!("<carton.ArrowArray of {} {}>", self.0.len(), self.0.data_type())
    }
}

/// The NumPy array of an object with `__arrow_c_array__` or `__arrow_c_stream__`. The numbers of an array, and of a stream of a single
/// array, are not copied.
#[pyfunction]
pub(crate) fn from_arrow<'py>(value: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let py = value.py();
    let mut chunks = Vec::new();
    let refused = |error: &ArrowError| PyValueError::new_err(error.to_string());
    let field = if value.hasattr("__arrow_c_array__")? {
        let (field, array) = imported(value)?;
        chunks.push(array);
        field
    } else {
        let exported = value.call_method0("__arrow_c_stream__")?;
        let stream = exported.cast::<PyCapsule>()?.pointer_checked(Some(STREAM))?;
        // SAFETY: the name of the capsule says that it holds a stream of the Arrow C interface, out of which the reader takes it.
        let reader = unsafe { ArrayStreamReader::from_raw(stream.as_ptr().cast()) };
        let reader = reader.map_err(|error| refused(&error))?;
        let field = reader.field().as_ref().clone();
        for chunk in reader {
            chunks.push(chunk.map_err(|error| refused(&error))?);
        }
        field
    };
    let extension = ExtensionType::of(&field).map_err(|problem| PyTypeError::new_err(problem.to_string()))?;
    let tensor_array = |chunk: &ArrayRef| {
        let logical = extension
            .logical(chunk)
            .map_err(|Fault { row, problem }| PyValueError::new_err(format!("element {row} {problem}")))?;
        tensor_array(py, &logical)
    };
    let arrays = chunks.iter().map(tensor_array).collect::<PyResult<Vec<_>>>()?;
    match <[Bound<'_, PyAny>; 1]>::try_from(arrays) {
        Ok([only]) => Ok(only),
        Err(arrays) if arrays.is_empty() => Err(PyValueError::new_err("it is a stream without any chunk")),
        Err(arrays) => py.import("numpy")?.call_method1("concatenate", (arrays,)),
    }
}

/// The array that an object exports, and its field. Offsets and strings of it are checked.
fn imported(value: &Bound<'_, PyAny>) -> PyResult<(Field, ArrayRef)> {
    let (schema, array): (Bound<'_, PyCapsule>, Bound<'_, PyCapsule>) =
        value.call_method0("__arrow_c_array__")?.extract()?;
    let schema = schema.pointer_checked(Some(SCHEMA))?.cast::<FFI_ArrowSchema>();
    let array = array.pointer_checked(Some(ARRAY))?.cast::<FFI_ArrowArray>();
    // SAFETY: the names of the capsules say what they hold. The array is taken out of its capsule, which keeps a released one. The schema
    // is borrowed from its capsule, which lives until this function returns. The interface says that the memory of an array stays valid
    // until the array is released.
    let data = unsafe { ffi::from_ffi(FFI_ArrowArray::from_raw(array.as_ptr()), schema.as_ref()) };
    let data = data.and_then(|mut data| {
        data.align_buffers();
        data.validate_full().map(|()| data)
    });
    let refused = |error: ArrowError| PyValueError::new_err(error.to_string());
    // SAFETY: as above.
    let field = Field::try_from(unsafe { schema.as_ref() }).map_err(refused)?;
    Ok((field, make_array(data.map_err(refused)?)))
}

/// A NumPy array of the elements, without its lists.
fn tensor_array<'py>(py: Python<'py>, array: &ArrayRef) -> PyResult<Bound<'py, PyAny>> {
    let refused = |error: &ArrowError| PyValueError::new_err(error.to_string());
    let (mut leaf, mut shape) = (carton_rows::decoded(array).map_err(|error| refused(&error))?, vec![array.len()]);
    loop {
        let n_missing = leaf.null_count();
        if n_missing > 0 {
            let plural = if n_missing > 1 { "s" } else { "" };
            return Err(PyValueError::new_err(format!("it has {n_missing} missing value{plural}")));
        }
        let (size, next) = match leaf.data_type() {
            ArrowType::FixedSizeList(_, size) => {
                (usize::try_from(*size).unwrap_or_default(), Arc::clone(leaf.as_fixed_size_list().values()))
            }
            ArrowType::List(_) => of_lists(leaf.as_list::<i32>().offsets(), leaf.as_list::<i32>().values())?,
            ArrowType::LargeList(_) => of_lists(leaf.as_list::<i64>().offsets(), leaf.as_list::<i64>().values())?,
            _ => break,
        };
        shape.push(size);
        leaf = carton_rows::decoded(&next).map_err(|error| refused(&error))?;
    }
    if let Some(elements) = bytes_of(&leaf) {
        return tensors::bytes(py, elements.into_iter(), &shape);
    }
    let texts: Vec<String> = match leaf.data_type() {
        ArrowType::Utf8 => leaf.as_string::<i32>().iter().flatten().map(str::to_owned).collect(),
        ArrowType::LargeUtf8 => leaf.as_string::<i64>().iter().flatten().map(str::to_owned).collect(),
        ArrowType::Utf8View => leaf.as_string_view().iter().flatten().map(str::to_owned).collect(),
        _ => return numbers(py, &leaf, shape),
    };
    tensors::strings(py, &texts, &shape)
}

/// The values of a flat array of bytes; `None` if it has others.
fn bytes_of(leaf: &ArrayRef) -> Option<Vec<&[u8]>> {
    Some(match leaf.data_type() {
        ArrowType::Binary => leaf.as_binary::<i32>().iter().flatten().collect(),
        ArrowType::LargeBinary => leaf.as_binary::<i64>().iter().flatten().collect(),
        ArrowType::BinaryView => leaf.as_binary_view().iter().flatten().collect(),
        ArrowType::FixedSizeBinary(_) => leaf.as_fixed_size_binary().iter().flatten().collect(),
        _ => return None,
    })
}

/// The length that all lists have, and their elements.
fn of_lists<O: OffsetSizeTrait>(offsets: &OffsetBuffer<O>, values: &ArrayRef) -> PyResult<(usize, ArrayRef)> {
    let mut lengths = offsets.lengths();
    let length = lengths.next().unwrap_or(0);
    if let Some(other) = lengths.find(|other| *other != length) {
        return Err(PyValueError::new_err(format!("it has lists of several lengths: {length} and {other}")));
    }
    let (start, end) = (offsets.first().as_usize(), offsets.last().as_usize());
    Ok((length, values.slice(start, end.saturating_sub(start))))
}

fn numbers<'py>(py: Python<'py>, leaf: &ArrayRef, shape: Vec<usize>) -> PyResult<Bound<'py, PyAny>> {
    macro_rules! buffer_of {
        ($arrow:ident) => {
            leaf.as_primitive::<types::$arrow>().values().inner().clone()
        };
    }
    let (dtype, buffer) = match leaf.data_type() {
        // One byte each, as NumPy has them.
        ArrowType::Boolean => {
            let bytes: Vec<u8> = leaf.as_boolean().values().iter().map(u8::from).collect();
            (DataType::Bool, Buffer::from_vec(bytes))
        }
        ArrowType::Float16 => (DataType::Float16, buffer_of!(Float16Type)),
        ArrowType::Float32 => (DataType::Float32, buffer_of!(Float32Type)),
        ArrowType::Float64 => (DataType::Float64, buffer_of!(Float64Type)),
        ArrowType::Int8 => (DataType::Int8, buffer_of!(Int8Type)),
        ArrowType::Int16 => (DataType::Int16, buffer_of!(Int16Type)),
        ArrowType::Int32 => (DataType::Int32, buffer_of!(Int32Type)),
        ArrowType::Int64 => (DataType::Int64, buffer_of!(Int64Type)),
        ArrowType::UInt8 => (DataType::Uint8, buffer_of!(UInt8Type)),
        ArrowType::UInt16 => (DataType::Uint16, buffer_of!(UInt16Type)),
        ArrowType::UInt32 => (DataType::Uint32, buffer_of!(UInt32Type)),
        ArrowType::UInt64 => (DataType::Uint64, buffer_of!(UInt64Type)),
        other => {
            let advice = carton_rows::type_advice(other).map(|advice| format!(": {advice}")).unwrap_or_default();
            let text = format!("its Arrow type is {other}, and cartons have no such tensors{advice}");
            return Err(PyTypeError::new_err(text));
        }
    };
    let tensor = NumericTensor::new(dtype, shape, Arc::new(Imported(buffer)));
    memory::shared_array(py, tensor.map_err(|error| PyValueError::new_err(error.to_string()))?)
}

/// Memory that another library owns.
struct Imported(Buffer);

impl carton_tensor::Storage for Imported {
    fn bytes(&self) -> &[u8] {
        self.0.as_slice()
    }
}
