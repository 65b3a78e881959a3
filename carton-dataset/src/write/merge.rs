//! A manifest for shards that came without reports (spec/dataset.md §5.3): copied from many machines, or left by the Spark
//! connector.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use carton_tensor::safetensors::Header;
use uuid::Uuid;

use super::commit::{CommitOptions, commit, done, open_shard, parts_in};
use super::commit_record::{self, CommitRecord};
use super::publish::{publish, remove, to_json};
use super::shard_file::{self, MODE_KEY, SAMPLES_KEY};
use super::{batch, choice};
use crate::error::DatasetError;
use crate::index;
use crate::manifest::{MANIFEST_NAME, Manifest, Shard};
use crate::options::KeyValue;
use crate::part_name::PartName;

/// Makes a dataset of what is in `folder`: of the attempts that tasks left there, as [`commit`], or, where there are none, of
/// all shards `part-….safetensors`, as they were copied together from many machines. What those hold is read from their headers.
///
/// # Errors
/// As [`commit`]; [`DatasetError::Attempts`] where two attempts at one task have left shards and none was named, and where a
/// shard is missing between others; [`DatasetError::Shard`] for a shard that is cut off or damaged.
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
    let parts = chosen(parts_in(folder)?, options.attempts.as_deref()).map_err(attempts_error)?;
    let (mut shards, mut schema, mut rows) = (Vec::new(), BTreeMap::new(), Vec::new());
    for part in parts {
        let shard_path = part.to_string();
        let reader = open_shard(folder, &shard_path)?;
        let header = reader.header();
        let samples_count =
            samples(header).map_err(|problem| DatasetError::Staging { path: folder.join(&shard_path), problem })?;
        for tensor in header.iter() {
            if !schema.contains_key(tensor.name) {
                schema.insert(tensor.name.to_owned(), shard_file::schema(tensor.dtype, tensor.shape));
            }
        }
        if options.generate_index {
            rows.extend(index::rows_of(&shard_path, header));
        }
        shards.push(Shard { shard_path, samples_count, bytes: reader.bytes().len() });
    }
    let manifest = commit_record::manifest(shards, schema, &place)?;
    let json = to_json(&manifest, &place)?;
    let staged = folder.join(format!(".index-{}.parquet", Uuid::new_v4().simple()));
    let staged = options.generate_index.then_some(staged);
    if let Some(staged) = &staged {
        index::write(staged, rows)?;
    }
    let published = publish(folder, &json, false, folder, staged.as_deref());
    if let (Err(_), Some(staged)) = (&published, &staged) {
        let _ = remove(staged);
    }
    published.map(|()| manifest)
}

/// The shards of one attempt at each task: of those that are named, or the only ones. Pure.
fn chosen(parts: Vec<PartName>, named: Option<&[Uuid]>) -> Result<Vec<PartName>, String> {
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
    let is_chosen = |part: &PartName| attempts.get(&part.task).is_some_and(|ids| ids.contains_key(&part.attempt));
    Ok(parts.into_iter().filter(is_chosen).collect())
}

/// The rows of a shard. Ours say how many; of others it is told by the tensors' names whether a row has tensors of its own.
///
/// # Errors
/// What is wrong, in words.
fn samples(header: &Header) -> Result<u64, String> {
    let common = || {
        let mut firsts = header.iter().map(|tensor| tensor.shape.first().copied());
        let first = firsts.next()??;
        firsts.all(|other| other == Some(first)).then_some(first as u64)
    };
    let metadata = header.metadata();
    if let Some(said) = metadata.get(SAMPLES_KEY) {
        let n: u64 =
            said.parse().map_err(|_| format!("`{SAMPLES_KEY}` is `{}`, expected a number", said.escape_debug()))?;
        let is_batch = metadata.get(MODE_KEY) == Some(batch::MODE);
        return match common() {
            found if is_batch && found != Some(n) => {
                Err(format!("`{SAMPLES_KEY}` is {n}, and the first dimension of its tensors is another"))
            }
            _ if n > header.len() as u64 && !is_batch => Err(format!("{n} samples in {} tensors", header.len())),
            _ => Ok(n),
        };
    }
    let names: Option<BTreeSet<&str>> =
        header.names().map(|name| name.rsplit_once(KeyValue::SEPARATOR).map(|(row, _)| row)).collect();
    match names {
        Some(names) if !names.is_empty() => Ok(names.len() as u64),
        _ => common()
            .ok_or_else(|| "its tensors differ in their first dimension, so they are no batch of rows".to_owned()),
    }
}
