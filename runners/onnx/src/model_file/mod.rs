//! Reads the description in a `.onnx` file: inputs, outputs, operator sets, operators and external data.
//!
//! Only the necessary fields of the ONNX schema (`onnx.proto`) are interpreted here, but every message that an engine will
//! read is walked to its end, so that an accepted file has no harmful length, depth or count.

use std::collections::{BTreeMap, BTreeSet};

mod error;
mod value;

pub(crate) use error::ModelFileError;
pub(crate) use value::{GraphValue, ValueKind};

use crate::element_type::ElementType;
use crate::protobuf::{Budget, Message};
use value::{graph_value, value_kind};

/// Operators whose kernel has the shape of their second input unless `kernel_shape` states it.
pub(crate) const CONVOLUTIONS: [&str; 3] = ["Conv", "ConvInteger", "ConvTranspose"];
/// Operators whose `strides` are one unless they are stated.
pub(crate) const POOLINGS: [&str; 2] = ["AveragePool", "MaxPool"];

/// The parts of a `.onnx` file that this runner needs.
#[derive(Debug, Default)]
pub(crate) struct ModelFile {
    /// Operator sets by domain; the default domain `ai.onnx` is the empty string.
    pub(crate) operator_sets: BTreeMap<String, u64>,
    /// Graph inputs in order, without those that have a value in the file.
    pub(crate) inputs: Vec<GraphValue>,
    /// Graph outputs in order.
    pub(crate) outputs: Vec<GraphValue>,
    /// Every operator that the graph and the graphs inside it use.
    pub(crate) operators: BTreeSet<Operator>,
    /// The values of the attributes in [`CHOICES`].
    pub(crate) choices: BTreeSet<Choice>,
    /// Tensors whose data is in other files.
    pub(crate) external: Vec<ExternalTensor>,
    /// The first int64 constant that int32 cannot represent.
    pub(crate) wide_constant: Option<WideConstant>,
    /// Whether any constant is float64.
    pub(crate) has_double_constants: bool,
    /// Whether any `MatMul` has a second input of one dimension.
    pub(crate) has_vector_products: bool,
    /// Whether any convolution does not state the shape of its kernel, or any pooling its strides.
    pub(crate) has_implied_windows: bool,
}

/// An operator by its domain (empty for `ai.onnx`) and name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Operator {
    pub(crate) domain: String,
    pub(crate) name: String,
}

impl std::fmt::Display for Operator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.domain.is_empty() { f.write_str(&self.name) } else { write!(f, "{}.{}", self.domain, self.name) }
    }
}

/// The text that an operator has for one of the attributes in [`CHOICES`].
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Choice {
    pub(crate) operator: Operator,
    pub(crate) name: &'static str,
    pub(crate) value: String,
}

/// The text attributes whose values are kept.
const CHOICES: [&str; 2] = ["auto_pad", "mode"];
/// The greatest length in bytes of a value that is kept.
const MAX_WORD: usize = 64;

/// A tensor whose data is in another file, at `location` relative to the `.onnx` file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ExternalTensor {
    pub(crate) name: String,
    pub(crate) location: String,
    pub(crate) offset: Option<u64>,
    pub(crate) length: Option<u64>,
    pub(crate) element: ElementType,
    /// The number of bytes that type and dimensions require.
    pub(crate) n_bytes: Option<u64>,
}

/// An int64 constant outside the range of int32.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WideConstant {
    pub(crate) name: String,
    pub(crate) index: usize,
    pub(crate) value: i64,
}

