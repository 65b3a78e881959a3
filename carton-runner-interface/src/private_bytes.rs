//! Bytes of tensors that may be written without changing the tensor.

use std::any::Any;
use std::sync::Arc;

use carton_tensor::{AlignedBytes, NumericTensor, Storage};

use crate::shared_memory::peer::PeerBuffer;
use crate::shared_memory::region::Mapping;

/// Smaller tensors are copied, because that takes less time than setting up the pages of a mapping.
const WORTH_A_MAPPING: usize = 128 << 10;

/// The bytes of a tensor, for a holder who may write to them: the tensor does not change.
///
/// A runner's memory can only be read, and a program that writes to it is killed by the system. Libraries that take arrays of others often
/// ignore that an array is read-only, so what they are given must be memory that survives it. The bytes of a large tensor in a runner's
/// memory are not copied for that: they are mapped once more, and the system copies each page when it is first written. The bytes of other
/// tensors are copied.
///
/// ```
/// use carton_runner_interface::PrivateBytes;
/// use carton_tensor::NumericTensor;
///
/// let tensor = NumericTensor::from_vec(vec![1_u8, 2, 3], vec![3])?;
/// let mut bytes = PrivateBytes::of(&tensor);
/// bytes.as_mut_slice()[0] = 7;
/// assert_eq!((bytes.as_slice(), tensor.bytes()), (&[7, 2, 3][..], &[1, 2, 3][..]));
/// # Ok::<(), carton_tensor::TensorError>(())
/// ```
pub struct PrivateBytes(Bytes);

enum Bytes {
    Copied(AlignedBytes),
    /// Some pages of a runner's region, and the buffer in them, which the runner does not use again while it is borrowed.
    Mapped {
        pages: Mapping,
        start: usize,
        length: usize,
        _buffer: Arc<dyn Storage>,
    },
}

impl PrivateBytes {
    /// The bytes of `tensor`. They are copied where they cannot be mapped.
    #[must_use]
    pub fn of(tensor: &NumericTensor) -> Self {
        Self(Self::mapped(tensor).unwrap_or_else(|| Bytes::Copied(AlignedBytes::copy_of(tensor.bytes()))))
    }

    fn mapped(tensor: &NumericTensor) -> Option<Bytes> {
        let length = tensor.bytes().len();
        if length < WORTH_A_MAPPING {
            return None;
        }
        let (storage, offset) = tensor.storage();
        let buffer = (storage.as_ref() as &dyn Any).downcast_ref::<PeerBuffer>()?;
        let (pages, start) = buffer.copy_on_write(offset, length).ok()?;
        Some(Bytes::Mapped { pages, start, length, _buffer: Arc::clone(storage) })
    }

    /// Whether the bytes were mapped, not copied.
    #[must_use]
    pub fn is_mapped(&self) -> bool {
        matches!(self.0, Bytes::Mapped { .. })
    }

    /// The bytes.
    #[must_use]
    pub fn as_slice(&self) -> &[u8] {
        match &self.0 {
            Bytes::Copied(bytes) => bytes.as_slice(),
            // SAFETY: the mapping has `start + length` bytes, its file cannot shrink, and the runner must not write to a buffer that it has
            // lent. If it does, numbers change, and every bit pattern of them is valid.
            Bytes::Mapped { pages, start, length, .. } => unsafe {
                std::slice::from_raw_parts(pages.at(*start), *length)
            },
        }
    }

    /// The bytes, for writing.
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        match &mut self.0 {
            Bytes::Copied(bytes) => bytes.as_mut_slice(),
            // SAFETY: as above; the pages are writable, private to this value, and borrowed exclusively.
            Bytes::Mapped { pages, start, length, .. } => unsafe {
                std::slice::from_raw_parts_mut(pages.at(*start), *length)
            },
        }
    }
}

impl std::fmt::Debug for PrivateBytes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let length = self.as_slice().len();
        f.debug_struct("PrivateBytes").field("length", &length).field("is_mapped", &self.is_mapped()).finish()
    }
}
