//! Bytes that arrive in pieces of any size: passed on in pieces of one size, and joined.

use std::ops::ControlFlow;

use super::ZTensor2Error;
use super::manifest::Part;
use crate::AlignedBytes;
use crate::files::{SharedBytes, Visit};

/// The bytes that are read at a time where nobody says how many.
pub(super) const PIECE: usize = 1 << 20;

/// Passes bytes on in pieces of a size. Only the last has fewer.
pub(super) struct Pieces<'v> {
    n_bytes: usize,
    visit: Visit<'v>,
    rest: Vec<u8>,
    is_over: bool,
}

impl<'v> Pieces<'v> {
    pub(super) fn new(n_bytes: usize, visit: Visit<'v>) -> Self {
        Self { n_bytes: n_bytes.max(1), visit, rest: Vec::new(), is_over: false }
    }

    /// Whether no more is wanted.
    pub(super) fn is_over(&self) -> bool {
        self.is_over
    }

    fn pass(&mut self, piece: &[u8]) -> ControlFlow<()> {
        let next = (self.visit)(piece);
        self.is_over = next.is_break();
        next
    }

    pub(super) fn push(&mut self, mut bytes: &[u8]) -> ControlFlow<()> {
        if !self.rest.is_empty() {
            let missing = (self.n_bytes - self.rest.len()).min(bytes.len());
            let (first, others) = bytes.split_at(missing);
            self.rest.extend_from_slice(first);
            bytes = others;
            if self.rest.len() < self.n_bytes {
                return ControlFlow::Continue(());
            }
            let whole = std::mem::take(&mut self.rest);
            self.pass(&whole)?;
        }
        let whole = bytes.chunks_exact(self.n_bytes);
        self.rest.extend_from_slice(whole.remainder());
        for piece in whole {
            self.pass(piece)?;
        }
        ControlFlow::Continue(())
    }

    /// Passes on what is left.
    pub(super) fn finish(&mut self) {
        let rest = std::mem::take(&mut self.rest);
        if !rest.is_empty() && !self.is_over {
            let _ = self.pass(&rest);
        }
    }
}

/// The ratio of sizes up to which memory for all decoded bytes is taken at once.
const TRUSTED_RATIO: u64 = 64;
/// The number of bytes that is taken at once whatever the ratio.
const TRUSTED_SIZE: u64 = 1 << 20;

/// All bytes of a part. Memory grows with what is there rather than with what the manifest claims.
pub(super) struct Growing<'m> {
    part: Part<'m>,
    bytes: AlignedBytes,
    filled: usize,
}

impl<'m> Growing<'m> {
    pub(super) fn new(part: &Part<'m>) -> Result<Self, ZTensor2Error> {
        let stored = part.stored();
        let trusted = TRUSTED_SIZE.max((stored.end - stored.start).saturating_mul(TRUSTED_RATIO));
        let bytes =
            allocate(part, if part.decoded_length() <= trusted { part.decoded_length() } else { TRUSTED_SIZE })?;
        Ok(Self { part: *part, bytes, filled: 0 })
    }

    pub(super) fn push(&mut self, piece: &[u8]) -> Result<(), ZTensor2Error> {
        let end = self.filled + piece.len();
        if end > self.bytes.as_slice().len() {
            let mut larger = allocate(&self.part, self.part.decoded_length().min((end as u64).saturating_mul(4)))?;
            let filled = self.bytes.as_slice().get(..self.filled).unwrap_or_default();
            if let Some(room) = larger.as_mut_slice().get_mut(..self.filled) {
                room.copy_from_slice(filled);
            }
            self.bytes = larger;
        }
        // The decoder passes no more bytes than the manifest states.
        if let Some(room) = self.bytes.as_mut_slice().get_mut(self.filled..end) {
            room.copy_from_slice(piece);
        }
        self.filled = end;
        Ok(())
    }

    pub(super) fn finish(self) -> Result<SharedBytes, ZTensor2Error> {
        let (part, n_bytes) = (self.part, self.filled as u64);
        let bytes = SharedBytes::from(self.bytes).slice(0..self.filled);
        bytes.ok_or_else(|| ZTensor2Error::Memory { at: part.place(), n_bytes })
    }
}

fn allocate(part: &Part<'_>, n_bytes: u64) -> Result<AlignedBytes, ZTensor2Error> {
    let bytes = usize::try_from(n_bytes).ok().and_then(AlignedBytes::try_zeroed);
    bytes.ok_or_else(|| ZTensor2Error::Memory { at: part.place(), n_bytes })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_have_one_size() {
        for sizes in [vec![7], vec![1; 7], vec![2, 5], vec![3, 3, 1], vec![6, 1], vec![]] {
            let all: Vec<u8> = (0..sizes.iter().sum::<usize>() as u8).collect();
            let mut found = Vec::new();
            let mut visit = |piece: &[u8]| {
                found.push(piece.to_vec());
                ControlFlow::Continue(())
            };
            let mut pieces = Pieces::new(3, &mut visit);
            let mut rest = all.as_slice();
            for size in &sizes {
                let (first, others) = rest.split_at(*size);
                assert!(pieces.push(first).is_continue());
                rest = others;
            }
            pieces.finish();
            assert_eq!(found, all.chunks(3).map(<[u8]>::to_vec).collect::<Vec<_>>(), "{sizes:?}");
        }
    }
}
