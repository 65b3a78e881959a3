//! Awaits operations in `asyncio`, without a thread that takes the interpreter's lock.
//!
//! A [`Bridge`] belongs to one event loop. A finished operation puts its result into the bridge's queue and writes to an eventfd, which
//! the loop watches (`loop.add_reader`). The loop's own thread then fetches the results and completes the futures. The result of an
//! operation that ends while the interpreter exits is not delivered, and does no harm.

use std::collections::HashMap;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::{Arc, Weak};

use carton_core::{Error, ErrorKind};
use parking_lot::Mutex;
use pyo3::prelude::*;
use rustix::event::EventfdFlags;
use tokio::task::AbortHandle;

use crate::runtime::Inside;
use crate::{errors, reports, runtime};

/// Makes the Python value of a result, on a thread of Python.
type Convert = Box<dyn FnOnce(Python<'_>) -> PyResult<Py<PyAny>> + Send>;

/// The results of finished operations, by the numbers of their futures.
struct Results {
    finished: Mutex<Vec<(u64, Convert)>>,
    event: OwnedFd,
}

impl Results {
    fn push(&self, number: u64, convert: Convert) {
        self.finished.lock().push((number, convert));
        // The counter cannot overflow: the loop resets it at every wake-up.
        let _ = rustix::io::write(&self.event, &1_u64.to_ne_bytes());
    }
}

/// The awaited operations of one event loop.
#[pyclass(frozen, module = "carton._carton")]
pub(crate) struct Bridge {
    results: Arc<Results>,
    waiting: Arc<Mutex<Waiting>>,
}

#[derive(Default)]
struct Waiting {
    last: u64,
    futures: HashMap<u64, Py<PyAny>>,
}

#[pymethods]
impl Bridge {
    #[new]
    fn new(py: Python<'_>) -> PyResult<Self> {
        let event = rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK);
        let event = event.map_err(|error| errors::of_kind(py, ErrorKind::Machine, &error))?;
        Ok(Self { results: Arc::new(Results { finished: Mutex::default(), event }), waiting: Arc::default() })
    }

    /// The descriptor that the loop must watch.
    fn fileno(&self) -> i32 {
        self.results.event.as_raw_fd()
    }

    /// Completes the futures of operations that have finished. The loop calls it.
    fn deliver(&self, py: Python<'_>) -> PyResult<()> {
        let _ = rustix::io::read(&self.results.event, &mut [0_u8; 8]);
        let finished = std::mem::take(&mut *self.results.finished.lock());
        for (number, convert) in finished {
            let future = self.waiting.lock().futures.remove(&number);
            let Some(future) = future else { continue };
            let future = future.bind(py);
            // The future of a cancelled task is done.
            if future.call_method0("done")?.is_truthy()? {
                continue;
            }
            match convert(py) {
                Ok(value) => future.call_method1("set_result", (value,))?,
                Err(error) => future.call_method1("set_exception", (error,))?,
            };
        }
        reports::deliver_log(py)
    }
}

/// Called when a future is done. Cancels the operation, if that is why.
#[pyclass(frozen, module = "carton._carton")]
struct Done {
    number: u64,
    /// Not the bridge itself, which holds the future.
    waiting: Weak<Mutex<Waiting>>,
    task: AbortHandle,
}

#[pymethods]
impl Done {
    fn __call__(&self, future: &Bound<'_, PyAny>) -> PyResult<()> {
        if future.call_method0("cancelled")?.is_truthy()? {
            self.task.abort();
            if let Some(waiting) = self.waiting.upgrade() {
                // Released outside the lock: it may be the last reference, whose end runs code of Python.
                let future = waiting.lock().futures.remove(&self.number);
                drop(future);
            }
        }
        Ok(())
    }
}

/// Starts an operation, and returns a coroutine of its result, which `convert` makes. Cancelling a task that awaits it cancels the operation.
///
/// # Errors
/// No event loop is running in this thread.
pub(crate) fn awaitable<'py, T: Send + 'static>(
    py: Python<'py>,
    operation: impl Future<Output = Result<T, Error>> + Send + 'static,
    convert: impl FnOnce(Python<'_>, T) -> PyResult<Py<PyAny>> + Send + 'static,
) -> PyResult<Bound<'py, PyAny>> {
    let runtime = runtime::runtime(py)?;
    let _inside = Inside::enter();
    let (event_loop, bridge): (Bound<'py, PyAny>, Bound<'py, Bridge>) =
        py.import("carton._bridge")?.call_method0("bridge")?.extract()?;
    let future = event_loop.call_method0("create_future")?;
    let number = {
        let mut waiting = bridge.get().waiting.lock();
        waiting.last += 1;
        let number = waiting.last;
        waiting.futures.insert(number, future.clone().unbind());
        number
    };
    let results = Arc::clone(&bridge.get().results);
    let task = runtime.spawn(async move {
        let result = operation.await;
        let convert: Convert = Box::new(move |py| match result {
            Ok(value) => convert(py, value),
            Err(error) => Err(errors::of_error(py, &error)),
        });
        results.push(number, convert);
    });
    let done = Done { number, waiting: Arc::downgrade(&bridge.get().waiting), task: task.abort_handle() };
    future.call_method1("add_done_callback", (Bound::new(py, done)?,))?;
    py.import("carton._bridge")?.call_method1("result", (future,))
}
