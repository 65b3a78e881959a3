//! Makes a carton smaller by leaving out files that can be fetched, and makes it complete again. MANIFEST stays byte-identical,
//! and so does the hash of the carton (spec/carton-format.md, "LINKS").

mod choose;
mod save;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::fmt;
use std::future::IntoFuture;
use std::path::{Path, PathBuf};

use choose::{Choice, check_prefix, check_urls, may_be_left_out};

use crate::archive::Compression;
use crate::blocking::{Awaited, run_blocking};
use crate::contents::{Contents, ContentsError};
use crate::digest::Sha256Digest;
use crate::links::{Links, LinksError};
use crate::manifest::{Manifest, ManifestHash};
use crate::network::{InvalidUrl, ShownUrl, Url};
use crate::open::Open;
use crate::package::{self, PackageError};
use crate::progress::Stage;
use crate::settings::{OpenSettings, open_setters};
use crate::tensor_data::is_tensor_file;
use crate::{Carton, Error, Location, Packed};

/// The default minimum size of the files that are left out, in bytes. For a smaller file, a request costs more than its bytes.
pub const DEFAULT_MIN_SIZE: u64 = 64 << 10;

/// The files that [`Carton::shrink`] leaves out. The `Debug` form shows no secrets of URLs.
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

/// A carton to be made smaller. Made by [`Carton::shrink`]; setters configure it, and `.await` writes the result.
#[derive(Clone, Debug)]
#[must_use = "nothing is written until this is awaited"]
pub struct Shrink {
    location: Location,
    output: PathBuf,
    leave_out: LeaveOut,
    save_files: Option<PathBuf>,
    open: OpenSettings,
}

impl Shrink {
    open_setters!(open);

    /// Saves the files that are left out to `folder`, under the names that their URLs end with.
    pub fn save_files(mut self, folder: impl Into<PathBuf>) -> Self {
        self.save_files = Some(folder.into());
        self
    }

    async fn shrink(self) -> Result<Shrunk, Error> {
        let Self { location, output, leave_out, save_files, open } = self;
        if let LeaveOut::Large { url_prefix, .. } = &leave_out {
            check_prefix(url_prefix)?;
        }
        let progress = open.operation.progress().cloned();
        let package = Open::new(location.clone(), open).await?;
        run_blocking(progress.as_ref(), move |context| {
            let contents = package.contents();
            package::check_output(contents, location.path(), &output)?;
            let mut choice = Choice::make(contents, &leave_out)?;
            let is_saving = save_files.is_some();
            contents.fetch(|path| choice.needs(path, is_saving), &context.on_contents(Stage::Pack))?;
            // Save the files first: a carton whose files are nowhere is useless.
            if let Some(folder) = &save_files {
                save::save(contents, location.path(), &mut choice.left_out, folder, &context)?;
            }
            package::rewrite(
                contents,
                &choice.missing,
                &choice.links,
                &output,
                Compression::Auto,
                &context.on_bytes(Stage::Pack),
            )?;
            let manifest_sha256 = manifest_hash(contents)?;
            Ok(Shrunk { path: output, manifest_sha256, left_out: choice.left_out, unmatched: choice.unmatched })
        })
        .await
    }
}

impl IntoFuture for Shrink {
    type Output = Result<Shrunk, Error>;
    type IntoFuture = Awaited<'static, Shrunk>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.shrink())
    }
}

/// A carton to be made complete. Made by [`Carton::resolve`]; setters configure it, and `.await` writes the result.
#[derive(Clone, Debug)]
#[must_use = "nothing is written until this is awaited"]
pub struct Resolve {
    location: Location,
    output: PathBuf,
    compression: Compression,
    open: OpenSettings,
}

impl Resolve {
    open_setters!(open);

    /// Sets how the files that are put back are compressed. Files that are already in the carton keep their compression.
    pub fn compression(mut self, compression: Compression) -> Self {
        self.compression = compression;
        self
    }

