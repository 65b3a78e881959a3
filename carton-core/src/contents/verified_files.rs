//! Verified files that are kept open, because parts of them are read.

use std::collections::BTreeMap;
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use carton_format::source::FileIdentity;
use carton_tensor::files::{FileBytes, SharedBytes};
use parking_lot::Mutex;

use super::ContentsError;
use super::origin::Origin;

/// How many files are kept open. Our writer makes one that is read in parts; another may make thousands.
const MOST_OPEN: usize = 8;

/// The files of which parts were read, by their path.
#[derive(Default)]
pub(super) struct VerifiedFiles(Mutex<BTreeMap<String, Arc<VerifiedFile>>>);

impl VerifiedFiles {
    /// The file at this path, from an earlier call or from `verify`.
    pub(super) fn get_or_verify(
        &self,
        path: &str,
        verify: impl FnOnce() -> Result<VerifiedFile, ContentsError>,
    ) -> Result<Arc<VerifiedFile>, ContentsError> {
        // Held while a file is verified, so that none is verified twice at the same time.
        let mut verified = self.0.lock();
        if let Some(found) = verified.get(path) {
            return Ok(Arc::clone(found));
        }
        let found = Arc::new(verify()?);
        if verified.len() >= MOST_OPEN {
            verified.clear();
        }
        verified.insert(path.to_owned(), Arc::clone(&found));
        Ok(found)
    }
}

/// A file whose bytes matched MANIFEST.
#[derive(Debug)]
pub(super) enum VerifiedFile {
    /// All of it.
    Memory(Vec<u8>),
    /// A range of an open file, which must stay as it was when it was verified.
    File {
        file: Arc<File>,
        range: Range<u64>,
        identity: FileIdentity,
        /// The same bytes mapped, once somebody asked for that.
        map: OnceLock<SharedBytes>,
    },
}

impl VerifiedFile {
    /// A range of an open file.
    pub(super) fn file(file: File, range: Range<u64>, identity: FileIdentity) -> Self {
        Self::File { file: Arc::new(file), range, identity, map: OnceLock::new() }
    }

    /// All of an open file.
    pub(super) fn whole(file: File, path: &Path) -> Result<Self, ContentsError> {
        let metadata = file.metadata().map_err(ContentsError::io("inspect", &PathBuf::from(path)))?;
        let identity = FileIdentity::of(&metadata);
        Ok(Self::file(file, 0..identity.size, identity))
    }

    /// Its number of bytes.
    pub(super) fn length(&self) -> u64 {
        match self {
            Self::Memory(bytes) => bytes.len() as u64,
            Self::File { range, .. } => range.end - range.start,
        }
    }

    /// Fills `buffer` with its bytes from `offset` on. `path` and `origin` are for errors.
    ///
    /// # Errors
    /// It has no such range, or it changed since it was verified.
    pub(super) fn read(
        &self,
        offset: u64,
        buffer: &mut [u8],
        path: &str,
        origin: &Origin,
    ) -> Result<(), ContentsError> {
        let outside = |length: u64| ContentsError::Size {
            path: path.to_owned(),
            expected: format!("{} bytes from offset {offset} on", buffer.len()),
            found: length,
        };
        match self {
            Self::Memory(bytes) => {
                let start = usize::try_from(offset).unwrap_or(usize::MAX);
                let part = start.checked_add(buffer.len()).and_then(|end| bytes.get(start..end));
                buffer.copy_from_slice(part.ok_or_else(|| outside(bytes.len() as u64))?);
                Ok(())
            }
            Self::File { file, range, identity, .. } => {
                let length = range.end - range.start;
                if offset.checked_add(buffer.len() as u64).is_none_or(|end| end > length) {
                    return Err(outside(length));
                }
                let read = file.read_exact_at(buffer, range.start + offset);
                // Checked after reading: bytes that were read before a change are right.
                if !is_unchanged(file, identity) {
                    return Err(ContentsError::Changed { location: origin.location() });
                }
                read.map_err(ContentsError::io("read", Path::new(path)))
            }
        }
    }

    /// Maps it; `None` for a file in memory. Nothing is copied, and all callers share one map. `path` and `origin` are for errors.
    ///
    /// # Errors
    /// The system cannot map it, or it changed since it was verified.
    pub(super) fn map(&self, path: &str, origin: &Origin) -> Result<Option<SharedBytes>, ContentsError> {
        let Self::File { file, range, identity, map } = self else { return Ok(None) };
        let bytes = match map.get() {
            Some(bytes) => bytes.clone(),
            None => {
                let bytes = FileBytes::map_range(file, range.clone());
                let bytes = bytes.map_err(ContentsError::io("map", Path::new(path)))?;
                map.get_or_init(|| bytes).clone()
            }
        };
        if !is_unchanged(file, identity) {
            return Err(ContentsError::Changed { location: origin.location() });
        }
        Ok(Some(bytes))
    }
}

fn is_unchanged(file: &File, identity: &FileIdentity) -> bool {
    file.metadata().is_ok_and(|metadata| FileIdentity::of(&metadata).has_same_bytes(identity))
}
