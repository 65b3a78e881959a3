//! The keys and values that shards have in their `__metadata__` (spec/dataset.md §2.2).

/// The mode of the shard: [`BATCH`] or [`KEY_VALUE`].
pub(crate) const MODE_KEY: &str = "dataset.mode";
/// The mode of a shard whose samples are the rows of its tensors.
pub(crate) const BATCH: &str = "batch";
/// The mode of a shard in which each sample has tensors of its own.
pub(crate) const KEY_VALUE: &str = "key-value";
/// The number of samples in the shard.
pub(crate) const SAMPLES_KEY: &str = "dataset.samples";
/// The separator between the names of rows and columns, in key-value mode.
pub(crate) const SEPARATOR_KEY: &str = "dataset.separator";
/// Present in key-value mode if names may repeat; its value is [`LAST_WINS`].
pub(crate) const DUPLICATES_KEY: &str = "dataset.duplicates";
/// The value of [`DUPLICATES_KEY`]: the last row of a name counts.
pub(crate) const LAST_WINS: &str = "last-win";
/// The columns of the rows, in key-value mode, as a JSON list.
pub(crate) const COLUMNS_KEY: &str = "dataset.columns";
