//! Access to the bytes of a tensor file: from memory, from a map, or by positioned reads.

use std::fmt;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use memmap2::{MmapMut, MmapOptions};

use super::SharedBytes;
use crate::{AlignedBytes, Storage};

/// Bytes that are read by position from somewhere else than a file of this machine, by any number of threads.
pub trait ReadAt: Send + Sync {
    /// The number of bytes, which does not change.
    fn len(&self) -> u64;

    /// Whether there are no bytes.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Fills all of `buffer` with the bytes that start at `offset`.
    ///
    /// # Errors
    /// [`UnexpectedEof`](io::ErrorKind::UnexpectedEof) for a range past the end; any other error of the source.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()>;
}

/// The bytes of a tensor file: in memory, mapped, or read on demand by position. Any number of threads may read.
#[derive(Clone, Debug)]
pub struct FileBytes(Inner);

#[derive(Clone)]
enum Inner {
    Memory(SharedBytes),
    File(Arc<File>, u64),
    Reader(Arc<dyn ReadAt>),
}

impl fmt::Debug for Inner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Memory(bytes) => f.debug_tuple("Memory").field(bytes).finish(),
            Self::File(file, length) => f.debug_tuple("File").field(file).field(length).finish(),
            Self::Reader(reader) => f.debug_tuple("Reader").field(&reader.len()).finish(),
        }
    }
}

/// A mapped file as storage of tensors.
struct Mapped(MmapMut);

