//! A range of memory that several owners share.

use std::fmt;
use std::ops::{Deref, Range};
use std::sync::Arc;

use crate::Storage;

/// A range of bytes in a [`Storage`], such as one tensor in a mapped file. Cloning and slicing copy no bytes.
///
/// ```
/// use carton_tensor::files::SharedBytes;
/// let bytes = SharedBytes::from(vec![1_u8, 2, 3, 4]);
/// assert_eq!(bytes.slice(1..3).as_deref(), Some([2, 3].as_slice()));
/// assert!(bytes.slice(3..5).is_none());
/// ```
#[derive(Clone)]
pub struct SharedBytes {
    storage: Arc<dyn Storage>,
    offset: usize,
    len: usize,
}

impl SharedBytes {
    /// All bytes of `storage`.
    #[must_use]
    pub fn new(storage: Arc<dyn Storage>) -> Self {
        let len = storage.bytes().len();
        Self { storage, offset: 0, len }
    }

    /// Returns the bytes in `range`, relative to the start of this range; `None` if they are not all inside it.
    #[must_use]
    pub fn slice(&self, range: Range<usize>) -> Option<Self> {
        (range.start <= range.end && range.end <= self.len).then(|| Self {
            storage: Arc::clone(&self.storage),
            offset: self.offset + range.start,
            len: range.end - range.start,
        })
    }

    /// The storage, and the offset of these bytes in it.
    #[must_use]
    pub fn storage(&self) -> (&Arc<dyn Storage>, usize) {
        (&self.storage, self.offset)
    }

    /// The bytes for writing; `None` if the storage has another owner or is read-only.
    pub fn as_mut_slice(&mut self) -> Option<&mut [u8]> {
        let range = self.offset..self.offset + self.len;
        Arc::get_mut(&mut self.storage)?.bytes_mut()?.get_mut(range)
    }
}

impl Deref for SharedBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // `slice` checked the range. If the storage has shrunk since, this returns an empty slice instead of panicking.
        self.storage.bytes().get(self.offset..self.offset + self.len).unwrap_or_default()
    }
}

impl<S: Storage> From<S> for SharedBytes {
    fn from(storage: S) -> Self {
        Self::new(Arc::new(storage))
    }
}

impl fmt::Debug for SharedBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedBytes").field("offset", &self.offset).field("len", &self.len).finish_non_exhaustive()
    }
}
