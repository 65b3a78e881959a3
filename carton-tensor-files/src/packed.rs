//! The packed tensors of a file (spec/packed.md): found with what the model's configuration beside the file says, and listed as the dense ones that they
//! stand for.

use std::collections::{HashMap, HashSet};

use carton_core::tensor::FileBytes;
use carton_tensor::any_file::TensorFile;
use carton_tensor::weights::{Logical, Packed, PackedError, QuantizationConfig, has_packed, packed_of};
use serde::Serialize;

use crate::tensor_info::{TensorInfo, dense_info};
use crate::text::shown_names;

/// Opens the file of a name beside a tensor file. `None` if there is none; an error in words.
pub(crate) type Beside = Box<dyn Fn(&str) -> Result<Option<FileBytes>, String> + Send + Sync>;

/// The dense tensor that several tensors of a file stand for.
///
/// The JSON form has the same field names. It leaves out fields whose value is not known.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct LogicalTensor {
    /// The scheme, such as `GPTQ 4 bit`; a family of schemes if it is not dequantized.
    pub scheme: String,
    /// The name of the dense tensor.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The name of its element type.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dtype: Option<String>,
    /// Its dimensions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shape: Option<Vec<usize>>,
    /// The tensors that it replaces.
    pub parts: Vec<String>,
    /// Why it is not dequantized, if it is not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// The packed tensors of a file.
#[derive(Default)]
pub(crate) struct PackedTensors {
    found: Vec<Packed>,
    /// Where they are, by the names of their bases.
    bases: HashMap<String, usize>,
    /// Where they are, by the names of the dense tensors.
    names: HashMap<String, usize>,
    /// All parts but the bases.
    parts: HashSet<String>,
}

impl PackedTensors {
    /// Finds the packed tensors of a file. The model's configuration is read if there are any.
    pub(crate) fn find(file: &TensorFile, beside: &Beside) -> Self {
        if !has_packed(file) {
            return Self::default();
        }
        let found = match configuration(beside) {
            Ok(config) => packed_of(file, config.as_ref()),
            Err(problem) => packed_of(file, None).into_iter().map(|packed| packed.refused(&problem)).collect(),
        };
        let positions = |name: &dyn Fn(&Packed) -> Option<String>| -> HashMap<String, usize> {
            found.iter().enumerate().filter_map(|(position, packed)| Some((name(packed)?, position))).collect()
        };
        let bases = positions(&|packed| Some(packed.base().to_owned()));
        let names = positions(&|packed| Some(packed.logical().ok()?.name().to_owned()));
        let parts = found.iter().flat_map(|packed| packed.parts()).filter(|part| !bases.contains_key(*part));
        let parts = parts.cloned().collect();
        Self { found, bases, names, parts }
    }

    fn of_base(&self, base: &str) -> Option<&Packed> {
        self.bases.get(base).and_then(|position| self.found.get(*position))
    }

    /// The packed tensor whose dense one has this name.
    pub(crate) fn of_name(&self, name: &str) -> Option<&Logical> {
        self.names.get(name).and_then(|position| self.found.get(*position)?.logical().ok())
    }

    /// Describes what the base of this name stands for.
    pub(crate) fn logical(&self, base: &str) -> Option<LogicalTensor> {
        let packed = self.of_base(base)?;
        let logical = packed.logical().ok();
        Some(LogicalTensor {
            scheme: packed.scheme().to_owned(),
            name: logical.map(|logical| logical.name().to_owned()),
            dtype: logical.map(|logical| logical.dtype().name().to_owned()),
            shape: logical.map(|logical| logical.shape().to_vec()),
            parts: packed.parts().to_vec(),
            reason: packed.reason().map(str::to_owned),
        })
    }

    /// Whether a tensor belongs to a packed one, and is not its base.
    pub(crate) fn is_part(&self, name: &str) -> bool {
        self.parts.contains(name)
    }

    /// Replaces each base by the dense tensor that it stands for, and leaves out the other parts of that tensor. A tensor that is not dequantized
    /// stays in the list unchanged.
    pub(crate) fn dense(&self, tensors: &[TensorInfo]) -> Vec<TensorInfo> {
        let bases = tensors.iter().filter_map(|info| self.of_base(&info.name));
        let replaced: HashSet<&String> =
            bases.filter(|packed| packed.reason().is_none()).flat_map(|packed| packed.parts()).collect();
        let dense = |info: &TensorInfo| match self.of_base(&info.name).and_then(|packed| packed.logical().ok()) {
            Some(logical) => Some(dense_info(logical.name(), logical.dtype(), logical.shape())),
            None => (!replaced.contains(&info.name)).then(|| info.clone()),
        };
        tensors.iter().filter_map(dense).collect()
    }

    /// Refuses a tensor that should be made dense, and cannot be.
    pub(crate) fn expect_dense(&self, name: &str) -> Result<(), PackedError> {
        match self.of_base(name) {
            Some(packed) if packed.reason().is_some() => packed.logical().map(drop),
            _ => Ok(()),
        }
    }

    /// Says which scales are for the inputs and outputs of quantized layers, and not written with the dense tensors of these names.
    pub(crate) fn not_written(&self, names: &[&str]) -> Option<String> {
        let written = names.iter().filter_map(|name| self.found.get(*self.names.get(*name)?));
        let is_of_inputs = |part: &&String| {
            let last = part.rsplit('.').next().unwrap_or_default();
            last.contains("input") || last.contains("activation") || last.starts_with("output")
        };
        let lost: Vec<&str> =
            written.flat_map(|packed| packed.parts()).filter(is_of_inputs).map(String::as_str).collect();
        (!lost.is_empty()).then(|| {
            format!(
                "not written, because they are for the inputs and outputs of quantized layers: {}",
                shown_names(lost)
            )
        })
    }
}

/// Reads what the model's configuration says of quantization. `None` if there is no configuration.
fn configuration(beside: &Beside) -> Result<Option<QuantizationConfig>, String> {
    let mut config: Option<QuantizationConfig> = None;
    for name in QuantizationConfig::FILES {
        if config.as_ref().is_some_and(|config| !config.is_empty()) {
            break;
        }
        let failed = |problem: String| format!("`{name}` beside it cannot be read: {problem}");
        let Some(bytes) = beside(name).map_err(failed)? else { continue };
        if bytes.len() > QuantizationConfig::MAX_BYTES {
            return Err(failed(format!("it has {} bytes", bytes.len())));
        }
        let text = bytes.read(0..bytes.len()).map_err(|error| failed(error.to_string()))?;
        let found = QuantizationConfig::of_json(&text).map_err(|error| failed(error.to_string()))?;
        config = Some(match config {
            Some(config) => found.or_dtype_of(&config),
            None => found,
        });
    }
    Ok(config)
}
