//! The journal records on disk which bytes of a download the `data` file holds, so that the next attempt can continue from there.
//!
//! ```text
//! magic and format version   8 bytes
//! length of the header       u32, little-endian
//! header                     JSON
//! SHA-256                    32 bytes, of everything before it
//! slots                      8 bytes per chunk: the number of its bytes that are present, u32; its check, u32
//! ```
//!
//! A slot is overwritten in place, after the bytes that it counts were written: a process that is killed in between loses those bytes,
//! and the journal never claims a byte that is missing. Nothing is synced to the disk. After a loss of power the journal may claim bytes
//! that never reached the disk; the user of the bytes has to compare their digest in any case.
//!
//! The check of a slot covers its number and the header. A damaged slot counts as empty, and a damaged header makes the journal count as
//! missing.

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::ops::Range;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use carton_format::digest::Sha256Digest;
use serde::{Deserialize, Serialize};

use crate::http::Version;

const MAGIC: [u8; 8] = *b"CTNDOWN1";
const DIGEST: usize = 32;
const SLOT: usize = 8;
/// A version that needs a longer header is not worth storing.
const MAX_HEADER: usize = 64 << 10;
const MAX_CHUNKS: u64 = 1 << 16;
/// The chunk size of files up to 8 GiB. The first requests fetch one chunk each.
const SMALLEST_CHUNK: u64 = 128 << 10;
const LARGEST_CHUNK: u64 = 1 << 31;

/// The name of the journal.
const NAME: &str = "journal";
/// The name of the journal until it is complete.
const NEW_NAME: &str = "journal.new";

/// The longest download that can have a journal, in bytes.
pub(super) const MAX_LENGTH: u64 = MAX_CHUNKS * LARGEST_CHUNK;

/// Identifies the bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Header {
    /// The digest of the URL. The URL itself may hold secrets.
    pub(super) url: Sha256Digest,
    pub(super) version: Version,
    /// The part of the file; `None` for all of it.
    pub(super) range: Option<Range<u64>>,
    /// Whether encodings were accepted, which can make the server choose another representation.
    pub(super) accept_encoded: bool,
    pub(super) encodings: Vec<String>,
    /// The total number of bytes.
    pub(super) length: u64,
    pub(super) chunk_size: u64,
}

/// An open journal.
#[derive(Debug)]
pub(super) struct Journal {
    file: File,
    slots: u64,
    seed: [u8; DIGEST],
}

/// The journal of an earlier attempt.
#[derive(Debug)]
pub(super) struct Earlier {
    pub(super) header: Header,
    pub(super) journal: Journal,
    /// For each chunk, the number of bytes from its start that are present.
    pub(super) done: Vec<u64>,
}

/// The chunk size for a download of `length` bytes: a power of two that keeps the journal small.
pub(super) fn chunk_size(length: u64) -> u64 {
    length.div_ceil(MAX_CHUNKS).next_power_of_two().clamp(SMALLEST_CHUNK, LARGEST_CHUNK)
}

impl Journal {
    /// Writes a journal in which all chunks are empty. `None` if the version is too long to be worth storing.
    pub(super) fn create(folder: &Path, header: &Header) -> io::Result<Option<Journal>> {
        let json = serde_json::to_vec(header)?;
        let Some(length) = u32::try_from(json.len()).ok().filter(|_| json.len() <= MAX_HEADER) else { return Ok(None) };
        let n_chunks = usize::try_from(header.length.div_ceil(header.chunk_size)).map_err(io::Error::other)?;
        let mut bytes = [&MAGIC[..], &length.to_le_bytes(), &json].concat();
        let seed = *Sha256Digest::of(&bytes).as_bytes();
        bytes.extend_from_slice(&seed);
        let slots = bytes.len() as u64;
        // The slots are written rather than left sparse, so that a full disk shows now and not when a slot is recorded.
        bytes.resize(bytes.len() + n_chunks * SLOT, 0);
        let path = folder.join(NEW_NAME);
        remove(&path)?;
        let file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(&path)?;
        file.write_all_at(&bytes, 0)?;
        std::fs::rename(&path, folder.join(NAME))?;
        Ok(Some(Journal { file, slots, seed }))
    }

