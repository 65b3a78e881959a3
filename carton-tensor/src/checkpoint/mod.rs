//! Reads a checkpoint of several files with an index as one (spec/safetensors.md §7): shards of safetensors, or of PyTorch.
//!
//! `shard` is one file of either kind, and `sharded` all of them. `series` is what the names of the files count. `folder` opens what is
//! beside a file, and decides which symbolic links are followed; split GGUF files are opened by it too. The index itself is
//! [`ShardIndex`](crate::safetensors::ShardIndex).

mod error;
mod folder;
mod series;
mod shard;
mod sharded;

pub use error::ShardedError;
pub(crate) use folder::Folder;
pub use folder::{FollowLinks, UnusableFile, open_beside};
pub use shard::{Shard, ShardKind};
pub use sharded::Sharded;
