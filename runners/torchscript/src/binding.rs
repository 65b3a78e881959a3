//! Matches inputs with the arguments of forward, and the values that it returns with outputs. Pure.
//!
//! A forward that takes one dictionary with string keys gets all inputs in it; any other forward gets each input as an
//! argument. The schema of forward decides which.

use std::collections::BTreeMap;

use carton_runner_interface::runner::{DeclaredTensor, RunnerError, Tensors};
use carton_runner_interface::signature::{Elements, ModelValue, input_mismatches};
use carton_tensor::{DataType, Dimension, ElementKind, SymbolicShape, Tensor};

use crate::identity::LIBTORCH_VERSION;
use crate::libtorch::{Argument, Kind, Structure, is_supported};

/// The name of an output that neither the carton nor the model names.
const UNNAMED: &str = "output";

/// The inputs and outputs of a loaded model with the names that callers use.
#[derive(Debug)]
pub(crate) struct Binding {
    convention: Convention,
    /// What the elements of inputs are, where their dtypes do not say it, by the names that callers use.
    kinds: BTreeMap<String, ElementKind>,
    outputs: Vec<Declared>,
}

/// How forward takes its inputs.
#[derive(Debug)]
enum Convention {
    /// In one dictionary. `keys` maps callers' names to keys; an input without an entry has its own name as key.
    Dictionary { argument: Argument, keys: BTreeMap<String, String> },
    /// As arguments in order, each with the name that callers use.
    Positional(Vec<(String, Argument)>),
}

/// A declared output.
#[derive(Debug)]
struct Declared {
    name: String,
    /// The model's name for it.
    inner: String,
    rank: Option<usize>,
}

/// An input of a call, bound to an argument or a key.
#[derive(Debug)]
pub(crate) struct Bound<'a> {
    /// The caller's name.
    pub(crate) name: &'a str,
    /// The key, or the argument's name.
    pub(crate) inner: &'a str,
    /// The kind of value that the argument or the dictionary takes.
    pub(crate) kind: Kind,
    /// The type of the argument, for messages.
    pub(crate) type_name: &'a str,
    /// The tensor, or `None` for the argument's default.
    pub(crate) tensor: Option<&'a Tensor>,
    /// What its elements are, where its dtype does not say it.
    pub(crate) element: Option<ElementKind>,
}

impl Binding {
    /// Binds the names of a carton (`inputs` and `outputs`, empty where it declares none) to the arguments of forward.
    ///
    /// # Errors
    /// No input can be passed for an argument, or there are more or fewer declared inputs than arguments.
    pub(crate) fn new(
        arguments: &[Argument],
        inputs: &[DeclaredTensor],
        outputs: &[DeclaredTensor],
    ) -> Result<Self, RunnerError> {
        let convention = match arguments {
            [first, rest @ ..] if is_dictionary(first, rest) => {
                check_supported(first, first.element)?;
                let renamed = inputs.iter().filter_map(|spec| Some((spec.name.clone(), spec.internal_name.clone()?)));
                Convention::Dictionary { argument: first.clone(), keys: renamed.collect() }
            }
            _ => Convention::Positional(positional(arguments, inputs)?),
        };
        let outputs = outputs.iter().map(|spec| Declared {
            name: spec.name.clone(),
            inner: spec.model_name().to_owned(),
            rank: match &spec.shape {
                SymbolicShape::Dimensions(dimensions) => Some(dimensions.len()),
                _ => None,
            },
        });
        let kinds = inputs.iter().filter_map(|spec| Some((spec.name.clone(), spec.element?))).collect();
        Ok(Self { convention, kinds, outputs: outputs.collect() })
    }

    /// Whether forward takes its inputs in a dictionary.
    pub(crate) fn takes_dictionary(&self) -> bool {
        matches!(self.convention, Convention::Dictionary { .. })
    }

    /// Returns the inputs of a call in forward's order.
    ///
    /// # Errors
    /// An input is unknown or missing.
    pub(crate) fn inputs<'a>(&'a self, tensors: &'a Tensors) -> Result<Vec<Bound<'a>>, RunnerError> {
        match &self.convention {
            Convention::Dictionary { argument, keys } => {
                let bound: Vec<_> = tensors
                    .iter()
                    .map(|(name, tensor)| Bound {
                        name,
                        inner: keys.get(name).unwrap_or(name),
                        kind: argument.element,
                        type_name: &argument.type_name,
                        tensor: Some(tensor),
                        element: self.kinds.get(name).copied(),
                    })
                    .collect();
                if !keys.is_empty() {
                    check_keys(&bound)?;
                }
                Ok(bound)
            }
            Convention::Positional(arguments) => {
                let list = || match arguments.as_slice() {
                    [] => "it takes no inputs".to_owned(),
                    arguments => format!("it takes {}", quote(arguments.iter().map(|(name, _)| name.as_str()))),
                };
                if let Some(unknown) = tensors.keys().find(|name| !arguments.iter().any(|(known, _)| known == *name)) {
                    return Err(RunnerError::new(format!("the model has no input `{unknown}`; {}", list())));
                }
                let bound = arguments.iter().map(|(name, argument)| {
                    let tensor = tensors.get(name);
                    if tensor.is_none() && !argument.may_be_missing {
                        return Err(RunnerError::new(format!("input `{name}` is missing; {}", list())));
                    }
                    let Argument { name: inner, kind, type_name, .. } = argument;
                    let element = self.kinds.get(name).copied();
                    Ok(Bound { name, inner, kind: *kind, type_name, tensor, element })
                });
                bound.collect()
            }
        }
    }

