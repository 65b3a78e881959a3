//! The options of a commit, and the hook that can interrupt it.

use std::fmt;
use std::num::NonZeroU32;
use std::ops::ControlFlow;
use std::sync::Arc;

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
    /// The hook that is called before each step and may interrupt the commit.
    pub on_step: Option<CommitHook>,
}

impl CommitOptions {
    /// Calls `hook` before each step. If it returns [`Break`](ControlFlow::Break), the commit ends with [`DatasetError::Interrupted`],
    /// and the folder is as it was.
    #[must_use]
    pub fn on_step(self, hook: impl Fn(CommitStep) -> ControlFlow<()> + Send + Sync + 'static) -> Self {
        Self { on_step: Some(CommitHook(Arc::new(hook))), ..self }
    }

    /// Calls the hook for this step.
    pub(super) fn ask(&self, step: CommitStep) -> Result<(), DatasetError> {
        match self.on_step.as_ref().map_or(ControlFlow::Continue(()), |hook| (hook.0)(step)) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(()) => Err(DatasetError::Interrupted),
        }
    }
}

/// A step of a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CommitStep {
    /// The commit waits for its turn, reads shards, or writes the index. Nothing of it is visible yet.
    Preparing,
    /// The dataset becomes visible. From here on the commit is not interrupted, and a later commit finishes one that was killed.
    Publishing,
}

/// The hook that is called before each step of a commit.
#[derive(Clone)]
pub struct CommitHook(Arc<dyn Fn(CommitStep) -> ControlFlow<()> + Send + Sync>);

impl fmt::Debug for CommitHook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CommitHook")
    }
}
