//! The memory behind arrays that this module makes: the `base` of the array keeps it alive.

use std::ffi::c_int;
use std::ptr::null_mut;

use carton_core::tensor::{PrivateBytes, SharedBytes};
use carton_core::{DataType, NumericTensor};
use numpy::npyffi::{
    NPY_ARRAY_C_CONTIGUOUS, NPY_ARRAY_WRITEABLE, NpyTypes, PY_ARRAY_API, PyArrayObject, get_type_object, npy_intp,
};
use numpy::{PyArrayDescr, PyArrayDescrMethods, PyUntypedArray, PyUntypedArrayMethods};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

use crate::errors;

/// Owns the memory of arrays: shared memory from `alloc`, or an output of a runner.
///
/// Calls of a model find it among the bases of an array, and then pass the tensor itself instead of copying the elements. What another
/// library wrote to a large output, which is read-only, is not passed on.
#[pyclass(frozen, module = "carton._carton")]
pub(crate) struct Memory {
    /// The tensor that is passed on.
    tensor: NumericTensor,
    /// What the array shows. `Shared` is the tensor's own memory, which an array of `alloc` writes to.
    shown: Shown,
}

enum Shown {
    Shared { address: usize },
    Private(PrivateBytes),
}

impl Memory {
    fn address(&self) -> usize {
        match &self.shown {
            Shown::Shared { address } => *address,
            Shown::Private(bytes) => bytes.as_slice().as_ptr().addr(),
        }
    }

    /// The tensor at `address`, which points into an array whose base this is. `None` if it is not inside, or not aligned.
    fn part(&self, dtype: DataType, shape: &[usize], address: usize) -> Option<NumericTensor> {
        // A copy may have been written to, by a library that ignores that it is read-only.
        if let Shown::Private(bytes) = &self.shown
            && !bytes.is_mapped()
        {
            return None;
        }
        let n_bytes = NumericTensor::n_bytes_of(dtype, shape).ok()?;
        let start = address.checked_sub(self.address())?;
        let is_aligned = dtype.alignment().is_some_and(|alignment| address.is_multiple_of(alignment));
        if !is_aligned || start.checked_add(n_bytes)? > self.tensor.bytes().len() {
            return None;
        }
        let (storage, offset) = self.tensor.storage();
        NumericTensor::with_offset(dtype, shape.to_vec(), storage.clone(), offset + start).ok()
    }
}

/// Makes a read-only array of an output. Its memory may be written to without harm: some libraries ignore that an array is read-only.
pub(crate) fn read_only_array<'py>(py: Python<'py>, tensor: NumericTensor) -> PyResult<Bound<'py, PyAny>> {
    let shown = Shown::Private(PrivateBytes::of(&tensor));
    array(py, Memory { tensor, shown }, false)
}

/// Makes an array that writes to the tensor's own memory, which must be writable and have no other owner yet.
pub(crate) fn writable_array<'py>(py: Python<'py>, mut tensor: NumericTensor) -> PyResult<Bound<'py, PyAny>> {
    let Some(bytes) = tensor.bytes_mut() else {
        return Err(errors::invalid(py, "the memory cannot be written"));
    };
    let address = bytes.as_mut_ptr().expose_provenance();
    array(py, Memory { tensor, shown: Shown::Shared { address } }, true)
}

/// Makes a read-only array of bytes that a file holds.
pub(crate) fn bytes_array<'py>(py: Python<'py>, bytes: &SharedBytes) -> PyResult<Bound<'py, PyAny>> {
    let (storage, offset) = bytes.storage();
    let tensor = NumericTensor::with_offset(DataType::Uint8, vec![bytes.len()], storage.clone(), offset);
    shared_array(py, tensor.map_err(|error| errors::invalid(py, &error.to_string()))?)
}

/// Makes a read-only array that shows the tensor's own memory.
pub(crate) fn shared_array<'py>(py: Python<'py>, tensor: NumericTensor) -> PyResult<Bound<'py, PyAny>> {
    let address = tensor.bytes().as_ptr().expose_provenance();
    array(py, Memory { tensor, shown: Shown::Shared { address } }, false)
}

fn array<'py>(py: Python<'py>, memory: Memory, is_writable: bool) -> PyResult<Bound<'py, PyAny>> {
    let dtype = memory.tensor.dtype();
    let Some(bits) = bits_of(dtype) else {
        let descriptor = descriptor(py, dtype)?;
        return array_of(py, memory, descriptor, is_writable);
    };
    let descriptor = descriptor(py, bits)?;
    let bits = array_of(py, memory, descriptor, is_writable)?;
    py.import("carton._small_floats")?.call_method1("of_bits", (bits, dtype.name()))
}

