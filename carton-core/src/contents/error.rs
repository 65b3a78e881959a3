//! Errors of reading and fetching the files of a carton.

use std::io;
use std::path::{Path, PathBuf};

use carton_format::archive::ArchiveError;
use carton_format::context::Cancelled;
use carton_format::digest::Sha256Digest;
use carton_format::error_kind::ErrorKind;
use carton_format::links::LinksError;
use carton_format::manifest::{ManifestError, ManifestHash};
use carton_format::name::NameError;
use carton_format::url::ShownUrl;
use carton_network::download::DownloadError;
use carton_network::encoding::EncodingError;
use carton_network::http::NetworkError;

use crate::cache::{CacheError, Checksum};
use crate::error::{Advice, Failure};
use crate::fetch_verified::FetchError;

/// A carton's contents cannot be read or fetched, or are not what they should be.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ContentsError {
    /// A file's bytes are not those that MANIFEST lists.
    #[error("digest mismatch for `{path}`: expected {expected}, found {found}")]
    Digest {
        /// The file's path in the carton.
        path: String,
        /// Its digest in MANIFEST.
        expected: Sha256Digest,
        /// The digest of its bytes.
        found: Sha256Digest,
    },
    /// The archive states a CRC-32 or size that the file listed in MANIFEST does not have.
    #[error(
        "`{path}` is not the file that MANIFEST lists: expected {expected}, found {found} in the archive's directory"
    )]
    Checksum {
        /// The file's path in the carton.
        path: String,
        /// What the file with the digest in MANIFEST has.
        expected: Checksum,
        /// What the archive states.
        found: Checksum,
    },
    /// The carton is not the expected one.
    #[error("the carton is another one: expected manifest hash {expected}, found {found}")]
    ManifestHash {
        /// The hash that was asked for.
        expected: ManifestHash,
        /// The hash of the carton's MANIFEST.
        found: ManifestHash,
    },
    /// MANIFEST lists a file that is neither there nor linked.
    #[error("`{path}` is listed in MANIFEST, but expected in the carton or in LINKS and found in neither")]
    Missing {
        /// The file's path in the carton.
        path: String,
    },
    /// There is a file that MANIFEST does not list.
    #[error("`{path}` is in the carton, but not listed in MANIFEST")]
    Unlisted {
        /// The file's path in the carton.
        path: String,
    },
    /// A symbolic link leads nowhere, in a circle, or to a forbidden place.
    #[error("the link `{path}` to `{target}` is not allowed: {reason}")]
    Link {
        /// The link's path in the carton.
        path: String,
        /// Its target as written.
        target: String,
        /// The problem.
        reason: LinkProblem,
    },
    /// A symbolic link in the folder of a bare model leads out of the folder, to something that the model may not read.
    #[error("the link `{}` leads out of the model's folder, to `{}`", path.display(), target.display())]
    OutsideLink {
        /// The link.
        path: PathBuf,
        /// What is at the end of it.
        target: PathBuf,
    },
    /// The file changed while it was read, so nothing is known about its bytes.
    #[error("`{location}` changed while it was being verified")]
    Changed {
        /// The carton, or the file in an unpacked one.
        location: String,
    },
    /// MANIFEST is missing, or is not a file.
    #[error("`{location}` is not a carton: it has no file MANIFEST")]
    NoManifest {
        /// The carton.
        location: String,
    },
    /// MANIFEST is malformed.
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    /// LINKS is malformed.
    #[error(transparent)]
    Links(#[from] LinksError),
    /// The zip file, or an entry of it, is bad or of an unsupported kind.
    #[error("cannot read `{path}`")]
    Archive {
        /// The entry, or the carton when no entry is concerned.
        path: String,
        /// The cause.
        #[source]
        source: ArchiveError,
    },
    /// Something in an unpacked carton is neither file, folder nor symbolic link, or has an impossible name.
    #[error("`{path}` is not a file that can be in a carton")]
    Kind {
        /// The file.
        path: PathBuf,
    },
    /// A linked file is not in the cache and may not be fetched.
    #[error("`{path}` is a linked file that is not fetched yet (sha256 {digest})")]
    NotFetched {
        /// Its path in the carton.
        path: String,
        /// Its digest.
        digest: Sha256Digest,
    },
    /// A file would have to be fetched, and there is no cache to put it into.
    #[error("`{path}` is not on this machine, and there is no cache that it could be fetched into")]
    NoCache {
        /// Its path in the carton.
        path: String,
    },
    /// Something could not be fetched.
    #[error(transparent)]
    Network(#[from] NetworkError),
    /// The content encoding of a response cannot be decoded.
    #[error("cannot decode what was sent for `{path}`")]
    Encoding {
        /// The file's path in the carton.
        path: String,
        /// The cause.
        #[source]
        source: EncodingError,
    },
    /// A linked file could not be fetched from any of its URLs, or had other bytes there.
    #[error("`{path}` (sha256 {digest}) could not be fetched from {}", failures_text(failures))]
    Unavailable {
        /// The file's path in the carton.
        path: String,
        /// Its digest in MANIFEST.
        digest: Sha256Digest,
        /// Each URL and its error.
        failures: Vec<LinkFailure>,
    },
    /// LINKS leads to a local file, which is not allowed.
    #[error("`{path}` is linked to the local file `{url}`, which is not allowed here")]
    FileLinkRefused {
        /// The file's path in the carton.
        path: String,
        /// The URL.
        url: ShownUrl,
    },
    /// LINKS of a carton from a server names a private address, which is not allowed.
    #[error(
        "`{path}` is linked to `{url}`, which leads to {at}: a carton from another host may not link to private addresses"
    )]
    PrivateLinkRefused {
        /// The file's path in the carton.
        path: String,
        /// The URL, perhaps of a redirect, that leads to the private address.
        url: ShownUrl,
        /// The private IP address, or a description of the target.
        at: String,
    },
    /// LINKS leads to a local file that cannot be opened.
    #[error("cannot open `{url}`")]
    FileLink {
        /// The URL.
        url: ShownUrl,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// The carton has no such file.
    #[error("the carton has no file `{path}`")]
    NoSuchFile {
        /// The path that was asked for.
        path: String,
    },
    /// A file has another size than the caller can take.
    #[error("`{path}` has {found} bytes, expected {expected}")]
    Size {
        /// Its path in the carton.
        path: String,
        /// What the caller can take: "at most 10", "exactly 64".
        expected: String,
        /// Its size.
        found: u64,
    },
    /// The destination folder exists and is not empty.
    #[error("`{path}` exists already and is not an empty folder")]
    DestinationExists {
        /// The folder.
        path: PathBuf,
    },
    /// The progress callback asked to stop. Nothing is left behind.
    #[error("interrupted")]
    Interrupted,
    /// An operation of the operating system failed, for example because the disk is full.
    #[error("cannot {action} `{path}`")]
    Io {
        /// What was tried, as a verb phrase.
        action: &'static str,
        /// On which file or folder.
        path: PathBuf,
        /// What the operating system said.
        #[source]
        source: io::Error,
    },
    /// The cache failed.
    #[error(transparent)]
    Cache(CacheError),
}

