//! Sharded safetensors datasets (spec/dataset.md): folders that any number of writers fill and any number of readers share.
//!
//! ```text
//! dataset/
//!   part-00000-0000-550e8400-e29b-41d4-a716-446655440000.safetensors    shards: task, number within it, attempt
//!   part-00001-0000-….safetensors
//!   dataset_manifest.json                                               what there is; written last
//!   _tensor_index.parquet/part-00000.parquet                            in which shard each tensor is; if asked for
//! ```
//!
//! Rows come as Arrow record batches. In *batch mode* so many rows become one shard, a tensor of each column; in *key-value
//! mode* each row becomes tensors of its own, named after it, and shards are closed when they are large enough.

mod column;
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
pub use read::{
    Assignment, Batch, Category, Checks, Dataset, Finding, Sample, Shards, Verification, VerifyProgress, verify,
};
pub use report::TaskReport;
pub use write::{CommitHook, CommitOptions, CommitStep, TaskWriter, WriteProgress, abort, commit, merge, write};
