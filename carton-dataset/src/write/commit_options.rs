//! What callers say about a commit, and how they give it up.

use std::fmt;
use std::ops::ControlFlow;
use std::sync::Arc;

use uuid::Uuid;

use crate::error::DatasetError;
use crate::index::IndexLayout;
use crate::options::ShardLayout;

/// How tasks become a dataset.
#[derive(Clone, Debug, Default)]
pub struct CommitOptions {
    /// The attempts that count, one of each task; those of a driver that knows which of its tasks succeeded. Else all that are
    /// complete count, if there is no doubt about them: those of one job, and of each of its tasks the first by id.
    pub attempts: Option<Vec<Uuid>>,
    /// How many tasks there are, numbered from 0: with less or more the commit is refused.
    pub n_tasks: Option<u32>,
    /// Whether `_tensor_index.parquet` is written, and what it is.
    pub index: Option<IndexLayout>,
    /// Whether a dataset that is in the folder already is replaced.
    pub overwrite: bool,
    /// What the tensors of shards are that came without reports and do not say it themselves, for [`merge`](crate::merge).
    pub layout: Option<ShardLayout>,
    /// Is asked whether the commit goes on.
    pub on_step: Option<CommitHook>,
}

impl CommitOptions {
    /// Calls `hook` before each step. When it says [`Break`](ControlFlow::Break), the commit ends with [`DatasetError::Interrupted`], and the
    /// folder is as it was.
    #[must_use]
    pub fn on_step(self, hook: impl Fn(CommitStep) -> ControlFlow<()> + Send + Sync + 'static) -> Self {
        Self { on_step: Some(CommitHook(Arc::new(hook))), ..self }
    }

    /// Asks whether this step is taken.
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
    /// It waits for its turn, reads shards, or writes the index. Nobody sees anything of it.
    Preparing,
    /// The dataset appears. From here on the commit is not given up, and whoever comes after one that was killed finishes it.
    Publishing,
}

/// Something that is asked before each step of a commit.
#[derive(Clone)]
pub struct CommitHook(Arc<dyn Fn(CommitStep) -> ControlFlow<()> + Send + Sync>);

impl fmt::Debug for CommitHook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CommitHook")
    }
}
