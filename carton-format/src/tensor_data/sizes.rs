//! Compares the sizes of tensors with those of their files. Pure.

use carton_tensor::{DataType, element_count};

use super::TensorDataError;

/// Returns the size of a tensor in memory in bytes; for strings, their number. `None` if it exceeds the address space.
pub(super) fn n_bytes(dtype: DataType, shape: &[usize]) -> Option<usize> {
    let size = match dtype.carrier().size() {
        // A complex number is carried by two.
        Some(size) if dtype.is_complex() => 2 * size,
        size => size.unwrap_or(1),
    };
    element_count(shape)?.checked_mul(size).filter(|&n_bytes| isize::try_from(n_bytes).is_ok())
}

/// Checks that a file that holds many tensors is large enough for this one.
pub(super) fn check_member_size(
    name: &str,
    dtype: DataType,
    shape: &[usize],
    file: &str,
    size: u64,
) -> Result<(), TensorDataError> {
    let expected = n_bytes(dtype, shape).and_then(|expected| u64::try_from(expected).ok()).unwrap_or(u64::MAX);
    if size < expected {
        let (name, file) = (name.to_owned(), file.to_owned());
        return Err(TensorDataError::FileTooSmall { name, file, expected, found: size });
    }
    Ok(())
}

/// Checks the size of a tensor's own file against dtype and shape in the index.
pub(super) fn check_size(
    name: &str,
    dtype: DataType,
    shape: &[usize],
    file: &str,
    size: u64,
) -> Result<(), TensorDataError> {
    let expected = n_bytes(dtype, shape).and_then(|expected| u64::try_from(expected).ok()).unwrap_or(u64::MAX);
    if dtype.carrier() != DataType::String {
        return match size == expected {
            true => Ok(()),
            false => Err(TensorDataError::SizeMismatch {
                name: name.to_owned(),
                file: file.to_owned(),
                expected,
                found: size,
                unit: "bytes",
            }),
        };
    }
    // Each string takes at least its two quotes, so a file can be found too short before it is parsed.
    if size / 2 < expected {
        let (name, file) = (name.to_owned(), file.to_owned());
        return Err(TensorDataError::SizeMismatch { name, file, expected, found: size / 2, unit: "strings" });
    }
    Ok(())
}