impl Storage for Mapped {
    fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl FileBytes {
    /// Opens the file at `path`. Each read copies bytes into newly allocated memory.
    ///
    /// # Errors
    /// IO; `path` is not a regular file.
    pub fn open(path: impl AsRef<Path>) -> io::Result<Self> {
        let (file, len) = open(path.as_ref())?;
        Ok(Self(Inner::File(Arc::new(file), len)))
    }

    /// Uses an open file, with its present length, by positioned reads.
    ///
    /// # Errors
    /// IO; the file is not a regular file.
    pub fn from_file(file: File) -> io::Result<Self> {
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "expected a regular file"));
        }
        Ok(Self(Inner::File(Arc::new(file), metadata.len())))
    }

    /// Uses the bytes of `reader`, which is asked for each range that is read.
    #[must_use]
    pub fn from_reader(reader: Arc<dyn ReadAt>) -> Self {
        Self(Inner::Reader(reader))
    }

    /// Maps the file at `path`. Its bytes are views of the page cache, and nothing is copied.
    ///
    /// Use this only for files that no process writes to while they are mapped. If another process truncates the file, reading the
    /// missing part ends this process with SIGBUS. If another process writes to the file, tensors change while they are read. Use
    /// [`open`](Self::open) for files from untrusted sources.
    ///
    /// # Errors
    /// IO; `path` is not a regular file.
    pub fn map(path: impl AsRef<Path>) -> io::Result<Self> {
        let (file, len) = open(path.as_ref())?;
        Ok(Self::from(Self::map_range(&file, 0..len)?))
    }

    /// Maps a range of an open file. The range need not start at a page boundary. The dangers are those of [`map`](Self::map).
    ///
    /// ```
    /// use carton_tensor::files::FileBytes;
    /// # let directory = tempfile::tempdir()?;
    /// # let path = directory.path().join("bytes");
    /// std::fs::write(&path, b"some bytes")?;
    /// let bytes = FileBytes::map_range(&std::fs::File::open(&path)?, 5..10)?;
    /// assert_eq!(&*bytes, b"bytes");
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Errors
    /// IO; [`UnexpectedEof`](io::ErrorKind::UnexpectedEof) for a range past the end.
    pub fn map_range(file: &File, range: Range<u64>) -> io::Result<SharedBytes> {
        let len = file.metadata()?.len();
        let length = range.end.checked_sub(range.start).filter(|_| range.end <= len);
        let length = length.and_then(|length| usize::try_from(length).ok()).ok_or_else(|| past_the_end(&range, len))?;
        if length == 0 {
            return Ok(SharedBytes::from(Vec::<u8>::new()));
        }
        let mut options = MmapOptions::new();
        // Nothing is written here. Other languages may ignore that a view is read-only; their writes then change a copy of the page, instead of
        // ending the process. No memory is set aside for such copies, so that a file may be larger than the memory.
        options.offset(range.start).len(length).no_reserve_swap();
        // SAFETY: the map is only read. The caller promises, as documented above, that the file does not change while it is mapped. If
        // the promise is broken, the process may end or numbers may change, but no type invariant breaks, because every bit pattern is
        // a valid element.
        let map = unsafe { options.map_copy(file)? };
        Ok(SharedBytes::from(Mapped(map)))
    }

    /// The number of bytes.
    #[must_use]
    pub fn len(&self) -> u64 {
        match &self.0 {
            // Every platform that Rust supports has a usize of at most 64 bits.
            Inner::Memory(bytes) => bytes.len() as u64,
            Inner::File(_, len) => *len,
            Inner::Reader(reader) => reader.len(),
        }
    }

    /// Whether there are no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether [`read`](Self::read) copies nothing.
    #[must_use]
    pub fn is_in_memory(&self) -> bool {
        matches!(self.0, Inner::Memory(_))
    }

    /// Returns the bytes in `range`: a view of the memory or the map, or a copy from the file, aligned to 64 bytes.
    ///
    /// # Errors
    /// IO; [`UnexpectedEof`](io::ErrorKind::UnexpectedEof) for a range past the end, also if the file has become shorter since it was
    /// opened; [`OutOfMemory`](io::ErrorKind::OutOfMemory).
    pub fn read(&self, range: Range<u64>) -> io::Result<SharedBytes> {
        let (start, end) = self.check(&range)?;
        match &self.0 {
            Inner::Memory(bytes) => bytes.slice(start..end).ok_or_else(|| past_the_end(&range, self.len())),
            Inner::File(..) | Inner::Reader(_) => {
                let bytes = AlignedBytes::try_zeroed(end - start);
                let mut bytes = bytes.ok_or_else(|| io::Error::from(io::ErrorKind::OutOfMemory))?;
                self.read_into(range.start, bytes.as_mut_slice())?;
                Ok(bytes.into())
            }
        }
    }

    /// Fills all of `buffer` with the bytes that start at `offset`.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub fn read_into(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        let range = offset..offset.saturating_add(buffer.len() as u64);
        let (start, end) = self.check(&range)?;
        match &self.0 {
            Inner::Memory(bytes) => {
                let found = bytes.get(start..end).ok_or_else(|| past_the_end(&range, self.len()))?;
                buffer.copy_from_slice(found);
                Ok(())
            }
            Inner::File(file, _) => read_exact_at(file, buffer, offset),
            Inner::Reader(reader) => reader.read_at(offset, buffer),
        }
    }

    /// Returns the first bytes, as many as are wanted or there are.
    ///
    /// # Errors
    /// The bytes cannot be read.
    #[cfg(any(feature = "gguf", feature = "safetensors", feature = "torch", feature = "ztensor"))]
    pub fn start(&self, n_bytes: usize) -> io::Result<Vec<u8>> {
        let mut start = vec![0; self.len().min(n_bytes as u64) as usize];
        self.read_into(0, &mut start)?;
        Ok(start)
    }

    fn check(&self, range: &Range<u64>) -> io::Result<(usize, usize)> {
        if range.start > range.end || range.end > self.len() {
            return Err(past_the_end(range, self.len()));
        }
        let position = |position: u64| usize::try_from(position).map_err(|_| past_the_end(range, self.len()));
        Ok((position(range.start)?, position(range.end)?))
    }
}

impl From<SharedBytes> for FileBytes {
    fn from(bytes: SharedBytes) -> Self {
        Self(Inner::Memory(bytes))
    }
}

impl From<Vec<u8>> for FileBytes {
    fn from(bytes: Vec<u8>) -> Self {
        SharedBytes::from(bytes).into()
    }
}

