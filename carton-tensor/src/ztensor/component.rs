//! From the bytes that are stored to the bytes of a component (spec/ztensor.md §4.2).

use std::io::{self, Read};

use super::manifest::{Component, Encoding};
use super::{Bytes, ZTensorError};
use crate::AlignedBytes;
use crate::files::{ElementType, SharedBytes};

/// The most that is decompressed where nothing tells how much it will be.
pub(super) const MAX_UNDECLARED: u64 = 1 << 30;

/// A block of zstd holds 128 KiB at most and takes four bytes at least, so that a byte of zstd stands for no more than this.
const MAX_RATIO: u64 = (128 << 10) / 4;

/// Up to which ratio the whole output is allocated before anything is decompressed.
const TRUSTED_RATIO: u64 = 64;
/// And up to which size in any case.
const TRUSTED_SIZE: u64 = 1 << 20;

/// Decompresses a component's stored bytes, if they are compressed.
pub(super) fn decode(stored: SharedBytes, component: &Component<'_>) -> Result<SharedBytes, ZTensorError> {
    if component.encoding() == Encoding::Raw {
        return Ok(stored);
    }
    let at = || component.place();
    let length = stored.len() as u64;
    let possible = length.saturating_mul(MAX_RATIO);
    let Some(expected) = component.length() else {
        let limit = possible.min(MAX_UNDECLARED);
        return match stream(&stored, limit, component)? {
            Some(bytes) => Ok(bytes),
            None => Err(ZTensorError::UndeclaredSize { at: at(), limit }),
        };
    };
    if expected > possible {
        return Err(ZTensorError::CompressionRatio { at: at(), claimed: expected, length, limit: possible });
    }
    if expected <= TRUSTED_SIZE.max(length.saturating_mul(TRUSTED_RATIO)) {
        let mut bytes = allocate(expected, component)?;
        let decompressor = zstd::bulk::Decompressor::new();
        let found = decompressor.and_then(|mut zstd| zstd.decompress_to_buffer(&stored[..], bytes.as_mut_slice()));
        if found.is_ok_and(|found| found as u64 == expected && length > 0) {
            return Ok(bytes.into());
        }
        // Something is wrong with it; a second look tells what.
    }
    let wrong = |found| ZTensorError::DecompressedSize { at: at(), expected, found };
    let bytes = stream(&stored, expected, component)?.ok_or_else(|| wrong(Bytes::MoreThan(expected)))?;
    if bytes.len() as u64 == expected { Ok(bytes) } else { Err(wrong(Bytes::Exactly(bytes.len() as u64))) }
}

/// Decompresses into memory that grows with what is really there; `None` when that is more than `limit`.
fn stream(stored: &[u8], limit: u64, component: &Component<'_>) -> Result<Option<SharedBytes>, ZTensorError> {
    let failed = |source| ZTensorError::Zstd { at: component.place(), source };
    if stored.is_empty() {
        return Err(failed(io::ErrorKind::UnexpectedEof.into()));
    }
    let mut decoder = zstd::stream::read::Decoder::with_buffer(stored).map_err(failed)?;
    let mut bytes = allocate(limit.min(TRUSTED_SIZE), component)?;
    let mut filled = 0;
    loop {
        let rest = bytes.as_mut_slice().get_mut(filled..).unwrap_or_default();
        if rest.is_empty() {
            if filled as u64 == limit {
                let more = decoder.read(&mut [0]).map_err(failed)? > 0;
                return Ok((!more).then(|| bytes.into()));
            }
            let mut larger = allocate(limit.min(filled as u64 * 4), component)?;
            let start = larger.as_mut_slice().get_mut(..filled).unwrap_or_default();
            start.copy_from_slice(bytes.as_slice());
            bytes = larger;
            continue;
        }
        match decoder.read(rest).map_err(failed)? {
            0 => return Ok(SharedBytes::from(bytes).slice(0..filled)),
            n_bytes => filled += n_bytes,
        }
    }
}

fn allocate(n_bytes: u64, component: &Component<'_>) -> Result<AlignedBytes, ZTensorError> {
    let bytes = usize::try_from(n_bytes).ok().and_then(AlignedBytes::try_zeroed);
    bytes.ok_or_else(|| ZTensorError::Memory { at: component.place(), n_bytes })
}

/// Refuses bools other than 0 and 1.
pub(super) fn check_bools(bytes: &[u8], component: &Component<'_>) -> Result<(), ZTensorError> {
    if component.element_type() != ElementType::Bool {
        return Ok(());
    }
    // In pieces without a branch, which vector instructions do; the one that has a wrong byte is searched.
    let mut pieces = bytes.chunks(1 << 16).enumerate();
    let Some((index, piece)) = pieces.find(|(_, piece)| piece.iter().fold(0, |all, byte| all | byte) > 1) else {
        return Ok(());
    };
    let found = piece.iter().enumerate().find(|(_, byte)| **byte > 1).unwrap_or((0, &0));
    Err(ZTensorError::Bool { at: component.place(), position: (index << 16) + found.0, found: *found.1 })
}
