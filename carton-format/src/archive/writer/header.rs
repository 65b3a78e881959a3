//! Builds the local and the central header of an entry, which fix where its data begins.

use crate::archive::record::central_directory_header::HOST_UNIX;
use crate::archive::record::extra_field::{MIN_PADDING, write_padding};
use crate::archive::record::{CentralDirectoryHeader, IN_ZIP64_32, LocalFileHeader, Zip64Values, flag, method};
use crate::archive::{ArchiveError, Method};
use crate::digest::Sha256Digest;

/// Stored data of at least this many bytes begins at a multiple of [`ALIGNMENT`], so that it can be mapped.
pub(super) const ALIGNED_FROM: u64 = 64 << 10;
/// The size of a page. It also serves where pages are larger: they are multiples of 4096, and readers map from the page's start.
const ALIGNMENT: u64 = 4096;

/// Version 6.3 of the application note, on Unix.
pub(super) const VERSION_MADE_BY: u16 = HOST_UNIX << 8 | 63;
/// The version that introduced zip64.
pub(super) const VERSION_ZIP64: u16 = 45;

/// 1980-01-01, the earliest date that the format has.
const DATE: u16 = 1 << 5 | 1;

/// The length of a zip64 extra field with the two sizes of a local header.
const ZIP64_LENGTH: u64 = 4 + 2 * 8;

/// How an entry's bytes were stored.
#[derive(Debug, Clone)]
pub(super) struct Outcome {
    pub(super) method: Method,
    pub(super) crc32: u32,
    pub(super) size: u64,
    pub(super) compressed_size: u64,
    pub(super) digest: Sha256Digest,
}

/// The outcome of an entry, and the offset of its header.
#[derive(Debug, Clone)]
pub(super) struct Placed {
    pub(super) outcome: Outcome,
    pub(super) header_offset: u64,
}

/// The shape of a local header, which must be known before anything after it is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Shape {
    zip64: bool,
    padding: usize,
    /// The length of the header in bytes.
    pub(super) length: u64,
}

impl Shape {
    /// The header of the entry `name` at `offset`, whose data takes at most `largest` bytes before and after compression.
    /// `in_place` aligns stored data of any size.
    pub(super) fn new(name: &str, offset: u64, method: Method, size: u64, largest: u64, in_place: bool) -> Self {
        let zip64 = largest.max(size) >= u64::from(IN_ZIP64_32);
        let unpadded = LocalFileHeader::LENGTH as u64 + name.len() as u64 + if zip64 { ZIP64_LENGTH } else { 0 };
        let mut padding = 0;
        if method == Method::Stored && (in_place || size >= ALIGNED_FROM) {
            padding = (offset + unpadded).wrapping_neg() % ALIGNMENT;
            if padding != 0 && padding < MIN_PADDING as u64 {
                padding += ALIGNMENT;
            }
        }
        Self { zip64, padding: padding as usize, length: unpadded + padding }
    }

    /// Appends the local header.
    pub(super) fn write(&self, name: &str, outcome: &Outcome, output: &mut Vec<u8>) {
        let mut extra = Vec::new();
        if self.zip64 {
            let (size, compressed_size) = (Some(outcome.size), Some(outcome.compressed_size));
            Zip64Values { size, compressed_size, header_offset: None }.write(&mut extra);
        }
        if self.padding != 0 {
            write_padding(self.padding, ALIGNMENT as u16, &mut extra);
        }
        let short = |size| if self.zip64 { IN_ZIP64_32 } else { u32::try_from(size).unwrap_or(IN_ZIP64_32) };
        let header = LocalFileHeader {
            version_needed: version_needed(outcome.method, self.zip64),
            flags: flags(name),
            method: number(outcome.method),
            time: 0,
            date: DATE,
            crc32: outcome.crc32,
            compressed_size: short(outcome.compressed_size),
            size: short(outcome.size),
            name: name.as_bytes(),
            extra: &extra,
        };
        header.write(output);
    }
}

/// Appends the central directory header of the entry `name`, a symbolic link or a file.
pub(super) fn write_central(name: &str, is_link: bool, placed: &Placed, output: &mut Vec<u8>) {
    let outcome = &placed.outcome;
    let mut extra = Vec::new();
    let saturated = |value: u64| (value >= u64::from(IN_ZIP64_32)).then_some(value);
    let values = Zip64Values {
        size: saturated(outcome.size),
        compressed_size: saturated(outcome.compressed_size),
        header_offset: saturated(placed.header_offset),
    };
    values.write(&mut extra);
    let short = |value| u32::try_from(value).unwrap_or(IN_ZIP64_32);
    let mode: u32 = if is_link { 0o120_777 } else { 0o100_644 };
    let header = CentralDirectoryHeader {
        version_made_by: VERSION_MADE_BY,
        version_needed: version_needed(outcome.method, !extra.is_empty()),
        flags: flags(name),
        method: number(outcome.method),
        time: 0,
        date: DATE,
        crc32: outcome.crc32,
        compressed_size: short(outcome.compressed_size),
        size: short(outcome.size),
        disk: 0,
        internal_attributes: 0,
        external_attributes: mode << 16,
        header_offset: short(placed.header_offset),
        name: name.as_bytes(),
        extra: &extra,
        comment: &[],
    };
    header.write(output);
}

fn flags(name: &str) -> u16 {
    if name.is_ascii() { 0 } else { flag::UTF8 }
}

fn number(method: Method) -> u16 {
    match method {
        Method::Stored => method::STORED,
        Method::Deflate => method::DEFLATE,
        Method::Zstd => method::ZSTD,
    }
}

fn version_needed(method: Method, zip64: bool) -> u16 {
    match method {
        Method::Zstd => 63,
        _ if zip64 => VERSION_ZIP64,
        Method::Stored | Method::Deflate => 20,
    }
}

impl Outcome {
    /// Refuses data that is too long for the shape that its header was given in advance.
    pub(super) fn check_largest(&self, name: &str, largest: u64) -> Result<(), ArchiveError> {
        if self.compressed_size <= largest {
            return Ok(());
        }
        let what = format!("compressed size of `{name}`");
        Err(ArchiveError::Limit { what, limit: largest, found: self.compressed_size })
    }
}
