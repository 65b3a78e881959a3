//! Models on the rows of tables: `Model.map` and `Model.map_to`. Tables come from files, or through the Arrow PyCapsule interface, and leave the same way.

use std::collections::BTreeMap;
use std::io::{self, BufWriter};
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use arrow_array::ffi::FFI_ArrowSchema;
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{RecordBatch, RecordBatchReader};
use arrow_schema::{ArrowError, Schema, SchemaRef, TimeUnit};
use carton_core::{Carton, Tensors};
use carton_rows::{Keep, MapCounts, MapRows, MappedRows as Mapped, Nulls, RowFormat, RowsError, write_mapped};
use carton_tensor::context::{Context, ProgressEvent};
use carton_tensor::files::PendingFile;
use parking_lot::{Mutex, MutexGuard};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict, PyTuple};

use crate::closing::Closing;
use crate::errors::{self, Raise as _};
use crate::model::{self, Model};
use crate::paths::GivenPath;
use crate::reports::{self, Event, Progress};
use crate::results::{self, fields};
use crate::row_source::{Batches, RowSource, Rows, STREAM};
use crate::runtime::{self, Inside};
use crate::tensors;

/// The rows of a table with the outputs of a model. `Model.map` makes it. The outputs are computed while the rows are read. Rows can be
/// read once: by iterating, as an Arrow stream, or by `write`.
#[pyclass(frozen, module = "carton", name = "MappedRows")]
pub(crate) struct MappedRows {
    /// `None` once the rows are being read.
    unread: Mutex<Option<UnreadRows>>,
    /// The exception that ended the stream. Readers of Arrow streams pass on only its text.
    raised: Arc<Mutex<Option<PyErr>>>,
}

/// Rows that nothing has read yet, and then those that are left.
struct UnreadRows {
    mapped: Mapped,
    rows: Rows,
    /// Says whether the model was closed.
    closing: Arc<Closing>,
}

impl UnreadRows {
    fn next(&mut self, py: Python<'_>) -> PyResult<Option<RecordBatch>> {
        let handle = runtime::runtime(py)?.handle().clone();
        let Self { mapped, rows, closing } = self;
        if closing.is_closed() {
            return Err(errors::closed(py, "model"));
        }
        // Before the wait: a source of rows that uses a model waits for the same runtime.
        let filled = {
            let _inside = Inside::enter();
            py.detach(|| {
                Inside::outside(|| {
                    let _entered = handle.enter();
                    mapped.fill(&mut rows.batches)
                })
            })
        };
        filled.map_err(|error| rows.exception(py, &error))?;
        let next = runtime::wait(py, None, async {
            tokio::select! {
                next = mapped.next() => next.transpose().map(Some),
                () = closing.closed() => Ok::<_, RowsError>(None),
            }
        })?;
        next.ok_or_else(|| errors::closed(py, "model"))
    }
}

/// The options of `map`, as Python passes them.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct MapOptions {
    inputs: BTreeMap<String, String>,
    outputs: BTreeMap<String, String>,
    /// `None` for the columns that are not inputs.
    keep: Option<KeepOption>,
    batch_size: Option<i128>,
    batch_bytes: Option<i128>,
    workers: i128,
    /// `nan`, or `None`.
    null: Option<String>,
    /// `s`, `ms`, `us`, `ns`, or `None`.
    times: Option<String>,
}

#[derive(FromPyObject)]
enum KeepOption {
    All(bool),
    Names(Vec<String>),
}

impl MapOptions {
    fn configured<'a>(&self, py: Python<'_>, mut map: MapRows<'a>, constants: &Tensors) -> PyResult<MapRows<'a>> {
        let positive = |name: &str, number: i128| {
            let text = || format!("expected a {name} of at least 1, found {number}");
            let number = usize::try_from(number).ok().and_then(NonZeroUsize::new);
            number.ok_or_else(|| errors::invalid(py, &text()))
        };
        for (name, column) in &self.inputs {
            map = map.input(name, column);
        }
        for (name, column) in &self.outputs {
            map = map.output(name, column);
        }
        for (name, value) in constants {
            map = map.constant(name, value.clone());
        }
        map = match &self.keep {
            None => map,
            Some(KeepOption::All(true)) => map.keep(Keep::All),
            Some(KeepOption::All(false)) => map.keep(Keep::These(Vec::new())),
            Some(KeepOption::Names(names)) => map.keep(Keep::These(names.clone())),
        };
        if let Some(n_rows) = self.batch_size {
            map = map.batch_rows(positive("batch_size", n_rows)?);
        }
        if let Some(n_bytes) = self.batch_bytes {
            map = map.batch_bytes(positive("batch_bytes", n_bytes)?);
        }
        map = match self.null.as_deref() {
            None => map,
            Some("nan") => map.nulls(Nulls::Nan),
            Some(other) => return Err(errors::invalid(py, &format!("expected null=\"nan\" or None, found {other:?}"))),
        };
        map = match self.times.as_deref() {
            None => map,
            Some("s") => map.times(TimeUnit::Second),
            Some("ms") => map.times(TimeUnit::Millisecond),
            Some("us") => map.times(TimeUnit::Microsecond),
            Some("ns") => map.times(TimeUnit::Nanosecond),
            Some(other) => {
                let text = format!("expected times=\"s\", \"ms\", \"us\", \"ns\" or None, found {other:?}");
                return Err(errors::invalid(py, &text));
            }
        };
        Ok(map.workers(positive("number of workers", self.workers)?))
    }
}