/// The integers that show the bits of floats that NumPy lacks; `None` for other dtypes.
pub(crate) fn bits_of(dtype: DataType) -> Option<DataType> {
    match dtype {
        DataType::BFloat16 => Some(DataType::Uint16),
        DataType::Float8E4m3Fn | DataType::Float8E5m2 | DataType::Float8E4m3Fnuz | DataType::Float8E5m2Fnuz => {
            Some(DataType::Uint8)
        }
        _ => None,
    }
}

fn array_of<'py>(
    py: Python<'py>,
    memory: Memory,
    dtype: Bound<'py, PyArrayDescr>,
    is_writable: bool,
) -> PyResult<Bound<'py, PyAny>> {
    let mut shape = dimensions(memory.tensor.shape())?;
    let n_dimensions =
        c_int::try_from(shape.len()).map_err(|_| errors::invalid(py, "the tensor has too many dimensions"))?;
    let address = memory.address();
    let base = Bound::new(py, memory)?;
    let flags = NPY_ARRAY_C_CONTIGUOUS | if is_writable { NPY_ARRAY_WRITEABLE } else { 0 };
    // SAFETY: the data has the size of dtype and shape, and lives as long as `base`, which becomes the base of the array. The descriptor's
    // reference is stolen, as `into_dtype_ptr` expects. An empty tensor may have any address.
    unsafe {
        let array = PY_ARRAY_API.PyArray_NewFromDescr(
            py,
            get_type_object(py, NpyTypes::PyArray_Type),
            dtype.into_dtype_ptr(),
            n_dimensions,
            shape.as_mut_ptr(),
            null_mut(),
            std::ptr::with_exposed_provenance_mut(address),
            flags,
            null_mut(),
        );
        let array = Bound::from_owned_ptr_or_err(py, array)?;
        if PY_ARRAY_API.PyArray_SetBaseObject(py, array.as_ptr().cast::<PyArrayObject>(), base.into_ptr()) != 0 {
            return Err(PyErr::fetch(py));
        }
        Ok(array)
    }
}

fn dimensions(shape: &[usize]) -> PyResult<Vec<npy_intp>> {
    let too_large = |_| pyo3::exceptions::PyOverflowError::new_err("a dimension is too large");
    shape.iter().map(|&size| npy_intp::try_from(size).map_err(too_large)).collect()
}

