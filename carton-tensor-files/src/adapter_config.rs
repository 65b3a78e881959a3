//! The settings of a low-rank adapter, as PEFT writes them to `adapter_config.json` (spec/weights.md §9). Pure.

use std::fmt;
use std::marker::PhantomData;

use regex::Regex;
use serde::Deserialize;
use serde::de::{MapAccess, Visitor};
use serde_json::{Map, Value};

/// Settings that change nothing about what an adapter adds to a model: how it was trained, and where it comes from.
const WITHOUT_EFFECT: [&str; 22] = [
    "auto_mapping",
    "base_model_name_or_path",
    "bias",
    "corda_config",
    "eva_config",
    "exclude_modules",
    "inference_mode",
    "layers_pattern",
    "layers_to_transform",
    "loftq_config",
    "lora_bias",
    "lora_dropout",
    "lora_ga_config",
    "megatron_core",
    "modules_to_save",
    "peft_version",
    "qalora_group_size",
    "revision",
    "runtime_config",
    "target_modules",
    "task_type",
    "velora_config",
];

/// Ways to begin the training that leave the weights of the model as they are.
const INITIALIZATIONS: [&str; 3] = ["gaussian", "eva", "orthogonal"];

/// What an adapter does to the weights of a model, apart from its tensors.
#[derive(Debug, Deserialize)]
pub(crate) struct AdapterConfig {
    peft_type: String,
    r: u64,
    lora_alpha: f64,
    #[serde(default)]
    use_rslora: bool,
    /// Whether the weights of layers are stored as inputs × outputs.
    #[serde(default)]
    pub(crate) fan_in_fan_out: bool,
    #[serde(default)]
    rank_pattern: Option<Pairs<u64>>,
    #[serde(default)]
    alpha_pattern: Option<Pairs<f64>>,
    #[serde(default)]
    init_lora_weights: Value,
    #[serde(flatten)]
    others: Map<String, Value>,
}

/// A map of JSON in the order of the file, which decides between patterns.
#[derive(Debug)]
struct Pairs<T>(Vec<(String, T)>);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Pairs<T> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Pair<T>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>> Visitor<'de> for Pair<T> {
            type Value = Pairs<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map of patterns")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut pairs = Vec::new();
                while let Some(pair) = map.next_entry()? {
                    pairs.push(pair);
                }
                Ok(Pairs(pairs))
            }
        }
        deserializer.deserialize_map(Pair(PhantomData))
    }
}

impl AdapterConfig {
    /// Reads the settings, and refuses those with which an adapter is more than a product that is added.
    ///
    /// # Errors
    /// What is wrong, in words.
    pub(crate) fn parse(text: &[u8]) -> Result<Self, String> {
        let config: Self = serde_json::from_slice(text).map_err(|error| error.to_string())?;
        if config.peft_type != "LORA" {
            return Err(format!("`peft_type` is `{}`, and only `LORA` is merged", config.peft_type.escape_debug()));
        }
        if config.r == 0 || !config.lora_alpha.is_finite() {
            return Err(format!("`r` is {} and `lora_alpha` {}", config.r, config.lora_alpha));
        }
        let begins_as_is = match &config.init_lora_weights {
            Value::Null | Value::Bool(_) => true,
            Value::String(name) => INITIALIZATIONS.contains(&name.to_ascii_lowercase().as_str()),
            _ => false,
        };
        if !begins_as_is {
            return Err(format!(
                "`init_lora_weights` is {}, which changes the weights of the model",
                config.init_lora_weights
            ));
        }
        let is_set = |value: &Value| match value {
            Value::Null | Value::Bool(false) => false,
            Value::Array(values) => !values.is_empty(),
            Value::Object(values) => !values.is_empty(),
            _ => true,
        };
        let has_effect = |(name, value): &(&String, &Value)| !WITHOUT_EFFECT.contains(&name.as_str()) && is_set(value);
        match config.others.iter().find(has_effect) {
            Some((name, _)) => Err(format!("`{}` is set, which is not merged", name.escape_debug())),
            None => Ok(config),
        }
    }

