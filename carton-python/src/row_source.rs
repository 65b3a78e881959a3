//! The tables that `Model.map` reads: files, and streams of the Arrow C interface.

use std::error::Error;
use std::ffi::CStr;

use arrow_array::ffi_stream::{FFI_ArrowArrayStream, RecordBatchStreamReader};
use arrow_array::{RecordBatch, RecordBatchReader};
use arrow_schema::SchemaRef;
use carton_core::ErrorKind;
use carton_dataset::Input;
use carton_rows::RowsError;
use pyo3::exceptions::{PyKeyboardInterrupt, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyCapsule, PyString};

use crate::errors::{self, Raise as _};
use crate::paths::GivenPath;
use crate::runtime::{self, Inside};

/// The name that the Arrow PyCapsule interface gives capsules of streams.
pub(crate) const STREAM: &CStr = c"arrow_array_stream";

pub(crate) type Batches = Box<dyn Iterator<Item = Result<RecordBatch, Box<dyn Error + Send + Sync>>> + Send>;

/// A table that rows come from.
pub(crate) enum RowSource {
    File(Input),
    /// The table is the object that has the stream.
    Stream {
        reader: RecordBatchStreamReader,
        table: Py<PyAny>,
    },
}

/// The rows of a table.
pub(crate) struct Rows {
    pub(crate) batches: Batches,
    pub(crate) n_rows: Option<u64>,
    /// The object that has the stream.
    table: Option<Py<PyAny>>,
}

impl RowSource {
    /// Opens a file, or anything that has an Arrow stream.
    pub(crate) fn open(py: Python<'_>, table: &Bound<'_, PyAny>) -> PyResult<Self> {
        if is_path(table)? {
            let GivenPath(path) = table.extract()?;
            // On another thread: the other end of a named pipe may be opened much later.
            let input = runtime::blocking(py, None, move |_| Ok(Input::open(path)))?;
            return Ok(Self::File(input.map_err(|error| RowsError::Read(Box::new(error)).raise(py))?));
        }
        if !table.hasattr("__arrow_c_stream__")? {
            let kind = table.get_type();
            let text = format!("expected a path, or a table with an Arrow stream (__arrow_c_stream__), found {kind}");
            return Err(PyTypeError::new_err(text));
        }
        let exported = table.call_method0("__arrow_c_stream__")?;
        let capsule = exported.cast::<PyCapsule>()?;
        let stream = capsule.pointer_checked(Some(STREAM))?.as_ptr().cast::<FFI_ArrowArrayStream>();
        // SAFETY: the name of the capsule says that it holds a stream of the Arrow C interface, and the interpreter's lock keeps other
        // threads from it. The stream is taken out of the capsule, which keeps a released one, as the interface requires.
        let reader = unsafe { RecordBatchStreamReader::from_raw(stream) };
        let reader = reader.map_err(|error| errors::of_kind(py, ErrorKind::InvalidInput, &error))?;
        Ok(Self::Stream { reader, table: table.clone().unbind() })
    }

    pub(crate) fn schema(&self) -> SchemaRef {
        match self {
            Self::File(input) => input.schema(),
            Self::Stream { reader, .. } => reader.schema(),
        }
    }

    /// Restricts a file to these columns. The columns of a stream are in memory already.
    pub(crate) fn project(self, columns: &[String]) -> Result<Self, RowsError> {
        Ok(match self {
            Self::File(input) => Self::File(input.project(columns)?),
            stream @ Self::Stream { .. } => stream,
        })
    }

    pub(crate) fn rows(self) -> Rows {
        match self {
            Self::File(input) => {
                Rows { n_rows: input.n_rows(), batches: Box::new(input.map(|batch| Ok(batch?))), table: None }
            }
            Self::Stream { reader, table } => {
                Rows { batches: Box::new(StreamRows(reader)), n_rows: None, table: Some(table) }
            }
        }
    }
}

fn is_path(table: &Bound<'_, PyAny>) -> PyResult<bool> {
    Ok(table.is_instance_of::<PyString>() || table.is_instance_of::<PyBytes>() || table.hasattr("__fspath__")?)
}

impl Rows {
    /// The exception for an error of mapping these rows. An exception of Python code that they come from is raised as it is.
    pub(crate) fn exception(&self, py: Python<'_>, error: &RowsError) -> PyErr {
        if let (RowsError::Read(read), Some(table)) = (error, &self.table) {
            // A stream of Arrow passes on only the text. `MappedRows`, and `_rows.py` for readers of pyarrow, keep the exception.
            if let Ok(true) = table.bind(py).hasattr("_raise")
                && let Err(raised) = table.bind(py).call_method0("_raise")
            {
                return raised;
            }
            if read.to_string().contains("KeyboardInterrupt") {
                return PyKeyboardInterrupt::new_err(());
            }
        }
        error.raise(py)
    }
}

/// The rows of a stream. Its producer may be Python code, and then takes the interpreter's lock.
///
/// A producer that takes longer for a batch than the exit of the interpreter waits can abort the process: the interpreter ends the thread
/// by unwinding its stack, and the frames of pyarrow then release a lock that they do not have. These lie right above the Python code,
/// so that this module cannot keep them from being unwound.
pub(crate) struct StreamRows(RecordBatchStreamReader);

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
