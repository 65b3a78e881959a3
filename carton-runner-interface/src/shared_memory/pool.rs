//! The memory that this side lends to its peer: regions, and buffers in them.
//!
//! Regions are kept and their memory is reused, because touching a page for the first time costs twelve times as much as a copy into
//! a warm one. Regions that are idle for a while are freed whole: the seal against writes by the peer also keeps this side from
//! punching holes into them. Small and large buffers are in separate regions, so that a small buffer with a long life does not keep
//! a large region.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use carton_tensor::Storage;
use parking_lot::{Condvar, Mutex, MutexGuard};

use super::listener::MemoryListener;
use super::ranges::FreeRanges;
use super::region::{self, Mapping};

/// The size from which buffers are in regions for large buffers.
const LARGE: usize = 1 << 20;
const SMALL_REGION: usize = 16 << 20;
const LARGE_REGION: usize = 64 << 20;
/// Sizes of regions are multiples of this, the size of a huge page.
const REGION_STEP: usize = 2 << 20;
/// The size from which buffers start on a page boundary.
const PAGE_ALIGNED: usize = 64 << 10;
const PAGE: usize = 4096;
/// Smaller buffers start on a cache line.
const CACHE_LINE: usize = 64;
/// The time after which an idle region is freed.
const IDLE: Duration = Duration::from_secs(10);

/// A pool of shared memory. Clones share it.
#[derive(Clone)]
pub(crate) struct Pool(Arc<Shared>);

struct Shared {
    cap: u64,
    state: Mutex<State>,
    freed: Condvar,
    listener: Weak<dyn MemoryListener>,
}

#[derive(Default)]
struct State {
    slots: Vec<Slot>,
    /// Bytes of all regions.
    total: u64,
    /// Bytes of all buffers.
    used: u64,
    last_region: u64,
    /// Regions that were announced to the peer and are gone.
    retired: Vec<u64>,
    wakers: Vec<Waker>,
}

struct Slot {
    region: Arc<Region>,
    free: FreeRanges,
    n_buffers: usize,
    idle_since: Instant,
    large: bool,
}

/// A region of this side.
pub(crate) struct Region {
    pub(crate) number: u64,
    mapping: Mapping,
    /// Present until the region is announced to the peer.
    descriptor: Mutex<Option<OwnedFd>>,
}

impl Region {
    pub(crate) fn size(&self) -> usize {
        self.mapping.size()
    }

    /// Takes the descriptor, to pass it to the peer; `None` if that was done before.
    pub(crate) fn take_descriptor(&self) -> Option<OwnedFd> {
        self.descriptor.lock().take()
    }

    fn is_announced(&self) -> bool {
        self.descriptor.lock().is_none()
    }
}

/// Why the pool has no buffer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PoolError {
    /// No room at present or, with `never`, at any time.
    #[error("no room for {bytes} bytes in shared memory, {used} of {cap} bytes are in use")]
    Full { bytes: u64, used: u64, cap: u64, never: bool },
    /// The operating system did not give memory.
    #[error("making a region of shared memory")]
    Io(#[source] io::Error),
}

impl Pool {
    pub(crate) fn new(cap: u64, listener: Weak<dyn MemoryListener>) -> Self {
        Self(Arc::new(Shared { cap, state: Mutex::default(), freed: Condvar::new(), listener }))
    }

    /// A buffer of `n_bytes`, with whatever was in it before.
    #[cfg(test)]
    pub(crate) fn try_alloc(&self, n_bytes: usize) -> Result<PoolBuffer, PoolError> {
        self.0.lock().alloc(&self.0, n_bytes)
    }

    /// Returns a buffer of `n_bytes` with arbitrary contents. Waits for up to `wait`, as long as `wanted` returns true.
    pub(crate) fn alloc_blocking(
        &self,
        n_bytes: usize,
        wait: Duration,
        wanted: impl Fn() -> bool,
    ) -> Result<PoolBuffer, PoolError> {
        let deadline = Instant::now().checked_add(wait);
        let mut state = self.0.lock();
        loop {
            let full = match state.alloc(&self.0, n_bytes) {
                Err(full @ PoolError::Full { never: false, .. }) => full,
                result => return result,
            };
            let left = deadline.map_or(Duration::MAX, |deadline| deadline.saturating_duration_since(Instant::now()));
            if left.is_zero() || !wanted() {
                return Err(full);
            }
            // Wakes up regularly to ask whether the buffer is still wanted.
            let left = left.min(Duration::from_millis(50));
            self.0.freed.wait_for(&mut state, left);
        }
    }

