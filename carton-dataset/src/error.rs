//! Why a dataset cannot be written or read.

use std::io;
use std::path::PathBuf;

use arrow_schema::DataType;
use carton_tensor::files::ElementType;
use carton_tensor::safetensors::SafetensorsError;

use crate::index::IndexError;
use crate::input::error::InputError;
use crate::manifest::ManifestError;

/// Why a dataset cannot be written or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DatasetError {
    /// Options that make no sense, or not with each other.
    #[error("{0}")]
    Options(String),
    /// What was to be written has no such column.
    #[error("there is no column `{column}`; there are {}", list(.columns))]
    NoColumn {
        /// The name, escaped.
        column: String,
        /// Those that there are.
        columns: Vec<String>,
    },
    /// A column cannot be written as a tensor.
    #[error("column `{column}`")]
    Column {
        /// Its name, escaped.
        column: String,
        /// Why.
        #[source]
        problem: ColumnProblem,
    },
    /// A value cannot be written as a tensor.
    #[error("{}row {row} of column `{column}`", before(.input.as_deref()))]
    Row {
        /// Where it came from, if that was said.
        input: Option<Box<str>>,
        /// The row, counted from 0 in that, or over all that was given.
        row: u64,
        /// The column, escaped.
        column: String,
        /// Why.
        #[source]
        problem: ColumnProblem,
    },
    /// Two rows make tensors of the same name.
    #[error(
        "{}row {row} of column `{column}`: the name `{name}` was there before, in row {first}{}",
        before(.input.as_deref()),
        after(.first_input.as_deref())
    )]
    DuplicateName {
        /// Where it came from, if that was said.
        input: Option<Box<str>>,
        /// The row, counted from 0 in that, or over all that was given.
        row: u64,
        /// The column of names, escaped.
        column: String,
        /// The name, escaped.
        name: String,
        /// The row that had it first, counted in the same way.
        first: u64,
        /// Where that came from.
        first_input: Option<Box<str>>,
    },
    /// The rows cannot be read.
    #[error("cannot read rows from `{place}`")]
    Input {
        /// The file.
        place: String,
        /// Why.
        #[source]
        source: InputError,
    },
    /// A folder has a dataset already.
    #[error("`{}` has a dataset already", .folder.display())]
    Exists {
        /// The folder.
        folder: PathBuf,
    },
    /// The attempts at tasks are not such that a dataset can be made of them.
    #[error("the tasks of `{}` cannot be committed: {problem}", .folder.display())]
    Attempts {
        /// The folder of the dataset.
        folder: PathBuf,
        /// Why.
        problem: String,
    },
    /// A file that writers leave for those that come after them is not as they write it.
    #[error("`{}`: {problem}", .path.display())]
    Staging {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        problem: String,
    },
    /// A folder has no manifest, so that nobody knows whether its shards are all there are.
    #[error("`{}` is no dataset: there is no dataset_manifest.json", .folder.display())]
    NoManifest {
        /// The folder.
        folder: PathBuf,
    },
    /// The manifest is not accepted.
    #[error("`{place}`")]
    Manifest {
        /// The file.
        place: String,
        /// Why.
        #[source]
        source: ManifestError,
    },
    /// The index is not accepted, or cannot be written.
    #[error("`{place}`")]
    Index {
        /// The file or folder.
        place: String,
        /// Why.
        #[source]
        source: IndexError,
    },
    /// A shard is no safetensors file, or cannot be read or written.
    #[error("shard `{shard}`")]
    Shard {
        /// The file.
        shard: String,
        /// Why.
        #[source]
        source: Box<SafetensorsError>,
    },
    /// A shard that the manifest names is not there.
    #[error("shard `{shard}` is not there")]
    MissingShard {
        /// The file.
        shard: String,
    },
    /// A shard has another size than the manifest says.
    #[error("shard `{shard}` has {found} bytes, expected {expected}")]
    ShardSize {
        /// The file.
        shard: String,
        /// What the manifest says.
        expected: u64,
        /// Its size.
        found: u64,
    },
    /// A shard is a link to somewhere else.
    #[error("shard `{shard}` is a link that leads out of the dataset's folder")]
    ShardOutside {
        /// The file.
        shard: String,
    },
    /// The tensors of a shard are not as many samples as the manifest says.
    #[error("shard `{shard}`: {problem}")]
    Samples {
        /// The file.
        shard: String,
        /// What is there.
        problem: String,
    },
    /// The tensors of a shard are not what [`ShardLayout`](crate::ShardLayout) says.
    #[error("shard `{shard}` is not what it was said to be: {problem}")]
    Layout {
        /// The file.
        shard: String,
        /// What is there.
        problem: String,
        /// Whether it would be, if a name might come twice.
        has_repeated_name: bool,
    },
    /// Nothing says how the samples of a shard lie in its tensors.
    #[error("nothing says how many samples shard `{shard}` has: {problem}")]
    UnknownSamples {
        /// The file.
        shard: String,
        /// What is there, and what it may be.
        problem: String,
        /// Whether its tensors can be columns of batches.
        may_be_batch: bool,
    },
    /// A name that several shards have.
    #[error("{n_shards} shards have a tensor `{name}`, `{first}` among them")]
    Ambiguous {
        /// The name, escaped.
        name: String,
        /// How many.
        n_shards: usize,
        /// The first of them.
        first: String,
    },
    /// The index says of a tensor what its shard does not.
    #[error("the index says that tensor `{name}` is in `{shard}`: {problem}")]
    IndexDisagrees {
        /// The name, escaped.
        name: String,
        /// The shard.
        shard: String,
        /// What is there.
        problem: String,
    },
    /// A file or folder cannot be read or written.
    #[error("`{}`", .path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The work was given up on request.
    #[error("interrupted")]
    Interrupted,
}