impl ModelFile {
    /// Reads a `.onnx` file.
    ///
    /// # Errors
    /// The file is not an ONNX model, is truncated, or exceeds the limits on nesting and messages.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, ModelFileError> {
        if bytes.is_empty() {
            return Err(ModelFileError::Invalid("it is empty".to_owned()));
        }
        let budget = Budget::default();
        let mut file = Self::default();
        let mut has_ir_version = false;
        let mut has_graph = false;
        for field in Message::of_file(bytes, &budget) {
            let field = field?;
            match field.number() {
                1 => {
                    field.integer()?;
                    has_ir_version = true;
                }
                7 if has_graph => return Err(ModelFileError::Invalid("it has two graphs".to_owned())),
                7 => {
                    has_graph = true;
                    file.main_graph(field.message()?)?;
                }
                8 => file.operator_set(field.message()?)?,
                14 => field.message()?.check()?,
                25 => file.function(field.message()?)?,
                _ => {}
            }
        }
        if !has_ir_version {
            return Err(ModelFileError::Missing("IR version"));
        }
        if !has_graph {
            return Err(ModelFileError::Missing("graph"));
        }
        if file.operator_sets.is_empty() {
            return Err(ModelFileError::Missing("operator set"));
        }
        Ok(file)
    }

    /// The operator set of the default domain; 0 when the model imports only others.
    pub(crate) fn default_operator_set(&self) -> u64 {
        self.operator_sets.get("").copied().unwrap_or(0)
    }

    fn operator_set(&mut self, message: Message<'_>) -> Result<(), ModelFileError> {
        let (mut domain, mut version) = ("", 0);
        for field in message {
            let field = field?;
            match field.number() {
                1 => domain = field.text()?,
                2 => version = field.integer()?,
                _ => {}
            }
        }
        let version = u64::try_from(version)
            .map_err(|_| ModelFileError::Invalid(format!("operator set {version} of domain `{domain}`")))?;
        let known = self.operator_sets.entry(normal_domain(domain)).or_default();
        *known = version.max(*known);
        Ok(())
    }

    fn function(&mut self, message: Message<'_>) -> Result<(), ModelFileError> {
        for field in message {
            let field = field?;
            match field.number() {
                7 => {
                    self.node(field.message()?)?;
                }
                9 | 11 | 12 => field.message()?.check()?,
                _ => {}
            }
        }
        Ok(())
    }

    fn main_graph(&mut self, message: Message<'_>) -> Result<(), ModelFileError> {
        let mut constants = BTreeSet::new();
        let (mut inputs, mut outputs) = (Vec::new(), Vec::new());
        self.graph(message, &mut constants, &mut inputs, &mut outputs)?;
        // Up to IR version 3 every initializer is listed as an input as well. In later versions the caller may override an
        // initializer that is listed as an input. In both cases the caller need not pass it.
        inputs.retain(|input| !constants.contains(&input.name));
        for (what, values) in [("input", &inputs), ("output", &outputs)] {
            let mut names = BTreeSet::new();
            for value in values {
                if value.name.is_empty() {
                    return Err(ModelFileError::Invalid(format!("a graph {what} has no name")));
                }
                if !names.insert(&value.name) {
                    return Err(ModelFileError::Invalid(format!("two graph {what}s are named `{}`", value.name)));
                }
            }
        }
        if outputs.is_empty() {
            return Err(ModelFileError::Invalid("its graph has no outputs".to_owned()));
        }
        (self.inputs, self.outputs) = (inputs, outputs);
        Ok(())
    }

    fn graph(
        &mut self,
        message: Message<'_>,
        constants: &mut BTreeSet<String>,
        inputs: &mut Vec<GraphValue>,
        outputs: &mut Vec<GraphValue>,
    ) -> Result<(), ModelFileError> {
        let mut factors = BTreeSet::new();
        let mut vectors = BTreeSet::new();
        for field in message {
            let field = field?;
            match field.number() {
                1 => {
                    factors.extend(self.node(field.message()?)?);
                }
                5 => {
                    let tensor = self.tensor(field.message()?)?;
                    if tensor.rank == 1 {
                        vectors.insert(tensor.name.clone());
                    }
                    constants.insert(tensor.name);
                }
                number @ 11..=13 => {
                    let value = graph_value(field.message()?)?;
                    if value.rank() == Some(1) {
                        vectors.insert(value.name.clone());
                    }
                    match number {
                        11 => inputs.push(value),
                        12 => outputs.push(value),
                        _ => {}
                    }
                }
                14 => field.message()?.check()?,
                15 => {
                    constants.insert(self.sparse_tensor(field.message()?)?);
                }
                _ => {}
            }
        }
        self.has_vector_products |= factors.iter().any(|factor| vectors.contains(*factor));
        Ok(())
    }

    /// Walks a node and, if it is a `MatMul`, returns the name of its second input.
    fn node<'a>(&mut self, message: Message<'a>) -> Result<Option<&'a str>, ModelFileError> {
        let (mut name, mut domain) = ("", "");
        let (mut n_inputs, mut second) = (0, None);
        let (mut has_kernel_shape, mut has_strides) = (false, false);
        let mut words = Vec::new();
        for field in message {
            let field = field?;
            match field.number() {
                1 => {
                    let input = field.text()?;
                    n_inputs += 1;
                    if n_inputs == 2 {
                        second = Some(input);
                    }
                }
                2 | 3 => {
                    field.text()?;
                }
                4 => name = field.text()?,
                5 => {
                    let (attribute, word) = self.attribute(field.message()?)?;
                    has_kernel_shape |= attribute == "kernel_shape";
                    has_strides |= attribute == "strides";
                    if let Some(choice) = CHOICES.into_iter().find(|choice| *choice == attribute)
                        && let Ok(word) = std::str::from_utf8(word)
                        && word.len() <= MAX_WORD
                    {
                        words.push((choice, word));
                    }
                }
                7 => domain = field.text()?,
                _ => {}
            }
        }
        if name.is_empty() {
            return Err(ModelFileError::Invalid("a node has no operator".to_owned()));
        }
        self.has_implied_windows |=
            (CONVOLUTIONS.contains(&name) && !has_kernel_shape) || (POOLINGS.contains(&name) && !has_strides);
        let operator = Operator { domain: normal_domain(domain), name: name.to_owned() };
        for (name, word) in words {
            self.choices.insert(Choice { operator: operator.clone(), name, value: word.to_owned() });
        }
        self.operators.insert(operator);
        Ok(second.filter(|_| name == "MatMul"))
    }

    /// Walks an attribute and returns its name and, if it is text, its value.
    fn attribute<'a>(&mut self, message: Message<'a>) -> Result<(&'a str, &'a [u8]), ModelFileError> {
        let (mut name, mut text): (&str, &[u8]) = ("", &[]);
        for field in message {
            let field = field?;
            match field.number() {
                1 => name = field.text()?,
                4 => text = field.bytes()?,
                5 | 10 => {
                    self.tensor(field.message()?)?;
                }
                6 | 11 => {
                    self.graph(field.message()?, &mut BTreeSet::new(), &mut Vec::new(), &mut Vec::new())?;
                }
                14 | 15 => {
                    value_kind(field.message()?)?;
                }
                22 | 23 => {
                    self.sparse_tensor(field.message()?)?;
                }
                _ => {}
            }
        }
        Ok((name, text))
    }

    fn sparse_tensor(&mut self, message: Message<'_>) -> Result<String, ModelFileError> {
        let mut name = String::new();
        for field in message {
            let field = field?;
            match field.number() {
                1 => name = self.tensor(field.message()?)?.name,
                2 => {
                    self.tensor(field.message()?)?;
                }
                _ => {}
            }
        }
        Ok(name)
    }

    /// Looks for a number that int32 cannot hold in an int64 constant: in `numbers`, then in `bytes`.
    fn note_wide_constant(&mut self, name: &str, mut numbers: Numbers, bytes: &[u8]) {
        for bytes in bytes.as_chunks().0 {
            numbers.push(i64::from_le_bytes(*bytes));
        }
        if let (Some((index, value)), None) = (numbers.wide, &self.wide_constant) {
            self.wide_constant = Some(WideConstant { name: name.to_owned(), index, value });
        }
    }

    /// Looks for a number that int32 cannot hold in the data of an external tensor.
    pub(crate) fn note_external_data(&mut self, tensor: &ExternalTensor, data: &[u8]) {
        if tensor.element == ElementType::INT64 {
            self.note_wide_constant(&tensor.name, Numbers::default(), data);
        }
    }

    /// Reads a tensor and returns its name and rank.
    fn tensor(&mut self, message: Message<'_>) -> Result<Constant, ModelFileError> {
        let mut rank = 0;
        let mut name = String::new();
        let mut element = ElementType(0);
        let mut external = ExternalTensor::default();
        let mut is_external = false;
        let mut n_elements = Some(1_u64);
        let mut numbers = Numbers::default();
        let mut raw: &[u8] = &[];
        for field in message {
            let field = field?;
            match field.number() {
                1 => field.integers(|size| {
                    rank += 1;
                    n_elements = u64::try_from(size).ok().and_then(|size| n_elements?.checked_mul(size));
                })?,
                2 => element = ElementType(field.integer()?),
                // Lists of numbers are checked, because the engine `rten` loops for ever over a number of more than ten bytes.
                4 => field.check_fixed(4)?,
                10 => field.check_fixed(8)?,
                5 | 11 => field.integers(|_| {})?,
                7 => field.integers(|number| numbers.push(number))?,
                8 => name = field.text()?.to_owned(),
                9 => raw = field.bytes()?,
                13 => external_entry(field.message()?, &mut external)?,
                14 => is_external = field.integer()? == 1,
                _ => {}
            }
        }
        if is_external {
            if external.location.is_empty() {
                return Err(ModelFileError::Invalid(format!("the external tensor `{name}` has no location")));
            }
            external.name.clone_from(&name);
            external.element = element;
            external.n_bytes = element.size().and_then(|size| n_elements?.checked_mul(size));
            self.external.push(external);
        }
        if element == ElementType::INT64 {
            self.note_wide_constant(&name, numbers, raw);
        }
        self.has_double_constants |= element == ElementType::DOUBLE;
        Ok(Constant { name, rank })
    }
}

