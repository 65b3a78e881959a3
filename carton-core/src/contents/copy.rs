//! Files on their way into another carton.

use super::origin::Origin;
use super::{Contents, ContentsError, Place};
use crate::archive::{Content, EntryKind};

impl Contents {
    /// What puts this file into another carton. Nothing of it was verified: whoever writes that one compares digests.
    ///
    /// # Errors
    /// There is no such file, or it is linked and not fetched.
    pub(crate) fn content(&self, path: &str) -> Result<Content, ContentsError> {
        let item = &self.items[self.find(path)?];
        let missing = || ContentsError::NoSuchFile { path: item.path.clone() };
        match (&item.place, &self.origin) {
            (Place::Symlink { target, .. }, _) => {
                Ok(Content::Symlink(target.clone(), item.digest.ok_or_else(missing)?))
            }
            (Place::Linked, _) => Ok(Content::File(self.fetched(item)?.1)),
            (Place::Here { entry, .. }, Origin::Archive { archive, .. }) => {
                // What was fetched is in the cache, and need not be fetched again.
                if archive.source().file().is_none()
                    && let (Some(cache), Some(digest)) = (&self.cache, item.digest)
                    && cache.file_path(&digest).is_file()
                {
                    return Ok(Content::File(cache.file_path(&digest)));
                }
                let entry = archive.entries().get(*entry).filter(|entry| entry.kind() == EntryKind::File);
                Ok(Content::Entry(archive.clone(), entry.ok_or_else(missing)?.clone()))
            }
            (Place::Here { .. }, origin) => Ok(Content::File(origin.path_of(item).ok_or_else(missing)?)),
        }
    }
}
