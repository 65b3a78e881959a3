//! Models on the rows of tables: `Model.map`. Tables come from files, or through the Arrow PyCapsule interface, and leave the same way.

use std::collections::BTreeMap;
use std::error::Error;
use std::io::{self, BufWriter};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use arrow_array::ffi_stream::{FFI_ArrowArrayStream, RecordBatchStreamReader};
use arrow_array::{RecordBatch, RecordBatchReader};
use arrow_schema::{ArrowError, SchemaRef};
use carton_core::{Carton, ErrorKind, Tensors};
use carton_dataset::Input;
use carton_rows::{Keep, MapCounts, MapRows, MappedRows as Mapped, RowFormat, RowsError, write_mapped};
use carton_tensor::context::{Context, ProgressEvent};
use carton_tensor::files::PendingFile;
use parking_lot::{Mutex, MutexGuard};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict, PyTuple};

use crate::errors::{self, Raise as _};
use crate::model::{self, Model};
use crate::reports::{self, Event, Progress};
use crate::runtime::{self, Inside};
use crate::tensors;

/// The name that the Arrow PyCapsule interface gives capsules of streams.
pub(crate) const STREAM: &std::ffi::CStr = c"arrow_array_stream";

type Rows = Box<dyn Iterator<Item = Result<RecordBatch, Box<dyn Error + Send + Sync>>> + Send>;

/// The rows of a table with the outputs of a model. `Model.map` makes it. The outputs are computed while the rows are read. Rows can be
/// read once: by iterating, as an Arrow stream, or by `write`.
#[pyclass(frozen, module = "carton", name = "MappedRows")]
pub(crate) struct MappedRows {
    /// `None` once the rows are being read.
    state: Mutex<Option<State>>,
    /// The exception that ended the stream. Readers of Arrow streams pass on only its text.
    raised: Arc<Mutex<Option<PyErr>>>,
}

struct State {
    mapped: Mapped,
    rows: Rows,
    n_rows: Option<u64>,
}

impl State {
    fn next(&mut self, py: Python<'_>) -> PyResult<Option<RecordBatch>> {
        let handle = runtime::runtime(py)?.handle().clone();
        let Self { mapped, rows, .. } = self;
        // Before the wait: a source of rows that uses a model waits for the same runtime.
        let filled = {
            let _inside = Inside::enter();
            py.detach(|| {
                Inside::outside(|| {
                    let _entered = handle.enter();
                    mapped.fill(rows)
                })
            })
        };
        filled.map_err(|error| error.raise(py))?;
        runtime::wait(py, None, async { mapped.next().await.transpose() })
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
    batch_size: Option<usize>,
    batch_bytes: Option<usize>,
    workers: usize,
}

#[derive(FromPyObject)]
enum KeepOption {
    All(bool),
    Names(Vec<String>),
}

impl MapOptions {
    fn configured<'a>(&self, py: Python<'_>, mut map: MapRows<'a>, constants: &Tensors) -> PyResult<MapRows<'a>> {
        let positive = |name: &str, number: usize| {
            let text = || format!("expected a {name} of at least 1, found {number}");
            NonZeroUsize::new(number).ok_or_else(|| errors::invalid(py, &text()))
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
        Ok(map.workers(positive("number of workers", self.workers)?))
    }
}

/// A table that rows come from.
enum Table {
    File(Input),
    Stream(RecordBatchStreamReader),
}

impl Table {
    /// Opens a file, or anything that has an Arrow stream.
    fn open(py: Python<'_>, table: &Bound<'_, PyAny>) -> PyResult<Self> {
        if let Ok(path) = table.extract::<PathBuf>() {
            let input = py.detach(|| Input::open(path));
            return Ok(Self::File(input.map_err(|error| RowsError::Read(Box::new(error)).raise(py))?));
        }
        let exported = table.call_method0("__arrow_c_stream__").map_err(|error| {
            let kind = table.get_type();
            let text =
                format!("expected a path, or a table with an Arrow stream (__arrow_c_stream__), found {kind}: {error}");
            PyTypeError::new_err(text)
        })?;
        let capsule = exported.cast::<PyCapsule>()?;
        let stream = capsule.pointer_checked(Some(STREAM))?.as_ptr().cast::<FFI_ArrowArrayStream>();
        // SAFETY: the name of the capsule says that it holds a stream of the Arrow C interface, and the interpreter's lock keeps other
        // threads from it. The reader takes the stream out of the capsule, and leaves a released one, as the interface requires.
        let reader = unsafe { RecordBatchStreamReader::from_raw(stream) };
        Ok(Self::Stream(reader.map_err(|error| errors::of_kind(py, ErrorKind::InvalidInput, &error))?))
    }

    fn schema(&self) -> SchemaRef {
        match self {
            Self::File(input) => input.schema(),
            Self::Stream(reader) => reader.schema(),
        }
    }

    /// Restricts a file to these columns. The columns of a stream are in memory already.
    fn project(self, columns: &[String]) -> Result<Self, RowsError> {
        Ok(match self {
            Self::File(input) => Self::File(input.project(columns)?),
            stream @ Self::Stream(_) => stream,
        })
    }

    fn n_rows(&self) -> Option<u64> {
        match self {
            Self::File(input) => input.n_rows(),
            Self::Stream(_) => None,
        }
    }

    fn rows(self) -> Rows {
        match self {
            Self::File(input) => Box::new(input.map(|batch| Ok(batch?))),
            Self::Stream(reader) => Box::new(StreamRows(reader)),
        }
    }
}

/// The rows of a stream. Its producer may be Python code, and then takes the interpreter's lock. A producer that takes longer for a batch than
/// the exit of the interpreter waits can abort the process.
struct StreamRows(RecordBatchStreamReader);

impl Iterator for StreamRows {
    type Item = Result<RecordBatch, Box<dyn Error + Send + Sync>>;

