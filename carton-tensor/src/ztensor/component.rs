//! Decodes the stored bytes of a component (spec/ztensor.md §4.2), and checks bools (§3.4).

use std::io::{self, Read};

use super::manifest::{Component, Encoding};
use super::{Bytes, ZTensorError};
use crate::AlignedBytes;
use crate::files::{ElementType, SharedBytes};

/// The most bytes to decompress if the size is not declared.
pub(super) const MAX_UNDECLARED: u64 = 1 << 30;

/// A block of zstd holds at most 128 KiB and takes at least four bytes, so this is the highest possible compression ratio.
const MAX_RATIO: u64 = (128 << 10) / 4;

/// The highest compression ratio at which the whole output is allocated before decompression.
const TRUSTED_RATIO: u64 = 64;
/// The largest size that is allocated before decompression whatever the ratio.
const TRUSTED_SIZE: u64 = 1 << 20;

/// Decompresses the stored bytes of a component, if they are compressed.
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
        // Something is wrong. Decompressing again as a stream determines what.
    }
    let wrong = |found| ZTensorError::DecompressedSize { at: at(), expected, found };
    let bytes = stream(&stored, expected, component)?.ok_or_else(|| wrong(Bytes::MoreThan(expected)))?;
    if bytes.len() as u64 == expected { Ok(bytes) } else { Err(wrong(Bytes::Exactly(bytes.len() as u64))) }
}

/// Decompresses into memory that grows with the actual output. Returns `None` if the output exceeds `limit`.
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
    // Checks pieces without branches, which the compiler turns into vector instructions. Only a piece with an invalid byte is searched.
    let mut pieces = bytes.chunks(1 << 16).enumerate();
    let Some((index, piece)) = pieces.find(|(_, piece)| piece.iter().fold(0, |all, byte| all | byte) > 1) else {
        return Ok(());
    };
    let found = piece.iter().enumerate().find(|(_, byte)| **byte > 1).unwrap_or((0, &0));
    Err(ZTensorError::Bool { at: component.place(), position: (index << 16) + found.0, found: *found.1 })
}
