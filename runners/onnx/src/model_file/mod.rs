//! Reads the description in a `.onnx` file: inputs, outputs, operator sets and external data.
//!
//! Only the necessary fields of the ONNX schema (`onnx.proto`) are interpreted here, but every message that ONNX Runtime will
//! read is walked to its end, so that an accepted file has no harmful length, depth or count.

use std::collections::{BTreeMap, BTreeSet};

mod error;
mod value;

pub(crate) use error::ModelFileError;
pub(crate) use value::{GraphValue, ValueKind};

use crate::element_type::ElementType;
use carton_tensor::onnx::wire::{Budget, Message, WireError};
use value::{check_type, graph_value};

/// The parts of a `.onnx` file that this runner needs.
#[derive(Debug, Default)]
pub(crate) struct ModelFile {
    /// The version of the file format.
    pub(crate) ir_version: u64,
    /// Operator sets by domain; the default domain `ai.onnx` is the empty string.
    pub(crate) operator_sets: BTreeMap<String, u64>,
    /// Graph inputs in order, without those that have a value in the file.
    pub(crate) inputs: Vec<GraphValue>,
    /// Graph outputs in order.
    pub(crate) outputs: Vec<GraphValue>,
    /// The domains of the functions that the file defines.
    pub(crate) function_domains: BTreeSet<String>,
    /// Tensors whose data is in other files.
    pub(crate) external: Vec<ExternalTensor>,
}

/// A tensor whose data is in another file, at `location` relative to the `.onnx` file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ExternalTensor {
    pub(crate) name: String,
    pub(crate) location: String,
    pub(crate) offset: Option<u64>,
    pub(crate) length: Option<u64>,
    /// The number of bytes that type and dimensions require.
    pub(crate) n_bytes: Option<u64>,
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
        let mut ir_version = None;
        let mut has_graph = false;
        for field in Message::of_file(bytes, &budget) {
            let field = field?;
            match field.number() {
                1 => ir_version = Some(field.integer()?),
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
        let ir_version = ir_version.ok_or(ModelFileError::Missing("IR version"))?;
        file.ir_version = u64::try_from(ir_version)
            .map_err(|_| ModelFileError::Invalid(format!("it has IR version {ir_version}")))?;
        if !has_graph {
            return Err(ModelFileError::Missing("graph"));
        }
        if file.operator_sets.is_empty() {
            return Err(ModelFileError::Missing("operator set"));
        }
        Ok(file)
    }

    /// The first domain of operators that neither ONNX nor ONNX Runtime defines, nor the file itself by functions.
    pub(crate) fn foreign_domain(&self) -> Option<&str> {
        const KNOWN: [&str; 4] = ["", "ai.onnx.", "com.microsoft", "org.pytorch.aten"];
        let is_known = |domain: &str| {
            KNOWN.iter().any(|known| domain == *known || (known.ends_with('.') && domain.starts_with(known)))
                || domain.starts_with("com.microsoft.") && domain != "com.microsoft.extensions"
                || self.function_domains.contains(domain)
        };
        let mut domains = self.operator_sets.keys().map(String::as_str);
        domains.find(|domain| !is_known(domain) || *domain == "ai.onnx.contrib")
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
                10 => {
                    self.function_domains.insert(normal_domain(field.text()?));
                }
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
        for field in message {
            let field = field?;
            match field.number() {
                1 => self.node(field.message()?)?,
                5 => {
                    constants.insert(self.tensor(field.message()?)?);
                }
                11 => inputs.push(graph_value(field.message()?)?),
                12 => outputs.push(graph_value(field.message()?)?),
                13 => {
                    graph_value(field.message()?)?;
                }
                14 => field.message()?.check()?,
                15 => {
                    constants.insert(self.sparse_tensor(field.message()?)?);
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn node(&mut self, message: Message<'_>) -> Result<(), ModelFileError> {
        let mut has_operator = false;
        for field in message {
            let field = field?;
            match field.number() {
                1 | 2 | 3 | 7 => {
                    field.text()?;
                }
                4 => has_operator = !field.text()?.is_empty(),
                5 => self.attribute(field.message()?)?,
                _ => {}
            }
        }
        if !has_operator {
            return Err(ModelFileError::Invalid("a node has no operator".to_owned()));
        }
        Ok(())
    }

    fn attribute(&mut self, message: Message<'_>) -> Result<(), ModelFileError> {
        for field in message {
            let field = field?;
            match field.number() {
                1 => {
                    field.text()?;
                }
                4 => {
                    field.bytes()?;
                }
                5 | 10 => {
                    self.tensor(field.message()?)?;
                }
                6 | 11 => {
                    self.graph(field.message()?, &mut BTreeSet::new(), &mut Vec::new(), &mut Vec::new())?;
                }
                14 | 15 => check_type(field.message()?)?,
                22 | 23 => {
                    self.sparse_tensor(field.message()?)?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn sparse_tensor(&mut self, message: Message<'_>) -> Result<String, ModelFileError> {
        let mut name = String::new();
        for field in message {
            let field = field?;
            match field.number() {
                1 => name = self.tensor(field.message()?)?,
                2 => {
                    self.tensor(field.message()?)?;
                }
                _ => {}
            }
        }
        Ok(name)
    }

    /// Reads a tensor and returns its name.
    fn tensor(&mut self, message: Message<'_>) -> Result<String, ModelFileError> {
        let mut name = String::new();
        let mut element = ElementType(0);
        let mut external = ExternalTensor::default();
        let mut is_external = false;
        let mut n_elements = Some(1_u64);
        for field in message {
            let field = field?;
            match field.number() {
                1 => field.integers(|size| {
                    n_elements = u64::try_from(size).ok().and_then(|size| n_elements?.checked_mul(size));
                    Ok::<_, WireError>(())
                })?,
                2 => element = ElementType(field.integer()?),
                // Lists of numbers are checked, so that a broken one is an error that says where.
                4 => {
                    field.fixed(4)?;
                }
                10 => {
                    field.fixed(8)?;
                }
                5 | 7 | 11 => field.integers(|_| Ok::<_, WireError>(()))?,
                8 => name = field.text()?.to_owned(),
                9 => {
                    field.bytes()?;
                }
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
            external.n_bytes = element.size().and_then(|size| n_elements?.checked_mul(size));
            self.external.push(external);
        }
        Ok(name)
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
