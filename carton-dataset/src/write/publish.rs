//! Publishes a dataset whose shards are in place: gives index and manifest their names (spec/dataset.md §5.2).

use std::fs;
use std::io;
use std::path::Path;

use uuid::Uuid;

use crate::error::DatasetError;
use crate::index::{self, INDEX_NAME};
use crate::manifest::{MANIFEST_NAME, Manifest, ManifestError};

/// Serializes the manifest, and checks that it is not longer than readers accept.
pub(super) fn to_json(manifest: &Manifest, place: &Path) -> Result<Vec<u8>, DatasetError> {
    let wrong = |source| DatasetError::Manifest { place: place.display().to_string(), source };
    let json = manifest.to_json().map_err(wrong)?;
    let length = json.len() as u64;
    if length > Manifest::MAX_LENGTH {
        return Err(wrong(ManifestError::TooLong { length }));
    }
    Ok(json)
}

/// Gives index and manifest their names. An index is never beside a manifest that it does not belong to: when a dataset is replaced, its
/// index is removed before its manifest is, and the new index follows the new manifest. If there was no dataset, the manifest comes last.
///
/// If it is repeated after it was killed, it does the rest; a staged index that no longer exists is in its place. Temporary files are in
/// `staging`: in `_tasks`, from which the next commit removes those of a killed one, or in the folder of a merge, which takes no lock and
/// removes no file that another merge may need.
pub(super) fn publish(
    dataset: &Path,
    json: &[u8],
    is_published: bool,
    staging: &Path,
    staged_index: Option<&Path>,
) -> Result<(), DatasetError> {
    let (place, index) = (dataset.join(MANIFEST_NAME), dataset.join(INDEX_NAME));
    if !is_published {
        if place.symlink_metadata().is_ok() || staged_index.is_none() {
            remove(&index)?;
        } else if let Some(staged) = staged_index {
            put_index(staged, &index)?;
        }
        let staged = staging.join(format!(".manifest-{}.json", Uuid::new_v4().simple()));
        fs::write(&staged, json).and_then(|()| fs::rename(&staged, &place)).map_err(|error| {
            let _ = fs::remove_file(&staged);
            DatasetError::io("write", &place)(error)
        })?;
    }
    match staged_index {
        Some(staged) => put_index(staged, &index),
        None => Ok(()),
    }
}

fn put_index(staged: &Path, place: &Path) -> Result<(), DatasetError> {
    if !staged.exists() {
        return Ok(());
    }
    index::put(staged, place).map_err(DatasetError::io("write", place))
}

/// Removes a file or folder, if it exists.
pub(super) fn remove(path: &Path) -> Result<(), DatasetError> {
    let removed = match fs::symlink_metadata(path) {
        Ok(found) if found.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(error) => Err(error),
    };
    match removed {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(DatasetError::io("remove", path)(error)),
        _ => Ok(()),
    }
}
