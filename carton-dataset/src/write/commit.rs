//! The attempts of all tasks become a dataset (spec/dataset.md §5.2).
//!
//! All that can be wrong with them is found out first, and the index is written, below `_tasks`. Then it is recorded what is
//! done; from there on every step can be done again by whoever comes after a commit that was killed: shards move to their
//! places, the index, the manifest, and `_tasks` goes. Until the manifest is there the folder is no dataset.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;

use carton_tensor::safetensors::Reader;
use uuid::Uuid;

use super::attempt::{TASKS, folder, io_error, write_whole};
use super::commit_record::{self, CommitRecord, RECORD};
use super::{batch, choice};
use crate::error::DatasetError;
use crate::index::{self, INDEX_NAME};
use crate::manifest::{MANIFEST_NAME, Manifest, Shard, TensorSchema};
use crate::part_name::PartName;
use crate::report::TaskReport;

/// How tasks become a dataset.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CommitOptions {
    /// The attempts that count, one of each task; those of a driver that knows which of its tasks succeeded. Else, of each task
    /// the first that is complete, by id.
    pub attempts: Option<Vec<Uuid>>,
    /// Whether `_tensor_index.parquet` is written.
    pub generate_index: bool,
    /// Whether a dataset that is in the folder already is replaced.
    pub overwrite: bool,
}

/// Makes a dataset of what [`TaskWriter`](crate::TaskWriter)s have written into `folder`, and removes all attempts, those that do
/// not count among them.
///
/// May be called again after it was killed or failed, and by two at once: what was begun is finished in the same way. Called
/// again with the same attempts after it succeeded it gives the same manifest.
///
/// # Errors
/// [`DatasetError::Exists`] where there is a dataset already, unless it is to be replaced; [`DatasetError::Attempts`] where not
/// every task has a complete attempt, and for shards that belong to none; [`DatasetError::Staging`]; [`DatasetError::Index`];
/// [`DatasetError::Io`].
pub fn commit(folder: &Path, options: &CommitOptions) -> Result<Manifest, DatasetError> {
    let record = match CommitRecord::read(folder)? {
        Some(record) => record,
        None => match done(folder, options)? {
            Some(manifest) => return Ok(manifest),
            None => match prepare(folder, options).and_then(|record| record.settle(folder)) {
                Ok(record) => record,
                // Another commit may have begun meanwhile, and even ended.
                Err(error) => match (CommitRecord::read(folder)?, done(folder, options)?) {
                    (Some(record), _) => record,
                    (None, Some(manifest)) => return Ok(manifest),
                    (None, None) => return Err(error),
                },
            },
        },
    };
    if let Some(named) = &options.attempts
        && let Some(other) = named.iter().find(|attempt| !record.attempts.contains(attempt))
    {
        let problem = format!("a commit without attempt {other} has begun");
        return Err(DatasetError::Attempts { folder: folder.to_owned(), problem });
    }
    carry_out(folder, &record)
}

/// The dataset, if it is made of the attempts that are named, and none of them is left to be committed.
pub(super) fn done(folder: &Path, options: &CommitOptions) -> Result<Option<Manifest>, DatasetError> {
    let Some(named) = &options.attempts else { return Ok(None) };
    let Some(json) = commit_record::read_capped(&folder.join(MANIFEST_NAME))? else { return Ok(None) };
    let Ok(manifest) = Manifest::parse(&json) else { return Ok(None) };
    let is_named = |attempt: &Uuid| named.contains(attempt);
    let is_made_of_them = manifest.shards().iter().all(|shard| attempt_of(shard).as_ref().is_some_and(is_named));
    Ok((is_made_of_them && !choice::attempts(folder)?.iter().any(|(_, attempt)| is_named(attempt))).then_some(manifest))
}

