//! Matches inputs with the arguments of forward. Pure.
//!
//! A forward that takes one dictionary with string keys gets all inputs in it; any other forward gets each input as an
//! argument, or as a part of one. The schema of forward decides which.

use std::collections::{BTreeMap, BTreeSet};

use carton_runner_interface::runner::{DeclaredTensor, RunnerError, Tensors};
use carton_runner_interface::signature::{Elements, ModelValue, input_mismatches};
use carton_runner_interface::structure;
use carton_tensor::DataType;

use crate::identity::LIBTORCH_VERSION;
use crate::leaves::{Leaf, is_one_leaf, leaves};
use crate::libtorch::{Argument, ValueType, is_supported};

/// The inputs of a loaded model with the names that callers use.
#[derive(Debug)]
pub(crate) struct Binding {
    convention: Convention,
    /// The model's names of inputs, by callers' names. An input without an entry has one name.
    inner_names: BTreeMap<String, String>,
}

/// How forward takes its inputs.
#[derive(Debug)]
enum Convention {
    /// In one dictionary, which is the first argument; all others have defaults. A call that names one of the others, or an entry as part of the
    /// dictionary (`features.KEY`), gives the arguments by `slots`.
    Dictionary { argument: Argument, element: ValueType, slots: Vec<Slot> },
    /// As arguments in order.
    Positional(Vec<Slot>),
}

/// An argument, and the inputs that it is made of.
#[derive(Debug)]
struct Slot {
    argument: Argument,
    leaves: Vec<Leaf>,
}

impl Slot {
    fn takes(&self, inner: &str) -> bool {
        inner == self.argument.name || self.leaves.iter().any(|leaf| leaf.is(inner))
    }
}

/// The value of an argument, or of an entry of the dictionary, for one call.
#[derive(Debug)]
pub(crate) struct Bound<'a> {
    /// The caller's name of the only input that the value is made of, otherwise the name of the argument.
    pub(crate) name: String,
    /// The key, or the argument's name.
    pub(crate) inner: String,
    /// The type that the argument or the dictionary takes.
    pub(crate) value_type: &'a ValueType,
    /// The type of the argument, for messages.
    pub(crate) type_name: &'a str,
    /// The value; `None` for the argument's default.
    pub(crate) value: Option<structure::Value>,
}

