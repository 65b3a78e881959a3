//! Who is told that shared memory is idle.

/// Who tidies up shared memory.
pub(crate) trait MemoryListener: Send + Sync {
    /// Buffers of the peer with so many bytes wait to be given back, or (0) memory of this side became idle. Called
    /// without any lock of this module held, from whichever thread dropped a tensor: must not block.
    fn memory_is_idle(&self, n_bytes: u64);
}

/// For memory that is not tidied up, in tests and fuzz targets.
#[cfg(any(test, fuzzing))]
pub(crate) struct NoListener;

#[cfg(any(test, fuzzing))]
impl MemoryListener for NoListener {
    fn memory_is_idle(&self, _: u64) {}
}
