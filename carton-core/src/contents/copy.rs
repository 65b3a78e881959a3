//! Hands files over to the writer of another carton.

use carton_format::archive::Content;
use carton_format::context::Context;

use super::locate::{Archived, Located};
use super::tree::ItemPlace;
use super::{Contents, ContentsError};

impl Contents {
    /// Returns this file in the form in which the writer of another carton takes it. The bytes are not verified here; the writer
    /// compares digests.
    ///
    /// # Errors
    /// There is no such file, or it is elsewhere and cannot be fetched.
    pub(crate) fn content(&self, path: &str, context: &Context) -> Result<Content, ContentsError> {
        let item = self.tree().find(path)?;
        if let ItemPlace::Symlink { target, digest, .. } = &item.place {
            return Ok(Content::Symlink(target.clone(), *digest));
        }
        Ok(match self.locator.locate(item) {
            Located::Local(file) => Content::Entry(file.archive.clone(), file.entry.clone()),
            Located::Remote { file: Archived { digest, .. }, .. } | Located::Linked { digest } => {
                Content::File(self.fetched(item, digest, context)?)
            }
            Located::Folder { root, .. } => Content::File(root.join(path)),
            Located::Bare { path, .. } => Content::File(path.to_path_buf()),
        })
    }
}
