//! The CRC-32 and the size of files whose SHA-256 was verified, by carton.
//!
//! A zip archive states both for each of its entries. Comparing them shows that an archive does not hold the bytes listed in its
//! MANIFEST, without reading those bytes. Both follow from the bytes, and so from the digest: a record stays right even if another
//! version of Carton changes the rest of the cache. The record is lines of text, sorted by digest:
//!
//! ```text
//! carton-checksums 1 <SHA-256 of all that follows>
//! <SHA-256 of the file> <CRC-32 in hexadecimal digits> <size>
//! ```

use std::collections::BTreeMap;
use std::fmt::{self, Write};
use std::path::Path;

use carton_format::context::CancelToken;
use carton_format::digest::Sha256Digest;

use super::CacheError;
use super::carton_records::CartonRecords;
use super::files::{CHUNK_LENGTH, open_regular};
use super::record::read_own_file;

/// Name of the record in the folder of its carton.
pub(super) const CHECKSUMS_NAME: &str = "checksums";
const HEADER: &str = "carton-checksums 1 ";
/// A record takes about 85 bytes per file, and MANIFEST, which has as many lines, is limited too.
const LARGEST_RECORD: u64 = 512 * 1024 * 1024;

/// What a zip archive states about the bytes of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Checksum {
    /// The CRC-32 of the bytes.
    pub(crate) crc32: u32,
    /// The number of bytes.
    pub(crate) size: u64,
}

impl Checksum {
    /// The checksum of these bytes.
    pub(crate) fn of(bytes: &[u8]) -> Self {
        Self { crc32: crc32fast::hash(bytes), size: bytes.len() as u64 }
    }
}

impl fmt::Display for Checksum {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "CRC-32 {:08x} of {} bytes", self.crc32, self.size)
    }
}

/// The checksums of files by their digest.
pub(crate) type Checksums = BTreeMap<Sha256Digest, Checksum>;

impl CartonRecords<'_> {
    /// Returns the recorded checksums of a carton's files. A damaged record counts as empty.
    pub(crate) fn checksums(&self) -> Checksums {
        read_checksums(&self.path(CHECKSUMS_NAME)).unwrap_or_default()
    }

    /// Replaces the recorded checksums of a carton's files. The caller guarantees that each checksum was computed from bytes with that
    /// digest.
    pub(crate) fn remember_checksums(&self, checksums: &Checksums) -> Result<(), CacheError> {
        self.write(CHECKSUMS_NAME, &to_bytes(checksums))
    }
}

/// Reads a record. Returns `None` if it is missing or damaged.
pub(super) fn read_checksums(path: &Path) -> Option<Checksums> {
    parse(&read_own_file(path, LARGEST_RECORD)?)
}

/// Computes the checksum of a regular file; `None` if there is no such file.
pub(crate) fn checksum_of_file(path: &Path, cancel_token: &CancelToken) -> Result<Option<Checksum>, CacheError> {
    use std::os::unix::fs::FileExt;
    let Some((file, identity)) = open_regular(path)? else { return Ok(None) };
    let mut hasher = crc32fast::Hasher::new();
    let mut chunk = vec![0; CHUNK_LENGTH.min(usize::try_from(identity.size).unwrap_or(CHUNK_LENGTH).max(1))];
    let mut size = 0;
    loop {
        match file.read_at(&mut chunk, size) {
            Ok(0) => return Ok(Some(Checksum { crc32: hasher.finalize(), size })),
            Ok(n_bytes) => {
                hasher.update(&chunk[..n_bytes]);
                size += n_bytes as u64;
                cancel_token.check()?;
            }
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(CacheError::io("read", path)(error)),
        }
    }
}

fn to_bytes(checksums: &Checksums) -> Vec<u8> {
    let mut lines = String::with_capacity(checksums.len() * 88);
    for (digest, Checksum { crc32, size }) in checksums {
        // Writing to a String cannot fail.
        let _ = writeln!(lines, "{digest} {crc32:08x} {size}");
    }
    format!("{HEADER}{}\n{lines}", Sha256Digest::of(lines.as_bytes())).into_bytes()
}

fn parse(bytes: &[u8]) -> Option<Checksums> {
    let (digest, lines) = std::str::from_utf8(bytes).ok()?.strip_prefix(HEADER)?.split_once('\n')?;
    if digest.parse() != Ok(Sha256Digest::of(lines.as_bytes())) {
        return None;
    }
    lines.lines().map(parse_line).collect()
}

fn parse_line(line: &str) -> Option<(Sha256Digest, Checksum)> {
    let mut fields = line.split(' ');
    let digest = fields.next()?.parse().ok()?;
    let crc32 = u32::from_str_radix(fields.next()?, 16).ok()?;
    let size = fields.next()?.parse().ok()?;
    fields.next().is_none().then_some((digest, Checksum { crc32, size }))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_record_is_read_as_it_was_written_or_not_at_all() {
        // The check value that every description of CRC-32 gives.
        assert_eq!(Checksum::of(b"123456789"), Checksum { crc32: 0xCBF4_3926, size: 9 });
        let record: Checksums =
            [b"one".as_slice(), b"another", b""].map(|bytes| (Sha256Digest::of(bytes), Checksum::of(bytes))).into();
        let bytes = to_bytes(&record);
        assert_eq!(parse(&bytes), Some(record));
        assert_eq!(parse(&to_bytes(&Checksums::new())), Some(Checksums::new()));
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1;
            assert_eq!(parse(&damaged), None, "byte {at}");
            assert_eq!(parse(&bytes[..at]), None, "{at} bytes");
        }
    }

    #[test]
    fn a_file_has_the_checksum_of_its_bytes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let check = |bytes: &[u8]| {
            std::fs::write(&path, bytes).unwrap();
            let found = checksum_of_file(&path, &CancelToken::default()).unwrap();
            assert_eq!(found, Some(Checksum::of(bytes)), "{} bytes", bytes.len());
        };
        check(b"");
        check(b"123456789");
        check(&vec![7; CHUNK_LENGTH]);
        check(&vec![7; 2 * CHUNK_LENGTH + 1]);
        assert_eq!(checksum_of_file(folder.path(), &CancelToken::default()).unwrap(), None, "a folder is no file");
    }
}
