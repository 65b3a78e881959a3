//! Values of ONNX Runtime's C interface (`OrtValue`): creates them over our own memory, and reads them.
//!
//! The bindings' own values copy strings only up to the first NUL, and do not take the caller's memory for outputs. The C
//! interface can do both.

use std::ffi::c_void;
use std::marker::PhantomData;
use std::ptr::{self, NonNull};
use std::slice;

use carton_runner_interface::runner::RunnerError;
use ort::AsPointer;
use ort::memory::{Allocator, MemoryInfo};
use ort::sys::{ONNXTensorElementDataType as ElementNumber, ONNXType, OrtStatusPtr, OrtValue};

/// A value, released when it is dropped. It may use memory that lives as long as `'a`.
#[derive(Debug)]
pub(super) struct Value<'a> {
    pointer: NonNull<OrtValue>,
    memory: PhantomData<&'a mut [u8]>,
}

/// Converts the status of a call into a result.
pub(super) fn check(status: OrtStatusPtr) -> Result<(), RunnerError> {
    // SAFETY: every status comes straight from a function of the runtime, and is converted once.
    unsafe { ort::Error::result_from_status(status) }
        .map_err(|error| RunnerError::new(format!("ONNX Runtime: {error}")))
}

impl Drop for Value<'_> {
    fn drop(&mut self) {
        // SAFETY: the pointer is owned, and not used after this.
        unsafe { (ort::api().ReleaseValue)(self.pointer.as_ptr()) };
    }
}

impl<'a> Value<'a> {
    /// A tensor over memory that the runtime only reads.
    pub(super) fn reading(bytes: &'a [u8], shape: &[usize], element: ElementNumber) -> Result<Self, RunnerError> {
        // SAFETY: a run never writes to its inputs: operators that work in place do so in the runtime's own buffers.
        unsafe { Self::over(bytes.as_ptr().cast_mut(), bytes.len(), shape, element) }
    }

    /// A tensor over memory that the runtime writes an output into.
    pub(super) fn writing(bytes: &'a mut [u8], shape: &[usize], element: ElementNumber) -> Result<Self, RunnerError> {
        // SAFETY: the memory is borrowed for as long as the value lives.
        unsafe { Self::over(bytes.as_mut_ptr(), bytes.len(), shape, element) }
    }

    /// # Safety
    /// `n_bytes` at `bytes` must be usable for `'a`. The runtime checks that they are enough for the shape.
    unsafe fn over(
        bytes: *mut u8,
        n_bytes: usize,
        shape: &[usize],
        element: ElementNumber,
    ) -> Result<Self, RunnerError> {
        let memory = MemoryInfo::default();
        let shape = signed(shape)?;
        Self::made(|value| {
            // SAFETY: `shape` and `memory` live until the call is over, `bytes` as long as the caller promises.
            unsafe {
                (ort::api().CreateTensorWithDataAsOrtValue)(
                    memory.ptr(),
                    bytes.cast::<c_void>(),
                    n_bytes,
                    shape.as_ptr(),
                    shape.len(),
                    element,
                    value,
                )
            }
        })
    }

    /// A tensor of strings, copied.
    pub(super) fn of_strings(strings: &[impl AsRef<[u8]>], shape: &[usize]) -> Result<Self, RunnerError> {
        let allocator = Allocator::default();
        let shape = signed(shape)?;
        let value = Self::made(|value| {
            // SAFETY: the allocator is the runtime's own one for the CPU; `shape` lives until the call is over.
            unsafe {
                (ort::api().CreateTensorAsOrtValue)(
                    allocator.ptr().cast_mut(),
                    shape.as_ptr(),
                    shape.len(),
                    ElementNumber::ONNX_TENSOR_ELEMENT_DATA_TYPE_STRING,
                    value,
                )
            }
        })?;
        for (index, text) in strings.iter().enumerate() {
            let text = text.as_ref();
            let mut buffer = ptr::null_mut();
            // SAFETY: the runtime checks the index, and makes the string as long as requested.
            let status = unsafe {
                (ort::api().GetResizedStringTensorElementBuffer)(value.as_ptr(), index, text.len(), &raw mut buffer)
            };
            check(status)?;
            if !text.is_empty() && !buffer.is_null() {
                // SAFETY: `buffer` has room for as many bytes, and nothing else uses it.
                unsafe { ptr::copy_nonoverlapping(text.as_ptr(), buffer.cast::<u8>(), text.len()) };
            }
        }
        Ok(value)
    }

    /// A sequence of these tensors, which have to live as long as their memory, or a map of these keys and values, which are copied.
    pub(super) fn of_parts(parts: &[*const OrtValue], kind: ONNXType) -> Result<Self, RunnerError> {
        Self::made(|value| {
            // SAFETY: the parts live until the call is over; the caller keeps the memory that a sequence shares with them.
            unsafe { (ort::api().CreateValue)(parts.as_ptr(), parts.len(), kind, value) }
        })
    }

    fn made(make: impl FnOnce(*mut *mut OrtValue) -> OrtStatusPtr) -> Result<Self, RunnerError> {
        let mut value = ptr::null_mut();
        check(make(&raw mut value))?;
        Self::owned(value)
    }

    /// Takes ownership of a value of the runtime.
    fn owned(value: *mut OrtValue) -> Result<Self, RunnerError> {
        let pointer = NonNull::new(value).ok_or_else(|| RunnerError::new("ONNX Runtime returned no value"))?;
        Ok(Self { pointer, memory: PhantomData })
    }