/// Finds out what a commit has to do, and all that could keep it from being done.
fn prepare(folder: &Path, options: &CommitOptions) -> Result<CommitRecord, DatasetError> {
    let place = folder.join(MANIFEST_NAME);
    if place.symlink_metadata().is_ok() && !options.overwrite {
        return Err(DatasetError::Exists { folder: folder.to_owned() });
    }
    let attempts_error = |problem| DatasetError::Attempts { folder: folder.to_owned(), problem };
    let found = choice::find(folder)?;
    if found.is_empty() {
        return Err(attempts_error("there are none".to_owned()));
    }
    let reports = choice::choose(found, options.attempts.as_deref()).map_err(attempts_error)?;
    let present = parts_in(folder)?;
    if let Some(part) = present.first()
        && !options.overwrite
    {
        return Err(attempts_error(format!("shard `{part}` is there already, and belongs to none of them")));
    }
    let manifest = manifest_of(&reports, folder)?;
    let index = options.generate_index.then(|| write_index(folder, &reports)).transpose()?;
    let replaced = options.overwrite.then(|| present.iter().map(PartName::to_string).collect());
    let attempts = reports.iter().map(|report| report.attempt).collect();
    Ok(CommitRecord::new(attempts, &manifest, index, replaced))
}

fn attempt_of(shard: &Shard) -> Option<Uuid> {
    PartName::parse(&shard.shard_path).map(|part| part.attempt)
}

/// The shards that lie in the folder itself.
pub(super) fn parts_in(folder: &Path) -> Result<Vec<PartName>, DatasetError> {
    let mut parts = Vec::new();
    for entry in fs::read_dir(folder).map_err(io_error(folder))? {
        let name = entry.map_err(io_error(folder))?.file_name();
        parts.extend(name.to_str().and_then(PartName::parse));
    }
    parts.sort_unstable();
    Ok(parts)
}

/// The manifest of what attempts have written. Of a tensor in several shards the first one's entry is taken.
fn manifest_of(reports: &[TaskReport], folder: &Path) -> Result<Manifest, DatasetError> {
    let differ = |problem| DatasetError::Attempts { folder: folder.to_owned(), problem };
    let mut schema: BTreeMap<String, TensorSchema> = BTreeMap::new();
    for report in reports {
        if let Some(first) = reports.first().filter(|first| first.mode != report.mode) {
            return Err(differ(format!("tasks {} and {} have written in different modes", first.task, report.task)));
        }
        for (name, entry) in &report.schema {
            match schema.get(name) {
                None => drop(schema.insert(name.clone(), entry.clone())),
                Some(first) if report.mode == batch::MODE && !are_alike(first, entry) => {
                    return Err(differ(format!(
                        "task {} has written `{}` as {} of shape {:?}, and another one as {} of shape {:?}",
                        report.task,
                        name.escape_debug(),
                        entry.dtype.escape_debug(),
                        entry.shape,
                        first.dtype.escape_debug(),
                        first.shape
                    )));
                }
                Some(_) => {}
            }
        }
    }
    let shards = reports.iter().flat_map(|report| report.shards.iter().cloned()).collect();
    let place = folder.join(MANIFEST_NAME);
    let manifest = commit_record::manifest(shards, schema, &place)?;
    to_json(&manifest, &place)?;
    Ok(manifest)
}

/// Whether samples of two shards can be in one dataset: they differ in the number of rows alone.
fn are_alike(a: &TensorSchema, b: &TensorSchema) -> bool {
    a.dtype == b.dtype && a.shape.get(1..) == b.shape.get(1..)
}

/// The manifest's bytes, which a reader takes.
pub(super) fn to_json(manifest: &Manifest, place: &Path) -> Result<Vec<u8>, DatasetError> {
    let wrong = |source| DatasetError::Manifest { place: place.display().to_string(), source };
    let json = manifest.to_json().map_err(wrong)?;
    let length = json.len() as u64;
    if length > Manifest::MAX_LENGTH {
        return Err(wrong(crate::manifest::ManifestError::TooLong { length }));
    }
    Ok(json)
}

/// Writes the index below `_tasks`, and says what it is called there.
fn write_index(dataset: &Path, reports: &[TaskReport]) -> Result<String, DatasetError> {
    let mut rows = Vec::new();
    for report in reports {
        let folder = folder(dataset, report.task, report.attempt);
        for shard in &report.shards {
            rows.extend(index_rows(&folder, &shard.shard_path)?);
        }
    }
    let name = format!(".index-{}.parquet", Uuid::new_v4().simple());
    index::write(&dataset.join(TASKS).join(&name), rows)?;
    Ok(name)
}

