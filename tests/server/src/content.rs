//! The bytes of a body.

use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

/// The bytes of a body. Clones share them.
#[derive(Clone, Debug)]
pub enum Content {
    /// In memory.
    Bytes(Arc<[u8]>),
    /// In a file, of which only the sent bytes are read.
    File(Arc<std::fs::File>),
}

impl Content {
    /// Opens the file at a path.
    ///
    /// # Panics
    /// If it cannot be opened.
    #[must_use]
    pub fn open(path: &Path) -> Self {
        Self::File(Arc::new(std::fs::File::open(path).unwrap()))
    }

    /// The length in bytes.
    ///
    /// # Panics
    /// If the file's metadata cannot be read.
    #[must_use]
    pub fn length(&self) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::File(file) => file.metadata().unwrap().len(),
        }
    }

    /// Fills the buffer with the bytes at an offset.
    pub(super) fn read_at(&self, buffer: &mut [u8], offset: u64) {
        match self {
            Self::Bytes(bytes) => {
                let offset = usize::try_from(offset).unwrap();
                buffer.copy_from_slice(&bytes[offset..offset + buffer.len()]);
            }
            Self::File(file) => file.read_exact_at(buffer, offset).unwrap(),
        }
    }
}

impl<T: Into<Vec<u8>>> From<T> for Content {
    fn from(bytes: T) -> Self {
        Self::Bytes(bytes.into().into())
    }
}
