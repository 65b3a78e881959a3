//! The files of a carton: compares those that MANIFEST lists with those that exist, and looks them up. Pure: reads no file, and does not
//! know where their bytes are.

use std::collections::BTreeMap;
use std::path::PathBuf;

use carton_format::digest::{Hasher, Sha256Digest};
use carton_format::links::{self, Links};
use carton_format::manifest::{self, Manifest, ManifestHash};
use carton_format::name::resolve_link;

use super::blobs::Blobs;
use super::error::{ContentsError, LinkProblem, MAX_LINK_STEPS};

/// The files that describe a carton, and up to which size each is read ahead.
pub(super) const DESCRIBING: [(&str, u64); 4] = [
    (manifest::NAME, manifest::MAX_LENGTH as u64),
    (links::NAME, Links::MAX_LENGTH as u64),
    ("carton.toml", 4 << 20),
    ("tensor_data/index.toml", 8 << 20),
];

/// The files of a carton or of a bare model, and what MANIFEST, LINKS and its registry state about them.
pub(super) struct Tree {
    /// None for a bare model.
    manifest: Option<(Manifest, ManifestHash)>,
    links: Links,
    /// Files that are neither in the carton nor in LINKS, because its registry has them.
    blobs: Blobs,
    /// Sorted by path.
    items: Vec<Item>,
}

impl Tree {
    /// The files of a carton. `items` are those of [`arrange`].
    pub(super) fn new(manifest: (Manifest, ManifestHash), links: Links, blobs: Blobs, items: Vec<Item>) -> Self {
        Self { manifest: Some(manifest), links, blobs, items }
    }

    /// The files of a model that is not in a carton, sorted by path.
    pub(super) fn bare(items: Vec<Item>) -> Self {
        Self { manifest: None, links: Links::default(), blobs: Blobs::default(), items }
    }

    /// The MANIFEST; `None` for a bare model.
    pub(super) fn manifest(&self) -> Option<&Manifest> {
        self.manifest.as_ref().map(|(manifest, _)| manifest)
    }

    pub(super) fn manifest_hash(&self) -> Option<ManifestHash> {
        self.manifest.as_ref().map(|(_, hash)| *hash)
    }

    pub(super) fn links(&self) -> &Links {
        &self.links
    }

    pub(super) fn blobs(&self) -> &Blobs {
        &self.blobs
    }

    /// All files but MANIFEST and LINKS, sorted by path.
    pub(super) fn items(&self) -> &[Item] {
        &self.items
    }

    /// The items of the model, with the links among them.
    pub(super) fn model_items(&self) -> Vec<&Item> {
        self.items.iter().filter(|item| item.path_in_model().is_some()).collect()
    }

    /// The item at a path.
    pub(super) fn find(&self, path: &str) -> Result<&Item, ContentsError> {
        let found = self.items.binary_search_by(|item| item.path.as_str().cmp(path));
        found.map(|at| &self.items[at]).map_err(|_| ContentsError::NoSuchFile { path: path.to_owned() })
    }

    /// The item that has the bytes: itself, or the file that a symbolic link leads to.
    pub(super) fn follow<'a>(&'a self, item: &'a Item) -> &'a Item {
        match item.place {
            ItemPlace::Symlink { leads_to, .. } => &self.items[leads_to],
            ItemPlace::Here { .. } | ItemPlace::Bare { .. } | ItemPlace::Linked { .. } => item,
        }
    }

    /// The size that LINKS or the registry states for a file that is elsewhere.
    pub(super) fn size_elsewhere(&self, digest: &Sha256Digest) -> Option<u64> {
        self.blobs.size(digest).or_else(|| self.links.size(digest))
    }

    /// Groups of paths that differ only in upper and lower case, which some file systems cannot hold beside each other.
    pub(super) fn case_collisions(&self) -> Vec<Vec<String>> {
        let mut groups: BTreeMap<String, Vec<&str>> = BTreeMap::new();
        for item in &self.items {
            groups.entry(item.path.to_lowercase()).or_default().push(&item.path);
        }
        let collisions = groups.into_values().filter(|group| group.len() > 1);
        collisions.map(|group| group.into_iter().map(str::to_owned).collect()).collect()
    }
}

/// What is at a path of the carton.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// A file: its size and, in an archive, which entry it is.
    File { size: u64, entry: usize },
    /// A symbolic link with its target as written.
    Symlink { target: Vec<u8> },
}

/// A file of the carton.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Item {
    pub(super) path: String,
    pub(super) place: ItemPlace,
}

