//! Opens a carton in a registry, or from what the cache remembers of it (spec/registries.md).
//!
//! The manifest of the artifact names the carton, the blob that is the carton without its large files, and the blobs that are these files.
//! Opening costs a request for the manifest and one for the first blob. The large files are fetched when they are needed, as linked files are.

use std::path::Path;
use std::sync::Arc;

use carton_format::digest::{Sha256Digest, hash_all};
use carton_format::error_kind::ErrorKind;
use carton_format::manifest::ManifestHash;
use carton_format::progress::fetched;
use carton_format::source::{FileSource, MemorySource};
use carton_format::url::Url;
use carton_network::download::{Download, Target};
use carton_network::http::{Activity, Network, NetworkError, Version};
use carton_network::oci::manifest::{self, CartonManifest};
use carton_network::oci::{Client, OciError, Reference, RegistryAccess, RegistryConfig};

use super::Opening;
use crate::Error;
use crate::cache::{About, RemoteCarton, RemoteForm, UrlKey};
use crate::contents::{Access, BlobStore, Blobs, ContentsError};
use crate::error::Failure as _;
use crate::fetch_verified::{Unverified, fetch_verified};
use crate::package::{OpenOptions, Package};

/// The largest carton without its large files that is read into memory, where there is no cache to keep it in.
const MAX_IN_MEMORY: u64 = 256 << 20;

/// The largest carton without its large files, in bytes: far more than small files can have together.
const MAX_SMALL: u64 = 1 << 40;

/// The most bundles of one carton that are looked at.
const MAX_BUNDLES: usize = 16;

/// Opens the carton at the `oci:` URL `url`.
///
/// A carton that is in the cache costs no request if the reference has a digest, or if its hash is the expected one; any other costs one
/// for the manifest.
pub(super) fn open(
    url: &Url,
    expect: Option<ManifestHash>,
    access: Access,
    servers: &[RegistryConfig],
    opening: &Opening,
) -> Result<Package, Error> {
    let reference = reference(url)?;
    let activity = Activity::new(opening.context.cancel_token());
    let client = Client::new(&access.network, servers, &reference, RegistryAccess::Read, &[], &activity)?;
    let registry = RegistryCarton { url, reference, client, expect, access, opening, activity };
    let known = registry.known();
    let is_current = |known: &Known| match registry.reference.digest() {
        Some(digest) => digest == Sha256Digest::of(&known.artifact),
        None => expect == Some(known.hash),
    };
    match known {
        // Offline, the remembered carton is opened unless its hash differs from the pinned one.
        Some(known) if registry.access.network.is_offline() && expect.is_none_or(|hash| hash == known.hash) => {
            registry.open_known(&known)
        }
        Some(known) if is_current(&known) => registry.open_known(&known),
        known => registry.ask(known.as_ref()),
    }
}

/// The artifact that an `oci:` URL names.
pub(crate) fn reference(url: &Url) -> Result<Reference, Error> {
    Reference::from_url(url)
        .map_err(|error| NetworkError::Url { url: url.shown(), reason: format!("names no artifact: {error}") }.into())
}

/// What the cache remembers of the carton.
struct Known {
    hash: ManifestHash,
    /// The manifest of the artifact.
    artifact: Vec<u8>,
}

struct RegistryCarton<'a> {
    url: &'a Url,
    reference: Reference,
    client: Client,
    expect: Option<ManifestHash>,
    access: Access,
    opening: &'a Opening,
    /// Counts what is fetched to open the carton.
    activity: Arc<Activity>,
}

