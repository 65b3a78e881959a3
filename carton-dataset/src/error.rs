//! Why a dataset cannot be written or read.

use std::io;
use std::path::PathBuf;

use arrow_schema::DataType;
use carton_tensor::files::ElementType;
use carton_tensor::safetensors::SafetensorsError;

use crate::index::IndexError;
use crate::input::InputError;
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
    #[error("row {row} of column `{column}`")]
    Row {
        /// The row, counted from 0 over all that was given.
        row: u64,
        /// The column, escaped.
        column: String,
        /// Why.
        #[source]
        problem: ColumnProblem,
    },
    /// Two rows make tensors of the same name.
    #[error("row {row} of column `{column}`: the name `{name}` was there before, in row {first}")]
    DuplicateName {
        /// The row, counted from 0 over all that was given.
        row: u64,
        /// The column of names, escaped.
        column: String,
        /// The name, escaped.
        name: String,
        /// The row that had it first.
        first: u64,
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
        source: SafetensorsError,
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
    /// A name that tensors cannot have.
    #[error("`{0}` cannot name a tensor")]
    Name(String),
}

fn list(names: &[String]) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}
