//! What shards say of themselves in their `__metadata__` (spec/dataset.md §2.2): the keys, and the names of the modes.

/// Whose samples are what: [`BATCH`] or [`KEY_VALUE`].
pub(crate) const MODE_KEY: &str = "dataset.mode";
/// The mode of a shard whose samples are the rows of its tensors.
pub(crate) const BATCH: &str = "batch";
/// The mode of a shard in which each sample has tensors of its own.
pub(crate) const KEY_VALUE: &str = "key-value";
/// How many samples a shard has.
pub(crate) const SAMPLES_KEY: &str = "dataset.samples";
/// What stands between the names of rows and columns, in key-value mode.
pub(crate) const SEPARATOR_KEY: &str = "dataset.separator";
/// That the last row of a name counts, in a shard in key-value mode: only where names may come twice.
pub(crate) const DUPLICATES_KEY: &str = "dataset.duplicates";
/// What is said there.
pub(crate) const LAST_WINS: &str = "last-win";
/// The columns that each row has tensors of, in key-value mode, as a JSON list.
pub(crate) const COLUMNS_KEY: &str = "dataset.columns";
