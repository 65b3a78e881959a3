//! What confines the runner that `load` and `pack` start.

use carton_core::{Limits, Load, Pack, Permissions, SandboxMode};
use pyo3::prelude::*;

use crate::errors;

/// The options of `load` and `pack`, of which Python passes those that the caller gave.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct SandboxOptions {
    #[pyo3(default)]
    sandbox: Option<String>,
    #[pyo3(default)]
    allow: Vec<String>,
    #[pyo3(default)]
    limits: Option<LimitOptions>,
}

#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct LimitOptions {
    #[pyo3(default)]
    memory: Option<u64>,
    #[pyo3(default)]
    processes: Option<u64>,
    #[pyo3(default)]
    open_files: Option<u64>,
    #[pyo3(default)]
    file_size: Option<u64>,
    #[pyo3(default)]
    cpu_seconds: Option<u64>,
}

/// The operations that start runners.
pub(crate) trait Confined: Sized {
    fn with(self, mode: Option<SandboxMode>, allow: Permissions, limits: Limits) -> Self;
}

macro_rules! confined {
    ($operation:ty) => {
        impl Confined for $operation {
            fn with(self, mode: Option<SandboxMode>, allow: Permissions, limits: Limits) -> Self {
                let operation = match mode {
                    Some(mode) => self.sandbox(mode),
                    None => self,
                };
                let operation = operation.allow_network(allow.network).allow_build(allow.build).limits(limits);
                allow.read.into_iter().fold(operation, Self::allow_read)
            }
        }
    };
}

confined!(Load);
confined!(Pack);

impl SandboxOptions {
    /// Applies the options.
    ///
    /// # Errors
    /// The mode or a permission is unknown.
    pub(crate) fn apply<T: Confined>(self, py: Python<'_>, operation: T) -> PyResult<T> {
        let invalid = |error: &dyn std::error::Error| errors::invalid(py, &error.to_string());
        let mode = self.sandbox.map(|text| text.parse::<SandboxMode>().map_err(|error| invalid(&error))).transpose()?;
        let mut allow = Permissions::default();
        for text in &self.allow {
            allow.add(text).map_err(|error| invalid(&error))?;
        }
        let mut limits = Limits::default();
        if let Some(given) = self.limits {
            limits.memory = given.memory;
            limits.processes = given.processes;
            limits.open_files = given.open_files;
            limits.file_size = given.file_size;
            limits.cpu_seconds = given.cpu_seconds;
        }
        Ok(operation.with(mode, allow, limits))
    }
}
