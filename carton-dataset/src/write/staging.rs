//! `_tasks`, where attempts and commits keep what is not part of a dataset yet (spec/dataset.md §5): the names in it, and files that get
//! their names only when they are complete.

use std::fs;
use std::path::{Path, PathBuf};

use uuid::Uuid;

use crate::error::DatasetError;

/// The folder of all attempts, in the dataset's folder.
pub(crate) const TASKS: &str = "_tasks";
/// The file name of an attempt's report.
pub(super) const REPORT: &str = "task.json";
/// The file name of the record of a commit.
pub(super) const RECORD: &str = "commit.json";

/// The folder of an attempt.
pub(super) fn folder(dataset: &Path, task: u32, attempt: Uuid) -> PathBuf {
    dataset.join(TASKS).join(format!("{task:05}-{}", attempt.hyphenated()))
}

/// Writes a file that gets its name only when it is complete. Replaces an existing file.
pub(super) fn write_whole(path: &Path, bytes: &[u8]) -> Result<(), DatasetError> {
    let temporary = temporary(path);
    let written = fs::write(&temporary, bytes).and_then(|()| fs::rename(&temporary, path));
    written.map_err(|error| {
        let _ = fs::remove_file(&temporary);
        DatasetError::io("write", path)(error)
    })
}

/// A temporary name in the same folder, for a file that is not complete. No two processes use the same one.
pub(super) fn temporary(path: &Path) -> PathBuf {
    let name = path.file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
    path.with_file_name(format!(".{name}.{}.partial", Uuid::new_v4().simple()))
}
