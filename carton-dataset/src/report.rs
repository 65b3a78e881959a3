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
    /// The job that it was done for, if one was named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<Uuid>,
    /// `batch` or `key-value`: what `dataset.mode` is in its shards.
    pub mode: String,
    /// Whether no tensor of another task may have the name of one of its own: in key-value mode, where names must not come twice.
    #[serde(default)]
    pub has_unique_names: bool,
    /// Its shards, in order.
    pub shards: Vec<Shard>,
    /// The first entry of each tensor name, as in the manifest.
    pub schema: BTreeMap<String, TensorSchema>,
}