    /// Takes ownership of an output of a run.
    ///
    /// # Safety
    /// `value` must be null, or a value that a run made and that has no other owner.
    pub(super) unsafe fn of_run(value: *mut OrtValue) -> Result<Self, RunnerError> {
        Self::owned(value)
    }

    pub(super) fn as_ptr(&self) -> *mut OrtValue {
        self.pointer.as_ptr()
    }

    /// Whether there is a value: an optional output may be none.
    pub(super) fn is_there(&self) -> Result<bool, RunnerError> {
        let mut is_there = 0;
        // SAFETY: the value lives.
        check(unsafe { (ort::api().HasValue)(self.as_ptr(), &raw mut is_there) })?;
        Ok(is_there != 0)
    }

    pub(super) fn kind(&self) -> Result<ONNXType, RunnerError> {
        let mut kind = ONNXType::ONNX_TYPE_UNKNOWN;
        // SAFETY: the value lives.
        check(unsafe { (ort::api().GetValueType)(self.as_ptr(), &raw mut kind) })?;
        Ok(kind)
    }

    /// The elements of a tensor and their shape.
    pub(super) fn tensor(&self) -> Result<(ElementNumber, Vec<usize>), RunnerError> {
        let api = ort::api();
        let mut info = ptr::null_mut();
        // SAFETY: the value lives; the runtime refuses values that are not tensors.
        check(unsafe { (api.GetTensorTypeAndShape)(self.as_ptr(), &raw mut info) })?;
        let mut element = ElementNumber::ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
        let mut rank = 0;
        // SAFETY: `info` was made above, and is released below, whatever happens between.
        let read = unsafe {
            check((api.GetTensorElementType)(info, &raw mut element))
                .and_then(|()| check((api.GetDimensionsCount)(info, &raw mut rank)))
                .and_then(|()| {
                    let mut dimensions = vec![0_i64; rank];
                    check((api.GetDimensions)(info, dimensions.as_mut_ptr(), rank)).map(|()| dimensions)
                })
        };
        // SAFETY: as above.
        unsafe { (api.ReleaseTensorTypeAndShapeInfo)(info) };
        let size =
            |size: i64| usize::try_from(size).map_err(|_| RunnerError::new(format!("a dimension of {size} elements")));
        Ok((element, read?.into_iter().map(size).collect::<Result<_, _>>()?))
    }

    /// The first `n_bytes` of a tensor's elements.
    ///
    /// # Safety
    /// The tensor must be on the CPU, have at least `n_bytes` bytes, and not hold strings.
    pub(super) unsafe fn bytes(&self, n_bytes: usize) -> Result<&[u8], RunnerError> {
        if n_bytes == 0 {
            return Ok(&[]);
        }
        let mut data = ptr::null_mut();
        // SAFETY: the value lives.
        check(unsafe { (ort::api().GetTensorMutableData)(self.as_ptr(), &raw mut data) })?;
        if data.is_null() {
            return Err(RunnerError::new("ONNX Runtime returned a tensor without elements"));
        }
        // SAFETY: the caller promises the length, and the tensor does not change while it is borrowed.
        Ok(unsafe { slice::from_raw_parts(data.cast::<u8>(), n_bytes) })
    }

    /// The elements of a tensor of strings, which may be any bytes.
    pub(super) fn strings(&self, count: usize) -> Result<Vec<Vec<u8>>, RunnerError> {
        if count == 0 {
            return Ok(Vec::new());
        }
        let api = ort::api();
        let mut length = 0;
        // SAFETY: the value lives; the runtime refuses tensors of other types than strings.
        check(unsafe { (api.GetStringTensorDataLength)(self.as_ptr(), &raw mut length) })?;
        let (mut text, mut starts) = (vec![0_u8; length], vec![0_usize; count]);
        // SAFETY: both buffers have the stated lengths; the runtime refuses buffers of other lengths than it needs.
        check(unsafe {
            (api.GetStringTensorContent)(
                self.as_ptr(),
                text.as_mut_ptr().cast::<c_void>(),
                length,
                starts.as_mut_ptr(),
                count,
            )
        })?;
        let ends = starts.iter().skip(1).copied().chain([length]);
        starts
            .iter()
            .zip(ends)
            .map(|(&start, end)| {
                let bytes = text.get(start..end).ok_or_else(|| RunnerError::new("strings that overlap"))?;
                Ok(bytes.to_vec())
            })
            .collect()
    }

    /// The number of values in a sequence or a map.
    pub(super) fn count(&self) -> Result<usize, RunnerError> {
        let mut count = 0;
        // SAFETY: the value lives.
        check(unsafe { (ort::api().GetValueCount)(self.as_ptr(), &raw mut count) })?;
        Ok(count)
    }

    /// Returns one element of a sequence, or the keys (0) or the values (1) of a map as tensors.
    pub(super) fn part(&self, index: usize) -> Result<Value<'static>, RunnerError> {
        let allocator = Allocator::default();
        let index = i32::try_from(index).map_err(|_| RunnerError::new("a sequence of more than 2^31 values"))?;
        Value::made(|part| {
            // SAFETY: the value lives, the allocator is the runtime's own one for the CPU; the runtime checks the index.
            unsafe { (ort::api().GetValue)(self.as_ptr(), index, allocator.ptr().cast_mut(), part) }
        })
    }
}

fn signed(shape: &[usize]) -> Result<Vec<i64>, RunnerError> {
    let size = |&size| i64::try_from(size).map_err(|_| RunnerError::new(format!("a dimension of {size} elements")));
    shape.iter().map(size).collect()
}
