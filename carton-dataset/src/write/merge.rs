//! Makes a dataset of shards that came without reports (spec/dataset.md §5.3): copied from many machines, or left by the Spark connector.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};

use uuid::Uuid;

use super::choice;
use super::commit::{commit, done, open_shard, parts_in};
use super::commit_options::CommitOptions;
use super::commit_record::{self, CommitRecord};
use super::found_shard::FoundShard;
use super::gathered_schema::{GatheredSchema, Sharing};
use super::publish::{publish, remove, to_json};
use super::samples;
use crate::error::DatasetError;
use crate::index;
use crate::manifest::{MANIFEST_NAME, Manifest, Shard};
use crate::part_name::PartName;

/// Makes a dataset of what is in `folder`, and returns the manifest. If tasks have left attempts there, it does the same as [`commit`].
/// Otherwise it takes all shards `part-….safetensors`, such as those copied together from many machines, and reads their tensors from
/// their headers. The number of samples is taken from the shards' metadata, else from `options`, else from the manifest that is replaced.
///
/// # Errors
/// The errors of [`commit`]; [`DatasetError::Attempts`] if two attempts at one task have left shards and none was named, if a shard is
/// missing between others, or if the tasks are not as many as `options` say; [`DatasetError::Staging`] for a shard that is a symbolic link; [`DatasetError::UnknownSamples`] if the number
/// of samples cannot be determined; [`DatasetError::Samples`] for shards that do not go together, such as two with the same name where
/// names must not repeat; [`DatasetError::Layout`] for shards that contradict `options`; [`DatasetError::Shard`] for a shard that is
/// truncated or damaged.
pub fn merge(folder: &Path, options: &CommitOptions) -> Result<Manifest, DatasetError> {
    if !choice::attempts(folder)?.is_empty() || CommitRecord::read(folder)?.is_some() {
        return commit(folder, options);
    }
    let place = folder.join(MANIFEST_NAME);
    if place.symlink_metadata().is_ok() && !options.overwrite {
        if let Some(manifest) = done(folder, options)? {
            return Ok(manifest);
        }
        return Err(DatasetError::Exists { folder: folder.to_owned() });
    }
    let attempts_error = |problem| DatasetError::Attempts { folder: folder.to_owned(), problem };
    let parts = chosen(parts_in(folder)?, options.attempts.as_deref(), options.n_tasks).map_err(attempts_error)?;
    let mut found = Vec::with_capacity(parts.len());
    let n_parts = parts.len();
    for part in parts {
        options.report_reading(found.len(), n_parts)?;
        let shard_path = part.to_string();
        check_is_file(folder.join(&shard_path))?;
        let reader = open_shard(folder, &shard_path)?;
        found.push(FoundShard { part, shard_path, bytes: reader.bytes().len(), header: reader.header().clone() });
    }
    let replaced = commit_record::read_capped(&place)?.and_then(|json| Manifest::parse(&json).ok());
    let (samples, key_value) = samples::resolve(&found, options.layout.as_ref(), replaced.as_ref())?;
    let mut gathered = GatheredSchema::default();
    for (shard, samples) in found.iter().zip(&samples) {
        let path = &shard.shard_path;
        let added = gathered.add_shard(format_args!("shard `{path}`"), samples.sharing, &shard.header);
        added.map_err(|problem| match samples.is_from_options {
            true => {
                let has_repeated_name = samples.sharing == Sharing::NoNames;
                DatasetError::Layout { shard: path.clone(), problem, has_repeated_name }
            }
            false => DatasetError::Samples { shard: path.clone(), problem },
        })?;
    }
    let staged = options.index.map(|layout| {
        let staged = folder.join(format!(".index-{}.parquet", Uuid::new_v4().simple()));
        let rows = found.iter().flat_map(|shard| index::rows_of(&shard.shard_path, &shard.header));
        index::write(&staged, rows, layout).map(|()| staged)
    });
    let staged = staged.transpose()?;
    let shards = found.into_iter().zip(samples).map(|(FoundShard { shard_path, bytes, .. }, samples)| Shard {
        shard_path,
        samples_count: samples.count,
        bytes,
    });
    let published = commit_record::manifest(shards.collect(), gathered.into_entries(), &place).and_then(|manifest| {
        let manifest = match key_value {
            Some(names) => manifest
                .with_key_value(names)
                .map_err(|source| DatasetError::Manifest { place: place.display().to_string(), source })?,
            None => manifest,
        };
        options.begin_publishing()?;
        publish(folder, &to_json(&manifest, &place)?, false, folder, staged.as_deref())?;
        Ok(manifest)
    });
    if let (Err(_), Some(staged)) = (&published, &staged) {
        let _ = remove(staged);
    }
    published
}

/// Chooses the shards of one attempt at each task: the named one, or the only one. Pure.
fn chosen(parts: Vec<PartName>, named: Option<&[Uuid]>, n_tasks: Option<NonZeroU32>) -> Result<Vec<PartName>, String> {
    let mut attempts: BTreeMap<u32, BTreeMap<Uuid, BTreeSet<u32>>> = BTreeMap::new();
    for part in &parts {
        if named.is_none_or(|named| named.contains(&part.attempt)) {
            attempts.entry(part.task).or_default().entry(part.attempt).or_default().insert(part.shard);
        }
    }
    if let Some(attempt) = named.unwrap_or_default().iter().find(|id| parts.iter().all(|part| part.attempt != **id)) {
        return Err(format!("there are no shards of attempt {attempt}"));
    }
    for (task, attempts) in &attempts {
        let ids: Vec<String> = attempts.keys().map(Uuid::to_string).collect();
        if ids.len() > 1 {
            return Err(format!("task {task} was written more than once, by attempts {}", ids.join(", ")));
        }
        for (attempt, shards) in attempts {
            if let Some((missing, _)) = (0..).zip(shards).find(|(expected, found)| expected != *found) {
                return Err(format!("shard {missing} of task {task}, attempt {attempt}, is missing"));
            }
        }
    }
    if attempts.is_empty() {
        return Err("there are no shards".to_owned());
    }
    if let Some(n_tasks) = n_tasks {
        let tasks = attempts.keys().copied().collect();
        choice::check_tasks(&tasks, n_tasks, |missing| format!("there are no shards of task {missing}"))?;
    }
    let is_chosen = |part: &PartName| attempts.get(&part.task).is_some_and(|ids| ids.contains_key(&part.attempt));
    Ok(parts.into_iter().filter(is_chosen).collect())
}

/// Checks that a shard is itself a file, as a copied one is: a link may lead anywhere.
fn check_is_file(path: PathBuf) -> Result<(), DatasetError> {
    let found = fs::symlink_metadata(&path).map_err(DatasetError::io("read", &path))?;
    if found.is_file() {
        return Ok(());
    }
    let kind = if found.is_symlink() { "a symbolic link" } else { "no file" };
    Err(DatasetError::Staging { path, problem: format!("is {kind}, expected the file of a shard") })
}
