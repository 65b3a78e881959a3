//! The threads that operations run on, and how a Python thread waits for them.

use std::cell::Cell;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::ThreadId;
use std::time::{Duration, Instant};

use carton_core::{CancelToken, Error};
use pyo3::prelude::*;
use tokio::runtime::{Builder, Runtime};

use crate::errors::{self, Raise};
use crate::reports::{self, Listener, Progress};

/// Interval at which a waiting thread checks for signals and delivers progress.
pub(crate) const TICK: Duration = Duration::from_millis(50);

struct Started {
    /// The process that started the runtime. A fork has the memory of its parent, but not its threads.
    process: u32,
    runtime: Runtime,
}

static STARTED: OnceLock<Result<Started, String>> = OnceLock::new();

/// The runtime of this process.
///
/// # Errors
/// This process is a fork of one that used the runtime, where all work would wait for ever; or threads cannot be started.
pub(crate) fn runtime(py: Python<'_>) -> PyResult<&'static Runtime> {
    let started = STARTED.get_or_init(|| {
        let runtime = Builder::new_multi_thread().worker_threads(2).thread_name("carton").enable_all().build();
        Ok(Started { process: std::process::id(), runtime: runtime.map_err(|error| error.to_string())? })
    });
    match started {
        Ok(started) if started.process == std::process::id() => Ok(&started.runtime),
        Ok(_) => Err(errors::forked(py)),
        Err(error) => Err(errors::of_error(py, &Error::internal(format!("cannot start threads: {error}")))),
    }
}

/// Whether this process is a fork of the one that started the runtime.
pub(crate) fn is_forked() -> bool {
    matches!(STARTED.get(), Some(Ok(started)) if started.process != std::process::id())
}

/// Waits for an operation. Other Python threads run meanwhile. A signal whose handler raises (Ctrl-C does) ends the wait and cancels the
/// operation.
pub(crate) fn wait<T: Send, E: Raise + Send>(
    py: Python<'_>,
    progress: Option<&Progress>,
    operation: impl Future<Output = Result<T, E>> + Send,
) -> PyResult<T> {
    let runtime = runtime(py)?;
    // On the heap: threads of the runtime may still use the operation when the interpreter ends this thread, and its stack, in a callback.
    let mut operation = Box::pin(operation);
    let _inside = Inside::enter();
    loop {
        let result = py.detach(|| {
            Inside::outside(|| runtime.block_on(async { tokio::time::timeout(TICK, &mut operation).await }))
        });
        if let Some(progress) = progress {
            progress.deliver(py)?;
        }
        reports::deliver_log(py)?;
        match result {
            Ok(result) => return result.map_err(|error| error.raise(py)),
            Err(_) => py.check_signals()?,
        }
    }
}

/// Runs work that blocks on a thread of the runtime, and waits for it. A signal cancels the work.
///
/// # Errors
/// Those of the work; that its thread ended.
pub(crate) fn blocking<T: Send + 'static>(
    py: Python<'_>,
    progress: Option<&Progress>,
    work: impl FnOnce(CancelToken) -> Result<T, Error> + Send + 'static,
) -> PyResult<T> {
    let cancel_token = CancelToken::default();
    let guard = cancel_token.guard();
    wait(py, progress, async move {
        let _guard = guard;
        let result = tokio::task::spawn_blocking(move || work(cancel_token)).await;
        result.map_err(|error| Error::internal(error.to_string()))?
    })
}

/// Waits for an operation of the library, whose progress `set` gives to a listener, and delivers it to the callback.
pub(crate) fn wait_with_progress<O, T: Send>(
    py: Python<'_>,
    callback: Option<Py<PyAny>>,
    operation: O,
    set: impl FnOnce(O, Listener) -> O,
) -> PyResult<T>
where
    O: IntoFuture<Output = Result<T, Error>, IntoFuture: Send>,
{
    let progress = Progress::new(callback);
    let operation = match &progress {
        Some(progress) => set(operation, progress.listener()),
        None => operation,
    };
    wait(py, progress.as_ref(), operation.into_future())
}

/// The number of threads that run code of this module and have, or are about to take, the interpreter's lock.
static N_INSIDE: AtomicUsize = AtomicUsize::new(0);
/// The thread that ends the interpreter, once it does.
static EXITING: OnceLock<ThreadId> = OnceLock::new();

