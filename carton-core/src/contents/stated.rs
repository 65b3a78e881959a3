//! What an archive states of its files against what was verified, wherever files of the cache stand in for those of an archive.
//!
//! A carton that was changed and zipped again keeps its MANIFEST, and so leads to the files that the cache has. Its directory gives
//! it away, because the CRC-32 or the size of a changed file is another one there. Nothing is read for this where the cache has a
//! record of both; where it has none, as one of an earlier version, the file of the cache is read once.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::{MutexGuard, PoisonError};

use carton_tensor::parallel::par_for_each;

use super::origin::Origin;
use super::progress::Meter;
use super::{Contents, ContentsError, Place};
use crate::archive::EntryKind;
use crate::cache::{Checksum, Checksums, checksum_of_file};
use crate::digest::{Hasher, Sha256Digest};

/// What is known of the checksums of a carton's files.
#[derive(Default)]
pub(super) struct Known {
    /// By the digest of their bytes; none before the record was read.
    checksums: Option<Checksums>,
    /// Whether there are some that are not on record.
    is_new: bool,
    /// Items whose bytes came from this archive, which compared their CRC-32 and size, and had the digest that MANIFEST lists.
    proven: BTreeSet<usize>,
}

/// A file that the archive holds, and what it states.
#[derive(Clone, Copy)]
struct Stated {
    index: usize,
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
        indices: &[usize],
        path: &(dyn Fn(usize) -> Option<PathBuf> + Sync),
        meter: &Meter<'_>,
    ) -> Result<(), ContentsError> {
        let mut differing = Vec::new();
        let mut unknown = Vec::new();
        {
            let mut known = self.known();
            for stated in indices.iter().filter_map(|index| self.stated(*index)) {
                match self.loaded(&mut known).get(&stated.digest).copied() {
                    Some(found) if found == stated.checksum => {}
                    Some(found) => differing.push((stated, found)),
                    None if known.proven.contains(&stated.index) => known.add(stated.digest, stated.checksum),
                    None => unknown.push(stated),
                }
            }
        }
        par_for_each(unknown.len(), |at| {
            let Stated { index, digest, .. } = unknown[at];
            let found = path(index).map(|path| checksum_of_file::<ContentsError>(&path, &|_| meter.advance(0)));
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
        let all: Vec<usize> = (0..self.items.len()).collect();
        self.check_stated(&all, &|_| None, meter)
    }

    /// As [`check_stated`](Self::check_stated), for bytes that are at hand.
    pub(super) fn check_stated_of(&self, index: usize, bytes: &[u8]) -> Result<(), ContentsError> {
        match self.stated(index) {
            Some(stated) if stated.checksum != Checksum::of(bytes) => self.check_differing(stated, Checksum::of(bytes)),
            _ => Ok(()),
        }
    }

    /// Notes that the bytes of these items came from the archive, which found their CRC-32 and size to be as it states, and that
    /// MANIFEST lists their digest.
    pub(super) fn note_proven(&self, indices: impl IntoIterator<Item = usize>) {
        self.known().proven.extend(indices);
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
    fn check_differing(&self, stated: Stated, expected: Checksum) -> Result<(), ContentsError> {
        let Stated { index, digest, checksum: found } = stated;
        if self.is_elsewhere(index) {
            return Err(ContentsError::Checksum { path: self.items[index].path.clone(), expected, found });
        }
        let mut hasher = Hasher::new();
        self.feed(index, &mut |chunk| {
            hasher.update(chunk);
            Ok(())
        })?;
        self.compare(index, hasher)?;
        let mut known = self.known();
        self.loaded(&mut known);
        known.add(digest, found);
        Ok(())
    }

    /// What the archive states of an item; `None` for an item that is not in an archive, or is not a regular file there.
    fn stated(&self, index: usize) -> Option<Stated> {
        let item = &self.items[index];
        let (Origin::Archive { archive, .. }, Place::Here { entry, .. }) = (&self.origin, &item.place) else {
            return None;
        };
        let entry = archive.entries().get(*entry).filter(|entry| entry.kind() == EntryKind::File)?;
        let checksum = Checksum { crc32: entry.crc32(), size: entry.size() };
        Some(Stated { index, digest: item.digest?, checksum })
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The checksums that are known, with those on record.
    fn loaded<'a>(&self, known: &'a mut Known) -> &'a mut Checksums {
        known.checksums.get_or_insert_with(|| {
            let record = self.cache.as_ref().zip(self.manifest_hash());
            record.map(|(cache, manifest)| cache.checksums(&manifest)).unwrap_or_default()
        })
    }
}

impl Known {
    fn add(&mut self, digest: Sha256Digest, checksum: Checksum) {
        let checksums = self.checksums.get_or_insert_default();
        self.is_new |= checksums.insert(digest, checksum) != Some(checksum);
    }
}
