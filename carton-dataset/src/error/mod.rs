//! Errors of writing and reading datasets (spec/dataset.md). Errors of manifest, index and input files are their sources, with types of
//! their own.

mod index;
mod input;

use std::io;
use std::path::{Path, PathBuf};

use arrow_schema::DataType;
use carton_tensor::LostNumber;
use carton_tensor::context::Cancelled;
use carton_tensor::files::ElementType;
use carton_tensor::safetensors::SafetensorsError;
use uuid::Uuid;

pub use index::IndexError;
pub use input::InputError;

use crate::manifest::ManifestError;

/// An error of writing or reading a dataset.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DatasetError {
    /// The options are invalid, or contradict each other or the schema.
    #[error("{0}")]
    Options(String),
    /// A record batch has other columns than the schema.
    #[error("a record batch has the columns {}, expected {}", list(.found), list(.expected))]
    OtherColumns {
        /// Its columns, escaped.
        found: Vec<String>,
        /// The columns of the schema, escaped.
        expected: Vec<String>,
    },
    /// The columns of a record batch have different numbers of rows.
    #[error("the columns of a record batch differ in length")]
    ColumnLengths,
    /// Something was to be written after an error.
    #[error("nothing can be written after an error")]
    WriterFailed,
    /// A task would write more shards than can be numbered.
    #[error("a task has too many shards, expected at most {}", u32::MAX)]
    TooManyShards,
    /// The dataset has no shard at this position.
    #[error("there is no shard {position}, counted from 0, of {n_shards}")]
    NoSuchShard {
        /// The position.
        position: usize,
        /// The number of shards in the manifest.
        n_shards: usize,
    },
    /// The record batches or the file have no such column.
    #[error("there is no column `{column}`; there are {}", list(.columns))]
    NoColumn {
        /// The name, escaped.
        column: String,
        /// The columns that exist, escaped.
        columns: Vec<String>,
    },
    /// No value of a column can be written as a tensor.
    #[error("column `{column}`")]
    Column {
        /// Its name, escaped.
        column: String,
        /// The problem.
        #[source]
        problem: ColumnProblem,
    },
    /// A value cannot be written as a tensor.
    #[error("{}row {row} of column `{column}`", before(.input.as_deref()))]
    Row {
        /// The input of the row, if the caller named it.
        input: Option<Box<str>>,
        /// The row, counted from 0 within the input, or over all rows if no input was named.
        row: u64,
        /// The column, escaped.
        column: String,
        /// The problem.
        #[source]
        problem: ColumnProblem,
    },
    /// Two rows have the same name, which their tensors would share.
    #[error(
        "{}row {row} of column `{column}`: the name `{name}` already occurs in row {first}{}",
        before(.input.as_deref()),
        after(.first_input.as_deref())
    )]
    DuplicateName {
        /// The input of the row, if the caller named it.
        input: Option<Box<str>>,
        /// The row, counted from 0 within the input, or over all rows if no input was named.
        row: u64,
        /// The column of names, escaped.
        column: String,
        /// The name, escaped.
        name: String,
        /// The first row with that name, counted in the same way.
        first: u64,
        /// The input of the first row, if the caller named it.
        first_input: Option<Box<str>>,
    },
    /// Rows cannot be read from a file or stream.
    #[error("cannot read rows from `{place}`")]
    Input {
        /// The file.
        place: String,
        /// The cause.
        #[source]
        source: InputError,
    },
    /// The folder already contains a dataset.
    #[error("`{}` has a dataset already", .folder.display())]
    Exists {
        /// The folder.
        folder: PathBuf,
    },
    /// No dataset can be made of the attempts at tasks.
    #[error("the tasks of `{}` cannot be committed: {problem}", .folder.display())]
    Attempts {
        /// The folder of the dataset.
        folder: PathBuf,
        /// The reason, in words.
        problem: String,
    },
    /// The folder of the attempt that is being written was removed by someone else. A commit removes all attempts.
    #[error(
        "attempt {attempt} was removed from `{}` before it was committed: another writer has committed to this folder, or aborted the attempt",
        .folder.display()
    )]
    AttemptRemoved {
        /// The folder of the dataset.
        folder: PathBuf,
        /// The attempt.
        attempt: Uuid,
    },
    /// A file that one writer leaves for another, such as a report, is not as this crate writes it.
    #[error("`{}`: {problem}", .path.display())]
    Staging {
        /// The file.
        path: PathBuf,
        /// The reason, in words.
        problem: String,
    },
    /// The folder of a dataset does not exist.
    #[error("there is no folder `{}`", .folder.display())]
    NoFolder {
        /// The folder.
        folder: PathBuf,
    },
    /// A folder has no manifest. Without one it is unknown whether its shards are complete.
    #[error("`{}` is no dataset: there is no dataset_manifest.json", .folder.display())]
    NoManifest {
        /// The folder.
        folder: PathBuf,
    },
    /// The manifest is invalid.
    #[error("`{place}`")]
    Manifest {
        /// The file.
        place: String,
        /// The cause.
        #[source]
        source: ManifestError,
    },
    /// The index is invalid, or cannot be written.
    #[error("`{place}`")]
    Index {
        /// The file or folder.
        place: String,
        /// The cause.
        #[source]
        source: IndexError,
    },
    /// A shard is not a safetensors file, or cannot be read or written.
    #[error("shard `{shard}`")]
    Shard {
        /// The file.
        shard: String,
        /// The cause.
        #[source]
        source: Box<SafetensorsError>,
    },
    /// A shard of the manifest does not exist.
    #[error("shard `{shard}` is not there")]
    MissingShard {
        /// The file.
        shard: String,
    },
    /// There is a folder, a named pipe or the like under a shard's name.
    #[error("shard `{shard}` is no regular file")]
    ShardNoFile {
        /// The path.
        shard: String,
    },
    /// The size of a shard differs from the manifest.
    #[error("shard `{shard}` has {found} bytes, expected {expected}")]
    ShardSize {
        /// The file.
        shard: String,
        /// The size in the manifest, in bytes.
        expected: u64,
        /// The size of the file, in bytes.
        found: u64,
    },
    /// A shard is a link that leads out of the dataset's folder.
    #[error("shard `{shard}` is a link that leads out of the dataset's folder")]
    ShardOutside {
        /// The file.
        shard: String,
    },
    /// The number of samples in a shard differs from the manifest.
    #[error("shard `{shard}`: {problem}")]
    Samples {
        /// The file.
        shard: String,
        /// What the shard contains instead.
        problem: String,
    },
    /// The tensors of a shard contradict the [`ShardLayout`](crate::ShardLayout) of the options.
    #[error("shard `{shard}` contradicts the options: {problem}")]
    Layout {
        /// The file.
        shard: String,
        /// What the shard contains instead.
        problem: String,
        /// Whether allowing repeated names would resolve it.
        has_repeated_name: bool,
    },
    /// Neither metadata, options nor manifest say how the samples of a shard lie in its tensors.
    #[error("the number of samples in shard `{shard}` is unknown: {problem}")]
    UnknownSamples {
        /// The file.
        shard: String,
        /// What the shard contains, and what that may mean.
        problem: String,
        /// Whether its tensors may be columns of batches.
        may_be_batch: bool,
    },
    /// Several shards have a tensor of this name.
    #[error("{n_shards} shards have a tensor `{name}`, `{first}` among them")]
    Ambiguous {
        /// The name, escaped.
        name: String,
        /// The number of shards that have it.
        n_shards: usize,
        /// The path of the first one.
        first: String,
    },
    /// The index contradicts the shard of a tensor.
    #[error("the index says that tensor `{name}` is in `{shard}`: {problem}")]
    IndexDisagrees {
        /// The name, escaped.
        name: String,
        /// The shard that the index names.
        shard: String,
        /// What the shard contains instead.
        problem: String,
    },
    /// A file or folder cannot be read or written.
    #[error("cannot {action} `{}`", .path.display())]
    Io {
        /// What was attempted: `read`, `write`, `create`.
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The error of the operating system.
        #[source]
        source: io::Error,
    },
    /// The caller cancelled the work.
    #[error("interrupted")]
    Interrupted,
}