/// Why a linked file could not be fetched from one of its URLs.
#[derive(Debug)]
pub(crate) struct LinkFailure {
    /// The URL, as far as it may be shown.
    pub url: ShownUrl,
    /// The cause.
    pub error: Box<ContentsError>,
}

/// Writes one line for each failure, because long lines are cut when errors are shown.
fn failures_text(failures: &[LinkFailure]) -> String {
    let mut text = match failures.len() {
        1 => "its URL:".to_owned(),
        n => format!("any of its {n} URLs:"),
    };
    for LinkFailure { url, error } in failures {
        let error = carton_format::causes::in_one_line(error);
        // Most messages already name the URL.
        let named = if error.contains(url.as_str()) { String::new() } else { format!("`{url}`: ") };
        text.push_str(&format!("\n  {named}{error}"));
    }
    text
}

/// The most links that lie between a link and its file: what Linux follows. A circle is longer than that too.
pub(super) const MAX_LINK_STEPS: usize = 40;

/// Why a symbolic link is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum LinkProblem {
    /// The target is not a relative path within the carton.
    #[error("its target is not a path in the carton ({0})")]
    Target(NameError),
    /// A link of the model leads to a file that is not the model's.
    #[error("it leaves the model")]
    LeavesModel,
    /// Nothing is there, or a folder.
    #[error("it leads to no file")]
    Dangling,
    /// It leads to itself, or over more links than are followed.
    #[error("it leads over more than {MAX_LINK_STEPS} links, or it leads in a circle")]
    Circle,
    /// MANIFEST has a digest for it that is not that of the file it leads to.
    #[error("MANIFEST lists another digest for it than for the file it leads to")]
    Digest,
}