    /// As [`alloc_blocking`](Self::alloc_blocking), for tasks: wakes the task when memory is freed.
    pub(crate) fn poll_alloc(&self, context: &Context<'_>, n_bytes: usize) -> Poll<Result<PoolBuffer, PoolError>> {
        let mut state = self.0.lock();
        match state.alloc(&self.0, n_bytes) {
            Err(PoolError::Full { never: false, .. }) => {
                if !state.wakers.iter().any(|waker| waker.will_wake(context.waker())) {
                    state.wakers.push(context.waker().clone());
                }
                Poll::Pending
            }
            result => Poll::Ready(result),
        }
    }

    /// Whether `buffer` belongs to this pool.
    pub(crate) fn owns(&self, buffer: &PoolBuffer) -> bool {
        Arc::ptr_eq(&self.0, &buffer.pool)
    }

    /// The bytes in use, and the cap.
    pub(crate) fn usage(&self) -> (u64, u64) {
        (self.0.lock().used, self.0.cap)
    }

    /// Takes the numbers of the regions that were freed since the last call.
    pub(crate) fn take_retired(&self) -> Vec<u64> {
        std::mem::take(&mut self.0.lock().retired)
    }

    /// Frees regions that have been idle for long. Returns whether other idle regions are left.
    pub(crate) fn trim(&self, now: Instant) -> bool {
        let mut state = self.0.lock();
        let idle = |slot: &mut Slot| slot.n_buffers == 0 && now.saturating_duration_since(slot.idle_since) >= IDLE;
        let gone: Vec<Slot> = state.slots.extract_if(.., idle).collect();
        gone.iter().for_each(|slot| state.retire(slot));
        let more = state.slots.iter().any(|slot| slot.n_buffers == 0);
        // Unmapping takes a while, so the lock is released first.
        drop(state);
        drop(gone);
        more
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }
}

impl State {
    fn alloc(&mut self, pool: &Arc<Shared>, n_bytes: usize) -> Result<PoolBuffer, PoolError> {
        let alignment = if n_bytes >= PAGE_ALIGNED { PAGE } else { CACHE_LINE };
        let full = |used, never| PoolError::Full { bytes: n_bytes as u64, used, cap: pool.cap, never };
        let reserved = n_bytes.max(1).checked_next_multiple_of(alignment).ok_or_else(|| full(self.used, true))?;
        if reserved as u64 > pool.cap {
            return Err(full(self.used, true));
        }
        let large = reserved >= LARGE;
        for slot in self.slots.iter_mut().filter(|slot| slot.large == large) {
            if let Some(offset) = slot.free.take(reserved, alignment) {
                slot.n_buffers += 1;
                self.used += reserved as u64;
                let region = Arc::clone(&slot.region);
                return Ok(PoolBuffer { pool: Arc::clone(pool), region, offset, length: n_bytes, reserved });
            }
        }
        match self.add_region(pool, reserved, large)? {
            None => Err(full(self.used, false)),
            Some(()) => self.alloc(pool, n_bytes),
        }
    }

    /// Adds a region with room for `reserved` bytes; `None` when the cap leaves no room for it.
    fn add_region(&mut self, pool: &Shared, reserved: usize, large: bool) -> Result<Option<()>, PoolError> {
        while self.total + reserved as u64 > pool.cap {
            let Some(index) = self.slots.iter().position(|slot| slot.n_buffers == 0) else { return Ok(None) };
            let slot = self.slots.swap_remove(index);
            self.retire(&slot);
        }
        let wanted = reserved.next_multiple_of(REGION_STEP).max(if large { LARGE_REGION } else { SMALL_REGION });
        let left = usize::try_from(pool.cap - self.total).unwrap_or(usize::MAX);
        // The rest of the cap may not be a multiple of the page size. The kernel rounds it up; the allocator uses only `size`.
        let size = wanted.min(left);
        let (mapping, descriptor) = region::create(size).map_err(PoolError::Io)?;
        self.last_region += 1;
        let region = Arc::new(Region { number: self.last_region, mapping, descriptor: Mutex::new(Some(descriptor)) });
        self.total += size as u64;
        let free = FreeRanges::new(size);
        self.slots.push(Slot { region, free, n_buffers: 0, idle_since: Instant::now(), large });
        Ok(Some(()))
    }

    fn retire(&mut self, slot: &Slot) {
        self.total -= slot.region.size() as u64;
        if slot.region.is_announced() {
            self.retired.push(slot.region.number);
        }
    }
}