impl From<Cancelled> for DatasetError {
    fn from(_: Cancelled) -> Self {
        Self::Interrupted
    }
}

/// What is wrong with a column, or with a value in it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ColumnProblem {
    /// Values of this type cannot become tensors.
    #[error("values of type {0} cannot become tensors")]
    Unsupported(DataType),
    /// Values of this type cannot name rows.
    #[error("values of type {0} cannot name rows, expected strings")]
    NotNames(DataType),
    /// Binary values without a dtype in the options.
    #[error("binary values need a dtype")]
    NeedsDtype,
    /// No conversion exists between the two number types.
    #[error("{from} cannot become {to}")]
    Conversion {
        /// The type of the values.
        from: String,
        /// The element type in the options.
        to: ElementType,
    },
    /// The element type cannot hold a number.
    #[error("{0}")]
    Number(LostNumber),
    /// The column has an extension type whose values are not known to be tensors.
    #[error("values of extension type `{name}` {}cannot become tensors", if *.is_inner { "inside of other values " } else { "" })]
    Extension {
        /// The name of the extension type, escaped.
        name: String,
        /// Whether the values of the column contain it.
        is_inner: bool,
    },
    /// An extension type's metadata or storage is not as the type requires.
    #[error("extension type `{name}`: {problem}")]
    InvalidExtension {
        /// The name of the extension type, escaped.
        name: String,
        /// The reason, in words.
        problem: String,
    },
    /// A value is missing.
    #[error("is null")]
    Null,
    /// A column of Arrow's type `null` claims more values than are accepted.
    #[error("is one of more than {limit} values of type null in a record batch")]
    ManyNulls {
        /// The most that are accepted.
        limit: usize,
    },
    /// A date or time is not a number of the unit that it shall be counted in.
    #[error("is no whole number of {unit}, or has more than 64 bits")]
    Time {
        /// The unit, in words.
        unit: &'static str,
    },
    /// The number of elements in a sample differs from that of the requested shape.
    #[error("has {found} elements, expected {expected}, the product of {shape:?}")]
    Shape {
        /// The number of elements of the shape.
        expected: usize,
        /// The number that was found.
        found: usize,
        /// The shape.
        shape: Vec<usize>,
    },
    /// Nested lists have the requested number of elements, but another shape with as many dimensions.
    #[error("has shape {found:?}, expected {expected:?}")]
    OtherShape {
        /// The requested shape.
        expected: Vec<usize>,
        /// The lengths of the lists.
        found: Vec<usize>,
    },
    /// Lists of one sample along the same axis differ in length.
    #[error("its lists along axis {axis} have {expected} and {found} elements")]
    Ragged {
        /// The axis, 0 for the outermost.
        axis: usize,
        /// The length of the first.
        expected: usize,
        /// The first length that differs.
        found: usize,
    },
    /// A sample's dtype or shape differs from the samples before it, in batch mode.
    #[error("is {found_dtype} of shape {found:?}, expected {expected_dtype} of shape {expected:?} as the rows before")]
    Differs {
        /// The element type of the samples before.
        expected_dtype: ElementType,
        /// Their shape.
        expected: Vec<usize>,
        /// The sample's element type.
        found_dtype: ElementType,
        /// Its shape.
        found: Vec<usize>,
    },
    /// The bytes of a value end inside an element.
    #[error("has {found} bytes, which are no whole number of {dtype}")]
    PartialElement {
        /// The element type.
        dtype: ElementType,
        /// The number that was found.
        found: u64,
    },
    /// A tensor ends inside a byte, or is larger than memory.
    #[error("{dtype} of shape {shape:?} takes no whole number of bytes that fits in memory")]
    NoSize {
        /// The element type.
        dtype: ElementType,
        /// The shape.
        shape: Vec<usize>,
    },
    /// The numbers are not a valid shape.
    #[error("{found:?} is no shape: expected at most 63 dimensions, none of them negative")]
    NoShape {
        /// The numbers, truncated if there are many.
        found: Vec<i64>,
    },
    /// The column's extension type in a record batch differs from the schema.
    #[error("has another extension type than in the rows before")]
    OtherExtension,
    /// The column's type in a record batch differs from the schema.
    #[error("has values of type {found}, expected {expected}")]
    OtherType {
        /// The type in the schema.
        expected: DataType,
        /// The type that was found.
        found: DataType,
    },
    /// The number of bytes differs from what dtype and shape require.
    #[error("has {found} bytes, expected {expected}")]
    Bytes {
        /// The bytes that dtype and shape require.
        expected: u64,
        /// The number that was found.
        found: u64,
    },
    /// The dtype in a struct does not exist.
    #[error("`{0}` is no dtype of safetensors")]
    UnknownDtype(String),
    /// The bytes are outside of the array's memory.
    #[error("is at bytes {start} to {end} of {n_bytes}")]
    OutOfBounds {
        /// The offset of the first byte.
        start: usize,
        /// The offset after the last byte.
        end: usize,
        /// The size of the memory in bytes.
        n_bytes: usize,
    },
    /// Tensors cannot have this name.
    #[error("`{0}` cannot name a tensor")]
    Name(String),
}

impl DatasetError {
    /// Wraps an IO error. `action` is what was attempted: `read`, `write`, `create`.
    pub(crate) fn io(action: &'static str, path: &Path) -> impl Fn(io::Error) -> Self + use<> {
        let path = path.to_owned();
        move |source| Self::Io { action, path: path.clone(), source }
    }

    /// Wraps an error of the index at `path`. `action` is what was attempted if the system is the cause: `read`, `write`.
    pub(crate) fn index(action: &'static str, path: &Path, source: IndexError) -> Self {
        match source {
            IndexError::Io(source) => Self::Io { action, path: path.to_owned(), source },
            source => Self::Index { place: path.display().to_string(), source },
        }
    }

    /// Wraps an error of the safetensors file `shard`.
    pub(crate) fn shard(shard: impl ToString, source: SafetensorsError) -> Self {
        Self::Shard { shard: shard.to_string(), source: Box::new(source) }
    }
}

fn before(input: Option<&str>) -> String {
    input.map_or_else(String::new, |input| format!("`{input}`: "))
}

fn after(input: Option<&str>) -> String {
    input.map_or_else(String::new, |input| format!(" of `{input}`"))
}

fn list(names: &[String]) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}
