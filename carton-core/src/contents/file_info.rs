//! Describes the files of a carton.

use carton_format::archive::Method;
use carton_format::digest::Sha256Digest;
use serde::Serialize;

use super::locate::{Located, Locator};
use super::tree::{Item, ItemPlace};
use super::{Contents, ContentsError};

/// What is known about a file without reading it.
///
/// As JSON, the names are those of the fields here; unknown values are `null`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct FileInfo {
    /// Its path in the carton.
    pub path: String,
    /// Its digest in MANIFEST; none in a model that is not in a carton.
    pub sha256: Option<Sha256Digest>,
    /// Its length; unknown when it is linked and not fetched. For a symbolic link, that of the file it leads to.
    pub size: Option<u64>,
    /// How many bytes it takes in the archive, or in the unpacked folder.
    pub stored: Option<u64>,
    /// How its data is stored in the archive; none for a file that is in none.
    pub method: Option<Method>,
    /// Whether it is not in the carton, and LINKS says where it can be fetched.
    pub linked: bool,
    /// For a symbolic link, its target as written.
    pub symlink: Option<String>,
}

impl Contents {
    /// Whether there is a file at this path.
    pub(crate) fn contains(&self, path: &str) -> bool {
        self.tree().find(path).is_ok()
    }

    /// Whether the bytes of the file at this path are on this machine without the cache.
    pub(crate) fn is_here(&self, path: &str) -> bool {
        self.tree().find(path).is_ok_and(|item| !self.locator.is_elsewhere(item))
    }

    /// The length of a file, or of the file that a symbolic link leads to. `None` if it is linked, not in the cache, and LINKS does not
    /// give its size.
    ///
    /// # Errors
    /// There is no such file.
    pub(crate) fn size_of(&self, path: &str) -> Result<Option<u64>, ContentsError> {
        Ok(self.locator.size(self.tree().find(path)?))
    }

    /// All files but MANIFEST and LINKS, sorted by path.
    pub(crate) fn files(&self) -> Vec<FileInfo> {
        self.tree().items().iter().map(|item| self.locator.file_info(item)).collect()
    }
}

impl Locator {
    fn file_info(&self, item: &Item) -> FileInfo {
        let (symlink, stored, method, linked) = match (&item.place, self.locate(item)) {
            (ItemPlace::Symlink { target, .. }, _) => (Some(target.clone()), Some(target.len() as u64), None, false),
            (_, Located::Local(file) | Located::Remote { file, .. }) => {
                (None, Some(file.entry.compressed_size()), Some(file.entry.method()), false)
            }
            (_, Located::Folder { size, .. } | Located::Bare { size, .. }) => (None, Some(size), None, false),
            // A file in the carton's registry is a part of the carton, which needs no link to it.
            (_, Located::Linked { digest }) => (None, None, None, !self.tree().blobs().has(&digest)),
        };
        let (path, sha256, size) = (item.path.clone(), item.digest(), self.size(item));
        FileInfo { path, sha256, size, stored, method, linked, symlink }
    }
}
