//! A shard as a batch of tensors, and its rows as samples.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use carton_tensor::files::{ElementType, RawTensor, SharedBytes};
use carton_tensor::safetensors::{Header, Metadata, Reader};

use crate::error::DatasetError;
use crate::manifest::Shard;
use crate::options::KeyValue;
use crate::shard_metadata::{BATCH, COLUMNS_KEY, KEY_VALUE, MODE_KEY, SAMPLES_KEY, SEPARATOR_KEY};

/// The samples that a shard may have beyond the number of its bytes.
const SAMPLES_WITHOUT_BYTES: u64 = 1 << 20;

/// A shard: its tensors by name.
#[derive(Clone, Debug)]
pub struct Batch {
    shard: Shard,
    reader: Arc<Reader>,
}

/// How the samples of a shard lie in its tensors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Samples {
    /// The first dimension of every tensor counts them.
    Rows,
    /// Each is the tensors of one name.
    Named(Names),
}

/// How the names of tensors are made of those of samples and columns.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Names {
    separator: String,
    /// Those that the writer named; empty if it did not.
    columns: HashSet<String>,
}

impl Names {
    /// What a shard says of its names, or else what most have.
    fn of(metadata: &Metadata) -> Self {
        let columns = metadata.get(COLUMNS_KEY).and_then(|columns| serde_json::from_str(columns).ok());
        let separator = metadata.get(SEPARATOR_KEY).unwrap_or(KeyValue::SEPARATOR).to_owned();
        Self { separator, columns: columns.unwrap_or_default() }
    }

    /// The name of the sample and that of the column: at the first separator that a known column follows, or else at the last one.
    fn split<'n>(&self, name: &'n str) -> (&'n str, &'n str) {
        let at = |position: usize| Some((name.get(..position)?, name.get(position..)?.strip_prefix(&self.separator)?));
        let is_known = |(_, column): &(&str, &str)| self.columns.contains(*column);
        let known = (0..name.len()).filter_map(at).find(is_known);
        if known.is_none() && self.separator.is_empty() {
            return (name, "");
        }
        known.or_else(|| name.rsplit_once(&self.separator)).unwrap_or((name, ""))
    }
}

impl Batch {
    pub(super) fn new(shard: Shard, reader: Arc<Reader>) -> Self {
        Self { shard, reader }
    }

    /// What the manifest says of it.
    #[must_use]
    pub fn shard(&self) -> &Shard {
        &self.shard
    }

    /// The file: its header, and the metadata that its writer left.
    #[must_use]
    pub fn reader(&self) -> &Reader {
        &self.reader
    }

    /// The names of the tensors, in the order of their data.
    pub fn names(&self) -> impl ExactSizeIterator<Item = &str> {
        self.reader.names()
    }

    /// The tensor of this name, over the mapped file; `None` where there is none.
    ///
    /// # Errors
    /// [`DatasetError::Shard`].
    pub fn get(&self, name: &str) -> Result<Option<RawTensor>, DatasetError> {
        if self.reader.get(name).is_none() {
            return Ok(None);
        }
        let wrong = |source| DatasetError::shard(self.reader.place(), source);
        self.reader.read(name).map(Some).map_err(wrong)
    }

    /// All tensors, in the order of their data.
    pub fn tensors(&self) -> impl Iterator<Item = Result<(&str, RawTensor), DatasetError>> {
        self.names().filter_map(|name| self.get(name).transpose().map(|tensor| Ok((name, tensor?))))
    }

    /// The samples: in batch mode the rows of all tensors; in key-value mode the tensors that share a name. Nothing is copied out
    /// of a mapped file.
    ///
    /// # Errors
    /// [`DatasetError::Samples`] where the tensors are not as many samples as the manifest says;
    /// [`DatasetError::Shard`].
    pub fn samples(&self) -> Result<impl Iterator<Item = Sample> + use<>, DatasetError> {
        let samples = self.check_samples()?;
        let mut tensors = Vec::with_capacity(self.names().len());
        for tensor in self.tensors() {
            let (name, tensor) = tensor?;
            tensors.push((name.to_owned(), tensor));
        }
        Ok(match samples {
            Samples::Rows => SampleIter::Rows(Rows { tensors, next: 0, n_rows: self.shard.samples_count }),
            Samples::Named(names) => SampleIter::Named(named(tensors, &names).into_iter()),
        })
    }

    fn check_samples(&self) -> Result<Samples, DatasetError> {
        let header = self.reader.header();
        kind(header, self.shard.samples_count)
            .and_then(|samples| check(header, self.shard.samples_count, &samples).map(|()| samples))
            .map_err(|problem| DatasetError::Samples { shard: self.reader.place().to_owned(), problem })
    }
}

/// What the samples of a shard are: what it says (spec/dataset.md §2.2), or else what fits.
pub(super) fn kind(header: &Header, samples_count: u64) -> Result<Samples, String> {
    let metadata = header.metadata();
    let named = Samples::Named(Names::of(metadata));
    match metadata.get(MODE_KEY) {
        Some(BATCH) => return Ok(Samples::Rows),
        Some(KEY_VALUE) => return Ok(named),
        _ => {}
    }
    [Samples::Rows, named]
        .into_iter()
        .find(|samples| check(header, samples_count, samples).is_ok())
        .ok_or_else(|| format!("its tensors are neither of {samples_count} rows nor of {samples_count} names"))
}

