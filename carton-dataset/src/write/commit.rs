//! Commits: makes a dataset of the attempts at all tasks (spec/dataset.md §5.2).
//!
//! A commit first checks the attempts for all problems, and writes the index below `_tasks`. Then it records what it is going to do. From
//! there on every step can be repeated, so that a later commit can finish one that was killed: it moves the shards to their places,
//! publishes the manifest, and removes `_tasks`. At every moment the folder has a complete dataset, the old or the new one, or no
//! manifest. Commits of one folder take turns.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::Path;

use carton_tensor::context::Context;
use carton_tensor::safetensors::Reader;
use uuid::Uuid;

use super::choice;
use super::commit_lock::CommitLock;
use super::commit_options::CommitOptions;
use super::commit_record::{self, CommitRecord};
use super::gathered_schema::{GatheredSchema, Sharing};
use super::publish::{publish, remove, to_json};
use super::staging::{RECORD, TASKS, folder};
use crate::error::DatasetError;
use crate::index::{self, INDEX_NAME, IndexLayout};
use crate::manifest::{MANIFEST_NAME, Manifest, Shard};
use crate::part_name::PartName;
use crate::report::TaskReport;

/// Makes a dataset of the attempts that [`TaskWriter`](crate::TaskWriter)s have written into `folder`, and removes all attempts,
/// including those that do not count. Returns the manifest.
///
/// May be called again after it was killed or has failed: a commit that had begun is finished as it was recorded. Concurrent calls take
/// turns. Called again with the same named attempts after it succeeded, it returns the same manifest.
///
/// # Errors
/// [`DatasetError::Exists`] if the folder already contains a dataset and the options do not say `overwrite`; [`DatasetError::Attempts`]
/// if it is unclear which attempts count, if a task has no complete attempt, and for shards in the folder that belong to no attempt;
/// [`DatasetError::Staging`]; [`DatasetError::Index`]; [`DatasetError::Io`]; [`DatasetError::Interrupted`].
pub fn commit(folder: &Path, options: &CommitOptions) -> Result<Manifest, DatasetError> {
    if options.attempts.as_ref().is_some_and(Vec::is_empty) {
        let problem = "no attempts were named".to_owned();
        return Err(DatasetError::Attempts { folder: folder.to_owned(), problem });
    }
    let _lock = CommitLock::take(folder, &options.context)?;
    if let Some(record) = CommitRecord::read(folder)? {
        options.begin_publishing()?;
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
    options.begin_publishing()?;
    record.write(folder)?;
    carry_out(folder, &record, &[])
}

/// Removes attempts, such as those of a failed job, so that none of them becomes part of a dataset.
///
/// # Errors
/// [`DatasetError::Attempts`] for an attempt that is part of a commit in progress; [`DatasetError::Io`].
pub fn abort(folder: &Path, attempts: &[Uuid]) -> Result<(), DatasetError> {
    let _lock = CommitLock::take(folder, &Context::default())?;
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

/// Returns the manifest in the folder if it consists of exactly the named attempts and has an index if one is requested.
pub(super) fn done(folder: &Path, options: &CommitOptions) -> Result<Option<Manifest>, DatasetError> {
    let Some(named) = &options.attempts else { return Ok(None) };
    let Some(json) = commit_record::read_capped(&folder.join(MANIFEST_NAME))? else { return Ok(None) };
    let Ok(manifest) = Manifest::parse(&json) else { return Ok(None) };
    let made_of: Option<BTreeSet<Uuid>> = manifest.shards().iter().map(attempt_of).collect();
    let is_made_of_them = made_of.is_some_and(|attempts| attempts == named.iter().copied().collect());
    let has_index = options.index.is_none() || folder.join(INDEX_NAME).exists();
    Ok((is_made_of_them && has_index).then_some(manifest))
}

/// Determines what a commit has to do, and checks for everything that could prevent it.
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

/// Returns the shards of the dataset that is replaced; none if there is no manifest, or if it cannot be parsed.
fn old_shards(place: &Path) -> Result<Vec<String>, DatasetError> {
    let old = commit_record::read_capped(place)?.and_then(|json| Manifest::parse(&json).ok());
    Ok(old.iter().flat_map(|manifest| manifest.shards()).map(|shard| shard.shard_path.clone()).collect())
}

fn attempt_of(shard: &Shard) -> Option<Uuid> {
    PartName::parse(&shard.shard_path).map(|part| part.attempt)
}

/// Lists the shards that are directly in the folder.
pub(super) fn parts_in(folder: &Path) -> Result<Vec<PartName>, DatasetError> {
    let mut parts = Vec::new();
    let entries = fs::read_dir(folder).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => DatasetError::NoFolder { folder: folder.to_owned() },
        _ => DatasetError::io("read", folder)(error),
    })?;
    for entry in entries {
        let name = entry.map_err(DatasetError::io("read", folder))?.file_name();
        parts.extend(name.to_str().and_then(PartName::parse));
    }
    parts.sort_unstable();
    Ok(parts)
}

