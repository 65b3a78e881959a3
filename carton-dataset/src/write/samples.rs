//! Counts the samples of shards that came without reports (spec/dataset.md §5.4). Where the number is ambiguous, it is an error that asks
//! the caller, because the dimensions of an embedding look like the rows of a batch. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroUsize;

use carton_tensor::safetensors::Header;

use super::found_shard::FoundShard;
use super::gathered_schema::Sharing;
use crate::error::DatasetError;
use crate::manifest::{KeyValueNames, Manifest};
use crate::options::{Duplicates, ShardLayout, check_separator};
use crate::rows::{check_rows, rows};
use crate::sample_names::{SampleNames, may_name_samples};
use crate::shard_metadata::{DUPLICATES_KEY, LAST_WINS, SAMPLES_KEY, ShardMode};

/// The samples of a shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ShardSamples {
    pub(super) count: u64,
    /// What the shard must have in common with others.
    pub(super) sharing: Sharing,
    /// Whether this comes from the caller's options, not from the shard or a manifest.
    pub(super) is_from_options: bool,
}

/// Returns the samples of each shard, and how tensors are named if only `layout`, or the manifest that is replaced, says it. The metadata
/// of a shard takes precedence over `layout`, and `layout` over the manifest.
///
/// # Errors
/// [`DatasetError::UnknownSamples`], [`DatasetError::Samples`], [`DatasetError::Layout`], [`DatasetError::Options`].
pub(super) fn resolve(
    shards: &[FoundShard],
    layout: Option<&ShardLayout>,
    replaced: Option<&Manifest>,
) -> Result<(Vec<ShardSamples>, Option<KeyValueNames>), DatasetError> {
    let mut samples: Vec<Option<ShardSamples>> = Vec::with_capacity(shards.len());
    for shard in shards {
        samples.push(declared(&shard.header).map_err(|problem| wrong(shard, problem))?);
    }
    check_modes(shards, &samples, layout)?;
    let mut key_value = None;
    let undeclared: Vec<&FoundShard> =
        shards.iter().zip(&samples).filter(|(_, samples)| samples.is_none()).map(|(shard, _)| shard).collect();
    let counted: Vec<ShardSamples> = match layout {
        _ if undeclared.is_empty() => Vec::new(),
        Some(ShardLayout::Batch { batch_size }) => batches(&undeclared, shards, *batch_size)?,
        Some(ShardLayout::KeyValue { separator, columns, duplicates }) => {
            let names = names(&undeclared, separator, columns.as_deref())?;
            key_value = Some(names.to_key_value());
            let sharing = match duplicates {
                Duplicates::Fail => Sharing::NoNames,
                Duplicates::LastWins => Sharing::Anything,
            };
            let count = |shard: &&FoundShard| {
                let count = names.count(shard.header.names());
                ShardSamples { count, sharing, is_from_options: true }
            };
            undeclared.iter().map(count).collect()
        }
        None => match of_manifest(&undeclared, replaced) {
            Some(counted) => {
                key_value = replaced.and_then(|manifest| manifest.key_value().cloned());
                counted
            }
            None => certain_batches(&undeclared)?,
        },
    };
    let mut counted = counted.into_iter();
    let of_each = samples.into_iter().zip(shards).map(|(samples, shard)| {
        let samples = samples.or_else(|| counted.next());
        samples.ok_or_else(|| wrong(shard, "its samples were not counted".to_owned()))
    });
    Ok((of_each.collect::<Result<_, _>>()?, key_value))
}

fn wrong(shard: &FoundShard, problem: String) -> DatasetError {
    DatasetError::Samples { shard: shard.shard_path.clone(), problem }
}

/// The error for a shard that contradicts the caller's options.
fn contradicts_options(shard: &FoundShard, problem: String) -> DatasetError {
    DatasetError::Layout { shard: shard.shard_path.clone(), problem, has_repeated_name: false }
}

/// Reads the samples from a shard's metadata; `None` if it does not state them.
///
/// # Errors
/// Returns as text what is wrong with the metadata.
fn declared(header: &Header) -> Result<Option<ShardSamples>, String> {
    let metadata = header.metadata();
    let Some(said) = metadata.get(SAMPLES_KEY) else { return Ok(None) };
    let count: u64 =
        said.parse().map_err(|_| format!("`{SAMPLES_KEY}` is `{}`, expected a number", said.escape_debug()))?;
    let mode = ShardMode::of(metadata);
    if mode == Some(ShardMode::KeyValue) {
        SampleNames::from_metadata(metadata)?;
    }
    let has_unique_names = metadata.get(DUPLICATES_KEY) != Some(LAST_WINS);
    let sharing = mode.map_or(Sharing::Anything, |mode| Sharing::of(mode, has_unique_names));
    let is_batch = sharing == Sharing::Columns;
    if is_batch {
        check_rows(header, count).map_err(|problem| format!("`{SAMPLES_KEY}` is {count}: {problem}"))?;
    }
    if !is_batch && count > header.len() as u64 {
        return Err(format!("`{SAMPLES_KEY}` is {count}, and there are {} tensors", header.len()));
    }
    Ok(Some(ShardSamples { count, sharing, is_from_options: false }))
}

