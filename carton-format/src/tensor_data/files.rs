//! The source of the bytes of tensors.

use std::ops::Range;

use carton_tensor::files::SharedBytes;

use super::TensorDataError;

/// Provides the files of a carton. Paths are those in the carton, such as `tensor_data/tensor_0.bin`.
pub trait TensorFiles {
    /// The error of a read: of this module or of the implementation.
    type Error: From<TensorDataError>;

    /// Returns the exact size of a file; `None` if it is known only after the file was read.
    ///
    /// # Errors
    /// There is no such file.
    fn size(&self, path: &str) -> Result<Option<u64>, Self::Error>;

    /// Reads all bytes of a file, verified.
    ///
    /// # Errors
    /// The file cannot be read, does not match MANIFEST, or has more than `cap` bytes.
    fn read(&self, path: &str, cap: u64) -> Result<Vec<u8>, Self::Error>;

    /// Fills `buffer` with a file of exactly that size. The bytes are verified when this returns.
    ///
    /// # Errors
    /// The file cannot be read, does not match MANIFEST, or has another size.
    fn read_into(&self, path: &str, buffer: &mut [u8]) -> Result<(), Self::Error>;

    /// Returns the exact size of a file. Fetches the file if necessary.
    ///
    /// # Errors
    /// As [`read_range`](Self::read_range).
    fn exact_size(&self, path: &str) -> Result<u64, Self::Error>;

    /// Fills `buffer` with the bytes of a file from `offset` on. The whole file has been verified, now or before.
    ///
    /// # Errors
    /// The file cannot be read, does not match MANIFEST, or ends before `buffer` is full.
    fn read_range(&self, path: &str, offset: u64, buffer: &mut [u8]) -> Result<(), Self::Error>;

    /// Returns the bytes of a range without copying them; `None` if the implementation does not offer that, or cannot for this
    /// file. The whole file has been verified.
    ///
    /// # Errors
    /// As [`read_range`](Self::read_range), which the caller uses if this returns `None`.
    fn view(&self, path: &str, range: Range<u64>) -> Result<Option<SharedBytes>, Self::Error> {
        let _ = (path, range);
        Ok(None)
    }
}
