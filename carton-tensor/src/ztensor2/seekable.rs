//! Decodes `zt.zstd-seekable/1`: frames of zstd, one after another, and a table of their sizes (spec/ztensor2.md §4.2).
//!
//! ```text
//! frame | frame | … | 5e 2a 4d 18 | size of the rest | entries of 8 or 12 bytes | number of frames | flags | b1 ea 92 8f
//! ```

use std::hash::Hasher as _;
use std::ops::{ControlFlow, Range};

use twox_hash::XxHash64;

use super::ZTensor2Error;
use super::error::malformed;
use crate::files::{FileBytes, Visit};

/// The magic number of the skippable frame that holds the table, and the one at the end of the table.
const SKIPPABLE: [u8; 4] = 0x184D_2A5E_u32.to_le_bytes();
const SEEKABLE: [u8; 4] = 0x8F92_EAB1_u32.to_le_bytes();
/// The magic number of a frame of zstd.
const FRAME: [u8; 4] = 0xFD2F_B528_u32.to_le_bytes();

/// The bytes before and after the entries.
const HEAD: u64 = 8;
const TAIL: u64 = 9;
/// The most bytes that a frame may have after decoding.
const MAX_FRAME: u32 = 16 << 20;
/// More bytes than zstd needs for those of the largest frame, whatever they are.
const MAX_COMPRESSED: u32 = MAX_FRAME + (MAX_FRAME >> 7);
/// The entries that are read at a time.
const AT_ONCE: u64 = 1 << 12;

/// An encoded part: where it is, and how messages name it.
pub(super) struct Encoded<'a> {
    pub(super) bytes: &'a FileBytes,
    pub(super) range: Range<u64>,
    /// The number of bytes that decoding must give.
    pub(super) decoded: u64,
    pub(super) place: String,
}

/// Where the table is, and how it is built.
struct Table {
    /// Where the frames end, and the table begins.
    start: u64,
    n_frames: u64,
    /// Whether each entry has a checksum of the decoded bytes.
    has_checksums: bool,
}

struct Entry {
    compressed: u32,
    decoded: u32,
    checksum: Option<u32>,
}

