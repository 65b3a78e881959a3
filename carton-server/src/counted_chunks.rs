//! Memory of answers that counts until it was sent.

use std::sync::Arc;

use bytes::Bytes;

/// Chunks that keep something until the last of them is dropped. The connection has them in its queue after the body ended.
pub(crate) fn keep_with_chunks<T: Send + Sync + 'static>(chunks: Vec<Bytes>, kept: T) -> Vec<Bytes> {
    struct OwnedChunk<T> {
        chunk: Bytes,
        _kept: Arc<T>,
    }

    impl<T> AsRef<[u8]> for OwnedChunk<T> {
        fn as_ref(&self) -> &[u8] {
            &self.chunk
        }
    }

    let kept = Arc::new(kept);
    let keep = |chunk| Bytes::from_owner(OwnedChunk { chunk, _kept: Arc::clone(&kept) });
    chunks.into_iter().filter(|chunk| !chunk.is_empty()).map(keep).collect()
}
