//! Files on their way into another carton.

use super::origin::Origin;
use super::{Contents, ContentsError, Place};
use crate::archive::{Content, EntryKind};

impl Contents {
    /// What puts this file into another carton. Nothing of it was verified: whoever writes that one compares digests.
    ///
    /// # Errors
    /// There is no such file, or it is elsewhere and cannot be fetched.
    pub(crate) fn content(&self, path: &str) -> Result<Content, ContentsError> {
        let index = self.find(path)?;
        let item = &self.items[index];
        let missing = || ContentsError::NoSuchFile { path: item.path.clone() };
        match (&item.place, &self.origin) {
            (Place::Symlink { target, .. }, _) => {
                Ok(Content::Symlink(target.clone(), item.digest.ok_or_else(missing)?))
            }
            _ if self.is_elsewhere(index) => Ok(Content::File(self.fetched(index)?)),
            (Place::Linked, _) => Err(missing()),
            (Place::Here { entry, .. }, Origin::Archive { archive, .. }) => {
                let entry = archive.entries().get(*entry).filter(|entry| entry.kind() == EntryKind::File);
                Ok(Content::Entry(archive.clone(), entry.ok_or_else(missing)?.clone()))
            }
            (Place::Here { .. }, origin) => Ok(Content::File(origin.path_of(item).ok_or_else(missing)?)),
        }
    }
}
