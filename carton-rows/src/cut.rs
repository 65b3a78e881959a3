//! Cuts record batches into calls (spec/rows.md §4). Pure.
//!
//! A call consists of neighbouring rows whose inputs have the same shapes. Its number of rows and its bytes are limited.

use std::collections::VecDeque;

use arrow_array::RecordBatch;

use crate::error::RowsError;
use crate::input::Piece;
use crate::plan::Plan;

/// The rows of one call.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    /// The number of the first row among all rows.
    pub(crate) first_row: u64,
    pub(crate) n_rows: usize,
    /// The pieces of each input, in the order of the plan's inputs. There is at least one.
    pub(crate) inputs: Vec<Vec<Piece>>,
    /// The columns that are kept, of the same rows.
    pub(crate) kept: Vec<RecordBatch>,
}

/// The limits of a call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BatchSize {
    pub(crate) rows: usize,
    /// The most bytes of the inputs; a single row may have more.
    pub(crate) bytes: usize,
}

/// The most bytes of a call's inputs that are accepted, where the size is not that of the caller's choice.
const MAX_CALL_BYTES: usize = 4 << 30;

impl BatchSize {
    /// Checks the size of a call with rows of this size: of a full one if its number of rows is fixed, else of one row.
    fn check(self, row_bytes: usize) -> Result<(), RowsError> {
        let n_rows = if self.bytes == usize::MAX { self.rows } else { 1 };
        let n_bytes = n_rows.saturating_mul(row_bytes.max(1));
        match n_bytes > MAX_CALL_BYTES {
            true => Err(RowsError::LargeCall { n_rows, n_bytes, most: MAX_CALL_BYTES }),
            false => Ok(()),
        }
    }
}

/// Collects rows until they make a call.
#[derive(Debug)]
pub(crate) struct Cutter {
    size: BatchSize,
    /// The number of rows that were pushed.
    n_rows: u64,
    /// The call that is not full yet.
    growing: Option<Batch>,
}

impl Cutter {
    pub(crate) fn new(size: BatchSize) -> Self {
        Self { size, n_rows: 0, growing: None }
    }

    /// Takes rows, and returns the calls that they complete.
    ///
    /// # Errors
    /// A value cannot become an input.
    pub(crate) fn push(&mut self, plan: &Plan, rows: &RecordBatch) -> Result<Vec<Batch>, RowsError> {
        let mut inputs = Vec::with_capacity(plan.inputs.len());
        for input in &plan.inputs {
            let array = rows.columns().get(input.position()).ok_or(RowsError::OtherColumns)?;
            inputs.push(VecDeque::from(input.pieces(array, self.n_rows)?));
        }
        let kept = rows.project(&plan.kept).map_err(|_| RowsError::OtherColumns)?;
        let mut complete = Vec::new();
        let mut row = 0;
        while row < rows.num_rows() {
            let n_rows = self.add(&mut inputs, &kept, row, &mut complete)?;
            row += n_rows;
            self.n_rows += n_rows as u64;
        }
        Ok(complete)
    }

    /// Returns the last call, which need not be full.
    pub(crate) fn finish(&mut self) -> Option<Batch> {
        self.growing.take()
    }

    /// Moves as many rows as possible into the growing call, at least one. Returns their number.
    fn add(
        &mut self,
        inputs: &mut [VecDeque<Piece>],
        kept: &RecordBatch,
        row: usize,
        complete: &mut Vec<Batch>,
    ) -> Result<usize, RowsError> {
        // All columns have as many rows as the record batch, so that each has a next piece.
        let next: Vec<&Piece> = inputs.iter().filter_map(VecDeque::front).collect();
        let available = next.iter().map(|piece| piece.n_rows).min().filter(|n_rows| *n_rows > 0);
        let (Some(available), true) = (available, next.len() == inputs.len()) else {
            return Err(RowsError::OtherColumns);
        };
        let row_bytes: usize = next.iter().map(|piece| piece.row_bytes).sum();
        self.size.check(row_bytes)?;
        let most = self.size.rows.min(self.size.bytes / row_bytes.max(1)).max(1);
        let goes_on = |batch: &Batch| batch.n_rows < most && batch.has_shapes_of(&next);
        if !self.growing.as_ref().is_some_and(goes_on) {
            complete.extend(self.growing.take());
        }
        let batch = self.growing.get_or_insert_with(|| Batch {
            first_row: self.n_rows,
            inputs: vec![Vec::new(); inputs.len()],
            ..Batch::default()
        });
        let n_rows = available.min(most - batch.n_rows);
        for (pieces, input) in inputs.iter_mut().zip(&mut batch.inputs) {
            if let Some(piece) = pieces.front_mut() {
                input.push(piece.split_to(n_rows));
                if piece.n_rows == 0 {
                    pieces.pop_front();
                }
            }
        }
        batch.kept.push(kept.slice(row, n_rows));
        batch.n_rows += n_rows;
        if batch.n_rows >= most {
            complete.extend(self.growing.take());
        }
        Ok(n_rows)
    }
}

