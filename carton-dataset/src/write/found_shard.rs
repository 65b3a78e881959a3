//! A shard that came without a report.

use carton_tensor::safetensors::Header;

use crate::part_name::PartName;

/// A shard in the folder, and its header.
pub(super) struct FoundShard {
    pub(super) part: PartName,
    pub(super) shard_path: String,
    pub(super) bytes: u64,
    pub(super) header: Header,
}