/// What an item is. `digest` is its digest in MANIFEST.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ItemPlace {
    /// A file in the carton. `entry` is its position among the entries of the archive, and unused in an unpacked carton.
    Here { size: u64, entry: usize, digest: Sha256Digest },
    /// A file of a model that is not in a carton: no MANIFEST lists it.
    Bare { path: PathBuf, size: u64 },
    /// A symbolic link. `leads_to` is the position of its file in the list of items, which is never itself a link.
    Symlink { target: String, leads_to: usize, digest: Sha256Digest },
    /// A file that is not in the carton: LINKS says where it can be fetched, or the registry that the carton is in has it.
    Linked { digest: Sha256Digest },
}

impl Item {
    /// Its digest in MANIFEST; `None` in a model that is not in a carton.
    pub(super) fn digest(&self) -> Option<Sha256Digest> {
        match self.place {
            ItemPlace::Here { digest, .. } | ItemPlace::Symlink { digest, .. } | ItemPlace::Linked { digest } => {
                Some(digest)
            }
            ItemPlace::Bare { .. } => None,
        }
    }

    pub(super) fn is_symlink(&self) -> bool {
        matches!(self.place, ItemPlace::Symlink { .. })
    }

    /// The path inside the model folder, for a file of the model.
    pub(super) fn path_in_model(&self) -> Option<&str> {
        model_path(&self.path)
    }

    /// Compares the digest of the bytes that were hashed with the one in MANIFEST. A bare model has none.
    pub(super) fn compare(&self, hasher: Hasher) -> Result<(), ContentsError> {
        let Some(expected) = self.digest() else { return Ok(()) };
        let found: Sha256Digest = hasher.finish();
        if found != expected {
            return Err(ContentsError::Digest { path: self.path.clone(), expected, found });
        }
        Ok(())
    }
}

/// Joins MANIFEST and the existing files into the list of items, sorted by path. `is_elsewhere` says which missing files can be fetched.
///
/// Refused: a listed file that is neither there nor elsewhere, a file that is not listed, and links that do not lead to a
/// listed file with the same digest within the same part of the carton.
pub(super) fn arrange(
    manifest: &Manifest,
    is_elsewhere: impl Fn(&Sha256Digest) -> bool,
    mut found: BTreeMap<String, Found>,
) -> Result<Vec<Item>, ContentsError> {
    found.remove(manifest::NAME);
    found.remove(links::NAME);
    let mut targets = BTreeMap::new();
    let mut items = Vec::with_capacity(manifest.len());
    for (index, (path, digest)) in manifest.iter().enumerate() {
        let place = match found.remove(path) {
            Some(Found::File { size, entry }) => ItemPlace::Here { size, entry, digest },
            Some(Found::Symlink { target }) => {
                targets.insert(index, (target, digest));
                // Replaced below, when the positions of all files are known.
                ItemPlace::Linked { digest }
            }
            None if is_elsewhere(&digest) => ItemPlace::Linked { digest },
            None => return Err(ContentsError::Missing { path: path.to_owned() }),
        };
        items.push(Item { path: path.to_owned(), place });
    }
    if let Some((path, _)) = found.pop_first() {
        return Err(ContentsError::Unlisted { path });
    }
    lead(&mut items, &targets)?;
    Ok(items)
}

/// Follows each link to its end. `targets` has the links and their digests by their position in `items`.
fn lead(items: &mut [Item], targets: &BTreeMap<usize, (Vec<u8>, Sha256Digest)>) -> Result<(), ContentsError> {
    for (link, (target, digest)) in targets {
        let problem = |reason| ContentsError::Link {
            path: items[*link].path.clone(),
            target: String::from_utf8_lossy(target).into_owned(),
            reason,
        };
        let mut at = *link;
        let mut n_steps = 0;
        while let Some((target, _)) = targets.get(&at) {
            if n_steps == MAX_LINK_STEPS {
                return Err(problem(LinkProblem::Circle));
            }
            n_steps += 1;
            let next = resolve_link(&items[at].path, target).map_err(|error| problem(LinkProblem::Target(error)))?;
            // A model is given to its runner as one folder, without the rest of the carton.
            if is_model(&items[at].path) && !is_model(&next) {
                return Err(problem(LinkProblem::LeavesModel));
            }
            at = items
                .binary_search_by(|item| item.path.as_str().cmp(&next))
                .map_err(|_| problem(LinkProblem::Dangling))?;
        }
        if items[at].digest() != Some(*digest) {
            return Err(problem(LinkProblem::Digest));
        }
        // Only text: resolve_link took it for UTF-8 above.
        let target = String::from_utf8_lossy(target).into_owned();
        items[*link].place = ItemPlace::Symlink { target, leads_to: at, digest: *digest };
    }
    Ok(())
}

/// The path inside the model folder, for a file of the model.
pub(super) fn model_path(path: &str) -> Option<&str> {
    path.strip_prefix("model/")
}

fn is_model(path: &str) -> bool {
    model_path(path).is_some()
}
