//! What callers say about writing (spec/dataset.md §4). Pure.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;

use carton_tensor::files::ElementType;
use uuid::Uuid;

use crate::index::IndexLayout;

/// How rows become tensors and shards.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mode {
    /// So many rows make a shard, in which each column is one tensor of shape `[rows, *shape of a sample]`.
    Batch {
        /// The rows of a shard.
        batch_size: NonZeroUsize,
        /// What becomes of the last rows when they are fewer.
        tail: TailStrategy,
    },
    /// Each row makes a tensor of every column but the one that names it.
    KeyValue(KeyValue),
}

/// What becomes of the rows after the last full batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TailStrategy {
    /// They are left out.
    Drop,
    /// Rows of zeros are added.
    Pad,
    /// They are a shard of fewer rows.
    #[default]
    Write,
}

/// How key-value mode names tensors and cuts shards.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyValue {
    /// The column that names the rows.
    pub name_column: String,
    /// What stands between a row's name and a column's in a tensor's name.
    pub separator: String,
    /// A shard is closed when its tensors reach this many bytes, with [`OVERHEAD_PER_TENSOR`](Self::OVERHEAD_PER_TENSOR) for each.
    pub target_shard_bytes: u64,
    /// What happens when a name comes twice in a shard.
    pub duplicates: Duplicates,
}

impl KeyValue {
    /// The separator unless another is given.
    pub const SEPARATOR: &str = "__";
    /// The size of shards unless another is given.
    pub const TARGET_SHARD_BYTES: u64 = 300 << 20;
    /// The sizes that the Spark connector and the command take.
    pub const TARGET_SHARD_BYTES_RANGE: std::ops::RangeInclusive<u64> = 50 << 20..=1000 << 20;
    /// The longest separator, in bytes.
    pub const MAX_SEPARATOR: usize = 256;
    /// What a tensor's entry in the header counts as.
    pub const OVERHEAD_PER_TENSOR: u64 = 200;

    /// Rows named by this column, the rest as most people want it.
    #[must_use]
    pub fn new(name_column: impl Into<String>) -> Self {
        Self {
            name_column: name_column.into(),
            separator: Self::SEPARATOR.to_owned(),
            target_shard_bytes: Self::TARGET_SHARD_BYTES,
            duplicates: Duplicates::default(),
        }
    }
}

/// Whether a separator is one that names of tensors may have in them.
///
/// # Errors
/// What is wrong with it, in words.
pub(crate) fn check_separator(separator: &str) -> Result<(), String> {
    if separator.contains(char::is_control) {
        return Err(format!("the separator `{}` has control characters", separator.escape_debug()));
    }
    match separator.len() {
        found if found > KeyValue::MAX_SEPARATOR => {
            Err(format!("the separator has {found} bytes, expected at most {}", KeyValue::MAX_SEPARATOR))
        }
        _ => Ok(()),
    }
}

/// What the tensors of shards are that do not say it themselves, as those of the Spark connector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ShardLayout {
    /// Each tensor holds a column, and its first dimension counts the rows.
    Batch {
        /// The rows of every shard but the last one of a task, which may have fewer.
        batch_size: NonZeroUsize,
    },
    /// Each row has tensors of its own, `NAME SEPARATOR COLUMN` without the spaces.
    KeyValue {
        /// What stands between the names.
        separator: String,
        /// The columns. Without them they are what the names of all rows have in common.
        columns: Option<Vec<String>>,
        /// What happens when a name comes twice: with [`Duplicates::LastWins`] it may be in several shards.
        duplicates: Duplicates,
    },
}

/// What happens when two rows have the same name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Duplicates {
    /// Writing fails, and so does the commit of tasks that have written the same name.
    #[default]
    Fail,
    /// The last one in a shard counts. Shards know nothing of each other.
    LastWins,
}

/// How floats become floats of fewer bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Rounding {
    /// To the nearest, of two equally near ones to the even one: what every library does.
    #[default]
    NearestEven,
    /// Where they become F16 or BF16, the lower bits of the pattern of an F32 are cut off, and what would be a subnormal F16
    /// is zero: as the Spark connector does it. An F64 becomes the nearest F32 before.
    Truncate,
}

/// How a dataset is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WriteOptions {
    /// Rows to tensors.
    pub mode: Mode,
    /// The columns that are written, all if `None`.
    pub columns: Option<Vec<String>>,
    /// The element type of every column; numbers keep their own if `None`, and binary columns need one.
    pub dtype: Option<ElementType>,
    /// The element type of single columns, before `dtype`.
    pub dtypes: BTreeMap<String, ElementType>,
    /// The shape of one sample of a column; lists are vectors without it.
    pub shapes: BTreeMap<String, Vec<usize>>,
    /// How floats become shorter.
    pub rounding: Rounding,
    /// Whether `_tensor_index.parquet` is written, and what it is.
    pub index: Option<IndexLayout>,
    /// Whether a dataset that is in the folder already may be replaced.
    pub overwrite: bool,
    /// Which job the tasks are of. Attempts of one job are told from those that another one has left.
    pub job: Option<Uuid>,
}

impl WriteOptions {
    /// Writes in this mode, the rest as most people want it.
    #[must_use]
    pub fn new(mode: Mode) -> Self {
        Self {
            mode,
            columns: None,
            dtype: None,
            dtypes: BTreeMap::new(),
            shapes: BTreeMap::new(),
            rounding: Rounding::default(),
            index: None,
            overwrite: false,
            job: None,
        }
    }
}
