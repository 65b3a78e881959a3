//! Why a runner could not be installed, removed or packaged.

use std::io;
use std::path::{Path, PathBuf};

use carton_format::context::Cancelled;
use carton_format::digest::Sha256Digest;
use carton_format::error_kind::ErrorKind;
use carton_format::url::ShownUrl;
use carton_network::http::NetworkError;

use super::super::unpack::UnpackError;
use super::super::{AvailableError, DescriptorError, NoRunner, PlaceError, RunnerIndexError};
use crate::cache::CacheError;
use crate::error::{Advice, Error, Failure};
use crate::fetch_verified::FetchError;

/// Why a runner could not be installed, removed or packaged.
#[derive(Debug, thiserror::Error)]
pub(crate) enum InstallError {
    /// The installed runners cannot be listed.
    #[error(transparent)]
    Available(#[from] AvailableError),
    /// None of the available runners fits.
    #[error(transparent)]
    NoRunner(Box<NoRunner>),
    /// The given place of an index or archive is neither a URL nor a path.
    #[error("cannot use `{text}`")]
    Place {
        /// The given text, without secrets.
        text: ShownUrl,
        /// Why not.
        source: PlaceError,
    },
    /// The index cannot be used.
    #[error("cannot use the runner index `{index}`")]
    Index {
        /// The URL or path of the index.
        index: String,
        /// Why not.
        source: RunnerIndexError,
    },
    /// The index or an archive cannot be fetched.
    #[error("cannot fetch {what}")]
    Network {
        /// What should have been fetched.
        what: String,
        /// Why that failed.
        source: Box<NetworkError>,
    },
    /// An archive does not have the expected hash.
    #[error("digest mismatch for `{place}`: expected {expected}, found {found}")]
    Digest {
        /// The archive.
        place: String,
        /// The hash that the index or the caller gives.
        expected: Sha256Digest,
        /// The hash of the archive.
        found: Sha256Digest,
    },
    /// An archive from a URL was given without a hash to verify it.
    #[error("`{place}` comes from a server, and no SHA-256 is given to verify it")]
    NoDigest {
        /// The archive.
        place: String,
    },
    /// An archive cannot be unpacked, or breaks a rule.
    #[error("cannot unpack `{place}`")]
    Unpack {
        /// The archive.
        place: String,
        /// Why not.
        source: Box<UnpackError>,
    },
    /// The `runner.toml` is missing.
    #[error("there is no runner.toml at the top of `{place}`")]
    NoDescriptor {
        /// The folder or archive.
        place: String,
        /// The only folder in it, if that folder has a `runner.toml`.
        inside: Option<String>,
    },
    /// The `runner.toml` cannot be used.
    #[error("cannot use the runner.toml of `{place}`")]
    Descriptor {
        /// The folder or archive.
        place: String,
        /// Why not.
        source: DescriptorError,
    },
    /// The `runner.toml` describes another runner than the index does.
    #[error("`{place}` does not hold the runner that its index entry describes: expected {expected}, found {found}")]
    OtherRunner {
        /// The archive.
        place: String,
        /// What the index says.
        expected: String,
        /// What its `runner.toml` says.
        found: String,
    },
    /// No runner of a folder or archive can run on this machine.
    #[error("`{place}` holds no runner that can be used here: {reasons}")]
    Unsupported {
        /// The folder or archive.
        place: String,
        /// The runners in it, each with the reason.
        reasons: String,
    },
    /// The executable is missing or cannot be used.
    #[error("the executable `{}` of runner {runner} {problem}", path.display())]
    Executable {
        /// Name and version of the runner.
        runner: String,
        /// Its path relative to the runner's folder.
        path: PathBuf,
        /// The reason, in words.
        problem: &'static str,
    },
    /// The runner needs a library of this machine, and nothing was done to find it.
    #[error("runner {runner} needs {library} of this machine, which it does not bring")]
    Library {
        /// Name and version of the runner.
        runner: String,
        /// Name and versions of the library.
        library: String,
    },
    /// The library is not one that the runner was built for.
    #[error("runner {runner} was built for {expected}, found {found}")]
    OtherLibrary {
        /// Name and version of the runner.
        runner: String,
        /// Name and versions of the library.
        expected: String,
        /// The version of the library that was found, and its folder.
        found: String,
    },
    /// The library of an installed runner is not there any more.
    #[error("the library of runner {runner} is no longer in `{}`", folder.display())]
    LostLibrary {
        /// Name and version of the runner.
        runner: String,
        /// Where it was.
        folder: PathBuf,
    },
    /// A package index has no such file.
    #[error("the package index `{index}` does not list `{file}`")]
    NoWheel {
        /// The name of the file.
        file: String,
        /// The index.
        index: String,
    },
    /// The library is not complete.
    #[error("`{}` lacks `{file}`", folder.display())]
    LibraryFile {
        /// The missing file.
        file: String,
        /// The folder of the library.
        folder: PathBuf,
    },
    /// A runner that is part of a program cannot be removed.
    #[error("runner {runner} is part of this program and cannot be removed")]
    Embedded {
        /// Name and version of the runner.
        runner: String,
    },
    /// No such runner is installed.
    #[error("no runner `{asked}` is installed in `{}`", runner_dir.display())]
    NotInstalled {
        /// What was asked for.
        asked: String,
        /// The folder of the installed runners.
        runner_dir: PathBuf,
    },
    /// Several runners fit.
    #[error("`{asked}` is more than one runner: {}", found.join(", "))]
    Ambiguous {
        /// What was asked for.
        asked: String,
        /// The runners that fit.
        found: Vec<String>,
    },
    /// The folder also holds other runners.
    #[error("`{}` also holds {}", folder.display(), others.join(", "))]
    Shared {
        /// The folder.
        folder: PathBuf,
        /// The runners that were not asked for.
        others: Vec<String>,
    },
    /// What follows `@` is neither a version nor a requirement on one.
    #[error("`{text}` is not a version requirement")]
    Requirement {
        /// The text after the `@`.
        text: String,
        /// Why it cannot be parsed.
        source: semver::Error,
    },
    /// The cache, which archives are downloaded to, cannot be used.
    #[error(transparent)]
    Cache(#[from] CacheError),
    /// A file cannot be read or written.
    #[error("cannot {action} `{}`", path.display())]
    Io {
        /// What was tried, as a verb.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
    /// The work was cancelled.
    #[error("interrupted")]
    Interrupted,
}

impl Failure for InstallError {
    fn kind(&self) -> ErrorKind {
        match self {
            Self::NoRunner(_)
            | Self::Unsupported { .. }
            | Self::NotInstalled { .. }
            | Self::Library { .. }
            | Self::OtherLibrary { .. }
            | Self::NoWheel { .. }
            | Self::LostLibrary { .. }
            | Self::LibraryFile { .. } => ErrorKind::NoRunner,
            Self::Interrupted => ErrorKind::Interrupted,
            Self::Network { .. } => ErrorKind::Network,
            Self::Available(_) | Self::Io { .. } => ErrorKind::Machine,
            Self::Cache(error) => error.kind(),
            Self::Unpack { source, .. } => source.kind(),
            Self::Index { .. }
            | Self::Digest { .. }
            | Self::NoDescriptor { .. }
            | Self::Descriptor { .. }
            | Self::OtherRunner { .. }
            | Self::Executable { .. } => ErrorKind::Integrity,
            Self::Place { .. }
            | Self::NoDigest { .. }
            | Self::Requirement { .. }
            | Self::Ambiguous { .. }
            | Self::Embedded { .. }
            | Self::Shared { .. } => ErrorKind::InvalidInput,
        }
    }

    fn advice(&self) -> Option<Advice> {
        match self {
            Self::Network { source, .. } => source.advice(),
            Self::NoDigest { .. } => Some(Advice::PassDigest),
            Self::NoDescriptor { inside: Some(folder), .. } => {
                Some(format!("the runner is in the folder `{folder}` of it: archive what is in that folder").into())
            }
            Self::LostLibrary { runner, .. } => Some(Advice::Reinstall { runner: name_and_version(runner).0 }),
            Self::Library { runner, .. } => {
                let (runner, version) = name_and_version(runner);
                Some(Advice::InstallWithLibrary { runner, version })
            }
            Self::Ambiguous { .. } => Some("say which: `NAME@VERSION`, or delete its folder".into()),
            Self::Shared { .. } => Some("delete the folder to remove them all".into()),
            Self::NotInstalled { .. } => Some(Advice::ListRunners),
            _ => None,
        }
    }

    fn into_error(self) -> Error {
        match self {
            Self::Available(error) => error.into_error(),
            Self::NoRunner(error) => error.into_error(),
            Self::Cache(error) => error.into_error(),
            error => Error::of(error),
        }
    }
}

/// The name and the version of a runner in a message.
fn name_and_version(runner: &str) -> (String, String) {
    let (name, version) = runner.split_once(' ').unwrap_or((runner, ""));
    (name.to_owned(), version.to_owned())
}

impl InstallError {
    /// For `map_err`: the error of [`Place::parse`](crate::Place::parse) for this text.
    pub(crate) fn place(text: &str) -> impl FnOnce(PlaceError) -> Self {
        let text = ShownUrl::of_text(text);
        |source| Self::Place { text, source }
    }

    pub(crate) fn io<'a>(action: &'static str, path: &'a Path) -> impl FnOnce(io::Error) -> Self + 'a {
        move |source| Self::Io { action, path: path.to_path_buf(), source }
    }

    pub(crate) fn network(what: impl Into<String>) -> impl FnOnce(NetworkError) -> Self {
        move |source| match source {
            NetworkError::Interrupted => Self::Interrupted,
            source => Self::Network { what: what.into(), source: Box::new(source) },
        }
    }
}

impl FetchError for InstallError {
    fn digest_mismatch(name: &str, expected: Sha256Digest, found: Sha256Digest) -> Self {
        Self::Digest { place: name.to_owned(), expected, found }
    }

    fn is_integrity(&self) -> bool {
        self.kind() == ErrorKind::Integrity
    }
}

impl From<Cancelled> for InstallError {
    fn from(_: Cancelled) -> Self {
        Self::Interrupted
    }
}
