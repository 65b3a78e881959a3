//! The memory behind numeric tensors: a vector, an aligned heap block, a pool of shared memory, a mapped file.

use std::any::Any;

use crate::Element;

/// Owns the bytes of a numeric tensor.
///
/// Tensors share their storage through an `Arc`; whoever implements this trait gives the memory back when the last
/// clone is dropped. Other crates recognise their own storage by downcasting (`Any`), which is how a tensor that
/// already lies in shared memory is passed to a runner without a copy.
///
/// An implementation should give the same memory each time. Nothing unsafe depends on it: tensors look at the length again
/// whenever they use the bytes, and one whose storage shrank has no bytes.
pub trait Storage: Any + Send + Sync {
    /// All bytes of the storage, little-endian elements one after another.
    fn bytes(&self) -> &[u8];

    /// The same bytes for writing, where the memory may be written; `None` for read-only memory.
    fn bytes_mut(&mut self) -> Option<&mut [u8]> {
        None
    }
}

impl<T: Element> Storage for Vec<T> {
    fn bytes(&self) -> &[u8] {
        bytemuck::cast_slice(self)
    }

    fn bytes_mut(&mut self) -> Option<&mut [u8]> {
        Some(bytemuck::cast_slice_mut(self))
    }
}

/// Zero-initialised bytes on the heap, aligned to 64 so that every element type and vector instruction can use them.
pub struct AlignedBytes {
    blocks: Vec<Block>,
    len: usize,
}

#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Block([u8; 64]);

// SAFETY: a block is 64 bytes with no padding and no invalid bit pattern.
unsafe impl bytemuck::Zeroable for Block {}
// SAFETY: as above; it is `Copy`, `'static`, and holds nothing but bytes.
unsafe impl bytemuck::Pod for Block {}

impl AlignedBytes {
    /// `len` zero bytes.
    ///
    /// The caller has checked that `len` is a size it means to allocate: nothing here caps it, and when there is not
    /// enough memory the process ends. For a size that comes from a file use [`try_zeroed`](Self::try_zeroed).
    #[must_use]
    pub fn zeroed(len: usize) -> Self {
        Self { blocks: bytemuck::allocation::zeroed_vec(len.div_ceil(64)), len }
    }

    /// `len` zero bytes, or `None` when there is no memory for them: for sizes that a file or a peer claims.
    ///
    /// ```
    /// use carton_tensor::AlignedBytes;
    /// assert!(AlignedBytes::try_zeroed(3).is_some_and(|bytes| bytes.as_slice() == [0, 0, 0]));
    /// assert!(AlignedBytes::try_zeroed(usize::MAX).is_none());
    /// ```
    #[must_use]
    pub fn try_zeroed(len: usize) -> Option<Self> {
        Some(Self { blocks: bytemuck::allocation::try_zeroed_vec(len.div_ceil(64)).ok()?, len })
    }

    /// A copy of `bytes`.
    #[must_use]
    pub fn copy_of(bytes: &[u8]) -> Self {
        let mut copy = Self::zeroed(bytes.len());
        copy.as_mut_slice().copy_from_slice(bytes);
        copy
    }

    /// The bytes.
    #[must_use]
    pub fn as_slice(&self) -> &[u8] {
        &bytemuck::cast_slice(&self.blocks)[..self.len]
    }

    /// The bytes, for writing.
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        &mut bytemuck::cast_slice_mut(&mut self.blocks)[..self.len]
    }
}

impl Storage for AlignedBytes {
    fn bytes(&self) -> &[u8] {
        self.as_slice()
    }

    fn bytes_mut(&mut self) -> Option<&mut [u8]> {
        Some(self.as_mut_slice())
    }
}
