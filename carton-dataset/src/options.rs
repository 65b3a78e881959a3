//! The options for writing a dataset (spec/dataset.md §4). Pure.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;

use carton_tensor::files::ElementType;
use uuid::Uuid;

/// Whether the index is a folder or a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IndexLayout {
    /// A folder that contains one Parquet file. Spark reads it, and so do the libraries that accept folders, such as pyarrow. Spark reads
    /// no single file whose name begins with `_`.
    #[default]
    Folder,
    /// A single Parquet file, for programs that open nothing else, such as the Python class of the Spark connector.
    File,
}

/// How rows become tensors and shards.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mode {
    /// A fixed number of rows makes a shard, in which each column is one tensor of shape `[rows, *shape of a sample]`.
    Batch {
        /// The number of rows in a shard.
        batch_size: NonZeroUsize,
        /// What happens to the last rows of a task when they do not fill a batch.
        tail: TailStrategy,
    },
    /// Each row makes one tensor per column, except for the column that names the row.
    KeyValue(KeyValue),
}

/// What happens to the rows after the last full batch of a task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TailStrategy {
    /// Leaves them out.
    Drop,
    /// Adds rows of zeros.
    Pad,
    /// Writes them as a shard of fewer rows.
    #[default]
    Write,
}

/// How key-value mode names tensors and cuts shards.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyValue {
    /// The column that names the rows.
    pub name_column: String,
    /// The separator between the row's name and the column's name in a tensor's name.
    pub separator: String,
    /// A shard is closed when its tensors reach this many bytes, counting [`OVERHEAD_PER_TENSOR`](Self::OVERHEAD_PER_TENSOR) extra for
    /// each.
    pub target_shard_bytes: u64,
    /// What happens when two rows of a shard have the same name.
    pub duplicates: Duplicates,
}

impl KeyValue {
    /// The default separator.
    pub const SEPARATOR: &str = "__";
    /// The default target size of a shard: 300 MiB.
    pub const TARGET_SHARD_BYTES: u64 = 300 << 20;
    /// The target sizes in bytes that the Spark connector and the `carton` command accept.
    pub const TARGET_SHARD_BYTES_RANGE: std::ops::RangeInclusive<u64> = 50 << 20..=1000 << 20;
    /// The longest separator, in bytes.
    pub const MAX_SEPARATOR: usize = 256;
    /// The bytes that a tensor's header entry adds to the size of its shard.
    pub const OVERHEAD_PER_TENSOR: u64 = 200;

    /// Rows are named by this column; everything else has its default.
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

/// Checks that names of tensors may contain this separator.
///
/// # Errors
/// Returns what is wrong with it as text.
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

/// How samples lie in the tensors of shards whose metadata does not say it, such as those of the Spark connector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ShardLayout {
    /// Each tensor holds a column, and its first dimension counts the rows.
    Batch {
        /// The rows of every shard. The last shard of a task may have fewer.
        batch_size: NonZeroUsize,
    },
    /// Each row has tensors of its own, named `NAME SEPARATOR COLUMN` without the spaces.
    KeyValue {
        /// The separator between the two names.
        separator: String,
        /// The columns. If `None`, they are inferred: the columns that the names of all rows have in common.
        columns: Option<Vec<String>>,
        /// What happens when a name occurs twice. With [`Duplicates::LastWins`] several shards may have it.
        duplicates: Duplicates,
    },
}

/// What happens when two rows have the same name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Duplicates {
    /// Writing fails, and so does the commit of tasks that wrote the same name.
    #[default]
    Fail,
    /// The last row of that name in a shard counts. Shards are not compared with each other.
    LastWins,
}

/// How floats are converted to floats of fewer bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Rounding {
    /// To the nearest value; ties go to the even one. Every common library does this.
    #[default]
    NearestEven,
    /// As the Spark connector does it, for F16 and BF16: cuts off the lower bits of the F32, and turns a result that would be a subnormal
    /// F16 into zero. An F64 is rounded to the nearest F32 first.
    Truncate,
}

/// How a dataset is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WriteOptions {
    /// How rows become tensors and shards.
    pub mode: Mode,
    /// The columns to write; all if `None`.
    pub columns: Option<Vec<String>>,
    /// The element type of every column. If `None`, numbers keep their own; binary columns need one.
    pub dtype: Option<ElementType>,
    /// The element type of single columns; overrides `dtype`.
    pub dtypes: BTreeMap<String, ElementType>,
    /// The shape of one sample of a column. Without it, the samples of a column of lists are vectors.
    pub shapes: BTreeMap<String, Vec<usize>>,
    /// How floats are converted to shorter floats.
    pub rounding: Rounding,
    /// The layout of `_tensor_index.parquet`; no index is written if `None`.
    pub index: Option<IndexLayout>,
    /// Whether a dataset that is already in the folder may be replaced.
    pub overwrite: bool,
    /// The job that the tasks belong to. It tells attempts of this job from those that another job left behind.
    pub job: Option<Uuid>,
}

impl WriteOptions {
    /// Writes in this mode; everything else has its default.
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
