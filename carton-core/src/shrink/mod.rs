//! Makes a carton smaller by leaving out files that can be fetched, and makes it complete again. MANIFEST stays byte-identical,
//! and so does the hash of the carton (spec/carton-format.md, "LINKS").

mod choose;
mod leave_out;
mod save;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::future::IntoFuture;
use std::path::{Path, PathBuf};

use carton_format::archive::Compression;
use carton_format::context::Context;
use carton_format::digest::Sha256Digest;
use carton_format::links::Links;
use carton_format::manifest::{Manifest, ManifestHash};
use carton_format::tensor_data::is_tensor_file;

pub(crate) use choose::may_be_left_out;
use choose::{ShrinkPlan, check_prefix, check_urls};
pub use leave_out::{DEFAULT_MIN_SIZE, LeaveOut, LeftOut};

use crate::blocking::{Awaited, run_blocking};
use crate::contents::{Contents, ContentsError};
use crate::open::Open;
use crate::package::{self, PackageError};
use crate::packed::{PackWarning, Packed};
use crate::settings::{OpenSettings, open_setters};
use crate::shrink_error::ShrinkError;
use crate::{Carton, Error, Location};

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
            let mut choice = ShrinkPlan::make(contents, &leave_out)?;
            let is_saving = save_files.is_some();
            contents.fetch(|path| choice.needs(path, is_saving), &context)?;
            // Save the files first: a carton whose files are nowhere is useless.
            if let Some(folder) = &save_files {
                save::save(contents, location.path(), &mut choice.left_out, folder, &context)?;
            }
            package::rewrite(contents, &choice.missing, &choice.links, &output, Compression::Auto, &context)?;
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
            contents.fetch(|_| true, &context)?;
            let (none, no_links) = (BTreeSet::new(), Links::default());
            package::rewrite(contents, &none, &no_links, &output, compression, &context)?;
            let has_tensor_file = contents.paths().any(is_tensor_file);
            Ok(Packed {
                path: output,
                manifest_sha256: manifest_hash(contents)?,
                unmatched: Vec::new(),
                not_packed: Vec::new(),
                warnings: PackWarning::of_format(package.metadata(), has_tensor_file),
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

impl Carton {
    /// Writes the carton at `location` to `output` without some of its files; LINKS of the result says where to fetch them. The
    /// result has the same MANIFEST, so it is the same carton. Every file that stays or is saved is verified on the way.
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), carton_core::Error> {
    /// use carton_core::{Carton};
    /// use carton_core::shrink::{LeaveOut};
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
pub(crate) fn leave_out(contents: &Contents, links: Links, output: &Path, context: &Context) -> Result<(), Error> {
    let choice = ShrinkPlan::make(contents, &LeaveOut::Linked(links))?;
    Ok(package::rewrite(contents, &choice.missing, &choice.links, output, Compression::Auto, context)?)
}

fn manifest_hash(contents: &Contents) -> Result<ManifestHash, Error> {
    let hash = contents.manifest_hash();
    hash.ok_or_else(|| PackageError::from(ContentsError::NoManifest { location: contents.location() }).into())
}
