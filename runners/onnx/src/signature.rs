//! A model's signature: the inputs and outputs that its file declares, in the terms of `carton.toml`. Pure.

use std::collections::BTreeMap;

use carton_runner_interface::runner::{DeclaredTensor, RunnerError};
use carton_runner_interface::signature::{Elements, ModelValue, input_mismatches, output_mismatches};
use carton_tensor::{DataType, Dimension, SymbolicShape};

use crate::model_file::{GraphValue, ModelFile, ValueKind};

/// Returns the inputs and outputs of a model as Carton declares them. Outputs that tensors cannot hold are left out.
///
/// # Errors
/// Says which input or output comes first of those whose type the file does not state, or whose names only a call tells.
pub(crate) fn of_file(file: &ModelFile) -> Result<(Vec<DeclaredTensor>, Vec<DeclaredTensor>), String> {
    let specs = |what: &str, values: &[GraphValue]| {
        let carried = values.iter().filter(|value| problem(what, value).is_none());
        carried
            .map(|value| match declared(&value.kind) {
                Some((dtype, shape)) => {
                    Ok(DeclaredTensor { name: value.name.clone(), dtype, shape, internal_name: None })
                }
                None if matches!(value.kind, ValueKind::Map { .. }) => {
                    Err(format!("the model does not say what keys {what} `{}` has, which is a map", value.name))
                }
                None => Err(format!("the model does not say what {what} `{}` is", value.name)),
            })
            .collect::<Result<Vec<_>, _>>()
    };
    Ok((specs("input", &file.inputs)?, specs("output", &file.outputs)?))
}

/// The dtype and the shapes of the tensors for a value; `None` if the file does not state them, or the value has several tensors.
fn declared(kind: &ValueKind) -> Option<(DataType, SymbolicShape)> {
    Some(match kind {
        ValueKind::Tensor { element, shape } => (element.carton()?, shape.clone()),
        ValueKind::Sequence { element, shape } => (element.carton()?, list_shape(shape)),
        ValueKind::Scores => (DataType::Float32, scores_shape()),
        ValueKind::Map { .. } | ValueKind::Other(_) | ValueKind::Undeclared => return None,
    })
}

/// The shape of a list of tensors of this shape. A symbol would bind one size for all tensors of the list, which they need not have.
fn list_shape(shape: &SymbolicShape) -> SymbolicShape {
    let SymbolicShape::Dimensions(dimensions) = shape else { return SymbolicShape::Any };
    let sizes = dimensions.iter().map(|dimension| match dimension {
        Dimension::Symbol(_) => Dimension::Any,
        other => other.clone(),
    });
    SymbolicShape::Dimensions(std::iter::once(Dimension::Any).chain(sizes).collect())
}

/// Returns the names of the optional ones among inputs or outputs.
pub(crate) fn optional(values: &[GraphValue]) -> Vec<String> {
    values.iter().filter(|value| value.is_optional).map(|value| value.name.clone()).collect()
}

/// Returns the key that a name inside the model has for a map: `a` of `scores.a` (spec/structured-values.md).
pub(crate) fn key_of<'name>(map: &GraphValue, name: &'name str) -> Option<&'name str> {
    match map.kind {
        ValueKind::Map { .. } => name.strip_prefix(map.name.as_str())?.strip_prefix('.'),
        _ => None,
    }
}

/// Checks that tensors can hold every input of the model, and at least one of its outputs.
///
/// # Errors
/// The names and types of those that they cannot hold.
pub(crate) fn check_carried(file: &ModelFile) -> Result<(), RunnerError> {
    let problems = |what: &str, values: &[GraphValue]| -> Vec<String> {
        let problems = values.iter().filter_map(|value| Some((&value.name, problem(what, value)?)));
        problems.map(|(name, problem)| format!("{what} `{name}` {problem}")).collect()
    };
    let inputs = problems("input", &file.inputs);
    if !inputs.is_empty() {
        return Err(advised(format!("the model cannot be called: {}", listed(&inputs)), &file.inputs));
    }
    let outputs = problems("output", &file.outputs);
    if outputs.len() == file.outputs.len() {
        return Err(advised(format!("the model returns nothing: {}", listed(&outputs)), &file.outputs));
    }
    Ok(())
}

/// The error of a model that is refused because of these inputs or outputs.
fn advised(message: String, values: &[GraphValue]) -> RunnerError {
    let is_narrow = values.iter().any(|value| match &value.kind {
        ValueKind::Tensor { element, .. } | ValueKind::Sequence { element, .. } => element.is_narrow(),
        _ => false,
    });
    let error = RunnerError::new(message);
    match is_narrow {
        true => error
            .with_hint("let the model take and return a type of whole bytes, such as int8, and cast inside (`Cast`)"),
        false => error,
    }
}