/// Makes the manifest of the chosen attempts. A tensor that several shards have gets the entry of the first one.
fn manifest_of(reports: &[TaskReport], folder: &Path) -> Result<Manifest, DatasetError> {
    let differ = |problem| DatasetError::Attempts { folder: folder.to_owned(), problem };
    let mut gathered = GatheredSchema::default();
    for report in reports {
        let task = report.task;
        if let Some(first) = reports.first().filter(|first| first.mode != report.mode) {
            return Err(differ(format!("tasks {} and {task} have written in different modes", first.task)));
        }
        // A task without rows has no shards, and so no columns to compare.
        if report.shards.is_empty() {
            continue;
        }
        let sharing = Sharing::of(report.mode, report.has_unique_names);
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

/// Writes the index below `_tasks`, and returns its name there.
fn write_index(
    dataset: &Path,
    reports: &[TaskReport],
    layout: IndexLayout,
    options: &CommitOptions,
) -> Result<String, DatasetError> {
    let (mut rows, mut n_read) = (Vec::new(), 0);
    let n_shards = reports.iter().map(|report| report.shards.len()).sum();
    for report in reports {
        let folder = folder(dataset, report.task, report.attempt);
        for shard in &report.shards {
            options.report_reading(n_read, n_shards)?;
            rows.extend(index_rows(&folder, &shard.shard_path)?);
            n_read += 1;
        }
    }
    let name = format!(".index-{}.parquet", Uuid::new_v4().simple());
    index::write(&dataset.join(TASKS).join(&name), rows, layout)?;
    Ok(name)
}

/// Returns the rows of the index for a shard, from its header.
fn index_rows(folder: &Path, shard_path: &str) -> Result<Vec<index::IndexRow>, DatasetError> {
    let reader = open_shard(folder, shard_path)?;
    Ok(index::rows_of(shard_path, reader.header()).collect())
}

/// Opens a shard: reads its header and compares it with the file's length.
pub(super) fn open_shard(folder: &Path, shard_path: &str) -> Result<Reader, DatasetError> {
    Reader::open(folder.join(shard_path)).map_err(|source| DatasetError::shard(shard_path, source))
}

/// Carries out a record, as far as that has not been done yet, and removes all attempts except those in `keep`.
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
    // Attempts that cannot be removed do the dataset no harm, and are ignored.
    for (task, attempt) in choice::attempts(dataset)? {
        if record.attempts.contains(&attempt) || !keep.contains(&attempt) {
            remove_attempt(dataset, task, attempt);
        }
    }
    // The record is removed last: without it no later commit would continue here, and other attempts may begin.
    let record = dataset.join(TASKS).join(RECORD);
    fs::remove_file(&record).map_err(DatasetError::io("remove", &record))?;
    Ok(manifest)
}

/// Moves a shard to its place, unless it is there already.
fn put(staged: &Path, path: &Path, n_bytes: u64) -> Result<(), DatasetError> {
    match fs::rename(staged, path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            // A commit that was killed may have moved it.
            let found = fs::symlink_metadata(path).map_err(|_| DatasetError::io("read", staged)(error))?;
            if found.len() == n_bytes {
                return Ok(());
            }
            let problem = format!("{} bytes, expected {n_bytes}", found.len());
            Err(DatasetError::Staging { path: path.to_owned(), problem })
        }
        moved => moved.map_err(DatasetError::io("write", path)),
    }
}

/// Removes a shard of a replaced dataset, if it is a file in a folder that is really below the dataset's folder.
fn remove_shard(dataset: &Path, shard_path: &str) -> Result<(), DatasetError> {
    let path = dataset.join(shard_path);
    let folder = path.parent().and_then(|folder| folder.canonicalize().ok());
    let is_below = folder.zip(dataset.canonicalize().ok()).is_some_and(|(folder, dataset)| folder.starts_with(dataset));
    if is_below && fs::symlink_metadata(&path).is_ok_and(|found| found.is_file()) {
        remove(&path)?;
    }
    Ok(())
}

/// Removes an attempt, as far as possible.
pub(super) fn remove_attempt(dataset: &Path, task: u32, attempt: Uuid) {
    // A process that still writes there can create no more files once the folder has been renamed.
    let doomed = dataset.join(TASKS).join(format!(".removed-{}", Uuid::new_v4().simple()));
    if fs::rename(folder(dataset, task, attempt), &doomed).is_ok() {
        let _ = remove(&doomed);
    }
}