    /// Whether the elements of a list of tensors, returned as the only value, are the outputs in order. Otherwise the list is one
    /// nested tensor.
    ///
    /// They are if the carton declares several outputs, or one output with as many dimensions as the only tensor in the list.
    pub(crate) fn takes_apart(&self, ranks: &[usize]) -> bool {
        match self.outputs.as_slice() {
            [] => false,
            [one] => matches!(ranks, [rank] if one.rank == Some(*rank)),
            _ => true,
        }
    }

    /// Returns the position and the caller's name of each output to return. `names` has the model's name for each returned value,
    /// which is empty where the model has none.
    ///
    /// # Errors
    /// The carton declares other outputs than the model returned.
    pub(crate) fn outputs(&self, structure: Structure, names: &[String]) -> Result<Vec<(usize, String)>, RunnerError> {
        let declared = &self.outputs;
        let has_all = || declared.iter().all(|output| names.contains(&output.inner));
        let by_name = match structure {
            Structure::Map => true,
            Structure::NamedTuple => declared.is_empty() || has_all(),
            Structure::One | Structure::Sequence => false,
        };
        if by_name && declared.is_empty() {
            return Ok(names.iter().cloned().enumerate().collect());
        }
        if by_name {
            return declared
                .iter()
                .map(|output| match names.iter().position(|name| *name == output.inner) {
                    Some(position) => Ok((position, output.name.clone())),
                    None => Err(RunnerError::new(format!(
                        "the model returned no output `{}`; it returned {}",
                        output.inner,
                        if names.is_empty() { "none".to_owned() } else { quote(names.iter().map(String::as_str)) }
                    ))),
                })
                .collect();
        }
        if declared.is_empty() {
            let name = |index| if structure == Structure::One { UNNAMED.into() } else { format!("{UNNAMED}_{index}") };
            return Ok((0..names.len()).map(|index| (index, name(index))).collect());
        }
        if declared.len() != names.len() {
            return Err(RunnerError::new(format!(
                "the carton declares {} outputs, but the model returned {}",
                declared.len(),
                names.len()
            )));
        }
        Ok(declared.iter().map(|output| output.name.clone()).enumerate().collect())
    }
}

/// Returns the contradictions between declared inputs and the arguments of forward, as one sentence each.
///
/// A dictionary takes any names. Unless all declared inputs are named after arguments, they are compared in order, as they are bound.
pub(crate) fn mismatches(arguments: &[Argument], inputs: Option<&[DeclaredTensor]>) -> Vec<String> {
    let declared = inputs.unwrap_or_default();
    let mut kinds: Vec<Option<Kind>> = declared
        .iter()
        .map(|spec| Some(arguments.iter().find(|argument| argument.name == spec.model_name())?.kind))
        .collect();
    let mut mismatches = match arguments {
        [first, rest @ ..] if is_dictionary(first, rest) => {
            kinds.fill(Some(first.element));
            let keys: BTreeMap<&str, ModelValue> = declared
                .iter()
                .map(|spec| (spec.model_name(), model_value(spec.model_name(), first.element, false)))
                .collect();
            input_mismatches(inputs, &keys.into_values().collect::<Vec<_>>())
        }
        _ => {
            let values: Vec<ModelValue> = arguments
                .iter()
                .map(|argument| model_value(&argument.name, argument.kind, !argument.may_be_missing))
                .collect();
            let is_in_place = |(index, spec): (usize, &DeclaredTensor)| {
                let name = spec.internal_name.as_ref();
                name.is_none_or(|name| arguments.get(index).is_some_and(|argument| argument.name == *name))
            };
            if is_by_name(arguments, declared) || !declared.iter().enumerate().all(is_in_place) {
                input_mismatches(inputs, &values)
            } else {
                kinds = (0..declared.len()).map(|index| Some(arguments.get(index)?.kind)).collect();
                let in_order: Vec<DeclaredTensor> = declared
                    .iter()
                    .zip(arguments)
                    .map(|(spec, argument)| DeclaredTensor {
                        internal_name: Some(argument.name.clone()),
                        ..spec.clone()
                    })
                    .collect();
                input_mismatches(inputs.map(|_| in_order.as_slice()), &values)
            }
        }
    };
    // Integers, floats and booleans are converted without libtorch.
    let takes_tensors = |kind: &Option<Kind>| matches!(kind, Some(Kind::Tensor | Kind::TensorList | Kind::Any));
    mismatches.extend(
        declared
            .iter()
            .zip(&kinds)
            .filter(|(spec, kind)| takes_tensors(kind) && spec.dtype != DataType::String && !is_supported(spec.dtype))
            .map(|(spec, _)| {
                format!("input `{}`: libtorch {LIBTORCH_VERSION} has no tensors of {}", spec.name, spec.dtype)
            }),
    );
    // The remaining contradictions are the errors of loading, such as more inputs than arguments.
    if mismatches.is_empty()
        && let Err(error) = Binding::new(arguments, declared, &[])
    {
        mismatches.push(error.message);
    }
    mismatches
}