/// What is wrong with a column, or with a value in it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ColumnProblem {
    /// Its type has no tensors.
    #[error("values of type {0} cannot become tensors")]
    Unsupported(DataType),
    /// Its values cannot name rows.
    #[error("values of type {0} cannot name rows, expected strings")]
    NotNames(DataType),
    /// Bytes whose meaning nobody said.
    #[error("binary values need a dtype")]
    NeedsDtype,
    /// The numbers cannot become numbers of this element type.
    #[error("{from} cannot become {to}")]
    Conversion {
        /// What they are.
        from: String,
        /// What was asked for.
        to: ElementType,
    },
    /// A number that the element type does not have.
    #[error("{value} is no {to}")]
    OutOfRange {
        /// The number.
        value: String,
        /// What was asked for.
        to: ElementType,
    },
    /// A missing value.
    #[error("is null")]
    Null,
    /// A sample of another size than the shape asks for, or than the samples before.
    #[error("has {found} elements, expected {expected}, the product of {shape:?}")]
    Shape {
        /// What the shape asks for.
        expected: usize,
        /// What is there.
        found: usize,
        /// The shape.
        shape: Vec<usize>,
    },
    /// Lists of lists of numbers of another shape than was asked for, and as many numbers.
    #[error("has shape {found:?}, expected {expected:?}")]
    OtherShape {
        /// What was asked for.
        expected: Vec<usize>,
        /// The lengths of the lists.
        found: Vec<usize>,
    },
    /// Lists side by side that differ in length.
    #[error("its lists along axis {axis} have {expected} and {found} elements")]
    Ragged {
        /// The axis, 0 for the outermost.
        axis: usize,
        /// The length of the first.
        expected: usize,
        /// The length of another.
        found: usize,
    },
    /// A sample of another dtype or shape than the samples before it, where all have to be alike.
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
    /// Bytes that end within an element.
    #[error("has {found} bytes, which are no whole number of {dtype}")]
    PartialElement {
        /// The element type.
        dtype: ElementType,
        /// What is there.
        found: u64,
    },
    /// A tensor that ends within a byte, or is larger than memory.
    #[error("{dtype} of shape {shape:?} takes no whole number of bytes that fits in memory")]
    NoSize {
        /// The element type.
        dtype: ElementType,
        /// The shape.
        shape: Vec<usize>,
    },
    /// Numbers that are no shape.
    #[error("{found:?} is no shape: dimensions are not negative, and at most 63")]
    NoShape {
        /// The numbers, cut off where they are many.
        found: Vec<i64>,
    },
    /// A record batch has other columns than those before it.
    #[error("has values of type {found}, expected {expected}")]
    OtherType {
        /// What was announced.
        expected: DataType,
        /// What is there.
        found: DataType,
    },
    /// Bytes of another number than dtype and shape ask for.
    #[error("has {found} bytes, expected {expected}")]
    Bytes {
        /// What dtype and shape ask for.
        expected: u64,
        /// What is there.
        found: u64,
    },
    /// A struct says an element type that there is not.
    #[error("`{0}` is no dtype of safetensors")]
    UnknownDtype(String),
    /// Bytes that are beyond the end of the array's memory.
    #[error("is at bytes {start} to {end} of {n_bytes}")]
    OutOfBounds {
        /// Where it begins.
        start: usize,
        /// Where it would end.
        end: usize,
        /// The bytes that there are.
        n_bytes: usize,
    },
    /// A name that tensors cannot have.
    #[error("`{0}` cannot name a tensor")]
    Name(String),
}

impl DatasetError {
    /// What is wrong with a shard.
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
