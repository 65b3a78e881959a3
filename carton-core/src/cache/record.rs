//! Records of verified files by their identity, so that the same bytes are hashed only once.

use std::fs::{File, OpenOptions};
use std::io::Read;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use carton_format::digest::Sha256Digest;
use carton_format::manifest::ManifestHash;
use carton_format::source::FileIdentity;
use serde::{Deserialize, Serialize};

use super::index::LARGEST_INDEX;
use super::layout::VERIFIED;
use super::partial::Partial;
use super::{Cache, CacheError, FolderIndex};

/// A record is a few hundred bytes; a larger file was not written by us.
const LARGEST_RECORD: u64 = 16 * 1024;

/// What was verified about a file with a certain identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "verified", rename_all = "snake_case")]
pub(crate) enum Verified {
    /// A file of the cache whose bytes have this digest.
    File {
        /// SHA-256 of the whole file.
        sha256: Sha256Digest,
    },
    /// A carton whose files matched its MANIFEST.
    Carton {
        /// SHA-256 of the MANIFEST with which they were compared.
        manifest_sha256: ManifestHash,
        /// Which of its files were verified.
        scope: Scope,
    },
}

/// Which files of a carton were verified in place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Scope {
    /// The model files that are stored without compression.
    StoredModelFiles,
    /// The files of `tensor_data/` that are stored without compression.
    StoredTensorFiles,
    /// Both.
    StoredModelAndTensorFiles,
    /// Every file the carton holds.
    Everything,
}

impl Scope {
    /// Whether this scope includes all of `other`.
    #[must_use]
    pub(crate) fn covers(self, other: Self) -> bool {
        self.joined(other) == self
    }

    /// The smallest scope that covers both.
    fn joined(self, other: Self) -> Self {
        match (self, other) {
            (Self::Everything, _) | (_, Self::Everything) => Self::Everything,
            (one, other) if one == other => one,
            _ => Self::StoredModelAndTensorFiles,
        }
    }
}

#[derive(Serialize, Deserialize)]
struct Record {
    identity: FileIdentity,
    #[serde(flatten)]
    verified: Verified,
}

/// What was verified of files and folders, by their identity: `verified-v1`.
pub(crate) struct Verifications<'a> {
    pub(super) cache: &'a Cache,
}

impl Verifications<'_> {
    /// Returns what was verified about the file with exactly this identity. A record that is missing, damaged or of another user counts
    /// as missing.
    pub(crate) fn of(&self, identity: &FileIdentity) -> Option<Verified> {
        let path = self.record_path(identity);
        let bytes = read_own_file(&path, LARGEST_RECORD)?;
        let record: Record = serde_json::from_slice(&bytes).ok()?;
        (record.identity == *identity).then_some(record.verified)
    }

    /// Whether the files in `scope` of the carton with this identity were verified against this MANIFEST.
    pub(crate) fn is_carton_verified(&self, identity: &FileIdentity, manifest: &ManifestHash, scope: Scope) -> bool {
        match self.of(identity) {
            Some(Verified::Carton { manifest_sha256, scope: found }) => {
                manifest_sha256 == *manifest && found.covers(scope)
            }
            _ => false,
        }
    }

    /// Records that files of a carton were verified against this MANIFEST, in addition to those already recorded for it. The conditions
    /// of [`remember`](Self::remember) apply.
    pub(crate) fn remember_carton(
        &self,
        identity: &FileIdentity,
        manifest_sha256: ManifestHash,
        scope: Scope,
    ) -> Result<(), CacheError> {
        let scope = match self.of(identity) {
            Some(Verified::Carton { manifest_sha256: known, scope: found }) if known == manifest_sha256 => {
                found.joined(scope)
            }
            _ => scope,
        };
        self.remember(identity, Verified::Carton { manifest_sha256, scope })
    }

    /// Records a verification. The caller guarantees that the bytes were hashed, that the identity was the same before and after, and
    /// that the hashing began after the tick of the file's last change.
    pub(crate) fn remember(&self, identity: &FileIdentity, verified: Verified) -> Result<(), CacheError> {
        self.remember_in(&self.cache.partial()?, identity, verified)
    }

    pub(super) fn remember_in(
        &self,
        partial: &Partial,
        identity: &FileIdentity,
        verified: Verified,
    ) -> Result<(), CacheError> {
        let path = self.record_path(identity);
        let record = Record { identity: *identity, verified };
        let bytes = serde_json::to_vec(&record)
            .map_err(|error| CacheError::io("write", &path)(std::io::Error::other(error)))?;
        partial.publish(&bytes, &path)
    }

    /// Records a verification. Only logs a failure: it costs another hashing, no more.
    pub(super) fn remember_quietly(&self, partial: &Partial, identity: &FileIdentity, digest: &Sha256Digest) {
        if let Err(error) = self.remember_in(partial, identity, Verified::File { sha256: *digest }) {
            tracing::debug!(%error, "cannot record a verification");
        }
    }

    /// Returns the index of the unpacked carton in the folder with this identity. Only device and inode matter: the folder's times change
    /// whenever an entry is added or removed.
    pub(crate) fn folder_index(&self, folder: &FileIdentity) -> Option<FolderIndex> {
        FolderIndex::parse(&read_own_file(&self.folder_index_path(folder), LARGEST_INDEX)?)
    }

    /// Records the identities of an unpacked carton's files. The conditions of `remember` apply.
    pub(crate) fn remember_folder(&self, folder: &FileIdentity, index: &FolderIndex) -> Result<(), CacheError> {
        self.cache.partial()?.publish(&index.to_bytes(), &self.folder_index_path(folder))
    }

    fn folder_index_path(&self, folder: &FileIdentity) -> PathBuf {
        self.cache.layout.bucket(VERIFIED).join(format!("{:x}-{:x}.folder", folder.device, folder.inode))
    }

    fn record_path(&self, identity: &FileIdentity) -> PathBuf {
        self.cache.layout.bucket(VERIFIED).join(format!("{:x}-{:x}.json", identity.device, identity.inode))
    }
}

/// The bytes of a regular file that belongs to this user, if it has at most `cap` bytes.
pub(super) fn read_own_file(path: &Path, cap: u64) -> Option<Vec<u8>> {
    let flags = i32::try_from(rustix::fs::OFlags::NOFOLLOW.bits()).ok()?;
    let file: File = OpenOptions::new().read(true).custom_flags(flags).open(path).ok()?;
    let metadata = file.metadata().ok()?;
    if !metadata.is_file() || metadata.uid() != rustix::process::geteuid().as_raw() || metadata.len() > cap {
        return None;
    }
    let mut bytes = Vec::with_capacity(usize::try_from(metadata.len()).ok()?);
    file.take(cap).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}
