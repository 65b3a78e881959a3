//! Sharded safetensors datasets (spec/dataset.md): folders of safetensors files that any number of programs write together and any number
//! read.
//!
//! ```text
//! dataset/
//!   part-00000-0000-550e8400-e29b-41d4-a716-446655440000.safetensors    shards: task, number within it, attempt
//!   part-00001-0000-….safetensors
//!   dataset_manifest.json                                               lists shards and tensors; written last
//!   _tensor_index.parquet/part-00000.parquet                            the shard of each tensor; optional
//! ```
//!
//! Rows come as Arrow record batches. In *batch mode*, a fixed number of rows becomes one shard, with one tensor for each column. In
//! *key-value mode*, each row becomes tensors of its own, named after its key, and a shard is closed when it is large enough.
//!
//! ```
//! use std::{num::NonZeroUsize, sync::Arc};
//! use arrow_array::{Float32Array, RecordBatch};
//! use carton_dataset::{Dataset, Mode, TailStrategy, WriteOptions, write};
//! use carton_tensor::context::Context;
//! # let parent = tempfile::tempdir()?;
//! # let folder = parent.path().join("numbers");
//! let rows = RecordBatch::try_from_iter([("x", Arc::new(Float32Array::from(vec![1.0, 2.0, 3.0])) as _)])?;
//! let batch_size = NonZeroUsize::new(2).ok_or("is zero")?;
//! let options = WriteOptions::new(Mode::Batch { batch_size, tail: TailStrategy::Write });
//! write(&rows.schema(), [Ok(rows)], &folder, &options, &Context::default())?;
//!
//! let dataset = Dataset::open(&folder)?;
//! let samples = dataset.samples().collect::<Result<Vec<_>, _>>()?;
//! assert_eq!(samples.len(), 3);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | to | use |
//! |---|---|
//! | write from one program | [`write()`] |
//! | write from many tasks, which may be tried twice | a [`TaskWriter`] each, then [`commit`] or [`abort`] |
//! | make a dataset of shards that are there | [`merge()`] |
//! | read in order, by worker, by sample, or by name | [`Dataset`] |
//! | compare a dataset with its manifest and index | [`verify`] |
//! | read rows from Parquet and Arrow files | [`Input`] |
//! | find the shard of a tensor | [`index`] |
//! | convert an Arrow column to tensors, without a dataset | [`mod@column`] |
//!
//! The crate reads and writes shards through `carton-tensor`. It knows neither cartons nor runners.
//!
//! # Modules
//!
//! Each uses only those before it.
//!
//! - `shard_path`, `part_name`: names of shards and parts. Pure.
//! - `options`, `manifest`: how a dataset is written; its manifest, which is consistent in itself. Pure.
//! - `error`: one error type, with those of the parts.
//! - `input`: rows from Parquet and Arrow IPC. The sizes that such files claim are compared with their real sizes before `arrow` and
//!   `parquet` rely on them; `guard` turns the remaining panics into errors.
//! - `index`: the table of tensors, one file when we write it, one file or many when we read it.
//! - `column`: one Arrow column as the bytes of tensors, as slices of its buffers where they have the right layout. Knows no files.
//! - `shard_metadata`, `report`, `sample_names`, `fuzzing`, `rows`: what a shard says of itself; what was written; names of tensors
//!   split into samples and columns, also where neither shard nor manifest names the separator; what fuzz targets call; rows as columns.
//! - `write`: `task` is one attempt at one task; `batch` and `key_value` cut its rows into shards, `attempt` is the folder that holds
//!   them until the commit. `commit` makes a dataset of one attempt at each task, by a record of its steps; `publish` gives index and
//!   manifest their names, last. `merge` does the same for shards without reports.
//! - `read`: `Dataset` opens shards when they are needed; `assignment` divides them among workers; `verify` compares everything with
//!   everything, and reports problems as findings, not as errors.

pub mod column;
mod error;
#[cfg(fuzzing)]
pub mod fuzzing;
pub mod index;
mod input;
mod manifest;
mod options;
mod part_name;
mod read;
mod report;
mod rows;
mod sample_names;
mod shard_metadata;
mod shard_path;
mod write;

pub use error::{ColumnProblem, DatasetError};
pub use input::{Input, InputError};
pub use manifest::{
    FORMAT_VERSION, KeyValueNames, MANIFEST_NAME, Manifest, ManifestError, SAFETENSORS_VERSION, Shard, TensorSchema,
};
pub use options::{Duplicates, KeyValue, Mode, Rounding, ShardLayout, TailStrategy, WriteOptions};
pub use part_name::PartName;
pub use read::{Assignment, Batch, Category, Checks, Dataset, Finding, Sample, Shards, Verification, verify};
pub use report::TaskReport;
pub use shard_metadata::ShardMode;
pub use write::{CommitOptions, TaskWriter, abort, commit, merge, write};
