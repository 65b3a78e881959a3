//! A model's signature: the inputs and outputs that its file declares, in the terms of `carton.toml`, and the names that
//! callers use for them.

use std::collections::BTreeMap;

use carton_runner_interface::runner::{DeclaredTensor, RunnerError, Tensors};
use carton_runner_interface::signature::{Elements, ModelValue, input_mismatches, output_mismatches};
use carton_tensor::{DataType, Dimension, SymbolicShape, Tensor};

use crate::model_file::{GraphValue, ModelFile, ValueKind};

/// Returns the inputs and outputs of a model as Carton declares them. Outputs that tensors cannot hold are left out.
///
/// # Errors
/// The name of the first input or output whose type the file does not state.
pub(crate) fn of_file(file: &ModelFile) -> Result<(Vec<DeclaredTensor>, Vec<DeclaredTensor>), String> {
    let specs = |what: &str, values: &[GraphValue]| {
        let carried = values.iter().filter(|value| problem(what, value).is_none());
        carried
            .map(|value| spec(value).ok_or_else(|| format!("the model does not say what {what} `{}` is", value.name)))
            .collect::<Result<Vec<_>, _>>()
    };
    Ok((specs("input", &file.inputs)?, specs("output", &file.outputs)?))
}

fn spec(value: &GraphValue) -> Option<DeclaredTensor> {
    let (dtype, shape) = match &value.kind {
        ValueKind::Tensor { element, shape } => (element.carton()?, shape.clone()),
        ValueKind::Scores => (DataType::Float32, scores_shape()),
        ValueKind::Other(_) | ValueKind::Undeclared => return None,
    };
    Some(DeclaredTensor { name: value.name.clone(), dtype, shape, internal_name: None })
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
        return Err(RunnerError::new(format!("the model cannot be called: {}", listed(&inputs))));
    }
    let outputs = problems("output", &file.outputs);
    if outputs.len() == file.outputs.len() {
        return Err(RunnerError::new(format!("the model returns nothing: {}", listed(&outputs))));
    }
    Ok(())
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
    let values = |values: &[GraphValue]| values.iter().map(model_value).collect::<Vec<_>>();
    let mut mismatches = input_mismatches(inputs, &values(&file.inputs));
    mismatches.extend(impossible("input", inputs, &file.inputs));
    mismatches.extend(output_mismatches(outputs, &values(&file.outputs)));
    mismatches.extend(impossible("output", outputs, &file.outputs));
    mismatches
}

