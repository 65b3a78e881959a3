//! Writes the one file that holds all numeric tensors (spec/carton-format-extensions.md, "Tensor files").

use std::collections::BTreeMap;

use carton_tensor::NumericTensor;
use carton_tensor::files::RawTensor;
use carton_tensor::safetensors;
use carton_tensor::ztensor::{StoreAs, Writer};

use super::{FileFormat, TensorDataError};
use crate::archive::Content;

/// The name that no tensor can have in a safetensors file.
const RESERVED: &str = "__metadata__";

/// The file that is being built.
#[derive(Debug)]
pub(super) struct TensorFile<'a> {
    format: FileFormat,
    /// The tensors by their names in the file.
    tensors: BTreeMap<String, &'a NumericTensor>,
}

impl<'a> TensorFile<'a> {
    pub(super) fn new(format: FileFormat) -> Self {
        Self { format, tensors: BTreeMap::new() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.tensors.is_empty()
    }

    pub(super) fn format(&self) -> FileFormat {
        self.format
    }

    /// Returns the file's name in `tensor_data`.
    pub(super) fn name(&self) -> String {
        format!("tensors{}", self.format.extension())
    }

    /// Adds a tensor and returns its name in the file. No two tensors may have the same `name`.
    pub(super) fn add(&mut self, name: &str, tensor: &'a NumericTensor) -> String {
        let mut name_in_file = name.to_owned();
        // Tensors are added sorted by name, so `__metadata__` comes before all names that it could be changed to, such as
        // `__metadata___`. A tensor with such a name is then renamed in turn.
        while (self.format == FileFormat::Safetensors && name_in_file == RESERVED)
            || self.tensors.contains_key(&name_in_file)
        {
            name_in_file.push('_');
        }
        self.tensors.insert(name_in_file.clone(), tensor);
        name_in_file
    }

    /// Returns the bytes of the file, as content that is stored such that it can be mapped.
    pub(super) fn content(&self) -> Result<Content, TensorDataError> {
        let failed = |source| TensorDataError::file(&self.name(), "written", self.format, source);
        let bytes = match self.format {
            FileFormat::Safetensors => self.safetensors().map_err(|error| failed(error.into()))?,
            FileFormat::Ztensor => self.ztensor().map_err(|error| failed(error.into()))?,
        };
        Ok(Content::InPlace(Box::new(Content::Bytes(bytes))))
    }

    fn ztensor(&self) -> Result<Vec<u8>, carton_tensor::ztensor::ZTensorError> {
        let mut writer = Writer::new(Vec::new())?;
        for (name, tensor) in &self.tensors {
            writer.add(name, &RawTensor::from(*tensor), StoreAs::RAW)?;
        }
        writer.finish()
    }

    fn safetensors(&self) -> Result<Vec<u8>, safetensors::SafetensorsError> {
        let tensors: Vec<(&str, RawTensor)> =
            self.tensors.iter().map(|(name, tensor)| (name.as_str(), RawTensor::from(*tensor))).collect();
        let mut bytes = Vec::new();
        let tensors = tensors.iter().map(|(name, tensor)| (*name, tensor));
        safetensors::write(tensors, &safetensors::Metadata::default(), &mut bytes)?;
        Ok(bytes)
    }
}
