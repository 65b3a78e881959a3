//! Iteration over some of a dataset's shards.

use std::num::NonZeroUsize;

use super::{Assignment, Batch, Dataset, Sample};
use crate::error::DatasetError;
use crate::manifest::Shard;

/// Some shards of a dataset: all of them, or those of one worker.
#[derive(Clone, Debug)]
pub struct Shards<'d> {
    dataset: &'d Dataset,
    positions: Vec<usize>,
}

impl Dataset {
    /// All shards, in the order of the manifest.
    #[must_use]
    pub fn shards(&self) -> Shards<'_> {
        Shards { dataset: self, positions: (0..self.manifest.shards().len()).collect() }
    }

    /// The shards of worker `worker` out of `n_workers`. Workers are counted from 0.
    ///
    /// # Errors
    /// [`DatasetError::Options`] if there is no such worker.
    pub fn worker(
        &self,
        worker: usize,
        n_workers: NonZeroUsize,
        assignment: Assignment,
    ) -> Result<Shards<'_>, DatasetError> {
        if worker >= n_workers.get() {
            return Err(DatasetError::Options(format!("worker {worker} of {n_workers}, which are counted from 0")));
        }
        let sizes: Vec<u64> = self.manifest.shards().iter().map(|shard| shard.bytes).collect();
        let positions = assignment.divide(&sizes, n_workers).into_iter().nth(worker).unwrap_or_default();
        Ok(Shards { dataset: self, positions })
    }

    /// Opens one shard after another.
    pub fn batches(&self) -> impl Iterator<Item = Result<Batch, DatasetError>> {
        self.shards().batches()
    }

    /// Yields the samples of one shard after another. Ends after the first error.
    pub fn samples(&self) -> impl Iterator<Item = Result<Sample, DatasetError>> {
        self.shards().samples()
    }
}

impl<'d> Shards<'d> {
    /// The entries of the shards in the manifest.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &'d Shard> + '_ {
        let shards = self.dataset.manifest().shards();
        self.positions.iter().filter_map(|&position| shards.get(position))
    }

    /// The number of shards.
    #[must_use]
    pub fn len(&self) -> usize {
        self.positions.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.positions.is_empty()
    }

    /// The number of samples in these shards.
    #[must_use]
    pub fn n_samples(&self) -> u64 {
        // Cannot overflow: the manifest was accepted because the sum over all shards fits in a `u64`.
        self.iter().map(|shard| shard.samples_count).sum()
    }

    /// Opens one shard after another.
    pub fn batches(&self) -> impl Iterator<Item = Result<Batch, DatasetError>> + use<'d> {
        let dataset = self.dataset;
        self.positions.clone().into_iter().map(move |position| dataset.batch(position))
    }

    /// The samples of one shard after another. Ends after the first error.
    pub fn samples(&self) -> impl Iterator<Item = Result<Sample, DatasetError>> + use<'d> {
        let batches = self.batches().flat_map(|batch| {
            let samples = batch.and_then(|batch| batch.samples());
            let (samples, error) = match samples {
                Ok(samples) => (Some(samples), None),
                Err(error) => (None, Some(Err(error))),
            };
            samples.into_iter().flatten().map(Ok).chain(error)
        });
        UntilError(Some(batches))
    }
}

/// Ends after the first error, without asking the inner iterator again.
struct UntilError<I>(Option<I>);

impl<T, E, I: Iterator<Item = Result<T, E>>> Iterator for UntilError<I> {
    type Item = Result<T, E>;

    fn next(&mut self) -> Option<Self::Item> {
        let item = self.0.as_mut()?.next();
        if !matches!(item, Some(Ok(_))) {
            self.0 = None;
        }
        item
    }
}
