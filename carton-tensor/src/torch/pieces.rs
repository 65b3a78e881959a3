//! Visits the elements of a tensor with strides in C order, in pieces, so that neither its size nor that of its storage matters.

use std::ops::ControlFlow;

use super::contents::TensorInfo;
use super::error::Problem;
use super::strides::{extent, gather};
use crate::files::{FileBytes, Visit};

/// The bytes of a block of elements that is gathered at a time. A transposed matrix is read by runs of as many elements as the block has rows.
const BLOCK: usize = 16 << 20;

/// What is gathered: elements of `width` bytes, the first of them at byte `start` of the file.
pub(super) struct Strided<'a> {
    pub(super) bytes: &'a FileBytes,
    pub(super) start: u64,
    pub(super) width: usize,
    /// The bytes of a block.
    pub(super) block: usize,
}

impl<'a> Strided<'a> {
    /// The elements of a tensor whose storage has been compared with its shape and strides.
    pub(super) fn new(bytes: &'a FileBytes, start: u64, width: usize) -> Self {
        Self { bytes, start, width, block: BLOCK }
    }

    /// Passes all elements of a tensor to `visit`, in pieces of `n_bytes`.
    ///
    /// # Errors
    /// The file cannot be read.
    pub(super) fn visit(&self, tensor: &TensorInfo, n_bytes: usize, visit: Visit<'_>) -> Result<(), Problem> {
        self.visit_parts(&tensor.parts.shape, &tensor.parts.strides, tensor.parts.offset, n_bytes, visit)
    }

    fn visit_parts(
        &self,
        shape: &[usize],
        strides: &[u64],
        offset: u64,
        n_bytes: usize,
        visit: Visit<'_>,
    ) -> Result<(), Problem> {
        let mut pieces = Pieces { n_bytes: n_bytes.max(1), waiting: Vec::new(), visit };
        if !shape.contains(&0) && self.blocks(shape, strides, offset, &mut pieces)?.is_continue() {
            // Nobody asks whether more is wanted after the last piece.
            let _ = pieces.finish();
        }
        Ok(())
    }

