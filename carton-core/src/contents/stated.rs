//! Compares what an archive states about its files with what was verified, where files of the cache stand in for those of the archive.
//!
//! A carton that was edited and zipped again keeps its MANIFEST, and so leads to the files in the cache. Its directory shows the edit,
//! because it has another CRC-32 or size for an edited file. If the cache has a record of both, the comparison reads nothing;
//! otherwise, as in a cache of an earlier version, it reads the file of the cache once.

use std::path::PathBuf;

use carton_format::context::Context;
use carton_format::digest::Hasher;
use carton_tensor::parallel::par_for_each;

use super::known_checksums::{Compared, Stated};
use super::tree::Item;
use super::{Contents, ContentsError};
use crate::cache::{Checksum, checksum_of_file};

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
        let stated = items.iter().filter_map(|item| Stated::of(&self.locator, item));
        let Compared { mut differing, unknown } = self.checksums.compare(&self.locator, stated);
        par_for_each(unknown.len(), |at| {
            let Stated { item, digest, .. } = unknown[at];
            let found = path(item).map(|path| checksum_of_file(&path, context.cancel_token()));
            // If the cache lost the file meanwhile, no file stands in for the item, and there is nothing to compare.
            if let Some(found) = found.transpose()?.flatten() {
                self.checksums.add(&self.locator, digest, found);
            }
            Ok::<(), ContentsError>(())
        })?;
        differing.extend(self.checksums.compare(&self.locator, unknown).differing);
        differing.into_iter().try_for_each(|(stated, found)| self.check_differing(stated, found, context))
    }

    /// Compares the sizes and CRC-32s of all files in the archive with the recorded ones, also of files that are not used: a carton that
    /// was edited and zipped again is not the one that its MANIFEST names.
    ///
    /// # Errors
    /// As [`check_stated`](Self::check_stated).
    pub(super) fn check_recorded(&self, context: &Context) -> Result<(), ContentsError> {
        self.check_stated(&self.tree().items().iter().collect::<Vec<_>>(), &|_| None, context)
    }

    /// As [`check_stated`](Self::check_stated), for bytes in memory.
    pub(super) fn check_stated_of(&self, item: &Item, bytes: &[u8], context: &Context) -> Result<(), ContentsError> {
        match Stated::of(&self.locator, item) {
            Some(stated) if stated.checksum != Checksum::of(bytes) => {
                self.check_differing(stated, Checksum::of(bytes), context)
            }
            _ => Ok(()),
        }
    }

    /// Decides about an item whose stated checksum is not the recorded one. If the archive is local, hashes its bytes; if they match
    /// MANIFEST, replaces the record. Otherwise it is an error.
    fn check_differing(&self, stated: Stated<'_>, expected: Checksum, context: &Context) -> Result<(), ContentsError> {
        let Stated { item, digest, checksum: found } = stated;
        if self.locator.is_elsewhere(item) {
            return Err(ContentsError::Checksum { path: item.path.clone(), expected, found });
        }
        let mut hasher = Hasher::new();
        self.feed(item, context, &mut |chunk| {
            hasher.update(chunk);
            Ok(())
        })?;
        item.compare(hasher)?;
        self.checksums.add(&self.locator, digest, found);
        Ok(())
    }
}
