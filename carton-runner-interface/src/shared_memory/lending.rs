//! The buffers of this side that the peer may read at the moment.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use carton_tensor::Storage;

use super::pool::PoolBuffer;
use crate::message::Release;
use crate::protocol_error::ProtocolError;

/// A buffer to be lent under the name that a message gives it: its region, and the offset of the tensor in that.
pub(crate) struct Lend {
    pub(crate) region: u64,
    pub(crate) offset: u64,
    /// A [`PoolBuffer`].
    pub(crate) storage: Arc<dyn Storage>,
}

/// Lent buffers by name, each as often as it was named and not yet given back. It keeps them alive, and keeps anyone
/// from writing to them.
#[derive(Default)]
pub(crate) struct LentBuffers(Mutex<BTreeMap<(u64, u64), Entry>>);

struct Entry {
    storage: Arc<dyn Storage>,
    count: u64,
}

impl LentBuffers {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<(u64, u64), Entry>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
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

    /// Takes buffers back.
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
        // Buffers go back to the pool without this lock.
        drop(lent);
        drop(returned);
        Ok(())
    }

    /// The lent buffer that holds `length` bytes at `offset` of `region`, and where in the buffer they start.
    pub(crate) fn find(&self, region: u64, offset: u64, length: u64) -> Option<(Arc<dyn Storage>, usize)> {
        let lent = self.lock();
        let (_, entry) = lent.range((region, 0)..=(region, offset)).next_back()?;
        let buffer: &dyn std::any::Any = entry.storage.as_ref();
        let buffer = buffer.downcast_ref::<PoolBuffer>()?;
        let start = usize::try_from(offset).ok()?.checked_sub(buffer.offset())?;
        let end = start.checked_add(usize::try_from(length).ok()?)?;
        (end <= buffer.bytes().len()).then(|| (Arc::clone(&entry.storage), start))
    }

    /// Takes all buffers back, because the peer is gone.
    pub(crate) fn clear(&self) {
        let all = std::mem::take(&mut *self.lock());
        drop(all);
    }
}
