//! Makes a carton smaller by leaving out files that can be fetched, and whole again. Its MANIFEST stays the same to the byte, and
//! so does its hash (spec/carton-format.md, "LINKS").

mod choose;
mod save;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::fmt;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use choose::{Choice, check_no_users, check_prefix, may_be_left_out};

use crate::archive::Compression;
use crate::blocking::{Abandoned, run_blocking};
use crate::config::Config;
use crate::contents::{self, Contents, ContentsError};
use crate::digest::Sha256Digest;
use crate::links::{Links, LinksError};
use crate::manifest::Manifest;
use crate::network::shown;
use crate::package::{self, PackageError};
use crate::progress::{ProgressCallback, ProgressEvent, Stage};
use crate::tensor_data::is_tensor_file;
use crate::{Carton, Error, Location, OpenOptions, Packed};

/// Files from this size on are left out when nothing else is said: below it, a request costs more than the bytes.
pub const DEFAULT_MIN_SIZE: u64 = 64 << 10;

/// Which files [`Carton::shrink`] leaves out. Its `Debug` form shows no secrets of URLs.
#[derive(Clone)]
#[non_exhaustive]
pub enum LeaveOut {
    /// Every file that these links know.
    Linked(Links),
    /// Every file of the model that is large enough. It will be fetched from the prefix, a slash and its SHA-256, so that models
    /// that share files share uploads.
    Large {
        /// An `http`, `https` or `file` URL.
        url_prefix: String,
        /// How many bytes a file has at least.
        min_size: u64,
    },
}

impl fmt::Debug for LeaveOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Linked(links) => f.debug_tuple("Linked").field(links).finish(),
            Self::Large { url_prefix, min_size } => {
                f.debug_struct("Large").field("url_prefix", &shown(url_prefix)).field("min_size", min_size).finish()
            }
        }
    }
}

impl LeaveOut {
    /// Every file of the model of at least [`DEFAULT_MIN_SIZE`].
    pub fn large(url_prefix: impl Into<String>) -> Self {
        Self::Large { url_prefix: url_prefix.into(), min_size: DEFAULT_MIN_SIZE }
    }
}

/// How [`Carton::shrink`] shrinks. Build it with [`ShrinkOptions::new`].
#[derive(Clone)]
pub struct ShrinkOptions {
    /// Which files are left out.
    pub leave_out: LeaveOut,
    /// A folder for the files that are left out, under the names that their URLs end with.
    pub save_files: Option<PathBuf>,
    /// The SHA-256 that MANIFEST must have.
    pub expect: Option<Sha256Digest>,
    /// Whether LINKS of a local carton may name local files. LINKS of one on a server never may.
    pub allow_file_links: bool,
    /// Directories; `None` reads the configuration file and the environment.
    pub config: Option<Config>,
    /// Told how far the work has come.
    pub progress: Option<ProgressCallback>,
}

impl ShrinkOptions {
    /// How the carton that is read is opened.
    fn to_open(&self) -> OpenOptions {
        OpenOptions {
            expect: self.expect,
            allow_file_links: self.allow_file_links,
            config: self.config.clone(),
            progress: self.progress.clone(),
        }
    }

    /// Leaves out these files, and saves them nowhere.
    pub fn new(leave_out: LeaveOut) -> Self {
        Self { leave_out, save_files: None, expect: None, allow_file_links: false, config: None, progress: None }
    }
}

impl fmt::Debug for ShrinkOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ShrinkOptions").field("leave_out", &self.leave_out).finish_non_exhaustive()
    }
}

/// How [`Carton::resolve`] makes a carton whole. Build it from the default.
#[derive(Clone, Default)]
pub struct ResolveOptions {
    /// How files are compressed that are brought back. What is in the carton stays stored as it is.
    pub compression: Compression,
    /// The SHA-256 that MANIFEST must have.
    pub expect: Option<Sha256Digest>,
    /// Whether LINKS of a local carton may name local files. LINKS of one on a server never may.
    pub allow_file_links: bool,
    /// Directories; `None` reads the configuration file and the environment.
    pub config: Option<Config>,
    /// Told how far the work has come.
    pub progress: Option<ProgressCallback>,
}

impl ResolveOptions {
    /// How the carton that is read is opened.
    fn to_open(&self) -> OpenOptions {
        OpenOptions {
            expect: self.expect,
            allow_file_links: self.allow_file_links,
            config: self.config.clone(),
            progress: self.progress.clone(),
        }
    }
}

impl fmt::Debug for ResolveOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResolveOptions").field("compression", &self.compression).finish_non_exhaustive()
    }
}

/// What [`Carton::shrink`] made.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Shrunk {
    /// The carton.
    pub path: PathBuf,
    /// The SHA-256 of its MANIFEST, which is that of the carton it was made of.
    pub manifest_sha256: Sha256Digest,
    /// The files that were left out, sorted by path.
    pub left_out: Vec<LeftOut>,
    /// Files that the given links know and the carton does not have, sorted.
    pub unmatched: Vec<Sha256Digest>,
}

