//! The attempts of all tasks become a dataset (spec/dataset.md §5.2).
//!
//! All that can be wrong with them is found out first, and the index is written, below `_tasks`. Then it is recorded what is
//! done; from there on every step can be done again by whoever comes after a commit that was killed: shards move to their
//! places, the manifest appears, and `_tasks` goes. At every moment the folder has a whole dataset, the old or the new one, or no
//! manifest. Commits of one folder take turns.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::Path;

use carton_tensor::safetensors::Reader;
use uuid::Uuid;

use super::attempt::{TASKS, folder, io_error};
use super::choice;
use super::commit_lock::CommitLock;
use super::commit_options::{CommitOptions, CommitStep};
use super::commit_record::{self, CommitRecord, RECORD};
use super::gathered_schema::{GatheredSchema, Sharing};
use super::publish::{publish, remove, to_json};
use crate::error::DatasetError;
use crate::index::{self, INDEX_NAME, IndexLayout};
use crate::manifest::{MANIFEST_NAME, Manifest, Shard};
use crate::part_name::PartName;
use crate::report::TaskReport;

/// Makes a dataset of what [`TaskWriter`](crate::TaskWriter)s have written into `folder`, and removes all attempts, those that do
/// not count among them.
///
/// May be called again after it was killed or failed: what was begun is finished in the same way. Several at once take turns.
/// Called again with the same attempts, by name, after it succeeded, it gives the same manifest.
///
/// # Errors
/// [`DatasetError::Exists`] where there is a dataset already, unless it is to be replaced; [`DatasetError::Attempts`] where it is in
/// doubt what the tasks have written, where one has no complete attempt, and for shards that belong to none;
/// [`DatasetError::Staging`]; [`DatasetError::Index`]; [`DatasetError::Io`]; [`DatasetError::Interrupted`].
pub fn commit(folder: &Path, options: &CommitOptions) -> Result<Manifest, DatasetError> {
    if options.attempts.as_ref().is_some_and(Vec::is_empty) {
        let problem = "no attempts were named".to_owned();
        return Err(DatasetError::Attempts { folder: folder.to_owned(), problem });
    }
    let _lock = CommitLock::take(folder, || options.ask(CommitStep::Preparing))?;
    if let Some(record) = CommitRecord::read(folder)? {
        options.ask(CommitStep::Publishing)?;
        let manifest = carry_out(folder, &record, options.attempts.as_deref().unwrap_or_default())?;
        let named = options.attempts.iter().flatten().collect::<BTreeSet<_>>();
        if options.attempts.is_none() || named == record.attempts.iter().collect() {
            return Ok(manifest);
        }
    }
    if let Some(manifest) = done(folder, options)? {
        return Ok(manifest);
    }
    let record = prepare(folder, options)?;
    options.ask(CommitStep::Publishing)?;
    record.write(folder)?;
    carry_out(folder, &record, &[])
}

/// Removes attempts whose job has failed, so that none of them becomes part of a dataset.
///
/// # Errors
/// [`DatasetError::Attempts`] for an attempt that a commit has begun with; [`DatasetError::Io`].
pub fn abort(folder: &Path, attempts: &[Uuid]) -> Result<(), DatasetError> {
    let _lock = CommitLock::take(folder, || Ok(()))?;
    let record = CommitRecord::read(folder)?;
    let is_committed = |id: &Uuid| record.as_ref().is_some_and(|record| record.attempts.contains(id));
    if let Some(attempt) = attempts.iter().find(|id| is_committed(id)) {
        let problem = format!("a commit with attempt {attempt} has begun");
        return Err(DatasetError::Attempts { folder: folder.to_owned(), problem });
    }
    for (task, attempt) in choice::attempts(folder)? {
        if attempts.contains(&attempt) {
            remove_attempt(folder, task, attempt);
        }
    }
    Ok(())
}

/// The dataset, if it is made of the attempts that are named and of no others, and has the index that is asked for.
pub(super) fn done(folder: &Path, options: &CommitOptions) -> Result<Option<Manifest>, DatasetError> {
    let Some(named) = &options.attempts else { return Ok(None) };
    let Some(json) = commit_record::read_capped(&folder.join(MANIFEST_NAME))? else { return Ok(None) };
    let Ok(manifest) = Manifest::parse(&json) else { return Ok(None) };
    let made_of: Option<BTreeSet<Uuid>> = manifest.shards().iter().map(attempt_of).collect();
    let is_made_of_them = made_of.is_some_and(|attempts| attempts == named.iter().copied().collect());
    let has_index = options.index.is_none() || folder.join(INDEX_NAME).exists();
    Ok((is_made_of_them && has_index).then_some(manifest))
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
    let named = options.attempts.as_deref();
    let reports = choice::choose(found, named, options.n_tasks).map_err(attempts_error)?;
    let old = old_shards(&place)?;
    let is_known = |part: &PartName| {
        old.contains(&part.to_string()) || reports.iter().any(|report| report.attempt == part.attempt)
    };
    if let Some(part) = parts_in(folder)?.iter().find(|part| !is_known(part)) {
        return Err(attempts_error(format!("shard `{part}` is there already, and belongs to none of them")));
    }
    let manifest = manifest_of(&reports, folder)?;
    let index = options.index.map(|layout| write_index(folder, &reports, layout, options)).transpose()?;
    let replaced = options.overwrite.then_some(old);
    let attempts = reports.iter().map(|report| report.attempt).collect();
    Ok(CommitRecord::new(attempts, &manifest, index, replaced))
}