impl MappedRows {
    fn take(&self, py: Python<'_>) -> PyResult<UnreadRows> {
        if runtime::is_forked() {
            return Err(errors::forked(py));
        }
        let unread = self.unread.lock().take();
        unread.ok_or_else(|| errors::closed(py, "stream of mapped rows, which can be read once,"))
    }
}

#[pymethods]
impl MappedRows {
    #[new]
    fn new(
        py: Python<'_>,
        model: &Bound<'_, Model>,
        table: &Bound<'_, PyAny>,
        constants: Option<&Bound<'_, PyDict>>,
        options: MapOptions,
    ) -> PyResult<Self> {
        let carton: Carton = model.get().carton(py)?;
        let source = RowSource::open(py, table)?;
        let constants = match constants {
            Some(constants) => tensors::named_tensors(constants)?,
            None => Tensors::default(),
        };
        let map = options.configured(py, MapRows::new(&carton, &source.schema()), &constants)?;
        let columns = map.columns().map_err(|error| error.raise(py))?;
        let source = source.project(&columns).map_err(|error| error.raise(py))?;
        let map = options.configured(py, MapRows::new(&carton, &source.schema()), &constants)?;
        let mapped = runtime::wait(py, None, map.into_future())?;
        let unread = UnreadRows { mapped, rows: source.rows(), closing: model.get().closing() };
        Ok(Self { unread: Mutex::new(Some(unread)), raised: Arc::default() })
    }

    /// Writes all rows to a file (.parquet, .arrow, .arrows), which is complete or absent: a `MapReport`.
    #[pyo3(signature = (path, progress=None))]
    fn write<'py>(&self, py: Python<'py>, path: GivenPath, progress: Option<Py<PyAny>>) -> PyResult<Bound<'py, PyAny>> {
        let GivenPath(path) = path;
        let Some(format) = RowFormat::of_path(&path) else {
            let text = format!("`{}`: expected a file .parquet, .arrow or .arrows", path.display());
            return Err(errors::invalid(py, &text));
        };
        let UnreadRows { mapped, mut rows, closing } = self.take(py)?;
        let handle = runtime::runtime(py)?.handle().clone();
        let progress = Progress::new(progress);
        let n_rows = rows.n_rows;
        let raised = Arc::new(Mutex::new(None));
        let (given, looked) = (Arc::clone(&raised), Mutex::new(Instant::now()));
        // The reports come from this thread.
        let context = Context::watched(move |event: &ProgressEvent, cancel_token| {
            // Only the last report has a total.
            if event.total.is_none() && looked.lock().elapsed() < runtime::TICK {
                return;
            }
            *looked.lock() = Instant::now();
            let deliver = |py: Python<'_>| {
                if event.total.is_none() && closing.is_closed() {
                    return Err(errors::closed(py, "model"));
                }
                reports::deliver_log(py)?;
                if let Some(progress) = &progress {
                    progress.report(Event { total: n_rows.or(event.total), ..event.into() });
                    progress.deliver(py)?;
                }
                py.check_signals()
            };
            if let Err(error) = runtime::attached(deliver) {
                *given.lock() = Some(error);
                cancel_token.cancel();
            }
        });
        let _inside = Inside::enter();
        let batches = &mut rows.batches;
        let written = py.detach(|| Inside::outside(|| written(mapped, batches, &path, format, &handle, &context)));
        let raised = raised.lock().take();
        match (written, raised) {
            (_, Some(error)) => Err(error),
            (Ok(done), None) => {
                let fields = fields!(py, { "path": path.as_os_str(), "rows": done.rows, "calls": done.calls });
                results::result(py, "MapReport", &fields)
            }
            (Err(error), None) => Err(rows.exception(py, &error)),
        }
    }

    /// The rows as an Arrow stream, for any library that reads those: `pyarrow.table(rows)`, `polars.DataFrame(rows)`.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        // The interface leaves it to the producer whether it follows the request.
        let _ = requested_schema;
        let mut unread = self.take(py)?;
        let mut first = None;
        if unread.mapped.schema().is_none() {
            // The first call decides the schema.
            first = unread.next(py)?;
        }
        let schema = unread.mapped.schema().cloned().ok_or_else(|| RowsError::UnknownOutputs.raise(py))?;
        check_names(py, &schema)?;
        let rows = Mutex::new(Turn { first, unread: Some(unread) });
        let reader = MappedReader { schema, rows, raised: Arc::clone(&self.raised) };
        PyCapsule::new_with_value(py, FFI_ArrowArrayStream::new(Box::new(reader)), STREAM)
    }

    /// Raises the exception that ended the stream, if one did.
    fn _raise(&self) -> PyResult<()> {
        self.raised.lock().take().map_or(Ok(()), Err)
    }

    fn __iter__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        slf.py().import("carton._rows")?.call_method1("batches", (slf,))
    }

    /// All rows as a `pyarrow.Table`.
    fn read_all<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        slf.py().import("carton._rows")?.call_method1("read_all", (slf,))
    }

    /// Cancels the calls that are running. Nothing can be read any more.
    fn close(&self, py: Python<'_>) {
        let unread = self.unread.lock().take();
        model::end(py, unread);
    }

    fn __enter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, py: Python<'_>, _exception: &Bound<'_, PyTuple>) {
        self.close(py);
    }
}

