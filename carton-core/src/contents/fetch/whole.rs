//! Files of a carton that was downloaded as a whole: put into the cache one by one, so that the carton itself need not stay there.

use std::collections::HashSet;
use std::sync::Arc;

use carton_format::context::Context;
use carton_format::source::Source;
use carton_tensor::parallel::par_for_each;

use super::Fetch;
use super::archived::Small;
use crate::contents::locate::{Archived, Located};
use crate::contents::origin::Origin;
use crate::contents::tree::Item;
use crate::contents::{Contents, ContentsError};

impl Contents {
    /// Copies every file of the archive from the local source `local` into the cache, verified, and leases them while this lives.
    ///
    /// # Errors
    /// A file is not what MANIFEST lists, or the cache cannot be written to. Files that were copied before stay.
    pub(crate) fn keep_files(&self, local: Arc<dyn Source>, context: &Context) -> Result<(), ContentsError> {
        let (Some(cache), Some(access), Origin::Archive { archive, .. }) =
            (self.locator.cache(), self.fetcher.access.as_ref(), self.locator.origin())
        else {
            return Err(ContentsError::NoSuchFile { path: self.location() });
        };
        self.fetcher.hold_while(&self.locator, context)?;
        // The bytes are local, so nothing is reported.
        let fetch = Fetch::new(
            &self.locator,
            &self.checksums,
            cache,
            access,
            Context::new(context.cancel_token().clone(), None),
        );
        let archive = archive.with_source(local);
        let (small, large): (Vec<_>, Vec<_>) = self.archived().partition(|file| self.locator.is_small(file.item));
        par_for_each(large.len(), |at| fetch.keep(&archive, &large[at], &mut Small::new(cache)))?;
        let mut files = Small::new(cache);
        small.iter().try_for_each(|file| fetch.keep(&archive, file, &mut files))?;
        files.store()?;
        let all: Vec<&Item> = self.archived().map(|file| file.item).collect();
        let path = |item: &Item| Some(cache.files().path(&item.digest()?));
        self.check_stated(&all, &path, context)?;
        self.checksums.remember(&self.locator);
        Ok(())
    }

    /// Leases the files of this carton in the cache while this lives, and returns whether the cache has every file of the archive.
    pub(crate) fn holds_files(&self, context: &Context) -> Result<bool, ContentsError> {
        self.fetcher.hold_while(&self.locator, context)?;
        let Some(cache) = self.locator.cache() else { return Ok(false) };
        for file in self.archived() {
            let is_there = match self.locator.is_small(file.item) {
                true => cache.files().has(&file.digest),
                false => cache.files().checked(&file.digest, context.cancel_token())?.is_some(),
            };
            if !is_there {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The files that the archive holds, each digest once.
    fn archived(&self) -> impl Iterator<Item = Archived<'_>> {
        let mut seen = HashSet::new();
        let files = self.tree().items().iter().filter(|item| !item.is_symlink()).filter_map(|item| {
            match self.locator.locate(item) {
                Located::Local(file) | Located::Remote { file, .. } => Some(file),
                Located::Folder { .. } | Located::Bare { .. } | Located::Linked { .. } => None,
            }
        });
        files.filter(move |file| seen.insert(file.digest))
    }
}
