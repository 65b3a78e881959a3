//! Errors of decoding a body.

use std::io;

/// The largest number of encodings on top of each other.
pub const MAX_ENCODINGS: usize = 4;

/// Why an encoded body cannot be decoded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EncodingError {
    /// An unknown encoding.
    #[error("the content encoding `{}` is not supported", encoding.escape_debug())]
    Unknown {
        /// Its name.
        encoding: String,
    },
    /// More encodings on top of each other than are supported.
    #[error("the content is encoded {found} times, at most {MAX_ENCODINGS} are supported")]
    TooMany {
        /// The number of encodings.
        found: usize,
    },
    /// The bytes are not valid in the encoding, or bytes follow its end.
    #[error("the content is not valid {encoding}")]
    Corrupt {
        /// The encoding.
        encoding: &'static str,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// The bytes end before the encoding does.
    #[error("the content ends in the middle of its {encoding} data")]
    Truncated {
        /// The encoding.
        encoding: &'static str,
    },
    /// There are more bytes than the declared length.
    #[error("the content has more than the expected {expected} bytes")]
    TooLong {
        /// The declared length.
        expected: u64,
    },
    /// There are fewer bytes than the declared length.
    #[error("the content has {found} bytes, expected {expected}")]
    TooShort {
        /// The declared length.
        expected: u64,
        /// The number of decoded bytes.
        found: u64,
    },
    /// The decoded bytes exceed the limits, as no genuine content does.
    #[error("the content inflates to more than {limit} bytes, from {n_encoded}")]
    Limit {
        /// The number of bytes that were allowed.
        limit: u64,
        /// The number of encoded bytes that were read.
        n_encoded: u64,
    },
}

impl EncodingError {
    /// Extracts the error of a `Decoder` from the [`io::Error`] of a read.
    ///
    /// # Errors
    /// Returns `error` itself if reading the encoded bytes failed.
    pub fn from_read(error: io::Error) -> Result<EncodingError, io::Error> {
        error.downcast()
    }

    pub(super) fn into_read(self) -> io::Error {
        io::Error::new(io::ErrorKind::InvalidData, self)
    }
}