/// A file that was left out.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LeftOut {
    /// Its path in the carton.
    pub path: String,
    /// Its SHA-256.
    pub sha256: Sha256Digest,
    /// How many bytes it has.
    pub size: u64,
    /// Where it can be fetched, in the order to try.
    pub urls: Vec<String>,
    /// Where it was saved.
    pub saved: Option<PathBuf>,
}

/// Why a carton cannot be shrunk.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ShrinkError {
    /// A URL of a linked file gives a secret away.
    #[error("`{url}` cannot be put into a carton: everybody who has it could read the URL's user and password")]
    User {
        /// The URL, as far as it may be shown.
        url: String,
    },
    /// Files would be left out that nobody could fetch from there.
    #[error("`{}` cannot begin the URLs of files: {reason}", prefix.escape_debug())]
    Prefix {
        /// The prefix, without what must not be shown.
        prefix: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// No file is large enough.
    #[error("`{location}` has no file of at least {min_size} bytes in its model that could be left out")]
    NoneLarge {
        /// The carton.
        location: String,
        /// How large one would have to be.
        min_size: u64,
    },
    /// None of the given digests is that of a file.
    #[error("no file of `{location}` is among the {n_links} that are linked")]
    NoneLinked {
        /// The carton.
        location: String,
        /// How many digests were given.
        n_links: usize,
    },
    /// A file that is to be left out of a new carton is not in it, or is one that every carton has.
    #[error("no packed file that can be left out has the SHA-256 {}", list(digests))]
    NotPacked {
        /// The digests that no file has, sorted.
        digests: Vec<Sha256Digest>,
    },
    /// The links cannot be written.
    #[error(transparent)]
    Links(#[from] LinksError),
    /// A file would be saved over another one.
    #[error("cannot save a file as `{}`: another one of that name is there", path.display())]
    Exists {
        /// The file that is there.
        path: PathBuf,
    },
    /// Two files that are left out would be saved under one name.
    #[error("the URLs of `{path}` and `{other}` end with the same name `{name}`, so both cannot be saved")]
    SameName {
        /// The path of one in the carton.
        path: String,
        /// The path of the other.
        other: String,
        /// The name.
        name: String,
    },
}

impl ShrinkError {
    pub(crate) fn hint(&self) -> Option<String> {
        match self {
            Self::NoneLarge { .. } => Some("name a smaller size from which files are left out".to_owned()),
            Self::NotPacked { .. } => {
                Some("`sha256sum` tells the SHA-256 of a file; `carton ls --json` those in a carton".to_owned())
            }
            Self::NoneLinked { .. } => Some("`carton ls --json` shows the SHA-256 of each file".to_owned()),
            Self::Exists { .. } | Self::SameName { .. } => Some("save the files to an empty folder".to_owned()),
            Self::User { .. } => {
                Some("give the token to those who fetch: `CARTON_TOKEN_<host>`, or a netrc file".to_owned())
            }
            Self::Prefix { .. } | Self::Links(_) => None,
        }
    }
}

impl Carton {
    /// Writes the carton at `location` to `output` without some of its files, which its LINKS then says where to fetch. It has
    /// the same MANIFEST and so is the same carton. Every file that stays is verified on the way, and so is every one that is
    /// saved.
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), carton_core::Error> {
    /// use carton_core::{Carton, LeaveOut, ShrinkOptions};
    /// let options = ShrinkOptions {
    ///     save_files: Some("upload".into()),
    ///     ..ShrinkOptions::new(LeaveOut::large("https://example.com/files"))
    /// };
    /// let shrunk = Carton::shrink("llama.carton", "llama.shrunk.carton", options).await?;
    /// for file in &shrunk.left_out {
    ///     println!("{} is expected at {}", file.path, file.urls[0]);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// There is nothing to leave out; a carton or file that cannot be read, or is not what MANIFEST lists; an output that is the
    /// carton itself or cannot be written. What was at `output` before is still there then.
    pub async fn shrink(
        location: impl Into<Location>,
        output: impl AsRef<Path>,
        options: ShrinkOptions,
    ) -> Result<Shrunk, Error> {
        let location = location.into();
        let output = output.as_ref().to_path_buf();
        if let LeaveOut::Large { url_prefix, .. } = &options.leave_out {
            check_prefix(url_prefix)?;
        }
        let package = Self::open(location.clone(), options.to_open()).await?;
        run_blocking(move |abandoned| {
            let contents = package.contents();
            package::check_output(contents, location.path(), &output)?;
            let mut choice = Choice::make(contents, &options.leave_out)?;
            let report = Report { progress: options.progress.as_ref(), abandoned: &abandoned };
            let is_saving = options.save_files.is_some();
            contents.fetch(|path| choice.needs(path, is_saving), &report.of_contents(Stage::Pack))?;
            // First the files: a carton whose files are nowhere is of no use.
            if let Some(folder) = &options.save_files {
                save::save(contents, location.path(), &mut choice.left_out, folder, &report)?;
            }
            package::rewrite(
                contents,
                &choice.missing,
                &choice.links,
                &output,
                Compression::Auto,
                &report.of(Stage::Pack),
            )?;
            let manifest_sha256 = manifest_hash(contents)?;
            Ok(Shrunk { path: output, manifest_sha256, left_out: choice.left_out, unmatched: choice.unmatched })
        })
        .await
    }

    /// Writes the carton at `location` to `output` with all its files in it, those that it only links too, and without LINKS. It
    /// has the same MANIFEST and so is the same carton. An unpacked one becomes a file.
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), carton_core::Error> {
    /// use carton_core::{Carton, ResolveOptions};
    /// Carton::resolve("llama.shrunk.carton", "llama.carton", ResolveOptions::default()).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// A file that cannot be fetched, or is not what MANIFEST lists; an output that is the carton itself or cannot be written. What
    /// was at `output` before is still there then.
    pub async fn resolve(
        location: impl Into<Location>,
        output: impl AsRef<Path>,
        options: ResolveOptions,
    ) -> Result<Packed, Error> {
        let location = location.into();
        let output = output.as_ref().to_path_buf();
        let package = Self::open(location.clone(), options.to_open()).await?;
        run_blocking(move |abandoned| {
            let contents = package.contents();
            package::check_output(contents, location.path(), &output)?;
            let report = Report { progress: options.progress.as_ref(), abandoned: &abandoned };
            contents.fetch(|_| true, &report.of_contents(Stage::Pack))?;
            let (none, no_links) = (BTreeSet::new(), Links::default());
            package::rewrite(contents, &none, &no_links, &output, options.compression, &report.of(Stage::Pack))?;
            let has_tensor_file = contents.paths().any(is_tensor_file);
            Ok(Packed {
                path: output,
                manifest_sha256: manifest_hash(contents)?,
                has_tensor_file,
                nested_options: package.metadata().nested_options(),
                unmatched: Vec::new(),
                check: None,
            })
        })
        .await
    }
}

/// Looks whether the files that `links` and `known` know can be left out of a carton with this MANIFEST, which has just been packed and
/// will be `output`. Returns the digests of `known` that match nothing.
///
/// # Errors
/// A digest of `links` that matches nothing: a mistake, because all of them are meant for this carton. Nothing would be left out at all.
/// A URL with a user or password.
pub(crate) fn check_links_of_new(
    manifest: &Manifest,
    links: &Links,
    known: &Links,
    output: &Path,
) -> Result<Vec<Sha256Digest>, ShrinkError> {
    let packed: BTreeSet<Sha256Digest> =
        manifest.iter().filter(|(path, _)| may_be_left_out(path)).map(|(_, digest)| digest).collect();
    let unmatched = |links: &Links| -> Vec<Sha256Digest> {
        links.iter().map(|(digest, _)| *digest).filter(|digest| !packed.contains(digest)).collect()
    };
    let digests = unmatched(links);
    if !digests.is_empty() {
        return Err(ShrinkError::NotPacked { digests });
    }
    let digests = unmatched(known);
    if links.is_empty() && !known.is_empty() && digests.len() == known.iter().len() {
        return Err(ShrinkError::NoneLinked { location: output.display().to_string(), n_links: digests.len() });
    }
    check_no_users(links)?;
    check_no_users(known)?;
    Ok(digests)
}

/// Writes the carton of `contents` to `output` without the files that `links` know, as [`Carton::shrink`] does.
///
/// # Errors
/// Those of [`Carton::shrink`].
pub(crate) fn leave_out(
    contents: &Contents,
    links: Links,
    output: &Path,
    on_progress: package::OnProgress<'_>,
) -> Result<(), Error> {
    let choice = Choice::make(contents, &LeaveOut::Linked(links))?;
    Ok(package::rewrite(contents, &choice.missing, &choice.links, output, Compression::Auto, on_progress)?)
}

fn list(digests: &[Sha256Digest]) -> String {
    digests.iter().map(Sha256Digest::to_string).collect::<Vec<_>>().join(", ")
}

/// Reports progress, and tells whether anybody still waits for the work.
#[derive(Clone, Copy)]
struct Report<'a> {
    progress: Option<&'a ProgressCallback>,
    abandoned: &'a Abandoned,
}

impl Report<'_> {
    fn of_contents(&self, stage: Stage) -> impl Fn(contents::Progress) -> ControlFlow<()> + Sync {
        move |done| {
            if let Some(progress) = self.progress {
                progress(&ProgressEvent::of_contents(stage.clone(), done));
            }
            self.abandoned.control()
        }
    }

    fn of(&self, stage: Stage) -> impl Fn(u64, u64) -> ControlFlow<()> + Sync {
        move |done, total| {
            if let Some(progress) = self.progress {
                progress(&ProgressEvent::bytes(stage.clone(), done, total));
            }
            self.abandoned.control()
        }
    }
}

fn manifest_hash(contents: &Contents) -> Result<Sha256Digest, Error> {
    let hash = contents.manifest_hash();
    hash.ok_or_else(|| PackageError::from(ContentsError::NoManifest { location: contents.location() }).into())
}