    /// The factor of the product that is added to the weights of a module, and its expected rank.
    ///
    /// # Errors
    /// A pattern cannot be compared with names.
    pub(crate) fn scaling(&self, module: &str) -> Result<(f64, u64), String> {
        let rank = of_pattern(self.rank_pattern.as_ref(), module)?.unwrap_or(self.r);
        let alpha = of_pattern(self.alpha_pattern.as_ref(), module)?.unwrap_or(self.lora_alpha);
        let divisor = if self.use_rslora { (rank as f64).sqrt() } else { rank as f64 };
        Ok((alpha / divisor, rank))
    }
}

/// The value of the first pattern that the name of a module matches.
fn of_pattern<T: Copy>(patterns: Option<&Pairs<T>>, module: &str) -> Result<Option<T>, String> {
    for (pattern, value) in patterns.map(|pairs| pairs.0.as_slice()).unwrap_or_default() {
        if matches(pattern, module)? {
            return Ok(Some(*value));
        }
    }
    Ok(None)
}

/// Whether a module is one that a pattern names. A pattern is a regular expression for the whole name, or for what follows a `.` in it.
fn matches(pattern: &str, module: &str) -> Result<bool, String> {
    let shown = pattern.escape_debug();
    let expression = Regex::new(&format!("^(?:.*\\.)?(?:{pattern})$"));
    let expression = expression.map_err(|_| format!("the pattern `{shown}` is no regular expression that is known"))?;
    Ok(expression.is_match(module))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn parse(more: &str) -> Result<AdapterConfig, String> {
        AdapterConfig::parse(format!(r#"{{"peft_type": "LORA", "r": 4, "lora_alpha": 6{more}}}"#).as_bytes())
    }

    #[test]
    fn settings_with_another_meaning_are_refused() {
        let check = |more: &str, expected: &str| {
            let error = parse(more).unwrap_err();
            assert!(error.contains(expected), "{error}");
        };
        parse(r#", "use_dora": false, "layer_replication": null, "target_parameters": [], "lora_dropout": 0.1"#)
            .unwrap();
        parse(r#", "init_lora_weights": "gaussian""#).unwrap();
        check(r#", "use_dora": true"#, "`use_dora` is set");
        check(r#", "target_parameters": ["experts"]"#, "`target_parameters` is set");
        check(r#", "of_later_versions": 1"#, "`of_later_versions` is set");
        check(r#", "init_lora_weights": "pissa""#, "pissa");
        check(r#", "rank_pattern": []"#, "a map of patterns");
        assert!(AdapterConfig::parse(br#"{"peft_type": "IA3", "r": 1, "lora_alpha": 1}"#).unwrap_err().contains("IA3"));
        assert!(AdapterConfig::parse(br#"{"peft_type": "LORA", "r": 0, "lora_alpha": 1}"#).is_err());
        assert!(AdapterConfig::parse(b"[]").is_err());
    }

    /// What `peft.utils.other.get_pattern_key` finds.
    #[test]
    fn the_first_pattern_decides() {
        let config =
            parse(r#", "alpha_pattern": {"lin": 8, "b.lin": 10}, "rank_pattern": {"^lin": 2, "q.proj$": 3}"#).unwrap();
        let check = |module: &str, expected| assert_eq!(config.scaling(module).unwrap(), expected, "{module}");
        check("lin", (8.0 / 2.0, 2));
        check("b.lin", (8.0 / 4.0, 4));
        check("blin", (6.0 / 4.0, 4));
        check("a.q_proj", (6.0 / 3.0, 3));
        check("a.q_proj.b", (6.0 / 4.0, 4));
        let config = parse(r#", "rank_pattern": {"layers.[01].(k|v)_proj": 2}"#).unwrap();
        let check = |module: &str, rank| assert_eq!(config.scaling(module).unwrap().1, rank, "{module}");
        check("model.layers.1.k_proj", 2);
        check("model.layers.2.k_proj", 4);
        check("model.layers.1.q_proj", 4);
        let regular = parse(r#", "rank_pattern": {"(?<!x)lin": 2}"#).unwrap();
        assert!(regular.scaling("lin").unwrap_err().contains("regular expression"));
        let rslora = parse(r#", "use_rslora": true"#).unwrap();
        assert_eq!(rslora.scaling("lin").unwrap(), (3.0, 4));
    }
}
