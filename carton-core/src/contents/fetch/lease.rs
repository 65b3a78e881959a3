//! Leases what a carton has in the cache.

use std::io;
use std::sync::Arc;

use carton_format::context::Context;

use super::Fetcher;
use crate::cache::{About, Lease};
use crate::contents::ContentsError;
use crate::contents::locate::Locator;

impl Fetcher {
    /// Keeps what the carton has in the cache from being deleted; none without a cache or a MANIFEST.
    pub(in crate::contents) fn lease(
        &self,
        locator: &Locator,
        context: &Context,
    ) -> Result<Option<Arc<Lease>>, ContentsError> {
        let (Some(cache), Some(manifest)) = (locator.cache(), locator.tree().manifest()) else { return Ok(None) };
        if let Some(lease) = self.lease.get() {
            return Ok(Some(lease.clone()));
        }
        match cache
            .lease_carton(manifest, locator.whole().as_slice(), context.cancel_token())
            .map_err(ContentsError::from)
        {
            Ok(lease) => {
                let about = About::new(self.model_name.as_deref(), locator.local_path());
                if let Err(error) = cache.carton(&manifest.hash()).describe(&about) {
                    tracing::debug!(%error, "cannot record what a carton is called");
                }
                Ok(Some(Arc::new(lease)))
            }
            // Nothing can be deleted from a read-only cache, so its files can be used without a lease.
            Err(ContentsError::Io { source, .. }) if source.kind() == io::ErrorKind::ReadOnlyFilesystem => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// As [`lease`](Self::lease), until this is dropped.
    pub(in crate::contents) fn hold_while(&self, locator: &Locator, context: &Context) -> Result<(), ContentsError> {
        if self.lease.get().is_none()
            && let Some(lease) = self.lease(locator, context)?
        {
            // If another thread was faster, its lease serves as well.
            let _ = self.lease.set(lease);
        }
        Ok(())
    }
}
