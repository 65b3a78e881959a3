//! Opens a carton on a server, or from what the cache remembers of it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use carton_format::archive::SUFFIX_LENGTH;
use carton_format::context::Context;
use carton_format::digest::{Sha256Digest, hash_all};
use carton_format::manifest::ManifestHash;
use carton_format::progress::fetched;
use carton_format::source::{FileSource, Source};
use carton_format::url::Url;
use carton_network::download::{Download, Target};
use carton_network::encoding::{self, Limit};
use carton_network::http::{Activity, Extent, Network, NetworkError, Part, Version, Wanted};
use carton_network::remote_source::RemoteSource;

use super::Opening;
use crate::cache::{About, RemoteCarton, RemoteForm, UrlKey};
use crate::contents::{Access, ContentsError};
use crate::error::IoFailure;
use crate::package::{OpenOptions, Package, PackageError};
use crate::{Error, ErrorKind};

/// Opens the carton at `url`.
///
/// A pinned carton that is in the cache costs no request. Another known carton that has not changed costs one request with an
/// empty answer. A new carton costs one request for its end, where its metadata is, and further requests only if the metadata is
/// longer.
pub(super) fn open(
    url: &Url,
    expect: Option<ManifestHash>,
    access: Access,
    opening: &Opening,
) -> Result<Package, Error> {
    let key = UrlKey::from(url);
    let activity = Activity::new(opening.context.cancel_token());
    let remote = Remote { url, key, expect, network: &access.network, access: &access, opening, activity };
    if let Some(pinned) =
        expect.and_then(|hash| opening.cache.as_ref()?.remotes().by_manifest(&hash, RemoteForm::Carton))
    {
        match remote.reopen(&pinned) {
            // If files are missing, ask the server first: it may have the same carton in another version of the file.
            Ok(package) if remote.network.is_offline() || is_local(&package, &pinned, &opening.context)? => {
                return Ok(package);
            }
            Ok(_) => {}
            Err(error) if remote.network.is_offline() => return Err(error),
            Err(error) => tracing::debug!(%error, "what the cache knows of the carton cannot be used"),
        }
    }
    let known = opening.cache.as_ref().and_then(|cache| cache.remotes().by_url(&key));
    // Offline, a remembered carton that is not the pinned one is useless.
    let is_usable =
        |known: &RemoteCarton| !remote.network.is_offline() || expect.is_none_or(|hash| hash == known.manifest);
    match (known.filter(is_usable), remote.network.is_offline()) {
        (Some(known), true) => remote.reopen(&known),
        (Some(known), false) => match remote.ask(Some(&known)) {
            // The remembered carton cannot be used, for whatever reason.
            Err(error) if error.find::<PackageError>().is_some() || error.find::<IoFailure>().is_some() => {
                tracing::debug!(%error, "what the cache knows of the carton cannot be used");
                remote.ask(None)
            }
            result => result,
        },
        (None, _) => remote.ask(None),
    }
}

/// Whether the cache has all files of the model and, if the server cannot send single files, all files of the carton.
fn is_local(package: &Package, known: &RemoteCarton, context: &Context) -> Result<bool, Error> {
    let contents = package.contents();
    let has_all = known.whole.is_none() || known.blocks.is_empty() || contents.holds_files(context)?;
    Ok(has_all && contents.has_locally(|path| path.starts_with("model/")))
}

struct Remote<'a> {
    url: &'a Url,
    key: UrlKey,
    expect: Option<ManifestHash>,
    network: &'a Network,
    access: &'a Access,
    opening: &'a Opening,
    /// Counts what is fetched to open the carton.
    activity: Arc<Activity>,
}

