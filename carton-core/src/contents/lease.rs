//! Leases what a carton has in the cache.

use std::io;
use std::sync::Arc;

use carton_format::context::Context;

use super::{Contents, ContentsError};
use crate::cache::{About, Lease};

impl Contents {
    /// Keeps what the carton has in the cache from being deleted; none without a cache or a MANIFEST.
    pub(super) fn lease(&self, context: &Context) -> Result<Option<Arc<Lease>>, ContentsError> {
        let (Some(cache), Some((manifest, _))) = (&self.cache, &self.manifest) else { return Ok(None) };
        if let Some(lease) = self.lease.get() {
            return Ok(Some(lease.clone()));
        }
        match cache.lease_carton(manifest, self.whole.as_slice(), context.cancel_token()).map_err(ContentsError::from) {
            Ok(lease) => {
                let about = About::new(self.model_name.as_deref(), self.origin.local_path(self.whole));
                if let Err(error) = cache.describe(&manifest.hash(), &about) {
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
    pub(super) fn hold_while(&self, context: &Context) -> Result<(), ContentsError> {
        if self.lease.get().is_none()
            && let Some(lease) = self.lease(context)?
        {
            // If another thread was faster, its lease serves as well.
            let _ = self.lease.set(lease);
        }
        Ok(())
    }
}