/// The shards of the dataset that is replaced; none where there is none that can be read.
fn old_shards(place: &Path) -> Result<Vec<String>, DatasetError> {
    let old = commit_record::read_capped(place)?.and_then(|json| Manifest::parse(&json).ok());
    Ok(old.iter().flat_map(|manifest| manifest.shards()).map(|shard| shard.shard_path.clone()).collect())
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
    let mut gathered = GatheredSchema::default();
    for report in reports {
        let task = report.task;
        if let Some(first) = reports.first().filter(|first| first.mode != report.mode) {
            return Err(differ(format!("tasks {} and {task} have written in different modes", first.task)));
        }
        // A task without rows has no columns either.
        if report.shards.is_empty() {
            continue;
        }
        let sharing = Sharing::of(&report.mode, report.has_unique_names);
        let tensors = report.schema.iter().map(|(name, schema)| (name.as_str(), Cow::Borrowed(schema)));
        let added = gathered.add(format_args!("task {task}"), sharing, tensors);
        added.map_err(|problem| differ(format!("task {task} {problem}")))?;
    }
    let shards = reports.iter().flat_map(|report| report.shards.iter().cloned()).collect();
    let place = folder.join(MANIFEST_NAME);
    let manifest = commit_record::manifest(shards, gathered.into_entries(), &place)?;
    to_json(&manifest, &place)?;
    Ok(manifest)
}

/// Writes the index below `_tasks`, and says what it is called there.
fn write_index(
    dataset: &Path,
    reports: &[TaskReport],
    layout: IndexLayout,
    options: &CommitOptions,
) -> Result<String, DatasetError> {
    let mut rows = Vec::new();
    for report in reports {
        options.ask(CommitStep::Preparing)?;
        let folder = folder(dataset, report.task, report.attempt);
        for shard in &report.shards {
            rows.extend(index_rows(&folder, &shard.shard_path)?);
        }
    }
    let name = format!(".index-{}.parquet", Uuid::new_v4().simple());
    index::write(&dataset.join(TASKS).join(&name), rows, layout)?;
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

/// Does what was recorded, as far as it is not done yet, and removes all attempts but those to `keep`.
fn carry_out(dataset: &Path, record: &CommitRecord, keep: &[Uuid]) -> Result<Manifest, DatasetError> {
    let place = dataset.join(MANIFEST_NAME);
    let manifest = record.manifest(&place)?;
    let json = to_json(&manifest, &place)?;
    let present = commit_record::read_capped(&place)?;
    let is_there = present.as_ref() == Some(&json);
    if present.is_some() && !is_there && record.replaced.is_none() {
        return Err(DatasetError::Exists { folder: dataset.to_owned() });
    }
    for (staged, path, n_bytes) in record.moves(dataset) {
        put(&staged, &path, n_bytes)?;
    }
    publish(dataset, &json, is_there, &dataset.join(TASKS), record.index(dataset).as_deref())?;
    for path in record.replaced.iter().flatten() {
        remove_shard(dataset, path)?;
    }
    // What cannot be removed does the dataset no harm, and is passed over.
    for (task, attempt) in choice::attempts(dataset)? {
        if record.attempts.contains(&attempt) || !keep.contains(&attempt) {
            remove_attempt(dataset, task, attempt);
        }
    }
    // The record last: without it nobody would go on here, and other attempts may begin.
    let record = dataset.join(TASKS).join(RECORD);
    fs::remove_file(&record).map_err(io_error(&record))?;
    Ok(manifest)
}

/// Gives a shard its place, unless it is there.
fn put(staged: &Path, path: &Path, n_bytes: u64) -> Result<(), DatasetError> {
    match fs::rename(staged, path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            // Moved by a commit that was killed.
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

/// Removes a shard of a dataset that was replaced, if it is a file below the dataset's folder, and no link leads there.
fn remove_shard(dataset: &Path, shard_path: &str) -> Result<(), DatasetError> {
    let path = dataset.join(shard_path);
    let folder = path.parent().and_then(|folder| folder.canonicalize().ok());
    let is_below = folder.zip(dataset.canonicalize().ok()).is_some_and(|(folder, dataset)| folder.starts_with(dataset));
    if is_below && fs::symlink_metadata(&path).is_ok_and(|found| found.is_file()) {
        remove(&path)?;
    }
    Ok(())
}

/// Removes an attempt, as far as it can be.
pub(super) fn remove_attempt(dataset: &Path, task: u32, attempt: Uuid) {
    // Who still writes there can make no more files once the folder has another name.
    let doomed = dataset.join(TASKS).join(format!(".removed-{}", Uuid::new_v4().simple()));
    if fs::rename(folder(dataset, task, attempt), &doomed).is_ok() {
        let _ = remove(&doomed);
    }
}