impl Drop for MappedRows {
    fn drop(&mut self) {
        if runtime::is_forked() {
            std::mem::forget(self.unread.get_mut().take());
        }
    }
}

/// Checks that the columns can be in a stream of the C interface, whose names end at a NUL.
fn check_names(py: Python<'_>, schema: &Schema) -> PyResult<()> {
    for field in schema.fields() {
        if let Err(error) = FFI_ArrowSchema::try_from(field.as_ref()) {
            let text = format!("column `{}` cannot be in an Arrow stream: {error}", field.name().escape_debug());
            return Err(errors::invalid(py, &text));
        }
    }
    Ok(())
}

/// Writes all rows to a file, which gets its name when it is complete.
fn written(
    mapped: Mapped,
    rows: &mut Batches,
    path: &Path,
    format: RowFormat,
    handle: &tokio::runtime::Handle,
    context: &Context,
) -> Result<MapCounts, RowsError> {
    let wrong = |error: io::Error| RowsError::Write(error.into());
    let write = || {
        let pending = PendingFile::new(path).map_err(wrong)?;
        let output = BufWriter::new(pending.file().try_clone().map_err(wrong)?);
        let (output, counts) = write_mapped(mapped, rows, output, format, handle, context)?;
        output.into_inner().map_err(|error| wrong(error.into_error()))?;
        pending.publish().map_err(wrong)?;
        Ok(counts)
    };
    write().map_err(|error: RowsError| error.at_output(path))
}

/// The stream of mapped rows, which any thread of Python reads.
struct MappedReader {
    schema: SchemaRef,
    /// Locked while a thread reads. Libraries do not keep other threads from reading at the same time, nor from reading the text of an
    /// error that another one replaces, so that this is no error.
    rows: Mutex<Turn>,
    raised: Arc<Mutex<Option<PyErr>>>,
}

struct Turn {
    first: Option<RecordBatch>,
    /// `None` after an error, and in a fork, whose parent has the runners.
    unread: Option<UnreadRows>,
}

impl Turn {
    fn next(&mut self, py: Python<'_>) -> PyResult<Option<RecordBatch>> {
        if let Some(first) = self.first.take() {
            return Ok(Some(first));
        }
        let next = self.unread.as_mut().map_or(Ok(None), |unread| unread.next(py));
        if next.is_err() {
            // Ends the runners.
            model::end(py, self.unread.take());
        }
        next
    }
}

impl MappedReader {
    /// Waits for other threads that read, which need the interpreter's lock.
    fn rows_of_this_thread(&self, py: Python<'_>) -> PyResult<MutexGuard<'_, Turn>> {
        loop {
            if let Some(rows) = self.rows.try_lock() {
                return Ok(rows);
            }
            py.detach(|| Inside::outside(|| drop(self.rows.try_lock_for(runtime::TICK))));
            py.check_signals()?;
        }
    }
}

impl Iterator for MappedReader {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        if runtime::is_forked() {
            return Some(Err(ArrowError::ComputeError(
                "the process was forked from the one that maps the rows".into(),
            )));
        }
        let next = runtime::attached(|py| {
            self.rows_of_this_thread(py).and_then(|mut rows| rows.next(py)).map_err(|error| {
                // A NUL would end the text.
                let text = error.to_string().replace('\0', "\\0");
                // Here, because an older exception is freed with the lock.
                *self.raised.lock() = Some(error);
                text
            })
        });
        match next {
            Ok(batch) => batch.map(Ok),
            Err(text) => Some(Err(ArrowError::ComputeError(text))),
        }
    }
}

impl RecordBatchReader for MappedReader {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }
}

impl Drop for MappedReader {
    fn drop(&mut self) {
        let unread = self.rows.get_mut().unread.take();
        if runtime::is_forked() {
            std::mem::forget(unread);
            return;
        }
        let raised = std::mem::take(&mut self.raised);
        // Both own objects of Python, and the library that drops the stream may have released the lock.
        runtime::attached(|py| {
            model::end(py, unread);
            drop(raised);
        });
    }
}
