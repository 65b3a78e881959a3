//! Shared memory: regions this side owns and lends buffers of ([`pool`]), regions of the peer that are read ([`peer`]).
//!
//! The peer is not trusted: what it announces is checked before it is mapped ([`region`]), what it names is checked
//! before it is read, and what it gives back must have been lent ([`lending`]).

pub(crate) mod lending;
mod listener;
pub(crate) mod peer;
pub(crate) mod pool;
pub(crate) mod ranges;
pub(crate) mod region;

/// Tensors of this many bytes and more travel in shared memory. Between 4 and 16 KiB both ways cost the same.
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

/// All shared memory of one connection, as one of its sides sees it.
pub(crate) struct SharedMemory {
    /// Which side this is.
    pub(crate) side: Side,
    /// What this side lends.
    pub(crate) pool: Pool,
    /// What of it is lent.
    pub(crate) lent: LentBuffers,
    /// What the peer lends.
    pub(crate) peer: PeerMemory,
    /// What of it is to be given back.
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

    /// Both sides announced the feature.
    pub(crate) fn enable(&self) {
        self.in_use.store(true, Ordering::Release);
    }

    /// Whether tensors may travel in shared memory.
    pub(crate) fn is_in_use(&self) -> bool {
        self.in_use.load(Ordering::Acquire)
    }

    /// The connection is over: nothing is lent any more, nothing will be lent to us.
    pub(crate) fn clear(&self) {
        self.lent.clear();
        self.peer.clear();
    }
}
