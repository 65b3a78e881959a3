//! Errors of leaving files out of cartons.

use std::path::PathBuf;

use carton_format::digest::Sha256Digest;
use carton_format::error_kind::ErrorKind;
use carton_format::links::LinksError;
use carton_format::url::{InvalidUrl, ShownUrl};

use crate::error::{Advice, Failure};

/// Why a URL with a user or password is refused.
pub(crate) const READABLE: &str = "readers of the carton could read the URL's user and password";

/// Why a carton cannot be shrunk.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ShrinkError {
    /// A URL of a linked file contains a user or password.
    #[error("`{url}` cannot be put into a carton: {}", READABLE)]
    User {
        /// The URL, without secrets.
        url: ShownUrl,
    },
    /// A URL of a linked file is not valid, so a user and password in it cannot be found.
    #[error("`{url}` cannot be put into a carton: it is not a valid URL")]
    Url {
        /// As much of the URL as may be shown.
        url: ShownUrl,
        /// The cause.
        source: InvalidUrl,
    },
    /// The prefix cannot begin the URLs of the files that are left out.
    #[error("`{}` cannot begin the URLs of files: {reason}", prefix.as_str().escape_debug())]
    Prefix {
        /// The prefix, without secrets.
        prefix: ShownUrl,
        /// The reason, in words.
        reason: &'static str,
    },
    /// No file is large enough.
    #[error("`{location}` has no file of at least {min_size} bytes in its model that could be left out")]
    NoneLarge {
        /// The carton.
        location: String,
        /// The minimum size in bytes.
        min_size: u64,
    },
    /// None of the given digests matches a file.
    #[error("no file of `{location}` is among the {n_links} that are linked")]
    NoneLinked {
        /// The carton.
        location: String,
        /// How many digests were given.
        n_links: usize,
    },
    /// A digest to be left out of a new carton matches no file, or one that every carton must have.
    #[error("no packed file that can be left out has the SHA-256 {}", list(digests))]
    NotPacked {
        /// The digests without a file, sorted.
        digests: Vec<Sha256Digest>,
    },
    /// The links cannot be written.
    #[error(transparent)]
    Links(#[from] LinksError),
    /// A file with other contents exists where a file would be saved.
    #[error("cannot save a file as `{}`: another one of that name is there", path.display())]
    Exists {
        /// The existing file.
        path: PathBuf,
    },
    /// Two files that are left out would be saved under one name.
    #[error("the URLs of `{path}` and `{other}` end with the same name `{name}`, so both cannot be saved")]
    SameName {
        /// The path of one file in the carton.
        path: String,
        /// The path of the other.
        other: String,
        /// The name.
        name: String,
    },
}

impl Failure for ShrinkError {
    fn kind(&self) -> ErrorKind {
        ErrorKind::InvalidInput
    }

    fn is_of_location(&self) -> bool {
        matches!(self, Self::Prefix { .. })
    }

    fn advice(&self) -> Option<Advice> {
        match self {
            Self::NoneLarge { .. } => Some(Advice::LowerMinSize),
            Self::NotPacked { .. } => Some(Advice::LookUpDigests { in_carton: false }),
            Self::NoneLinked { .. } => Some(Advice::LookUpDigests { in_carton: true }),
            Self::Exists { .. } | Self::SameName { .. } => Some("save the files to an empty folder".into()),
            Self::User { .. } => {
                Some("give the token to those who fetch: `CARTON_TOKEN_<host>`, or a netrc file".into())
            }
            Self::Url { .. } | Self::Prefix { .. } | Self::Links(_) => None,
        }
    }
}

fn list(digests: &[Sha256Digest]) -> String {
    digests.iter().map(Sha256Digest::to_string).collect::<Vec<_>>().join(", ")
}
