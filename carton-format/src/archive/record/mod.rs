//! The records of a zip file, each parsed from bytes and written to bytes, with the names and section numbers of the ZIP Application Note
//! (APPNOTE.TXT, version 6.3.10).
//!
//! This module does no input or output, and the records are independent of each other: their users check whether they agree.

pub(crate) mod central_directory_header;
pub(crate) mod end_of_central_directory;
pub(crate) mod extra_field;
pub(crate) mod local_file_header;
pub(crate) mod zip64_end_of_central_directory;
pub(crate) mod zip64_end_of_central_directory_locator;

pub(crate) use central_directory_header::CentralDirectoryHeader;
pub(crate) use end_of_central_directory::EndOfCentralDirectory;
pub(crate) use extra_field::{ExtraFields, Zip64Values};
pub(crate) use local_file_header::LocalFileHeader;
pub(crate) use zip64_end_of_central_directory::Zip64EndOfCentralDirectory;
pub(crate) use zip64_end_of_central_directory_locator::Zip64EndOfCentralDirectoryLocator;

use super::ArchiveError;

/// General purpose bit flags (§4.4.4).
pub(crate) mod flag {
    /// The entry is encrypted.
    pub(crate) const ENCRYPTED: u16 = 1 << 0;
    /// CRC and sizes follow the data in a descriptor; the local header does not have them.
    pub(crate) const STREAMED: u16 = 1 << 3;
    /// The data is a patch of another file.
    pub(crate) const PATCHED: u16 = 1 << 5;
    /// Strong encryption.
    pub(crate) const STRONGLY_ENCRYPTED: u16 = 1 << 6;
    /// The name and the comment are UTF-8.
    pub(crate) const UTF8: u16 = 1 << 11;
    /// Local headers are masked, because the central directory is encrypted.
    pub(crate) const MASKED: u16 = 1 << 13;
}

/// Compression methods (§4.4.5).
pub(crate) mod method {
    pub(crate) const STORED: u16 = 0;
    pub(crate) const DEFLATE: u16 = 8;
    pub(crate) const ZSTD: u16 = 93;
}

/// Stands for a 16-bit value whose real value is in the zip64 records (§4.4.1.4).
pub(crate) const IN_ZIP64_16: u16 = u16::MAX;
/// Stands for a 32-bit value whose real value is in the zip64 records (§4.4.1.4).
pub(crate) const IN_ZIP64_32: u32 = u32::MAX;

/// Parses a record of `N` bytes with this `signature` at the start of `bytes`.
pub(crate) fn fixed<'a, const N: usize>(
    bytes: &'a [u8],
    signature: u32,
    what: &str,
    offset: u64,
) -> Result<Fields<'a, N>, ArchiveError> {
    let Some((record, _)) = bytes.split_first_chunk::<N>() else {
        return Err(ArchiveError::format(what, offset, format_args!("{N} bytes"), format_args!("{}", bytes.len())));
    };
    let fields = Fields(record);
    let found = fields.u32::<0>();
    if found != signature {
        return Err(ArchiveError::format(
            what,
            offset,
            format_args!("the signature {signature:#010x}"),
            format_args!("{found:#010x}"),
        ));
    }
    Ok(fields)
}

/// Little-endian fields at fixed offsets of a record.
pub(crate) struct Fields<'a, const N: usize>(&'a [u8; N]);

impl<const N: usize> Fields<'_, N> {
    fn bytes<const AT: usize, const LENGTH: usize>(&self) -> [u8; LENGTH] {
        const { assert!(AT + LENGTH <= N, "the field lies in the record") };
        std::array::from_fn(|index| self.0[AT + index])
    }

    pub(crate) fn u16<const AT: usize>(&self) -> u16 {
        u16::from_le_bytes(self.bytes::<AT, 2>())
    }

    pub(crate) fn u32<const AT: usize>(&self) -> u32 {
        u32::from_le_bytes(self.bytes::<AT, 4>())
    }

    pub(crate) fn u64<const AT: usize>(&self) -> u64 {
        u64::from_le_bytes(self.bytes::<AT, 8>())
    }
}
