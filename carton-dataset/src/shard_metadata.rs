//! The keys and values that shards have in their `__metadata__` (spec/dataset.md §2.2).

use carton_tensor::safetensors::Metadata;
use serde::{Deserialize, Serialize};

/// The mode of the shard: the name of a [`ShardMode`].
pub(crate) const MODE_KEY: &str = "dataset.mode";

/// How the samples of a shard lie in its tensors, as its metadata states it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ShardMode {
    /// The samples are the rows of the tensors.
    Batch,
    /// Each sample has tensors of its own.
    KeyValue,
}

impl ShardMode {
    /// The name in metadata and reports: `batch` or `key-value`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Batch => "batch",
            Self::KeyValue => "key-value",
        }
    }

    /// Returns the mode that a shard states. An unknown mode is the same as none, because metadata are hints.
    pub(crate) fn of(metadata: &Metadata) -> Option<Self> {
        let stated = metadata.get(MODE_KEY)?;
        [Self::Batch, Self::KeyValue].into_iter().find(|mode| mode.name() == stated)
    }
}

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
