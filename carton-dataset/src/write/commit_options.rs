//! The options of a commit.

use std::num::NonZeroU32;

use carton_tensor::context::{Context, ProgressEvent};
use uuid::Uuid;

use crate::error::DatasetError;
use crate::index::IndexLayout;
use crate::options::ShardLayout;

/// How attempts become a dataset.
#[derive(Clone, Debug, Default)]
pub struct CommitOptions {
    /// The attempts that count, one for each task, given by a driver that knows which of its tasks succeeded. If `None`, all complete
    /// attempts count, provided that the choice is clear: they belong to one job, and of several attempts at a task the first by id is
    /// taken.
    pub attempts: Option<Vec<Uuid>>,
    /// The number of tasks, numbered from 0. With fewer or more tasks the commit is refused. In a [`merge`](crate::merge) of shards
    /// without reports, every task needs a shard.
    pub n_tasks: Option<NonZeroU32>,
    /// The layout of `_tensor_index.parquet`; no index is written if `None`.
    pub index: Option<IndexLayout>,
    /// Whether a dataset that is already in the folder is replaced.
    pub overwrite: bool,
    /// How samples lie in the tensors of shards without reports whose metadata does not say it, for [`merge`](crate::merge).
    pub layout: Option<ShardLayout>,
    /// The context of the commit, which reports the stage `reading`, in shards, and then once the stage `publishing`. A commit that is
    /// cancelled before that report returns fails with [`DatasetError::Interrupted`], and the folder is as it was. From then on it is not
    /// interrupted, and a later commit finishes one that was killed.
    pub context: Context,
}

impl CommitOptions {
    /// Reports that one more shard is going to be read. Fails if the commit was cancelled.
    pub(super) fn report_reading(&self, n_read: usize, n_shards: usize) -> Result<(), DatasetError> {
        let event = ProgressEvent::new("reading", n_read as u64, Some(n_shards as u64), "shards");
        Ok(self.context.advance(&event)?)
    }

    /// Called before the first step that makes the dataset visible. Fails if the commit was cancelled.
    pub(super) fn begin_publishing(&self) -> Result<(), DatasetError> {
        self.context.report(&ProgressEvent::new("publishing", 0, None, ""));
        Ok(self.context.cancel_token().begin_publishing()?)
    }
}
