//! Iteration over some of a dataset's shards.

use crate::error::DatasetError;
use crate::manifest::Shard;
use crate::read::{Batch, Dataset, Sample};

/// Some shards of a dataset: all of them, or those of one worker.
#[derive(Clone, Debug)]
pub struct Shards<'d> {
    pub(super) dataset: &'d Dataset,
    pub(super) positions: Vec<usize>,
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