impl Remote<'_> {
    /// Asks the server for the end of the carton, unless it is still the `known` one.
    fn ask(&self, known: Option<&RemoteCarton>) -> Result<Package, Error> {
        let wanted = Wanted {
            url: self.url.clone(),
            part: Part::Suffix(SUFFIX_LENGTH),
            version: None,
            known: known.map(|known| known.version.clone()),
            limit: SUFFIX_LENGTH,
        };
        let fetched = match self.network.read(wanted, &self.activity) {
            Ok(fetched) => fetched,
            Err(NetworkError::NoRanges { .. }) => return self.download(),
            Err(error) => return Err(error.into()),
        };
        let (offset, length) = match (&fetched.extent, known) {
            (Extent::NotModified, Some(known)) => return self.reopen_or_download(known),
            (Extent::Part { range, total }, _) => (range.start, *total),
            _ => (0, fetched.bytes.len() as u64),
        };
        self.open_source(self.source(fetched.version, length, [(offset, fetched.bytes)]))
    }

    fn source(&self, version: Version, length: u64, blocks: impl IntoIterator<Item = (u64, Vec<u8>)>) -> RemoteSource {
        let (network, url, activity) = (self.network.clone(), self.url.clone(), Arc::clone(&self.activity));
        RemoteSource::new(network, url, version, length, blocks, activity)
    }

    fn open_source(&self, source: RemoteSource) -> Result<Package, Error> {
        let source = Arc::new(source);
        let package = Package::open_archive(source.clone(), self.options())?;
        let blocks = source.blocks();
        self.remember(&package, source.version().clone(), blocks, None);
        Ok(package)
    }

    /// Opens the carton from what the cache remembers. Parts that are not in the cache come from the server.
    fn reopen(&self, known: &RemoteCarton) -> Result<Package, Error> {
        if let (Some(whole), Some(cache)) = (known.whole, &self.opening.cache)
            && known.blocks.is_empty()
        {
            return self.open_file(&cache.files().path(&whole), whole);
        }
        let length = known.version.length.unwrap_or(0);
        let source = self.source(known.version.clone(), length, known.blocks.iter().cloned());
        Ok(Package::open_archive(Arc::new(source), self.options())?)
    }

    /// Does the same as [`reopen`](Self::reopen), for a carton that is unchanged on the server. A server that cannot send parts
    /// of files cannot send a single missing file, so the whole carton is downloaded again.
    fn reopen_or_download(&self, known: &RemoteCarton) -> Result<Package, Error> {
        let package = self.reopen(known)?;
        match known.whole.is_none()
            || known.blocks.is_empty()
            || package.contents().holds_files(&self.opening.context)?
        {
            true => Ok(package),
            false => self.download(),
        }
    }

    /// Downloads the whole carton from a server without ranges.
    fn download(&self) -> Result<Package, Error> {
        tracing::info!(
            url = %self.url,
            "the server cannot send parts of files: fetching the whole carton"
        );
        let Some(cache) = &self.opening.cache else {
            return Err(NetworkError::NoRanges { url: self.url.shown(), length: None }.into());
        };
        let cancel_token = self.opening.context.cancel_token();
        let lock = cache.files().lock(&self.key.digest(), cancel_token)?;
        let folder = lock.download_folder()?;
        let (digest, path, version) = match self.download_to(&folder) {
            Ok(downloaded) => downloaded,
            Err(error) => {
                // Nothing in the folder can be resumed, and a file that is not a carton is not worth keeping.
                if !Download::has_begun(&folder) {
                    lock.discard()?;
                }
                return Err(error);
            }
        };
        let package = match self.keep_files(&path, &version, digest) {
            // A carton with a bad or unreadable file is kept as one file of the cache, so that errors can say what is wrong with
            // it.
            Err(error)
                if error.find::<ContentsError>().is_some()
                    && !matches!(error.kind(), ErrorKind::Interrupted | ErrorKind::Machine) =>
            {
                let file_lock = cache.files().lock(&digest, cancel_token)?;
                // Pruning is held off until the cache records that the carton uses the file.
                let _no_prune = cache.hold_off_prune(cancel_token)?;
                if file_lock.file(cancel_token)?.is_none() {
                    file_lock.adopt(&path)?;
                }
                let package = self.open_file(&cache.files().path(&digest), digest)?;
                self.remember(&package, version, Vec::new(), Some(digest));
                package
            }
            result => result?,
        };
        lock.discard()?;
        Ok(package)
    }

    /// Opens a carton that was downloaded to `path`, and puts its files into the cache. After that the downloaded file is not
    /// needed.
    fn keep_files(&self, path: &Path, version: &Version, digest: Sha256Digest) -> Result<Package, Error> {
        let file = Arc::new(FileSource::open(path).map_err(Error::io("open", path))?);
        let version = Version { length: Some(file.len()), ..version.clone() };
        let source = self.source(version.clone(), file.len(), []).with_near(file.clone());
        let source = Arc::new(source);
        let package = Package::open_archive(source.clone(), self.options())?;
        package.contents().keep_files(file, &self.opening.context)?;
        self.remember(&package, version, source.blocks(), Some(digest));
        source.forget_near();
        Ok(package)
    }

    /// Downloads the carton into `folder`, and opens it as a check: a connection may have been cut without an error.
    fn download_to(&self, folder: &Path) -> Result<(Sha256Digest, PathBuf, Version), Error> {
        let limit = Limit::default();
        let target =
            Target { url: self.url, version: None, range: None, folder, accept_encoded: true, limit: limit.absolute };
        let download = Download::start(self.network, &target, &self.activity).map_err(ContentsError::from)?;
        let (digest, path) = if download.encodings().is_empty() {
            (self.hash(&mut download.reader(), download.length(), None)?, download.path())
        } else {
            let decoded = folder.join("decoded");
            let mut reader = encoding::decode(download.reader(), download.encodings(), limit)
                .map_err(|source| Error::from(ContentsError::Encoding { path: self.url.to_string(), source }))?;
            (self.hash(&mut reader, None, Some(&decoded))?, decoded)
        };
        let version = download.version().clone();
        drop(download);
        if let Err(error) = self.open_file(&path, digest) {
            Download::forget(folder).map_err(Error::io("delete", folder))?;
            return Err(error);
        }
        Ok((digest, path, version))
    }

    fn open_file(&self, path: &Path, whole: Sha256Digest) -> Result<Package, Error> {
        let file = std::fs::File::open(path).map_err(Error::io("open", path))?;
        // Messages name the carton's URL, not its place in the cache.
        let shown = self.url.to_string();
        let source = FileSource::from_file(file, Path::new(&shown)).map_err(Error::io("open", path))?;
        let options = OpenOptions { whole: Some(whole), ..self.options() };
        Ok(Package::open_archive(source, options)?)
    }

    /// Reads to the end and returns the digest. If `copy` names a file, creates it and writes the bytes to it.
    fn hash(
        &self,
        reader: &mut dyn std::io::Read,
        total: Option<u64>,
        copy: Option<&Path>,
    ) -> Result<Sha256Digest, Error> {
        use std::io::Write;
        let mut copy = match copy {
            Some(path) => Some((std::fs::File::create(path).map_err(Error::io("create", path))?, path)),
            None => None,
        };
        let read_error = |error| ContentsError::from_fetch(error, self.url.shown().as_str()).into();
        hash_all(reader, read_error, |chunk| {
            // Bytes that are already on disk are read without waiting for the server, so cancellation must be checked here.
            self.opening.context.check()?;
            if let Some((file, path)) = &mut copy {
                file.write_all(chunk).map_err(Error::io("write", path))?;
            }
            self.opening.context.report(&fetched(self.activity.received(), self.activity.kept(), total));
            Ok(())
        })
    }

    fn options(&self) -> OpenOptions {
        OpenOptions {
            cache: self.opening.cache.clone(),
            expect: self.expect,
            access: Some(self.access.clone()),
            ..OpenOptions::default()
        }
    }

    /// Records the carton in the cache. If that fails, opening it the next time costs a few more requests.
    fn remember(&self, package: &Package, version: Version, blocks: Vec<(u64, Vec<u8>)>, whole: Option<Sha256Digest>) {
        let (Some(cache), Some(manifest)) = (&self.opening.cache, package.contents().manifest_hash()) else { return };
        let (url_key, address) = (self.key, self.url.shown());
        let form = RemoteForm::Carton;
        let carton = RemoteCarton { url_key, address, form, version, manifest, blocks, whole };
        if let Err(error) = cache.remotes().remember(&carton) {
            tracing::debug!(%error, "cannot remember a remote carton");
        }
        if let Err(error) = cache.carton(&manifest).describe(&About::new(package.metadata().model_name(), None)) {
            tracing::debug!(%error, "cannot record what a carton is called");
        }
    }
}
