//! Files that are verified where they are: those of an unpacked carton one by one, those that an archive stores without compression
//! together. The cache records both, so that the same bytes are hashed only once.

use std::collections::HashSet;
use std::fs::File;
use std::path::Path;

use carton_format::context::Meter;
use carton_format::digest::{Hasher, Sha256Digest};
use carton_format::source::FileIdentity;
use carton_tensor::parallel::par_for_each;
use parking_lot::Mutex;

use super::locate::{Located, Locator};
use super::origin::Origin;
use super::raw_reader::open_in_folder;
use super::tree::Item;
use super::{Contents, ContentsError};
use crate::cache::{Checked, FolderIndex, Line, Scope, check_bytes};

impl Contents {
    /// Verifies the stored files in `scope`, unless a record for this archive exists.
    pub(super) fn verify_stored<'a>(
        &self,
        items: impl IntoIterator<Item = &'a Item>,
        scope: Scope,
        meter: &Meter<'_>,
    ) -> Result<(), ContentsError> {
        let order = self.locator.largest_first(items);
        let identity = self.locator.origin().unchanged_identity()?;
        if identity.is_some_and(|identity| self.locator.is_archive_verified(&identity, scope)) {
            return Ok(meter.advance(order.iter().filter_map(|item| self.locator.size(item)).sum())?);
        }
        par_for_each(order.len(), |at| {
            let mut hasher = Hasher::new();
            self.feed(order[at], meter.context(), &mut |chunk| {
                hasher.update(chunk);
                Ok(meter.advance(chunk.len() as u64)?)
            })?;
            order[at].compare(hasher)
        })?;
        self.locator.remember_archive(scope)
    }

    /// Verifies files of an unpacked carton where they are, unless the cache remembers them.
    pub(super) fn verify_in_folder(
        &self,
        root: &Path,
        items: &[&Item],
        meter: &Meter<'_>,
    ) -> Result<(), ContentsError> {
        let (folder, known) = self.locator.known_of_folder(root)?;
        let lines = Mutex::new(Vec::new());
        let order = self.locator.largest_first(items.iter().copied().filter(|item| !item.is_symlink()));
        par_for_each(order.len(), |at| {
            if let Located::Folder { digest, .. } = self.locator.locate(order[at])
                && let (_, Some(line)) = verified_in_folder(root, order[at], digest, &known, meter)?
            {
                lines.lock().push(line);
            }
            Ok::<(), ContentsError>(())
        })?;
        self.locator.remember_in_folder(&folder, known, items, lines.into_inner());
        Ok(())
    }
}

/// The records in the cache about files that were verified where they are.
impl Locator {
    /// Whether the cache remembers that these files of the archive with this identity were verified.
    fn is_archive_verified(&self, identity: &FileIdentity, scope: Scope) -> bool {
        let known = self.cache().zip(self.tree().manifest_hash());
        known.is_some_and(|(cache, hash)| cache.verifications().is_carton_verified(identity, &hash, scope))
    }

    /// Records that the carton's files were verified, if it is still as it was opened and a change would have shown.
    pub(super) fn remember_archive(&self, scope: Scope) -> Result<(), ContentsError> {
        let Some(identity) = self.origin().unchanged_identity()? else { return Ok(()) };
        let Origin::Archive { opened_at: Some(moment), .. } = self.origin() else { return Ok(()) };
        let (Some(cache), Some(manifest_sha256)) = (self.cache(), self.tree().manifest_hash()) else { return Ok(()) };
        if moment.is_after(&identity)
            && let Err(error) = cache.verifications().remember_carton(&identity, manifest_sha256, scope)
        {
            // The only cost is another verification.
            tracing::debug!(%error, "cannot record a verification");
        }
        Ok(())
    }

    /// The identity of the folder of an unpacked carton, and the stored lines about its files, sorted by path.
    pub(super) fn known_of_folder(&self, root: &Path) -> Result<(FileIdentity, Vec<Line>), ContentsError> {
        let metadata = std::fs::metadata(root).map_err(ContentsError::io("inspect", root))?;
        let folder = FileIdentity::of(&metadata);
        let known = self.cache().and_then(|cache| cache.verifications().folder_index(&folder));
        Ok((folder, known.map(|index| index.lines).unwrap_or_default()))
    }

    /// Stores `lines` as the records of these items. The records of other items stay.
    pub(super) fn remember_in_folder(
        &self,
        folder: &FileIdentity,
        known: Vec<Line>,
        items: &[&Item],
        mut lines: Vec<Line>,
    ) {
        let (Some(cache), Some(manifest)) = (self.cache(), self.tree().manifest_hash()) else { return };
        let replaced: HashSet<&str> = items.iter().map(|item| item.path.as_str()).collect();
        let is_other = |line: &&Line| {
            let is_listed = self.tree().find(&line.path).is_ok_and(|item| item.digest() == line.digest);
            is_listed && !replaced.contains(line.path.as_str())
        };
        lines.extend(known.iter().filter(is_other).cloned());
        lines.sort_by(|one, other| one.path.cmp(&other.path));
        if lines != known
            && let Err(error) = cache.verifications().remember_folder(folder, &FolderIndex { manifest, lines })
        {
            tracing::debug!(%error, "cannot record a verification");
        }
    }
}

/// Opens and verifies a file of an unpacked carton, unless `known` has its identity. Also returns the line to store.
pub(super) fn verified_in_folder(
    root: &Path,
    item: &Item,
    digest: Sha256Digest,
    known: &[Line],
    meter: &Meter<'_>,
) -> Result<((File, FileIdentity), Option<Line>), ContentsError> {
    let (file, path, identity) = open_in_folder(root, item)?;
    let line = Line { path: item.path.clone(), digest: Some(digest), identity };
    let remembered = known.binary_search_by(|known| known.path.cmp(&line.path)).ok().map(|at| &known[at]);
    if remembered == Some(&line) {
        meter.advance(identity.size)?;
        return Ok(((file, identity), Some(line)));
    }
    match check_bytes(&path, &file, &digest, &|n_bytes| meter.advance(n_bytes))? {
        Checked::Wrong(found) => Err(ContentsError::Digest { path: item.path.clone(), expected: digest, found }),
        Checked::Right(proven) => Ok(((file, identity), (proven == Some(identity)).then_some(line))),
    }
}
