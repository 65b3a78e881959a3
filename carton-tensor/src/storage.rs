//! The memory behind numeric tensors: a vector, an aligned heap block, a pool of shared memory, or a mapped file.

use std::any::Any;

use crate::Element;

/// Owns the bytes of a numeric tensor.
///
/// Tensors share their storage through an `Arc`. An implementation releases its memory when it is dropped together with the last clone.
/// Other crates recognise their own storage by downcasting (`Any`), which lets them pass a tensor that is already in shared memory to a
/// runner without a copy.
///
/// An implementation should return the same memory each time. Nothing unsafe depends on this: tensors check the length whenever they
/// use the bytes, and a tensor whose storage has shrunk has no bytes.
pub trait Storage: Any + Send + Sync {
    /// All bytes of the storage: little-endian elements without gaps.
    fn bytes(&self) -> &[u8];

    /// The same bytes for writing; `None` if the memory is read-only.
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

/// Zero-initialised bytes on the heap, aligned to 64 bytes so that every element type and vector instruction can use them.
///
/// Where Linux allows it, large buffers use huge pages, because otherwise setting up the pages takes more time than filling the buffer
/// for the first time.
pub struct AlignedBytes {
    /// Zeroed memory directly from the system, which is not touched before it is used. Requesting the alignment from the allocator
    /// would make it write the zeros. The buffer therefore has room to start at a multiple of the alignment, and is never resized.
    buffer: Vec<u8>,
    start: usize,
    len: usize,
}

/// The alignment in bytes.
const ALIGNMENT: usize = 64;

impl AlignedBytes {
    /// Allocates `len` zero bytes.
    ///
    /// Nothing here caps `len`, and the process ends if there is not enough memory, so the caller must have checked it. For a size that
    /// comes from a file use [`try_zeroed`](Self::try_zeroed).
    #[must_use]
    pub fn zeroed(len: usize) -> Self {
        Self::inside(vec![0; len.saturating_add(ALIGNMENT - 1)], len)
    }

    /// Allocates `len` zero bytes, or returns `None` if there is not enough memory. Use this for sizes that a file or a peer claims.
    ///
    /// ```
    /// use carton_tensor::AlignedBytes;
    /// assert!(AlignedBytes::try_zeroed(3).is_some_and(|bytes| bytes.as_slice() == [0, 0, 0]));
    /// assert!(AlignedBytes::try_zeroed(usize::MAX).is_none());
    /// ```
    #[must_use]
    pub fn try_zeroed(len: usize) -> Option<Self> {
        let buffer = bytemuck::allocation::try_zeroed_vec(len.checked_add(ALIGNMENT - 1)?).ok()?;
        Some(Self::inside(buffer, len))
    }

    /// Takes `len` bytes from the first aligned address of `buffer`, which is longer by the most bytes that may be skipped.
    fn inside(mut buffer: Vec<u8>, len: usize) -> Self {
        huge_pages::advise(&mut buffer);
        let address = buffer.as_ptr().addr();
        Self { start: address.next_multiple_of(ALIGNMENT) - address, buffer, len }
    }

    /// Copies `bytes`.
    #[must_use]
    pub fn copy_of(bytes: &[u8]) -> Self {
        let mut copy = Self::zeroed(bytes.len());
        copy.as_mut_slice().copy_from_slice(bytes);
        copy
    }

    /// The bytes.
    #[must_use]
    pub fn as_slice(&self) -> &[u8] {
        &self.buffer[self.start..][..self.len]
    }

    /// The bytes for writing.
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        &mut self.buffer[self.start..][..self.len]
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

#[cfg(target_os = "linux")]
mod huge_pages {
    use rustix::mm::{Advice, madvise};

    /// The size of a huge page on most machines, and a multiple of the size of every small page.
    const HUGE_PAGE: usize = 2 << 20;
    /// Smaller buffers are not worth the call.
    const WORTHWHILE: usize = 4 << 20;

    /// Requests huge pages for the part of the buffer that they can cover.
    pub(super) fn advise(buffer: &mut [u8]) {
        if buffer.len() < WORTHWHILE {
            return;
        }
        let address = buffer.as_ptr().addr();
        let skipped = address.next_multiple_of(HUGE_PAGE) - address;
        let Some(pages) = buffer.get_mut(skipped..) else { return };
        let length = pages.len() / HUGE_PAGE * HUGE_PAGE;
        // SAFETY: the range lies inside a buffer that we may write, and starts and ends at page boundaries. The advice changes what
        // backs the memory, not its content. A refusal is ignored, because the memory also works without huge pages.
        let _ = unsafe { madvise(pages.as_mut_ptr().cast(), length, Advice::LinuxHugepage) };
    }
}

#[cfg(not(target_os = "linux"))]
mod huge_pages {
    /// Other systems decide for themselves.
    pub(super) fn advise(_: &mut [u8]) {}
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn bytes_are_zero_and_aligned() {
        for len in [0, 1, 63, 64, 65, 4095, (4 << 20) - 64, (4 << 20) + 1, 9_000_001] {
            for mut bytes in [AlignedBytes::zeroed(len), AlignedBytes::try_zeroed(len).unwrap()] {
                assert_eq!((bytes.as_slice().len(), bytes.as_slice().as_ptr().addr() % ALIGNMENT), (len, 0));
                assert!(bytes.as_slice().iter().all(|&byte| byte == 0));
                bytes.as_mut_slice().fill(7);
                assert!(AlignedBytes::copy_of(bytes.as_slice()).bytes() == bytes.as_slice());
                assert_eq!(bytes.bytes_mut().unwrap().len(), len);
            }
        }
        for impossible in [usize::MAX, usize::MAX - 62, isize::MAX as usize, 1 << 60] {
            assert!(AlignedBytes::try_zeroed(impossible).is_none(), "{impossible}");
        }
    }
}
