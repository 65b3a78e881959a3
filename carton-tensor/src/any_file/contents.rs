//! What files have besides tensors, whichever format they are: readers of one kind, metadata, and what is unusual in them.

use std::collections::HashSet;

use super::{Inner, TensorFile, TensorFileError};
use crate::checkpoint::Sharded;
use crate::ztensor::Attribute;
use crate::{gguf, safetensors, torch};

impl TensorFile {
    /// The readers of a PyTorch checkpoint, of which one in several files has several. Other formats have none.
    pub fn torch_readers(&self) -> impl Iterator<Item = &torch::Reader> {
        let one = match &self.inner {
            Inner::Torch(reader) => Some(reader),
            _ => None,
        };
        let shards = self.as_sharded().into_iter().flat_map(Sharded::shards);
        one.into_iter().chain(shards.filter_map(|(_, shard)| shard.as_torch()))
    }

    /// The readers of a safetensors file, of which a sharded checkpoint has several. Other formats have none.
    fn safetensors_readers(&self) -> impl Iterator<Item = &safetensors::Reader> {
        let shards = self.as_sharded().into_iter().flat_map(Sharded::shards);
        self.as_safetensors().into_iter().chain(shards.filter_map(|(_, shard)| shard.as_safetensors()))
    }

    /// What is unusual in the file, though it is read, one line each: some libraries refuse it. What a zTensor file has of this kind says
    /// [its reader](crate::ztensor::Reader::findings).
    #[must_use]
    pub fn findings(&self) -> Vec<String> {
        let mut findings = Vec::new();
        if self.as_sharded().is_some_and(|sharded| sharded.index().is_metadata_null()) {
            findings.push(
                "`metadata` of the index is null: huggingface_hub reads that, transformers does not (spec/safetensors.md §7.1)".to_owned(),
            );
        }
        let null = self.safetensors_readers().filter(|reader| reader.metadata().is_null());
        findings.extend(null.map(|reader| {
            format!("`__metadata__` of `{}` is null, which counts as absent (spec/safetensors.md §3)", reader.place())
        }));
        findings
    }

    /// The metadata of the file: `__metadata__` of safetensors, and the textual attributes of zTensor and GGUF, and what an ONNX model says of itself. For a sharded checkpoint, the
    /// first shard that has a key determines its value.
    ///
    /// # Errors
    /// [`TensorFileError::ZTensor`] and [`TensorFileError::ZTensor2`] for attributes beyond the limits.
    pub fn metadata(&self) -> Result<Vec<(String, String)>, TensorFileError> {
        match &self.inner {
            Inner::Safetensors(reader) => {
                Ok(reader.metadata().iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect())
            }
            Inner::Sharded(sharded) => {
                let mut seen = HashSet::new();
                let readers = sharded.shards().filter_map(|(_, shard)| shard.as_safetensors());
                let pairs = readers.flat_map(|reader| reader.metadata().iter());
                let new = pairs.filter(|(key, _)| seen.insert(*key));
                Ok(new.map(|(key, value)| (key.to_owned(), value.to_owned())).collect())
            }
            Inner::ZTensor(reader) => {
                let attributes = reader.manifest().attributes().map_err(|source| self.ztensor_error(source))?;
                let text = |value: &Attribute| value.as_text().map(str::to_owned);
                Ok(attributes.into_iter().filter_map(|(key, value)| Some((key, text(&value)?))).collect())
            }
            Inner::ZTensor2(reader) => {
                let attributes = reader.manifest().attributes().map_err(|source| self.ztensor2_error(source))?;
                let text = |value: &Attribute| value.as_text().map(str::to_owned);
                Ok(attributes.into_iter().filter_map(|(key, value)| Some((key, text(&value)?))).collect())
            }
            Inner::Gguf(split) => {
                let pairs = split.first().into_iter().flat_map(|first| first.header().metadata());
                let text = |value: &gguf::Value| value.as_text().map(str::to_owned);
                Ok(pairs.filter_map(|(key, value)| Some((key.clone(), text(value)?))).collect())
            }
            Inner::Onnx(reader) => Ok(reader.metadata().to_vec()),
            Inner::Torch(_) | Inner::Npy(_) | Inner::Npz(..) => Ok(Vec::new()),
        }
    }

    /// The names of the entries of an `.npz` file that are no arrays, and are not read. Other formats have none.
    #[must_use]
    pub fn other_entries(&self) -> Vec<String> {
        match &self.inner {
            Inner::Npz(npz, _) => npz.other_entries().to_vec(),
            _ => Vec::new(),
        }
    }
}
