//! Reads and writes NumPy's `.npy` and `.npz` files.
//!
//! ```text
//! .npy   0x93 "NUMPY", major u8, minor u8, header length (u16 in version 1, u32 in 2 and 3, little-endian),
//!        header: a Python dictionary as text, padded with spaces and ended by a newline,
//!        elements: shape times dtype, nothing after them
//! .npz   a zip file with an entry `NAME.npy` for each array
//! ```
//!
//! All input is untrusted. The header has a maximum length and a strict parser. A size is compared with the bytes that are there before
//! memory is allocated for it. Content that NumPy can store and a carton cannot is [`NpyError::Unsupported`], which names the dtype and
//! suggests a cast.
//!
//! ```
//! use carton_tensor::{Tensor, npy};
//! let tensor = Tensor::from_vec(vec![1.0_f32, 2.0, 3.0], vec![3])?;
//! let mut file = Vec::new();
//! npy::write(&mut file, &tensor)?;
//! assert_eq!(npy::read(file.as_slice(), 1 << 20)?, tensor);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;

use crate::fill::fill;
use crate::{AlignedBytes, Tensor};

#[cfg(feature = "files")]
mod array;
mod elements;
mod error;
mod header;
mod npz;

#[cfg(feature = "files")]
pub use array::{Array, ArrayInfo, array_info, read_array, write_array, write_array_with};
#[cfg(feature = "weights")]
pub(crate) use array::{array_info_of, read_array_of, visit_array_of};
pub use elements::holds;
pub use error::NpyError;
use error::Problem;
use header::Header;
pub use npz::{Npz, NpzWriter, leads_out, write_npz};

/// The place that errors name for data without a path.
const UNNAMED: &str = "npy data";

/// Reads the single array in `reader`, up to its end.
///
/// `limit` caps the number of bytes read, and with it the memory: at most `limit` bytes for numbers, and about ten times that for an
/// array of many short strings.
///
/// # Errors
/// [`NpyError`]; [`NpyError::TooLarge`] if header and elements need more than `limit` bytes.
pub fn read(reader: impl Read, limit: u64) -> Result<Tensor, NpyError> {
    read_bounded(reader, Size::Unknown, limit).map_err(|problem| problem.at(UNNAMED))
}

/// Reads the array of the file at `path`. The size of the file bounds the memory that this takes.
///
/// # Errors
/// [`NpyError`], naming the path.
pub fn read_path(path: impl AsRef<Path>) -> Result<Tensor, NpyError> {
    read_file(path.as_ref(), |file, size| read_bounded(file, size, u64::MAX))
}

/// Calls `read` with the file at `path` and its size, if known. Errors name the path.
fn read_file<T>(path: &Path, read: impl FnOnce(File, Size) -> Result<T, Problem>) -> Result<T, NpyError> {
    let open = || {
        let file = File::open(path)?;
        let metadata = file.metadata()?;
        // A pipe or a device has no size to compare with.
        let size = if metadata.is_file() { Size::Known(metadata.len()) } else { Size::Unknown };
        read(file, size)
    };
    open().map_err(|problem: Problem| problem.at(&path.display().to_string()))
}

/// Writes `tensor` as NumPy's `save` does: version 1, little-endian, C order, strings as `<U`,
/// bytes as `|S`.
///
/// # Errors
/// [`NpyError::Unsupported`] for nested tensors, dtypes that NumPy lacks (bfloat16, float8), and strings and bytes that end in NUL, which
/// `.npy` cannot hold;
/// [`NpyError::Io`].
pub fn write(mut writer: impl Write, tensor: &Tensor) -> Result<(), NpyError> {
    elements::write(&mut writer, tensor).map_err(|problem| problem.at(UNNAMED))
}

/// The number of bytes of a reader, including the header, as far as it is known.
#[derive(Clone, Copy)]
enum Size {
    Unknown,
    /// The size that an archive states. The header must agree with it, but it is not trusted for allocating memory.
    Claimed(u64),
    /// The size of a real file, which is trusted for allocating all memory at once.
    Known(u64),
}

fn read_bounded(mut reader: impl Read, size: Size, limit: u64) -> Result<Tensor, Problem> {
    let (header, header_size) = header::read(&mut reader)?;
    let bytes = read_elements(&mut reader, &header, header_size, size, limit)?;
    elements::decode(header, bytes)
}

/// Reads the elements after the header, up to the end of `reader`.
fn read_elements(
    mut reader: impl Read,
    header: &Header,
    header_size: u64,
    size: Size,
    limit: u64,
) -> Result<AlignedBytes, Problem> {
    let n_bytes = header.n_bytes()?;
    let needed = header_size.saturating_add(n_bytes);
    check_size(header, needed, size, header_size)?;
    if needed > limit {
        return Err(Problem::TooLarge { needed, limit });
    }
    let bytes = elements::read_bytes(&mut reader, n_bytes, matches!(size, Size::Known(_)))?;
    check_end(&mut reader, n_bytes)?;
    Ok(bytes)
}

/// Refuses bytes after the array. Reaching the end of an entry of an archive also compares its checksum.
fn check_end(reader: &mut impl Read, n_bytes: u64) -> Result<(), Problem> {
    if fill(reader, &mut [0])? == 0 {
        return Ok(());
    }
    Err(Problem::Format(format!("there are bytes after the {n_bytes} bytes of the array")))
}

/// Refuses a header that needs more or fewer bytes than there are.
fn check_size(header: &Header, needed: u64, size: Size, header_size: u64) -> Result<(), Problem> {
    match size {
        Size::Claimed(size) | Size::Known(size) if size != needed => Err(Problem::Format(format!(
            "{}shape {:?} of dtype `{}` needs {} bytes after the header, found {}",
            if size < needed { "it is truncated: " } else { "" },
            header.shape,
            header.dtype.descr,
            needed.saturating_sub(header_size),
            size.saturating_sub(header_size)
        ))),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;