impl Encoded<'_> {
    fn wrong(&self, at: u64, problem: &str) -> ZTensor2Error {
        malformed("4.2", at, format!("{}: {problem}", self.place))
    }

    fn read<const N: usize>(&self, at: u64) -> Result<[u8; N], ZTensor2Error> {
        let mut bytes = [0; N];
        self.bytes.read_into(at, &mut bytes)?;
        Ok(bytes)
    }

    fn table(&self) -> Result<Table, ZTensor2Error> {
        let Range { start, end } = self.range;
        if end - start < HEAD + TAIL {
            return Err(self.wrong(start, &format!("{} bytes, expected a table of frames", end - start)));
        }
        let [n0, n1, n2, n3, flags, m0, m1, m2, m3] = self.read(end - TAIL)?;
        if [m0, m1, m2, m3] != SEEKABLE {
            return Err(self.wrong(end - 4, "no table of frames at the end"));
        }
        if flags & 0x7f != 0 {
            return Err(self.wrong(end - 5, &format!("the table has the flags {flags:#04x}, expected 0 or 0x80")));
        }
        let has_checksums = flags != 0;
        let n_frames = u64::from(u32::from_le_bytes([n0, n1, n2, n3]));
        // At most 12 times 2^32.
        let size = n_frames * entry_size(has_checksums) + TAIL;
        if size + HEAD > end - start {
            return Err(
                self.wrong(end - TAIL, &format!("{n_frames} frames, whose table takes more bytes than there are"))
            );
        }
        let table = end - size - HEAD;
        let [s0, s1, s2, s3, l0, l1, l2, l3] = self.read(table)?;
        if [s0, s1, s2, s3] != SKIPPABLE || u64::from(u32::from_le_bytes([l0, l1, l2, l3])) != size {
            return Err(self.wrong(table, "the table of frames is not in a skippable frame of its size"));
        }
        Ok(Table { start: table, n_frames, has_checksums })
    }

    /// Passes each entry of the table, with its place, to `each`.
    fn entries(
        &self,
        table: &Table,
        each: &mut dyn FnMut(u64, Entry) -> Result<ControlFlow<()>, ZTensor2Error>,
    ) -> Result<(), ZTensor2Error> {
        let size = entry_size(table.has_checksums);
        let mut buffer = Vec::new();
        let (mut at, mut left) = (table.start + HEAD, table.n_frames);
        while left > 0 {
            let n_entries = left.min(AT_ONCE);
            buffer.resize((n_entries * size) as usize, 0);
            self.bytes.read_into(at, &mut buffer)?;
            for entry in buffer.chunks_exact(size as usize) {
                let number = |index: usize| {
                    entry.get(index..).and_then(|rest| rest.first_chunk()).map(|bytes| u32::from_le_bytes(*bytes))
                };
                let (compressed, decoded) = (number(0).unwrap_or(0), number(4).unwrap_or(0));
                if each(at, Entry { compressed, decoded, checksum: number(8) })?.is_break() {
                    return Ok(());
                }
                at += size;
            }
            left -= n_entries;
        }
        Ok(())
    }

    /// Checks that the table describes exactly the frames that are there, and as many decoded bytes as the manifest states.
    fn check(&self, table: &Table) -> Result<(), ZTensor2Error> {
        let (mut compressed, mut decoded, mut first, mut is_last) = (0_u64, 0_u64, None, false);
        self.entries(table, &mut |at, entry| {
            if entry.decoded > MAX_FRAME {
                return Err(
                    self.wrong(at, &format!("a frame of {} bytes, expected at most {MAX_FRAME}", entry.decoded))
                );
            }
            if entry.compressed > MAX_COMPRESSED {
                return Err(self.wrong(
                    at,
                    &format!("a frame of {} compressed bytes, expected at most {MAX_COMPRESSED}", entry.compressed),
                ));
            }
            let first = *first.get_or_insert(entry.decoded);
            // Another size is that of the last frame.
            if is_last {
                return Err(self.wrong(at, "frames of different sizes, where only the last may have another"));
            }
            is_last = entry.decoded != first;
            compressed += u64::from(entry.compressed);
            decoded += u64::from(entry.decoded);
            Ok(ControlFlow::Continue(()))
        })?;
        if decoded != self.decoded {
            let problem =
                format!("its frames have {decoded} bytes, expected the {} that the manifest states", self.decoded);
            return Err(self.wrong(table.start, &problem));
        }
        if compressed != table.start - self.range.start {
            let problem = format!(
                "its frames have {compressed} compressed bytes, expected the {} before the table",
                table.start - self.range.start
            );
            return Err(self.wrong(table.start, &problem));
        }
        Ok(())
    }

    /// Passes the decoded bytes to `visit`, a frame at a time, until it wants no more.
    pub(super) fn visit(&self, visit: Visit<'_>) -> Result<(), ZTensor2Error> {
        let table = self.table()?;
        self.check(&table)?;
        let mut zstd = zstd::bulk::Decompressor::new()?;
        let (mut position, mut stored, mut frame) = (self.range.start, Vec::new(), Vec::new());
        self.entries(&table, &mut |_, entry| {
            // At most 17 MiB, and no more than the part has.
            stored.resize(entry.compressed as usize, 0);
            self.bytes.read_into(position, &mut stored)?;
            frame.resize(entry.decoded as usize, 0);
            self.check_frame(position, &stored)?;
            let found = zstd.decompress_to_buffer(&stored[..], &mut frame[..]);
            let found =
                found.map_err(|error| self.wrong(position, &format!("a frame that is not valid zstd: {error}")))?;
            if found != frame.len() {
                return Err(self.wrong(position, &format!("a frame of {found} bytes, expected {}", frame.len())));
            }
            if entry.checksum.is_some_and(|expected| checksum(&frame) != expected) {
                return Err(self.wrong(position, "a frame that does not match its checksum in the table"));
            }
            position += stored.len() as u64;
            Ok(visit(&frame))
        })
    }

    /// Checks that these bytes are one frame, with a checksum.
    fn check_frame(&self, at: u64, stored: &[u8]) -> Result<(), ZTensor2Error> {
        const CHECKSUM: u8 = 4;
        match (stored.first_chunk::<4>(), stored.get(4)) {
            (Some(&FRAME), Some(flags)) if flags & CHECKSUM == 0 => Err(self.wrong(at, "a frame without a checksum")),
            (Some(&FRAME), Some(_)) => match zstd::zstd_safe::find_frame_compressed_size(stored) {
                Ok(found) if found == stored.len() => Ok(()),
                Ok(found) => Err(self.wrong(at, &format!("a frame of {found} bytes, expected {}", stored.len()))),
                Err(_) => Err(self.wrong(at, "a frame that is cut off, or not valid zstd")),
            },
            _ => Err(self.wrong(at, "no frame of zstd where the table has one")),
        }
    }
}

fn entry_size(has_checksums: bool) -> u64 {
    if has_checksums { 12 } else { 8 }
}

/// The checksum of decoded bytes that a table has.
fn checksum(bytes: &[u8]) -> u32 {
    let mut hasher = XxHash64::with_seed(0);
    hasher.write(bytes);
    hasher.finish() as u32
}
