//! Batch mode: a fixed number of rows makes a shard, with one tensor per column (spec/dataset.md §4.3).

use std::collections::VecDeque;

use arrow_buffer::Buffer;
use carton_tensor::context::Context;
use carton_tensor::files::ElementType;
use carton_tensor::safetensors::{Layout, SafetensorsError};

use super::attempt::Attempt;
use super::shard_file::{ShardFile, Written, metadata};
use crate::column::{Column, Run, without_the_rest};
use crate::error::{ColumnProblem, DatasetError};
use crate::shard_metadata::ShardMode;

/// Rows that are not in a shard yet.
#[derive(Debug)]
pub(super) struct Pending {
    columns: Vec<PendingColumn>,
    n_rows: usize,
}

/// The values of a column that are not in a shard yet.
#[derive(Debug)]
struct PendingColumn {
    name: String,
    /// The dtype and shape of all rows of the task, known from the first row on.
    sample: Option<Sample>,
    /// The bytes of the rows, one after another: slices of the memory of record batches.
    bytes: VecDeque<Buffer>,
}

#[derive(Clone, Debug, PartialEq)]
struct Sample {
    dtype: ElementType,
    shape: Vec<usize>,
    n_bytes: usize,
}

impl Pending {
    pub(super) fn new<'a>(names: impl Iterator<Item = &'a str>) -> Self {
        let column = |name: &str| PendingColumn { name: name.to_owned(), sample: None, bytes: VecDeque::new() };
        Self { columns: names.map(column).collect(), n_rows: 0 }
    }

    pub(super) fn n_rows(&self) -> usize {
        self.n_rows
    }

    /// Adds the values of the column at `position`, for rows from the `first_row`th on. The values of all columns are added before
    /// [`add_rows`](Self::add_rows).
    pub(super) fn push(
        &mut self,
        position: usize,
        column: &Column,
        runs: Vec<Run>,
        first_row: u64,
    ) -> Result<(), DatasetError> {
        let Some(pending) = self.columns.get_mut(position) else { return Ok(()) };
        let mut row = first_row;
        for run in runs {
            let n_bytes = run.row_bytes();
            let sample =
                pending.sample.get_or_insert_with(|| Sample { dtype: run.dtype, shape: run.shape.clone(), n_bytes });
            if sample.dtype != run.dtype || sample.shape != run.shape {
                let problem = ColumnProblem::Differs {
                    expected_dtype: sample.dtype,
                    expected: sample.shape.clone(),
                    found_dtype: run.dtype,
                    found: run.shape,
                };
                return Err(column.row_error(row, problem));
            }
            row += run.n_rows as u64;
            if !run.bytes.is_empty() {
                pending.bytes.push_back(run.bytes);
            }
        }
        Ok(())
    }

    /// Counts rows whose values have been added.
    pub(super) fn add_rows(&mut self, n_rows: usize) {
        self.n_rows += n_rows;
    }

    /// Releases the memory of record batches of which only a small part is still needed.
    pub(super) fn settle(&mut self) {
        for bytes in self.columns.iter_mut().filter_map(|column| column.bytes.back_mut()) {
            *bytes = without_the_rest(bytes);
        }
    }

    /// Writes the first `n_rows` rows as a shard, padded with rows of zeros to `padded` rows.
    pub(super) fn write_shard(
        &mut self,
        n_rows: usize,
        padded: usize,
        attempt: &Attempt,
        written: &mut Written,
        context: &Context,
    ) -> Result<(), DatasetError> {
        let number = written.next_number()?;
        let tensors = self.columns.iter().filter_map(|column| {
            let sample = column.sample.as_ref()?;
            let shape: Vec<usize> = std::iter::once(padded).chain(sample.shape.iter().copied()).collect();
            Some((column.name.as_str(), sample.dtype, shape))
        });
        let layout = Layout::new(tensors, &metadata(ShardMode::Batch, padded as u64, None)?)
            .map_err(|source| DatasetError::shard(attempt.part_name(number), SafetensorsError::Unwritable(source)))?;
        let order = layout.order().to_vec();
        let mut file = ShardFile::create(attempt, number, layout)?;
        for position in order {
            let Some(column) = self.columns.get_mut(position) else { continue };
            let Some(n_bytes) = column.sample.as_ref().map(|sample| sample.n_bytes) else { continue };
            column.take(n_rows * n_bytes, |name, bytes| file.write(name, bytes, context))?;
            // Cannot overflow: the layout has a tensor of this size.
            write_zeros((padded - n_rows) * n_bytes, |bytes| file.write(&column.name, bytes, context))?;
        }
        self.n_rows -= n_rows;
        file.finish(padded as u64, written, context)
    }
}

impl PendingColumn {
    /// Passes the first `n_bytes` to `write`, in pieces as they lie in memory, and drops them.
    fn take(
        &mut self,
        mut n_bytes: usize,
        mut write: impl FnMut(&str, &[u8]) -> Result<(), DatasetError>,
    ) -> Result<(), DatasetError> {
        while n_bytes > 0
            && let Some(mut first) = self.bytes.pop_front()
        {
            let n = first.len().min(n_bytes);
            write(&self.name, first.get(..n).unwrap_or_default())?;
            n_bytes -= n;
            if n < first.len() {
                first.advance(n);
                self.bytes.push_front(first);
            }
        }
        Ok(())
    }
}

fn write_zeros(
    mut n_bytes: usize,
    mut write: impl FnMut(&[u8]) -> Result<(), DatasetError>,
) -> Result<(), DatasetError> {
    static ZEROS: [u8; 64 << 10] = [0; 64 << 10];
    while n_bytes > 0 {
        let piece = ZEROS.get(..n_bytes).unwrap_or(&ZEROS);
        write(piece)?;
        n_bytes -= piece.len();
    }
    Ok(())
}
