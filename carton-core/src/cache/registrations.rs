//! Which cartons use the cache, and which files each of them uses: `cartons-v1`.
//!
//! A carton is registered when it is leased. It then holds the files that its MANIFEST lists, and the extra ones that it names, until the
//! registration is deleted. The modification time of its folder is the time of its last use.

use std::collections::BTreeSet;
use std::path::Path;

use carton_format::context::CancelToken;
use carton_format::digest::Sha256Digest;
use carton_format::manifest::{self, Manifest, ManifestHash};

use super::folder::{create_folder, touch};
use super::partial::create_file;
use super::record::read_own_file;
use super::{Cache, CacheError, Lease};

pub(super) const MANIFEST_NAME: &str = "MANIFEST";
const USES_NAME: &str = "uses";

impl Cache {
    /// Takes a lease: the files and the model folder of this carton are not deleted while it lives. Also records the use of the carton.
    /// `extra` are files that MANIFEST does not list, such as the carton itself.
    ///
    /// Take the lease before looking for the files: files that were found earlier may have been deleted.
    pub(crate) fn lease_carton(
        &self,
        manifest: &Manifest,
        extra: &[Sha256Digest],
        cancel_token: &CancelToken,
    ) -> Result<Lease, CacheError> {
        let hash = manifest.hash();
        let no_prune = self.hold_off_prune(cancel_token)?;
        let lease = self.lease_under(&no_prune, &hash, cancel_token)?;
        // A full disk must not keep a carton from being loaded. While a carton is leased whose files are not recorded, `prune` deletes no
        // file at all.
        if let Err(error) = self.register(&hash, manifest, extra) {
            tracing::debug!(%error, "cannot record the use of a carton");
        }
        Ok(lease)
    }

    fn register(&self, hash: &ManifestHash, manifest: &Manifest, extra: &[Sha256Digest]) -> Result<(), CacheError> {
        let root = self.layout.carton(hash);
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
                // The name is the whole record: many processes can add empty files without a lock.
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

/// The files that a registered carton uses.
pub(super) struct Uses {
    /// `None` if the carton was never leased, or its MANIFEST is damaged.
    pub(super) manifest: Option<Manifest>,
    /// The files in use that MANIFEST does not list.
    pub(super) extra: BTreeSet<Sha256Digest>,
}

/// Reads a carton's registration from `root`. Damaged parts count as missing.
pub(super) fn read_uses(root: &Path, hash: &ManifestHash) -> Uses {
    let manifest = read_own_file(&root.join(MANIFEST_NAME), manifest::MAX_LENGTH as u64)
        .filter(|bytes| ManifestHash::of(bytes) == *hash)
        .and_then(|bytes| Manifest::parse(&bytes).ok());
    let entries = std::fs::read_dir(root.join(USES_NAME)).into_iter().flatten().flatten();
    let extra = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    Uses { manifest, extra }
}
