//! The values of a sparse tensor: made dense, and taken from a dense one.

use super::addition;
use super::error::SparseError;
use crate::element_count;
use crate::files::{ElementType, RawTensor, SharedBytes};
use crate::ztensor::ZTensorError;
use crate::ztensor::place::FilePart;

/// The most bytes of a dense tensor that [`Csr::to_dense`](super::Csr::to_dense) and [`Coo::to_dense`](super::Coo::to_dense) make:
/// 4 GiB. A few bytes of a file can represent any number of zeros, so larger tensors are only made for callers that set a limit.
pub const MAX_DENSE: u64 = 4 << 30;

/// Returns the proportion of elements that a sparse form of the tensor stores. These are the elements whose bytes are not all zero,
/// which include -0.0 (spec/ztensor.md §5.1). Returns `None` for a tensor without elements, and for elements smaller than a byte, which
/// no sparse format holds.
///
/// ```
/// use carton_tensor::files::{ElementType, RawTensor};
/// let tensor = RawTensor::new(ElementType::Uint8, vec![4], vec![0_u8, 7, 0, 0].into())?;
/// assert_eq!(carton_tensor::ztensor::density(&tensor), Some(0.25));
/// # Ok::<(), carton_tensor::files::RawTensorError>(())
/// ```
#[must_use]
pub fn density(tensor: &RawTensor) -> Option<f64> {
    let size = element_size(tensor.dtype(), &FilePart::object("")).ok()?;
    let n_elements = tensor.n_elements();
    (n_elements > 0).then(|| n_stored(tensor.bytes(), size) as f64 / n_elements as f64)
}

/// Counts the elements among `bytes` that a sparse form stores, as [`density`] does. `None` for elements smaller than a byte.
#[must_use]
pub fn count_stored(dtype: ElementType, bytes: &[u8]) -> Option<u64> {
    let size = element_size(dtype, &FilePart::object("")).ok()?;
    Some(n_stored(bytes, size) as u64)
}

/// Counts the elements whose bytes are not all zero.
fn n_stored(bytes: &[u8], size: usize) -> usize {
    bytes.chunks_exact(size).filter(|element| is_stored(element)).count()
}

fn is_stored(element: &[u8]) -> bool {
    element.iter().any(|&byte| byte != 0)
}

/// The common part of sparse tensors: a shape, and values with one dimension.
#[derive(Clone, Debug)]
pub(super) struct Values {
    /// The object that was read. Its name is empty for a tensor that was not read from a file.
    pub(super) at: Box<FilePart>,
    pub(super) shape: Vec<usize>,
    pub(super) values: RawTensor,
}

/// Returns the bytes of an element.
fn element_size(dtype: ElementType, at: &FilePart) -> Result<usize, ZTensorError> {
    match dtype.bits() {
        bits if bits.is_multiple_of(8) => Ok(bits / 8),
        _ => Err(SparseError::DuplicateEntry { at: Box::new(at.clone()), dtype }.into()),
    }
}

impl Values {
    /// Makes a dense tensor of at most `limit` bytes, with each value at its position from `positions`, in C order.
    pub(super) fn to_dense(
        &self,
        positions: impl Iterator<Item = usize>,
        limit: u64,
    ) -> Result<RawTensor, ZTensorError> {
        let (dtype, at) = (self.values.dtype(), &*self.at);
        let size = element_size(dtype, at)?;
        let too_large = || ZTensorError::TooLarge { at: Box::new(at.clone()) };
        let n_bytes = element_count(&self.shape).and_then(|count| count.checked_mul(size)).ok_or_else(too_large)?;
        let memory = || ZTensorError::Memory { at: Box::new(at.clone()), n_bytes: n_bytes as u64 };
        if n_bytes as u64 > limit {
            return Err(SparseError::DenseSize { at: Box::new(at.clone()), n_bytes: n_bytes as u64, limit }.into());
        }
        let mut dense = crate::AlignedBytes::try_zeroed(n_bytes).ok_or_else(memory)?;
        // Marks the positions that have a value, with one bit per element. Two values at one position are rare.
        let taken = bytemuck::allocation::try_zeroed_vec::<u64>((n_bytes / size).div_ceil(64));
        let mut taken = taken.map_err(|()| memory())?;
        let bytes = dense.as_mut_slice();
        for (position, value) in positions.zip(self.values.bytes().chunks_exact(size)) {
            let Some(place) = bytes.get_mut(position * size..position * size + size) else { return Err(too_large()) };
            let Some(word) = taken.get_mut(position / 64) else { return Err(too_large()) };
            let bit = 1 << (position % 64);
            if *word & bit == 0 {
                *word |= bit;
                place.copy_from_slice(value);
            } else if !addition::add(dtype, place, value) {
                return Err(SparseError::DuplicateEntry { at: Box::new(at.clone()), dtype }.into());
            }
        }
        let tensor = RawTensor::new(dtype, self.shape.clone(), dense.into());
        tensor.map_err(|source| ZTensorError::Tensor { at: Box::new(at.clone()), source })
    }

    /// Returns the elements of a dense tensor whose bytes are not all zero, and their positions in C order.
    pub(super) fn from_dense(tensor: &RawTensor) -> Result<(Self, Vec<usize>), ZTensorError> {
        let at = || FilePart::object("");
        let size = element_size(tensor.dtype(), &at())?;
        let n_values = n_stored(tensor.bytes(), size);
        let n_bytes = n_values.saturating_mul(size);
        let memory = |_| ZTensorError::Memory { at: at(), n_bytes: n_bytes as u64 };
        let (mut values, mut positions) = (Vec::new(), Vec::new());
        values.try_reserve_exact(n_bytes).map_err(memory)?;
        positions.try_reserve_exact(n_values).map_err(memory)?;
        for (position, element) in tensor.bytes().chunks_exact(size).enumerate() {
            if is_stored(element) {
                values.extend_from_slice(element);
                positions.push(position);
            }
        }
        let values = RawTensor::new(tensor.dtype(), vec![positions.len()], SharedBytes::from(values));
        let values = values.map_err(|source| ZTensorError::Tensor { at: at(), source })?;
        Ok((Self { at: at(), shape: tensor.shape().to_vec(), values }, positions))
    }
}