impl RegistryCarton<'_> {
    fn known(&self) -> Option<Known> {
        let cache = self.opening.cache.as_ref()?;
        let is_it = |found: &RemoteCarton| {
            found.form == RemoteForm::Artifact && self.expect.is_none_or(|hash| hash == found.manifest)
        };
        let by_name = cache.remotes().by_url(&UrlKey::from(self.url)).filter(is_it);
        // What was opened under a tag has a digest, too.
        let by_digest = || cache.remotes().by_url(&self.digest_key(self.reference.digest()?)?).filter(is_it);
        // The expected carton is the same one under any name.
        let by_hash = || cache.remotes().by_manifest(&self.expect?, RemoteForm::Artifact);
        let mut carton = by_name.or_else(by_digest).or_else(by_hash)?;
        let (0, artifact) = carton.blocks.pop()? else { return None };
        Some(Known { hash: carton.manifest, artifact })
    }

    /// The key of the artifact's name with its digest and without a tag.
    fn digest_key(&self, digest: Sha256Digest) -> Option<UrlKey> {
        Url::parse(&self.reference.with_digest(digest).to_string()).ok().map(|url| UrlKey::from(&url))
    }

    /// Asks the registry for the manifest, and opens what it names.
    fn ask(&self, known: Option<&Known>) -> Result<Package, Error> {
        let (bytes, digest) = self.client.manifest()?;
        if let Some(known) = known.filter(|known| known.artifact == bytes) {
            return self.open_known(known);
        }
        self.open_manifest(&bytes, Some(digest))
    }

    fn open_known(&self, known: &Known) -> Result<Package, Error> {
        self.open_manifest(&known.artifact, None)
    }

    /// Opens the carton that a manifest names, and records it under the digest of the manifest if that is `new`.
    fn open_manifest(&self, bytes: &[u8], new: Option<Sha256Digest>) -> Result<Package, Error> {
        let artifact = CartonManifest::parse(bytes).map_err(|error| OciError::NotACarton {
            reference: self.reference.to_string(),
            reason: error.to_string(),
        })?;
        if let Some(expected) = self.expect.filter(|expected| *expected != artifact.carton) {
            return Err(ContentsError::ManifestHash { expected, found: artifact.carton }.into());
        }
        let stores = self
            .client
            .endpoints()
            .iter()
            .map(|endpoint| BlobStore { network: endpoint.network.clone(), prefix: endpoint.blobs() });
        let stores: Vec<BlobStore> = stores.collect();
        let sizes = artifact.files.iter().map(|file| (file.digest, file.size)).collect();
        let small = Small { digest: artifact.small.digest, size: artifact.small.size, stores: &stores };
        let options = OpenOptions {
            cache: self.opening.cache.clone(),
            expect: Some(artifact.carton),
            access: Some(self.access.clone()),
            whole: self.opening.cache.as_ref().map(|_| small.digest),
            blobs: Blobs::new(sizes, stores.clone()),
        };
        // Messages name the artifact, not a place in the cache.
        let shown = self.reference.to_string();
        let Some(cache) = &self.opening.cache else {
            let limit = small.size.min(MAX_IN_MEMORY);
            let blob = self.client.small_blob(&small.digest, limit)?;
            let blob = blob.ok_or_else(|| self.missing(&small.digest))?;
            return Ok(Package::open_archive(MemorySource::new(blob, &shown), options)?);
        };
        let open = |file| -> Result<Package, Error> {
            let path = Path::new(&shown);
            let source = FileSource::from_file(file, path).map_err(Error::io("open", path))?;
            let package = Package::open_archive(source, options)?;
            if let Some(digest) = new {
                self.remember(&package, bytes, digest);
            }
            Ok(package)
        };
        let cancel_token = self.opening.context.cancel_token();
        if let Some(file) = cache.files().checked(&small.digest, cancel_token)? {
            return open(file);
        }
        let lock = cache.files().lock(&small.digest, cancel_token)?;
        if let Some(file) = lock.file(cancel_token)? {
            return open(file);
        }
        let fetched = fetch_verified(&lock, &shown, |folder| self.download(&small, folder))?;
        // Pruning is held off until the cache records that the carton uses the file.
        let _no_prune = cache.hold_off_prune(cancel_token)?;
        lock.adopt(&fetched)?;
        open(lock.file(cancel_token)?.ok_or_else(|| self.missing(&small.digest))?)
    }

    /// Downloads the blob into `folder`, from the first server that has it.
    fn download(&self, small: &Small<'_>, folder: &Path) -> Result<Unverified, ContentsError> {
        let mut last = None;
        for store in small.stores {
            let Some(url) = store.url(&small.digest) else { continue };
            match self.download_from(store, &url, small, folder) {
                Ok(fetched) if fetched.digest == small.digest => return Ok(fetched),
                // The caller says what is wrong with it, unless another server has the right bytes.
                Ok(fetched) => last = Some(Ok(fetched)),
                Err(error) if matches!(error.kind(), ErrorKind::Interrupted | ErrorKind::Machine) => return Err(error),
                Err(error) => last = Some(Err(error)),
            }
        }
        let no_place = || ContentsError::NotFetched { path: self.reference.to_string(), digest: small.digest };
        last.unwrap_or_else(|| Err(no_place()))
    }

    fn download_from(
        &self,
        store: &BlobStore,
        url: &Url,
        small: &Small<'_>,
        folder: &Path,
    ) -> Result<Unverified, ContentsError> {
        let limit = small.size.min(MAX_SMALL);
        let target = Target { url, version: None, range: None, folder, accept_encoded: false, limit };
        let download = Download::start(&store.network, &target, &self.activity)?;
        let context = &self.opening.context;
        let read_error = |error| ContentsError::from_fetch(error, url.shown().as_str());
        let digest = hash_all(&mut download.reader(), read_error, |_| {
            context.check()?;
            context.report(&fetched(self.activity.received(), self.activity.kept(), Some(small.size)));
            Ok::<(), ContentsError>(())
        })?;
        Ok(Unverified { digest, file: download.path() })
    }

    fn missing(&self, digest: &Sha256Digest) -> Error {
        ContentsError::NotFetched { path: self.reference.to_string(), digest: *digest }.into()
    }

    /// Records the carton in the cache. If that fails, opening it the next time costs a few more requests.
    fn remember(&self, package: &Package, artifact: &[u8], digest: Sha256Digest) {
        let (Some(cache), Some(manifest)) = (&self.opening.cache, package.contents().manifest_hash()) else { return };
        let carton = RemoteCarton {
            url_key: UrlKey::from(self.url),
            address: self.url.shown(),
            form: RemoteForm::Artifact,
            version: Version { etag: Some(digest.to_string()), last_modified: None, length: None },
            manifest,
            blocks: vec![(0, artifact.to_vec())],
            whole: package.contents().whole(),
        };
        let by_digest = self.digest_key(digest).filter(|key| *key != carton.url_key);
        let by_digest = by_digest.map(|url_key| RemoteCarton { url_key, ..carton.clone() });
        let places = CartonManifest::parse(artifact).map(|found| found.files).unwrap_or_default();
        let places = places.iter().map(|file| file.digest);
        let remembered = by_digest
            .map_or(Ok(()), |by_digest| cache.remotes().remember(&by_digest))
            .and_then(|()| cache.remotes().remember(&carton))
            .and_then(|()| cache.blob_places(self.reference.host()).remember(self.reference.repository(), places));
        if let Err(error) = remembered {
            tracing::debug!(%error, "cannot remember a carton in a registry");
        }
        if let Err(error) = cache.carton(&manifest).describe(&About::new(package.metadata().model_name(), None)) {
            tracing::debug!(%error, "cannot record what a carton is called");
        }
    }
}

