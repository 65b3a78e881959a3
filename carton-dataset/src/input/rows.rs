//! What the kinds of files have in common.

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;

use crate::error::InputError;

/// The reader of one file format.
pub(super) trait Rows: Send {
    /// The schema of all columns, or of the requested ones.
    fn schema(&self) -> SchemaRef;

    /// The number of rows, if it is known before they are read.
    fn n_rows(&self) -> Option<u64>;

    /// Restricts reading to these columns. Called at most once, before the first batch.
    fn project(&mut self, columns: Vec<usize>) -> Result<(), InputError>;

    /// Returns the next batch, of about `max_rows` rows at most. Not called again after the last batch or an error.
    fn next_batch(&mut self, max_rows: usize) -> Result<Option<RecordBatch>, InputError>;
}
