//! The folder of one attempt at a task (spec/dataset.md §5.1). Shards are first written there, and the attempt counts once its report is
//! written.
//!
//! ```text
//! dataset/_tasks/00003-550e8400-e29b-41d4-a716-446655440000/
//!   part-00003-0000-550e8400-….safetensors
//!   part-00003-0001-550e8400-….safetensors.partial    being written
//!   task.json                                         written last
//! ```

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use uuid::Uuid;

use super::staging::{RECORD, REPORT, TASKS, folder, write_whole};
use crate::error::DatasetError;
use crate::manifest::MANIFEST_NAME;
use crate::part_name::PartName;
use crate::report::TaskReport;

/// An attempt in progress. If it is dropped unfinished, it removes what it wrote.
#[derive(Debug)]
pub(super) struct Attempt {
    /// The folder of the dataset.
    dataset: PathBuf,
    task: u32,
    id: Uuid,
    is_finished: bool,
}

impl Attempt {
    /// Begins an attempt.
    ///
    /// # Errors
    /// [`DatasetError::Exists`] if the folder already contains a dataset and `overwrite` is false; [`DatasetError::Attempts`] while other
    /// attempts are being committed; [`DatasetError::Io`].
    pub(super) fn create(dataset: &Path, task: u32, overwrite: bool) -> Result<Self, DatasetError> {
        let check = || {
            if !overwrite && dataset.join(MANIFEST_NAME).symlink_metadata().is_ok() {
                return Err(DatasetError::Exists { folder: dataset.to_owned() });
            }
            if dataset.join(TASKS).join(RECORD).symlink_metadata().is_ok() {
                let problem = "a commit of attempts before this one has begun: finish it first".to_owned();
                return Err(DatasetError::Attempts { folder: dataset.to_owned(), problem });
            }
            Ok(())
        };
        check()?;
        fs::create_dir_all(dataset).map_err(DatasetError::io("create", dataset))?;
        let attempt = Self { dataset: dataset.to_owned(), task, id: Uuid::new_v4(), is_finished: false };
        let folder = attempt.folder();
        let tasks = dataset.join(TASKS);
        loop {
            match fs::create_dir(&tasks) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                    return Err(DatasetError::io("create", &tasks)(error));
                }
                _ => {}
            }
            match fs::create_dir(&folder) {
                Ok(()) => break,
                // Another attempt has removed the folder of all attempts, because it was the last one in it.
                Err(error) if error.kind() == io::ErrorKind::NotFound && dataset.is_dir() => {}
                Err(error) => return Err(DatasetError::io("create", &folder)(error)),
            }
        }
        // Checks again, because the tasks may have been committed meanwhile: an attempt that begins too late must leave nothing beside a
        // dataset.
        check()?;
        Ok(attempt)
    }

    pub(super) fn id(&self) -> Uuid {
        self.id
    }

    /// The folder of the dataset.
    pub(super) fn dataset(&self) -> &Path {
        &self.dataset
    }

    pub(super) fn folder(&self) -> PathBuf {
        folder(&self.dataset, self.task, self.id)
    }

    /// The name of the shard with this number.
    pub(super) fn part_name(&self, shard: u32) -> PartName {
        PartName { task: self.task, shard, attempt: self.id }
    }

    /// Replaces an error that only says that a file is not there or that the attempt is unknown, if the reason is that the attempt's
    /// folder was removed.
    pub(super) fn explained(&self, error: DatasetError) -> DatasetError {
        explained(error, &self.dataset, self.task, self.id)
    }

    /// Writes the report. From then on the attempt counts.
    pub(super) fn finish(mut self, report: &TaskReport) -> Result<(), DatasetError> {
        let path = self.folder().join(REPORT);
        let json =
            serde_json::to_vec_pretty(report).map_err(|source| DatasetError::io("write", &path)(source.into()))?;
        write_whole(&path, &json).map_err(|error| self.explained(error))?;
        self.is_finished = true;
        Ok(())
    }
}

/// As [`Attempt::explained`], for an attempt that is finished.
pub(super) fn explained(error: DatasetError, dataset: &Path, task: u32, attempt: Uuid) -> DatasetError {
    let may_be_removal = match &error {
        DatasetError::Io { source, .. } => source.kind() == io::ErrorKind::NotFound,
        DatasetError::Attempts { .. } => true,
        _ => false,
    };
    if may_be_removal && !folder(dataset, task, attempt).exists() {
        return DatasetError::AttemptRemoved { folder: dataset.to_owned(), attempt };
    }
    error
}

impl Drop for Attempt {
    fn drop(&mut self) {
        if !self.is_finished {
            // Files that cannot be removed stay below `_tasks` without a report, and so are part of no dataset.
            let _ = fs::remove_dir_all(self.folder());
            let _ = fs::remove_dir(self.dataset.join(TASKS));
        }
    }
}
