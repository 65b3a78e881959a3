//! Errors as exceptions. The classes are in `python/carton/_errors.py`, one for each `ErrorKind`.

use carton_core::{Error, ErrorKind};
use carton_rows::RowsError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyType;

/// The exception of an error: its class says the kind, its text the whole chain of causes.
pub(crate) fn of_error(py: Python<'_>, error: &Error) -> PyErr {
    exception(py, class_name(error), &text(error), error.hint())
}

/// An error that becomes an exception.
pub(crate) trait Raise {
    /// The exception.
    fn raise(&self, py: Python<'_>) -> PyErr;
}

impl Raise for Error {
    fn raise(&self, py: Python<'_>) -> PyErr {
        of_error(py, self)
    }
}

impl Raise for RowsError {
    fn raise(&self, py: Python<'_>) -> PyErr {
        let class = match self {
            Self::Call { source, .. } | Self::Worker(source) => class_name(source),
            Self::NoTensor { .. } | Self::NoColumn { .. } | Self::NoInputs | Self::Scalar { .. } => "SignatureError",
            Self::FixedRows { .. } | Self::NotByRow { .. } | Self::UnknownOutputs => "SignatureError",
            _ => class_of_kind(self.kind()),
        };
        exception(py, class, &text(self), self.hint())
    }
}

/// The exception of an error that has no kind of its own.
pub(crate) fn of_kind(py: Python<'_>, kind: ErrorKind, error: &dyn std::error::Error) -> PyErr {
    exception(py, class_of_kind(kind), &text(error), None)
}

/// As [`of_kind`], with what to do about it.
pub(crate) fn of_kind_with_hint(
    py: Python<'_>,
    kind: ErrorKind,
    error: &dyn std::error::Error,
    hint: Option<&str>,
) -> PyErr {
    exception(py, class_of_kind(kind), &text(error), hint.map(str::to_owned))
}

/// The caller passed something wrong that only this module knows.
pub(crate) fn invalid(py: Python<'_>, text: &str) -> PyErr {
    exception(py, "InvalidInputError", text, None)
}

/// The model, the stream or the sealed inputs were closed.
pub(crate) fn closed(py: Python<'_>, what: &str) -> PyErr {
    exception(py, "ClosedError", &format!("the {what} is closed"), None)
}

/// The process is a fork of one that used the library.
pub(crate) fn forked(py: Python<'_>) -> PyErr {
    let text = "this process was forked from one that had used carton, and has none of its threads";
    let hint =
        "start processes by spawn or forkserver (multiprocessing.set_start_method), or use carton in the child alone";
    exception(py, "ForkError", text, Some(hint.to_owned()))
}

fn class_name(error: &Error) -> &'static str {
    match error.kind() {
        _ if error.is_of_signature() => "SignatureError",
        // Python programs expect an `OSError` for a file that is missing too.
        _ if error.is_not_found() => "MachineError",
        kind => class_of_kind(kind),
    }
}

fn class_of_kind(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::InvalidInput => "InvalidInputError",
        ErrorKind::Timeout => "TimedOutError",
        ErrorKind::Busy => "BusyError",
        ErrorKind::Model => "ModelError",
        ErrorKind::RunnerCrashed => "RunnerCrashedError",
        ErrorKind::NoRunner => "NoRunnerError",
        ErrorKind::Integrity => "IntegrityError",
        ErrorKind::Untrusted => "UntrustedError",
        ErrorKind::Unsupported => "UnsupportedError",
        ErrorKind::Network => "NetworkError",
        ErrorKind::Machine => "MachineError",
        ErrorKind::SelfTest => "SelfTestError",
        ErrorKind::SignatureMismatch => "SignatureMismatchError",
        ErrorKind::Interrupted => "AbortedError",
        _ => "Error",
    }
}

/// The error and its causes in one text. A cause that the text ends with already is left out.
pub(crate) fn text(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let next = error.to_string();
        if !text.ends_with(&next) {
            text = format!("{text}: {next}");
        }
        cause = error.source();
    }
    text
}

fn exception(py: Python<'_>, class: &str, text: &str, hint: Option<String>) -> PyErr {
    let raised = || -> PyResult<PyErr> {
        static MODULE: PyOnceLock<Py<PyModule>> = PyOnceLock::new();
        let module = MODULE.get_or_try_init(py, || py.import("carton._errors").map(Bound::unbind))?;
        let class = module.bind(py).getattr(class)?.cast_into::<PyType>()?;
        let value = class.call1((text,))?;
        value.setattr("hint", hint)?;
        Ok(PyErr::from_value(value))
    };
    raised().unwrap_or_else(|error| error)
}
