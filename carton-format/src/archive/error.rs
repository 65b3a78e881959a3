//! The errors of reading or writing an archive.

use std::fmt;
use std::io;
use std::path::PathBuf;

use carton_tensor::content::Content as FileContent;

use crate::context::Cancelled;
use crate::digest::Sha256Digest;
use crate::name::NameError;

/// Why an archive cannot be read or written. Different variants stand for a malformed file, an unsupported feature, an excessive size,
/// changed contents, and a failing device.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ArchiveError {
    /// The file has no bytes.
    #[error("the file is empty")]
    Empty,
    /// The file begins as a zip file, but does not end as one.
    #[error("the file is truncated: it begins as a zip file, but after {length} bytes it does not end as one")]
    Truncated {
        /// The length of the file in bytes.
        length: u64,
    },
    /// The file neither begins nor ends as a zip file.
    #[error("the file is {}: expected one to begin with `PK\\x03\\x04`, found `{}`", other_file(*content), begin.escape_ascii())]
    NotZip {
        /// Its first four bytes.
        begin: Vec<u8>,
        /// What it is, if it is recognized.
        content: Option<FileContent>,
    },
    /// The bytes are not a zip file, or contradict each other.
    #[error("{what} at offset {offset}: expected {expected}, found {found}")]
    Format {
        /// The record or field.
        what: String,
        /// Its position, in bytes from the start of the file.
        offset: u64,
        /// The required value.
        expected: String,
        /// The actual value.
        found: String,
    },
    /// An entry's name is not allowed.
    #[error("the entry name `{name}` is not allowed")]
    Name {
        /// The name, with unprintable bytes escaped.
        name: String,
        /// The cause.
        #[source]
        source: NameError,
    },
    /// The zip file uses an unsupported feature.
    #[error("{what} is not supported: {found}")]
    Unsupported {
        /// The feature.
        what: String,
        /// The value, or the entry that uses it.
        found: String,
    },
    /// A size or number exceeds a limit of this library.
    #[error("{what}: at most {limit} allowed, found {found}")]
    Limit {
        /// The limited quantity.
        what: String,
        /// The limit.
        limit: u64,
        /// The actual value.
        found: u64,
    },
    /// An entry's bytes are not those that were archived.
    #[error("{what} mismatch for `{name}`: expected {expected}, found {found}")]
    Mismatch {
        /// Checksum or size.
        what: &'static str,
        /// The entry.
        name: String,
        /// The value in the archive's directory.
        expected: String,
        /// The value of the data.
        found: String,
    },
    /// An entry's compressed data cannot be decompressed.
    #[error("the compressed data of `{name}` is corrupt")]
    Corrupt {
        /// The entry.
        name: String,
        /// The decompressor's error.
        #[source]
        source: io::Error,
    },
    /// A path cannot be packed: another one excludes it, it is reserved, it is a link that may not be, or the given MANIFEST does not
    /// fit it.
    #[error("cannot pack `{name}`: {reason}")]
    Input {
        /// The path in the carton.
        name: String,
        /// The reason, in words.
        reason: String,
    },
    /// A file to pack does not have the digest that the given MANIFEST lists.
    #[error("digest mismatch for `{name}`: expected {expected}, found {found}")]
    Digest {
        /// The path in the carton.
        name: String,
        /// The digest that MANIFEST lists.
        expected: Sha256Digest,
        /// The digest of its bytes.
        found: Sha256Digest,
    },
    /// A source file changed while it was being packed.
    #[error("`{}` changed while it was being packed: expected {expected} bytes, found {found}", path.display())]
    SourceChanged {
        /// The file.
        path: PathBuf,
        /// Its size before.
        expected: u64,
        /// Its size later, or the position of its end.
        found: u64,
    },
    /// The work was cancelled.
    #[error("packing was interrupted")]
    Interrupted,
    /// A file could not be read or written.
    #[error("cannot {action} `{location}`")]
    Io {
        /// The attempted action.
        action: &'static str,
        /// The file of the attempt.
        location: String,
        /// The operating system's error.
        #[source]
        source: io::Error,
    },
}

impl ArchiveError {
    /// The archive breaks a rule of the format at this offset.
    pub fn format(what: impl fmt::Display, offset: u64, expected: impl fmt::Display, found: impl fmt::Display) -> Self {
        let (what, expected, found) = (what.to_string(), expected.to_string(), found.to_string());
        Self::Format { what, offset, expected, found }
    }

    /// The archive has something that this library does not read.
    pub fn unsupported(what: impl fmt::Display, found: impl fmt::Display) -> Self {
        Self::Unsupported { what: what.to_string(), found: found.to_string() }
    }

    /// Extracts the error of `EntryReader` from the [`io::Error`] of a read.
    ///
    /// [`io::Read`] can only return [`io::Error`]; the reader puts its own error inside. Any other error becomes [`ArchiveError::Io`].
    pub fn from_read(error: io::Error, location: &str) -> Self {
        match error.downcast::<ArchiveError>() {
            Ok(error) => error,
            Err(source) => ArchiveError::Io { action: "read", location: location.to_owned(), source },
        }
    }
}

impl From<Cancelled> for ArchiveError {
    fn from(_: Cancelled) -> Self {
        Self::Interrupted
    }
}

fn other_file(content: Option<FileContent>) -> String {
    content.map_or_else(|| "not a zip file".to_owned(), |content| format!("{content}, not a zip file"))
}
