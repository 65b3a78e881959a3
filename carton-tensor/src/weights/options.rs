//! The options of a load, and its statistics.

use std::path::Path;
use std::time::Duration;

use serde::Serialize;

use super::Filter;
use crate::any_file::{TensorFile, TensorFileError};
use crate::context::Context;
use crate::ztensor::MAX_DENSE;

/// Where the bytes of loaded tensors are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Placement {
    /// Copied into one block of memory, for which huge pages are requested.
    #[default]
    Copied,
    /// Views of the mapped file. Use this only for files that no process writes to while they are mapped
    /// ([`FileBytes::map`](crate::files::FileBytes::map)). Compressed tensors are copied nevertheless.
    Mapped,
}

/// The options of a load.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct LoadOptions {
    /// Which tensors to load.
    pub filter: Filter,
    /// Where to put them.
    pub placement: Placement,
    /// Whether to verify the digests of zTensor files. Tensors without a digest are loaded nevertheless;
    /// [`LoaderStatistics::n_verified`] is the number of tensors that had one.
    pub verify: bool,
    /// The most bytes that a sparse object may have once it is dense; [`MAX_DENSE`](crate::ztensor::MAX_DENSE) if `None`. This applies
    /// to files that the load opens. A file that is already open has [its own limit](crate::any_file::TensorFile::with_max_dense).
    pub max_dense: Option<u64>,
    /// The number of threads; `None` for all cores.
    pub n_threads: Option<usize>,
    /// The context of the load. Its progress is the bytes of the tensors, as they are in the file, in the stage `loading`, `quantizing`,
    /// `joining` or `validating`. A load that is cancelled fails with [`WeightsError::Interrupted`](super::WeightsError::Interrupted).
    pub context: Context,
}

impl LoadOptions {
    /// Loads only the tensors that `filter` accepts.
    #[must_use]
    pub fn filter(self, filter: Filter) -> Self {
        Self { filter, ..self }
    }

    /// Maps the file instead of copying its tensors.
    #[must_use]
    pub fn mapped(self) -> Self {
        Self { placement: Placement::Mapped, ..self }
    }

    /// Verifies digests.
    #[must_use]
    pub fn verified(self) -> Self {
        Self { verify: true, ..self }
    }

    /// Reports the progress to `context`, from any thread, and ends once that is cancelled.
    #[must_use]
    pub fn context(self, context: Context) -> Self {
        Self { context, ..self }
    }

    /// Opens the file at `path` according to these options.
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

/// The statistics of a load.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct LoaderStatistics {
    /// The number of tensors.
    pub n_tensors: usize,
    /// The bytes read from the file, or mapped.
    pub n_bytes: u64,
    /// The number of tensors whose digest was verified.
    pub n_verified: usize,
    /// The duration in seconds, including opening the file.
    pub seconds: f64,
}

impl LoaderStatistics {
    pub(super) fn new(n_tensors: usize, n_bytes: u64, n_verified: usize, elapsed: Duration) -> Self {
        Self { n_tensors, n_bytes, n_verified, seconds: elapsed.as_secs_f64() }
    }

    /// The throughput in gigabytes (10⁹ bytes) per second.
    #[must_use]
    pub fn gb_per_second(&self) -> f64 {
        if self.seconds > 0.0 { self.n_bytes as f64 / 1e9 / self.seconds } else { 0.0 }
    }
}
