//! What the files beside a checkpoint say of its quantization (spec/packed.md §2). Pure: bytes in, values out.

use serde_json::{Map, Value};

use crate::files::ElementType;

/// What `config.json` says of quantization in its `quantization_config`, or `quantize_config.json` as a whole; and the element type of the model.
///
/// ```
/// use carton_tensor::weights::QuantizationConfig;
/// let text = br#"{"torch_dtype": "bfloat16", "quantization_config": {"quant_method": "gptq", "bits": 4}}"#;
/// let config = QuantizationConfig::of_json(text)?;
/// assert_eq!(config.method(), Some("gptq"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct QuantizationConfig {
    settings: Map<String, Value>,
    model: Option<ElementType>,
}

/// The keys of a model's configuration that hold that of its quantization.
const QUANTIZATION: [&str; 2] = ["quantization_config", "compression_config"];
/// The keys of a model's configuration that hold that of its language model.
const INNER: [&str; 3] = ["text_config", "llm_config", "language_config"];
/// The keys of a model's configuration that name its element type.
const DTYPE: [&str; 2] = ["dtype", "torch_dtype"];
/// What only the configuration of a quantization has.
const OF_QUANTIZATION: [&str; 6] = ["quant_method", "bits", "w_bit", "checkpoint_format", "desc_act", "config_groups"];

impl QuantizationConfig {
    /// The names of files that [`of_json`](Self::of_json) reads, the best first.
    pub const FILES: [&'static str; 2] = ["config.json", "quantize_config.json"];
    /// Larger files are not read: those of models are some kilobytes.
    pub const MAX_BYTES: u64 = 16 << 20;

    /// Reads the text of one of the [`FILES`](Self::FILES). A model's configuration that says nothing of quantization has no settings.
    ///
    /// # Errors
    /// The text is not JSON.
    pub fn of_json(text: &[u8]) -> Result<Self, serde_json::Error> {
        let mut whole: Map<String, Value> = serde_json::from_slice(text)?;
        let model = dtype_of(&whole).or_else(|| inner(&whole).find_map(dtype_of));
        let found = take_settings(&mut whole)
            .or_else(|| INNER.into_iter().find_map(|key| take_settings(whole.get_mut(key)?.as_object_mut()?)));
        let settings = match found {
            Some(settings) => settings,
            None if OF_QUANTIZATION.into_iter().any(|key| whole.contains_key(key)) => whole,
            None => Map::new(),
        };
        Ok(Self { settings, model })
    }

    /// Returns these settings with the element type of another configuration, if it names one.
    #[must_use]
    pub fn or_dtype_of(self, other: &Self) -> Self {
        Self { model: self.model.or(other.model), ..self }
    }

    /// Whether it says nothing of quantization.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.settings.is_empty()
    }

    /// The method: `gptq`, `awq`, `fp8` and others.
    #[must_use]
    pub fn method(&self) -> Option<&str> {
        self.text("quant_method")
    }

    /// The element type of the model, if it is one that dense weights have.
    pub(super) fn model_dtype(&self) -> Option<ElementType> {
        self.model
    }

    pub(super) fn has(&self, key: &str) -> bool {
        self.settings.get(key).is_some_and(|value| !value.is_null())
    }

    pub(super) fn text(&self, key: &str) -> Option<&str> {
        self.settings.get(key)?.as_str()
    }

    pub(super) fn integer(&self, key: &str) -> Option<i64> {
        self.settings.get(key)?.as_i64()
    }

    pub(super) fn flag(&self, key: &str) -> Option<bool> {
        self.settings.get(key)?.as_bool()
    }

    /// The rows and columns of blocks that have one scale: `weight_block_size`, or those of compressed-tensors if all of its groups that
    /// have blocks agree.
    pub(super) fn block(&self) -> Option<[usize; 2]> {
        if let Some(block) = self.settings.get("weight_block_size") {
            return pair(block);
        }
        let groups = self.settings.get("config_groups")?.as_object()?;
        let mut blocks = groups.values().filter_map(|group| pair(group.get("weights")?.get("block_structure")?));
        let first = blocks.next()?;
        blocks.all(|block| block == first).then_some(first)
    }
}

fn take_settings(map: &mut Map<String, Value>) -> Option<Map<String, Value>> {
    QUANTIZATION.into_iter().find_map(|key| match map.remove(key)? {
        Value::Object(settings) => Some(settings),
        _ => None,
    })
}

fn inner(whole: &Map<String, Value>) -> impl Iterator<Item = &Map<String, Value>> {
    INNER.into_iter().filter_map(|key| whole.get(key)?.as_object())
}

fn dtype_of(map: &Map<String, Value>) -> Option<ElementType> {
    let name = DTYPE.into_iter().find_map(|key| map.get(key)?.as_str())?;
    dense_dtype(name.strip_prefix("torch.").unwrap_or(name))
}

/// The element type of this name, if it is one that dense weights have.
pub(super) fn dense_dtype(name: &str) -> Option<ElementType> {
    [ElementType::Float16, ElementType::BFloat16, ElementType::Float32].into_iter().find(|dtype| dtype.name() == name)
}

fn pair(value: &Value) -> Option<[usize; 2]> {
    let length = |value: &Value| usize::try_from(value.as_u64()?).ok().filter(|length| *length > 0);
    match value.as_array()?.as_slice() {
        [rows, columns] => Some([length(rows)?, length(columns)?]),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn config(text: &str) -> QuantizationConfig {
        QuantizationConfig::of_json(text.as_bytes()).unwrap()
    }

    #[test]
    fn settings_are_found_wherever_libraries_write_them() {
        let found = config(
            r#"{"torch_dtype": "float16", "quantization_config": {"quant_method": "gptq", "bits": 4, "desc_act": false}}"#,
        );
        assert_eq!(
            (found.method(), found.integer("bits"), found.flag("desc_act")),
            (Some("gptq"), Some(4), Some(false))
        );
        assert_eq!(found.model_dtype(), Some(ElementType::Float16));
        let found = config(r#"{"bits": 4, "group_size": 128, "checkpoint_format": "gptq_v2"}"#);
        assert_eq!((found.method(), found.text("checkpoint_format")), (None, Some("gptq_v2")));
        let found = config(r#"{"text_config": {"dtype": "bfloat16", "quantization_config": {"quant_method": "awq"}}}"#);
        assert_eq!((found.method(), found.model_dtype()), (Some("awq"), Some(ElementType::BFloat16)));
        assert!(config(r#"{"torch_dtype": "int8", "hidden_size": 4, "quantization_config": 4}"#).is_empty());
        assert!(QuantizationConfig::of_json(b"[]").is_err());
    }

    #[test]
    fn blocks() {
        let block = |text: &str| config(&format!(r#"{{"quantization_config": {text}}}"#)).block();
        assert_eq!(block(r#"{"weight_block_size": [128, 64]}"#), Some([128, 64]));
        assert_eq!(block(r#"{"weight_block_size": [0, 64]}"#), None);
        assert_eq!(block(r#"{"weight_block_size": [-1, 64]}"#), None);
        assert_eq!(block(r#"{"weight_block_size": null}"#), None);
        let groups = |second: &str| {
            format!(
                r#"{{"config_groups": {{"a": {{"weights": {{"block_structure": [128, 128]}}}}, "b": {{"weights": {{"block_structure": {second}}}}}}}}}"#
            )
        };
        assert_eq!(block(&groups("[128, 128]")), Some([128, 128]));
        assert_eq!(block(&groups("[64, 128]")), None);
        assert_eq!(block(&groups("null")), Some([128, 128]));
    }
}