impl Failure for ContentsError {
    fn kind(&self) -> ErrorKind {
        match self {
            Self::Digest { .. }
            | Self::Checksum { .. }
            | Self::ManifestHash { .. }
            | Self::Missing { .. }
            | Self::Unlisted { .. }
            | Self::Changed { .. }
            | Self::Link { .. }
            | Self::NoManifest { .. }
            | Self::Manifest(_)
            | Self::Kind { .. }
            | Self::Encoding { .. } => ErrorKind::Integrity,
            Self::Links(LinksError::Version { .. }) => ErrorKind::Unsupported,
            Self::Links(_) => ErrorKind::Integrity,
            Self::Archive { source, .. } => match source {
                ArchiveError::Unsupported { .. } | ArchiveError::Limit { .. } => ErrorKind::Unsupported,
                ArchiveError::Interrupted => ErrorKind::Interrupted,
                // An end that comes too early is damage.
                ArchiveError::Io { source, .. } if source.kind() != io::ErrorKind::UnexpectedEof => ErrorKind::Machine,
                _ => ErrorKind::Integrity,
            },
            Self::Network(NetworkError::Interrupted) => ErrorKind::Interrupted,
            Self::Network(_) | Self::NotFetched { .. } => ErrorKind::Network,
            Self::NoCache { .. } => ErrorKind::Machine,
            Self::FileLinkRefused { .. }
            | Self::PrivateLinkRefused { .. }
            | Self::FileLink { .. }
            | Self::OutsideLink { .. } => ErrorKind::InvalidInput,
            Self::Unavailable { failures, .. } => {
                let any = |kind| failures.iter().any(|failure| failure.error.kind() == kind);
                let has_wrong_size = failures.iter().any(|failure| matches!(*failure.error, Self::Size { .. }));
                match () {
                    // Wrong bytes matter more than missing ones.
                    () if any(ErrorKind::Integrity) || has_wrong_size => ErrorKind::Integrity,
                    () if any(ErrorKind::Network) => ErrorKind::Network,
                    () => ErrorKind::InvalidInput,
                }
            }
            Self::NoSuchFile { .. } | Self::Size { .. } | Self::DestinationExists { .. } => ErrorKind::InvalidInput,
            Self::Interrupted => ErrorKind::Interrupted,
            Self::Io { .. } => ErrorKind::Machine,
            Self::Cache(error) => error.kind(),
        }
    }

    fn advice(&self) -> Option<Advice> {
        match self {
            Self::Network(error) => error.advice(),
            Self::Archive { source: ArchiveError::NotZip { content: Some(content), .. }, .. } => {
                content.hint().map(Advice::from)
            }
            Self::NoCache { .. } => {
                Some("set CARTON_CACHE_DIR or `cache_dir` to a folder that you can write to".into())
            }
            Self::FileLinkRefused { .. } => Some(Advice::AllowFileLinks),
            Self::PrivateLinkRefused { .. } => Some(
                "if that server is meant, allow it by `allow_private_links = true` in the configuration, or fetch the carton to this \
                 machine first"
                    .into(),
            ),
            Self::OutsideLink { target, .. } => Some(Advice::AllowReading(target.clone())),
            Self::Unavailable { failures, .. } => failures.iter().find_map(|failure| failure.error.advice()),
            _ => None,
        }
    }

    fn is_unreachable(&self) -> bool {
        matches!(self, Self::Network(error) if error.is_unreachable())
    }
}

impl ContentsError {
    /// The error inside one that the `reader` of a file returned: [`io::Read`] can only return
    /// [`io::Error`].
    pub(crate) fn from_read(error: io::Error, path: &str) -> ContentsError {
        match error.downcast::<ContentsError>() {
            Ok(error) => error,
            Err(source) => Self::Io { action: "read", path: PathBuf::from(path), source },
        }
    }

    /// The error inside one that a reader of fetched bytes returned.
    pub(crate) fn from_fetch(error: io::Error, path: &str) -> ContentsError {
        match error.downcast::<EncodingError>() {
            Ok(source) => Self::Encoding { path: path.to_owned(), source },
            Err(error) => Self::archive(path)(ArchiveError::from_read(error, path)),
        }
    }

    pub(super) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> ContentsError {
        let path = path.to_path_buf();
        move |source| Self::Io { action, path, source }
    }

    pub(super) fn archive(path: &str) -> impl FnOnce(ArchiveError) -> ContentsError {
        let path = path.to_owned();
        move |source| match source {
            ArchiveError::Io { action, location, source } => match unwrapped(source) {
                Ok(error) => error,
                Err(source) => Self::Archive { path, source: ArchiveError::Io { action, location, source } },
            },
            source => Self::Archive { path, source },
        }
    }
}

/// The error inside one that a fetching source or reader returned.
fn unwrapped(error: io::Error) -> Result<ContentsError, io::Error> {
    match error.downcast::<NetworkError>() {
        Ok(error) => Ok(error.into()),
        Err(error) => error.downcast::<DownloadError>().map(ContentsError::from),
    }
}

impl From<DownloadError> for ContentsError {
    fn from(error: DownloadError) -> Self {
        match error {
            DownloadError::Network(error) => Self::Network(error),
            DownloadError::Io { action, path, source } => Self::Io { action, path, source },
        }
    }
}

impl FetchError for ContentsError {
    fn digest_mismatch(name: &str, expected: Sha256Digest, found: Sha256Digest) -> Self {
        Self::Digest { path: name.to_owned(), expected, found }
    }

    fn is_integrity(&self) -> bool {
        self.kind() == ErrorKind::Integrity
    }
}

impl From<CacheError> for ContentsError {
    fn from(error: CacheError) -> Self {
        match error {
            CacheError::Digest { name, expected, found } => Self::Digest { path: name, expected, found },
            CacheError::Io { action, path, source } => Self::Io { action, path, source },
            CacheError::Interrupted => Self::Interrupted,
            other => Self::Cache(other),
        }
    }
}

impl From<Cancelled> for ContentsError {
    fn from(_: Cancelled) -> Self {
        Self::Interrupted
    }
}