/// Checks that either all shards or none are batches, as far as they or the options say.
fn check_modes(
    shards: &[FoundShard],
    samples: &[Option<ShardSamples>],
    layout: Option<&ShardLayout>,
) -> Result<(), DatasetError> {
    let mode = |(shard, samples): (&FoundShard, &Option<ShardSamples>)| match (samples, layout) {
        (Some(_), _) => ShardMode::of(shard.header.metadata()),
        (None, Some(ShardLayout::Batch { .. })) => Some(ShardMode::Batch),
        (None, Some(ShardLayout::KeyValue { .. })) => Some(ShardMode::KeyValue),
        (None, None) => None,
    };
    let is_from_options = layout.is_some() && samples.iter().any(Option::is_none);
    let mut first = None;
    for (shard, samples) in shards.iter().zip(samples) {
        let Some(found) = mode((shard, samples)) else { continue };
        let (other, expected) = *first.get_or_insert((shard, found));
        if found != expected {
            let (found, expected) = (found.name(), expected.name());
            let problem = format!("is in {found} mode, and shard `{}` in {expected} mode", other.shard_path);
            return Err(if is_from_options { contradicts_options(shard, problem) } else { wrong(shard, problem) });
        }
    }
    Ok(())
}

/// Counts the rows of shards that the options declare to be batches of `batch_size` rows. The last shard of a task may have fewer.
fn batches(
    undeclared: &[&FoundShard],
    all: &[FoundShard],
    batch_size: NonZeroUsize,
) -> Result<Vec<ShardSamples>, DatasetError> {
    let mut last: BTreeMap<u32, u32> = BTreeMap::new();
    for part in all.iter().map(|shard| shard.part) {
        let number = last.entry(part.task).or_default();
        *number = part.shard.max(*number);
    }
    let expected = batch_size.get() as u64;
    let counted = undeclared.iter().map(|shard| {
        let found = rows(&shard.header)
            .map_err(|problem| contradicts_options(shard, format!("it is no batch of rows: {problem}")))?;
        let may_be_fewer = last.get(&shard.part.task) == Some(&shard.part.shard);
        if found != expected && !(may_be_fewer && found < expected) {
            let or_fewer = if may_be_fewer { "at most " } else { "" };
            return Err(contradicts_options(
                shard,
                format!("its tensors have {found} rows, expected {or_fewer}{expected}"),
            ));
        }
        Ok(ShardSamples { count: found, sharing: Sharing::Columns, is_from_options: true })
    });
    counted.collect()
}

/// Takes the samples from the manifest that is replaced, if it has all these shards with the same sizes.
fn of_manifest(undeclared: &[&FoundShard], replaced: Option<&Manifest>) -> Option<Vec<ShardSamples>> {
    let replaced = replaced?;
    let known = |shard: &&FoundShard| {
        let known = replaced.shards().get(replaced.position(&shard.shard_path)?)?;
        let samples = ShardSamples { count: known.samples_count, sharing: Sharing::Anything, is_from_options: false };
        (known.bytes == shard.bytes).then_some(samples)
    };
    let counted: Vec<ShardSamples> = undeclared.iter().map(known).collect::<Option<_>>()?;
    // Shards with different tensors are no batches, so such a manifest counts dimensions (spec/dataset.md §2.3).
    let is_rows = |(shard, samples): (&&FoundShard, &ShardSamples)| check_rows(&shard.header, samples.count).is_ok();
    let counts_dimensions = replaced.key_value().is_none()
        && first_that_differs(undeclared).is_some()
        && counted.iter().any(|samples| samples.count > 1)
        && undeclared.iter().zip(&counted).all(is_rows);
    (!counts_dimensions).then_some(counted)
}

