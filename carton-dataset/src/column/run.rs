//! Runs: tensors of neighbouring rows that lie one after another in memory.

use arrow_buffer::Buffer;
use carton_tensor::files::ElementType;

use crate::error::ColumnProblem;

/// The tensors of neighbouring rows that have the same dtype and shape.
#[derive(Clone, Debug)]
pub struct Run {
    /// The element type of each tensor.
    pub(crate) dtype: ElementType,
    /// The shape of each tensor.
    pub(crate) shape: Vec<usize>,
    /// The number of tensors.
    pub(crate) n_rows: usize,
    /// The elements of all tensors, one tensor after another.
    pub(crate) bytes: Buffer,
}

impl Run {
    /// The element type of each tensor.
    #[must_use]
    pub fn dtype(&self) -> ElementType {
        self.dtype
    }

    /// The shape of each tensor.
    #[must_use]
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// The number of tensors.
    #[must_use]
    pub fn n_rows(&self) -> usize {
        self.n_rows
    }

    /// The elements of all tensors, one tensor after another.
    #[must_use]
    pub fn bytes(&self) -> &Buffer {
        &self.bytes
    }

    /// The size of each tensor in bytes.
    pub(crate) fn row_bytes(&self) -> usize {
        self.bytes.len().checked_div(self.n_rows).unwrap_or(0)
    }

    /// Returns the bytes of each tensor, one after the other.
    pub(crate) fn rows(&self) -> impl Iterator<Item = Buffer> + use<> {
        let (mut rest, n_bytes) = (self.bytes.clone(), self.row_bytes());
        // Cannot be out of bounds: the size of a row is that of all bytes, divided by the number of rows.
        (0..self.n_rows).map(move |_| {
            let row = rest.slice_with_length(0, n_bytes);
            rest.advance(n_bytes);
            row
        })
    }
}

/// Returns `length` bytes from `start` on.
///
/// # Errors
/// [`ColumnProblem::OutOfBounds`] if the buffer is shorter, which no valid array causes.
pub(super) fn slice(buffer: &Buffer, start: usize, length: usize) -> Result<Buffer, ColumnProblem> {
    let (end, n_bytes) = (start.saturating_add(length), buffer.len());
    if end > n_bytes {
        return Err(ColumnProblem::OutOfBounds { start, end, n_bytes });
    }
    Ok(buffer.slice_with_length(start, length))
}

/// Returns the same bytes, copied if the slice uses less than a quarter of the memory that it keeps alive: all columns of a record batch
/// from a file or pipe can share one allocation.
pub(crate) fn without_the_rest(bytes: &Buffer) -> Buffer {
    if bytes.capacity() / 4 > bytes.len() { Buffer::from(bytes.as_slice()) } else { bytes.clone() }
}

/// Collects tensors that lie in different places, and joins small neighbours of the same dtype and shape.
#[derive(Debug, Default)]
pub(super) struct Gathered {
    runs: Vec<Run>,
    /// The bytes of the last run, while it may grow.
    growing: Vec<u8>,
}

impl Gathered {
    /// Tensors of this many bytes or more are not copied.
    const SMALL: usize = 16 << 10;

    /// Adds the tensor of the next row.
    pub(super) fn push(&mut self, dtype: ElementType, shape: &[usize], bytes: Buffer) {
        let is_small = bytes.len() < Self::SMALL;
        if is_small
            && !self.growing.is_empty()
            && let Some(run) = self.runs.last_mut()
            && run.dtype == dtype
            && run.shape == shape
        {
            run.n_rows += 1;
            self.growing.extend_from_slice(&bytes);
            return;
        }
        self.settle();
        if is_small {
            self.growing.extend_from_slice(&bytes);
        }
        self.runs.push(Run { dtype, shape: shape.to_vec(), n_rows: 1, bytes });
    }

    /// Completes the last run: nothing is added to it any more.
    fn settle(&mut self) {
        if !self.growing.is_empty()
            && let Some(run) = self.runs.last_mut()
        {
            run.bytes = Buffer::from_vec(std::mem::take(&mut self.growing));
        }
    }

    pub(super) fn finish(mut self) -> Vec<Run> {
        self.settle();
        self.runs
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn memory_is_kept_only_if_much_of_it_is_needed() {
        let all = Buffer::from_vec((0..=255_u8).cycle().take(10_000).collect::<Vec<u8>>());
        let half = slice(&all, 5_000, 5_000).unwrap();
        assert_eq!(without_the_rest(&half).as_ptr(), half.as_ptr());
        let little = without_the_rest(&slice(&all, 256, 300).unwrap());
        assert!(little.capacity() < 1_000);
        assert_eq!(little.as_slice(), &all[256..556]);
    }

    #[test]
    fn bytes_that_are_not_there_are_an_error() {
        let four = Buffer::from_vec(vec![0_u8; 4]);
        let check = |start, length, expected: Option<&str>| {
            let found = slice(&four, start, length).err().map(|error| error.to_string());
            assert_eq!(found.as_deref(), expected);
        };
        check(0, 4, None);
        check(4, 0, None);
        check(2, 3, Some("is at bytes 2 to 5 of 4"));
        check(5, 0, Some("is at bytes 5 to 5 of 4"));
        check(1, usize::MAX, Some("is at bytes 1 to 18446744073709551615 of 4"));
    }

    #[test]
    fn small_neighbours_are_put_together() {
        let mut gathered = Gathered::default();
        let byte = |value: u8| Buffer::from_vec(vec![value]);
        let large = Buffer::from_vec(vec![9_u8; Gathered::SMALL]);
        for bytes in [byte(1), byte(2), Buffer::from_vec(vec![3_u8, 4]), large.clone(), byte(5)] {
            gathered.push(ElementType::Uint8, &[bytes.len()], bytes);
        }
        let runs = gathered.finish();
        let found: Vec<(usize, usize)> = runs.iter().map(|run| (run.n_rows, run.bytes.len())).collect();
        assert_eq!(found, [(2, 2), (1, 2), (1, Gathered::SMALL), (1, 1)]);
        assert_eq!(runs.first().unwrap().rows().map(|row| row.to_vec()).collect::<Vec<_>>(), [[1], [2]]);
        assert_eq!(runs.get(2).unwrap().bytes.as_ptr(), large.as_ptr());
    }
}