fn model_value(value: &GraphValue) -> ModelValue {
    let (elements, shape) = match &value.kind {
        ValueKind::Tensor { element, shape } => (element.carton().map_or(Elements::Any, Elements::Only), shape.clone()),
        ValueKind::Scores => (Elements::Only(DataType::Float32), scores_shape()),
        ValueKind::Other(_) | ValueKind::Undeclared => (Elements::Any, SymbolicShape::Any),
    };
    // The inputs of a `ModelFile` do not include those that have a value in the file.
    ModelValue { name: value.name.clone(), elements, shape, is_required: true }
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

/// The inputs and outputs of a loaded model with the names that callers use.
#[derive(Debug)]
pub(crate) struct Binding {
    /// The caller's name, and the value that the model file declares.
    inputs: Vec<(String, GraphValue)>,
    outputs: Vec<(String, GraphValue)>,
}

impl Binding {
    /// Binds the names of a carton (`inputs` and `outputs`, empty where it declares none) to those of the model.
    ///
    /// Inputs that the carton does not declare keep the model's names. If the carton declares no outputs, all outputs keep the
    /// model's names; if it declares some, only those are computed.
    ///
    /// # Errors
    /// The model does not have a declared name, or tensors cannot hold an input or a declared output.
    pub(crate) fn new(
        file: &ModelFile,
        inputs: &[DeclaredTensor],
        outputs: &[DeclaredTensor],
        warn: &mut dyn FnMut(String),
    ) -> Result<Self, RunnerError> {
        check_carried(file)?;
        let declared_inputs = callers_names("input", inputs, &file.inputs)?;
        let declared_outputs = callers_names("output", outputs, &file.outputs)?;
        let mut bound_inputs = Vec::new();
        for value in &file.inputs {
            let name = declared_inputs.get(value.name.as_str()).copied().unwrap_or(&value.name);
            bound_inputs.push((name.to_owned(), value.clone()));
        }
        let mut bound_outputs = Vec::new();
        for value in &file.outputs {
            let declared = declared_outputs.get(value.name.as_str()).copied();
            match (declared, problem("output", value)) {
                (None, _) if !outputs.is_empty() => {}
                (None, Some(problem)) => warn(format!("output `{}` is left out: it {problem}", value.name)),
                (Some(_), Some(problem)) => {
                    return Err(RunnerError::new(format!("output `{}` {problem}", value.name)));
                }
                (declared, None) => {
                    bound_outputs.push((declared.unwrap_or(&value.name).to_owned(), value.clone()));
                }
            }
        }
        Ok(Self { inputs: bound_inputs, outputs: bound_outputs })
    }

    /// Returns the inputs of a call in the model's order, after checking their names and dtypes.
    ///
    /// # Errors
    /// An input is unknown or missing, or has another dtype than the model takes.
    pub(crate) fn inputs<'a>(&'a self, tensors: &'a Tensors) -> Result<Vec<(&'a GraphValue, &'a Tensor)>, RunnerError> {
        if let Some(unknown) = tensors.keys().find(|name| !self.inputs.iter().any(|(known, _)| known == *name)) {
            return Err(RunnerError::new(format!("the model has no input `{unknown}`; {}", self.list_inputs())));
        }
        let mut bound = Vec::with_capacity(self.inputs.len());
        for (name, value) in &self.inputs {
            let tensor = tensors
                .get(name)
                .ok_or_else(|| RunnerError::new(format!("input `{name}` is missing; {}", self.list_inputs())))?;
            if let ValueKind::Tensor { element, .. } = &value.kind
                && let Some(expected) = element.carton()
            {
                let found = match tensor {
                    Tensor::Nested(_) => "nested".to_owned(),
                    tensor => tensor.dtype().map_or_else(|| "nothing".to_owned(), |dtype| dtype.to_string()),
                };
                if found != expected.name() {
                    let note = if element.to_string() == expected.name() {
                        String::new()
                    } else {
                        format!(" (for {element})")
                    };
                    return Err(RunnerError::new(format!("input `{name}`: expected {expected}{note}, found {found}")));
                }
            }
            bound.push((value, tensor));
        }
        Ok(bound)
    }

    /// The outputs to compute, as the model file declares them.
    pub(crate) fn outputs(&self) -> Vec<&GraphValue> {
        self.outputs.iter().map(|(_, value)| value).collect()
    }

    /// Returns the outputs of a call under the names that callers use.
    pub(crate) fn name_outputs(&self, tensors: Vec<Tensor>) -> Tensors {
        self.outputs.iter().map(|(name, _)| name.clone()).zip(tensors).collect()
    }

    fn list_inputs(&self) -> String {
        let names: Vec<String> = self.inputs.iter().map(|(name, _)| format!("`{name}`")).collect();
        match names.len() {
            0 => "it takes no inputs".to_owned(),
            _ => format!("it takes {}", names.join(", ")),
        }
    }
}

/// Returns the callers' names by the model's names.
fn callers_names<'a>(
    what: &str,
    specs: &'a [DeclaredTensor],
    values: &[GraphValue],
) -> Result<BTreeMap<&'a str, &'a str>, RunnerError> {
    let mut names = BTreeMap::new();
    for spec in specs {
        let inner = spec.model_name();
        if !values.iter().any(|value| value.name == inner) {
            let known: Vec<String> = values.iter().map(|value| format!("`{}`", value.name)).collect();
            return Err(RunnerError::new(format!(
                "the carton declares an {what} `{inner}` that the model does not have; its {what}s are {}",
                known.join(", ")
            )));
        }
        if names.insert(inner, spec.name.as_str()).is_some() {
            return Err(RunnerError::new(format!("the carton declares the {what} `{inner}` of the model twice")));
        }
    }
    Ok(names)
}

/// Returns the reason why a value cannot be passed as an input (`what` is `input`) or an output.
fn problem(what: &str, value: &GraphValue) -> Option<String> {
    match &value.kind {
        ValueKind::Scores if what == "input" => Some("is a sequence, which Carton's tensors do not have".to_owned()),
        ValueKind::Tensor { element, .. } if element.carton().is_none() => {
            Some(format!("is {element}, which Carton's tensors do not have"))
        }
        ValueKind::Other(kind) => Some(format!("is {kind}, which Carton's tensors do not have")),
        _ => None,
    }
}
