//! Gives the values that forward returned the names of outputs. Pure.

use carton_runner_interface::runner::{DeclaredTensor, RunnerError};
use carton_runner_interface::structure::is_below;
use carton_tensor::SymbolicShape;

/// The name of an output that neither the carton nor the model names.
const UNNAMED: &str = "output";

/// The structure of what forward returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Structure {
    /// One value.
    One,
    /// A tuple.
    Sequence,
    /// A named tuple.
    NamedTuple,
    /// A dictionary.
    Map,
}

/// The declared outputs; none where the carton declares nothing.
#[derive(Debug)]
pub(crate) struct Outputs(Vec<Declared>);

/// A declared output.
#[derive(Debug)]
struct Declared {
    name: String,
    /// The model's name for it.
    inner: String,
    rank: Option<usize>,
}

/// One of the values that forward returned, by the names of its tensors.
#[derive(Debug, Default)]
pub(crate) struct Returned {
    /// The names of the leaves in order.
    pub(crate) leaves: Vec<String>,
    /// The names of parts that are None.
    pub(crate) nones: Vec<String>,
}

impl Outputs {
    pub(crate) fn new(outputs: &[DeclaredTensor]) -> Self {
        let declared = outputs.iter().map(|spec| Declared {
            name: spec.name.clone(),
            inner: spec.model_name().to_owned(),
            rank: match &spec.shape {
                SymbolicShape::Dimensions(dimensions) => Some(dimensions.len()),
                _ => None,
            },
        });
        Self(declared.collect())
    }

    /// The model's names of the declared outputs.
    pub(crate) fn inner_names(&self) -> Vec<&str> {
        self.0.iter().map(|output| output.inner.as_str()).collect()
    }

    /// Whether the elements of a list of tensors, returned as the only value, are the outputs in order. Otherwise the list is one
    /// nested tensor.
    ///
    /// They are if the carton declares several outputs, or one output with as many dimensions as the only tensor in the list.
    pub(crate) fn takes_apart(&self, ranks: &[usize]) -> bool {
        match self.0.as_slice() {
            [] => false,
            [one] => matches!(ranks, [rank] if one.rank == Some(*rank)),
            _ => true,
        }
    }

    /// The name of a value that the model does not name.
    pub(crate) fn unnamed(structure: Structure, index: usize) -> String {
        if structure == Structure::One { UNNAMED.to_owned() } else { format!("{UNNAMED}_{index}") }
    }

    /// Whether any output is made of the value with this name, an entry of a dictionary.
    pub(crate) fn wants(&self, name: &str) -> bool {
        self.0.is_empty() || self.0.iter().any(|output| is_below(name, &output.inner).is_some())
    }

    /// Returns, for each output to return, the position of the value and of its leaf, and the caller's name.
    ///
    /// # Errors
    /// The carton declares other outputs than the model returned.
    pub(crate) fn choose(
        &self,
        structure: Structure,
        values: &[Returned],
    ) -> Result<Vec<(usize, usize, String)>, RunnerError> {
        let declared = &self.0;
        let leaves: Vec<(usize, usize, &str)> = values
            .iter()
            .enumerate()
            .flat_map(|(value, returned)| {
                returned.leaves.iter().enumerate().map(move |(leaf, name)| (value, leaf, name.as_str()))
            })
            .collect();
        if declared.is_empty() {
            return Ok(leaves.into_iter().map(|(value, leaf, name)| (value, leaf, name.to_owned())).collect());
        }
        let find = |output: &Declared| leaves.iter().find(|(_, _, name)| *name == output.inner);
        let is_none = |output: &Declared| {
            let mut nones = values.iter().flat_map(|value| &value.nones);
            nones.any(|none| is_below(none, &output.inner).is_some())
        };
        let by_name = || {
            let found = declared.iter().filter_map(|output| find(output).map(|found| (output, found)));
            found.map(|(output, &(value, leaf, _))| (value, leaf, output.name.clone())).collect()
        };
        let unknown = declared.iter().find(|output| find(output).is_none() && !is_none(output));
        match (structure, unknown) {
            (Structure::Map | Structure::NamedTuple, None) => return Ok(by_name()),
            (Structure::Map, Some(output)) => {
                let names = match leaves.as_slice() {
                    [] => "none".to_owned(),
                    leaves => quote(leaves.iter().map(|(_, _, name)| *name)),
                };
                return Err(RunnerError::new(format!(
                    "the model returned no output `{}`; it returned {names}",
                    output.inner
                )));
            }
            _ => {}
        }
        // Values that are a tensor each, in order.
        if declared.len() == values.len() && values.iter().all(|value| value.leaves.len() <= 1) {
            let pairs = declared.iter().zip(values).enumerate().filter(|(_, (_, value))| !value.leaves.is_empty());
            return Ok(pairs.map(|(index, (output, _))| (index, 0, output.name.clone())).collect());
        }
        if unknown.is_none() {
            return Ok(by_name());
        }
        if declared.len() == leaves.len() {
            let pairs = declared.iter().zip(leaves);
            return Ok(pairs.map(|(output, (value, leaf, _))| (value, leaf, output.name.clone())).collect());
        }
        let names = quote(leaves.iter().map(|(_, _, name)| *name));
        Err(RunnerError::new(format!(
            "the carton declares {} outputs, but the model returned {}{}{names}",
            declared.len(),
            leaves.len(),
            if names.is_empty() { "" } else { ": " }
        )))
    }
}

fn quote<'a>(names: impl Iterator<Item = &'a str>) -> String {
    names.map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests;
