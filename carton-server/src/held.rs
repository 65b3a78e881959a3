//! Memory of answers that counts until it was sent.

use std::sync::Arc;

use bytes::Bytes;

/// Chunks that hold something until the last of them is dropped. The connection has them in its queue after the body ended.
pub(crate) fn held_by<T: Send + Sync + 'static>(chunks: Vec<Bytes>, held: T) -> Vec<Bytes> {
    struct Held<T> {
        chunk: Bytes,
        _held: Arc<T>,
    }

    impl<T> AsRef<[u8]> for Held<T> {
        fn as_ref(&self) -> &[u8] {
            &self.chunk
        }
    }

    let held = Arc::new(held);
    let hold = |chunk| Bytes::from_owner(Held { chunk, _held: Arc::clone(&held) });
    chunks.into_iter().filter(|chunk| !chunk.is_empty()).map(hold).collect()
}
