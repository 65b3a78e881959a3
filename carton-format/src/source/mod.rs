//! The bytes of a carton behind one small trait: from a file or memory here, from a server in `carton-network` (`remote_source`).
//!
//! Reads are positioned and blocking, and keep no position: several threads may read one source at once. This layer does not interpret
//! the bytes.

mod file;
mod memory;
mod nearby;

use std::fs::File;
use std::io;

use serde::{Deserialize, Serialize};

pub use file::FileSource;
pub use memory::MemorySource;
pub use nearby::Nearby;

/// Identifies the contents of a local file: as long as it is equal, the file is unchanged and need not be read again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct FileIdentity {
    /// The device that holds the file.
    pub device: u64,
    /// Its inode number on that device.
    pub inode: u64,
    /// Its length in bytes.
    pub size: u64,
    /// When its contents last changed: seconds and nanoseconds since 1970.
    pub modified: (i64, u32),
    /// When its inode last changed. Unlike `modified`, no program can set it back.
    pub changed: (i64, u32),
}

impl FileIdentity {
    /// The identity of an open file or of a path's metadata.
    pub fn of(metadata: &std::fs::Metadata) -> Self {
        use std::os::unix::fs::MetadataExt;
        let nanoseconds = |value: i64| u32::try_from(value).unwrap_or(0);
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            size: metadata.size(),
            modified: (metadata.mtime(), nanoseconds(metadata.mtime_nsec())),
            changed: (metadata.ctime(), nanoseconds(metadata.ctime_nsec())),
        }
    }

    /// Whether two identities of one file differ at most by what a rename or a new link changes. Neither changes the bytes of an open
    /// file.
    pub fn has_same_bytes(&self, other: &Self) -> bool {
        Self { changed: other.changed, ..*self } == *other
    }
}

/// A sequence of bytes of known length that can be read at any offset, from any thread.
pub trait Source: Send + Sync {
    /// The number of bytes. It does not change, even if the file behind the source does.
    fn len(&self) -> u64;

    /// Whether there are no bytes at all.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Fills the whole `buffer` with the bytes from `offset` on.
    ///
    /// # Errors
    /// [`io::ErrorKind::UnexpectedEof`] when the range does not lie within the source, for any `offset`; any other error comes from the
    /// device. The contents of `buffer` are then unspecified.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()>;

    /// The identity of the local file behind this source, taken from the open descriptor; `None` for other sources.
    fn identity(&self) -> Option<FileIdentity>;

    /// The local file behind this source, whose descriptor may be passed to a runner; `None` for other sources.
    fn file(&self) -> Option<&File>;

    /// The path or URL, for error messages.
    fn location(&self) -> &str;
}

#[doc(hidden)]
pub mod behaviour {
    //! The behaviour suite that every source passes, for the tests of the crates that have sources.
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use std::io;

    use super::Source;

    /// Checks `source`, which must hold exactly `expected`.
    pub fn check(source: &dyn Source, expected: &[u8]) {
        let length = expected.len() as u64;
        assert_eq!(source.len(), length);
        assert_eq!(source.is_empty(), expected.is_empty());
        assert!(!source.location().is_empty());
        assert_eq!(source.identity().is_some(), source.file().is_some());

        for (offset, n_bytes) in [(0, expected.len()), (0, 0), (length, 0), (length / 2, expected.len() / 2)] {
            let mut buffer = vec![0xAA; n_bytes];
            source.read_at(offset, &mut buffer).unwrap();
            let start = usize::try_from(offset).unwrap();
            assert_eq!(buffer, expected[start..start + n_bytes]);
        }
        for (offset, n_bytes) in [(0, expected.len() + 1), (length, 1), (length + 1, 1), (u64::MAX, 1), (u64::MAX, 16)]
        {
            let error = source.read_at(offset, &mut vec![0; n_bytes]).expect_err("read past the end");
            assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof, "{offset} {n_bytes}");
        }
        std::thread::scope(|scope| {
            for start in 0..expected.len().min(8) {
                scope.spawn(move || {
                    let mut buffer = vec![0; expected.len() - start];
                    source.read_at(start as u64, &mut buffer).unwrap();
                    assert_eq!(buffer, expected[start..]);
                });
            }
        });
    }
}