    /// Reads the journal of an earlier attempt. `None` if there is none that can be trusted.
    pub(super) fn open(folder: &Path) -> io::Result<Option<Earlier>> {
        let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
        let flags = i32::try_from(flags.bits()).map_err(io::Error::other)?;
        let mut file = match OpenOptions::new().read(true).write(true).custom_flags(flags).open(folder.join(NAME)) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let cap = (MAGIC.len() + 4 + MAX_HEADER + DIGEST) as u64 + MAX_CHUNKS * SLOT as u64;
        let mut bytes = Vec::new();
        if !file.metadata()?.is_file() || (&mut file).take(cap + 1).read_to_end(&mut bytes)? as u64 > cap {
            return Ok(None);
        }
        let Some((header, seed, slots)) = parse(&bytes) else { return Ok(None) };
        let done = slots.chunks_exact(SLOT).enumerate().map(|(index, slot)| {
            let (done, check) = slot.split_at(SLOT / 2);
            let done = <[u8; 4]>::try_from(done).map_or(0, u32::from_le_bytes);
            if check == slot_check(&seed, index, done).to_le_bytes() { u64::from(done) } else { 0 }
        });
        let done: Vec<u64> = done.collect();
        let slots = (bytes.len() - slots.len()) as u64;
        Ok(Some(Earlier { header, journal: Journal { file, slots, seed }, done }))
    }

    /// Records the number of bytes present in each of these adjacent chunks.
    pub(super) fn record(&self, first: usize, done: &[u64]) -> io::Result<()> {
        let mut slots = Vec::with_capacity(done.len() * SLOT);
        for (index, &done) in (first..).zip(done) {
            let done = u32::try_from(done).map_err(io::Error::other)?;
            slots.extend_from_slice(&done.to_le_bytes());
            slots.extend_from_slice(&slot_check(&self.seed, index, done).to_le_bytes());
        }
        self.file.write_all_at(&slots, self.slots + (first * SLOT) as u64)
    }

    /// Whether a folder has a journal.
    pub(super) fn exists(folder: &Path) -> bool {
        folder.join(NAME).exists()
    }

    /// Deletes the journal of a folder. A missing journal is not an error.
    pub(super) fn remove(folder: &Path) -> io::Result<()> {
        remove(&folder.join(NAME))?;
        remove(&folder.join(NEW_NAME))
    }
}

/// Deletes a file. A missing file is not an error.
pub(super) fn remove(path: &Path) -> io::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Returns the header, the digest that ends it, and the slots after it.
fn parse(bytes: &[u8]) -> Option<(Header, [u8; DIGEST], &[u8])> {
    let rest = bytes.strip_prefix(&MAGIC)?;
    let (length, rest) = rest.split_first_chunk::<4>()?;
    let length = usize::try_from(u32::from_le_bytes(*length)).ok()?;
    let (json, rest) = rest.split_at_checked(length)?;
    let (seed, slots) = rest.split_first_chunk::<DIGEST>()?;
    if Sha256Digest::of(&bytes[..MAGIC.len() + 4 + length]).as_bytes() != seed {
        return None;
    }
    let header: Header = serde_json::from_slice(json).ok()?;
    let n_chunks = header.length.div_ceil(header.chunk_size.max(1));
    let fits = header.length <= MAX_LENGTH
        && header.chunk_size == chunk_size(header.length)
        && slots.len() as u64 == n_chunks * SLOT as u64;
    fits.then_some((header, *seed, slots))
}

fn slot_check(seed: &[u8; DIGEST], index: usize, done: u32) -> u32 {
    let mut check = crc32fast::Hasher::new();
    check.update(seed);
    check.update(&(index as u64).to_le_bytes());
    check.update(&done.to_le_bytes());
    check.finalize()
}