/// The longest time for which the exit of the interpreter waits for threads.
const LONGEST_GOODBYE: Duration = Duration::from_secs(5);

/// Counts a thread while it runs code of this module that takes the interpreter's lock.
///
/// An interpreter that exits ends the threads that wait for its lock by unwinding their stacks, which aborts the process in frames of Rust.
/// Before that, [`before_exit`] waits for the counted threads, and those that wait for an operation never come back. Python code that takes
/// longer is called by [`python_call`](crate::python_call), in which a thread may end.
pub(crate) struct Inside(());

thread_local! {
    /// How often this thread is inside: a callback may call this module again.
    static DEPTH: Cell<usize> = const { Cell::new(0) };
}

impl Inside {
    pub(crate) fn enter() -> Self {
        let depth = DEPTH.get();
        if depth == 0 {
            N_INSIDE.fetch_add(1, Ordering::SeqCst);
        }
        DEPTH.set(depth + 1);
        Self(())
    }

    /// Runs `work`, which does not need the lock, uncounted.
    pub(crate) fn outside<T>(work: impl FnOnce() -> T) -> T {
        let outside = Outside::leave();
        let result = work();
        drop(outside);
        park_at_exit();
        result
    }

    /// Counts the thread while it runs `work`, which takes the lock. The thread is [outside](Self::outside), or was never inside. If the
    /// interpreter exits, the thread parks before or after `work`.
    pub(crate) fn counted<T>(work: impl FnOnce() -> T) -> T {
        let inside = Self::enter();
        park_at_exit();
        let result = work();
        drop(inside);
        // Parks here, rather than in code that takes the lock.
        park_at_exit();
        result
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        let depth = DEPTH.get().saturating_sub(1);
        DEPTH.set(depth);
        if depth == 0 {
            N_INSIDE.fetch_sub(1, Ordering::SeqCst);
        }
    }
}

/// Leaves a thread uncounted until it is dropped. Holds how often the thread was inside.
struct Outside(usize);

impl Outside {
    fn leave() -> Self {
        let depth = DEPTH.replace(0);
        if depth > 0 {
            N_INSIDE.fetch_sub(1, Ordering::SeqCst);
        }
        Self(depth)
    }
}

impl Drop for Outside {
    fn drop(&mut self) {
        if self.0 > 0 {
            N_INSIDE.fetch_add(1, Ordering::SeqCst);
        }
        DEPTH.set(self.0);
    }
}

/// Parks the thread for ever, uncounted, if another thread ends the interpreter.
fn park_at_exit() {
    if EXITING.get().is_some_and(|exiting| *exiting != std::thread::current().id()) {
        let _outside = Outside::leave();
        loop {
            std::thread::park();
        }
    }
}

/// Runs `work` with the interpreter's lock on a thread of Python that may have released it: within [`Inside::outside`], or where another
/// library calls us.
pub(crate) fn attached<T>(work: impl FnOnce(Python<'_>) -> T) -> T {
    // `Python::attach` trusts its own count. That count is wrong if another library, called by this module, released the lock and calls
    // back. The interpreter's own state is right.
    struct Lock(pyo3::ffi::PyGILState_STATE);
    impl Drop for Lock {
        fn drop(&mut self) {
            // SAFETY: it is the state that `PyGILState_Ensure` returned on this thread, and the last one that it did.
            unsafe { pyo3::ffi::PyGILState_Release(self.0) }
        }
    }
    Inside::counted(|| {
        // SAFETY: the interpreter runs: its exit waits for counted threads, and those that come later park. `work` ends before the exit
        // stops waiting: the callbacks that it calls may take longer, but below `python_call`.
        let _lock = Lock(unsafe { pyo3::ffi::PyGILState_Ensure() });
        // SAFETY: this thread has the lock until `_lock` is dropped.
        work(unsafe { Python::assume_attached() })
    })
}

/// Prepares for the exit of the interpreter: `atexit` calls it in the main thread, after which no other thread gets its answer.
#[pyfunction]
pub(crate) fn before_exit(py: Python<'_>) {
    if is_forked() {
        return;
    }
    let _ = EXITING.set(std::thread::current().id());
    let until = Instant::now() + LONGEST_GOODBYE;
    py.detach(|| {
        while N_INSIDE.load(Ordering::SeqCst) > 0 && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(1));
        }
    });
}
