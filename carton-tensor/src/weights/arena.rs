//! One block of memory for many tensors, filled by many threads.

use std::sync::{Mutex, PoisonError};

use super::WeightsError;
use crate::AlignedBytes;
use crate::files::SharedBytes;

/// What each part starts at a multiple of, which suits every element type and vector instruction.
const ALIGNMENT: usize = 64;

/// A block with room for parts of given sizes.
pub(super) struct Arena {
    bytes: AlignedBytes,
    /// Start and length of each part.
    parts: Vec<(usize, usize)>,
}

impl Arena {
    /// Room for parts of these sizes. The caller has seen that what the sizes claim is there: tensors lie in their file.
    pub(super) fn new(sizes: impl IntoIterator<Item = u64>) -> Result<Self, WeightsError> {
        let (mut parts, mut total) = (Vec::new(), 0_u64);
        for size in sizes {
            parts.push((total, size));
            let end = total.checked_add(size).and_then(|end| end.checked_next_multiple_of(ALIGNMENT as u64));
            total = end.ok_or(WeightsError::Memory { n_bytes: u64::MAX })?;
        }
        let bytes = usize::try_from(total).ok().and_then(AlignedBytes::try_zeroed);
        let bytes = bytes.ok_or(WeightsError::Memory { n_bytes: total })?;
        // What was allocated has sizes of memory.
        let parts = parts.into_iter().map(|(start, size)| (start as usize, size as usize)).collect();
        Ok(Self { bytes, parts })
    }

    /// Each part for writing, cut into pieces of the size that `piece` gives for it. A piece is locked by the thread that
    /// fills it, and by no other.
    pub(super) fn pieces(&mut self, piece: impl Fn(usize) -> usize) -> Vec<Vec<Mutex<&mut [u8]>>> {
        let mut rest = self.bytes.as_mut_slice();
        let mut position = 0;
        let mut parts = Vec::with_capacity(self.parts.len());
        for (index, &(start, length)) in self.parts.iter().enumerate() {
            // Parts are in order, and the padding between them is skipped.
            let (_, from_start) = rest.split_at_mut(start - position);
            let (part, after) = from_start.split_at_mut(length);
            // A part without bytes is one piece too: it is checked and reported like the others.
            parts.push(if part.is_empty() {
                vec![Mutex::new(part)]
            } else {
                part.chunks_mut(piece(index).max(1)).map(Mutex::new).collect()
            });
            rest = after;
            position = start + length;
        }
        parts
    }

    /// The parts, sharing the block.
    pub(super) fn into_parts(self) -> Vec<SharedBytes> {
        let shared = SharedBytes::from(self.bytes);
        let part = |&(start, length): &(usize, usize)| {
            // Every part lies in the block.
            shared.slice(start..start + length).unwrap_or_else(|| SharedBytes::from(Vec::<u8>::new()))
        };
        self.parts.iter().map(part).collect()
    }
}

/// The piece, for the one thread that works on it.
pub(super) fn lock<'a, 'b>(piece: &'a Mutex<&'b mut [u8]>) -> std::sync::MutexGuard<'a, &'b mut [u8]> {
    piece.lock().unwrap_or_else(PoisonError::into_inner)
}
