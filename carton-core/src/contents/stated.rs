//! Compares what an archive states about its files with what was verified, where files of the cache stand in for those of the archive.
//!
//! A carton that was edited and zipped again keeps its MANIFEST, and so leads to the files in the cache. Its directory shows the edit,
//! because it has another CRC-32 or size for an edited file. If the cache has a record of both, the comparison reads nothing;
//! otherwise, as in a cache of an earlier version, it reads the file of the cache once.

use std::path::PathBuf;

use carton_format::context::Context;
use carton_format::digest::{Hasher, Sha256Digest};
use carton_tensor::parallel::par_for_each;
use parking_lot::MutexGuard;

use super::locate::Located;
use super::state::Known;
use super::tree::Item;
use super::{Contents, ContentsError};
use crate::cache::{Checksum, Checksums, checksum_of_file};

/// A file that the archive holds, and what it states.
#[derive(Clone, Copy)]
struct Stated<'a> {
    item: &'a Item,
    digest: Sha256Digest,
    checksum: Checksum,
}

impl Contents {
    /// Compares the sizes and CRC-32s that the archive states for these items with those of the files that stand in for them. `path`
    /// returns the path of the file for an item; the file is read only if the cache has no record.
    ///
    /// # Errors
    /// An item of the archive is not the file that MANIFEST lists.
    pub(super) fn check_stated(
        &self,
        items: &[&Item],
        path: &(dyn Fn(&Item) -> Option<PathBuf> + Sync),
        context: &Context,
    ) -> Result<(), ContentsError> {
        let mut differing = Vec::new();
        let mut unknown = Vec::new();
        {
            let mut known = self.known();
            for stated in items.iter().filter_map(|item| self.stated(item)) {
                match self.loaded(&mut known).get(&stated.digest).copied() {
                    Some(found) if found == stated.checksum => {}
                    Some(found) => differing.push((stated, found)),
                    None => unknown.push(stated),
                }
            }
        }
        par_for_each(unknown.len(), |at| {
            let Stated { item, digest, .. } = unknown[at];
            let found = path(item).map(|path| checksum_of_file(&path, context.cancel_token()));
            // If the cache lost the file meanwhile, no file stands in for the item, and there is nothing to compare.
            if let Some(found) = found.transpose()?.flatten() {
                self.known().add(digest, found);
            }
            Ok::<(), ContentsError>(())
        })?;
        let mut known = self.known();
        for stated in unknown {
            let found = self.loaded(&mut known).get(&stated.digest).copied();
            differing.extend(found.filter(|found| *found != stated.checksum).map(|found| (stated, found)));
        }
        drop(known);
        differing.into_iter().try_for_each(|(stated, found)| self.check_differing(stated, found, context))
    }

    /// Compares the sizes and CRC-32s of all files in the archive with the recorded ones, also of files that are not used: a carton that
    /// was edited and zipped again is not the one that its MANIFEST names.
    ///
    /// # Errors
    /// As [`check_stated`](Self::check_stated).
    pub(super) fn check_recorded(&self, context: &Context) -> Result<(), ContentsError> {
        self.check_stated(&self.items.iter().collect::<Vec<_>>(), &|_| None, context)
    }

    /// As [`check_stated`](Self::check_stated), for bytes in memory.
    pub(super) fn check_stated_of(&self, item: &Item, bytes: &[u8], context: &Context) -> Result<(), ContentsError> {
        match self.stated(item) {
            Some(stated) if stated.checksum != Checksum::of(bytes) => {
                self.check_differing(stated, Checksum::of(bytes), context)
            }
            _ => Ok(()),
        }
    }

    /// Notes that these items were read from the archive, that their CRC-32 and size are those that the archive states, and that their
    /// digest is the one in MANIFEST.
    pub(super) fn note_proven<'a>(&self, items: impl IntoIterator<Item = &'a Item>) {
        let mut known = self.known();
        self.loaded(&mut known);
        for Stated { digest, checksum, .. } in items.into_iter().filter_map(|item| self.stated(item)) {
            known.add(digest, checksum);
        }
    }

    /// Stores the checksums that were computed since the last call. Loading a model calls this once for all of its files; dropping the
    /// contents calls it for files that were read one by one.
    pub(super) fn remember_stated(&self) {
        let mut known = self.known();
        let (Some(cache), Some(manifest)) = (&self.cache, self.manifest_hash()) else { return };
        if !std::mem::take(&mut known.is_new) {
            return;
        }
        if let Err(error) = cache.remember_checksums(&manifest, self.loaded(&mut known)) {
            // The only cost is reading the files once more.
            tracing::debug!(%error, "cannot record checksums");
        }
    }

    /// Decides about an item whose stated checksum is not the recorded one. If the archive is local, hashes its bytes; if they match
    /// MANIFEST, replaces the record. Otherwise it is an error.
    fn check_differing(&self, stated: Stated<'_>, expected: Checksum, context: &Context) -> Result<(), ContentsError> {
        let Stated { item, digest, checksum: found } = stated;
        if self.is_elsewhere(item) {
            return Err(ContentsError::Checksum { path: item.path.clone(), expected, found });
        }
        let mut hasher = Hasher::new();
        self.feed(item, context, &mut |chunk| {
            hasher.update(chunk);
            Ok(())
        })?;
        self.compare(item, hasher)?;
        let mut known = self.known();
        self.loaded(&mut known);
        known.add(digest, found);
        Ok(())
    }

    /// The checksum that the archive states for an item; `None` for an item that is not in an archive, or is a symbolic link there.
    fn stated<'a>(&'a self, item: &'a Item) -> Option<Stated<'a>> {
        match self.locate(item) {
            Located::Local(file) | Located::Remote { file, .. } if !item.is_symlink() => {
                let checksum = Checksum { crc32: file.entry.crc32(), size: file.entry.size() };
                Some(Stated { item, digest: file.digest, checksum })
            }
            _ => None,
        }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock()
    }

    /// The known checksums, including the recorded ones.
    fn loaded<'a>(&self, known: &'a mut Known) -> &'a mut Checksums {
        known.checksums.get_or_insert_with(|| {
            let record = self.cache.as_ref().zip(self.manifest_hash());
            record.map(|(cache, manifest)| cache.checksums(&manifest)).unwrap_or_default()
        })
    }
}

impl Drop for Contents {
    /// Records the checksums learned from files that were read one by one.
    fn drop(&mut self) {
        self.remember_stated();
    }
}
