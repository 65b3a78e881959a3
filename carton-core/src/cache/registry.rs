//! Which cartons use the cache, and what each of them uses: `cartons-v1`.
//!
//! A carton registers when it is leased. The files that its MANIFEST lists, and the further ones it names, are its own until
//! the registration goes; the time of its folder is that of its last use.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::lock::{self, Lock, Mode};
use super::partial::create_file;
use super::record::read_own_file;
use super::{CARTONS, Cache, CacheError, LOCKS, Lease, create_folder, touch};
use crate::digest::Sha256Digest;
use crate::manifest::{self, Manifest};

pub(super) const MANIFEST_NAME: &str = "MANIFEST";
const USES_NAME: &str = "uses";
const PRUNE_LOCK: &str = "prune.lock";

impl Cache {
    /// Keeps the files and the model folder of this carton from being deleted for as long as the lease lives, and records
    /// that they are used. `extra` are files that MANIFEST does not list, such as the carton itself.
    ///
    /// Take it before looking for the files: what was there before may be gone.
    pub(crate) fn lease_carton<E: From<CacheError>>(
        &self,
        manifest: &Manifest,
        extra: &[Sha256Digest],
        checkpoint: &dyn Fn() -> Result<(), E>,
    ) -> Result<Lease, E> {
        let hash = manifest.hash();
        let no_prune = self.hold_off_prune(checkpoint)?;
        let lease = self.lease_under(&no_prune, &hash, checkpoint)?;
        // A full disk must not keep a carton from being loaded. `prune` leaves all files alone while a carton is leased of
        // which it does not know what it uses.
        if let Err(error) = self.register(&hash, manifest, extra) {
            tracing::debug!(%error, "cannot record the use of a carton");
        }
        Ok(lease)
    }

    /// While this is held nothing is chosen for deletion. Held for moments only, between which `prune` gets its turn.
    pub(crate) fn hold_off_prune<E: From<CacheError>>(
        &self,
        checkpoint: &dyn Fn() -> Result<(), E>,
    ) -> Result<Lock, E> {
        lock::acquire(&self.prune_lock_path(), Mode::Shared, self.longest_wait, &|| None, checkpoint)
    }

    pub(super) fn prune_lock_path(&self) -> PathBuf {
        self.bucket(LOCKS).join(PRUNE_LOCK)
    }

    pub(super) fn carton_root(&self, manifest: &Sha256Digest) -> PathBuf {
        self.bucket(CARTONS).join(manifest.to_string())
    }

    fn register(&self, hash: &Sha256Digest, manifest: &Manifest, extra: &[Sha256Digest]) -> Result<(), CacheError> {
        let root = self.carton_root(hash);
        let path = root.join(MANIFEST_NAME);
        let bytes = manifest.to_bytes();
        if !std::fs::symlink_metadata(&path).is_ok_and(|found| found.is_file() && found.len() == bytes.len() as u64) {
            create_folder(&root)?;
            self.partial()?.publish(bytes, &path)?;
        }
        if !extra.is_empty() {
            let uses = root.join(USES_NAME);
            create_folder(&uses)?;
            for digest in extra {
                // The name says it all: files of no length can be added by many processes without a lock.
                match create_file(&uses.join(digest.to_string()), 0o600) {
                    Err(CacheError::Io { source, .. }) if source.kind() == std::io::ErrorKind::AlreadyExists => {}
                    other => drop(other?),
                }
            }
        }
        touch(&root);
        Ok(())
    }
}

/// What a registered carton uses.
pub(super) struct Uses {
    /// None if it was never leased, or its MANIFEST is damaged.
    pub(super) manifest: Option<Manifest>,
    /// The files that MANIFEST does not list.
    pub(super) extra: BTreeSet<Sha256Digest>,
}

/// Reads what a carton registered in `root`. Whatever is damaged is as if it were not there.
pub(super) fn read_uses(root: &Path, hash: &Sha256Digest) -> Uses {
    let manifest = read_own_file(&root.join(MANIFEST_NAME), manifest::MAX_LENGTH as u64)
        .filter(|bytes| Sha256Digest::of(bytes) == *hash)
        .and_then(|bytes| Manifest::parse(&bytes).ok());
    let entries = std::fs::read_dir(root.join(USES_NAME)).into_iter().flatten().flatten();
    let extra = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    Uses { manifest, extra }
}
