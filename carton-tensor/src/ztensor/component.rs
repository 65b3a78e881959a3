//! Decodes the stored bytes of a component (spec/ztensor.md §4.2), and checks bools (§3.4).

use std::io::{self, BufRead, BufReader, Read};
use std::ops::ControlFlow;

use super::manifest::{Component, Encoding};
use super::{Bytes, ZTensorError};
use crate::AlignedBytes;
use crate::files::{ElementType, SharedBytes, Visit};
use crate::fill::fill;

/// The most bytes to decompress if the size is not declared.
pub(super) const MAX_UNDECLARED: u64 = 1 << 30;

/// A block of zstd holds at most 128 KiB and takes at least four bytes, so this is the highest possible compression ratio.
const MAX_RATIO: u64 = (128 << 10) / 4;

/// The highest compression ratio at which the whole output is allocated before decompression.
const TRUSTED_RATIO: u64 = 64;
/// The largest size that is allocated before decompression whatever the ratio.
const TRUSTED_SIZE: u64 = 1 << 20;

/// The largest size that a component may have after decompression.
#[derive(Clone, Copy)]
struct Limit {
    n_bytes: u64,
    /// Whether this is the size that the manifest determines, so that fewer bytes are an error too.
    is_exact: bool,
    /// Whether the compressed bytes are so many that memory for all that they claim may be taken at once.
    is_trusted: bool,
}

impl Limit {
    /// Determines the limit for `stored` bytes, and refuses a size that they cannot have.
    fn of(stored: u64, component: &Component<'_>) -> Result<Self, ZTensorError> {
        let possible = stored.saturating_mul(MAX_RATIO);
        let Some(expected) = component.length() else {
            return Ok(Self { n_bytes: possible.min(MAX_UNDECLARED), is_exact: false, is_trusted: false });
        };
        if expected > possible {
            let at = component.place();
            return Err(ZTensorError::CompressionRatio { at, claimed: expected, length: stored, limit: possible });
        }
        let is_trusted = expected <= TRUSTED_SIZE.max(stored.saturating_mul(TRUSTED_RATIO));
        Ok(Self { n_bytes: expected, is_exact: true, is_trusted })
    }

    fn check_end(self, found: u64, component: &Component<'_>) -> Result<(), ZTensorError> {
        if self.is_exact && found != self.n_bytes {
            let (at, found) = (component.place(), Bytes::Exactly(found));
            return Err(ZTensorError::DecompressedSize { at, expected: self.n_bytes, found });
        }
        Ok(())
    }

    fn exceeded(self, component: &Component<'_>) -> ZTensorError {
        let at = component.place();
        match self.is_exact {
            true => {
                let found = Bytes::MoreThan(self.n_bytes);
                ZTensorError::DecompressedSize { at, expected: self.n_bytes, found }
            }
            false => ZTensorError::UndeclaredSize { at, limit: self.n_bytes },
        }
    }
}

/// Decompresses the stored bytes of a component, if they are compressed.
pub(super) fn decode(stored: SharedBytes, component: &Component<'_>) -> Result<SharedBytes, ZTensorError> {
    if component.encoding() == Encoding::Raw {
        return Ok(stored);
    }
    let length = stored.len() as u64;
    let limit = Limit::of(length, component)?;
    if limit.is_trusted {
        let mut bytes = allocate(limit.n_bytes, component)?;
        let decompressor = zstd::bulk::Decompressor::new();
        let found = decompressor.and_then(|mut zstd| zstd.decompress_to_buffer(&stored[..], bytes.as_mut_slice()));
        if found.is_ok_and(|found| found as u64 == limit.n_bytes && length > 0) {
            return Ok(bytes.into());
        }
        // Something is wrong. Decompressing again as a stream determines what.
    }
    // The memory grows with the actual output.
    let (mut bytes, mut filled) = (allocate(limit.n_bytes.min(TRUSTED_SIZE), component)?, 0);
    let mut grown = Ok(());
    decompress(&stored[..], length, component, PIECE, &mut |piece| {
        let end = filled + piece.len();
        if end > bytes.as_slice().len() {
            let wanted = limit.n_bytes.min((end as u64).saturating_mul(4));
            match allocate(wanted, component) {
                Ok(larger) => {
                    let smaller = std::mem::replace(&mut bytes, larger);
                    copy_to(&mut bytes, 0, smaller.as_slice().get(..filled).unwrap_or_default());
                }
                Err(error) => {
                    grown = Err(error);
                    return ControlFlow::Break(());
                }
            }
        }
        copy_to(&mut bytes, filled, piece);
        filled = end;
        ControlFlow::Continue(())
    })?;
    grown?;
    let n_bytes = filled as u64;
    SharedBytes::from(bytes).slice(0..filled).ok_or_else(|| ZTensorError::Memory { at: component.place(), n_bytes })
}

/// Copies bytes to a place that has room for them.
fn copy_to(bytes: &mut AlignedBytes, at: usize, from: &[u8]) {
    if let Some(room) = bytes.as_mut_slice().get_mut(at..at + from.len()) {
        room.copy_from_slice(from);
    }
}