/// Opens a regular file. A pipe has no positions, and opening one could block forever.
fn open(path: &Path) -> io::Result<(File, u64)> {
    let metadata = std::fs::metadata(path)?;
    if !metadata.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "expected a regular file"));
    }
    let file = File::open(path)?;
    // The size comes from the opened file, because the path may lead to another file by now.
    let len = file.metadata()?.len();
    Ok((file, len))
}

fn past_the_end(range: &Range<u64>, len: u64) -> io::Error {
    let message = format!("bytes {} to {} of {len} do not exist", range.start, range.end);
    io::Error::new(io::ErrorKind::UnexpectedEof, message)
}

#[cfg(unix)]
fn read_exact_at(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, buffer, offset)
}

#[cfg(windows)]
fn read_exact_at(file: &File, mut buffer: &mut [u8], mut offset: u64) -> io::Result<()> {
    while !buffer.is_empty() {
        let n_bytes = std::os::windows::fs::FileExt::seek_read(file, buffer, offset)?;
        if n_bytes == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        buffer = &mut buffer[n_bytes..];
        offset += n_bytes as u64;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    struct Elsewhere([u8; 4]);

    impl ReadAt for Elsewhere {
        fn len(&self) -> u64 {
            4
        }

        /// Panics outside of the bytes.
        fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
            let offset = offset as usize;
            buffer.copy_from_slice(&self.0[offset..offset + buffer.len()]);
            Ok(())
        }
    }

    #[test]
    fn ranges_are_checked_wherever_the_bytes_are() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("bytes");
        std::fs::write(&path, [1, 2, 3, 4]).unwrap();
        let elsewhere = FileBytes::from_reader(Arc::new(Elsewhere([1, 2, 3, 4])));
        for bytes in [
            FileBytes::from(vec![1, 2, 3, 4]),
            FileBytes::open(&path).unwrap(),
            FileBytes::map(&path).unwrap(),
            elsewhere,
        ] {
            assert_eq!(bytes.len(), 4);
            assert_eq!(*bytes.read(1..3).unwrap(), [2, 3]);
            assert!(bytes.read(4..4).unwrap().is_empty());
            let mut buffer = [0; 2];
            bytes.read_into(2, &mut buffer).unwrap();
            assert_eq!(buffer, [3, 4]);
            #[allow(clippy::reversed_empty_ranges)]
            for range in [3..5, 5..5, 3..2, 0..u64::MAX, u64::MAX..u64::MAX] {
                assert_eq!(bytes.read(range).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
            }
            assert_eq!(bytes.read_into(u64::MAX, &mut buffer).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
        }
    }

    #[test]
    fn ranges_that_are_mapped_are_in_the_file() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("bytes");
        let bytes: Vec<u8> = (0..10_000_u32).map(|n| n as u8).collect();
        std::fs::write(&path, &bytes).unwrap();
        let file = File::open(&path).unwrap();
        for range in [0..10_000, 1..9999, 4096..8192, 9999..10_000, 5000..5000] {
            let expected = &bytes[range.start as usize..range.end as usize];
            assert_eq!(&*FileBytes::map_range(&file, range).unwrap(), expected);
        }
        #[allow(clippy::reversed_empty_ranges)]
        for range in [0..10_001, 10_001..10_001, 3..2, 0..u64::MAX] {
            assert_eq!(FileBytes::map_range(&file, range).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
        }
    }

    #[test]
    fn an_empty_file_and_a_shrinking_one() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("bytes");
        std::fs::write(&path, []).unwrap();
        assert!(FileBytes::map(&path).unwrap().is_empty());
        assert!(FileBytes::open(place.path()).is_err());
        std::fs::write(&path, [0; 100]).unwrap();
        let bytes = FileBytes::open(&path).unwrap();
        std::fs::File::options().write(true).open(&path).unwrap().set_len(10).unwrap();
        assert_eq!(bytes.read(0..100).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }
}
