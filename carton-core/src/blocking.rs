//! Runs blocking work for async functions, and async operations for blocking callers.

use std::future::{Future, IntoFuture};
use std::pin::Pin;

use carton_format::context::{CancelToken, Context};
use carton_format::progress::ProgressCallback;

use crate::Error;

/// The future of an operation: `.await` turns [`Load`](crate::Load) and the other operations into it.
pub type Awaited<'a, T> = Pin<Box<dyn Future<Output = Result<T, Error>> + Send + 'a>>;

/// Runs an operation to its end, in a program without an async runtime.
///
/// ```no_run
/// use carton_core::{Carton, block_on};
///
/// let package = block_on(Carton::open("digits.carton"))?;
/// println!("{:?}", package.metadata().model_name());
/// # Ok::<(), carton_core::Error>(())
/// ```
///
/// In a program on tokio, await the operations instead. There this function panics, like every call that blocks a thread of tokio.
///
/// # Errors
/// Those of the operation; that the operating system cannot start threads.
pub fn block_on<T, E: From<Error>>(operation: impl IntoFuture<Output = Result<T, E>>) -> Result<T, E> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Error::internal(format!("cannot start threads: {error}")))?;
    runtime.block_on(operation.into_future())
}

/// Runs `work` on a thread of its own, so that it goes on when the runtime of the caller ends, as that of [`block_on`] does.
pub(crate) fn spawn(thread: &str, work: impl Future<Output = ()> + Send + 'static) -> Result<(), Error> {
    let failed = |error: std::io::Error| Error::internal(format!("cannot start a thread: {error}"));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().map_err(failed)?;
    let thread = std::thread::Builder::new().name(thread.to_owned());
    thread.spawn(move || runtime.block_on(work)).map_err(failed)?;
    Ok(())
}

/// Runs blocking work on tokio's threads for such work. The work reports to `progress`. Dropping the future cancels the work.
pub(crate) async fn run_blocking<T: Send + 'static>(
    progress: Option<&ProgressCallback>,
    work: impl FnOnce(Context) -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    let context = Context::new(CancelToken::default(), progress.cloned());
    let guard = context.cancel_token().guard();
    let result = tokio::task::spawn_blocking(move || work(context)).await;
    // The work is done. Its result may fetch later under the same token, so dropping the guard must no longer cancel it.
    guard.disarm();
    result.map_err(|error| Error::internal(error.to_string()))?
}
