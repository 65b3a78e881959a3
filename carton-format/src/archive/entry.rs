//! One entry of an archive, as the central directory describes it.

use std::sync::{Arc, OnceLock};

use serde::Serialize;

use super::ArchiveError;
use super::record::{CentralDirectoryHeader, ExtraFields, IN_ZIP64_16, IN_ZIP64_32, flag, method};
use crate::name;

/// A file, link or folder in an archive. Cheap to clone.
#[derive(Clone)]
pub struct Entry {
    /// The names of all entries of the archive, concatenated in one allocation. Set once all of them are known.
    pub(super) names: Arc<OnceLock<String>>,
    pub(super) name_start: u32,
    pub(super) name_length: u16,
    pub(super) flags: u16,
    pub(super) kind: EntryKind,
    pub(super) method: Method,
    pub(super) is_executable: bool,
    pub(super) crc32: u32,
    pub(super) size: u64,
    pub(super) compressed_size: u64,
    pub(super) header_offset: u64,
    /// The offset of the next record. The data must end before it.
    pub(super) limit: u64,
}

/// The kind of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntryKind {
    /// A file.
    File,
    /// A symbolic link; its data is its target.
    Symlink,
    /// A folder. It has no data, and its name has no slash at the end.
    Directory,
}

/// How an entry's data is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Method {
    /// Uncompressed.
    Stored,
    /// Deflate.
    Deflate,
    /// Zstandard.
    Zstd,
}

impl Entry {
    /// The path in the archive: relative, made of plain components separated by single slashes.
    pub fn name(&self) -> &str {
        let start = self.name_start as usize;
        self.names.get().map_or("", |names| &names[start..start + usize::from(self.name_length)])
    }

    /// Whether it is a file, a link or a folder.
    pub fn kind(&self) -> EntryKind {
        self.kind
    }

    /// Whether anyone may execute it. Only archives made on Unix record that.
    pub fn is_executable(&self) -> bool {
        self.is_executable
    }

    /// How its data is stored.
    pub fn method(&self) -> Method {
        self.method
    }

    /// The number of its bytes, uncompressed.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// The number of bytes that its data takes in the archive.
    pub fn compressed_size(&self) -> u64 {
        self.compressed_size
    }

    /// The CRC-32 of its uncompressed bytes.
    pub fn crc32(&self) -> u32 {
        self.crc32
    }
}

impl std::fmt::Debug for Entry {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Entry")
            .field("name", &self.name())
            .field("kind", &self.kind)
            .field("method", &self.method)
            .field("size", &self.size)
            .field("compressed_size", &self.compressed_size)
            .field("crc32", &format_args!("{:#010x}", self.crc32))
            .finish()
    }
}

/// The checked contents of a central directory header.
pub(super) struct Described<'a> {
    pub(super) name: &'a str,
    pub(super) kind: EntryKind,
    pub(super) method: Method,
    pub(super) is_executable: bool,
    pub(super) size: u64,
    pub(super) compressed_size: u64,
    pub(super) header_offset: u64,
}

/// The highest version of the application note that an entry may need: 6.3.
const MAX_VERSION_NEEDED: u16 = 63;