    /// Gathers the elements of a part of the tensor, whose first element is at the position `offset` of the storage. Each call leaves out the first
    /// dimension, of which there are at most [`MAX_RANK`](crate::MAX_RANK).
    fn blocks(
        &self,
        shape: &[usize],
        strides: &[u64],
        offset: u64,
        pieces: &mut Pieces<'_>,
    ) -> Result<ControlFlow<()>, Problem> {
        let (Some((&size, inner)), Some((&stride, inner_strides))) = (shape.split_first(), strides.split_first())
        else {
            return self.block(shape, strides, offset, pieces);
        };
        let row = inner.iter().try_fold(self.width, |bytes, &size| bytes.checked_mul(size)).unwrap_or(usize::MAX);
        if row > self.block {
            let stride = if size > 1 { stride } else { 0 };
            for index in 0..size as u64 {
                if self.blocks(inner, inner_strides, offset + index * stride, pieces)?.is_break() {
                    return Ok(ControlFlow::Break(()));
                }
            }
            return Ok(ControlFlow::Continue(()));
        }
        let rows = (self.block / row).max(1);
        let mut shape = shape.to_vec();
        // The stride of a dimension of one element is any.
        let stride = if size > 1 { stride } else { 0 };
        for first in (0..size).step_by(rows) {
            if let Some(of_block) = shape.first_mut() {
                *of_block = rows.min(size - first);
            }
            if self.block(&shape, strides, offset + first as u64 * stride, pieces)?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    fn block(
        &self,
        shape: &[usize],
        strides: &[u64],
        offset: u64,
        pieces: &mut Pieces<'_>,
    ) -> Result<ControlFlow<()>, Problem> {
        let n_elements: usize = shape.iter().product();
        let mut block = vec![0; n_elements * self.width];
        self.read(shape, strides, offset, &mut block)?;
        Ok(pieces.add(&block))
    }

    /// Reads the elements of a block in C order.
    fn read(&self, shape: &[usize], strides: &[u64], offset: u64, into: &mut [u8]) -> Result<(), Problem> {
        let outside = || Problem::Malformed("a tensor is not inside of its storage".to_owned());
        let n_bytes =
            extent(shape, strides).and_then(|extent| extent.checked_mul(self.width as u64)).ok_or_else(outside)?;
        let from = self.start + offset * self.width as u64;
        // What lies between the elements is read with them, unless it is much more than they are.
        if n_bytes <= (4 * self.block) as u64 {
            let source = self.bytes.read(from..from + n_bytes)?;
            return gather(&source, self.width, shape, strides, into).ok_or_else(outside);
        }
        // Otherwise one dimension at a time, the one whose elements are closest: the others each say where such a run begins.
        let outer = |(_, (size, _)): &(usize, (&usize, &u64))| **size > 1;
        let closest = shape.iter().zip(strides).enumerate().filter(outer).min_by_key(|(_, (_, stride))| **stride);
        let Some((dimension, (&size, &stride))) = closest else { return Err(outside()) };
        if shape.len() == 1 {
            for (number, element) in into.chunks_mut(self.width).enumerate() {
                self.bytes.read_into(from + number as u64 * stride * self.width as u64, element)?;
            }
            return Ok(());
        }
        let step: usize = shape.iter().skip(dimension + 1).product();
        let n_runs = into.len() / self.width / size;
        let (mut index, mut position) = (vec![0_usize; shape.len()], 0_u64);
        let mut run = vec![0; size * self.width];
        let mut at = 0_usize;
        for _ in 0..n_runs {
            self.read(&[size], &[stride], offset + position, &mut run)?;
            for (number, element) in run.chunks(self.width).enumerate() {
                let place = (at + number * step) * self.width;
                into.get_mut(place..place + self.width).ok_or_else(outside)?.copy_from_slice(element);
            }
            // The next index in C order, of all dimensions but this one.
            let mut weight = 1_usize;
            for other in (0..shape.len()).rev() {
                let (Some(&size), Some(&stride), Some(index)) =
                    (shape.get(other), strides.get(other), index.get_mut(other))
                else {
                    return Err(outside());
                };
                // The stride of a dimension of one element is any.
                if other != dimension && size > 1 {
                    *index += 1;
                    if *index < size {
                        position += stride;
                        at += weight;
                        break;
                    }
                    *index = 0;
                    position -= stride * (size as u64 - 1);
                    at -= weight * (size - 1);
                }
                weight *= size;
            }
        }
        Ok(())
    }
}

/// Cuts what is gathered into pieces of one size.
struct Pieces<'v> {
    n_bytes: usize,
    /// What does not fill a piece yet.
    waiting: Vec<u8>,
    visit: Visit<'v>,
}

impl Pieces<'_> {
    fn add(&mut self, mut bytes: &[u8]) -> ControlFlow<()> {
        while !bytes.is_empty() {
            let (now, later) = bytes.split_at(bytes.len().min(self.n_bytes - self.waiting.len()));
            self.waiting.extend_from_slice(now);
            bytes = later;
            if self.waiting.len() == self.n_bytes {
                self.finish()?;
            }
        }
        ControlFlow::Continue(())
    }

    fn finish(&mut self) -> ControlFlow<()> {
        let visited = if self.waiting.is_empty() { ControlFlow::Continue(()) } else { (self.visit)(&self.waiting) };
        self.waiting.clear();
        visited
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    /// Compares what is gathered in blocks of a few bytes with what is gathered at once.
    #[test]
    fn blocks_give_what_the_whole_gives() {
        let storage: Vec<u8> = (0..=255).cycle().take(4000).map(|byte: u8| byte.wrapping_mul(37)).collect();
        let check = |shape: &[usize], strides: &[u64], offset: u64| {
            let width = 2;
            let n_elements: usize = shape.iter().product();
            let n_bytes = extent(shape, strides).unwrap() as usize * width;
            let from = offset as usize * width;
            let mut expected = vec![0; n_elements * width];
            gather(&storage[from..from + n_bytes], width, shape, strides, &mut expected).unwrap();
            for block in [2, 6, 16, 64, 100_000] {
                let bytes = FileBytes::from(storage.clone());
                let strided = Strided { bytes: &bytes, start: 0, width, block };
                let mut found = Vec::new();
                let mut sizes = Vec::new();
                let visit = &mut |piece: &[u8]| {
                    sizes.push(piece.len());
                    found.extend_from_slice(piece);
                    ControlFlow::Continue(())
                };
                strided.visit_parts(shape, strides, offset, 10, visit).unwrap();
                assert_eq!(found, expected, "{shape:?} {strides:?} {block}");
                assert!(sizes.iter().rev().skip(1).all(|size| *size == 10), "{sizes:?}");
            }
        };
        check(&[30, 20], &[1, 30], 0);
        check(&[30, 20], &[0, 1], 5);
        check(&[7, 5, 4], &[1, 28, 7], 3);
        check(&[2, 3, 4, 5], &[3, 1, 400, 90], 0);
        check(&[19], &[100], 1);
        check(&[4, 1, 6], &[7, 999, 300], 0);
        check(&[3, 0], &[1, 1], 0);
        check(&[], &[], 9);
    }
}
