//! Errors of reading and writing the index (spec/dataset.md §6).

use std::io;

use arrow_schema::DataType;
use carton_tensor::MAX_RANK;
use carton_tensor::safetensors::Header;
use parquet::errors::ParquetError;

/// An error of reading or writing the index.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum IndexError {
    /// A column is missing.
    #[error("there is no column `{column}` (spec/dataset.md §6.1)")]
    NoColumn {
        /// Its name.
        column: &'static str,
    },
    /// A column has the wrong type.
    #[error("column `{column}` is of type {found}, expected {expected} (spec/dataset.md §6.1)")]
    ColumnType {
        /// Its name.
        column: &'static str,
        /// The expected type.
        expected: &'static str,
        /// The type in the file.
        found: DataType,
    },
    /// A value is null.
    #[error("row {row} of column `{column}` is null (spec/dataset.md §6.2)")]
    Null {
        /// The row, counted from 0.
        row: u64,
        /// The column.
        column: &'static str,
    },
    /// A dimension is negative, or too large for the column.
    #[error("tensor `{}` has a dimension of {size}, expected {}", .tensor.escape_debug(), expected_dimension(*.size))]
    Dimension {
        /// The tensor's name.
        tensor: String,
        /// The dimension.
        size: i128,
    },
    /// A tensor has too many dimensions.
    #[error("tensor `{}` has {found} dimensions, expected at most {MAX_RANK} (spec/dataset.md §6.2)", .tensor.escape_debug())]
    TooManyDimensions {
        /// The tensor's name.
        tensor: String,
        /// The number of its dimensions.
        found: usize,
    },
    /// A path leads, or could lead, out of the dataset's folder.
    #[error("tensor `{}` is said to be in `{}`, which is no path below the dataset's folder (spec/dataset.md §6.2)", .tensor.escape_debug(), .file.escape_debug())]
    Path {
        /// The tensor's name.
        tensor: String,
        /// The path.
        file: String,
    },
    /// A tensor of a shard is listed twice.
    #[error("tensor `{}` of `{}` is there twice (spec/dataset.md §6.2)", .tensor.escape_debug(), .file.escape_debug())]
    Duplicate {
        /// The tensor's name.
        tensor: String,
        /// The file.
        file: String,
    },
    /// The index has more rows than are accepted from files of its size.
    #[error("more than {most} rows, the most that is read from files of {n_bytes} bytes (spec/dataset.md §6.3)")]
    TooManyRows {
        /// The largest accepted number of rows.
        most: u64,
        /// The total size of the files in bytes.
        n_bytes: u64,
    },
    /// A string is longer than the header of a shard, which would have to contain it.
    #[error("row {row} has a string of {found} bytes, expected at most {} (spec/dataset.md §6.3)", Header::MAX_LENGTH)]
    LongString {
        /// The row, counted from 0.
        row: u64,
        /// The length of the string in bytes.
        found: u64,
    },
    /// The strings up to a row are longer than is accepted from files of their size.
    #[error("the strings up to row {row} are longer than is read from files of their size (spec/dataset.md §6.3)")]
    LongStrings {
        /// The row, counted from 0.
        row: u64,
    },
    /// Neither a file nor a folder of files.
    #[error("is neither a Parquet file nor a folder of them (spec/dataset.md §6.3)")]
    NoFiles,
    /// The Parquet library cannot encode it.
    #[error(transparent)]
    Parquet(#[from] ParquetError),
    /// It cannot be read or written.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Readers accept dimensions of 64 bits, and the column of a writer holds 32.
fn expected_dimension(found: i128) -> String {
    if found < 0 {
        "none below 0 (spec/dataset.md §6.2)".to_owned()
    } else {
        format!("at most {} (spec/dataset.md §6.1)", i32::MAX)
    }
}
