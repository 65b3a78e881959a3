//! The peer's regions, and the buffers in them that this side was lent.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use carton_tensor::Storage;
use parking_lot::{Mutex, MutexGuard};

use super::listener::MemoryListener;
use super::region::{self, Mapping, ReceiveError};
use crate::message::Release;
use crate::protocol_error::ProtocolError;

/// The most regions that a peer may have at once.
const REGION_CAP: usize = 4096;

/// All regions of the peer.
pub(crate) struct PeerMemory {
    regions: Mutex<HashMap<u64, Arc<Mapping>>>,
    /// The most bytes that they may have together.
    cap: u64,
    releases: Arc<ReleaseQueue>,
}

impl PeerMemory {
    pub(crate) fn new(cap: u64, releases: Arc<ReleaseQueue>) -> Self {
        Self { regions: Mutex::default(), cap, releases }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u64, Arc<Mapping>>> {
        self.regions.lock()
    }

    /// Checks and maps a region that the peer announced.
    pub(crate) fn map(&self, number: u64, size: u64, descriptor: &OwnedFd) -> Result<(), MapError> {
        let unfit = |problem: String| ProtocolError::Region { region: number, problem };
        let mut regions = self.lock();
        if regions.contains_key(&number) {
            return Err(unfit("it is mapped already".to_owned()).into());
        }
        let others: u64 = regions.values().map(|mapping| mapping.size() as u64).sum();
        if regions.len() >= REGION_CAP || others.checked_add(size).is_none_or(|total| total > self.cap) {
            let problem = format!("more than {REGION_CAP} regions or {} bytes of shared memory", self.cap);
            return Err(unfit(problem).into());
        }
        let n_bytes = usize::try_from(size).ok().filter(|&size| size > 0);
        let n_bytes = n_bytes.ok_or_else(|| unfit(format!("it cannot have {size} bytes")))?;
        let mapping = region::receive(descriptor, n_bytes).map_err(|error| match error {
            ReceiveError::Unfit(problem) => unfit(problem).into(),
            ReceiveError::Io(error) => MapError::Io(error),
        })?;
        regions.insert(number, Arc::new(mapping));
        Ok(())
    }

    /// Forgets a region. The mapping stays until the last tensor in it is dropped.
    pub(crate) fn unmap(&self, number: u64) -> Result<(), ProtocolError> {
        match self.lock().remove(&number) {
            Some(_) => Ok(()),
            None => Err(ProtocolError::Region { region: number, problem: "it was never mapped".to_owned() }),
        }
    }

    /// Returns the bytes that the peer lends with a tensor. Dropping them releases the buffer.
    pub(crate) fn borrow(&self, region: u64, offset: u64, length: u64) -> Result<PeerBuffer, String> {
        let mapping = self.lock().get(&region).cloned().ok_or_else(|| format!("region {region} was never mapped"))?;
        let end = offset.checked_add(length).filter(|&end| end <= mapping.size() as u64);
        let (Some(_), Ok(start), Ok(length)) = (end, usize::try_from(offset), usize::try_from(length)) else {
            let size = mapping.size();
            return Err(format!(
                "{length} bytes at offset {offset} do not lie inside region {region}, which has {size} bytes"
            ));
        };
        let releases = Arc::clone(&self.releases);
        Ok(PeerBuffer { mapping, start, length, release: Release { region, offset }, releases })
    }

    /// Forgets all regions.
    pub(crate) fn clear(&self) {
        self.lock().clear();
    }

    /// Whether `buffer` was lent by this peer.
    pub(crate) fn owns(&self, buffer: &PeerBuffer) -> bool {
        Arc::ptr_eq(&self.releases, &buffer.releases)
    }
}

/// Why a region is not mapped.
#[derive(Debug, thiserror::Error)]
pub(crate) enum MapError {
    #[error(transparent)]
    Protocol(#[from] ProtocolError),
    #[error("mapping a region of the peer")]
    Io(#[source] std::io::Error),
}

/// A buffer of the peer. Its bytes are readable until it is dropped, which releases it.
pub(crate) struct PeerBuffer {
    mapping: Arc<Mapping>,
    start: usize,
    length: usize,
    release: Release,
    releases: Arc<ReleaseQueue>,
}

impl PeerBuffer {
    /// The region's number.
    pub(crate) fn region(&self) -> u64 {
        self.release.region
    }

    /// Its offset in the region.
    pub(crate) fn offset(&self) -> u64 {
        self.release.offset
    }

    /// Maps `length` of its bytes from `start` on for private writing; see [`Mapping::copy_on_write`].
    pub(crate) fn copy_on_write(&self, start: usize, length: usize) -> std::io::Result<(Mapping, usize)> {
        self.mapping.copy_on_write(self.start + start, length)
    }
}

impl Storage for PeerBuffer {
    fn bytes(&self) -> &[u8] {
        // SAFETY: the range was checked to lie in the mapping, which this buffer keeps alive and whose file cannot
        // shrink. The protocol forbids the peer to write to a buffer that it has lent. If it does so, numbers change, and every bit
        // pattern of them is valid. Only numbers are read through this slice; strings are copied first.
        unsafe { std::slice::from_raw_parts(self.mapping.at(self.start), self.length) }
    }
}

impl Drop for PeerBuffer {
    fn drop(&mut self) {
        self.releases.push(self.release, self.length);
    }
}

/// Buffers of the peer that are no longer used and whose release was not sent yet.
pub(crate) struct ReleaseQueue {
    pending: Mutex<Vec<Release>>,
    n_bytes: AtomicU64,
    listener: Weak<dyn MemoryListener>,
}

impl ReleaseQueue {
    pub(crate) fn new(listener: Weak<dyn MemoryListener>) -> Self {
        Self { pending: Mutex::default(), n_bytes: AtomicU64::new(0), listener }
    }

    fn push(&self, release: Release, length: usize) {
        self.pending.lock().push(release);
        let n_bytes = self.n_bytes.fetch_add(length as u64, Ordering::Relaxed) + length as u64;
        if let Some(listener) = self.listener.upgrade() {
            listener.memory_is_idle(n_bytes);
        }
    }

    /// Takes all releases, to send them with the next message.
    pub(crate) fn take(&self) -> Vec<Release> {
        self.n_bytes.store(0, Ordering::Relaxed);
        std::mem::take(&mut *self.pending.lock())
    }

    /// Puts back releases that could not be sent.
    pub(crate) fn restore(&self, releases: Vec<Release>) {
        self.pending.lock().extend(releases);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.pending.lock().is_empty()
    }
}