/// The blob that is the carton without its large files.
struct Small<'a> {
    digest: Sha256Digest,
    size: u64,
    stores: &'a [BlobStore],
}

/// Reads the bundles of the carton with the hash `carton` at `url` from its registry: what refers to the artifact and is a bundle.
/// Returns none if the network must not be used.
pub(crate) fn bundles(
    url: &Url,
    carton: ManifestHash,
    network: &Network,
    servers: &[RegistryConfig],
    limit: u64,
    opening: &Opening,
) -> Result<Vec<Vec<u8>>, Error> {
    if network.is_offline() {
        return Ok(Vec::new());
    }
    let activity = Activity::new(opening.context.cancel_token());
    let reference = reference(url)?;
    let client = Client::new(network, servers, &reference, RegistryAccess::Read, &[], &activity)?;
    // Opening the carton has just asked for it.
    let known = opening.cache.as_ref().and_then(|cache| cache.remotes().by_url(&UrlKey::from(url)));
    let known = known.filter(|known| known.manifest == carton).and_then(|known| known.version.etag?.parse().ok());
    let digest = match reference.digest().or(known) {
        Some(digest) => digest,
        None => client.manifest()?.1,
    };
    let mut found = Vec::new();
    for referrer in client.referrers(&digest)?.bundles().take(MAX_BUNDLES) {
        match bundle(&client, &referrer.digest, limit) {
            Ok(bytes) => found.extend(bytes),
            Err(error) if error.kind() == ErrorKind::Interrupted => return Err(error.into()),
            // Anyone who may write to the repository can put a broken bundle beside a good one.
            Err(error) => tracing::warn!("a bundle is passed over: {}", carton_format::causes::in_one_line(&error)),
        }
    }
    Ok(found)
}

/// The bundle that the artifact with the digest `referrer` holds; `None` if it has none within the limit.
fn bundle(client: &Client, referrer: &Sha256Digest, limit: u64) -> Result<Option<Vec<u8>>, OciError> {
    let Some(manifest) = client.manifest_by_digest(referrer)? else { return Ok(None) };
    let layer = manifest::bundle_layer(&manifest).filter(|layer| layer.size <= limit);
    Ok(layer.map(|layer| client.small_blob(&layer.digest, limit)).transpose()?.flatten())
}
