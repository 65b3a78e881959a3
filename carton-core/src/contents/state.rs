//! An open carton, made of parts, each of which has state that no other code touches:
//!
//! - `Locator` owns the `Tree` of the carton's files and what was opened, and knows where the bytes of each file are (`locate`, `tree`,
//!   `origin`);
//! - `Fetcher` gets files that are elsewhere into the cache, and leases what the carton has there (`fetch`);
//! - `KnownChecksums` has the CRC-32 and size of files whose SHA-256 was verified (`known_checksums`);
//! - `VerifiedFiles` keeps files open of which parts are read (`verified_files`).
//!
//! What needs several of them, such as reading a file, is a method of `Contents` itself.

use std::path::Path;

use carton_format::digest::Sha256Digest;
use carton_format::links::Links;
use carton_format::manifest::{Manifest, ManifestHash};

use super::fetch::Fetcher;
use super::known_checksums::KnownChecksums;
use super::locate::Locator;
use super::tree::Tree;
use super::verified_files::VerifiedFiles;

/// The files of one carton, or of a model that is not in a carton.
///
/// Cheap to open: only the table of entries, MANIFEST and LINKS are read. Methods may be called from many threads at once.
pub(crate) struct Contents {
    pub(super) locator: Locator,
    pub(super) fetcher: Fetcher,
    pub(super) checksums: KnownChecksums,
    pub(super) verified: VerifiedFiles,
}

impl Contents {
    /// The files of the carton.
    pub(super) fn tree(&self) -> &Tree {
        self.locator.tree()
    }

    /// The MANIFEST; none for a model that is not in a carton.
    pub(crate) fn manifest(&self) -> Option<&Manifest> {
        self.tree().manifest()
    }

    /// The SHA-256 of MANIFEST, which names the carton.
    pub(crate) fn manifest_hash(&self) -> Option<ManifestHash> {
        self.tree().manifest_hash()
    }

    /// Where files that are not in the carton can be fetched.
    pub(crate) fn links(&self) -> &Links {
        self.tree().links()
    }

    /// The carton or folder, for messages.
    pub(crate) fn location(&self) -> String {
        self.locator.origin().location()
    }

    /// The file of the cache that the archive is, if it is one.
    pub(crate) fn whole(&self) -> Option<Sha256Digest> {
        self.locator.whole()
    }

    /// The folder it was opened from, if it was one.
    pub(crate) fn folder(&self) -> Option<&Path> {
        self.locator.origin().folder()
    }

    /// The paths of all files but MANIFEST and LINKS, sorted.
    pub(crate) fn paths(&self) -> impl Iterator<Item = &str> {
        self.tree().items().iter().map(|item| item.path.as_str())
    }
}

impl Drop for Contents {
    /// Records the checksums learned from files that were read one by one.
    fn drop(&mut self) {
        self.checksums.remember(&self.locator);
    }
}

impl std::fmt::Debug for Contents {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Contents")
            .field("location", &self.location())
            .field("manifest_hash", &self.manifest_hash())
            .field("n_files", &self.tree().items().len())
            .finish_non_exhaustive()
    }
}