    fn next(&mut self) -> Option<Self::Item> {
        Inside::counted(|| self.0.next()).map(|batch| {
            let batch = batch?;
            // The import of a stream checks nothing: offsets and text may be invalid.
            for column in batch.columns() {
                column.to_data().validate_full()?;
            }
            Ok(batch)
        })
    }
}

impl MappedRows {
    fn take(&self, py: Python<'_>) -> PyResult<State> {
        if runtime::is_forked() {
            return Err(errors::forked(py));
        }
        let state = self.state.lock().take();
        state.ok_or_else(|| errors::closed(py, "stream of mapped rows, which can be read once,"))
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
        let table = Table::open(py, table)?;
        let constants = match constants {
            Some(constants) => tensors::named_tensors(constants)?,
            None => Tensors::default(),
        };
        let map = options.configured(py, MapRows::new(&carton, &table.schema()), &constants)?;
        let columns = map.columns().map_err(|error| error.raise(py))?;
        let table = table.project(&columns).map_err(|error| error.raise(py))?;
        let map = options.configured(py, MapRows::new(&carton, &table.schema()), &constants)?;
        let mapped = runtime::wait(py, None, map.into_future())?;
        let state = State { mapped, n_rows: table.n_rows(), rows: table.rows() };
        Ok(Self { state: Mutex::new(Some(state)), raised: Arc::default() })
    }

    /// Writes all rows to a file, whose format is that of its extension. Returns their number.
    #[pyo3(signature = (path, progress=None))]
    fn write(&self, py: Python<'_>, path: PathBuf, progress: Option<Py<PyAny>>) -> PyResult<u64> {
        let Some(format) = RowFormat::of_path(&path) else {
            let text = format!("`{}`: expected a file .parquet, .arrow or .arrows", path.display());
            return Err(errors::invalid(py, &text));
        };
        let State { mapped, rows, n_rows } = self.take(py)?;
        let handle = runtime::runtime(py)?.handle().clone();
        let progress = Progress::new(progress);
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
        let written = py.detach(|| Inside::outside(|| written(mapped, rows, &path, format, &handle, &context)));
        let raised = raised.lock().take();
        match (written, raised) {
            (_, Some(error)) => Err(error),
            (Ok(done), None) => Ok(done.rows),
            (Err(error), None) => Err(error.raise(py)),
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
        let mut state = self.take(py)?;
        let mut first = None;
        if state.mapped.schema().is_none() {
            // The first call decides the schema.
            first = state.next(py)?;
        }
        let schema = state.mapped.schema().cloned().ok_or_else(|| RowsError::UnknownOutputs.raise(py))?;
        let rows = Mutex::new(ReaderState { first, state: Some(state) });
        let reader = Reader { schema, rows, raised: Arc::clone(&self.raised) };
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
        let state = self.state.lock().take();
        model::end(py, state);
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
            std::mem::forget(self.state.get_mut().take());
        }
    }
}

/// Writes all rows to a file, which gets its name when it is complete.
fn written(
    mapped: Mapped,
    mut rows: Rows,
    path: &Path,
    format: RowFormat,
    handle: &tokio::runtime::Handle,
    context: &Context,
) -> Result<MapCounts, RowsError> {
    let wrong = |error: io::Error| RowsError::Write(format!("`{}`: {error}", path.display()).into());
    let pending = PendingFile::new(path).map_err(wrong)?;
    let output = BufWriter::new(pending.file().try_clone().map_err(wrong)?);
    let (output, counts) = write_mapped(mapped, &mut rows, output, format, handle, context)?;
    output.into_inner().map_err(|error| wrong(error.into_error()))?;
    pending.publish().map_err(wrong)?;
    Ok(counts)
}

/// The stream of mapped rows, which any thread of Python reads.
struct Reader {
    schema: SchemaRef,
    /// Locked while a thread reads. Libraries do not keep other threads from reading at the same time, nor from reading the text of an
    /// error that another one replaces, so that this is no error.
    rows: Mutex<ReaderState>,
    raised: Arc<Mutex<Option<PyErr>>>,
}

struct ReaderState {
    first: Option<RecordBatch>,
    /// `None` after it was dropped in a fork, whose parent has the runners.
    state: Option<State>,
}

impl ReaderState {
    fn next(&mut self, py: Python<'_>) -> PyResult<Option<RecordBatch>> {
        if let Some(first) = self.first.take() {
            return Ok(Some(first));
        }
        self.state.as_mut().map_or(Ok(None), |state| state.next(py))
    }
}

impl Reader {
    /// Waits for other threads that read, which need the interpreter's lock.
    fn rows_of_this_thread(&self, py: Python<'_>) -> PyResult<MutexGuard<'_, ReaderState>> {
        loop {
            if let Some(rows) = self.rows.try_lock() {
                return Ok(rows);
            }
            py.detach(|| Inside::outside(|| drop(self.rows.try_lock_for(runtime::TICK))));
            py.check_signals()?;
        }
    }
}

impl Iterator for Reader {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        if runtime::is_forked() {
            return Some(Err(ArrowError::ComputeError(
                "the process was forked from the one that maps the rows".into(),
            )));
        }
        let next = runtime::attached(|py| {
            self.rows_of_this_thread(py).and_then(|mut rows| rows.next(py)).map_err(|error| {
                let text = error.to_string();
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

impl RecordBatchReader for Reader {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        if runtime::is_forked() {
            std::mem::forget(self.rows.get_mut().state.take());
        }
    }
}