    async fn resolve(self) -> Result<Packed, Error> {
        let Self { location, output, compression, open } = self;
        let progress = open.operation.progress().cloned();
        let package = Open::new(location.clone(), open).await?;
        run_blocking(progress.as_ref(), move |context| {
            let contents = package.contents();
            package::check_output(contents, location.path(), &output)?;
            contents.fetch(|_| true, &context.on_contents(Stage::Pack))?;
            let (none, no_links) = (BTreeSet::new(), Links::default());
            package::rewrite(contents, &none, &no_links, &output, compression, &context.on_bytes(Stage::Pack))?;
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

impl IntoFuture for Resolve {
    type Output = Result<Packed, Error>;
    type IntoFuture = Awaited<'static, Packed>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.resolve())
    }
}

/// The result of [`Carton::shrink`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Shrunk {
    /// The carton.
    pub path: PathBuf,
    /// The SHA-256 of its MANIFEST, which is the same as that of the original carton.
    pub manifest_sha256: ManifestHash,
    /// The files that were left out, sorted by path.
    pub left_out: Vec<LeftOut>,
    /// The digests in the given links that match no file of the carton, sorted.
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
    /// Its size in bytes.
    pub size: u64,
    /// The valid URLs to fetch it from, in the order to try them.
    pub urls: Vec<Url>,
    /// The path that it was saved to; `None` if it was not saved.
    pub saved: Option<PathBuf>,
}

/// Why a URL with a user or password is refused.
const READABLE: &str = "whoever reads the carton could read the URL's user and password";

/// Why a carton cannot be shrunk.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ShrinkError {
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
        /// What is wrong with it.
        source: InvalidUrl,
    },
    /// The prefix cannot begin the URLs of the files that are left out.
    #[error("`{}` cannot begin the URLs of files: {reason}", prefix.as_str().escape_debug())]
    Prefix {
        /// The prefix, without secrets.
        prefix: ShownUrl,
        /// What is wrong with it.
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

impl ShrinkError {
    pub(crate) fn hint(&self) -> Option<String> {
        match self {
            Self::NoneLarge { .. } => Some("name a smaller size from which files are left out".to_owned()),
            Self::NotPacked { .. } => {
                Some("`sha256sum` prints the SHA-256 of a file; MANIFEST has those of a carton".to_owned())
            }
            Self::NoneLinked { .. } => Some("MANIFEST has the SHA-256 of each file".to_owned()),
            Self::Exists { .. } | Self::SameName { .. } => Some("save the files to an empty folder".to_owned()),
            Self::User { .. } => {
                Some("give the token to those who fetch: `CARTON_TOKEN_<host>`, or a netrc file".to_owned())
            }
            Self::Url { .. } | Self::Prefix { .. } | Self::Links(_) => None,
        }
    }
}

impl Carton {
    /// Writes the carton at `location` to `output` without some of its files; LINKS of the result says where to fetch them. The
    /// result has the same MANIFEST, so it is the same carton. Every file that stays or is saved is verified on the way.
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), carton_core::Error> {
    /// use carton_core::{Carton, LeaveOut};
    /// let large = LeaveOut::large("https://example.com/files");
    /// let shrunk = Carton::shrink("llama.carton", "llama.shrunk.carton", large).save_files("upload").await?;
    /// for file in &shrunk.left_out {
    ///     println!("{} is expected at {}", file.path, file.urls[0]);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// There is nothing to leave out; the carton or a file cannot be read or does not match MANIFEST; the output is the carton
    /// itself or cannot be written. The file that was at `output` before is still there then.
    pub fn shrink(location: impl Into<Location>, output: impl Into<PathBuf>, leave_out: LeaveOut) -> Shrink {
        let open = OpenSettings::default();
        Shrink { location: location.into(), output: output.into(), leave_out, save_files: None, open }
    }

    /// Writes the carton at `location` to `output` with all its files in it, including those that it only links to, and without
    /// LINKS. The result has the same MANIFEST, so it is the same carton. An unpacked carton becomes a file.
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), carton_core::Error> {
    /// use carton_core::Carton;
    /// Carton::resolve("llama.shrunk.carton", "llama.carton").await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// A file cannot be fetched or does not match MANIFEST; the output is the carton itself or cannot be written. The file that
    /// was at `output` before is still there then.
    pub fn resolve(location: impl Into<Location>, output: impl Into<PathBuf>) -> Resolve {
        let (location, output) = (location.into(), output.into());
        Resolve { location, output, compression: Compression::default(), open: OpenSettings::default() }
    }
}

/// Checks that the files that `links` and `known` list can be left out of a carton that has just been packed. `manifest` is its
/// MANIFEST, and `output` its future path. Returns the digests of `known` that match nothing.
///
/// # Errors
/// A digest of `links` matches nothing, which is a mistake, because all of them are meant for this carton; nothing at all would
/// be left out; a URL is not valid, or has a user or password.
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
    check_urls(links)?;
    check_urls(known)?;
    Ok(digests)
}

/// Writes the carton of `contents` to `output` without the files that `links` list, as [`Carton::shrink`] does.
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

fn manifest_hash(contents: &Contents) -> Result<ManifestHash, Error> {
    let hash = contents.manifest_hash();
    hash.ok_or_else(|| PackageError::from(ContentsError::NoManifest { location: contents.location() }).into())
}