/// A tensor in the file.
struct Constant {
    name: String,
    rank: usize,
}

/// Watches int64 constants for the first one that int32 cannot represent.
#[derive(Default)]
struct Numbers {
    count: usize,
    wide: Option<(usize, i64)>,
}

impl Numbers {
    fn push(&mut self, value: i64) {
        // The largest and smallest numbers mean "to the end" (mostly of a slice) and can be replaced by any large number.
        let is_unbounded = value.unsigned_abs() >= 1 << 62;
        if self.wide.is_none() && i32::try_from(value).is_err() && !is_unbounded {
            self.wide = Some((self.count, value));
        }
        self.count += 1;
    }
}

fn external_entry(message: Message<'_>, external: &mut ExternalTensor) -> Result<(), ModelFileError> {
    let (mut key, mut value) = ("", "");
    for field in message {
        let field = field?;
        match field.number() {
            1 => key = field.text()?,
            2 => value = field.text()?,
            _ => {}
        }
    }
    let number = || {
        value.parse().map(Some).map_err(|_| {
            ModelFileError::Invalid(format!("the {key} of external data should be a number, found `{value}`"))
        })
    };
    match key {
        "location" => value.clone_into(&mut external.location),
        "offset" => external.offset = number()?,
        "length" => external.length = number()?,
        _ => {}
    }
    Ok(())
}

fn normal_domain(domain: &str) -> String {
    if domain == "ai.onnx" { String::new() } else { domain.to_owned() }
}