/// A part of a region, returned to the pool when it is dropped. Only its holder writes to it.
pub(crate) struct PoolBuffer {
    pool: Arc<Shared>,
    region: Arc<Region>,
    offset: usize,
    length: usize,
    reserved: usize,
}

impl PoolBuffer {
    pub(crate) fn region(&self) -> &Arc<Region> {
        &self.region
    }

    /// The offset of the buffer in its region.
    pub(crate) fn offset(&self) -> usize {
        self.offset
    }
}

impl Storage for PoolBuffer {
    fn bytes(&self) -> &[u8] {
        // SAFETY: the range lies in the mapping, which the region keeps alive; the allocator gave it to this buffer
        // alone, and the seals keep the peer from mapping it for writing.
        unsafe { std::slice::from_raw_parts(self.region.mapping.at(self.offset), self.length) }
    }

    fn bytes_mut(&mut self) -> Option<&mut [u8]> {
        // SAFETY: as above; `&mut self` makes this the only reference. A buffer that is lent to the peer is shared with
        // the table of lent buffers, so no `&mut` to it can exist.
        Some(unsafe { std::slice::from_raw_parts_mut(self.region.mapping.at(self.offset), self.length) })
    }
}

impl Drop for PoolBuffer {
    fn drop(&mut self) {
        let mut state = self.pool.lock();
        state.used -= self.reserved as u64;
        let mut idle = false;
        if let Some(slot) = state.slots.iter_mut().find(|slot| Arc::ptr_eq(&slot.region, &self.region)) {
            slot.free.give_back(self.offset, self.reserved);
            slot.n_buffers -= 1;
            slot.idle_since = Instant::now();
            idle = slot.n_buffers == 0;
        }
        let wakers = std::mem::take(&mut state.wakers);
        drop(state);
        self.pool.freed.notify_all();
        wakers.into_iter().for_each(Waker::wake);
        if idle && let Some(listener) = self.pool.listener.upgrade() {
            listener.memory_is_idle(0);
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::super::NoListener;
    use super::*;

    fn pool(cap: u64) -> Pool {
        Pool::new(cap, Weak::<NoListener>::new())
    }

    #[test]
    fn memory_is_reused_and_the_cap_holds() {
        let pool = pool(8 << 20);
        let one = pool.try_alloc(3 << 20).unwrap();
        let address = one.bytes().as_ptr();
        assert_eq!(address.addr() % PAGE, 0);
        assert!(matches!(pool.try_alloc(6 << 20), Err(PoolError::Full { never: false, .. })));
        assert!(matches!(pool.try_alloc(9 << 20), Err(PoolError::Full { never: true, .. })));
        assert!(matches!(pool.try_alloc(usize::MAX), Err(PoolError::Full { never: true, .. })));
        drop(one);
        assert_eq!(pool.try_alloc(3 << 20).unwrap().bytes().as_ptr(), address);
        assert_eq!(pool.usage(), (0, 8 << 20));
    }

    #[test]
    fn idle_regions_make_room_for_another_kind() {
        let pool = pool(8 << 20);
        let region = Arc::clone(pool.try_alloc(3 << 20).unwrap().region());
        assert!(region.take_descriptor().is_some());
        let small = pool.try_alloc(100).unwrap();
        assert_ne!(small.region().number, region.number);
        assert_eq!(pool.take_retired(), [region.number]);
    }

    #[test]
    fn a_waiting_thread_gets_what_another_gives_back() {
        let pool = pool(4 << 20);
        let all = pool.try_alloc(4 << 20).unwrap();
        let full = pool.alloc_blocking(64, Duration::from_millis(20), || true);
        assert!(matches!(full, Err(PoolError::Full { .. })));
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| pool.alloc_blocking(4 << 20, Duration::from_secs(20), || true).is_ok());
            std::thread::sleep(Duration::from_millis(20));
            drop(all);
            assert!(waiting.join().unwrap());
        });
    }

    #[test]
    fn idle_memory_is_given_back() {
        let pool = pool(1 << 30);
        let buffer = pool.try_alloc(100).unwrap();
        drop(pool.try_alloc(2 << 20).unwrap());
        assert!(pool.trim(Instant::now()));
        assert_eq!(pool.0.lock().slots.len(), 2);
        assert!(!pool.trim(Instant::now() + IDLE));
        assert_eq!(pool.0.lock().slots.len(), 1);
        drop(buffer);
        assert!(!pool.trim(Instant::now() + IDLE));
        assert_eq!(pool.0.lock().total, 0);
    }
}