/// Describes the tensors that an argument, or a key of a dictionary, of this kind takes.
fn model_value(name: &str, kind: Kind, is_required: bool) -> ModelValue {
    let shape = |rank| SymbolicShape::Dimensions(vec![Dimension::Any; rank]);
    let (elements, shape) = match kind {
        Kind::Tensor | Kind::TensorList => (Elements::Numbers, SymbolicShape::Any),
        Kind::String => (Elements::Only(DataType::String), shape(0)),
        Kind::StringList => (Elements::Only(DataType::String), shape(1)),
        Kind::Int | Kind::Float | Kind::Bool => (Elements::Numbers, shape(0)),
        Kind::Any | Kind::Dictionary | Kind::Other => (Elements::Any, SymbolicShape::Any),
    };
    ModelValue { name: name.to_owned(), elements, shape, is_required }
}

/// Whether forward takes all inputs in one dictionary.
fn is_dictionary(first: &Argument, rest: &[Argument]) -> bool {
    first.kind == Kind::Dictionary && rest.iter().all(|argument| argument.may_be_missing)
}

/// Whether all declared inputs are named after arguments.
fn is_by_name(arguments: &[Argument], inputs: &[DeclaredTensor]) -> bool {
    inputs.iter().all(|spec| arguments.iter().any(|argument| argument.name == spec.model_name()))
}

/// Returns the arguments of forward with the names that callers use. Without declared inputs these are the arguments' names.
/// Declared inputs are matched by name if all their names are names of arguments, otherwise in order.
fn positional(arguments: &[Argument], inputs: &[DeclaredTensor]) -> Result<Vec<(String, Argument)>, RunnerError> {
    let is_argument = |name: &str| arguments.iter().any(|argument| argument.name == name);
    let takes = || {
        let list: Vec<_> =
            arguments.iter().map(|argument| format!("{}: {}", argument.name, argument.type_name)).collect();
        format!("forward takes ({})", list.join(", "))
    };
    if let Some(unknown) =
        inputs.iter().filter_map(|spec| spec.internal_name.as_deref()).find(|name| !is_argument(name))
    {
        return Err(RunnerError::new(format!(
            "the carton declares an input with the internal name `{unknown}`, but {}",
            takes()
        )));
    }
    let by_name = is_by_name(arguments, inputs);
    if !by_name && inputs.len() > arguments.len() {
        return Err(RunnerError::new(format!("the carton declares {} inputs, but {}", inputs.len(), takes())));
    }
    let mut bound = Vec::with_capacity(arguments.len());
    for (index, argument) in arguments.iter().enumerate() {
        let spec = match by_name {
            true => inputs.iter().find(|spec| spec.model_name() == argument.name),
            false => inputs.get(index),
        };
        if spec.is_none() && !inputs.is_empty() && !argument.may_be_missing {
            return Err(RunnerError::new(format!(
                "the carton declares no input for the argument `{}`; {}",
                argument.name,
                takes()
            )));
        }
        if !argument.may_be_missing {
            check_supported(argument, argument.kind)?;
        }
        bound.push((spec.map_or(&argument.name, |spec| &spec.name).clone(), argument.clone()));
    }
    for (index, (name, _)) in bound.iter().enumerate() {
        if bound.iter().skip(index + 1).any(|(other, _)| other == name) {
            return Err(RunnerError::new(format!("two arguments of forward would be the input `{name}`; {}", takes())));
        }
    }
    Ok(bound)
}

/// Refuses an argument if no input can be passed for `kind`, which is its own kind or that of the dictionary's values.
fn check_supported(argument: &Argument, kind: Kind) -> Result<(), RunnerError> {
    if !matches!(kind, Kind::Dictionary | Kind::Other) {
        return Ok(());
    }
    Err(RunnerError::new(format!(
        "forward takes `{}`: {}, which no input can be passed for; expected Tensor, str, List[str], List[Tensor], a number, \
         or one dictionary of str to one of these or to Any",
        argument.name, argument.type_name
    )))
}

/// Refuses two inputs under one key.
fn check_keys(bound: &[Bound<'_>]) -> Result<(), RunnerError> {
    let mut by_key = BTreeMap::new();
    for input in bound {
        if let Some(other) = by_key.insert(input.inner, input.name) {
            return Err(RunnerError::new(format!(
                "inputs `{other}` and `{}` are both `{}` to the model",
                input.name, input.inner
            )));
        }
    }
    Ok(())
}

fn quote<'a>(names: impl Iterator<Item = &'a str>) -> String {
    names.map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests;
