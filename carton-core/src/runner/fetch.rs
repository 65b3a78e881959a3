//! Fetches an index or an archive.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use carton_format::context::Context;
use carton_format::digest::{Sha256Digest, hash_all};
use carton_format::progress::{ProgressEvent, Stage};
use carton_format::url::Url;
use carton_network::download::{Download, DownloadError, Target};
use carton_network::http::{Activity, Network, Part as RequestPart, Wanted};

use super::{InstallError, MAX_INDEX_BYTES, Part, Place};
use crate::cache::Cache;
use crate::fetch_verified::{FetchError, Unverified, fetch_verified};

/// The largest archive in bytes.
const MAX_ARCHIVE_BYTES: u64 = 64 << 30;

/// Fetches an index and archives.
pub(super) struct Fetcher<'a> {
    pub(super) network: &'a Network,
    /// The folder of the cache that archives are downloaded to. The cache is opened only for a download.
    pub(super) cache_dir: &'a Path,
    pub(super) context: &'a Context,
}

impl Fetcher<'_> {
    /// Returns the bytes of an index.
    pub(super) fn index(&self, place: &Place) -> Result<Vec<u8>, InstallError> {
        match place {
            Place::Web(url) | Place::Oci(url) | Place::Hub(url) | Place::ObjectStore(url) => {
                let what = Wanted {
                    url: url.clone(),
                    part: RequestPart::Whole,
                    version: None,
                    known: None,
                    limit: MAX_INDEX_BYTES,
                };
                let fetched = self.network.read(what, &Activity::new(self.context.cancel_token()));
                Ok(fetched.map_err(InstallError::network("the runner index"))?.bytes)
            }
            Place::Path(path) => {
                let mut bytes = Vec::new();
                let file = File::open(path).map_err(InstallError::io("open", path))?;
                // The additional byte shows that the index is too large.
                file.take(MAX_INDEX_BYTES + 1).read_to_end(&mut bytes).map_err(InstallError::io("read", path))?;
                Ok(bytes)
            }
        }
    }

    /// Verifies an archive and calls `work` with its path: that of a local archive, or that of a file that is downloaded into the
    /// cache and deleted after `work` has succeeded. An interrupted download is resumed by the next attempt.
    pub(super) fn archive<T>(
        &self,
        part: &Part,
        stage: &Stage,
        work: impl FnOnce(&Path) -> Result<T, InstallError>,
    ) -> Result<T, InstallError> {
        match &part.place {
            Place::Path(path) => {
                let mut file = File::open(path).map_err(InstallError::io("open", path))?;
                let total = file.metadata().ok().map(|metadata| metadata.len());
                let found = self.hash(&mut file, total, stage, |error| InstallError::io("read", path)(error))?;
                if found != part.sha256 {
                    return Err(InstallError::digest_mismatch(&part.place.to_string(), part.sha256, found));
                }
                work(path)
            }
            Place::Web(url) | Place::Oci(url) | Place::Hub(url) | Place::ObjectStore(url) => {
                let cache = Cache::in_folder(self.cache_dir)?;
                let lock = cache.files().lock(&part.sha256, self.context.cancel_token())?;
                let name = part.place.to_string();
                let path = fetch_verified(&lock, &name, |folder| self.download(url, folder, stage))?;
                let result = work(&path)?;
                lock.discard()?;
                Ok(result)
            }
        }
    }

    /// Downloads a file into `folder` and hashes it while it arrives.
    fn download(&self, url: &Url, folder: &Path, stage: &Stage) -> Result<Unverified, InstallError> {
        let failed = |error| match error {
            DownloadError::Network(error) => InstallError::network(format!("`{}`", url.shown()))(error),
            DownloadError::Io { action, path, source } => InstallError::Io { action, path, source },
        };
        let target =
            Target { url, version: None, range: None, folder, accept_encoded: false, limit: MAX_ARCHIVE_BYTES };
        let download =
            Download::start(self.network, &target, &Activity::new(self.context.cancel_token())).map_err(failed)?;
        let file = download.path();
        let read_error = |error| {
            let read = |source| DownloadError::Io { action: "read", path: file.clone(), source };
            failed(DownloadError::from_read(error).unwrap_or_else(read))
        };
        let digest = self.hash(&mut download.reader(), download.length(), stage, read_error)?;
        Ok(Unverified { digest, file })
    }

    /// Hashes everything from `reader`, and reports how much of `total` is done.
    fn hash(
        &self,
        reader: &mut dyn Read,
        total: Option<u64>,
        stage: &Stage,
        read_error: impl Fn(io::Error) -> InstallError,
    ) -> Result<Sha256Digest, InstallError> {
        let report = |done, total| {
            self.context.report(&ProgressEvent::new(stage.clone(), done, total, "bytes"));
        };
        let mut done = 0;
        let found = hash_all(reader, read_error, |chunk| {
            done += chunk.len() as u64;
            report(done, total);
            Ok(self.context.check()?)
        })?;
        // A server need not state the size. At the end, the number of received bytes is the total.
        report(done, Some(done));
        Ok(found)
    }
}
