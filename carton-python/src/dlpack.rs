//! Floats that NumPy lacks as DLPack tensors, and DLPack tensors of any layout as NumPy arrays (<https://dmlc.github.io/dlpack>).
//!
//! NumPy speaks DLPack for its own types. This module has what is left: `bfloat16` and the floats of 8 bits.

use std::ffi::{CStr, c_void};
use std::ptr::null_mut;

use carton_core::{DataType, NumericTensor};
use numpy::npyffi::NPY_ARRAY_WRITEABLE;
use numpy::{PyArrayDescrMethods, PyUntypedArray, PyUntypedArrayMethods};
use pyo3::exceptions::{PyBufferError, PyTypeError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use crate::{errors, memory};

const UNVERSIONED: &CStr = c"dltensor";
const VERSIONED: &CStr = c"dltensor_versioned";
const USED_UNVERSIONED: &CStr = c"used_dltensor";
const USED_VERSIONED: &CStr = c"used_dltensor_versioned";

/// The version whose structures these are: 1.1 has the floats of 8 bits.
const VERSION: Version = Version { major: 1, minor: 1 };

/// The flag of memory that its consumer must not write to.
const READ_ONLY: u64 = 1;

/// The memory of the machine, and the pinned parts of it.
const HOST_DEVICES: [i32; 3] = [1, 3, 11];

#[repr(C)]
#[derive(Clone, Copy)]
struct Version {
    major: u32,
    minor: u32,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct Device {
    device_type: i32,
    device_id: i32,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct ElementCode {
    code: u8,
    bits: u8,
    lanes: u16,
}

/// `DLTensor`.
#[repr(C)]
struct RawTensor {
    data: *mut c_void,
    device: Device,
    n_dimensions: i32,
    dtype: ElementCode,
    shape: *mut i64,
    /// In elements; null for C order.
    strides: *mut i64,
    byte_offset: u64,
}

/// `DLManagedTensor`.
#[repr(C)]
struct Managed {
    tensor: RawTensor,
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut Self)>,
}

/// `DLManagedTensorVersioned`.
#[repr(C)]
struct ManagedVersioned {
    version: Version,
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut Self)>,
    flags: u64,
    tensor: RawTensor,
}

/// Every dtype of a fixed size, and its code and bits in DLPack.
const CODES: [(DataType, u8, u8); 19] = [
    (DataType::Int8, 0, 8),
    (DataType::Int16, 0, 16),
    (DataType::Int32, 0, 32),
    (DataType::Int64, 0, 64),
    (DataType::Uint8, 1, 8),
    (DataType::Uint16, 1, 16),
    (DataType::Uint32, 1, 32),
    (DataType::Uint64, 1, 64),
    (DataType::Float16, 2, 16),
    (DataType::Float32, 2, 32),
    (DataType::Float64, 2, 64),
    (DataType::BFloat16, 4, 16),
    (DataType::Complex64, 5, 64),
    (DataType::Complex128, 5, 128),
    (DataType::Bool, 6, 8),
    (DataType::Float8E4m3Fn, 10, 8),
    (DataType::Float8E4m3Fnuz, 11, 8),
    (DataType::Float8E5m2, 12, 8),
    (DataType::Float8E5m2Fnuz, 13, 8),
];

/// What the capsule of an exported tensor owns, until its consumer takes it over: the tensor, its sizes, and the array whose memory it shows.
struct Exported<M> {
    managed: M,
    /// Shape, then strides.
    _sizes: Vec<i64>,
    /// Released by whoever holds the interpreter's lock next: a deleter may be called by any thread.
    _array: Py<PyAny>,
}

/// The tensor with the bits that an array of integers has, as a capsule of DLPack. The elements are not copied.
///
/// # Errors
/// The dtype is unknown or has another size than the elements of the array.
#[pyfunction]
pub(crate) fn to_dlpack<'py>(
    bits: &Bound<'py, PyUntypedArray>,
    dtype: &str,
    is_versioned: bool,
) -> PyResult<Bound<'py, PyAny>> {
    let py = bits.py();
    let size = bits.dtype().itemsize();
    let code = CODES.iter().find(|(known, _, bits)| known.name() == dtype && usize::from(*bits) == 8 * size);
    let (_, code, n_bits) =
        code.ok_or_else(|| errors::invalid(py, &format!("there is no DLPack tensor of {dtype}")))?;
    let too_large = |_| PyBufferError::new_err("a dimension is too large");
    let mut sizes = Vec::with_capacity(2 * bits.ndim());
    for dimension in bits.shape() {
        sizes.push(i64::try_from(*dimension).map_err(too_large)?);
    }
    for stride in bits.strides() {
        let stride = i64::try_from(*stride).map_err(too_large)?;
        let size = i64::try_from(size).map_err(too_large)?;
        if stride % size != 0 {
            return Err(PyBufferError::new_err("its strides are no multiples of the size of an element"));
        }
        sizes.push(stride / size);
    }
    let shape = sizes.as_mut_ptr();
    let tensor = RawTensor {
        // SAFETY: an array object is valid while it is borrowed.
        data: unsafe { (*bits.as_array_ptr()).fields.data.cast() },
        device: Device { device_type: 1, device_id: 0 },
        n_dimensions: i32::try_from(bits.ndim()).map_err(too_large)?,
        dtype: ElementCode { code: *code, bits: *n_bits, lanes: 1 },
        shape,
        // SAFETY: the vector has as many strides as sizes, and does not grow any more.
        strides: unsafe { shape.add(bits.ndim()) },
        byte_offset: 0,
    };
    // SAFETY: an array object is valid while it is borrowed.
    let may_be_written =
        unsafe { (*bits.as_array_ptr()).fields.flags } & NPY_ARRAY_WRITEABLE != 0 || memory::is_private(bits);
    if !is_versioned && !may_be_written {
        return Err(PyBufferError::new_err("the array is read-only, which this version of DLPack cannot say: copy it"));
    }
    let array = bits.clone().unbind().into_any();
    match is_versioned {
        true => {
            let managed = ManagedVersioned {
                version: VERSION,
                context: null_mut(),
                deleter: Some(delete_versioned),
                flags: if may_be_written { 0 } else { READ_ONLY },
                tensor,
            };
            let exported = Box::into_raw(Box::new(Exported { managed, _sizes: sizes, _array: array }));
            // SAFETY: the box was just made, and its fields are valid.
            let managed = unsafe {
                (*exported).managed.context = exported.cast();
                &raw mut (*exported).managed
            };
            capsule(py, managed.cast(), VERSIONED, end_versioned)
        }
        false => {
            let managed = Managed { tensor, context: null_mut(), deleter: Some(delete) };
            let exported = Box::into_raw(Box::new(Exported { managed, _sizes: sizes, _array: array }));
            // SAFETY: as above.
            let managed = unsafe {
                (*exported).managed.context = exported.cast();
                &raw mut (*exported).managed
            };
            capsule(py, managed.cast(), UNVERSIONED, end)
        }
    }
}