/// Whether a shard has as many samples as it should.
pub(super) fn check(header: &Header, samples_count: u64, samples: &Samples) -> Result<(), String> {
    if let Some(said) = header.metadata().get(SAMPLES_KEY)
        && said.parse() != Ok(samples_count)
    {
        return Err(format!("it says that it has `{}` samples, expected {samples_count}", said.escape_debug()));
    }
    let Samples::Named(parts) = samples else {
        // A sample without bytes costs nothing, and a file could claim any number of them.
        let n_bytes = header.iter().next_back().map_or(0, |last| last.range.end - header.data_start());
        let most = if header.is_empty() { 0 } else { n_bytes.saturating_add(SAMPLES_WITHOUT_BYTES) };
        if samples_count > most {
            return Err(format!("its tensors have {n_bytes} bytes, too few for {samples_count} samples"));
        }
        for tensor in header.iter() {
            let name = tensor.name.escape_debug();
            let n_rows = tensor.shape.first().map(|&n_rows| n_rows as u64);
            match n_rows {
                Some(n_rows) if n_rows == samples_count => {
                    if !has_whole_rows(tensor.dtype, tensor.shape) {
                        return Err(format!(
                            "the rows of tensor `{name}`, of {}, do not end between bytes",
                            tensor.dtype
                        ));
                    }
                }
                Some(n_rows) => return Err(format!("tensor `{name}` has {n_rows} rows, expected {samples_count}")),
                None => return Err(format!("tensor `{name}` is a scalar, expected {samples_count} rows")),
            }
        }
        return Ok(());
    };
    let mut names: Vec<&str> = header.names().map(|name| parts.split(name).0).collect();
    names.sort_unstable();
    names.dedup();
    match names.len() as u64 {
        found if found == samples_count => Ok(()),
        found => Err(format!("its tensors have {found} names, expected {samples_count}")),
    }
}

fn named(tensors: Vec<(String, RawTensor)>, names: &Names) -> Vec<Sample> {
    let mut samples: BTreeMap<String, Vec<(String, RawTensor)>> = BTreeMap::new();
    for (name, tensor) in tensors {
        let (sample, column) = names.split(&name);
        samples.entry(sample.to_owned()).or_default().push((column.to_owned(), tensor));
    }
    samples.into_iter().map(|(name, tensors)| Sample { name: Some(name), tensors }).collect()
}

/// A sample: a tensor for each column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sample {
    name: Option<String>,
    tensors: Vec<(String, RawTensor)>,
}

impl Sample {
    /// Its name, in key-value mode.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// The columns and their tensors, in the order of the shard. A tensor without a separator in its name has the column `""`.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &RawTensor)> {
        self.tensors.iter().map(|(column, tensor)| (column.as_str(), tensor))
    }

    /// The tensor of a column.
    #[must_use]
    pub fn get(&self, column: &str) -> Option<&RawTensor> {
        self.iter().find(|(name, _)| *name == column).map(|(_, tensor)| tensor)
    }
}

enum SampleIter {
    Rows(Rows),
    Named(std::vec::IntoIter<Sample>),
}

impl Iterator for SampleIter {
    type Item = Sample;

    fn next(&mut self) -> Option<Sample> {
        match self {
            Self::Rows(rows) => rows.next(),
            Self::Named(samples) => samples.next(),
        }
    }
}

/// The rows of tensors that all have as many.
struct Rows {
    tensors: Vec<(String, RawTensor)>,
    next: u64,
    n_rows: u64,
}

impl Iterator for Rows {
    type Item = Sample;

    fn next(&mut self) -> Option<Sample> {
        if self.next >= self.n_rows {
            return None;
        }
        let position = usize::try_from(self.next).ok()?;
        self.next += 1;
        let row = |(name, tensor): &(String, RawTensor)| Some((name.clone(), row(tensor, position)?));
        Some(Sample { name: None, tensors: self.tensors.iter().filter_map(row).collect() })
    }
}

/// A row of a tensor that has so many, over the same memory.
fn row(tensor: &RawTensor, position: usize) -> Option<RawTensor> {
    let (n_rows, shape) = tensor.shape().split_first()?;
    let n_bytes = tensor.bytes().len() / (*n_rows).max(1);
    let start = position.checked_mul(n_bytes)?;
    let bytes: SharedBytes = tensor.bytes().slice(start..start.checked_add(n_bytes)?)?;
    RawTensor::new(tensor.dtype(), shape.to_vec(), bytes).ok()
}

/// Whether the rows of a tensor are whole bytes.
fn has_whole_rows(dtype: ElementType, shape: &[usize]) -> bool {
    let row = shape.iter().skip(1).try_fold(1_usize, |product, &size| product.checked_mul(size));
    row.is_some_and(|n_elements| dtype.n_bytes(n_elements).is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_taken_apart_at_a_known_column() {
        let check = |separator: &str, columns: &[&str], name: &str, expected: (&str, &str)| {
            let columns = columns.iter().map(|&column| column.to_owned()).collect();
            let names = Names { separator: separator.to_owned(), columns };
            assert_eq!(names.split(name), expected);
        };
        check("__", &[], "a__b__x", ("a__b", "x"));
        check("__", &[], "a", ("a", ""));
        check("__", &["input__ids", "x"], "r__input__ids", ("r", "input__ids"));
        check("__", &["_x"], "a___x", ("a", "_x"));
        check("__", &["y"], "a__b__x", ("a__b", "x"));
        check("__", &["x"], "é__x", ("é", "x"));
        check("", &["x", "y"], "ax", ("a", "x"));
        check("", &[], "ax", ("ax", ""));
    }
}
