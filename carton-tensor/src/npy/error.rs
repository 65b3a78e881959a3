//! The errors of reading and writing `.npy` and `.npz` files.

use std::io;

use crate::content::Content;

/// The reason that an array cannot be read or written. Every variant names the place: a path, `PATH#NAME` inside an `.npz`, or `npy
/// data` for data from a reader.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NpyError {
    /// The bytes violate the format.
    #[error("`{place}` is not a valid NumPy file: {problem}")]
    Format {
        /// The file or array.
        place: String,
        /// What was expected and found.
        problem: String,
    },
    /// The file is a zip archive without arrays.
    #[error("`{place}` is {content}, expected an .npz file, which is a zip archive of .npy files")]
    NotNpz {
        /// The file.
        place: String,
        /// What it is.
        content: Content,
    },
    /// The file is valid, but a carton's tensor (or an `.npy` file, when writing) cannot hold its content.
    #[error("`{place}` cannot be used: {problem}")]
    Unsupported {
        /// The file or array.
        place: String,
        /// What the content is, and what the caller can do about it.
        problem: String,
    },
    /// The array needs more bytes than the caller allows.
    #[error("`{place}` needs {needed} bytes, at most {limit} are allowed")]
    TooLarge {
        /// The file or array.
        place: String,
        /// The bytes of header and elements.
        needed: u64,
        /// The caller's limit.
        limit: u64,
    },
    /// The `.npz` file has no array of this name.
    #[error("`{place}` has no array `{name}`, it has {}", list(.present))]
    NoSuchArray {
        /// The `.npz` file.
        place: String,
        /// The requested name.
        name: String,
        /// The names of all arrays in the file.
        present: Vec<String>,
    },
    /// Reading or writing failed.
    #[error("cannot read or write `{place}`")]
    Io {
        /// The file or array.
        place: String,
        /// The error of the operating system.
        #[source]
        source: io::Error,
    },
}

fn list(names: &[String]) -> String {
    const SHOWN: usize = 10;
    if names.is_empty() {
        return "none".to_owned();
    }
    let shown: Vec<String> = names.iter().take(SHOWN).map(|name| format!("`{name}`")).collect();
    let more = if names.len() > SHOWN { format!(" and {} more", names.len() - SHOWN) } else { String::new() };
    shown.join(", ") + &more
}

/// An [`NpyError`] that does not yet name its file.
#[derive(Debug)]
pub(super) enum Problem {
    Format(String),
    NotNpz(Content),
    Unsupported(String),
    TooLarge { needed: u64, limit: u64 },
    Io(io::Error),
}

impl Problem {
    pub(super) fn at(self, place: &str) -> NpyError {
        let place = place.to_owned();
        match self {
            Self::Format(problem) => NpyError::Format { place, problem },
            Self::NotNpz(content) => NpyError::NotNpz { place, content },
            Self::Unsupported(problem) => NpyError::Unsupported { place, problem },
            Self::TooLarge { needed, limit } => NpyError::TooLarge { place, needed, limit },
            Self::Io(source) => NpyError::Io { place, source },
        }
    }
}

impl From<io::Error> for Problem {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            // Decompressors report a damaged stream or a wrong checksum like this.
            io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput | io::ErrorKind::UnexpectedEof => {
                Self::Format(error.to_string())
            }
            _ => Self::Io(error),
        }
    }
}
