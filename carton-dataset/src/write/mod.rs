//! Writes record batches as the shards of a dataset, and commits them (spec/dataset.md §4 and §5).
//!
//! `columns` decides which columns are written. `task` is one attempt at one task: it cuts rows into shards with `batch` or `key_value`,
//! and writes each shard with `shard_file` into the folder of the `attempt`. `gathered_schema` collects the tensors that the shards have,
//! and checks that they go together. `commit` makes a dataset of one attempt at each task: `choice` selects the attempts, and
//! `commit_record` states what is then done. `merge` makes a dataset of shards that came without reports, and counts their samples with
//! `samples`.

mod attempt;
mod batch;
mod choice;
mod columns;
mod commit;
mod commit_lock;
mod commit_options;
mod commit_record;
mod found_shard;
mod gathered_schema;
mod key_value;
mod merge;
mod publish;
mod samples;
mod shard_file;
pub(crate) mod staging;
mod task;

use std::path::Path;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use carton_tensor::context::Context;

pub use commit::{abort, commit};
pub use commit_options::CommitOptions;
pub use merge::merge;
pub use task::TaskWriter;

use crate::error::DatasetError;
use crate::manifest::Manifest;
use crate::options::WriteOptions;

/// Writes a dataset into `folder` from record batches with one schema: a single task, committed. Returns the manifest.
///
/// The rows are reported to `context` as the stage `writing`; see [`TaskWriter::with_context`].
///
/// ```
/// use std::{num::NonZeroUsize, sync::Arc};
/// use arrow_array::{Float32Array, RecordBatch};
/// use carton_dataset::{Mode, TailStrategy, WriteOptions, write};
/// use carton_tensor::context::Context;
/// # let parent = tempfile::tempdir()?;
/// # let folder = parent.path().join("numbers");
/// let rows = RecordBatch::try_from_iter([("x", Arc::new(Float32Array::from(vec![1.0, 2.0, 3.0])) as _)])?;
/// let batch_size = NonZeroUsize::new(2).ok_or("is zero")?;
/// let options = WriteOptions::new(Mode::Batch { batch_size, tail: TailStrategy::Write });
/// let manifest = write(&rows.schema(), [Ok(rows)], &folder, &options, &Context::default())?;
/// assert_eq!((manifest.total_samples(), manifest.shards().len()), (3, 2));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// The errors of the record batches, of [`TaskWriter`] and of [`commit`]. After an error nothing is left of what was written, unless it
/// happened in the middle of the commit, which [`merge`] then finishes.
pub fn write(
    schema: &SchemaRef,
    batches: impl IntoIterator<Item = Result<RecordBatch, DatasetError>>,
    folder: &Path,
    options: &WriteOptions,
    context: &Context,
) -> Result<Manifest, DatasetError> {
    let mut writer = TaskWriter::create(folder, schema, options, 0)?.with_context(context.clone());
    for batch in batches {
        writer.write(&batch?)?;
    }
    writer.finish_and_commit()
}
