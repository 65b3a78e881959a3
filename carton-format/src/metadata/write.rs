//! Writes carton.toml: in the order of the specification, one line per value, and only the fields that are set.

use std::collections::BTreeMap;
use std::fmt::Display;

use carton_tensor::{Dimension, SymbolicShape};
use toml::Value;

use super::left_out::Calls;
use super::{Metadata, Reference, SPEC_VERSION, TensorSpec};
use crate::elements::carrier_shape;
use crate::model_card;

impl Metadata {
    /// The text of a carton.toml that reads back as this metadata: in a fixed order, and only with the fields that are set.
    #[must_use]
    pub fn to_toml(&self) -> String {
        to_toml(self)
    }
}

/// The text of `metadata`.
fn to_toml(metadata: &Metadata) -> String {
    let mut text = Text::default();
    text.line("spec_version", SPEC_VERSION);
    text.optional("model_name", metadata.model_name());
    text.optional("short_description", metadata.short_description());
    text.optional("model_description", metadata.model_description());
    text.optional("license", metadata.license());
    text.optional("repository", metadata.repository());
    text.optional("homepage", metadata.homepage());
    if !metadata.required_platforms().is_empty() {
        let platforms = metadata.required_platforms().iter().cloned().map(Value::String).collect();
        text.line("required_platforms", Value::Array(platforms));
    }
    if let Some(signature) = metadata.signature() {
        // Empty lists of tables must be written before the first table begins.
        for (list, specs) in [("input", &signature.inputs), ("output", &signature.outputs)] {
            if specs.as_ref().is_some_and(Vec::is_empty) {
                text.line(list, "[]");
            }
        }
        let mut calls = Calls::of(metadata.self_tests(), metadata.examples());
        for spec in signature.inputs.iter().flatten() {
            text.header("[[input]]");
            tensor_spec(&mut text, spec);
            // Written only if the default, the self-tests and the examples imply something else.
            let is_implied = spec.default.is_some() || calls.without(&spec.name).is_some();
            if let Some(optional) = spec.optional.filter(|optional| *optional != is_implied) {
                text.line("optional", optional);
            }
            text.optional("default", spec.default.as_ref().map(ToString::to_string).as_deref());
        }
        for spec in signature.outputs.iter().flatten() {
            text.header("[[output]]");
            tensor_spec(&mut text, spec);
            if spec.is_optional() {
                text.line("optional", true);
            }
        }
    }
    for test in metadata.self_tests() {
        text.header("[[self_test]]");
        text.optional("name", test.name.as_deref());
        text.optional("description", test.description.as_deref());
        let reference = |name: &String| Reference::TensorData(name.clone()).to_string();
        text.line("inputs", references(&test.inputs, reference));
        if let Some(expected_out) = &test.expected_out {
            text.line("expected_out", references(expected_out, reference));
        }
    }
    for example in metadata.examples() {
        text.header("[[example]]");
        text.optional("name", example.name.as_deref());
        text.optional("description", example.description.as_deref());
        text.line("inputs", references(&example.inputs, Reference::to_string));
        text.line("sample_out", references(&example.sample_out, Reference::to_string));
    }
    let runner = metadata.runner();
    text.header("[runner]");
    text.optional("runner_name", Some(&runner.runner_name));
    text.optional("required_framework_version", Some(&runner.required_framework_version.to_string()));
    text.line("runner_compat_version", runner.runner_compat_version);
    if !metadata.opts_toml.is_empty() {
        text.header("[runner.opts]");
        for (key, value) in &metadata.opts_toml {
            text.line(&quoted_key(key), value);
        }
    }
    if !runner.env.is_empty() {
        text.header("[runner.env]");
        for (name, value) in &runner.env {
            text.line(name, Value::String(value.clone()));
        }
    }
    let sandbox = metadata.sandbox();
    if !sandbox.is_empty() {
        text.header("[sandbox]");
        if sandbox.network {
            text.line("network", true);
        }
        if !sandbox.read.is_empty() {
            text.line("read", Value::Array(sandbox.read.iter().cloned().map(Value::String).collect()));
        }
    }
    if !metadata.card_toml.is_empty() {
        text.header("[card]");
        for key in model_card::KEYS {
            if let Some(value) = metadata.card_toml.get(*key) {
                text.line(key, value);
            }
        }
    }
    text.0
}

fn tensor_spec(text: &mut Text, spec: &TensorSpec) {
    text.optional("name", Some(&spec.name));
    text.optional("dtype", Some(spec.dtype.carrier().name()));
    text.optional("element", spec.dtype.element());
    text.line("shape", shape(&carrier_shape(spec.dtype, &spec.shape)));
    text.optional("description", spec.description.as_deref());
    text.optional("internal_name", spec.internal_name.as_deref());
}

fn shape(shape: &SymbolicShape) -> Value {
    match shape {
        SymbolicShape::Any => Value::String("*".to_owned()),
        SymbolicShape::Symbol(name) => Value::String(name.clone()),
        SymbolicShape::Dimensions(dimensions) => Value::Array(dimensions.iter().map(dimension).collect()),
    }
}

fn dimension(dimension: &Dimension) -> Value {
    match dimension {
        Dimension::Any => Value::String("*".to_owned()),
        Dimension::Symbol(name) => Value::String(name.clone()),
        // Validation has refused sizes that do not fit.
        Dimension::Fixed(size) => Value::Integer(i64::try_from(*size).unwrap_or(i64::MAX)),
    }
}

fn references<R>(references: &BTreeMap<String, R>, text: impl Fn(&R) -> String) -> Value {
    Value::Table(references.iter().map(|(name, reference)| (name.clone(), Value::String(text(reference)))).collect())
}

/// A TOML key: bare if possible, otherwise quoted.
fn quoted_key(key: &str) -> String {
    let is_bare = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    if !key.is_empty() && key.bytes().all(is_bare) {
        return key.to_owned();
    }
    let mut quoted = String::from("\"");
    for character in key.chars() {
        match character {
            '"' | '\\' => quoted.extend(['\\', character]),
            // The escape that every version of TOML supports.
            _ if character.is_control() => quoted.push_str(&format!("\\u{:04X}", u32::from(character))),
            _ => quoted.push(character),
        }
    }
    quoted.push('"');
    quoted
}

#[derive(Default)]
struct Text(String);

impl Text {
    fn line(&mut self, key: &str, value: impl Display) {
        self.0.push_str(&format!("{key} = {value}\n"));
    }

    fn optional(&mut self, key: &str, value: Option<&str>) {
        if let Some(value) = value {
            self.line(key, Value::String(value.to_owned()));
        }
    }

    fn header(&mut self, header: &str) {
        self.0.push_str(&format!("\n{header}\n"));
    }
}
