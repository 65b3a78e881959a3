//! Checks the bytes of types that have bytes without a meaning (spec/ztensor2.md §3.3).

use super::ZTensor2Error;
use super::error::malformed;
use super::layout::Layout;
use super::manifest::Part;
use crate::files::ElementType;

/// Checks some decoded bytes of a part, of which the first is the one at `position`.
pub(super) fn check(part: &Part<'_>, bytes: &[u8], position: u64) -> Result<(), ZTensor2Error> {
    match part.element_type() {
        Some(ElementType::Bool) => bools(part, bytes, position),
        Some(ElementType::Float4E2m1) => last_nibble(part, bytes, position),
        _ => Ok(()),
    }
}

/// Refuses bools other than 0 and 1.
fn bools(part: &Part<'_>, bytes: &[u8], position: u64) -> Result<(), ZTensor2Error> {
    // Checks pieces without branches, which the compiler turns into vector instructions. Only a piece with an invalid byte is searched.
    let mut pieces = bytes.chunks(1 << 16).enumerate();
    let Some((index, piece)) = pieces.find(|(_, piece)| piece.iter().fold(0, |all, byte| all | byte) > 1) else {
        return Ok(());
    };
    let (offset, found) = piece.iter().enumerate().find(|(_, byte)| **byte > 1).unwrap_or((0, &0));
    let position = position + ((index << 16) + offset) as u64;
    Err(malformed(
        "3.3",
        place(part, position),
        format!("{} has the bool {found} at position {position}, expected 0 or 1", part.place()),
    ))
}

/// Refuses bits after the last of an odd number of 4-bit elements.
fn last_nibble(part: &Part<'_>, bytes: &[u8], position: u64) -> Result<(), ZTensor2Error> {
    let is_odd = part.object().shape().iter().all(|size| size % 2 == 1);
    let is_last = position + bytes.len() as u64 == part.decoded_length();
    match bytes.last() {
        Some(last) if is_last && is_odd && last & 0xf0 != 0 && part.object().layout() == Layout::Dense => {
            let at = place(part, part.decoded_length().saturating_sub(1));
            Err(malformed("3.3", at, format!("{} has bits after its last element, expected zeros", part.place())))
        }
        _ => Ok(()),
    }
}

/// The byte of the file at a position of a part. That of compressed bytes is where these begin.
fn place(part: &Part<'_>, position: u64) -> u64 {
    part.stored().start + if part.encoding().is_none() { position } else { 0 }
}
