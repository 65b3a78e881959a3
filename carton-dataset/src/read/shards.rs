//! Some of a dataset's shards, one after another.

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
    /// What the manifest says of them.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &'d Shard> + '_ {
        let shards = self.dataset.manifest().shards();
        self.positions.iter().filter_map(|&position| shards.get(position))
    }

    /// Their number.
    #[must_use]
    pub fn len(&self) -> usize {
        self.positions.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.positions.is_empty()
    }

    /// Their samples.
    #[must_use]
    pub fn n_samples(&self) -> u64 {
        // The sum of all was found to be a u64.
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

/// Ends with the first error: what would come after it is not even looked for.
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
