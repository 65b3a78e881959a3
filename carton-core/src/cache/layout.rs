//! Where things are in the folder of the cache: the names of its buckets, and the paths in them. Pure.

use std::path::{Path, PathBuf};

use carton_format::digest::Sha256Digest;
use carton_format::manifest::ManifestHash;

pub(super) const FILES: &str = "files-v1";
pub(super) const MODELS: &str = "models-v1";
pub(super) const DOWNLOADS: &str = "downloads-v1";
pub(super) const CARTONS: &str = "cartons-v1";
pub(super) const URLS: &str = "urls-v1";
pub(super) const REGISTRIES: &str = "registries-v1";
pub(super) const VERIFIED: &str = "verified-v1";
pub(super) const LOCKS: &str = "locks-v1";
pub(super) const LEASES: &str = "leases-v1";
pub(super) const PARTIAL: &str = "partial-v1";
pub(super) const BUCKETS: [&str; 10] =
    [FILES, MODELS, DOWNLOADS, CARTONS, URLS, REGISTRIES, VERIFIED, LOCKS, LEASES, PARTIAL];

const PRUNE_LOCK: &str = "prune.lock";

/// The folder of a cache.
#[derive(Debug)]
pub(super) struct Layout {
    root: PathBuf,
}

/// What a lock protects: only one process at a time makes it.
#[derive(Clone, Copy, Debug)]
pub(super) enum Made<'a> {
    /// A file, by its SHA-256.
    File(&'a Sha256Digest),
    /// A model folder, by its manifest hash.
    Model(&'a ManifestHash),
}

impl Layout {
    pub(super) fn new(root: PathBuf) -> Self {
        Self { root }
    }

    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    pub(super) fn bucket(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    /// The file with this digest.
    pub(super) fn file(&self, digest: &Sha256Digest) -> PathBuf {
        let name = digest.to_string();
        self.bucket(FILES).join(&name[..2]).join(name)
    }

    /// The folder of the download that is to become this file.
    pub(super) fn download(&self, digest: &Sha256Digest) -> PathBuf {
        self.bucket(DOWNLOADS).join(digest.to_string())
    }

    /// The folder that has a model folder and its index.
    pub(super) fn model(&self, manifest: &ManifestHash) -> PathBuf {
        self.bucket(MODELS).join(manifest.to_string())
    }

    /// The folder with the records about a carton.
    pub(super) fn carton(&self, manifest: &ManifestHash) -> PathBuf {
        self.bucket(CARTONS).join(manifest.to_string())
    }

    pub(super) fn lock(&self, made: Made<'_>) -> PathBuf {
        self.bucket(LOCKS).join(match made {
            Made::File(digest) => format!("file-{digest}.lock"),
            Made::Model(manifest) => format!("model-{manifest}.lock"),
        })
    }

    pub(super) fn prune_lock(&self) -> PathBuf {
        self.bucket(LOCKS).join(PRUNE_LOCK)
    }

    pub(super) fn lease(&self, manifest: &ManifestHash) -> PathBuf {
        self.bucket(LEASES).join(format!("{manifest}.lock"))
    }
}

/// Whether a name is that of a bucket of a later release: any name with a higher number than ours.
pub(super) fn is_later(name: &str) -> bool {
    let number = |name: &str| name.rsplit_once("-v").and_then(|(_, number)| number.parse::<u32>().ok());
    let ours = BUCKETS.iter().filter_map(|bucket| number(bucket)).max();
    number(name) > ours
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_of_later_releases_are_told_by_their_number() {
        for (name, expected) in [
            ("files-v2", true),
            ("weights-v12", true),
            ("files-v1", false),
            ("unknown-v1", false),
            ("files-v", false),
            ("files", false),
            ("CACHEDIR.TAG", false),
            ("files-v99999999999", false),
        ] {
            assert_eq!(is_later(name), expected, "{name}");
        }
        assert!(BUCKETS.iter().all(|bucket| !is_later(bucket)));
    }
}
