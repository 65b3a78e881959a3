//! The files to leave out of a carton, and those that were left out.

use std::fmt;
use std::path::PathBuf;

use carton_format::digest::Sha256Digest;
use carton_format::links::Links;
use carton_format::url::{ShownUrl, Url};

/// The default minimum size of the files that are left out, in bytes. For a smaller file, a request costs more than its bytes.
pub const DEFAULT_MIN_SIZE: u64 = 64 << 10;

/// The files that [`Carton::shrink`](crate::Carton::shrink) leaves out. The `Debug` form shows no secrets of URLs.
#[derive(Clone)]
#[non_exhaustive]
pub enum LeaveOut {
    /// Every file whose digest these links list.
    Linked(Links),
    /// Every file of the model that is large enough. Its URL is the prefix, a slash and its SHA-256, so that models that share
    /// files also share uploads.
    #[non_exhaustive]
    Large {
        /// An `http`, `https` or `file` URL.
        url_prefix: String,
        /// The minimum size of a file in bytes.
        min_size: u64,
    },
}

impl fmt::Debug for LeaveOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Linked(links) => f.debug_tuple("Linked").field(links).finish(),
            Self::Large { url_prefix, min_size } => f
                .debug_struct("Large")
                .field("url_prefix", &ShownUrl::of_text(url_prefix))
                .field("min_size", min_size)
                .finish(),
        }
    }
}

impl LeaveOut {
    /// Leaves out every file of the model of at least [`DEFAULT_MIN_SIZE`] bytes.
    pub fn large(url_prefix: impl Into<String>) -> Self {
        Self::large_from(url_prefix, DEFAULT_MIN_SIZE)
    }

    /// Leaves out every file of the model of at least `min_size` bytes.
    pub fn large_from(url_prefix: impl Into<String>, min_size: u64) -> Self {
        Self::Large { url_prefix: url_prefix.into(), min_size }
    }
}

/// A file that was left out.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LeftOut {
    /// Its path in the carton.
    pub path: String,
    /// Its SHA-256.
    pub sha256: Sha256Digest,
    /// Its size in bytes.
    pub size: u64,
    /// The valid URLs to fetch it from, in the order to try them.
    pub urls: Vec<Url>,
    /// The path that it was saved to; `None` if it was not saved.
    pub saved: Option<PathBuf>,
}
