//! Declares the C functions of `shim/shim.h` and the types that cross between the two languages. `shim.h` documents the
//! guarantees and the requirements of the functions.

use std::ffi::{c_char, c_void};

use carton_runner_interface::runner::RunnerError;
use carton_tensor::DataType;

use crate::error::from_libtorch;

#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Text {
    pub(super) data: *const u8,
    pub(super) length: usize,
}

#[repr(C)]
pub(super) struct Error {
    _opaque: [u8; 0],
}

/// The result of a call that can fail: null, or an error that the caller owns. Only the shim creates one.
#[repr(transparent)]
#[must_use]
pub(super) struct Status(*mut Error);

#[repr(C)]
pub(super) struct Module {
    _opaque: [u8; 0],
}

#[repr(C)]
pub(super) struct Results {
    _opaque: [u8; 0],
}

#[repr(C)]
pub(super) struct Argument {
    pub(super) name: Text,
    pub(super) type_name: Text,
    pub(super) structure: Text,
    pub(super) has_default: bool,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Owner {
    pub(super) object: *const c_void,
    pub(super) retain: unsafe extern "C" fn(*const c_void),
    pub(super) release: unsafe extern "C" fn(*const c_void),
}

pub(super) const VALUE_TENSOR: i32 = 0;
pub(super) const VALUE_STRING: i32 = 1;
pub(super) const VALUE_STRING_LIST: i32 = 2;
pub(super) const VALUE_INT: i32 = 3;
pub(super) const VALUE_FLOAT: i32 = 4;
pub(super) const VALUE_BOOL: i32 = 5;
pub(super) const VALUE_COMPLEX: i32 = 6;
pub(super) const VALUE_DEFAULT: i32 = 7;
pub(super) const VALUE_LIST: i32 = 8;
pub(super) const VALUE_TUPLE: i32 = 9;
pub(super) const VALUE_DICT: i32 = 10;

#[repr(C)]
pub(super) struct Value {
    pub(super) kind: i32,
    pub(super) dtype: i32,
    pub(super) data: *const c_void,
    pub(super) shape: *const i64,
    pub(super) rank: usize,
    pub(super) owner: Owner,
    pub(super) texts: *const Text,
    pub(super) n_texts: usize,
    pub(super) elements: *const Value,
    pub(super) n_elements: usize,
    pub(super) integer: i64,
    pub(super) real: f64,
    pub(super) imaginary: f64,
}

pub(super) const OUTPUT_TENSOR: i32 = 0;
pub(super) const OUTPUT_STRING: i32 = 1;
pub(super) const OUTPUT_STRING_LIST: i32 = 2;
pub(super) const OUTPUT_LIST: i32 = 3;
pub(super) const OUTPUT_TUPLE: i32 = 4;
pub(super) const OUTPUT_NAMED_TUPLE: i32 = 5;
pub(super) const OUTPUT_DICT: i32 = 6;
pub(super) const OUTPUT_NONE: i32 = 7;

#[repr(C)]
pub(super) struct Output {
    pub(super) kind: i32,
    pub(super) dtype: i32,
    pub(super) shape: *const i64,
    pub(super) rank: usize,
    pub(super) texts: *const Text,
    pub(super) n_texts: usize,
    pub(super) elements: *const Output,
    pub(super) n_elements: usize,
    pub(super) tensor: *const c_void,
}

unsafe extern "C" {
    pub(super) fn carton_error_text(error: *const Error) -> Text;
    pub(super) fn carton_error_free(error: *mut Error);
    pub(super) fn carton_threads(threads: *mut i32) -> Status;
    pub(super) safe fn carton_set_threads(threads: i32) -> Status;
    pub(super) fn carton_interop_threads(threads: *mut i32) -> Status;
    pub(super) safe fn carton_set_interop_threads(threads: i32) -> Status;
    pub(super) fn carton_finds_gpu(found: *mut bool) -> Status;
    pub(super) safe fn carton_libtorch_path() -> Text;
    pub(super) fn carton_load_library(path: *const c_char) -> Status;
    pub(super) safe fn carton_supports(dtype: i32) -> bool;
    pub(super) fn carton_load(
        bytes: *const u8,
        length: usize,
        owner: Owner,
        cuda: i32,
        module: *mut *mut Module,
    ) -> Status;
    pub(super) fn carton_module_free(module: *mut Module);
    pub(super) fn carton_arguments(module: *const Module, arguments: *mut *const Argument) -> usize;
    pub(super) fn carton_effects(module: *const Module, writes_inputs: *mut bool, changes_module: *mut bool) -> Status;
    pub(super) fn carton_run(
        module: *const Module,
        values: *const Value,
        n_values: usize,
        copy: bool,
        results: *mut *mut Results,
    ) -> Status;
    pub(super) fn carton_output_of(results: *const Results) -> *const Output;
    pub(super) fn carton_result_free(results: *mut Results);
    pub(super) fn carton_copy_output(output: *const Output, target: *mut c_void, n_bytes: usize) -> Status;
}

pub(super) fn text(text: &str) -> Text {
    Text { data: text.as_ptr(), length: text.len() }
}

/// Returns the bytes of a text of C++.
///
/// # Safety
/// The text must live as long as `'a`.
pub(super) unsafe fn bytes_of<'a>(text: Text) -> &'a [u8] {
    // SAFETY: C++ passes pointer and length of a string that, as our caller promises, lives long enough.
    unsafe { slice_of(text.data, text.length) }
}

/// Returns the elements at a pointer, which may be null if `length` is 0.
///
/// # Safety
/// There must be `length` elements, which live as long as `'a`.
pub(super) unsafe fn slice_of<'a, T>(data: *const T, length: usize) -> &'a [T] {
    if length == 0 {
        return &[];
    }
    // SAFETY: as our caller promises.
    unsafe { std::slice::from_raw_parts(data, length) }
}

impl Status {
    /// The error of the call, if it failed.
    pub(super) fn check(self) -> Result<(), RunnerError> {
        if self.0.is_null() {
            return Ok(());
        }
        // SAFETY: the shim returned an error, which we own. It is freed once, because this method consumes the status.
        let text = unsafe {
            let text = String::from_utf8_lossy(bytes_of(carton_error_text(self.0))).into_owned();
            carton_error_free(self.0);
            text
        };
        Err(from_libtorch(&text))
    }
}

/// The position of a dtype in `DataType::ALL`, which is its number in C++.
pub(super) fn dtype_number(dtype: DataType) -> i32 {
    DataType::ALL.iter().position(|&known| known == dtype).and_then(|index| i32::try_from(index).ok()).unwrap_or(-1)
}

/// The dtype at a position in `DataType::ALL`.
pub(super) fn dtype_from_number(number: i32) -> Option<DataType> {
    DataType::ALL.get(usize::try_from(number).ok()?).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The order of `dtypes` in shim/run.cpp.
    #[test]
    fn dtypes_are_in_the_order_of_the_shim() {
        let names: Vec<&str> = DataType::ALL.iter().map(|dtype| dtype.name()).collect();
        let expected = "float32 float64 string int8 int16 int32 int64 uint8 uint16 uint32 uint64 bool float16 bfloat16 float8_e4m3fn float8_e5m2 \
                        float8_e4m3fnuz float8_e5m2fnuz complex64 complex128 bytes";
        assert_eq!(names.join(" "), expected);
    }
}