/// Returns the first shard that has not the same tensors as the first one.
fn first_that_differs<'s>(shards: &[&'s FoundShard]) -> Option<&'s FoundShard> {
    let (first, others) = shards.split_first()?;
    let expected: BTreeSet<&str> = first.header.names().collect();
    let differs = |shard: &&&FoundShard| {
        shard.header.len() != expected.len() || shard.header.names().any(|name| !expected.contains(name))
    };
    others.iter().find(differs).copied()
}

/// Counts the rows of each shard if metadata, manifest and options say nothing. The shards must be unambiguous batches: all have the same
/// tensors, the tensors of a shard have the same first dimension, and no separator splits the names into samples and columns.
fn certain_batches(undeclared: &[&FoundShard]) -> Result<Vec<ShardSamples>, DatasetError> {
    let unknown = |shard: &FoundShard, may_be_batch, problem: String| DatasetError::UnknownSamples {
        shard: shard.shard_path.clone(),
        problem,
        may_be_batch,
    };
    let mut counted = Vec::with_capacity(undeclared.len());
    for shard in undeclared {
        let count = rows(&shard.header).map_err(|problem| {
            let problem = format!("{problem}, so they are named after rows, with a separator that is not known");
            unknown(shard, false, problem)
        })?;
        counted.push(ShardSamples { count, sharing: Sharing::Columns, is_from_options: false });
    }
    let Some(first) = undeclared.first() else { return Ok(counted) };
    if let Some(shard) = first_that_differs(undeclared) {
        let problem = format!(
            "it has other tensors than shard `{}`, so they are named after rows, with a separator that is not known",
            first.shard_path
        );
        return Err(unknown(shard, false, problem));
    }
    let mut listed: Vec<&str> = first.header.names().collect();
    listed.sort_unstable();
    if may_name_samples(&listed) {
        let n_rows = counted.first().map_or(0, |samples| samples.count);
        let tensor = listed.first().copied().unwrap_or_default().escape_debug();
        let problem = format!(
            "its tensors, such as `{tensor}`, may be columns of {n_rows} rows, or named after rows that each have all of one or more \
             columns"
        );
        return Err(unknown(first, true, problem));
    }
    Ok(counted)
}

/// Returns how the tensor names of these shards split at this separator into names of rows and columns.
fn names(undeclared: &[&FoundShard], separator: &str, columns: Option<&[String]>) -> Result<SampleNames, DatasetError> {
    check_separator(separator).map_err(DatasetError::Options)?;
    let shown = separator.escape_debug();
    if let Some(columns) = columns {
        let names = SampleNames::new(separator, columns.iter().cloned());
        for shard in undeclared {
            if let Some(name) = names.without_column(shard.header.names()) {
                let name = name.escape_debug();
                return Err(contradicts_options(
                    shard,
                    format!("tensor `{name}` does not end with `{shown}` and one of the columns"),
                ));
            }
        }
        return Ok(names);
    }
    for shard in undeclared {
        if let Some(name) = shard.header.names().find(|name| !name.contains(separator)) {
            return Err(contradicts_options(
                shard,
                format!("tensor `{}` has no separator `{shown}` in its name", name.escape_debug()),
            ));
        }
    }
    let all: BTreeSet<&str> = undeclared.iter().flat_map(|shard| shard.header.names()).collect();
    let all: Vec<&str> = all.into_iter().collect();
    let ways = SampleNames::ways(&all, separator);
    let Some(first) = undeclared.first() else { return Ok(SampleNames::new(separator, [])) };
    // All tensors of a row are in one shard.
    let is_whole = |names: &SampleNames| {
        let n_columns = names.to_key_value().columns.len() as u64;
        undeclared.iter().all(|shard| names.count(shard.header.names()) * n_columns == shard.header.len() as u64)
    };
    let mut possible: Vec<(u64, SampleNames)> = ways.into_iter().filter(|(_, names)| is_whole(names)).collect();
    let counts: BTreeSet<u64> = possible.iter().map(|(count, _)| *count).collect();
    if counts.len() > 1 {
        let counts: Vec<String> = counts.iter().map(u64::to_string).collect();
        let problem = format!(
            "its tensors can be taken apart at `{shown}` in several ways, into {} rows of all shards, and which columns there are is not \
             known",
            counts.join(" or ")
        );
        return Err(DatasetError::UnknownSamples { shard: first.shard_path.clone(), problem, may_be_batch: false });
    }
    if possible.is_empty() {
        let problem = format!(
            "the names of its tensors, taken apart at `{shown}`, are not those of rows that all have the same columns, and which \
             columns there are is not known"
        );
        return Err(DatasetError::UnknownSamples { shard: first.shard_path.clone(), problem, may_be_batch: false });
    }
    Ok(possible.swap_remove(0).1)
}
