//! Why an index is not accepted, or cannot be written.

use std::io;

use arrow_schema::DataType;
use carton_tensor::MAX_RANK;
use parquet::errors::ParquetError;

/// Why an index is not accepted, or cannot be written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum IndexError {
    /// A column is missing.
    #[error("there is no column `{column}` (spec/dataset.md §6.1)")]
    NoColumn {
        /// Its name.
        column: &'static str,
    },
    /// A column of another type.
    #[error("column `{column}` is of type {found}, expected {expected} (spec/dataset.md §6.1)")]
    ColumnType {
        /// Its name.
        column: &'static str,
        /// What it should be.
        expected: &'static str,
        /// What it is.
        found: DataType,
    },
    /// A missing value.
    #[error("row {row} of column `{column}` is null (spec/dataset.md §6.2)")]
    Null {
        /// The row, counted from 0.
        row: u64,
        /// The column.
        column: &'static str,
    },
    /// A dimension that there is not, or that the column cannot hold.
    #[error("tensor `{}` has a dimension of {size}, expected 0 to {} (spec/dataset.md §6.2)", .tensor.escape_debug(), i32::MAX)]
    Dimension {
        /// The tensor's name.
        tensor: String,
        /// The dimension.
        size: i128,
    },
    /// More dimensions than a tensor has.
    #[error("tensor `{}` has {found} dimensions, expected at most {MAX_RANK} (spec/dataset.md §6.2)", .tensor.escape_debug())]
    TooManyDimensions {
        /// The tensor's name.
        tensor: String,
        /// How many.
        found: usize,
    },
    /// A path that leads elsewhere, or could.
    #[error("tensor `{}` is said to be in `{}`, which is no path below the dataset's folder (spec/dataset.md §6.2)", .tensor.escape_debug(), .file.escape_debug())]
    Path {
        /// The tensor's name.
        tensor: String,
        /// The path.
        file: String,
    },
    /// The same tensor of the same file twice.
    #[error("tensor `{}` of `{}` is there twice (spec/dataset.md §6.2)", .tensor.escape_debug(), .file.escape_debug())]
    Duplicate {
        /// The tensor's name.
        tensor: String,
        /// The file.
        file: String,
    },
    /// More rows than so small a file has.
    #[error("more than {most} rows, the most that is read from files of {n_bytes} bytes (spec/dataset.md §6.3)")]
    TooManyRows {
        /// What is accepted.
        most: u64,
        /// The size of the files.
        n_bytes: u64,
    },
    /// Neither a file nor a folder of files.
    #[error("is neither a Parquet file nor a folder of them (spec/dataset.md §6.3)")]
    NoFiles,
    /// It cannot be encoded.
    #[error(transparent)]
    Parquet(#[from] ParquetError),
    /// It cannot be read or written.
    #[error(transparent)]
    Io(#[from] io::Error),
}
