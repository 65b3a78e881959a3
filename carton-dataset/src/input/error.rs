//! Why rows cannot be read from a file or stream.

use std::io;

use arrow_schema::ArrowError;
use parquet::errors::ParquetError;

/// Why rows cannot be read from a file or stream.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InputError {
    /// Neither Parquet nor Arrow.
    #[error("is neither Parquet nor Arrow IPC: {}", beginning(.start))]
    Unrecognized {
        /// Its first bytes.
        start: Vec<u8>,
    },
    /// Parquet with an encrypted footer.
    #[error("is an encrypted Parquet file, which is not supported")]
    Encrypted,
    /// What has its directory at the end cannot be read from a pipe.
    #[error("{0} cannot be read from a pipe, expected an Arrow IPC stream")]
    NeedsFile(&'static str),
    /// A stream that was not finished.
    #[error("the stream ends without its end-of-stream marker: its writer was stopped before it was done")]
    EndsEarly,
    /// Bytes after the end of a stream, perhaps another stream: they would be lost.
    #[error("{n_bytes} bytes follow the end of the stream, expected none")]
    TrailingBytes {
        /// Their number.
        n_bytes: u64,
    },
    /// What the file claims is not so, or more than is accepted.
    #[error("{0}")]
    Invalid(String),
    /// Fewer or more rows than the file promised.
    #[error("{found} rows, expected the {expected} that the file promises")]
    RowCount {
        /// What the file says.
        expected: u64,
        /// What is there.
        found: u64,
    },
    /// Arrow's library does not accept it.
    #[error(transparent)]
    Arrow(#[from] ArrowError),
    /// Parquet's library does not accept it.
    #[error(transparent)]
    Parquet(#[from] ParquetError),
    /// Arrow's or Parquet's library gave up on it.
    #[error("the file is corrupt, and its reader gave up: {0}")]
    GaveUp(String),
    /// It cannot be read.
    #[error(transparent)]
    Io(#[from] io::Error),
}

fn beginning(start: &[u8]) -> String {
    if start.is_empty() { "it is empty".to_owned() } else { format!("it begins with `{}`", start.escape_ascii()) }
}
