//! What lies in a model folder of the cache, and is not the model's.

use std::collections::{BTreeSet, HashSet};
use std::path::{Path, PathBuf};

use super::CacheError;

/// Returns the folders that `files` are in, the root folder included, which is the empty path.
pub(super) fn folders_of<'a>(files: &HashSet<&'a str>) -> BTreeSet<&'a str> {
    let mut folders = BTreeSet::from([""]);
    for file in files {
        let mut path = *file;
        while let Some((parent, _)) = path.rsplit_once('/') {
            if !folders.insert(parent) {
                break;
            }
            path = parent;
        }
    }
    folders
}

/// Returns the files and folders in `root` that are neither `files` nor `folders`, and not below another one that is returned. `folders` are
/// paths in `root`, which is the empty path; those that are not there are skipped.
pub(super) fn strays(root: &Path, folders: &BTreeSet<&str>, files: &HashSet<&str>) -> Result<Vec<PathBuf>, CacheError> {
    let mut found = Vec::new();
    for folder in folders {
        let path = root.join(folder);
        let entries = match std::fs::read_dir(&path) {
            Ok(entries) => entries,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            Err(error) => return Err(CacheError::io("list", &path)(error)),
        };
        for entry in entries {
            let entry = entry.map_err(CacheError::io("list", &path))?;
            let name = entry.file_name();
            let relative = name.to_str().map(|name| match *folder {
                "" => name.to_owned(),
                folder => format!("{folder}/{name}"),
            });
            if !relative.is_some_and(|path| folders.contains(&*path) || files.contains(&*path)) {
                found.push(entry.path());
            }
        }
    }
    Ok(found)
}
