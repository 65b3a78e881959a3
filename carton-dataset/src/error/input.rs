//! Errors of reading rows from files and streams (spec/dataset.md §4.1).

use std::io;

use arrow_schema::ArrowError;
use carton_tensor::content::Content;
use parquet::errors::ParquetError;

/// An error of reading rows from a file or stream.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InputError {
    /// The input is neither Parquet nor Arrow IPC.
    #[error("is neither Parquet nor Arrow IPC: {}", beginning(.start, *.content))]
    Unrecognized {
        /// Its first bytes.
        start: Vec<u8>,
        /// What it is, if it is a file and recognized.
        content: Option<Content>,
    },
    /// The input is a Parquet file with an encrypted footer.
    #[error("is an encrypted Parquet file, which is not supported")]
    Encrypted,
    /// The format has its directory at the end of the file, so it cannot be read from a pipe.
    #[error("{0} cannot be read from a pipe, expected an Arrow IPC stream")]
    NeedsFile(&'static str),
    /// The stream has no end-of-stream marker.
    #[error("the stream ends without its end-of-stream marker: its writer was stopped before it was done")]
    EndsEarly,
    /// Bytes follow the end of a stream. They may be another stream, which would be lost.
    #[error("{n_bytes} bytes follow the end of the stream, expected none")]
    TrailingBytes {
        /// Their number.
        n_bytes: u64,
    },
    /// The file contradicts itself, or exceeds a limit.
    #[error("{0}")]
    Invalid(String),
    /// The number of rows differs from the one that the file declares.
    #[error("{found} rows, expected the {expected} that the file promises")]
    RowCount {
        /// The declared number of rows.
        expected: u64,
        /// The number of rows that were found.
        found: u64,
    },
    /// The Arrow library refuses the file.
    #[error(transparent)]
    Arrow(#[from] ArrowError),
    /// The Parquet library refuses the file.
    #[error(transparent)]
    Parquet(#[from] ParquetError),
    /// The Arrow or Parquet library panicked.
    #[error("the file is corrupt, and its reader gave up: {0}")]
    GaveUp(String),
    /// The file or stream cannot be read.
    #[error(transparent)]
    Io(#[from] io::Error),
}

fn beginning(start: &[u8], content: Option<Content>) -> String {
    match content {
        Some(content) => format!("it is {content}"),
        None if start.is_empty() => "it is empty".to_owned(),
        None => format!("it begins with `{}`", start.escape_ascii()),
    }
}
