//! Compares what an archive states about its files with what was verified, where files of the cache stand in for those of the archive.
//!
//! A carton that was edited and zipped again keeps its MANIFEST, and so leads to the files in the cache. Its directory shows the edit,
//! because it has another CRC-32 or size for an edited file. If the cache has a record of both, the comparison reads nothing;
//! otherwise, as in a cache of an earlier version, it reads the file of the cache once.

use std::path::PathBuf;

use carton_tensor::parallel::par_for_each;
use parking_lot::MutexGuard;

use super::locate::Located;
use super::progress::Meter;
use super::state::Known;
use super::tree::Item;
use super::{Contents, ContentsError};
use crate::cache::{Checksum, Checksums, checksum_of_file};
use crate::digest::{Hasher, Sha256Digest};

/// A file that the archive holds, and what it states.
#[derive(Clone, Copy)]
struct Stated<'a> {
    item: &'a Item,
    digest: Sha256Digest,
    checksum: Checksum,
}

impl Contents {
    /// Compares what the archive states of these items with the files that stand in for them. `path` is where the file of an item
    /// is; it is only read if nothing is on record.
    ///
    /// # Errors
    /// An item of the archive is not the file that MANIFEST lists.
    pub(super) fn check_stated(
        &self,
        items: &[&Item],
        path: &(dyn Fn(&Item) -> Option<PathBuf> + Sync),
        meter: &Meter<'_>,
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
            let found = path(item).map(|path| checksum_of_file::<ContentsError>(&path, &|_| meter.advance(0)));
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
        differing.into_iter().try_for_each(|(stated, found)| self.check_differing(stated, found))
    }

    /// Compares what the archive states of all its files with what is on record, for files that nothing stands in for as well: a carton
    /// that was edited and zipped again is not the one that its MANIFEST names, whichever of its files are used.
    ///
    /// # Errors
    /// As [`check_stated`](Self::check_stated).
    pub(super) fn check_recorded(&self, meter: &Meter<'_>) -> Result<(), ContentsError> {
        self.check_stated(&self.items.iter().collect::<Vec<_>>(), &|_| None, meter)
    }

    /// As [`check_stated`](Self::check_stated), for bytes that are at hand.
    pub(super) fn check_stated_of(&self, item: &Item, bytes: &[u8]) -> Result<(), ContentsError> {
        match self.stated(item) {
            Some(stated) if stated.checksum != Checksum::of(bytes) => self.check_differing(stated, Checksum::of(bytes)),
            _ => Ok(()),
        }
    }

    /// Notes that the bytes of these items came from the archive, which found their CRC-32 and size to be as it states, and that
    /// MANIFEST lists their digest.
    pub(super) fn note_proven<'a>(&self, items: impl IntoIterator<Item = &'a Item>) {
        let mut known = self.known();
        self.loaded(&mut known);
        for Stated { digest, checksum, .. } in items.into_iter().filter_map(|item| self.stated(item)) {
            known.add(digest, checksum);
        }
    }

    /// Records the checksums that were found out since the last call. Loading a model calls this once for all of its files; dropping the
    /// contents calls it for files that were read one by one.
    pub(super) fn remember_stated(&self) {
        let mut known = self.known();
        let (Some(cache), Some(manifest)) = (&self.cache, self.manifest_hash()) else { return };
        if !std::mem::take(&mut known.is_new) {
            return;
        }
        if let Err(error) = cache.remember_checksums(&manifest, self.loaded(&mut known)) {
            // It costs reading the files once more.
            tracing::debug!(%error, "cannot record checksums");
        }
    }

    /// Tells what is wrong with an item that is not what was verified. The archive's own bytes have the last word where they are at
    /// hand: should they be right, what was on record is not.
    fn check_differing(&self, stated: Stated<'_>, expected: Checksum) -> Result<(), ContentsError> {
        let Stated { item, digest, checksum: found } = stated;
        if self.is_elsewhere(item) {
            return Err(ContentsError::Checksum { path: item.path.clone(), expected, found });
        }
        let mut hasher = Hasher::new();
        self.feed(item, &mut |chunk| {
            hasher.update(chunk);
            Ok(())
        })?;
        self.compare(item, hasher)?;
        let mut known = self.known();
        self.loaded(&mut known);
        known.add(digest, found);
        Ok(())
    }

    /// What the archive states of an item; `None` for an item that is not in an archive, or is a symbolic link there.
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

    /// The checksums that are known, with those on record.
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
