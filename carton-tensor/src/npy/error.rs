//! Why an `.npy` or `.npz` file cannot be read or written.

use std::io;

/// Why an array cannot be read or written. Every variant says where: a path, `PATH#NAME` inside an `.npz`, or
/// `npy data` when it came from a reader.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NpyError {
    /// The bytes are not what the format asks for.
    #[error("`{place}` is not a valid NumPy file: {problem}")]
    Format {
        /// Which file or array.
        place: String,
        /// What was expected and found.
        problem: String,
    },
    /// Valid, but something that a carton's tensor (or an `.npy` file, when writing) cannot hold.
    #[error("`{place}` cannot be used: {problem}")]
    Unsupported {
        /// Which file or array.
        place: String,
        /// What it is, and what to do about it.
        problem: String,
    },
    /// More bytes than the caller allows.
    #[error("`{place}` needs {needed} bytes, at most {limit} are allowed")]
    TooLarge {
        /// Which file or array.
        place: String,
        /// What header and elements take.
        needed: u64,
        /// The caller's limit.
        limit: u64,
    },
    /// The `.npz` file has no array of this name.
    #[error("`{place}` has no array `{name}`, it has {}", list(.present))]
    NoSuchArray {
        /// The `.npz` file.
        place: String,
        /// The name asked for.
        name: String,
        /// The names there are.
        present: Vec<String>,
    },
    /// Reading or writing failed.
    #[error("cannot read or write `{place}`")]
    Io {
        /// Which file or array.
        place: String,
        /// What the system said.
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

/// An [`NpyError`] that does not know yet in which file it is.
#[derive(Debug)]
pub(super) enum Problem {
    Format(String),
    Unsupported(String),
    TooLarge { needed: u64, limit: u64 },
    Io(io::Error),
}

impl Problem {
    pub(super) fn at(self, place: &str) -> NpyError {
        let place = place.to_owned();
        match self {
            Self::Format(problem) => NpyError::Format { place, problem },
            Self::Unsupported(problem) => NpyError::Unsupported { place, problem },
            Self::TooLarge { needed, limit } => NpyError::TooLarge { place, needed, limit },
            Self::Io(source) => NpyError::Io { place, source },
        }
    }
}

impl From<io::Error> for Problem {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            // What a decompressor says of a damaged stream or a checksum that does not match.
            io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput | io::ErrorKind::UnexpectedEof => {
                Self::Format(error.to_string())
            }
            _ => Self::Io(error),
        }
    }
}
