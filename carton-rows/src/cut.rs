//! Cuts record batches into calls (spec/rows.md §4). Pure.
//!
//! A call has rows whose inputs have the same shapes, up to a number of rows and of bytes.

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

/// The largest call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BatchSize {
    pub(crate) rows: usize,
    /// The most bytes of the inputs; a single row may have more.
    pub(crate) bytes: usize,
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
