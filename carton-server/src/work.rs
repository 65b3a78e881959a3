//! Work on threads and tasks of its own, and work with a deadline.

use std::future::Future;
use std::time::Instant;

use crate::failure::{Failure, Reason};

/// Work on more bytes than this is done on a thread for such work, so that other requests do not wait for it.
pub(crate) const LARGE: usize = 256 << 10;

/// Does work that takes long on a thread for such work.
pub(crate) async fn on_thread<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Failure> + Send + 'static,
) -> Result<T, Failure> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|error| Err(Failure::new(Reason::Internal, error.to_string())))
}

/// Does work on `n_bytes` here, or on a thread for such work if they are many.
pub(crate) async fn on_thread_if_large<T: Send + 'static>(
    n_bytes: usize,
    work: impl FnOnce() -> Result<T, Failure> + Send + 'static,
) -> Result<T, Failure> {
    match n_bytes < LARGE {
        true => work(),
        false => on_thread(work).await,
    }
}

/// Does work that goes on if the client leaves.
pub(crate) async fn on_task<T: Send + 'static>(
    work: impl Future<Output = Result<T, Failure>> + Send + 'static,
) -> Result<T, Failure> {
    tokio::spawn(work).await.unwrap_or_else(|error| Err(Failure::new(Reason::Internal, error.to_string())))
}

/// Waits for `work` until the deadline.
///
/// # Errors
/// The deadline passed.
pub(crate) async fn within<T>(deadline: Option<Instant>, work: impl Future<Output = T>) -> Result<T, Failure> {
    match deadline {
        None => Ok(work.await),
        Some(deadline) => tokio::time::timeout_at(deadline.into(), work).await.map_err(|_| Failure::deadline()),
    }
}
