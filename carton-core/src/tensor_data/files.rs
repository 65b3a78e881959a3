//! Where the bytes of tensors come from.

use std::ops::Range;

use carton_tensor::files::SharedBytes;

use super::TensorDataError;

/// Where the files of a carton come from. Paths are those in the carton, such as `tensor_data/tensor_0.bin`.
pub trait TensorFiles {
    /// What went wrong, here or there.
    type Error: From<TensorDataError>;

    /// The exact size of a file; `None` when that shows only when it is read.
    ///
    /// # Errors
    /// When there is no such file.
    fn size(&self, path: &str) -> Result<Option<u64>, Self::Error>;

    /// All bytes of a file, which is an error when there are more than `cap`. They have been verified.
    ///
    /// # Errors
    /// When the file cannot be read, is not what the carton says it is, or is larger than `cap`.
    fn read(&self, path: &str, cap: u64) -> Result<Vec<u8>, Self::Error>;

    /// Fills `buffer` with a file of exactly that size. What is there has been verified when this returns.
    ///
    /// # Errors
    /// When the file cannot be read, is not what the carton says it is, or has another size.
    fn read_into(&self, path: &str, buffer: &mut [u8]) -> Result<(), Self::Error>;

    /// The exact size of a file, for which it is fetched if need be.
    ///
    /// # Errors
    /// As [`read_range`](Self::read_range).
    fn exact_size(&self, path: &str) -> Result<u64, Self::Error>;

    /// Fills `buffer` with the bytes of a file from `offset` on. The whole file was verified, now or before.
    ///
    /// # Errors
    /// When the file cannot be read, is not what the carton says it is, or has no such bytes.
    fn read_range(&self, path: &str, offset: u64, buffer: &mut [u8]) -> Result<(), Self::Error>;

    /// The bytes of a range where they are, if they are to be used without being copied, and can be. The whole file was verified.
    ///
    /// # Errors
    /// As [`read_range`](Self::read_range), which is asked for what this does not give.
    fn view(&self, path: &str, range: Range<u64>) -> Result<Option<SharedBytes>, Self::Error> {
        let _ = (path, range);
        Ok(None)
    }
}
