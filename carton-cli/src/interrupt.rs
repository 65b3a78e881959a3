//! Runs a command until it is done or the user interrupts it.
//!
//! An interrupted command's future is dropped: that cancels calls, ends runner processes, and tells work on other threads
//! to stop and remove its temporary files, which is waited for.
//!
//! What a command makes gets its name as the last thing. [`begin_publishing`] decides between that and a signal: after a signal nothing
//! gets its name, and a command that has begun is not interrupted, because it could not say truly that it was.

use std::collections::BTreeSet;
use std::future::Future;
use std::io;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use carton_core::CancelToken;
use carton_core::runner::end_all;
use tokio::signal::unix::{SignalKind, signal};

use crate::failure::{Exit, Failure};

/// How long cleaning up after an interruption may take before the process ends anyway.
const CLEANING_UP: Duration = Duration::from_secs(5);

/// How long runners may take to end by themselves when the command is done with them.
const RUNNERS_GRACE: Duration = Duration::from_secs(1);

/// The same for a user who waits for the prompt.
const RUNNERS_GRACE_INTERRUPTED: Duration = Duration::from_millis(200);

/// How long a command may take to notice a signal.
const DEAF_AFTER: Duration = Duration::from_secs(1);

#[derive(Debug, thiserror::Error)]
pub(crate) enum InterruptError {
    #[error("interrupted")]
    Interrupted,
    #[error("interrupted while what was written got its name, so that it may be there or not")]
    WhilePublishing,
    #[error("cannot start the threads that do the work")]
    Threads(#[source] io::Error),
    #[error("cannot watch for signals")]
    Signals(#[source] io::Error),
    #[error("a thread ended early: {0}")]
    Thread(#[from] tokio::task::JoinError),
}

/// How far the command is: [`RUNNING`], and then one of the other two.
static STAGE: AtomicU8 = AtomicU8::new(RUNNING);
const RUNNING: u8 = 0;
/// What it made gets its name.
const PUBLISHING: u8 = 1;
/// A signal came before that.
const INTERRUPTED: u8 = 2;

/// Asked before what the command made gets its name: `Break` after a signal. One that comes later does not interrupt the command, unless a
/// second one follows it.
pub(crate) fn begin_publishing() -> ControlFlow<()> {
    match leave_running(PUBLISHING) {
        INTERRUPTED => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    }
}

/// Begins this stage if none has begun, and returns the one that has.
fn leave_running(stage: u8) -> u8 {
    match STAGE.compare_exchange(RUNNING, stage, Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => stage,
        Err(begun) => begun,
    }
}

/// Runs `command` to its end, or until SIGINT, SIGTERM or SIGHUP; until the second one if it is [publishing](begin_publishing).
///
/// # Errors
/// What the command returns; [`Exit::Interrupted`].
pub(crate) fn run<T>(command: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(|source| Failure::new(InterruptError::Threads(source)))?;
    let noticed = Arc::new(AtomicBool::new(false));
    let watchdog = runtime.spawn(end_when_deaf(Arc::clone(&noticed)));
    let result = runtime.block_on(async {
        let mut command = pin!(command);
        let interrupted = |error| Failure::with_exit(Exit::Interrupted, error);
        tokio::select! {
            result = &mut command => return result,
            signal = stop_signal() => signal.map_err(|source| Failure::new(InterruptError::Signals(source)))?,
        }
        if leave_running(INTERRUPTED) == INTERRUPTED {
            return Err(interrupted(InterruptError::Interrupted));
        }
        tokio::select! {
            result = command => result,
            _ = stop_signal() => Err(interrupted(InterruptError::WhilePublishing)),
        }
    });
    noticed.store(true, Ordering::Relaxed);
    watchdog.abort();
    runtime.shutdown_timeout(CLEANING_UP);
    let interrupted = result.as_ref().is_err_and(|failure| failure.exit() == Exit::Interrupted);
    if interrupted {
        remove_leftovers();
    }
    end_all(if interrupted { RUNNERS_GRACE_INTERRUPTED } else { RUNNERS_GRACE });
    result
}

/// Runs work that blocks, so that an interruption is still noticed. The token cancels the work then.
///
/// # Errors
/// What the work returns; a panic in it.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce(&CancelToken) -> Result<T, Failure> + Send + 'static,
) -> Result<T, Failure> {
    let cancel_token = CancelToken::default();
    let _guard = CancelOnDrop(cancel_token.clone());
    tokio::task::spawn_blocking(move || work(&cancel_token))
        .await
        .map_err(|error| Failure::new(InterruptError::Thread(error)))?
}

struct CancelOnDrop(CancelToken);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

/// Ends the process when a signal came and the command does not notice: it is writing to a reader that does not read.
async fn end_when_deaf(noticed: Arc<AtomicBool>) {
    let mut is_first = true;
    while stop_signal().await.is_ok() {
        tokio::time::sleep(DEAF_AFTER).await;
        // One signal alone does not interrupt what is being published.
        let is_heeded = !is_first || leave_running(INTERRUPTED) == INTERRUPTED;
        is_first = false;
        if is_heeded && !noticed.load(Ordering::Relaxed) {
            end_all(RUNNERS_GRACE_INTERRUPTED);
            remove_leftovers();
            std::process::exit(i32::from(Exit::Interrupted.code()));
        }
    }
}

/// The files and folders that only the work on other threads would remove, if it ended in time.
static LEFTOVERS: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

/// A file or folder that is removed when the process ends by a signal while this is alive, even if the thread that writes it is stuck.
pub(crate) struct Leftover(PathBuf);

impl Leftover {
    pub(crate) fn new(path: PathBuf) -> Self {
        LEFTOVERS.lock().unwrap_or_else(PoisonError::into_inner).insert(path.clone());
        Self(path)
    }
}

impl Drop for Leftover {
    fn drop(&mut self) {
        LEFTOVERS.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.0);
    }
}

fn remove_leftovers() {
    // The next commit finishes what this one was publishing, and needs its files for that.
    if leave_running(INTERRUPTED) != INTERRUPTED {
        return;
    }
    for path in LEFTOVERS.lock().unwrap_or_else(PoisonError::into_inner).iter() {
        // Nothing is left to be told if it cannot be removed.
        let _ = match path.is_dir() {
            true => std::fs::remove_dir_all(path),
            false => std::fs::remove_file(path),
        };
    }
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
