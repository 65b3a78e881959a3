//! The report of a finished attempt at a task (spec/dataset.md §5.1).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::manifest::{Shard, TensorSchema};
use crate::shard_metadata::ShardMode;

/// What an attempt at a task wrote. The attempt stores it as `task.json` in its folder, and the program that ran the attempt returns it.
/// An attempt without a report does not count.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskReport {
    /// The task.
    pub task: u32,
    /// The attempt.
    pub attempt: Uuid,
    /// The job that the attempt belongs to, if one was named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<Uuid>,
    /// The mode of its shards.
    pub mode: ShardMode,
    /// Whether other tasks must not write a tensor of the same name: true in key-value mode unless duplicates are allowed.
    #[serde(default)]
    pub has_unique_names: bool,
    /// Its shards, in order.
    pub shards: Vec<Shard>,
    /// One entry for each tensor name, from the first shard that has it, as in the manifest.
    pub schema: BTreeMap<String, TensorSchema>,
}