/// The inputs of a call in forward's order.
#[derive(Debug)]
pub(crate) enum BoundInputs<'a> {
    /// The entries of the dictionary that is the first argument, and how many arguments with defaults follow it.
    Dictionary(Vec<Bound<'a>>, usize),
    /// The arguments.
    Positional(Vec<Bound<'a>>),
}

impl Binding {
    /// Binds the names of declared inputs, of which there are none where the carton declares nothing, to the arguments of forward.
    ///
    /// # Errors
    /// No input can be passed for an argument, or there are more or fewer declared inputs than arguments.
    pub(crate) fn new(arguments: &[Argument], inputs: &[DeclaredTensor]) -> Result<Self, RunnerError> {
        if let [first, rest @ ..] = arguments
            && let Some(element) = dictionary_of(first, rest)
        {
            check_supported(first)?;
            let renamed = inputs.iter().filter_map(|spec| Some((spec.name.clone(), spec.internal_name.clone()?)));
            let (argument, element) = (first.clone(), element.clone());
            let slots = if rest.is_empty() { Vec::new() } else { positional(arguments, &[])?.0 };
            let convention = Convention::Dictionary { argument, element, slots };
            return Ok(Self { convention, inner_names: renamed.collect() });
        }
        let (slots, inner_names) = positional(arguments, inputs)?;
        Ok(Self { convention: Convention::Positional(slots), inner_names })
    }

    fn inner_name<'a>(&'a self, name: &'a str) -> &'a str {
        self.inner_names.get(name).map_or(name, String::as_str)
    }

    /// The name that callers use for an input of the model.
    fn outer_name<'a>(&'a self, inner: &'a str) -> &'a str {
        self.inner_names.iter().find(|(_, name)| *name == inner).map_or(inner, |(name, _)| name)
    }

    /// Returns the inputs of a call in forward's order.
    ///
    /// # Errors
    /// An input is unknown or missing.
    pub(crate) fn inputs<'a>(&'a self, tensors: &Tensors) -> Result<BoundInputs<'a>, RunnerError> {
        match &self.convention {
            Convention::Dictionary { argument, element, slots } => {
                let names_argument = |name: &String| {
                    let name = self.inner_name(name);
                    let is_entry = structure::is_below(&argument.name, name).is_some_and(|rest| !rest.is_empty());
                    slots.iter().skip(1).any(|slot| slot.takes(name)) || (is_entry && !slots.is_empty())
                };
                if tensors.keys().any(names_argument) {
                    return self.arguments(slots, tensors).map(BoundInputs::Positional);
                }
                let entries = self.entries(argument, element, tensors)?;
                Ok(BoundInputs::Dictionary(entries, slots.len().saturating_sub(1)))
            }
            Convention::Positional(slots) => self.arguments(slots, tensors).map(BoundInputs::Positional),
        }
    }

    /// The entries of the dictionary.
    fn entries<'a>(
        &'a self,
        argument: &'a Argument,
        element: &'a ValueType,
        tensors: &Tensors,
    ) -> Result<Vec<Bound<'a>>, RunnerError> {
        let type_name = argument.type_name.as_str();
        if is_one_leaf(element) {
            let bound: Vec<_> = tensors
                .iter()
                .map(|(name, tensor)| Bound {
                    name: name.clone(),
                    inner: self.inner_name(name).to_owned(),
                    value_type: element,
                    type_name,
                    value: Some(list_or_tensor(tensor)),
                })
                .collect();
            if !self.inner_names.is_empty() {
                check_keys(&bound)?;
            }
            return Ok(bound);
        }
        let tensors = self.by_inner_names(tensors)?;
        let keys: BTreeSet<&str> = tensors.keys().map(|name| structure::top(name)).collect();
        keys.into_iter()
            .map(|key| {
                let value = structure::gather(key, &tensors).map_err(|error| RunnerError::from_error(&error))?;
                Ok(Bound { name: key.to_owned(), inner: key.to_owned(), value_type: element, type_name, value })
            })
            .collect()
    }

    /// The arguments in order.
    fn arguments<'a>(&'a self, slots: &'a [Slot], tensors: &Tensors) -> Result<Vec<Bound<'a>>, RunnerError> {
        let is_known = |name: &String| slots.iter().any(|slot| slot.takes(self.inner_name(name)));
        if let Some(unknown) = tensors.keys().find(|name| !is_known(name)) {
            return Err(RunnerError::new(format!("the model has no input `{unknown}`; {}", self.takes(slots))));
        }
        let tensors = self.by_inner_names(tensors)?;
        let bound = slots.iter().map(|slot| {
            let inner = slot.argument.name.clone();
            let value = match tensors.get(&inner) {
                Some(tensor) if is_one_leaf(&slot.argument.value_type) => Some(list_or_tensor(tensor)),
                _ => structure::gather(&inner, &tensors).map_err(|error| RunnerError::from_error(&error))?,
            };
            let missing = slot.leaves.iter().find(|leaf| leaf.is_required);
            if value.is_none()
                && !slot.argument.may_be_missing
                && let Some(leaf) = missing
            {
                let (shown, takes) = (leaf.shown(), self.takes(slots));
                return Err(RunnerError::new(format!("input `{}` is missing; {takes}", self.outer_name(&shown))));
            }
            let Argument { value_type, type_name, .. } = &slot.argument;
            Ok(Bound { name: self.outer_name(&inner).to_owned(), inner, value_type, type_name, value })
        });
        bound.collect()
    }

    fn by_inner_names(&self, tensors: &Tensors) -> Result<Tensors, RunnerError> {
        let mut renamed = Tensors::new();
        for (name, tensor) in tensors {
            let inner = self.inner_name(name);
            if renamed.insert(inner.to_owned(), tensor.clone()).is_some() {
                return Err(RunnerError::new(format!("two inputs are `{inner}` to the model, one of them `{name}`")));
            }
        }
        Ok(renamed)
    }

    /// What forward takes, by callers' names, for messages.
    fn takes(&self, slots: &[Slot]) -> String {
        let names: Vec<String> = slots.iter().flat_map(|slot| &slot.leaves).map(Leaf::shown).collect();
        match names.as_slice() {
            [] => "it takes no inputs".to_owned(),
            names => format!("it takes {}", quote(names.iter().map(|name| self.outer_name(name)))),
        }
    }
}

/// A nested tensor as the list that it is.
fn list_or_tensor(tensor: &carton_tensor::Tensor) -> structure::Value {
    match tensor {
        carton_tensor::Tensor::Nested(list) => {
            structure::Value::List(list.elements().iter().cloned().map(structure::Value::Tensor).collect())
        }
        tensor => structure::Value::Tensor(tensor.clone()),
    }
}

