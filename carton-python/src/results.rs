//! Results as instances of the classes of `carton._results`.

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyDict;
use serde::Serialize;

use crate::errors;

/// Makes a result of the class with this name. The fields are its keyword arguments.
pub(crate) fn result<'py>(py: Python<'py>, class: &str, fields: &Bound<'py, PyDict>) -> PyResult<Bound<'py, PyAny>> {
    static MODULE: PyOnceLock<Py<PyModule>> = PyOnceLock::new();
    let module = MODULE.get_or_try_init(py, || py.import("carton._results").map(Bound::unbind))?;
    module.bind(py).getattr(class)?.call((), Some(fields))
}

/// Makes a result by the function of `carton._reports` with this name, which gets the value as JSON.
pub(crate) fn report<'py>(py: Python<'py>, function: &str, value: &impl Serialize) -> PyResult<Bound<'py, PyAny>> {
    let json = serde_json::to_string(value).map_err(|error| errors::invalid(py, &error.to_string()))?;
    py.import("carton._reports")?.call_method1(function, (json,))
}

/// A dict of named values, each converted to Python.
macro_rules! fields {
    ($py:expr, { $($name:literal: $value:expr),* $(,)? }) => {{
        let fields = pyo3::types::PyDict::new($py);
        $(fields.set_item($name, $value)?;)*
        fields
    }};
}

pub(crate) use fields;
