//! Runs a command until it is done or the user interrupts it.
//!
//! An interrupted command's future is dropped. That cancels calls, ends runner processes, and tells work on other threads to stop and to
//! remove its temporary files, for which the program waits.
//!
//! A command gives its output the final name as the last step. [`CancelToken::begin_publishing`] decides between that step and a signal:
//! after a signal nothing gets its name, and once the step has begun, a signal does not interrupt it.

use std::collections::BTreeSet;
use std::future::Future;
use std::io;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use carton_core::CancelToken;
use carton_core::runner::end_all;
use carton_tensor::context::Cancelled;
use parking_lot::Mutex;
use rustix::process::Signal;
use tokio::signal::unix::{SignalKind, signal};

use crate::failure::{Exit, Failure};

/// The timeout for cleaning up after an interruption; then the process ends anyway.
const CLEANING_UP: Duration = Duration::from_secs(5);

/// The time that runners get to end by themselves when the command is done with them.
const RUNNERS_GRACE: Duration = Duration::from_secs(1);

/// The same after an interruption, when the user waits for the prompt.
const RUNNERS_GRACE_INTERRUPTED: Duration = Duration::from_millis(200);

/// The time that a command gets to notice a signal.
const NOTICE_TIMEOUT: Duration = Duration::from_secs(1);

#[derive(Debug, thiserror::Error)]
pub(crate) enum InterruptError {
    #[error("interrupted")]
    Interrupted,
    #[error("interrupted while the output was published: it may or may not exist")]
    WhilePublishing,
    #[error("cannot start the threads that do the work")]
    Threads(#[source] io::Error),
    #[error("cannot watch for signals")]
    Signals(#[source] io::Error),
    #[error("a thread ended early: {0}")]
    Thread(#[from] tokio::task::JoinError),
}

impl From<Cancelled> for Failure {
    fn from(_: Cancelled) -> Self {
        Self::with_exit(Exit::Interrupted, InterruptError::Interrupted)
    }
}

/// The token of the command's work. A signal cancels it.
static COMMAND: LazyLock<CancelToken> = LazyLock::new(CancelToken::default);

/// Runs `command` to its end, or until SIGINT, SIGTERM or SIGHUP. If it is publishing, only a second signal ends it.
///
/// # Errors
/// The error of the command; [`Exit::Interrupted`].
pub(crate) fn run<T>(command: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(|source| Failure::new(InterruptError::Threads(source)))?;
    let noticed = Arc::new(AtomicBool::new(false));
    let watchdog = runtime.spawn(end_when_stuck(Arc::clone(&noticed)));
    let result = runtime.block_on(async {
        fail_large_writes().map_err(|source| Failure::new(InterruptError::Signals(source)))?;
        let mut command = pin!(command);
        let interrupted = |error| Failure::with_exit(Exit::Interrupted, error);
        tokio::select! {
            result = &mut command => return result,
            signal = stop_signal() => signal.map_err(|source| Failure::new(InterruptError::Signals(source)))?,
        }
        if COMMAND.cancel() {
            return Err(interrupted(InterruptError::Interrupted));
        }
        tokio::select! {
            result = command => result,
            _ = stop_signal() => Err(interrupted(InterruptError::WhilePublishing)),
        }
    });
    noticed.store(true, Ordering::Relaxed);
    watchdog.abort();
    if result.is_err() {
        COMMAND.cancel();
    }
    runtime.shutdown_timeout(CLEANING_UP);
    let interrupted = result.as_ref().is_err_and(|failure| failure.exit() == Exit::Interrupted);
    if interrupted {
        remove_leftovers();
    }
    end_all(if interrupted { RUNNERS_GRACE_INTERRUPTED } else { RUNNERS_GRACE });
    result
}

/// Runs a command that ends by itself when a signal comes, and decides what a signal means.
///
/// # Errors
/// The error of the command.
#[cfg(feature = "server")]
pub(crate) fn run_service<T>(command: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.map_err(|source| Failure::new(InterruptError::Threads(source)))?;
    let result = runtime.block_on(command);
    COMMAND.cancel();
    runtime.shutdown_timeout(CLEANING_UP);
    end_all(RUNNERS_GRACE_INTERRUPTED);
    result
}

/// Runs blocking work on another thread, so that an interruption is still noticed. An interruption cancels the token, and so does a
/// failure of the command.
///
/// # Errors
/// The error of the work; a panic in it.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce(&CancelToken) -> Result<T, Failure> + Send + 'static,
) -> Result<T, Failure> {
    tokio::task::spawn_blocking(|| work(&COMMAND)).await.map_err(|error| Failure::new(InterruptError::Thread(error)))?
}

/// Ends the process if a signal came and the command does not react to it, because it is writing to a reader that does not read.
async fn end_when_stuck(noticed: Arc<AtomicBool>) {
    let mut is_first = true;
    while stop_signal().await.is_ok() {
        tokio::time::sleep(NOTICE_TIMEOUT).await;
        // A single signal does not interrupt publishing.
        let is_interrupted = !is_first || COMMAND.cancel();
        is_first = false;
        if is_interrupted && !noticed.load(Ordering::Relaxed) {
            end_all(RUNNERS_GRACE_INTERRUPTED);
            remove_leftovers();
            std::process::exit(i32::from(Exit::Interrupted.code()));
        }
    }
}

/// The token of the command's work, for what goes on after it was opened.
pub(crate) fn token() -> CancelToken {
    COMMAND.clone()
}

/// Files and folders that a worker thread would remove if it ended in time.
static LEFTOVERS: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

/// A file or folder that is removed if the process ends by a signal while this value exists, even if the thread that writes it is stuck.
pub(crate) struct Leftover(PathBuf);

impl Leftover {
    pub(crate) fn new(path: PathBuf) -> Self {
        LEFTOVERS.lock().insert(path.clone());
        Self(path)
    }
}

impl Drop for Leftover {
    fn drop(&mut self) {
        LEFTOVERS.lock().remove(&self.0);
    }
}

fn remove_leftovers() {
    // The next commit finishes the interrupted publishing, and needs its files for that.
    if !COMMAND.cancel() {
        return;
    }
    for path in LEFTOVERS.lock().iter() {
        // A failure to remove it cannot be reported any more.
        let _ = match path.is_dir() {
            true => std::fs::remove_dir_all(path),
            false => std::fs::remove_file(path),
        };
    }
}

/// Makes a write beyond the limit on the size of files (`ulimit -f`) an error, so that the output is removed. The signal would end the
/// process otherwise. Once a signal has a handler, it keeps that for the life of the process.
fn fail_large_writes() -> io::Result<()> {
    signal(SignalKind::from_raw(Signal::XFSZ.as_raw())).map(drop)
}

async fn stop_signal() -> io::Result<()> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut hang_up = signal(SignalKind::hangup())?;
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
        _ = hang_up.recv() => {}
    }
    Ok(())
}