/// The tensors of a shard, by its header.
fn index_rows(folder: &Path, shard_path: &str) -> Result<Vec<index::IndexRow>, DatasetError> {
    let reader = open_shard(folder, shard_path)?;
    Ok(index::rows_of(shard_path, reader.header()).collect())
}

/// Opens a shard, of which the header is read and compared with the file's length.
pub(super) fn open_shard(folder: &Path, shard_path: &str) -> Result<Reader, DatasetError> {
    Reader::open(folder.join(shard_path)).map_err(|source| DatasetError::shard(shard_path, source))
}

/// Does what was recorded, as far as it is not done yet.
fn carry_out(dataset: &Path, record: &CommitRecord) -> Result<Manifest, DatasetError> {
    let place = dataset.join(MANIFEST_NAME);
    let manifest = record.manifest(&place)?;
    let json = to_json(&manifest, &place)?;
    let present = commit_record::read_capped(&place)?;
    if present.as_ref() != Some(&json) {
        if present.is_some() && record.replaced.is_none() {
            return Err(DatasetError::Exists { folder: dataset.to_owned() });
        }
        for (staged, path, n_bytes) in record.moves(dataset) {
            put(&staged, &path, n_bytes)?;
        }
        if record.replaced.is_some() {
            // From here on there is neither the old dataset nor the new one.
            remove(&place)?;
        }
        put_index(dataset, record)?;
        write_whole(&place, &json)?;
    }
    for part in record.replaced.iter().flatten() {
        remove(&dataset.join(part))?;
    }
    remove_tasks(dataset);
    Ok(manifest)
}

/// Gives a shard its place, unless it is there.
fn put(staged: &Path, path: &Path, n_bytes: u64) -> Result<(), DatasetError> {
    match fs::rename(staged, path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            // Moved by a commit that was killed, or by one that runs as well.
            let found = fs::symlink_metadata(path).map_err(|_| io_error(staged)(error))?;
            if found.len() == n_bytes {
                return Ok(());
            }
            let problem = format!("{} bytes, expected {n_bytes}", found.len());
            Err(DatasetError::Staging { path: path.to_owned(), problem })
        }
        moved => moved.map_err(io_error(path)),
    }
}

fn put_index(dataset: &Path, record: &CommitRecord) -> Result<(), DatasetError> {
    let path = dataset.join(INDEX_NAME);
    let staged = record.index.as_ref().map(|index| dataset.join(TASKS).join(index));
    let is_moved = staged.as_ref().is_some_and(|staged| !staged.exists());
    if is_moved && path.is_file() {
        return Ok(());
    }
    // A rename replaces a file, but not the folder that Spark would have written.
    if staged.is_none() || path.is_dir() {
        remove(&path)?;
    }
    match staged {
        Some(staged) => match fs::rename(&staged, &path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound && path.is_file() => Ok(()),
            moved => moved.map_err(io_error(&path)),
        },
        None => Ok(()),
    }
}

/// Removes a file or folder, if it is there.
fn remove(path: &Path) -> Result<(), DatasetError> {
    let removed = match fs::symlink_metadata(path) {
        Ok(found) if found.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(error) => Err(error),
    };
    match removed {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(io_error(path)(error)),
        _ => Ok(()),
    }
}

/// Removes all attempts. The dataset is whole by now: what cannot be removed does it no harm, and is passed over.
fn remove_tasks(dataset: &Path) {
    let tasks = dataset.join(TASKS);
    let entries = || fs::read_dir(&tasks).into_iter().flatten().flatten();
    for entry in entries().filter(|entry| entry.file_name() != RECORD) {
        // Who still writes there can make no more files once the folder has another name.
        let doomed = tasks.join(format!(".removed-{}", Uuid::new_v4().simple()));
        if fs::rename(entry.path(), &doomed).is_ok() {
            let _ = remove(&doomed);
        }
    }
    // The record last: without it nobody would go on here.
    let _ = fs::remove_file(tasks.join(RECORD));
    let _ = fs::remove_dir(&tasks);
}
