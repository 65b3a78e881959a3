//! What callers say about loading, and what they are told of it.

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;

use super::Filter;
use crate::files::{TensorFile, TensorFileError};
use crate::ztensor::MAX_DENSE;

/// Where the bytes of loaded tensors are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Placement {
    /// Copied into one block of memory that asks the system for huge pages.
    #[default]
    Copied,
    /// Views of the mapped file, for files that nobody writes to meanwhile
    /// ([`FileBytes::map`](crate::files::FileBytes::map)). What is compressed is copied nevertheless.
    Mapped,
}

/// How weights are loaded.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct LoadOptions {
    /// Which tensors.
    pub filter: Filter,
    /// Where to.
    pub placement: Placement,
    /// Whether the digests of zTensor files are verified. Tensors without a digest load nevertheless:
    /// [`LoaderStatistics::n_verified`] says how many had one.
    pub verify: bool,
    /// How many bytes a sparse object of a file that is opened for this may have when it is dense; [`MAX_DENSE`](crate::ztensor::MAX_DENSE)
    /// if `None`. A file that is open has [a limit of its own](crate::files::TensorFile::with_max_dense).
    pub max_dense: Option<u64>,
    /// How many threads; all cores if `None`.
    pub n_threads: Option<usize>,
    /// Is told of each tensor.
    pub progress: Option<ProgressHook>,
}

impl LoadOptions {
    /// Only the tensors that pass `filter`.
    #[must_use]
    pub fn filter(self, filter: Filter) -> Self {
        Self { filter, ..self }
    }

    /// Views of the mapped file instead of copies.
    #[must_use]
    pub fn mapped(self) -> Self {
        Self { placement: Placement::Mapped, ..self }
    }

    /// Verifies digests.
    #[must_use]
    pub fn verified(self) -> Self {
        Self { verify: true, ..self }
    }

    /// Calls `hook`, from any thread, when a tensor has been loaded.
    #[must_use]
    pub fn on_progress(self, hook: impl Fn(&Progress<'_>) + Send + Sync + 'static) -> Self {
        Self { progress: Some(ProgressHook(Arc::new(hook))), ..self }
    }

    /// Opens the file at `path` as these options say.
    pub(super) fn open(&self, path: impl AsRef<Path>) -> Result<TensorFile, TensorFileError> {
        let file = match self.placement {
            Placement::Copied => TensorFile::open(path)?,
            Placement::Mapped => TensorFile::map(path)?,
        };
        Ok(file.with_max_dense(self.max_dense.unwrap_or(MAX_DENSE)))
    }

    pub(super) fn threads(&self) -> usize {
        self.n_threads.unwrap_or_else(crate::parallel::available_threads)
    }
}

/// Something that is told of each tensor.
#[derive(Clone)]
pub struct ProgressHook(Arc<dyn Fn(&Progress<'_>) + Send + Sync>);

impl ProgressHook {
    pub(super) fn tell(&self, progress: &Progress<'_>) {
        (self.0)(progress);
    }
}

impl fmt::Debug for ProgressHook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ProgressHook")
    }
}

/// A tensor that has been dealt with.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Progress<'a> {
    /// Its name.
    pub name: &'a str,
    /// The bytes of all tensors so far, this one included.
    pub n_bytes: u64,
    /// The bytes of all tensors that will be dealt with.
    pub total_bytes: u64,
}

/// How a load went.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct LoaderStatistics {
    /// How many tensors.
    pub n_tensors: usize,
    /// The bytes that were read from the file, or mapped.
    pub n_bytes: u64,
    /// How many tensors had a digest that was verified.
    pub n_verified: usize,
    /// How long it took, from opening the file on.
    pub seconds: f64,
}

impl LoaderStatistics {
    pub(super) fn new(n_tensors: usize, n_bytes: u64, n_verified: usize, elapsed: Duration) -> Self {
        Self { n_tensors, n_bytes, n_verified, seconds: elapsed.as_secs_f64() }
    }

    /// Gigabytes (10⁹ bytes) a second.
    #[must_use]
    pub fn gb_per_second(&self) -> f64 {
        if self.seconds > 0.0 { self.n_bytes as f64 / 1e9 / self.seconds } else { 0.0 }
    }
}