/// The bytes that are decompressed at a time.
const PIECE: usize = 1 << 18;

/// The largest window of any frame that is decompressed piece by piece, as a power of two. It is what `zstd` itself allows without an option.
const WINDOW: u32 = 27;
/// The largest window that a frame can have.
const MAX_WINDOW: u32 = 31;

/// Passes the decoded bytes of a component to `visit`, in pieces of `n_bytes`. `stored` has the bytes as they are stored.
pub(super) fn stream(
    stored: &mut impl Read,
    component: &Component<'_>,
    n_bytes: usize,
    visit: Visit<'_>,
) -> Result<(), ZTensorError> {
    let range = component.stored();
    let length = range.end - range.start;
    if component.encoding() != Encoding::Raw {
        return decompress(BufReader::with_capacity(PIECE, stored), length, component, n_bytes, visit);
    }
    let mut buffer = allocate(length.min(n_bytes as u64), component)?;
    let mut rest = length;
    while rest > 0 {
        let wanted = rest.min(n_bytes as u64) as usize;
        let piece = buffer.as_mut_slice().get_mut(..wanted).unwrap_or_default();
        stored.read_exact(piece)?;
        if visit(piece).is_break() {
            break;
        }
        rest -= wanted as u64;
    }
    Ok(())
}

/// Whether decompressing piece by piece failed only because a frame looks back at more bytes than are kept for that. Decompressed as a whole,
/// it needs no more memory than for what it contains.
pub(super) fn needs_whole(error: &ZTensorError, component: &Component<'_>) -> bool {
    /// `ZSTD_error_frameParameter_windowTooLarge`, as functions of zstd return it.
    const WINDOW_TOO_LARGE: usize = 0_usize.wrapping_sub(16);
    let stored = component.stored();
    let is_trusted = || Limit::of(stored.end - stored.start, component).is_ok_and(|limit| limit.is_trusted);
    match error {
        ZTensorError::Zstd { source, .. } => {
            source.to_string() == zstd::zstd_safe::get_error_name(WINDOW_TOO_LARGE) && is_trusted()
        }
        _ => false,
    }
}

/// Decompresses `length` bytes in pieces of `n_bytes`, and passes each to `visit`. Only a piece, and what zstd looks back at, is in memory.
fn decompress(
    stored: impl BufRead,
    length: u64,
    component: &Component<'_>,
    n_bytes: usize,
    visit: Visit<'_>,
) -> Result<(), ZTensorError> {
    let limit = Limit::of(length, component)?;
    let failed = |source| ZTensorError::Zstd { at: component.place(), source };
    if length == 0 {
        return Err(failed(io::ErrorKind::UnexpectedEof.into()));
    }
    let mut decoder = zstd::stream::read::Decoder::with_buffer(stored).map_err(failed)?;
    // A larger window is useful only for a larger size.
    let useful = limit.n_bytes.checked_ilog2().map_or(0, |log| log + 1).clamp(WINDOW, MAX_WINDOW);
    decoder.window_log_max(if limit.is_trusted { useful } else { WINDOW }).map_err(failed)?;
    let mut buffer = allocate(limit.n_bytes.min(n_bytes as u64), component)?;
    let mut found = 0;
    loop {
        let rest = limit.n_bytes - found;
        if rest == 0 {
            return if decoder.read(&mut [0]).map_err(failed)? > 0 { Err(limit.exceeded(component)) } else { Ok(()) };
        }
        let wanted = rest.min(n_bytes as u64) as usize;
        let piece = buffer.as_mut_slice().get_mut(..wanted).unwrap_or_default();
        let filled = fill(&mut decoder, piece).map_err(failed)?;
        found += filled as u64;
        let piece = piece.get(..filled).unwrap_or_default();
        if !piece.is_empty() && visit(piece).is_break() {
            return Ok(());
        }
        if filled < wanted {
            return limit.check_end(found, component);
        }
    }
}

fn allocate(n_bytes: u64, component: &Component<'_>) -> Result<AlignedBytes, ZTensorError> {
    let bytes = usize::try_from(n_bytes).ok().and_then(AlignedBytes::try_zeroed);
    bytes.ok_or_else(|| ZTensorError::Memory { at: component.place(), n_bytes })
}

/// Refuses bools other than 0 and 1. The first of these bytes is the one at `position` of the component.
pub(super) fn check_bools(bytes: &[u8], position: usize, component: &Component<'_>) -> Result<(), ZTensorError> {
    if component.element_type() != ElementType::Bool {
        return Ok(());
    }
    // Checks pieces without branches, which the compiler turns into vector instructions. Only a piece with an invalid byte is searched.
    let mut pieces = bytes.chunks(1 << 16).enumerate();
    let Some((index, piece)) = pieces.find(|(_, piece)| piece.iter().fold(0, |all, byte| all | byte) > 1) else {
        return Ok(());
    };
    let found = piece.iter().enumerate().find(|(_, byte)| **byte > 1).unwrap_or((0, &0));
    let position = position + (index << 16) + found.0;
    Err(ZTensorError::Bool { at: component.place(), position, found: *found.1 })
}
