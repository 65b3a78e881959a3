//! The settings of a low-rank adapter, as PEFT writes them to `adapter_config.json` (spec/weights.md §9). Pure.

use std::collections::HashSet;
use std::fmt;
use std::marker::PhantomData;

use regex::{Regex, RegexBuilder};
use serde::Deserialize;
use serde::de::{Error, MapAccess, Visitor};
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

/// The most bytes of all compiled patterns of a kind. Each gets the same part of it, but at most [`MAX_PATTERN`] bytes.
const MAX_PATTERNS: usize = 64 << 20;
const MAX_PATTERN: usize = 1 << 20;

/// What an adapter does to the weights of a model, apart from its tensors.
#[derive(Debug)]
pub(crate) struct AdapterConfig {
    r: u64,
    lora_alpha: f64,
    use_rslora: bool,
    /// Whether the weights of layers are stored as inputs × outputs.
    pub(crate) fan_in_fan_out: bool,
    rank_pattern: Patterns<u64>,
    alpha_pattern: Patterns<f64>,
}

/// The settings as the file has them.
#[derive(Debug, Deserialize)]
struct RawConfig {
    peft_type: String,
    r: u64,
    lora_alpha: f64,
    #[serde(default)]
    use_rslora: bool,
    #[serde(default)]
    fan_in_fan_out: bool,
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
                let (mut pairs, mut known) = (Vec::new(), HashSet::new());
                while let Some((pattern, value)) = map.next_entry::<String, T>()? {
                    // Python keeps the place of the first and the value of the last.
                    if !known.insert(pattern.clone()) {
                        return Err(A::Error::custom("a pattern is there twice"));
                    }
                    pairs.push((pattern, value));
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
        let config: RawConfig = serde_json::from_slice(text).map_err(|error| error.to_string())?;
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
        if let Some((name, _)) = config.others.iter().find(has_effect) {
            return Err(format!("`{}` is set, which is not merged", name.escape_debug()));
        }
        Ok(Self {
            r: config.r,
            lora_alpha: config.lora_alpha,
            use_rslora: config.use_rslora,
            fan_in_fan_out: config.fan_in_fan_out,
            rank_pattern: Patterns::compile(config.rank_pattern)?,
            alpha_pattern: Patterns::compile(config.alpha_pattern)?,
        })
    }

    /// The factor of the product that is added to the weights of a module, and its expected rank.
    ///
    /// # Errors
    /// `rank_pattern` says that the rank is 0.
    pub(crate) fn scaling(&self, module: &str) -> Result<(f64, u64), String> {
        let rank = self.rank_pattern.find(module).unwrap_or(self.r);
        let alpha = self.alpha_pattern.find(module).unwrap_or(self.lora_alpha);
        if rank == 0 {
            return Err(format!("the rank of `{}` is 0, as `rank_pattern` says", module.escape_debug()));
        }
        let divisor = if self.use_rslora { (rank as f64).sqrt() } else { rank as f64 };
        Ok((alpha / divisor, rank))
    }
}

/// Patterns for the names of modules, each with a value. The first one that matches a name decides. A pattern is a regular expression for the whole
/// name, or for what follows a `.` in it.
#[derive(Debug)]
struct Patterns<T>(Vec<(Regex, T)>);

impl<T: Copy> Patterns<T> {
    fn compile(pairs: Option<Pairs<T>>) -> Result<Self, String> {
        /// The characters of a pattern in a message.
        const SHOWN: usize = 200;
        let pairs = pairs.map(|pairs| pairs.0).unwrap_or_default();
        let limit = (MAX_PATTERNS / pairs.len().max(1)).min(MAX_PATTERN);
        let build = |expression: &str| {
            RegexBuilder::new(expression).size_limit(limit).dfa_size_limit(limit).build().map_err(|error| match error {
                regex::Error::CompiledTooBig(limit) => format!("needs more than {limit} bytes"),
                _ => "is no regular expression that is known".to_owned(),
            })
        };
        let compile = |(pattern, value): (String, T)| {
            // A pattern with more parentheses closed than opened would be valid inside of others, and have another meaning.
            let expression = build(&pattern).and_then(|_| build(&format!("^(?:.*\\.)?(?:{pattern})$")));
            expression.map(|expression| (expression, value)).map_err(|problem| {
                let shown: String = pattern.chars().take(SHOWN).flat_map(char::escape_debug).collect();
                format!("the pattern `{shown}` {problem}")
            })
        };
        pairs.into_iter().map(compile).collect::<Result<_, _>>().map(Self)
    }

    fn find(&self, module: &str) -> Option<T> {
        self.0.iter().find(|(expression, _)| expression.is_match(module)).map(|(_, value)| *value)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use proptest::prelude::*;

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
        check(r#", "rank_pattern": {"a": 1, "b": 2, "a": 3}"#, "a pattern is there twice");
        check(r#", "rank_pattern": {"(?<!x)lin": 2}"#, "the pattern `(?<!x)lin` is no regular expression");
        check(r#", "alpha_pattern": {"lin": 1, "a)|(b": 2}"#, "the pattern `a)|(b` is no regular expression");
        check(r#", "alpha_pattern": {"\\w{1000}": 1}"#, "the pattern `\\\\w{1000}` needs more than 1048576 bytes");
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
        let config = parse(r#", "rank_pattern": {"lin": 0}"#).unwrap();
        assert_eq!(config.scaling("a.lin").unwrap_err(), "the rank of `a.lin` is 0, as `rank_pattern` says");
        assert_eq!(config.scaling("other").unwrap().1, 4);
        let rslora = parse(r#", "use_rslora": true"#).unwrap();
        assert_eq!(rslora.scaling("lin").unwrap(), (3.0, 4));
    }
    const FRAGMENTS: [&str; 22] = [
        "{",
        "}",
        "[",
        "]",
        ":",
        ",",
        "null",
        "true",
        "0",
        "-1",
        "1e999",
        "3",
        "\"LORA\"",
        "\"peft_type\"",
        "\"r\"",
        "\"lora_alpha\"",
        "\"rank_pattern\"",
        "\"alpha_pattern\"",
        "\"a.*(\"",
        "\"a|b\"",
        "\"use_dora\"",
        "\u{e9}",
    ];
    const VALUES: [&str; 9] =
        ["null", "0", "1", "-1.5", "1e308", "\"a\"", "{\"a|b\": 2}", "{\"[a-b]+\": 0, \"a\": 3}", "{\"(\": 1}"];
    const NAMES: [&str; 6] =
        ["use_rslora", "rank_pattern", "alpha_pattern", "init_lora_weights", "bias", "fan_in_fan_out"];

    proptest! {
        /// A text is refused, or the rank of a module is at least 1, and what its product is multiplied by is a number.
        #[test]
        fn any_text_is_refused_or_has_a_scaling(
            fragments in prop::collection::vec(prop::sample::select(FRAGMENTS.to_vec()), 0..24),
            settings in prop::collection::vec((prop::sample::select(NAMES.to_vec()), prop::sample::select(VALUES.to_vec())), 0..4),
            module in "[ab.\n]{0,8}",
        ) {
            let more: String = settings.into_iter().map(|(name, value)| format!(", \"{name}\": {value}")).collect();
            for config in [AdapterConfig::parse(fragments.concat().as_bytes()), parse(&more)].into_iter().flatten() {
                if let Ok((factor, rank)) = config.scaling(&module) {
                    prop_assert!(rank > 0 && factor.is_finite(), "{} {} {}", module, factor, rank);
                }
            }
        }
    }
}
