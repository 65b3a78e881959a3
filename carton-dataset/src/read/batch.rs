//! A shard as a batch of tensors, and its samples (spec/dataset.md §2.1).

use std::collections::BTreeMap;
use std::sync::Arc;

use carton_tensor::files::{RawTensor, SharedBytes};
use carton_tensor::safetensors::Reader;

use super::samples::{SampleLayouts, Samples, check};
use crate::error::DatasetError;
use crate::manifest::Shard;
use crate::sample_names::SampleNames;

/// An open shard: its tensors by name.
#[derive(Clone, Debug)]
pub struct Batch {
    shard: Shard,
    reader: Arc<Reader>,
    layouts: Arc<SampleLayouts>,
}

impl Batch {
    pub(super) fn new(shard: Shard, reader: Arc<Reader>, layouts: Arc<SampleLayouts>) -> Self {
        Self { shard, reader, layouts }
    }

    /// The shard's entry in the manifest.
    #[must_use]
    pub fn shard(&self) -> &Shard {
        &self.shard
    }

    /// The reader of the file, with its header and the writer's metadata.
    #[must_use]
    pub fn reader(&self) -> &Reader {
        &self.reader
    }

    /// The names of the tensors, in the order of their data.
    pub fn names(&self) -> impl ExactSizeIterator<Item = &str> {
        self.reader.names()
    }

    /// Returns the tensor of this name, over the mapped file; `None` if the shard has no such tensor.
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

    /// Returns the samples. In batch mode they are the rows of all tensors. In key-value mode they are the tensors that share a sample's
    /// name; there are fewer of those than the manifest counts if the connector wrote several rows of one name. Nothing is copied out of
    /// a mapped file.
    ///
    /// # Errors
    /// [`DatasetError::Samples`] if the number of samples in the tensors differs from the manifest; [`DatasetError::Shard`].
    pub fn samples(&self) -> Result<impl Iterator<Item = Sample> + use<>, DatasetError> {
        let samples = self.check_samples()?;
        let mut tensors = Vec::with_capacity(self.names().len());
        for tensor in self.tensors() {
            let (name, tensor) = tensor?;
            tensors.push((name.to_owned(), tensor));
        }
        Ok(match samples {
            Samples::Rows => SampleIter::Rows(Rows { tensors, next: 0, n_rows: self.shard.samples_count }),
            Samples::Named { names, .. } => SampleIter::Named(named(tensors, &names).into_iter()),
        })
    }

    fn check_samples(&self) -> Result<Samples, DatasetError> {
        let header = self.reader.header();
        let samples_count = self.shard.samples_count;
        self.layouts
            .of(header, samples_count)
            .and_then(|samples| check(header, samples_count, &samples).map(|()| samples))
            .map_err(|problem| DatasetError::Samples { shard: self.reader.place().to_owned(), problem })
    }
}

fn named(tensors: Vec<(String, RawTensor)>, names: &SampleNames) -> Vec<Sample> {
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
    /// The name of the sample, in key-value mode.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// The columns and their tensors, in the order of the shard. A tensor whose name has no separator has the column `""`.
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

/// Iterates over the rows of tensors that all have the same number of rows.
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

/// Returns a row of a tensor, over the same memory; `None` if it has no such row.
fn row(tensor: &RawTensor, position: usize) -> Option<RawTensor> {
    let (n_rows, shape) = tensor.shape().split_first()?;
    let n_bytes = tensor.bytes().len() / (*n_rows).max(1);
    let start = position.checked_mul(n_bytes)?;
    let bytes: SharedBytes = tensor.bytes().slice(start..start.checked_add(n_bytes)?)?;
    RawTensor::new(tensor.dtype(), shape.to_vec(), bytes).ok()
}