fn capsule<'py>(
    py: Python<'py>,
    managed: *mut c_void,
    name: &CStr,
    end: unsafe extern "C" fn(*mut ffi::PyObject),
) -> PyResult<Bound<'py, PyAny>> {
    // SAFETY: the pointer is not null, and the name is static. If there is no memory for a capsule, the tensor leaks.
    unsafe { Bound::from_owned_ptr_or_err(py, ffi::PyCapsule_New(managed, name.as_ptr(), Some(end))) }
}

/// The deleter of an unversioned tensor.
unsafe extern "C" fn delete(managed: *mut Managed) {
    // SAFETY: the protocol says that a deleter is called once, with the tensor that it belongs to, whose context is its box.
    unsafe { free::<Managed>((*managed).context) }
}

/// The deleter of a versioned tensor.
unsafe extern "C" fn delete_versioned(managed: *mut ManagedVersioned) {
    // SAFETY: as above.
    unsafe { free::<ManagedVersioned>((*managed).context) }
}

/// # Safety
/// The context is a box of `Exported<M>` that nothing else frees.
unsafe fn free<M>(context: *mut c_void) {
    // SAFETY: the caller promises it.
    let exported = unsafe { Box::from_raw(context.cast::<Exported<M>>()) };
    drop(exported);
}

/// The destructor of a capsule: deletes a tensor that no consumer took over.
unsafe extern "C" fn end(capsule: *mut ffi::PyObject) {
    // SAFETY: Python calls it with the capsule, whose name says whether it still owns the tensor.
    unsafe {
        if ffi::PyCapsule_IsValid(capsule, UNVERSIONED.as_ptr()) != 0 {
            let managed = ffi::PyCapsule_GetPointer(capsule, UNVERSIONED.as_ptr()).cast::<Managed>();
            delete(managed);
        }
    }
}

/// As [`end`], for a versioned tensor.
unsafe extern "C" fn end_versioned(capsule: *mut ffi::PyObject) {
    // SAFETY: as above.
    unsafe {
        if ffi::PyCapsule_IsValid(capsule, VERSIONED.as_ptr()) != 0 {
            let managed = ffi::PyCapsule_GetPointer(capsule, VERSIONED.as_ptr()).cast::<ManagedVersioned>();
            delete_versioned(managed);
        }
    }
}