/// Returns the outputs that are left out because tensors cannot hold them, one sentence each.
pub(crate) fn left_out(file: &ModelFile) -> impl Iterator<Item = String> {
    let outputs = file.outputs.iter();
    outputs.filter_map(|value| Some(format!("output `{}` is left out: it {}", value.name, problem("output", value)?)))
}

/// How many inputs or outputs one message lists.
const MAX_LISTED: usize = 16;

fn listed(problems: &[String]) -> String {
    let mut text = problems.iter().take(MAX_LISTED).cloned().collect::<Vec<_>>().join("; ");
    if problems.len() > MAX_LISTED {
        text.push_str(&format!("; and {} more", problems.len() - MAX_LISTED));
    }
    text
}

/// Returns the contradictions between declared inputs and outputs and the model, as one sentence each.
pub(crate) fn mismatches(
    file: &ModelFile,
    inputs: Option<&[DeclaredTensor]>,
    outputs: Option<&[DeclaredTensor]>,
) -> Vec<String> {
    let values = |declared: Option<&[DeclaredTensor]>, values: &[GraphValue]| -> Vec<ModelValue> {
        let declared = declared.unwrap_or_default();
        values.iter().flat_map(|value| model_values(value, declared)).collect()
    };
    let mut mismatches = input_mismatches(inputs, &values(inputs, &file.inputs));
    mismatches.extend(impossible("input", inputs, &file.inputs));
    mismatches.extend(output_mismatches(outputs, &values(outputs, &file.outputs)));
    mismatches.extend(impossible("output", outputs, &file.outputs));
    mismatches
}

/// What a value is to the declared tensors: one value, or of a map each key that is declared.
fn model_values(value: &GraphValue, declared: &[DeclaredTensor]) -> Vec<ModelValue> {
    if let ValueKind::Map { element, .. } = &value.kind {
        let elements = element.carton().map_or(Elements::Any, Elements::Only);
        let names = declared.iter().map(DeclaredTensor::model_name).filter(|name| key_of(value, name).is_some());
        let shape = || SymbolicShape::Dimensions(Vec::new());
        return names
            .map(|name| ModelValue { name: name.to_owned(), elements, shape: shape(), is_required: false })
            .collect();
    }
    let (elements, shape) = match self::declared(&value.kind) {
        // ONNX Runtime's strings are any bytes, and the declaration decides what they are to callers.
        Some((DataType::String, shape)) if is_bytes(value, declared) => (Elements::Only(DataType::Bytes), shape),
        Some((dtype, shape)) => (Elements::Only(dtype), shape),
        None => (Elements::Any, SymbolicShape::Any),
    };
    // The inputs of a `ModelFile` do not include those that have a value in the file.
    vec![ModelValue { name: value.name.clone(), elements, shape, is_required: !value.is_optional }]
}

/// Whether a value is declared as bytes.
fn is_bytes(value: &GraphValue, declared: &[DeclaredTensor]) -> bool {
    declared.iter().any(|spec| spec.model_name() == value.name && spec.dtype == DataType::Bytes)
}

/// Returns a sentence for each declared input or output that no tensor can hold.
fn impossible(what: &str, declared: Option<&[DeclaredTensor]>, values: &[GraphValue]) -> Vec<String> {
    let problems: BTreeMap<&str, String> =
        values.iter().filter_map(|value| Some((value.name.as_str(), problem(what, value)?))).collect();
    let declared = declared.unwrap_or_default().iter();
    declared
        .filter_map(|spec| Some(format!("{what} `{}`: the model's {}", spec.name, problems.get(spec.model_name())?)))
        .collect()
}

/// The shape of a table with a row for each sample and a column for each label.
fn scores_shape() -> SymbolicShape {
    SymbolicShape::Dimensions(vec![Dimension::Any, Dimension::Any])
}

/// Returns the reason why a value cannot be passed as an input (`what` is `input`) or an output.
pub(crate) fn problem(what: &str, value: &GraphValue) -> Option<String> {
    match &value.kind {
        ValueKind::Scores if what == "input" => {
            Some("is a sequence of maps, which no operator of ONNX takes".to_owned())
        }
        ValueKind::Tensor { element, .. } => element.problem(),
        ValueKind::Sequence { element, .. } => {
            element.problem().map(|problem| problem.replacen("is ", "is a sequence of tensors of ", 1))
        }
        ValueKind::Other(kind) => Some(format!("is {kind}, which Carton's tensors do not have")),
        _ => None,
    }
}
