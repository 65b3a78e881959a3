//! Progress and log records. They come from threads that may not call Python, and wait here for one that may.

use std::collections::VecDeque;
use std::fmt::{Display, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use carton_core::ProgressEvent;
use carton_tensor::context;
use parking_lot::Mutex;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use tracing::field::{Field, Visit};
use tracing::{Level, Metadata, Subscriber, span};

use crate::python_call;

/// The most log records that wait. Older ones are dropped first.
const MAX_WAITING: usize = 1000;

/// A callback that the library calls with progress.
pub(crate) type Listener = Box<dyn Fn(&ProgressEvent) + Send + Sync>;

/// A Python callback for progress, and the latest event that it has not seen.
pub(crate) struct Progress {
    callback: Py<PyAny>,
    latest: Arc<Mutex<Option<Event>>>,
}

/// A report of progress.
pub(crate) struct Event {
    pub(crate) stage: String,
    pub(crate) done: u64,
    pub(crate) total: Option<u64>,
    pub(crate) unit: &'static str,
}

impl<S: Display> From<&context::ProgressEvent<S>> for Event {
    fn from(event: &context::ProgressEvent<S>) -> Self {
        Self { stage: event.stage.to_string(), done: event.done, total: event.total, unit: event.unit }
    }
}

impl Progress {
    pub(crate) fn new(callback: Option<Py<PyAny>>) -> Option<Self> {
        callback.map(|callback| Self { callback, latest: Arc::default() })
    }

    /// The callback for the library. It keeps only the latest event, which replaces the earlier ones.
    pub(crate) fn listener(&self) -> Listener {
        let latest = Arc::clone(&self.latest);
        Box::new(move |event| *latest.lock() = Some(event.into()))
    }

    /// As [`listener`](Self::listener), for work whose stages are texts.
    pub(crate) fn listener_of_text(&self) -> context::ProgressCallback<&'static str> {
        let latest = Arc::clone(&self.latest);
        Arc::new(move |event: &context::ProgressEvent| *latest.lock() = Some(event.into()))
    }

    /// Sets the latest event, for work whose progress the library does not report.
    pub(crate) fn report(&self, event: Event) {
        *self.latest.lock() = Some(event);
    }

    /// Calls the callback, if there is something new, with `stage`, `done`, `total` and `unit`.
    ///
    /// # Errors
    /// That of the callback, which ends the work.
    pub(crate) fn deliver(&self, py: Python<'_>) -> PyResult<()> {
        let Some(event) = self.latest.lock().take() else { return Ok(()) };
        let arguments = PyDict::new(py);
        arguments.set_item("stage", event.stage)?;
        arguments.set_item("done", event.done)?;
        arguments.set_item("total", event.total)?;
        arguments.set_item("unit", event.unit)?;
        python_call::call(self.callback.bind(py), &PyTuple::empty(py), Some(&arguments)).map(drop)
    }
}

/// A record for Python's `logging`: level, logger, text.
type Record = (u8, String, String);

static RECORDS: Mutex<VecDeque<Record>> = Mutex::new(VecDeque::new());
static HAS_RECORDS: AtomicBool = AtomicBool::new(false);

/// Puts log records of the library into the queue. Spans are not recorded.
struct Queue(Level);

impl Subscriber for Queue {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_event() && *metadata.level() <= self.0 && metadata.target().starts_with("carton")
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, event: &tracing::Event<'_>) {
        let mut text = Text(String::new());
        event.record(&mut text);
        let level = match *event.metadata().level() {
            Level::ERROR => 40,
            Level::WARN => 30,
            Level::INFO => 20,
            _ => 10,
        };
        let mut records = RECORDS.lock();
        if records.len() >= MAX_WAITING {
            records.pop_front();
        }
        records.push_back((level, event.metadata().target().replace("::", "."), text.0));
        HAS_RECORDS.store(true, Ordering::Release);
    }

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}

/// The message of an event, and its other fields as `name=value`.
struct Text(String);

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        // Writing to a string does not fail.
        let _ = match field.name() {
            "message" => write!(self.0, "{value:?}"),
            name => write!(self.0, " {name}={value:?}"),
        };
    }
}

/// Begins to collect log records of at least this level (10 debug, 20 info, 30 warning). Only the first call has an effect.
#[pyfunction]
pub(crate) fn start_log(level: u8) {
    let level = match level {
        0..=10 => Level::DEBUG,
        11..=20 => Level::INFO,
        21..=30 => Level::WARN,
        _ => Level::ERROR,
    };
    let _ = tracing::subscriber::set_global_default(Queue(level));
}

/// Returns the records that wait: level, logger and text of each.
#[pyfunction]
pub(crate) fn take_log() -> Vec<Record> {
    HAS_RECORDS.store(false, Ordering::Release);
    std::mem::take(&mut *RECORDS.lock()).into()
}

/// Hands the records that wait to Python's `logging`.
pub(crate) fn deliver_log(py: Python<'_>) -> PyResult<()> {
    if HAS_RECORDS.load(Ordering::Acquire) {
        let deliver = py.import("carton._log")?.getattr("deliver")?;
        python_call::call(&deliver, &PyTuple::empty(py), None)?;
    }
    Ok(())
}
