//! The buffers of this side that are lent to the peer.

use std::collections::BTreeMap;
use std::sync::Arc;

use carton_tensor::Storage;
use parking_lot::{Mutex, MutexGuard};

use super::pool::PoolBuffer;
use crate::message::Release;
use crate::protocol_error::ProtocolError;

/// A buffer that is about to be lent. A message names it by its region and the offset of the tensor.
pub(crate) struct Lend {
    pub(crate) region: u64,
    pub(crate) offset: u64,
    /// A [`PoolBuffer`].
    pub(crate) storage: Arc<dyn Storage>,
}

/// Lent buffers by region and offset, with the number of times that each was named and not yet released. Holding a buffer keeps it
/// alive and prevents writes to it.
#[derive(Default)]
pub(crate) struct LentBuffers(Mutex<BTreeMap<(u64, u64), Entry>>);

struct Entry {
    storage: Arc<dyn Storage>,
    count: u64,
}

impl LentBuffers {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<(u64, u64), Entry>> {
        self.0.lock()
    }

    pub(crate) fn lend(&self, lends: Vec<Lend>) {
        if lends.is_empty() {
            return;
        }
        let mut lent = self.lock();
        for Lend { region, offset, storage } in lends {
            lent.entry((region, offset)).or_insert(Entry { storage, count: 0 }).count += 1;
        }
    }

    /// Takes back buffers that the peer releases.
    pub(crate) fn release(&self, releases: &[Release]) -> Result<(), ProtocolError> {
        let mut returned = Vec::new();
        let mut lent = self.lock();
        for &Release { region, offset } in releases {
            let Some(entry) = lent.get_mut(&(region, offset)) else {
                return Err(ProtocolError::UnknownRelease { region, offset });
            };
            entry.count -= 1;
            if entry.count == 0 {
                returned.extend(lent.remove(&(region, offset)));
            }
        }
        // Returning buffers to the pool takes other locks, so this one is released first.
        drop(lent);
        drop(returned);
        Ok(())
    }

    /// Returns the lent buffer that contains `length` bytes at `offset` of `region`, and where in the buffer they start.
    pub(crate) fn find(&self, region: u64, offset: u64, length: u64) -> Option<(Arc<dyn Storage>, usize)> {
        let lent = self.lock();
        let (_, entry) = lent.range((region, 0)..=(region, offset)).next_back()?;
        let buffer: &dyn std::any::Any = entry.storage.as_ref();
        let buffer = buffer.downcast_ref::<PoolBuffer>()?;
        let start = usize::try_from(offset).ok()?.checked_sub(buffer.offset())?;
        let end = start.checked_add(usize::try_from(length).ok()?)?;
        (end <= buffer.bytes().len()).then(|| (Arc::clone(&entry.storage), start))
    }

    /// Takes back all buffers, because the peer is gone.
    pub(crate) fn clear(&self) {
        let all = std::mem::take(&mut *self.lock());
        drop(all);
    }
}
