//! Reads a checkpoint of several files with an index as one (spec/safetensors.md §7): shards of safetensors, or of PyTorch.
//!
//! `shard` is one file of either kind, and `sharded` all of them. `series` is what the names of the files count. The index itself is
//! [`ShardIndex`](crate::safetensors::ShardIndex).

mod error;
mod kind;
mod series;
mod shard;
mod sharded;

pub use crate::files::{FollowLinks, UnusableFile, open_beside, path_in};
pub use error::ShardedError;
pub use kind::ShardKind;
pub use shard::Shard;
pub use sharded::Sharded;
