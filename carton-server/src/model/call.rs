//! A call of a model: how it is counted, and what it takes while it waits and runs.

use std::sync::Arc;
use std::time::{Duration, Instant};

use carton_core::{Tensor, Tensors};

use super::admission::Share;
use crate::failure::{Failure, Reason};
use crate::metrics::ModelMetrics;

/// A request for a model, which is counted once: as answered, as failed, or as left by its client if this is dropped before.
#[derive(Debug)]
pub(crate) struct RequestCount {
    metrics: Arc<ModelMetrics>,
    /// When it began, or was taken in.
    since: Instant,
    is_counted: bool,
}

impl RequestCount {
    pub(super) fn new(metrics: Arc<ModelMetrics>, since: Instant) -> Self {
        Self { metrics, since, is_counted: false }
    }

    /// The request has arrived: from now on the time is that of the server, and not of its client.
    pub(crate) fn arrived(&mut self) {
        self.since = Instant::now();
    }

    /// The call was answered.
    pub(crate) fn answered(&mut self) {
        self.count(ModelMetrics::answered);
    }

    pub(crate) fn failed(&mut self, failure: &Failure) {
        self.count(|metrics, took| metrics.failed(failure.reason, took));
    }

    /// Passes on the duty to count it.
    pub(crate) fn pass_on(&mut self) -> Self {
        let is_counted = std::mem::replace(&mut self.is_counted, true);
        Self { metrics: Arc::clone(&self.metrics), since: self.since, is_counted }
    }

    fn count(&mut self, count: impl FnOnce(&ModelMetrics, Duration)) {
        if !std::mem::replace(&mut self.is_counted, true) {
            count(&self.metrics, self.since.elapsed());
        }
    }
}

impl Drop for RequestCount {
    fn drop(&mut self) {
        self.count(|metrics, took| metrics.failed(Reason::ClientLeft, took));
    }
}

/// A place among the calls that wait and run. The call counts as pending until this is dropped.
#[derive(Debug)]
pub(crate) struct QueuePlace {
    _share: Share,
    metrics: Arc<ModelMetrics>,
}

impl QueuePlace {
    pub(super) fn new(share: Share, metrics: &Arc<ModelMetrics>) -> Self {
        metrics.pending.inc();
        Self { _share: share, metrics: Arc::clone(metrics) }
    }
}

impl Drop for QueuePlace {
    fn drop(&mut self) {
        self.metrics.pending.dec();
    }
}

/// What a call takes while it waits and runs: a place, and memory for its request. A call that runs joined with others keeps this until that run
/// is over, also if its client has left.
#[derive(Debug)]
pub(crate) struct CallResources {
    _place: QueuePlace,
    memory: Share,
}

impl CallResources {
    pub(crate) fn new(place: QueuePlace, memory: Share) -> Self {
        Self { _place: place, memory }
    }

    /// Gives up the place: the call is answered.
    pub(super) fn into_memory(self) -> Share {
        self.memory
    }

    /// Counts tensors that exist.
    pub(super) fn share_of(&self, tensors: &Tensors) -> Arc<Share> {
        let mut share = self.memory.empty();
        share.count(n_bytes(tensors));
        Arc::new(share)
    }
}

/// What the model answered.
#[derive(Debug)]
pub(crate) struct Answered {
    pub(crate) outputs: Tensors,
    /// What the outputs take, with those of other calls that are in the same memory.
    pub(crate) outputs_memory: Arc<Share>,
    /// What the request takes.
    pub(crate) memory: Share,
}

/// The memory that tensors take.
pub(crate) fn n_bytes(tensors: &Tensors) -> usize {
    tensors.values().map(tensor_n_bytes).sum()
}

/// The memory that a tensor takes.
pub(crate) fn tensor_n_bytes(tensor: &Tensor) -> usize {
    match tensor {
        Tensor::Numeric(numbers) => numbers.bytes().len(),
        Tensor::String(strings) => strings.elements().iter().map(|string| string.len() + size_of::<String>()).sum(),
        Tensor::Bytes(bytes) => bytes.elements().iter().map(|element| element.len() + size_of::<Vec<u8>>()).sum(),
        Tensor::Nested(list) => list.elements().iter().map(tensor_n_bytes).sum(),
        _ => 0,
    }
}