/// The dtype of a tensor in a capsule of DLPack, and an array of its elements; of floats that NumPy lacks, an array of their bits. The
/// elements are copied.
///
/// # Errors
/// The tensor is not in memory of this machine's processor, or is of a dtype that cartons lack.
#[pyfunction]
pub(crate) fn from_dlpack<'py>(capsule: &Bound<'py, PyCapsule>) -> PyResult<(String, Bound<'py, PyAny>)> {
    let py = capsule.py();
    let tensor = if capsule.is_valid_checked(Some(VERSIONED)) {
        let managed = capsule.pointer_checked(Some(VERSIONED))?.cast::<ManagedVersioned>().as_ptr();
        // SAFETY: the name of the capsule says what it points to. Fields after the version are read only where the version is known. Renaming
        // the capsule takes the tensor over, and its deleter is then called once.
        unsafe {
            if (*managed).version.major != VERSION.major {
                return Err(PyBufferError::new_err("its DLPack version is not 1"));
            }
            let copied = copied(&(*managed).tensor);
            take_over(py, capsule, USED_VERSIONED)?;
            if let Some(deleter) = (*managed).deleter {
                deleter(managed);
            }
            copied?
        }
    } else {
        let managed = capsule.pointer_checked(Some(UNVERSIONED))?.cast::<Managed>().as_ptr();
        // SAFETY: as above.
        unsafe {
            let copied = copied(&(*managed).tensor);
            take_over(py, capsule, USED_UNVERSIONED)?;
            if let Some(deleter) = (*managed).deleter {
                deleter(managed);
            }
            copied?
        }
    };
    let dtype = tensor.dtype();
    let shown = match memory::bits_of(dtype) {
        Some(bits) => {
            let shape = tensor.shape().to_vec();
            tensor.reinterpreted(bits, shape).map_err(|error| errors::invalid(py, &error.to_string()))?
        }
        None => tensor,
    };
    Ok((dtype.name().to_owned(), memory::shared_array(py, shown)?))
}

fn take_over(py: Python<'_>, capsule: &Bound<'_, PyCapsule>, name: &'static CStr) -> PyResult<()> {
    // SAFETY: the capsule is valid, and the name is static.
    match unsafe { ffi::PyCapsule_SetName(capsule.as_ptr(), name.as_ptr()) } {
        0 => Ok(()),
        _ => Err(PyErr::fetch(py)),
    }
}

/// The elements in C order.
///
/// # Safety
/// The tensor is as DLPack says: as many sizes and strides as dimensions, and elements at all places that these name.
unsafe fn copied(tensor: &RawTensor) -> PyResult<NumericTensor> {
    if !HOST_DEVICES.contains(&tensor.device.device_type) {
        return Err(PyBufferError::new_err("the tensor is not in the memory of the processor: copy it to the CPU"));
    }
    let ElementCode { code, bits, lanes } = tensor.dtype;
    let known = CODES.iter().find(|known| (known.1, known.2, 1) == (code, bits, lanes));
    let Some((dtype, ..)) = known else {
        let text = format!("cartons have no tensors of DLPack's type {code} with {bits} bits and {lanes} lanes");
        return Err(PyTypeError::new_err(text));
    };
    let n_dimensions = usize::try_from(tensor.n_dimensions)
        .map_err(|_| PyBufferError::new_err("the number of its dimensions is negative"))?;
    let invalid = |error: carton_core::TensorError| PyBufferError::new_err(error.to_string());
    let (mut shape, mut strides) = (Vec::new(), Vec::new());
    for dimension in 0..n_dimensions {
        // SAFETY: there are as many sizes as dimensions.
        let size = unsafe { *tensor.shape.add(dimension) };
        shape.push(usize::try_from(size).map_err(|_| PyBufferError::new_err("a dimension is negative"))?);
    }
    let mut product = 1_isize;
    for dimension in (0..n_dimensions).rev() {
        let stride = match tensor.strides.is_null() {
            true => product,
            // SAFETY: there are as many strides as dimensions.
            false => unsafe { *tensor.strides.add(dimension) as isize },
        };
        strides.push(stride);
        product = product.saturating_mul(shape[dimension] as isize);
    }
    strides.reverse();
    let mut copy = NumericTensor::zeroed(*dtype, shape.clone()).map_err(invalid)?;
    let size = dtype.size().unwrap_or(1);
    let offset = usize::try_from(tensor.byte_offset)
        .map_err(|_| PyBufferError::new_err("its elements begin beyond the memory of this machine"))?;
    let target = copy.bytes_mut().ok_or_else(|| PyBufferError::new_err("the copy cannot be written"))?;
    if !target.is_empty() {
        // SAFETY: the offset is inside the tensor's memory.
        let data = unsafe { tensor.data.cast::<u8>().add(offset) };
        let mut target = target.chunks_exact_mut(size);
        // SAFETY: the caller promises that the elements are where shape and strides say.
        unsafe { copy_from(data, &shape, &strides, size, &mut target) };
    }
    Ok(copy)
}

/// Copies the elements below one address, in C order.
///
/// # Safety
/// There are elements at all places that shape and strides name.
unsafe fn copy_from(
    data: *const u8,
    shape: &[usize],
    strides: &[isize],
    size: usize,
    target: &mut std::slice::ChunksExactMut<'_, u8>,
) {
    match (shape.split_first(), strides.split_first()) {
        (Some((n, shape)), Some((stride, strides))) => {
            for index in 0..*n {
                // SAFETY: the caller promises that the element is there.
                unsafe {
                    let data = data.offset(index as isize * stride * size as isize);
                    copy_from(data, shape, strides, size, target);
                }
            }
        }
        _ => {
            if let Some(target) = target.next() {
                // SAFETY: as above; an element has `size` bytes, and the target is other memory.
                unsafe { std::ptr::copy_nonoverlapping(data, target.as_mut_ptr(), size) };
            }
        }
    }
}
