//! Calls of Python code from which the thread may not return.
//!
//! An interpreter before 3.14 ends a thread that asks for its lock while it exits: by `pthread_exit`, which in glibc unwinds the stack. Frames
//! of Rust abort the process, or crash, when they are unwound that way. [`call`] therefore puts a frame without unwind information below
//! Python's. To glibc that is the end of the stack: it unwinds the frames of Python, which are C and have nothing to release, and ends the
//! thread without looking at older frames.

use pyo3::ffi::PyObject;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

type Call = unsafe extern "C" fn(*mut PyObject, *mut PyObject, *mut PyObject) -> *mut PyObject;

#[cfg(all(target_os = "linux", target_env = "gnu", target_arch = "x86_64"))]
std::arch::global_asm!(
    ".pushsection .text.carton_end_of_stack,\"ax\",@progbits",
    ".globl carton_end_of_stack",
    ".hidden carton_end_of_stack",
    ".type carton_end_of_stack,@function",
    "carton_end_of_stack:",
    "push rbp",
    "mov rbp, rsp",
    "mov rax, rdi",
    "mov rdi, rsi",
    "mov rsi, rdx",
    "mov rdx, rcx",
    "call rax",
    "pop rbp",
    "ret",
    ".size carton_end_of_stack, . - carton_end_of_stack",
    ".popsection",
);

#[cfg(all(target_os = "linux", target_env = "gnu", target_arch = "aarch64"))]
std::arch::global_asm!(
    ".pushsection .text.carton_end_of_stack,\"ax\",@progbits",
    ".globl carton_end_of_stack",
    ".hidden carton_end_of_stack",
    ".type carton_end_of_stack,@function",
    "carton_end_of_stack:",
    "stp x29, x30, [sp, #-16]!",
    "mov x29, sp",
    "mov x8, x0",
    "mov x0, x1",
    "mov x1, x2",
    "mov x2, x3",
    "blr x8",
    "ldp x29, x30, [sp], #16",
    "ret",
    ".size carton_end_of_stack, . - carton_end_of_stack",
    ".popsection",
);

#[cfg(all(target_os = "linux", target_env = "gnu", any(target_arch = "x86_64", target_arch = "aarch64")))]
unsafe extern "C" {
    /// Calls the function with the three arguments, in a frame that has no unwind information.
    fn carton_end_of_stack(
        call: Call,
        callable: *mut PyObject,
        arguments: *mut PyObject,
        named: *mut PyObject,
    ) -> *mut PyObject;
}

/// Other C libraries do not unwind in `pthread_exit`.
#[cfg(not(all(target_os = "linux", target_env = "gnu", any(target_arch = "x86_64", target_arch = "aarch64"))))]
unsafe fn carton_end_of_stack(
    call: Call,
    callable: *mut PyObject,
    arguments: *mut PyObject,
    named: *mut PyObject,
) -> *mut PyObject {
    // SAFETY: the caller promises what the function needs.
    unsafe { call(callable, arguments, named) }
}

/// Calls a Python object. If the interpreter ends the thread in the call, the frames of the caller are neither continued nor dropped: what
/// they own leaks, and nothing on their stack may be used by another thread.
///
/// # Errors
/// Those of the call.
pub(crate) fn call<'py>(
    callable: &Bound<'py, PyAny>,
    arguments: &Bound<'py, PyTuple>,
    named: Option<&Bound<'py, PyDict>>,
) -> PyResult<Bound<'py, PyAny>> {
    let named = named.map_or(std::ptr::null_mut(), |named| named.as_ptr());
    // SAFETY: the thread has the interpreter's lock, and the objects are borrowed during the call, which returns a new reference or null with
    // an exception set. A thread that ends in the call never uses its stack again.
    unsafe {
        let result = carton_end_of_stack(pyo3::ffi::PyObject_Call, callable.as_ptr(), arguments.as_ptr(), named);
        Bound::from_owned_ptr_or_err(callable.py(), result)
    }
}
