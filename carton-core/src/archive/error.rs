//! Why an archive cannot be read or written.

use std::fmt;
use std::io;
use std::path::PathBuf;

use crate::digest::Sha256Digest;
use crate::name::NameError;

/// Why an archive cannot be read or written. A malformed file, one that needs what we do not have, one that is too large,
/// one whose contents were changed, and a failing device are told apart.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ArchiveError {
    /// The file has no bytes.
    #[error("the file is empty")]
    Empty,
    /// The file begins as a zip file and does not end as one.
    #[error("the file is truncated: it begins as a zip file, but after {length} bytes it does not end as one")]
    Truncated {
        /// The bytes that are there.
        length: u64,
    },
    /// The file neither begins nor ends as a zip file.
    #[error("the file is not a zip file: expected one to begin with `PK\\x03\\x04`, found `{}`", begin.escape_ascii())]
    NotZip {
        /// What it begins with.
        begin: Vec<u8>,
    },
    /// The bytes are not a zip file, or contradict themselves.
    #[error("{what} at offset {offset}: expected {expected}, found {found}")]
    Format {
        /// The record or field.
        what: String,
        /// Where it is, in bytes from the start of the file.
        offset: u64,
        /// What is required.
        expected: String,
        /// What is there.
        found: String,
    },
    /// An entry's name is not allowed.
    #[error("the entry name `{name}` is not allowed")]
    Name {
        /// The name, with bytes that cannot be printed escaped.
        name: String,
        /// Why not.
        #[source]
        source: NameError,
    },
    /// The file is a zip file of a kind that is not supported.
    #[error("{what} is not supported: {found}")]
    Unsupported {
        /// The feature.
        what: String,
        /// Where it is used, or which value.
        found: String,
    },
    /// Something is larger than what we are willing to read.
    #[error("{what}: at most {limit} allowed, found {found}")]
    Limit {
        /// What is limited.
        what: String,
        /// The limit.
        limit: u64,
        /// What is there.
        found: u64,
    },
    /// An entry's bytes are not those that were put in.
    #[error("{what} mismatch for `{name}`: expected {expected}, found {found}")]
    Mismatch {
        /// Checksum or size.
        what: &'static str,
        /// The entry.
        name: String,
        /// What the archive's directory says.
        expected: String,
        /// What its data gives.
        found: String,
    },
    /// An entry's compressed data cannot be decompressed.
    #[error("the compressed data of `{name}` is corrupt")]
    Corrupt {
        /// The entry.
        name: String,
        /// What the decompressor says.
        #[source]
        source: io::Error,
    },
    /// Two paths that were to be packed cannot exist beside each other, or one is reserved.
    #[error("cannot pack `{name}`: {reason}")]
    Input {
        /// The path in the carton.
        name: String,
        /// Why not.
        reason: String,
    },
    /// A file to be packed is another one than the given MANIFEST lists.
    #[error("digest mismatch for `{name}`: expected {expected}, found {found}")]
    Digest {
        /// The path in the carton.
        name: String,
        /// What MANIFEST lists.
        expected: Sha256Digest,
        /// The digest of its bytes.
        found: Sha256Digest,
    },
    /// A source file changed while it was being packed.
    #[error("`{}` changed while it was being packed: expected {expected} bytes, found {found}", path.display())]
    SourceChanged {
        /// The file.
        path: PathBuf,
        /// Its size at first.
        expected: u64,
        /// Its size later, or where its end was met.
        found: u64,
    },
    /// The progress callback asked to stop.
    #[error("packing was interrupted")]
    Interrupted,
    /// A file could not be read or written.
    #[error("cannot {action} `{location}`")]
    Io {
        /// What was being done.
        action: &'static str,
        /// To which file.
        location: String,
        /// What the system says.
        #[source]
        source: io::Error,
    },
}

impl ArchiveError {
    pub(crate) fn format(
        what: impl fmt::Display,
        offset: u64,
        expected: impl fmt::Display,
        found: impl fmt::Display,
    ) -> Self {
        let (what, expected, found) = (what.to_string(), expected.to_string(), found.to_string());
        Self::Format { what, offset, expected, found }
    }

    pub(crate) fn unsupported(what: impl fmt::Display, found: impl fmt::Display) -> Self {
        Self::Unsupported { what: what.to_string(), found: found.to_string() }
    }

    /// The error behind one that `EntryReader`'s `read` returned.
    ///
    /// [`io::Read`] can only return [`io::Error`]; the reader puts its own inside.
    pub fn from_read(error: io::Error, location: &str) -> Self {
        match error.downcast::<ArchiveError>() {
            Ok(error) => error,
            Err(source) => ArchiveError::Io { action: "read", location: location.to_owned(), source },
        }
    }
}
