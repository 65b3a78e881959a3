//! What an attempt at a task says when it is done (spec/dataset.md §5).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::manifest::{Shard, TensorSchema};

/// What an attempt at a task wrote: `task.json` in its folder, and the answer of the program that wrote it. Only an attempt that has
/// one counts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskReport {
    /// The task.
    pub task: u32,
    /// The attempt.
    pub attempt: Uuid,
    /// `batch` or `key-value`: what `dataset.mode` is in its shards.
    pub mode: String,
    /// Its shards, in order.
    pub shards: Vec<Shard>,
    /// The first entry of each tensor name, as in the manifest.
    pub schema: BTreeMap<String, TensorSchema>,
}
