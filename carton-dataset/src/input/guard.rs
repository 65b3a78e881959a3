//! Turns panics of libraries on corrupt files into errors.
//!
//! `arrow` and `parquet` are meant to return errors, but they index and slice by what a file says, so a corrupt file can make them panic.
//! This module catches the panic and returns it as an error. The caller then drops the object that was being read and never uses it
//! again. Stack overflows and failed allocations are not panics: they end the process, which is why the claims of files are checked
//! before. The panic hook, which prints to standard error, belongs to the program and still runs.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::InputError;

/// Returns the result of `read`, or its panic as [`InputError::GaveUp`].
pub(crate) fn guarded<T>(read: impl FnOnce() -> Result<T, InputError>) -> Result<T, InputError> {
    catch_unwind(AssertUnwindSafe(read)).unwrap_or_else(|payload| {
        let text = payload.downcast_ref::<&str>().copied();
        let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
        Err(InputError::GaveUp(text.unwrap_or("without saying why").to_owned()))
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::panic)]

    use super::*;

    #[test]
    fn a_panic_is_an_error() {
        let fails: fn() -> Result<(), InputError> = || panic!("index {} out of range", 7);
        assert_eq!(
            guarded(fails).map_err(|error| error.to_string()),
            Err("the file is corrupt, and its reader gave up: index 7 out of range".to_owned())
        );
        assert_eq!(guarded(|| Ok(7)).ok(), Some(7));
    }
}
