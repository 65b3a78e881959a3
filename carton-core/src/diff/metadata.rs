//! Compares what two carton.toml say. Pure.

use std::collections::BTreeMap;

use carton_format::metadata::{Metadata, TensorSpec};
use serde_json::Value;

use super::report::{Change, FieldChange, SpecChange, changed_fields};

/// The fields that differ, but for inputs, outputs, self-tests and examples; and unknown keys of both files.
pub(super) fn compare((a, text_a): (&Metadata, &str), (b, text_b): (&Metadata, &str)) -> Vec<FieldChange> {
    let mut changes: Vec<FieldChange> = changed_fields(&fields(a), &fields(b)).collect();
    for (list, a, b) in [("input", a.inputs(), b.inputs()), ("output", a.outputs(), b.outputs())] {
        changes.extend(order(list, a, b));
    }
    let unknown =
        |text| Metadata::unknown_values(text).into_iter().map(|(key, value)| (key, Value::String(value))).collect();
    changes.extend(changed_fields(&unknown(text_a), &unknown(text_b)));
    changes
}

fn fields(metadata: &Metadata) -> BTreeMap<String, Value> {
    let mut fields = BTreeMap::new();
    let mut set = |field: &str, value: Option<Value>| {
        if let Some(value) = value {
            fields.insert(field.to_owned(), value);
        }
    };
    let text = |text: Option<&str>| text.map(|text| Value::String(text.to_owned()));
    let list = |list: &[String]| (!list.is_empty()).then(|| Value::from(list.to_vec()));
    set("model_name", text(metadata.model_name()));
    set("short_description", text(metadata.short_description()));
    set("model_description", text(metadata.model_description()));
    set("license", text(metadata.license()));
    set("repository", text(metadata.repository()));
    set("homepage", text(metadata.homepage()));
    set("required_platforms", list(metadata.required_platforms()));
    set("sandbox.network", metadata.sandbox().network.then_some(Value::Bool(true)));
    set("sandbox.read", list(&metadata.sandbox().read));
    if let Ok(Value::Object(card)) = serde_json::to_value(metadata.card()) {
        for (key, value) in card {
            set(&format!("card.{key}"), Some(value));
        }
    }
    let runner = metadata.runner();
    set("runner.runner_name", text(Some(&runner.runner_name)));
    set("runner.required_framework_version", text(Some(&runner.required_framework_version.to_string())));
    set("runner.runner_compat_version", Some(Value::from(runner.runner_compat_version)));
    for (key, value) in &runner.opts {
        set(&format!("runner.opts.{key}"), Some(value.clone()));
    }
    for (name, value) in &runner.env {
        set(&format!("runner.env.{name}"), text(Some(value)));
    }
    fields
}

/// The names of inputs or outputs that both cartons have, if their order differs: positional arguments follow it.
fn order(list: &str, a: &[TensorSpec], b: &[TensorSpec]) -> Option<FieldChange> {
    let names = |specs: &[TensorSpec], others: &[TensorSpec]| -> Vec<String> {
        let in_both = |spec: &&TensorSpec| others.iter().any(|other| other.name == spec.name);
        specs.iter().filter(in_both).map(|spec| spec.name.clone()).collect()
    };
    let (in_a, in_b) = (names(a, b), names(b, a));
    let is_permutation = in_a.len() == in_b.len();
    (in_a != in_b && is_permutation).then(|| FieldChange {
        field: list.to_owned(),
        a: Some(Value::from(in_a)),
        b: Some(Value::from(in_b)),
    })
}

/// The inputs or outputs that are declared otherwise. `None` is a list that is not declared.
pub(super) fn compare_specs(a: &[TensorSpec], b: &[TensorSpec]) -> Vec<SpecChange> {
    let mut changes = Vec::new();
    let (a, b) = (numbered(a), numbered(b));
    for (key, spec) in &a {
        let other = b.iter().find(|(other, _)| other == key).map(|(_, spec)| *spec);
        let fields: Vec<FieldChange> =
            changed_fields(&properties(spec), &other.map(properties).unwrap_or_default()).collect();
        let change = if other.is_some() { Change::Changed } else { Change::Removed };
        if !fields.is_empty() {
            changes.push(SpecChange { name: spec.name.clone(), change, fields, default: None });
        }
    }
    for (key, spec) in &b {
        if !a.iter().any(|(other, _)| other == key) {
            let fields = changed_fields(&BTreeMap::new(), &properties(spec)).collect();
            changes.push(SpecChange { name: spec.name.clone(), change: Change::Added, fields, default: None });
        }
    }
    changes
}

/// Each input or output with its name, and the number of earlier ones of this name: other writers give several the same.
fn numbered(specs: &[TensorSpec]) -> Vec<((&str, usize), &TensorSpec)> {
    let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
    let number =
        |spec: &'_ TensorSpec, seen: &mut BTreeMap<&str, usize>| seen.get(spec.name.as_str()).copied().unwrap_or(0);
    let mut all = Vec::new();
    for spec in specs {
        let earlier = number(spec, &mut seen);
        seen.insert(&spec.name, earlier + 1);
        all.push(((spec.name.as_str(), earlier), spec));
    }
    all
}

fn properties(spec: &TensorSpec) -> BTreeMap<String, Value> {
    let text = |text: &Option<String>| text.clone().map(Value::String);
    let properties = [
        ("dtype", Some(Value::from(spec.dtype.name()))),
        ("shape", serde_json::to_value(&spec.shape).ok()),
        ("optional", spec.is_optional().then_some(Value::Bool(true))),
        ("default", spec.default.as_ref().map(|default| Value::String(default.to_string()))),
        ("description", text(&spec.description)),
        ("internal_name", text(&spec.internal_name)),
    ];
    properties.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
}
