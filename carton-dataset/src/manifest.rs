//! `dataset_manifest.json` (spec/dataset.md §3). Pure: bytes in, entries out.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// What the manifest is called.
pub const MANIFEST_NAME: &str = "dataset_manifest.json";
/// The version of the layout.
pub const FORMAT_VERSION: &str = "1.0";
/// The version of the shards' format.
pub const SAFETENSORS_VERSION: &str = "1.0";

/// What a dataset holds. What can be parsed is consistent in itself; [`verify`](crate) compares it with the files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Manifest {
    /// [`FORMAT_VERSION`].
    pub format_version: String,
    /// [`SAFETENSORS_VERSION`].
    pub safetensors_version: String,
    /// The samples of all shards, rows of padding among them.
    pub total_samples: u64,
    /// The bytes of all shards.
    pub total_bytes: u64,
    /// The shards, sorted by path.
    pub shards: Vec<Shard>,
    /// One entry for each tensor name: what the first shard that has it says. In batch mode a tail may have fewer rows.
    pub schema: BTreeMap<String, TensorSchema>,
}

/// One file of a dataset.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shard {
    /// Its path below the dataset's folder.
    pub shard_path: String,
    /// Its rows, those of padding among them.
    pub samples_count: u64,
    /// The size of the file.
    pub bytes: u64,
}

/// The element type and shape of a tensor, in the words of safetensors.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TensorSchema {
    /// `F32`, `BF16` and so on.
    pub dtype: String,
    /// The dimensions.
    pub shape: Vec<u64>,
}

/// Why a manifest is not accepted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ManifestError {
    /// It is no JSON, or not this JSON.
    #[error("is not a manifest")]
    Json(#[from] serde_json::Error),
}
