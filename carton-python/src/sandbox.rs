//! What confines the runner that `load` and `pack` start.

use std::collections::BTreeMap;

use carton_core::sandbox::{Limits, Permissions, SandboxMode};
use carton_core::{Load, Pack};
use pyo3::prelude::*;

use crate::errors;

/// The options of `load` and `pack`.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct SandboxOptions {
    sandbox: Option<String>,
    allow: Vec<String>,
    env: Vec<String>,
    /// By name.
    limits: Option<BTreeMap<String, u64>>,
}

/// The operations that start runners.
pub(crate) trait Confined: Sized {
    fn with(self, mode: Option<SandboxMode>, allow: Permissions, env: Vec<String>, limits: Limits) -> Self;
}

macro_rules! confined {
    ($operation:ty) => {
        impl Confined for $operation {
            fn with(self, mode: Option<SandboxMode>, allow: Permissions, env: Vec<String>, limits: Limits) -> Self {
                let operation = match mode {
                    Some(mode) => self.sandbox(mode),
                    None => self,
                };
                env.into_iter().fold(operation, Self::env).allow(allow).limits(limits)
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
        for (name, value) in self.limits.into_iter().flatten() {
            limits.set(&name, value).map_err(|error| invalid(&error))?;
        }
        Ok(operation.with(mode, allow, self.env, limits))
    }
}
