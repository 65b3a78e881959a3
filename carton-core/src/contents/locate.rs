//! Finds the bytes of each file. Every operation on a file asks [`Locator::locate`] where they are.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use carton_format::archive::{Archive, Entry};
use carton_format::digest::Sha256Digest;
use carton_network::remote_source::RemoteSource;

use super::origin::Origin;
use super::tree::{Item, ItemPlace, Tree};
use crate::cache::{Cache, SHARED_FROM};

/// Knows where the bytes of each file are: in what was opened, in the cache, or elsewhere. Fetches nothing, and reads no bytes of files.
pub(super) struct Locator {
    tree: Tree,
    origin: Origin,
    cache: Option<Arc<Cache>>,
    /// The file of the cache that was opened, if it is one.
    whole: Option<Sha256Digest>,
}

/// Where the bytes of an item are. Symbolic links are followed. `digest` is the digest in MANIFEST.
pub(super) enum Located<'a> {
    /// In an archive that is read without requests.
    Local(Archived<'a>),
    /// In an archive on a server. They are fetched into the cache before they are used.
    Remote { file: Archived<'a>, remote: &'a RemoteSource },
    /// In a file of the unpacked carton at `root`.
    Folder { root: &'a Path, size: u64, digest: Sha256Digest },
    /// In a file of a model that is not in a carton.
    Bare { path: &'a Path, size: u64 },
    /// Not in the carton: at a URL of LINKS, or in the carton's registry. They are fetched into the cache before they are used.
    Linked { digest: Sha256Digest },
}

/// A file in an archive.
#[derive(Clone, Copy)]
pub(super) struct Archived<'a> {
    pub(super) item: &'a Item,
    pub(super) archive: &'a Archive,
    pub(super) entry: &'a Entry,
    pub(super) digest: Sha256Digest,
}

impl Located<'_> {
    /// The digest of a file that must be fetched unless the cache has it.
    pub(super) fn elsewhere(&self) -> Option<Sha256Digest> {
        match self {
            Self::Remote { file, .. } => Some(file.digest),
            Self::Linked { digest } => Some(*digest),
            Self::Local(_) | Self::Folder { .. } | Self::Bare { .. } => None,
        }
    }
}

impl Locator {
    /// Without a cache.
    pub(super) fn new(tree: Tree, origin: Origin) -> Self {
        Self { tree, origin, cache: None, whole: None }
    }

    pub(super) fn set_cache(&mut self, cache: Option<Arc<Cache>>) {
        self.cache = cache;
    }

    pub(super) fn set_whole(&mut self, whole: Option<Sha256Digest>) {
        self.whole = whole;
    }

    pub(super) fn tree(&self) -> &Tree {
        &self.tree
    }

    pub(super) fn origin(&self) -> &Origin {
        &self.origin
    }

    pub(super) fn cache(&self) -> Option<&Cache> {
        self.cache.as_deref()
    }

    /// The file of the cache that was opened, if it is one.
    pub(super) fn whole(&self) -> Option<Sha256Digest> {
        self.whole
    }

    /// The user's file or folder that was opened; `None` for a file of the cache or of a server.
    pub(super) fn local_path(&self) -> Option<PathBuf> {
        self.origin.local_path(self.whole)
    }

    /// Returns where the bytes of an item are.
    pub(super) fn locate<'a>(&'a self, item: &'a Item) -> Located<'a> {
        match (&item.place, &self.origin) {
            (ItemPlace::Symlink { .. }, _) => self.locate(self.tree.follow(item)),
            (ItemPlace::Linked { digest }, _) => Located::Linked { digest: *digest },
            (ItemPlace::Bare { path, size }, _) => Located::Bare { path, size: *size },
            (ItemPlace::Here { entry, digest, .. }, Origin::Archive { archive, remote, .. }) => {
                let file = Archived { item, archive, entry: &archive.entries()[*entry], digest: *digest };
                match remote {
                    Some(remote) => Located::Remote { file, remote },
                    None => Located::Local(file),
                }
            }
            (
                ItemPlace::Here { size, digest, .. },
                Origin::Folder(root) | Origin::BareFolder { path: root, .. } | Origin::BareFile(root),
            ) => Located::Folder { root, size: *size, digest: *digest },
        }
    }

    /// Whether an item's bytes must be fetched unless the cache has them.
    pub(super) fn is_elsewhere(&self, item: &Item) -> bool {
        self.locate(item).elsewhere().is_some()
    }

    /// The length of an item, unless it is linked, not fetched, and LINKS does not give it.
    pub(super) fn size(&self, item: &Item) -> Option<u64> {
        match self.locate(item) {
            Located::Local(file) | Located::Remote { file, .. } => Some(file.entry.size()),
            Located::Folder { size, .. } | Located::Bare { size, .. } => Some(size),
            Located::Linked { digest } => {
                let fetched = self.cache.as_ref().and_then(|cache| std::fs::metadata(cache.files().path(&digest)).ok());
                fetched.map(|metadata| metadata.len()).or_else(|| self.tree.size_elsewhere(&digest))
            }
        }
    }

    /// Whether an item is so small that it is read as a whole, and hashed each time.
    pub(super) fn is_small(&self, item: &Item) -> bool {
        self.size(item).is_some_and(|size| size < SHARED_FROM)
    }

    /// How many bytes these items have, as far as that is known. A link has none of its own.
    pub(super) fn total(&self, items: &[&Item]) -> u64 {
        items.iter().filter(|item| !item.is_symlink()).filter_map(|item| self.size(item)).sum()
    }

    /// Largest first, so that no core is left with a large one at the end; small ones in their order.
    pub(super) fn largest_first<'a>(&self, items: impl IntoIterator<Item = &'a Item>) -> Vec<&'a Item> {
        let mut items: Vec<&Item> = items.into_iter().collect();
        items.sort_by_key(|item| std::cmp::Reverse(self.size(item).unwrap_or(0) / (1024 * 1024)));
        items
    }
}
