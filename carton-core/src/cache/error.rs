//! What can go wrong in the cache. Every variant names the path or the carton, and what was expected and found where that applies.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use carton_format::context::Cancelled;
use carton_format::digest::Sha256Digest;
use carton_format::error_kind::ErrorKind;
use carton_format::manifest::ManifestHash;
use carton_format::url::ShownUrl;

use super::cached_carton::{CachedCarton, matches_text};
use crate::error::{Advice, Failure};
use crate::private_folder::UnsafeFolder;

/// An operation on the cache failed. Nothing half-made is visible to others afterwards.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CacheError {
    /// The operating system refused an operation, for example because the disk is full.
    #[error("cannot {action} `{path}`")]
    Io {
        /// The attempted action, as a verb phrase: "write", "create folder".
        action: &'static str,
        /// The file or folder of the attempt.
        path: PathBuf,
        /// The operating system's error.
        #[source]
        source: io::Error,
    },
    /// Other users could write to the cache folder, to a folder in it, or to one above it.
    #[error("cannot use the cache")]
    Unsafe(#[from] UnsafeFolder),
    /// Another process held a lock for longer than the limit.
    #[error("lock `{path}` is still held by another process after {} s", waited.as_secs())]
    Locked {
        /// The lock file.
        path: PathBuf,
        /// How long we waited.
        waited: Duration,
    },
    /// The bytes given for a file do not have its digest.
    #[error("digest mismatch for `{name}`: expected {expected}, found {found}")]
    Digest {
        /// The file's name, as the caller knows it.
        name: String,
        /// The digest it should have.
        expected: Sha256Digest,
        /// The digest of the given bytes.
        found: Sha256Digest,
    },
    /// A path of a model folder is absolute, empty or has `..` in it.
    #[error("`{name}` is not a path inside the model folder")]
    Path {
        /// The offending path.
        name: String,
    },
    /// No carton in the cache matches this name.
    #[error("the cache has no carton `{}`", wanted.as_str().escape_debug())]
    NoCarton {
        /// The requested name; a URL without the parts that may be secret.
        wanted: ShownUrl,
    },
    /// Several cartons in the cache match this name.
    #[error("`{}` can be any of {} cartons in the cache:{}", wanted.as_str().escape_debug(), matches.len(), matches_text(matches))]
    Ambiguous {
        /// The requested name; a URL without the parts that may be secret.
        wanted: ShownUrl,
        /// The matching cartons.
        matches: Vec<CachedCarton>,
    },
    /// A process has the carton loaded.
    #[error("the carton `{}` (manifest {manifest}) is in use", wanted.as_str().escape_debug())]
    InUse {
        /// The requested name; a URL without the parts that may be secret.
        wanted: ShownUrl,
        /// Its manifest hash.
        manifest: ManifestHash,
    },
    /// The work was cancelled.
    #[error("interrupted")]
    Interrupted,
}

impl Failure for CacheError {
    fn kind(&self) -> ErrorKind {
        match self {
            Self::Digest { .. } => ErrorKind::Integrity,
            Self::NoCarton { .. } | Self::Ambiguous { .. } => ErrorKind::InvalidInput,
            Self::Interrupted => ErrorKind::Interrupted,
            Self::Io { .. } | Self::Unsafe(_) | Self::Locked { .. } | Self::Path { .. } | Self::InUse { .. } => {
                ErrorKind::Machine
            }
        }
    }

    fn advice(&self) -> Option<Advice> {
        Some(match self {
            Self::Unsafe(folder) => folder.hint("CARTON_CACHE_DIR").into(),
            Self::Io { .. } => "set CARTON_CACHE_DIR to a folder that can be written to".into(),
            Self::Locked { .. } => "wait until the other process is done, or end it".into(),
            Self::NoCarton { .. } => Advice::ListCache,
            Self::Ambiguous { .. } => "name one by its manifest hash; 8 digits are enough".into(),
            Self::InUse { .. } => "end the programs that have it loaded".into(),
            Self::Digest { .. } | Self::Path { .. } | Self::Interrupted => return None,
        })
    }
}

impl CacheError {
    /// For `map_err`: wraps the operating system's error with the attempted action and the path.
    pub(crate) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> CacheError {
        let path = path.to_path_buf();
        move |source| CacheError::Io { action, path, source }
    }
}

impl From<Cancelled> for CacheError {
    fn from(_: Cancelled) -> Self {
        Self::Interrupted
    }
}
