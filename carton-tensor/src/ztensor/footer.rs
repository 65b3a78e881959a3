//! Parses the start and the end of a file (spec/ztensor.md §1.1, §1.2). Pure: bytes in, positions out.

use std::ops::Range;

use super::ZTensorError;

/// The magic number at the start and the end of a file of zTensor 1.x.
pub const MAGIC: [u8; 8] = *b"ZTEN1000";
/// The alignment of blobs in bytes.
pub const ALIGNMENT: u64 = 64;
/// The largest manifest, in bytes.
pub const MAX_MANIFEST: u64 = 1 << 30;

/// The magic numbers of other container versions, and their names.
const OTHER_VERSIONS: [(&[u8; 8], &str); 2] = [(b"ZTEN0001", "0.1"), (b"\x89ZT2\r\n\x1a\n", "2.x")];

/// The bytes of the footer: the size of the manifest, eight bytes, and the magic number.
const FOOTER: usize = 16;

/// The position of the manifest, from the last bytes of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Footer {
    manifest_offset: u64,
    manifest_length: u64,
}

impl Footer {
    /// The number of bytes at the end of a file that [`parse`](Self::parse) needs.
    pub const LENGTH: usize = FOOTER;

    /// Parses the last [`LENGTH`](Self::LENGTH) bytes of a file of `file_length` bytes.
    ///
    /// ```
    /// use carton_tensor::ztensor::Footer;
    /// let footer = Footer::parse(b"\x02\0\0\0\0\0\0\0ZTEN1000", 66 + 16)?;
    /// assert_eq!(footer.manifest(), 64..66);
    /// # Ok::<(), carton_tensor::ztensor::ZTensorError>(())
    /// ```
    ///
    /// # Errors
    /// [`TooShort`](ZTensorError::TooShort), [`Magic`](ZTensorError::Magic), [`OtherVersion`](ZTensorError::OtherVersion),
    /// [`ManifestSize`](ZTensorError::ManifestSize), [`ManifestBounds`](ZTensorError::ManifestBounds).
    pub fn parse(last: &[u8; FOOTER], file_length: u64) -> Result<Self, ZTensorError> {
        let (size, magic) = last.split_at(8);
        check_magic("ends", magic.try_into().unwrap_or_default())?;
        let manifest_length = u64::from_le_bytes(size.try_into().unwrap_or_default());
        if manifest_length > MAX_MANIFEST {
            return Err(ZTensorError::ManifestSize { found: manifest_length, limit: MAX_MANIFEST });
        }
        let available = file_length.saturating_sub((MAGIC.len() + FOOTER) as u64);
        if manifest_length > available {
            return Err(ZTensorError::ManifestBounds { found: manifest_length, available });
        }
        Ok(Self { manifest_offset: file_length - FOOTER as u64 - manifest_length, manifest_length })
    }

    /// The range of the manifest in the file.
    #[must_use]
    pub const fn manifest(&self) -> Range<u64> {
        self.manifest_offset..self.manifest_offset + self.manifest_length
    }
}

/// Checks the first eight bytes of a file.
///
/// # Errors
/// [`Magic`](ZTensorError::Magic), [`OtherVersion`](ZTensorError::OtherVersion).
pub fn check_header(first: [u8; 8]) -> Result<(), ZTensorError> {
    check_magic("starts", first)
}

/// Checks that a file is long enough for its start, its end and an empty map between them.
pub(super) fn check_length(file_length: u64) -> Result<(), ZTensorError> {
    let expected = (MAGIC.len() + 1 + FOOTER) as u64;
    if file_length < expected {
        return Err(ZTensorError::TooShort { found: file_length, expected });
    }
    Ok(())
}

fn check_magic(place: &'static str, found: [u8; 8]) -> Result<(), ZTensorError> {
    if found == MAGIC {
        return Ok(());
    }
    match OTHER_VERSIONS.iter().find(|(magic, _)| **magic == found) {
        Some((_, version)) => Err(ZTensorError::OtherVersion { version }),
        None => Err(ZTensorError::Magic { place, found }),
    }
}