impl Batch {
    /// Whether rows of these pieces can join the call.
    fn has_shapes_of(&self, next: &[&Piece]) -> bool {
        self.inputs.iter().zip(next).all(|(input, next)| {
            input.first().is_some_and(|first| first.row_shape == next.row_shape && first.dtype == next.dtype)
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::sync::Arc;

    use arrow_array::types::Int64Type;
    use arrow_array::{ArrayRef, ListArray};

    use super::*;
    use crate::plan::ColumnChoice;

    /// Compares the first row and the number of rows of each call with the expected ones. Each batch is given by the lengths of its lists.
    fn check(size: BatchSize, batches: &[&[usize]], expected: &[(u64, usize)]) {
        let rows = |lengths: &[usize]| {
            let lists = lengths.iter().map(|length| Some((0..*length as i64).map(Some)));
            let lists: ArrayRef = Arc::new(ListArray::from_iter_primitive::<Int64Type, _, _>(lists));
            RecordBatch::try_from_iter([("x", lists)]).unwrap()
        };
        let choice = ColumnChoice { inputs: [("x".to_owned(), "x".to_owned())].into(), ..ColumnChoice::default() };
        let plan = Plan::new(None, None, &rows(&[1]).schema(), &choice).unwrap();
        let mut cutter = Cutter::new(size);
        let mut calls: Vec<Batch> =
            batches.iter().flat_map(|batch| cutter.push(&plan, &rows(batch)).unwrap()).collect();
        calls.extend(cutter.finish());
        assert_eq!(calls.iter().map(|call| (call.first_row, call.n_rows)).collect::<Vec<_>>(), expected);
        let lengths: Vec<usize> = batches.concat();
        for call in &calls {
            let pieces = || call.inputs.iter().flatten();
            assert_eq!(pieces().map(|piece| piece.n_rows).sum::<usize>(), call.n_rows);
            assert_eq!(call.kept.iter().map(RecordBatch::num_rows).sum::<usize>(), call.n_rows);
            assert!(pieces().all(|piece| piece.row_shape == [lengths[call.first_row as usize]]));
        }
    }

    #[test]
    fn rows_are_cut_into_calls() {
        let size = BatchSize { rows: 4, bytes: 1 << 20 };
        check(size, &[], &[]);
        check(size, &[&[], &[]], &[]);
        check(size, &[&[1; 9]], &[(0, 4), (4, 4), (8, 1)]);
        check(size, &[&[1; 3], &[], &[1; 1], &[1; 6]], &[(0, 4), (4, 4), (8, 2)]);
        check(size, &[&[1], &[1], &[2], &[2], &[1]], &[(0, 2), (2, 2), (4, 1)]);
        check(size, &[&[0, 0, 3, 3, 3, 3, 3, 0]], &[(0, 2), (2, 4), (6, 1), (7, 1)]);
    }

    #[test]
    fn calls_have_a_size_in_bytes() {
        let size = BatchSize { rows: 100, bytes: 32 };
        check(size, &[&[1; 9]], &[(0, 4), (4, 4), (8, 1)]);
        check(size, &[&[1, 2, 2, 2, 5, 5, 1]], &[(0, 1), (1, 2), (3, 1), (4, 1), (5, 1), (6, 1)]);
        // A row without elements counts as one byte.
        check(size, &[&[0; 40]], &[(0, 32), (32, 8)]);
    }
}
