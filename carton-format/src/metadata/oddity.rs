//! What cartons of other writers contain and this library does not write, but reads (spec/carton-format.md, "What is odd").

use std::collections::BTreeMap;
use std::fmt;

use carton_tensor::{Dimension, SymbolicShape};

use super::{Metadata, TensorSpec};
use crate::model_card::CardProblem;
use crate::side::Side;

/// A property of a usable carton that this library would not write. The text form states its consequence.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Oddity {
    /// Inputs are declared, but outputs are not: no output is checked.
    OutputsNotDeclared,
    /// Outputs are declared, but inputs are not, although self-tests or examples have some: no input is checked.
    InputsNotDeclared,
    /// There are self-tests, but neither inputs nor outputs are declared.
    SelfTestsWithoutSignature,
    /// There are examples, but neither inputs nor outputs are declared.
    ExamplesWithoutSignature,
    /// Several inputs, or several outputs, share a name, so it is unknown which of them a tensor should match.
    RepeatedName {
        /// Whether they are inputs or outputs.
        side: Side,
        /// Their name.
        name: String,
        /// The number of inputs or outputs with that name.
        count: usize,
    },
    /// Inputs or outputs have an empty name, so the model's names for them are unknown.
    EmptyName {
        /// Whether they are inputs or outputs.
        side: Side,
        /// The index of the first of them in its list.
        index: usize,
    },
    /// A shape, or a dimension of one, is an empty text. It is read as `"*"`.
    EmptySymbol {
        /// Whether it belongs to an input or to an output.
        side: Side,
        /// The index of the input or output in its list.
        index: usize,
    },
    /// A part of the model's card has another type than it should, and is left out.
    CardIgnored {
        /// The part.
        problem: CardProblem,
    },
    /// Names of files have a back slash, which some systems take for a slash.
    BackSlash {
        /// The first of these files.
        path: String,
        /// The number of such files.
        count: usize,
    },
}

impl fmt::Display for Oddity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OutputsNotDeclared => f.write_str("inputs are declared and outputs are not: outputs are not checked"),
            Self::InputsNotDeclared => f.write_str("outputs are declared and inputs are not: inputs are not checked"),
            Self::SelfTestsWithoutSignature => {
                f.write_str("there are self-tests, and neither inputs nor outputs are declared: neither are checked")
            }
            Self::ExamplesWithoutSignature => {
                f.write_str("there are examples, and neither inputs nor outputs are declared: neither are checked")
            }
            Self::RepeatedName { side, name, count } => {
                write!(f, "{count} {side}s have the name `{name}`: dtype and shape of that {side} are not checked")
            }
            Self::EmptyName { side, index } => {
                write!(f, "`{side}[{index}].name` is empty: {side}s with names that are not declared are accepted")
            }
            Self::EmptySymbol { side, index } => {
                write!(f, "`{side}[{index}].shape` has an empty symbol, which is read as `*`")
            }
            Self::CardIgnored { problem } => write!(f, "{problem}: it is ignored"),
            Self::BackSlash { path, count: 1 } => {
                write!(f, "the name `{path}` has a back slash, which some systems take for a slash")
            }
            Self::BackSlash { path, count } => {
                write!(f, "{count} names of files have a back slash, which some systems take for a slash: `{path}`, …")
            }
        }
    }
}

impl Metadata {
    /// The oddities of the metadata: what this library does not write, but other writers do.
    ///
    /// ```
    /// use carton_format::metadata::{Metadata, Oddity};
    /// let metadata = Metadata::parse(r#"
    ///     spec_version = 1
    ///     input = [{ name = "x", dtype = "float32", shape = "*" }]
    ///     [runner]
    ///     runner_name = "onnx"
    ///     required_framework_version = "*"
    /// "#)?;
    /// assert_eq!(metadata.oddities(), [Oddity::OutputsNotDeclared]);
    /// # Ok::<(), carton_format::metadata::MetadataError>(())
    /// ```
    #[must_use]
    pub fn oddities(&self) -> Vec<Oddity> {
        of(self)
    }
}

/// The oddities of `metadata`, in the order of the file.
fn of(metadata: &Metadata) -> Vec<Oddity> {
    let mut oddities = Vec::new();
    match metadata.signature() {
        Some(signature) => {
            if signature.outputs.is_none() {
                oddities.push(Oddity::OutputsNotDeclared);
            }
            if signature.inputs.is_none() {
                oddities.push(Oddity::InputsNotDeclared);
            }
        }
        None => {
            if !metadata.self_tests().is_empty() {
                oddities.push(Oddity::SelfTestsWithoutSignature);
            }
            if !metadata.examples().is_empty() {
                oddities.push(Oddity::ExamplesWithoutSignature);
            }
        }
    }
    of_specs(metadata.inputs(), Side::Input, &mut oddities);
    of_specs(metadata.outputs(), Side::Output, &mut oddities);
    oddities.extend(metadata.card_problems.iter().cloned().map(|problem| Oddity::CardIgnored { problem }));
    oddities
}

fn of_specs(specs: &[TensorSpec], side: Side, oddities: &mut Vec<Oddity>) {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for spec in specs {
        *counts.entry(&spec.name).or_default() += 1;
    }
    if let Some(index) = specs.iter().position(|spec| spec.name.is_empty()) {
        oddities.push(Oddity::EmptyName { side, index });
    }
    for (name, count) in counts.into_iter().filter(|(name, count)| *count > 1 && !name.is_empty()) {
        oddities.push(Oddity::RepeatedName { side, name: name.to_owned(), count });
    }
    for (index, spec) in specs.iter().enumerate() {
        let has_empty_symbol = match &spec.shape {
            SymbolicShape::Any => false,
            SymbolicShape::Symbol(symbol) => symbol.is_empty(),
            SymbolicShape::Dimensions(dimensions) => dimensions.contains(&Dimension::Symbol(String::new())),
        };
        if has_empty_symbol {
            oddities.push(Oddity::EmptySymbol { side, index });
        }
    }
}