/// Returns the contradictions between declared inputs and the arguments of forward, as one sentence each.
///
/// A dictionary takes any names. Unless all declared inputs are named after arguments, they are compared in order, as they are bound.
pub(crate) fn mismatches(arguments: &[Argument], inputs: Option<&[DeclaredTensor]>) -> Vec<String> {
    let declared = inputs.unwrap_or_default();
    let all: Vec<Leaf> = arguments.iter().flat_map(leaves_of).collect();
    let mut compared: Vec<DeclaredTensor> = declared.to_vec();
    let values: Vec<ModelValue> = match arguments {
        [first, rest @ ..] if dictionary_of(first, rest).is_some() => {
            let element = dictionary_of(first, rest).and_then(|element| leaves("", element)).unwrap_or_default();
            let names: BTreeSet<&str> = declared.iter().map(DeclaredTensor::model_name).collect();
            names
                .into_iter()
                .filter_map(|name| {
                    let leaf = element.iter().find(|leaf| match leaf.name() {
                        Some("") => true,
                        _ => leaf.is(name.strip_prefix(structure::top(name)).unwrap_or_default()),
                    })?;
                    Some(model_value(name, leaf, false))
                })
                .collect()
        }
        _ => {
            let is_in_place = |(index, spec): (usize, &DeclaredTensor)| {
                let name = spec.internal_name.as_deref();
                name.is_none_or(|name| all.get(index).is_some_and(|leaf| leaf.is(name)))
            };
            if !is_by_name(&all, declared) && declared.iter().enumerate().all(is_in_place) {
                compared.truncate(all.len());
                for (spec, leaf) in compared.iter_mut().zip(&all) {
                    spec.internal_name = Some(leaf.name().unwrap_or(spec.model_name()).to_owned());
                }
            }
            values_of(arguments, &compared)
        }
    };
    let mut mismatches = input_mismatches(inputs.map(|_| compared.as_slice()), &values);
    // Integers, floats and booleans are converted without libtorch.
    let takes_tensors = |spec: &DeclaredTensor| {
        let value = values.iter().find(|value| value.name == spec.model_name());
        value.is_some_and(|value| value.shape == carton_tensor::SymbolicShape::Any)
    };
    mismatches.extend(
        compared
            .iter()
            .filter(|spec| spec.dtype != DataType::String && !is_supported(spec.dtype) && takes_tensors(spec))
            .map(|spec| format!("input `{}`: libtorch {LIBTORCH_VERSION} has no tensors of {}", spec.name, spec.dtype)),
    );
    // The remaining contradictions are the errors of loading, such as more inputs than arguments.
    if mismatches.is_empty()
        && let Err(error) = Binding::new(arguments, declared)
    {
        mismatches.push(error.message);
    }
    mismatches
}

/// The inputs that the arguments are made of. Keys of dictionaries are those that are declared.
fn values_of(arguments: &[Argument], declared: &[DeclaredTensor]) -> Vec<ModelValue> {
    let mut values = Vec::new();
    for argument in arguments {
        let leaves = leaves_of(argument);
        if leaves.is_empty() {
            let (name, elements) = (argument.name.clone(), Elements::Any);
            let shape = carton_tensor::SymbolicShape::Any;
            values.push(ModelValue { name, elements, shape, is_required: !argument.may_be_missing });
        }
        for leaf in leaves {
            match leaf.name() {
                Some(name) => values.push(model_value(name, &leaf, !argument.may_be_missing)),
                None => {
                    let names = declared.iter().map(DeclaredTensor::model_name).filter(|name| leaf.is(name));
                    values.extend(names.map(|name| model_value(name, &leaf, false)));
                }
            }
        }
    }
    values
}

fn model_value(name: &str, leaf: &Leaf, is_required: bool) -> ModelValue {
    ModelValue {
        name: name.to_owned(),
        elements: leaf.elements,
        shape: leaf.shape.clone(),
        is_required: is_required && leaf.is_required,
    }
}

/// The type of the values of the dictionary in which forward takes all inputs, if it does.
fn dictionary_of<'a>(first: &'a Argument, rest: &[Argument]) -> Option<&'a ValueType> {
    match first.value_type.present() {
        ValueType::Dictionary(key, value)
            if **key == ValueType::String && rest.iter().all(|argument| argument.may_be_missing) =>
        {
            Some(value)
        }
        _ => None,
    }
}

fn leaves_of(argument: &Argument) -> Vec<Leaf> {
    leaves(&argument.name, &argument.value_type).unwrap_or_default()
}