fn descriptor(py: Python<'_>, dtype: DataType) -> PyResult<Bound<'_, PyArrayDescr>> {
    Ok(match dtype {
        DataType::Float32 => numpy::dtype::<f32>(py),
        DataType::Float64 => numpy::dtype::<f64>(py),
        DataType::Int8 => numpy::dtype::<i8>(py),
        DataType::Int16 => numpy::dtype::<i16>(py),
        DataType::Int32 => numpy::dtype::<i32>(py),
        DataType::Int64 => numpy::dtype::<i64>(py),
        DataType::Uint8 => numpy::dtype::<u8>(py),
        DataType::Uint16 => numpy::dtype::<u16>(py),
        DataType::Uint32 => numpy::dtype::<u32>(py),
        DataType::Uint64 => numpy::dtype::<u64>(py),
        DataType::Bool => numpy::dtype::<bool>(py),
        DataType::Float16 => {
            static FLOAT16: PyOnceLock<Py<PyArrayDescr>> = PyOnceLock::new();
            let made = FLOAT16.get_or_try_init(py, || PyArrayDescr::new(py, "float16").map(Bound::unbind))?;
            made.bind(py).clone()
        }
        DataType::Complex64 => numpy::dtype::<numpy::Complex32>(py),
        DataType::Complex128 => numpy::dtype::<numpy::Complex64>(py),
        other => return Err(errors::invalid(py, &format!("there are no arrays of {other}"))),
    })
}

/// The dtype of an array of numbers in this machine's byte order, of booleans, or of floats of `ml_dtypes`; `None` for all other arrays.
pub(crate) fn dtype_of(array: &Bound<'_, PyUntypedArray>) -> Option<DataType> {
    let descriptor = array.dtype();
    if descriptor.is_native_byteorder() == Some(false) {
        return None;
    }
    Some(match (descriptor.kind(), descriptor.itemsize()) {
        (b'f', 1) | (b'V', 1 | 2) => return small_float(&descriptor),
        (b'f', 2) => DataType::Float16,
        (b'c', 8) => DataType::Complex64,
        (b'c', 16) => DataType::Complex128,
        (b'f', 4) => DataType::Float32,
        (b'f', 8) => DataType::Float64,
        (b'i', 1) => DataType::Int8,
        (b'i', 2) => DataType::Int16,
        (b'i', 4) => DataType::Int32,
        (b'i', 8) => DataType::Int64,
        (b'u', 1) => DataType::Uint8,
        (b'b', 1) => DataType::Bool,
        (b'u', 2) => DataType::Uint16,
        (b'u', 4) => DataType::Uint32,
        (b'u', 8) => DataType::Uint64,
        _ => return None,
    })
}

/// The dtype of floats of `ml_dtypes`; `None` for other types that NumPy does not know, such as records.
fn small_float(descriptor: &Bound<'_, PyArrayDescr>) -> Option<DataType> {
    let name: String = descriptor.typeobj().name().ok()?.extract().ok()?;
    name.parse().ok().filter(|dtype| bits_of(*dtype).is_some())
}

/// The elements of a contiguous array as a tensor: that of its [`Memory`], if one is among its bases, or else the array's own memory, or
/// for small arrays a copy of it.
pub(crate) fn numeric_tensor(
    array: &Bound<'_, PyUntypedArray>,
    dtype: DataType,
) -> Result<NumericTensor, carton_core::TensorError> {
    let shape = array.shape();
    // SAFETY: an array object is valid while it is borrowed.
    let address = unsafe { (*array.as_array_ptr()).fields.data }.addr();
    if let Some(tensor) = memory_of(array).and_then(|memory| memory.get().part(dtype, shape, address)) {
        return Ok(tensor);
    }
    let n_bytes = NumericTensor::n_bytes_of(dtype, shape)?;
    if n_bytes == 0 {
        return NumericTensor::zeroed(dtype, shape.to_vec());
    }
    // SAFETY: a contiguous array has the bytes of its elements at its address, as long as it lives.
    let data = unsafe { (*array.as_array_ptr()).fields.data.cast_const().cast::<u8>() };
    let borrowed = Borrowed { _array: array.clone().unbind().into_any(), data, n_bytes };
    match n_bytes {
        // Handing over a reference to the array costs more than this copy.
        0..=COPIED => NumericTensor::copy_from_bytes(dtype, shape.to_vec(), carton_tensor::Storage::bytes(&borrowed)),
        _ => NumericTensor::new(dtype, shape.to_vec(), std::sync::Arc::new(borrowed)),
    }
}

/// The most bytes of an array that are copied while the interpreter is locked.
const COPIED: usize = 16 << 10;

/// The memory of an array that NumPy or another library owns. It is copied into the memory of a runner while the interpreter is not locked.
struct Borrowed {
    /// Keeps the memory alive.
    _array: Py<PyAny>,
    data: *const u8,
    n_bytes: usize,
}

// SAFETY: plain memory that belongs to no thread. A thread of Python that writes to the array during a call changes the numbers that are
// copied, as with every library that releases the interpreter's lock; every bit pattern of them is valid.
unsafe impl Send for Borrowed {}
// SAFETY: as above.
unsafe impl Sync for Borrowed {}

impl carton_tensor::Storage for Borrowed {
    fn bytes(&self) -> &[u8] {
        // SAFETY: see `numeric_tensor`; the array is kept alive.
        unsafe { std::slice::from_raw_parts(self.data, self.n_bytes) }
    }
}

/// Whether the array shows an output: memory that may be written without harm, also where the array is read-only.
pub(crate) fn is_private(array: &Bound<'_, PyUntypedArray>) -> bool {
    memory_of(array).is_some_and(|memory| matches!(memory.get().shown, Shown::Private(_)))
}

/// The [`Memory`] among the bases of an array.
fn memory_of<'py>(array: &Bound<'py, PyUntypedArray>) -> Option<Bound<'py, Memory>> {
    let py = array.py();
    let mut array = array.clone();
    loop {
        // SAFETY: the array is valid, and its base is an object or null.
        let base = unsafe { Bound::from_borrowed_ptr_or_opt(py, (*array.as_array_ptr()).fields.base)? };
        match base.cast_into::<Memory>() {
            Ok(memory) => return Some(memory),
            Err(other) => array = other.into_inner().cast_into::<PyUntypedArray>().ok()?,
        }
    }
}
