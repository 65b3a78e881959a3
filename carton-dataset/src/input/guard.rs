//! Calls of libraries that may panic on corrupt files.
//!
//! `arrow` and `parquet` mean to return errors, but where they index and slice by what a file says, a panic is what a
//! corrupt one can end in. Such a panic ends here, as an error. Whoever catches it drops what was being read and never touches it again.
//! What is no panic it does not see: a stack that overflows and memory that cannot be had end the process, which is why what files
//! claim is checked before. (The panic hook, which prints to standard error, belongs to the program and still runs.)

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::InputError;

/// What `read` returns, or its panic as [`InputError::GaveUp`].
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
