//! Notification of idle shared memory.

/// Gets notified when shared memory can be tidied up.
pub(crate) trait MemoryListener: Send + Sync {
    /// Buffers of the peer with `n_bytes` in total wait to be released, or, if it is 0, memory of this side became idle. The thread that
    /// dropped a tensor calls this without any lock of this module. An implementation must not block.
    fn memory_is_idle(&self, n_bytes: u64);
}

/// A listener for tests and fuzz targets, which never tidies up.
#[cfg(any(test, fuzzing))]
pub(crate) struct NoListener;

#[cfg(any(test, fuzzing))]
impl MemoryListener for NoListener {
    fn memory_is_idle(&self, _: u64) {}
}
