//! A manifest for shards that came without reports (spec/dataset.md §5.3): copied from many machines, or left by the Spark
//! connector.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use carton_tensor::safetensors::Header;
use uuid::Uuid;

use super::attempt::io_error;
use super::choice;
use super::commit::{CommitOptions, commit, done, open_shard, parts_in};
use super::commit_record::{self, CommitRecord};
use super::gathered_schema::{GatheredSchema, Sharing};
use super::publish::{publish, remove, to_json};
use crate::error::DatasetError;
use crate::index;
use crate::manifest::{MANIFEST_NAME, Manifest, Shard};
use crate::options::KeyValue;
use crate::part_name::PartName;
use crate::shard_metadata::{BATCH, DUPLICATES_KEY, KEY_VALUE, LAST_WINS, MODE_KEY, SAMPLES_KEY};

/// Makes a dataset of what is in `folder`: of the attempts that tasks left there, as [`commit`], or, where there are none, of
/// all shards `part-….safetensors`, as they were copied together from many machines. What those hold is read from their headers.
///
/// # Errors
/// As [`commit`]; [`DatasetError::Attempts`] where two attempts at one task have left shards and none was named, and where a
/// shard is missing between others; [`DatasetError::Staging`] for one that is a symbolic link; [`DatasetError::Samples`] for those that
/// do not go together, such as two with a name that must not come twice; [`DatasetError::Shard`] for a shard that is cut off or damaged.
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
    let (mut found, mut rows) = (Vec::new(), Vec::new());
    let mut gathered = GatheredSchema::default();
    // What is wrong if the tensors turn out to be named after rows.
    let mut twice = None;
    for part in parts {
        let shard_path = part.to_string();
        check_is_file(folder.join(&shard_path))?;
        let reader = open_shard(folder, &shard_path)?;
        let header = reader.header();
        let samples =
            Samples::of(header).map_err(|problem| DatasetError::Samples { shard: shard_path.clone(), problem })?;
        if twice.is_none() && samples.is_guessed() {
            let problem = header.names().find_map(|name| gathered.repeated(name));
            twice = problem.map(|problem| DatasetError::Samples { shard: shard_path.clone(), problem });
        }
        let added = gathered.add_shard(format_args!("shard `{shard_path}`"), samples.sharing(), header);
        added.map_err(|problem| DatasetError::Samples { shard: shard_path.clone(), problem })?;
        if options.generate_index {
            rows.extend(index::rows_of(&shard_path, header));
        }
        found.push((shard_path, reader.bytes().len(), samples));
    }
    let is_key_value = are_named_after_rows(found.iter().map(|(_, _, samples)| samples));
    if let Some(error) = twice.filter(|_| is_key_value) {
        return Err(error);
    }
    let shards = found.into_iter().map(|(shard_path, bytes, samples)| match samples.count(is_key_value) {
        Some(samples_count) => Ok(Shard { shard_path, samples_count, bytes }),
        None => {
            let problem = "its tensors differ in their first dimension, so they are no batch of rows".to_owned();
            Err(DatasetError::Samples { shard: shard_path, problem })
        }
    });
    let shards = shards.collect::<Result<Vec<_>, _>>()?;
    let manifest = commit_record::manifest(shards, gathered.into_entries(), &place)?;
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

/// Whether a shard is a file itself, as one that was copied here is: a link may lead anywhere.
fn check_is_file(path: PathBuf) -> Result<(), DatasetError> {
    let found = fs::symlink_metadata(&path).map_err(io_error(&path))?;
    if found.is_file() {
        return Ok(());
    }
    let kind = if found.is_symlink() { "a symbolic link" } else { "no file" };
    Err(DatasetError::Staging { path, problem: format!("is {kind}, expected the file of a shard") })
}

/// How many samples a shard may have.
enum Samples {
    /// What it says itself, and what it has in common with others.
    Said { n: u64, sharing: Sharing },
    /// What its tensors can mean: the rows of a batch, and the rows that they are named after, with what follows their names.
    Guessed { rows: Option<u64>, names: Option<(u64, BTreeSet<String>)> },
}

impl Samples {
    /// # Errors
    /// What is wrong with what the shard says, in words.
    fn of(header: &Header) -> Result<Self, String> {
        let mut firsts = header.iter().map(|tensor| tensor.shape.first().copied());
        let first = firsts.next().flatten();
        let rows = first.filter(|_| firsts.all(|other| other == first)).map(|rows| rows as u64);
        let metadata = header.metadata();
        let Some(said) = metadata.get(SAMPLES_KEY) else { return Ok(Self::Guessed { rows, names: names(header) }) };
        let shown = said.escape_debug();
        let n: u64 = said.parse().map_err(|_| format!("`{SAMPLES_KEY}` is `{shown}`, expected a number"))?;
        let sharing = match metadata.get(MODE_KEY) {
            Some(BATCH) => Sharing::Columns,
            Some(KEY_VALUE) if metadata.get(DUPLICATES_KEY) != Some(LAST_WINS) => Sharing::NoNames,
            _ => Sharing::Anything,
        };
        let is_batch = sharing == Sharing::Columns;
        if is_batch && rows != Some(n) {
            return Err(format!("`{SAMPLES_KEY}` is {n}, and the first dimension of its tensors is another"));
        }
        if !is_batch && n > header.len() as u64 {
            return Err(format!("`{SAMPLES_KEY}` is {n}, and there are {} tensors", header.len()));
        }
        Ok(Self::Said { n, sharing })
    }

    fn is_guessed(&self) -> bool {
        matches!(self, Self::Guessed { .. })
    }

    fn sharing(&self) -> Sharing {
        match self {
            Self::Said { sharing, .. } => *sharing,
            Self::Guessed { .. } => Sharing::Anything,
        }
    }

    fn count(&self, is_key_value: bool) -> Option<u64> {
        match self {
            Self::Said { n, .. } => Some(*n),
            Self::Guessed { names, .. } if is_key_value => names.as_ref().map(|(n, _)| *n),
            Self::Guessed { rows, .. } => *rows,
        }
    }
}

/// The rows that tensors are named after, and the columns that each of them has; `None` where they do not have the same.
fn names(header: &Header) -> Option<(u64, BTreeSet<String>)> {
    let mut rows: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for name in header.names() {
        let (row, column) = name.rsplit_once(KeyValue::SEPARATOR)?;
        rows.entry(row).or_default().insert(column);
    }
    let columns = rows.values().next()?;
    let is_same = rows.values().all(|other| other == columns);
    is_same.then(|| (rows.len() as u64, columns.iter().map(|column| (*column).to_owned()).collect()))
}

/// Whether the tensors of all shards that do not say it themselves are named after rows, and not each after its column.
fn are_named_after_rows<'s>(samples: impl Iterator<Item = &'s Samples>) -> bool {
    let mut columns: Option<&BTreeSet<String>> = None;
    let mut has_several = false;
    for samples in samples {
        let Samples::Guessed { names, .. } = samples else { continue };
        let Some((n, found)) = names else { return false };
        if *columns.get_or_insert(found) != found {
            return false;
        }
        has_several |= *n > 1;
    }
    has_several
}
