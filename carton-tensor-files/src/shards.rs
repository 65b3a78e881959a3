//! Checkpoints of several safetensors files and their index, as the hub's libraries write them (spec/safetensors.md §7). Pure, but for the index
//! that is written.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};

use carton_tensor::files::PendingFile;
use serde::Serialize;

use crate::error::TensorFilesError;

/// Divides tensors of these sizes into shards of at most `limit` bytes, in their order; a larger tensor is a shard of its own. This is the rule of
/// `split_torch_state_dict_into_shards` of the package `huggingface_hub`. Returns the positions in each shard.
pub(crate) fn divide(sizes: impl IntoIterator<Item = u64>, limit: u64) -> Vec<Vec<usize>> {
    let mut shards = Vec::new();
    let (mut current, mut n_bytes) = (Vec::new(), 0_u64);
    for (position, size) in sizes.into_iter().enumerate() {
        if size > limit {
            shards.push(vec![position]);
            continue;
        }
        if n_bytes.saturating_add(size) > limit {
            shards.push(std::mem::take(&mut current));
            n_bytes = 0;
        }
        current.push(position);
        n_bytes = n_bytes.saturating_add(size);
    }
    if !current.is_empty() || shards.is_empty() {
        shards.push(current);
    }
    shards
}

/// The path of a shard: `model-00001-of-00003.safetensors` for `model.safetensors`.
pub(crate) fn shard_path(output: &Path, position: usize, n_shards: usize) -> PathBuf {
    let stem = output.file_stem().unwrap_or_default().to_string_lossy();
    output.with_file_name(format!("{stem}-{:05}-of-{n_shards:05}.safetensors", position + 1))
}

/// The path of the index: `model.safetensors.index.json` for `model.safetensors`.
pub(crate) fn index_path(output: &Path) -> PathBuf {
    let name = output.file_name().unwrap_or_default().to_string_lossy();
    output.with_file_name(format!("{name}.index.json"))
}

/// An index, which its writer sorts by keys.
#[derive(Serialize)]
struct Index<'a> {
    metadata: Total,
    weight_map: BTreeMap<&'a str, &'a str>,
}

#[derive(Serialize)]
struct Total {
    total_size: u64,
}

/// Writes an index: the names of tensors with those of their files, and the bytes of all tensors.
pub(crate) fn write_index(
    path: &Path,
    weight_map: BTreeMap<&str, &str>,
    total_size: u64,
) -> Result<PendingFile, TensorFilesError> {
    let failed = |source| TensorFilesError::Io { action: "write", path: path.to_path_buf(), source };
    let index = Index { metadata: Total { total_size }, weight_map };
    let text = serde_json::to_string_pretty(&index).map_err(|error| failed(error.into()))?;
    let file = PendingFile::new(path).map_err(failed)?;
    file.file().write_all(format!("{text}\n").as_bytes()).map_err(failed)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    // The expected shards are those of `huggingface_hub` 2.4.0: split_state_dict_into_shards_factory with tensors of these sizes.
    #[test]
    fn shards_are_those_of_the_hub() {
        let check = |sizes: &[u64], limit, expected: &[&[usize]]| {
            assert_eq!(divide(sizes.iter().copied(), limit), expected, "{sizes:?} {limit}");
        };
        check(&[], 10, &[&[]]);
        check(&[4, 4, 4], 10, &[&[0, 1], &[2]]);
        check(&[4, 20, 4, 4], 10, &[&[1], &[0, 2], &[3]]);
        check(&[20, 30], 10, &[&[0], &[1]]);
        check(&[10, 10], 10, &[&[0], &[1]]);
        check(&[0, 10, 0], 10, &[&[0, 1, 2]]);
    }

    #[test]
    fn names() {
        let output = Path::new("folder/model.safetensors");
        assert_eq!(shard_path(output, 1, 12), Path::new("folder/model-00002-of-00012.safetensors"));
        assert_eq!(index_path(output), Path::new("folder/model.safetensors.index.json"));
    }
}
