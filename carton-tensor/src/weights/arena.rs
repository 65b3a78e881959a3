//! One block of memory for many tensors, which several threads fill.

use parking_lot::Mutex;

use super::WeightsError;
use crate::AlignedBytes;
use crate::files::SharedBytes;

/// The alignment of each part in bytes. It suits every element type and vector instruction.
const ALIGNMENT: usize = 64;

/// A block with parts of given sizes.
pub(super) struct Arena {
    bytes: AlignedBytes,
    /// The start and length of each part.
    parts: Vec<(usize, usize)>,
}

impl Arena {
    /// Allocates parts of these sizes. The caller has checked that the sizes are real: each tensor lies inside its file.
    pub(super) fn new(sizes: impl IntoIterator<Item = u64>) -> Result<Self, WeightsError> {
        let (mut parts, mut total) = (Vec::new(), 0_u64);
        for size in sizes {
            parts.push((total, size));
            let end = total.checked_add(size).and_then(|end| end.checked_next_multiple_of(ALIGNMENT as u64));
            total = end.ok_or(WeightsError::Memory { n_bytes: u64::MAX })?;
        }
        let bytes = usize::try_from(total).ok().and_then(AlignedBytes::try_zeroed);
        let bytes = bytes.ok_or(WeightsError::Memory { n_bytes: total })?;
        // Sizes that were allocated fit in usize.
        let parts = parts.into_iter().map(|(start, size)| (start as usize, size as usize)).collect();
        Ok(Self { bytes, parts })
    }

    /// Divides each part into mutable pieces of the size that `piece` returns for it. A piece is locked only by the thread that fills
    /// it.
    pub(super) fn pieces(&mut self, piece: impl Fn(usize) -> usize) -> Vec<Vec<Mutex<&mut [u8]>>> {
        let mut rest = self.bytes.as_mut_slice();
        let mut position = 0;
        let mut parts = Vec::with_capacity(self.parts.len());
        for (index, &(start, length)) in self.parts.iter().enumerate() {
            // Parts are in order. The padding between them is skipped.
            let (_, from_start) = rest.split_at_mut(start - position);
            let (part, after) = from_start.split_at_mut(length);
            // A part without bytes is one piece too, so that it is checked and reported like the others.
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

    /// Returns the parts, which share the block.
    pub(super) fn into_parts(self) -> Vec<SharedBytes> {
        let shared = SharedBytes::from(self.bytes);
        let part = |&(start, length): &(usize, usize)| {
            // Every part lies in the block, so the default is not used.
            shared.slice(start..start + length).unwrap_or_else(|| SharedBytes::from(Vec::<u8>::new()))
        };
        self.parts.iter().map(part).collect()
    }
}
