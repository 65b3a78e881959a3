//! Reads indices of any integer type, and writes them as version 1.2 requires (spec/ztensor.md §5.1).

use super::SparseError;
use crate::files::{ElementType, RawTensor};
use crate::ztensor::ZTensorError;
use crate::ztensor::place::FilePart;

/// Reads all indices. Each must be below the result of `size` for its position.
pub(super) fn read(tensor: &RawTensor, at: &FilePart, size: impl Fn(usize) -> usize) -> Result<Vec<u64>, ZTensorError> {
    match tensor.dtype() {
        ElementType::Uint8 => convert(tensor, at, size, |[byte]: [u8; 1]| byte.into()),
        ElementType::Int8 => convert(tensor, at, size, |bytes| i8::from_le_bytes(bytes).into()),
        ElementType::Uint16 => convert(tensor, at, size, |bytes| u16::from_le_bytes(bytes).into()),
        ElementType::Int16 => convert(tensor, at, size, |bytes| i16::from_le_bytes(bytes).into()),
        ElementType::Uint32 => convert(tensor, at, size, |bytes| u32::from_le_bytes(bytes).into()),
        ElementType::Int32 => convert(tensor, at, size, |bytes| i32::from_le_bytes(bytes).into()),
        ElementType::Uint64 => convert(tensor, at, size, |bytes| u64::from_le_bytes(bytes).into()),
        ElementType::Int64 => convert(tensor, at, size, |bytes| i64::from_le_bytes(bytes).into()),
        found => Err(SparseError::IndexType { at: Box::new(at.clone()), found }.into()),
    }
}

fn convert<const N: usize>(
    tensor: &RawTensor,
    at: &FilePart,
    size: impl Fn(usize) -> usize,
    number: impl Fn([u8; N]) -> i128,
) -> Result<Vec<u64>, ZTensorError> {
    let elements = tensor.bytes().chunks_exact(N).enumerate();
    elements
        .map(|(position, bytes)| {
            let index = bytes.first_chunk().map_or(-1, |bytes| number(*bytes));
            let size = size(position) as u64;
            let inside = u64::try_from(index).ok().filter(|index| *index < size);
            let outside = || SparseError::IndexRange { at: Box::new(at.clone()), position, found: index, size };
            inside.ok_or_else(|| outside().into())
        })
        .collect()
}

/// Checks the number of indices.
pub(super) fn check_count(found: usize, expected: Option<usize>, at: &FilePart) -> Result<(), ZTensorError> {
    if Some(found) == expected {
        return Ok(());
    }
    let expected = expected.map_or(u64::MAX, |expected| expected as u64);
    Err(SparseError::IndexCount { at: Box::new(at.clone()), expected, found: found as u64 }.into())
}

/// Makes the tensor of indices that version 1.2 requires.
pub(super) fn to_tensor(indices: &[u64], at: &FilePart) -> Result<RawTensor, ZTensorError> {
    let tensor = RawTensor::new(ElementType::Uint64, vec![indices.len()], indices.to_vec().into());
    tensor.map_err(|source| ZTensorError::Tensor { at: Box::new(at.clone()), source })
}
