//! Shared memory: the regions of this side, whose buffers it lends ([`pool`]), and the regions of the peer, which it reads ([`peer`]).
//!
//! The peer is not trusted. A region that it announces is checked before it is mapped ([`region`]), a buffer that it names is checked
//! before it is read, and a buffer that it releases must have been lent ([`lending`]).

pub(crate) mod lending;
mod listener;
pub(crate) mod peer;
pub(crate) mod pool;
pub(crate) mod ranges;
pub(crate) mod region;

/// The size in bytes from which tensors travel in shared memory. Between 4 and 16 KiB frames and shared memory cost the same.
pub(crate) const THRESHOLD: usize = 16 << 10;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use self::lending::LentBuffers;
pub(crate) use self::listener::MemoryListener;
#[cfg(any(test, fuzzing))]
pub(crate) use self::listener::NoListener;
use self::peer::{PeerMemory, ReleaseQueue};
use self::pool::Pool;
use crate::message::Side;

/// The shared memory of one connection, seen from one of its sides.
pub(crate) struct SharedMemory {
    /// This side.
    pub(crate) side: Side,
    /// The memory that this side lends.
    pub(crate) pool: Pool,
    /// Its buffers that are lent at present.
    pub(crate) lent: LentBuffers,
    /// The memory that the peer lends.
    pub(crate) peer: PeerMemory,
    /// Its buffers that are to be released.
    pub(crate) releases: Arc<ReleaseQueue>,
    in_use: AtomicBool,
}

impl SharedMemory {
    pub(crate) fn new(side: Side, pool_cap: u64, peer_cap: u64, listener: Weak<dyn MemoryListener>) -> Self {
        let releases = Arc::new(ReleaseQueue::new(listener.clone()));
        Self {
            side,
            pool: Pool::new(pool_cap, listener),
            lent: LentBuffers::default(),
            peer: PeerMemory::new(peer_cap, Arc::clone(&releases)),
            releases,
            in_use: AtomicBool::new(false),
        }
    }

    /// Allows shared memory, because both sides announced the feature.
    pub(crate) fn enable(&self) {
        self.in_use.store(true, Ordering::Release);
    }

    /// Whether tensors may travel in shared memory.
    pub(crate) fn is_in_use(&self) -> bool {
        self.in_use.load(Ordering::Acquire)
    }

    /// Forgets all lent buffers and all regions of the peer, because the connection is over.
    pub(crate) fn clear(&self) {
        self.lent.clear();
        self.peer.clear();
    }
}
