//! An open carton: its parts, and the files and checksums that were verified since it was opened.

use std::collections::BTreeMap;
use std::fs::File;
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use carton_format::digest::Sha256Digest;
use carton_format::links::Links;
use carton_format::manifest::{Manifest, ManifestHash};
use carton_format::source::FileIdentity;
use carton_tensor::files::SharedBytes;
use parking_lot::Mutex;

use super::origin::Origin;
use super::tree::Item;
use super::{Access, Blobs};
use crate::cache::{Cache, Checksum, Checksums, Lease};

/// The files of one carton, or of a model that is not in a carton.
///
/// Cheap to open: only the table of entries, MANIFEST and LINKS are read. Methods may be called from many threads at once.
pub(crate) struct Contents {
    pub(super) origin: Origin,
    /// None for a bare model.
    pub(super) manifest: Option<(Manifest, ManifestHash)>,
    pub(super) links: Links,
    /// Files that are neither in the carton nor in LINKS, because its registry has them.
    pub(super) blobs: Blobs,
    /// Sorted by path.
    pub(super) items: Vec<Item>,
    pub(super) cache: Option<Arc<Cache>>,
    /// How files that are elsewhere may be fetched; without it, they are taken from the cache only.
    pub(super) access: Option<Access>,
    /// The file of the cache that was opened, if it is one.
    pub(super) whole: Option<Sha256Digest>,
    /// Taken when a file that is elsewhere is first needed, and then held, so that fetched files are not deleted.
    pub(super) lease: OnceLock<Arc<Lease>>,
    /// For listings of the cache.
    pub(super) model_name: Option<String>,
    /// The files of which parts were read, by their path.
    pub(super) verified: Mutex<BTreeMap<String, Arc<Verified>>>,
    /// The CRC-32 and sizes of files, for comparing them with what the archive states.
    pub(super) known: Mutex<Known>,
}

/// A file whose bytes matched MANIFEST.
#[derive(Debug)]
pub(super) enum Verified {
    /// All of it.
    Memory(Vec<u8>),
    /// A range of an open file, which must stay as it was when it was verified.
    File {
        file: Arc<File>,
        range: Range<u64>,
        identity: FileIdentity,
        /// The same bytes mapped, once somebody asked for that.
        map: OnceLock<SharedBytes>,
    },
}

impl Verified {
    pub(super) fn file(file: File, range: Range<u64>, identity: FileIdentity) -> Self {
        Self::File { file: Arc::new(file), range, identity, map: OnceLock::new() }
    }
}

/// The known checksums of a carton's files.
#[derive(Default)]
pub(super) struct Known {
    /// By the digest of their bytes; none before the record was read.
    pub(super) checksums: Option<Checksums>,
    /// Whether it has checksums that the cache has not stored.
    pub(super) is_new: bool,
}

impl Contents {
    /// The MANIFEST; none for a model that is not in a carton.
    pub(crate) fn manifest(&self) -> Option<&Manifest> {
        self.manifest.as_ref().map(|(manifest, _)| manifest)
    }

    /// The SHA-256 of MANIFEST, which names the carton.
    pub(crate) fn manifest_hash(&self) -> Option<ManifestHash> {
        self.manifest.as_ref().map(|(_, hash)| *hash)
    }

    /// Where files that are not in the carton can be fetched.
    pub(crate) fn links(&self) -> &Links {
        &self.links
    }

    /// The carton or folder, for messages.
    pub(crate) fn location(&self) -> String {
        self.origin.location()
    }

    /// The file of the cache that the archive is, if it is one.
    pub(crate) fn whole(&self) -> Option<Sha256Digest> {
        self.whole
    }

    /// The folder it was opened from, if it was one.
    pub(crate) fn folder(&self) -> Option<&Path> {
        self.origin.folder()
    }

    /// The paths of all files but MANIFEST and LINKS, sorted.
    pub(crate) fn paths(&self) -> impl Iterator<Item = &str> {
        self.items.iter().map(|item| item.path.as_str())
    }
}

impl Known {
    pub(super) fn add(&mut self, digest: Sha256Digest, checksum: Checksum) {
        let checksums = self.checksums.get_or_insert_default();
        self.is_new |= checksums.insert(digest, checksum) != Some(checksum);
    }
}

impl std::fmt::Debug for Contents {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Contents")
            .field("location", &self.location())
            .field("manifest_hash", &self.manifest_hash())
            .field("n_files", &self.items.len())
            .finish_non_exhaustive()
    }
}
