//! The C functions of `shim/shim.h`, declared. What they promise and expect is written there.

use std::ffi::c_void;

#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Text {
    pub(crate) data: *const u8,
    pub(crate) length: usize,
}

#[repr(C)]
pub(crate) struct Error {
    _opaque: [u8; 0],
}

#[repr(C)]
pub(crate) struct Module {
    _opaque: [u8; 0],
}

#[repr(C)]
pub(crate) struct Results {
    _opaque: [u8; 0],
}

#[repr(C)]
pub(crate) struct Argument {
    pub(crate) name: Text,
    pub(crate) type_name: Text,
    pub(crate) kind: i32,
    pub(crate) element: i32,
    pub(crate) optional: bool,
    pub(crate) has_default: bool,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Owner {
    pub(crate) object: *const c_void,
    pub(crate) retain: unsafe extern "C" fn(*const c_void),
    pub(crate) release: unsafe extern "C" fn(*const c_void),
}

pub(crate) const VALUE_TENSOR: i32 = 0;
pub(crate) const VALUE_STRING: i32 = 1;
pub(crate) const VALUE_STRING_LIST: i32 = 2;
pub(crate) const VALUE_TENSOR_LIST: i32 = 3;
pub(crate) const VALUE_INT: i32 = 4;
pub(crate) const VALUE_FLOAT: i32 = 5;
pub(crate) const VALUE_BOOL: i32 = 6;
pub(crate) const VALUE_DEFAULT: i32 = 7;

#[repr(C)]
pub(crate) struct Value {
    pub(crate) kind: i32,
    pub(crate) dtype: i32,
    pub(crate) data: *const c_void,
    pub(crate) shape: *const i64,
    pub(crate) rank: usize,
    pub(crate) owner: Owner,
    pub(crate) texts: *const Text,
    pub(crate) n_texts: usize,
    pub(crate) elements: *const Value,
    pub(crate) n_elements: usize,
    pub(crate) integer: i64,
    pub(crate) real: f64,
}

pub(crate) const OUTPUT_STRING: i32 = 1;
pub(crate) const OUTPUT_STRING_LIST: i32 = 2;
pub(crate) const OUTPUT_TENSOR_LIST: i32 = 3;

#[repr(C)]
pub(crate) struct Output {
    pub(crate) name: Text,
    pub(crate) kind: i32,
    pub(crate) dtype: i32,
    pub(crate) shape: *const i64,
    pub(crate) rank: usize,
    pub(crate) texts: *const Text,
    pub(crate) n_texts: usize,
    pub(crate) elements: *const Output,
    pub(crate) n_elements: usize,
    pub(crate) tensor: *const c_void,
}

unsafe extern "C" {
    pub(crate) fn carton_error_text(error: *const Error) -> Text;
    pub(crate) fn carton_error_free(error: *mut Error);
    pub(crate) safe fn carton_supports(dtype: i32) -> bool;
    pub(crate) fn carton_load(
        bytes: *const u8,
        length: usize,
        owner: Owner,
        cuda: i32,
        module: *mut *mut Module,
    ) -> *mut Error;
    pub(crate) fn carton_module_free(module: *mut Module);
    pub(crate) fn carton_arguments(module: *const Module, arguments: *mut *const Argument) -> usize;
    pub(crate) fn carton_effects(
        module: *const Module,
        writes_inputs: *mut bool,
        changes_module: *mut bool,
    ) -> *mut Error;
    pub(crate) fn carton_run(
        module: *const Module,
        values: *const Value,
        n_values: usize,
        keys: *const Text,
        copy: bool,
        results: *mut *mut Results,
    ) -> *mut Error;
    pub(crate) fn carton_outputs(results: *const Results, outputs: *mut *const Output, n_outputs: *mut usize) -> i32;
    pub(crate) fn carton_result_free(results: *mut Results);
    pub(crate) fn carton_copy_output(output: *const Output, target: *mut c_void, n_bytes: usize) -> *mut Error;
}
