//! The CRC-32 and size of a carton's files whose SHA-256 was verified, for comparing them with what the archive states. The cache keeps a
//! record of them.

use carton_format::digest::Sha256Digest;
use parking_lot::Mutex;

use super::locate::{Located, Locator};
use super::tree::Item;
use crate::cache::{Checksum, Checksums};

/// The known checksums of a carton's files.
#[derive(Default)]
pub(super) struct KnownChecksums(Mutex<Known>);

#[derive(Default)]
struct Known {
    /// By the digest of their bytes; none before the record was read.
    checksums: Option<Checksums>,
    /// Whether it has checksums that the cache has not stored.
    is_new: bool,
}

/// A file that the archive holds, and what it states.
#[derive(Clone, Copy)]
pub(super) struct Stated<'a> {
    pub(super) item: &'a Item,
    pub(super) digest: Sha256Digest,
    pub(super) checksum: Checksum,
}

impl<'a> Stated<'a> {
    /// The checksum that the archive states for an item; `None` for an item that is not in an archive, or is a symbolic link there.
    pub(super) fn of(locator: &'a Locator, item: &'a Item) -> Option<Self> {
        match locator.locate(item) {
            Located::Local(file) | Located::Remote { file, .. } if !item.is_symlink() => {
                let checksum = Checksum { crc32: file.entry.crc32(), size: file.entry.size() };
                Some(Self { item, digest: file.digest, checksum })
            }
            _ => None,
        }
    }
}

/// What the known checksums say about files.
#[derive(Default)]
pub(super) struct Compared<'a> {
    /// The files of which another checksum is known than the archive states, and that checksum.
    pub(super) differing: Vec<(Stated<'a>, Checksum)>,
    /// The files of which none is known.
    pub(super) unknown: Vec<Stated<'a>>,
}

impl KnownChecksums {
    /// Compares what the archive states about files with what is known.
    pub(super) fn compare<'a>(&self, locator: &Locator, files: impl IntoIterator<Item = Stated<'a>>) -> Compared<'a> {
        let mut compared = Compared::default();
        let mut known = self.0.lock();
        for stated in files {
            match known.loaded(locator).get(&stated.digest).copied() {
                Some(found) if found == stated.checksum => {}
                Some(found) => compared.differing.push((stated, found)),
                None => compared.unknown.push(stated),
            }
        }
        compared
    }

    /// Adds or replaces the checksum of the bytes with this digest.
    pub(super) fn add(&self, locator: &Locator, digest: Sha256Digest, checksum: Checksum) {
        self.0.lock().add(locator, digest, checksum);
    }

    /// Notes that these items were read from the archive, that their CRC-32 and size are those that the archive states, and that their
    /// digest is the one in MANIFEST.
    pub(super) fn note_proven<'a>(&self, locator: &Locator, items: impl IntoIterator<Item = &'a Item>) {
        let mut known = self.0.lock();
        known.loaded(locator);
        for Stated { digest, checksum, .. } in items.into_iter().filter_map(|item| Stated::of(locator, item)) {
            known.add(locator, digest, checksum);
        }
    }

    /// Stores the checksums that were computed since the last call. Loading a model calls this once for all of its files; dropping the
    /// contents calls it for files that were read one by one.
    pub(super) fn remember(&self, locator: &Locator) {
        let mut known = self.0.lock();
        let (Some(cache), Some(manifest)) = (locator.cache(), locator.tree().manifest_hash()) else { return };
        if !std::mem::take(&mut known.is_new) {
            return;
        }
        if let Err(error) = cache.carton(&manifest).remember_checksums(known.loaded(locator)) {
            // The only cost is reading the files once more.
            tracing::debug!(%error, "cannot record checksums");
        }
    }
}

impl Known {
    /// The known checksums, including the recorded ones.
    fn loaded(&mut self, locator: &Locator) -> &mut Checksums {
        self.checksums.get_or_insert_with(|| {
            let record = locator.cache().zip(locator.tree().manifest_hash());
            record.map(|(cache, manifest)| cache.carton(&manifest).checksums()).unwrap_or_default()
        })
    }

    fn add(&mut self, locator: &Locator, digest: Sha256Digest, checksum: Checksum) {
        self.is_new |= self.loaded(locator).insert(digest, checksum) != Some(checksum);
    }
}