/// Checks everything that the header at `offset` alone shows.
pub(super) fn describe<'a>(header: &CentralDirectoryHeader<'a>, offset: u64) -> Result<Described<'a>, ArchiveError> {
    let escaped = || header.name.escape_ascii();
    let is_folder = header.name.ends_with(b"/");
    let plain = if is_folder { &header.name[..header.name.len() - 1] } else { header.name };
    let name = name::check_read(plain).map_err(|source| ArchiveError::Name { name: escaped().to_string(), source })?;

    let refused = flag::ENCRYPTED | flag::STRONGLY_ENCRYPTED | flag::MASKED;
    if header.flags & refused != 0 {
        return Err(ArchiveError::unsupported("encryption", format_args!("`{name}`")));
    }
    if header.flags & flag::PATCHED != 0 {
        return Err(ArchiveError::unsupported("patch data", format_args!("`{name}`")));
    }
    if header.version_needed & 0xFF > MAX_VERSION_NEEDED {
        let version = header.version_needed & 0xFF;
        let found = format_args!("`{name}` needs {}.{}", version / 10, version % 10);
        return Err(ArchiveError::unsupported("a zip version above 6.3", found));
    }
    let method = match header.method {
        method::STORED => Method::Stored,
        method::DEFLATE => Method::Deflate,
        method::ZSTD => Method::Zstd,
        other => {
            return Err(ArchiveError::unsupported("a compression method", format_args!("{other} of `{name}`")));
        }
    };

    let saturated = [
        header.size == IN_ZIP64_32,
        header.compressed_size == IN_ZIP64_32,
        header.header_offset == IN_ZIP64_32,
        header.disk == IN_ZIP64_16,
    ];
    let (mut size, mut compressed_size) = (u64::from(header.size), u64::from(header.compressed_size));
    let mut header_offset = u64::from(header.header_offset);
    if !header.extra.is_empty() || saturated.contains(&true) {
        let extra = ExtraFields::parse(header.extra, offset)?;
        extra.check_unicode_path(header.name, offset)?;
        let values = extra.zip64_values(saturated, offset)?;
        size = values.size.unwrap_or(size);
        compressed_size = values.compressed_size.unwrap_or(compressed_size);
        header_offset = values.header_offset.unwrap_or(header_offset);
    }
    if header.disk != 0 && header.disk != IN_ZIP64_16 {
        return Err(ArchiveError::unsupported("an archive on several disks", format_args!("`{name}`")));
    }

    let kind = kind(header, name, is_folder)?;
    if kind == EntryKind::Directory && size != 0 {
        return Err(ArchiveError::format(
            format_args!("folder entry `{name}/`"),
            offset,
            "no data",
            format_args!("{size} bytes"),
        ));
    }
    check_ratio(method, size, compressed_size)
        .map_err(|(expected, found)| ArchiveError::format(format_args!("size of `{name}`"), offset, expected, found))?;
    let is_executable = header.unix_mode().is_some_and(|mode| mode & 0o111 != 0);
    Ok(Described { name, kind, method, is_executable, size, compressed_size, header_offset })
}

fn kind(header: &CentralDirectoryHeader<'_>, name: &str, is_folder: bool) -> Result<EntryKind, ArchiveError> {
    let file_type = header.unix_mode().unwrap_or(0) & 0o170_000;
    match (file_type, is_folder) {
        (0 | 0o100_000, false) => Ok(EntryKind::File),
        (0o120_000, false) => Ok(EntryKind::Symlink),
        (0 | 0o040_000, true) => Ok(EntryKind::Directory),
        _ => {
            let slash = if is_folder { "/" } else { "" };
            Err(ArchiveError::unsupported(
                "an entry that is neither file, link nor folder",
                format_args!("`{name}{slash}` of type {file_type:#o}"),
            ))
        }
    }
}

/// Refuses a size to which no data of this length can decompress, so that nothing is allocated for it.
fn check_ratio(method: Method, size: u64, compressed_size: u64) -> Result<(), (String, String)> {
    let largest = match method {
        Method::Stored if size == compressed_size => return Ok(()),
        Method::Stored => {
            return Err((format!("{compressed_size}, as many as it is stored in"), size.to_string()));
        }
        // The shortest code, one bit for the length and one for the distance, stands for 258 bytes.
        Method::Deflate => compressed_size.saturating_mul(258 * 4),
        // A block of 128 KiB of one repeated byte takes four bytes.
        Method::Zstd => compressed_size.saturating_mul((128 << 10) / 4),
    };
    if size > largest {
        return Err((format!("at most {largest}, from {compressed_size} compressed bytes"), size.to_string()));
    }
    Ok(())
}
