//! Paths as Python has them: `str`, `bytes`, or an object that is either by `__fspath__`.

use std::path::PathBuf;

use pyo3::prelude::*;

/// The path of a file or folder.
pub(crate) struct GivenPath(pub(crate) PathBuf);

impl FromPyObject<'_, '_> for GivenPath {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, '_, PyAny>) -> PyResult<Self> {
        // Names that are not UTF-8 come through: both sides keep their bytes.
        object.py().import("os")?.call_method1("fsdecode", (object,))?.extract().map(Self)
    }
}