/// Whether all declared inputs are named after arguments, or after parts of them.
fn is_by_name(leaves: &[Leaf], inputs: &[DeclaredTensor]) -> bool {
    inputs.iter().all(|spec| leaves.iter().any(|leaf| leaf.is(spec.model_name())))
}

/// Returns the arguments of forward, and the names of their leaves by the names that callers use, where they differ. Without declared inputs
/// these are the names of the leaves. Declared inputs are matched by name if all their names are names of leaves, otherwise in order.
fn positional(
    arguments: &[Argument],
    inputs: &[DeclaredTensor],
) -> Result<(Vec<Slot>, BTreeMap<String, String>), RunnerError> {
    let takes = || {
        let list: Vec<_> =
            arguments.iter().map(|argument| format!("{}: {}", argument.name, argument.type_name)).collect();
        let list = format!("forward takes ({})", list.join(", "));
        match arguments.iter().all(|argument| is_one_leaf(&argument.value_type) || leaves_of(argument).is_empty()) {
            true => list,
            false => {
                let names: Vec<String> = arguments.iter().flat_map(leaves_of).map(|leaf| leaf.shown()).collect();
                format!("{list}, as {}", quote(names.iter().map(String::as_str)))
            }
        }
    };
    let mut slots = Vec::with_capacity(arguments.len());
    for argument in arguments {
        if !argument.may_be_missing {
            check_supported(argument)?;
        }
        slots.push(Slot { argument: argument.clone(), leaves: leaves_of(argument) });
    }
    let all: Vec<&Leaf> = slots.iter().flat_map(|slot| &slot.leaves).collect();
    let is_known = |name: &str| slots.iter().any(|slot| slot.takes(name));
    if let Some(unknown) = inputs.iter().filter_map(|spec| spec.internal_name.as_deref()).find(|name| !is_known(name)) {
        return Err(RunnerError::new(format!(
            "the carton declares an input with the internal name `{unknown}`, but {}",
            takes()
        )));
    }
    let by_name = inputs.iter().all(|spec| is_known(spec.model_name()));
    if !by_name && inputs.len() > all.len() {
        return Err(RunnerError::new(format!("the carton declares {} inputs, but {}", inputs.len(), takes())));
    }
    let in_order = |(index, spec): (usize, &DeclaredTensor)| {
        let leaf = all.get(index).and_then(|leaf| leaf.name()).filter(|_| !by_name);
        (spec.name.clone(), leaf.unwrap_or(spec.model_name()).to_owned())
    };
    let names: Vec<(String, String)> = inputs.iter().enumerate().map(in_order).collect();
    for slot in slots.iter().filter(|slot| !inputs.is_empty() && !slot.argument.may_be_missing) {
        let is_declared = |leaf: &&Leaf| names.iter().any(|(_, inner)| leaf.is(inner) || *inner == slot.argument.name);
        let missing = slot.leaves.iter().find(|leaf| leaf.is_required && !is_declared(leaf));
        if let Some(leaf) = missing {
            let shown = leaf.shown();
            return Err(RunnerError::new(format!(
                "the carton declares no input for the argument `{shown}`; {}",
                takes()
            )));
        }
    }
    // Arguments that are not declared keep their names, which others may have taken.
    let undeclared =
        all.iter().filter_map(|leaf| leaf.name()).filter(|leaf| !names.iter().any(|(_, name)| name == leaf));
    let mut taken: BTreeSet<&str> = undeclared.collect();
    if let Some((name, _)) = names.iter().find(|(name, _)| !taken.insert(name)) {
        return Err(RunnerError::new(format!("two arguments of forward would be the input `{name}`; {}", takes())));
    }
    let renamed = names.into_iter().filter(|(name, inner)| name != inner).collect();
    Ok((slots, renamed))
}

/// Refuses an argument if no input can be passed for it.
fn check_supported(argument: &Argument) -> Result<(), RunnerError> {
    if leaves(&argument.name, &argument.value_type).is_some() {
        return Ok(());
    }
    Err(RunnerError::new(format!(
        "forward takes `{}`: {}, which no input can be passed for; expected tensors, numbers, texts, and tuples, lists and dictionaries of \
         them",
        argument.name, argument.type_name
    )))
}

/// Refuses two inputs under one key.
fn check_keys(bound: &[Bound<'_>]) -> Result<(), RunnerError> {
    let mut by_key = BTreeMap::new();
    for input in bound {
        if let Some(other) = by_key.insert(&input.inner, &input.name) {
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
