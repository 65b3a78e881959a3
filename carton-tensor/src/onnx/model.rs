//! The tensors of a model, their names (spec/onnx-tensors.md §2), and the model's metadata.

use std::collections::HashMap;

use super::error::{Problem, malformed, quoted, refused};
use super::metadata::{Metadata, Origin};
use super::onnx_type::OnnxType;
use super::source::{Field, FileSource, Message, text};
use super::tensor::{Data, Locations, MAX_NAME, TensorInfo, dimensions, once, tensor, text_once};
use super::wire::Budget;
use crate::element_count;

/// The most tensors, and the most bytes of all of their names.
const MAX_TENSORS: usize = 1 << 20;
const MAX_NAMES: usize = 64 << 20;

/// The most bytes of one text of the metadata.
const MAX_TEXT: u64 = 16 << 20;

/// What a model has, but for the elements of its tensors.
#[derive(Debug, Default)]
pub(super) struct Model {
    pub(super) tensors: Vec<TensorInfo>,
    pub(super) positions: HashMap<String, usize>,
    pub(super) metadata: Metadata,
    pub(super) locations: Locations,
    n_name_bytes: usize,
}

impl Model {
    /// Reads a model.
    pub(super) fn read(source: &FileSource) -> Result<Self, Problem> {
        let budget = Budget::default();
        let mut model = Self::default();
        let (mut has_graph, mut n_training, mut n_functions) = (false, 0, 0);
        let (mut ir_version, mut producer, mut producer_version) = (None, None, None);
        let (mut domain, mut model_version) = (None, None);
        for field in Message::new(source, source.range(), &budget) {
            let field = field?;
            match field.number() {
                1 => {
                    once(&mut ir_version, (), &field, "`ir_version`")?;
                    model.set("onnx.ir_version", field.integer()?.to_string())?;
                }
                2 => model.text("producer_name", &field, &mut producer)?,
                3 => model.text("producer_version", &field, &mut producer_version)?,
                4 => model.text("domain", &field, &mut domain)?,
                5 => {
                    once(&mut model_version, (), &field, "`model_version`")?;
                    model.set("onnx.model_version", field.integer()?.to_string())?;
                }
                7 if has_graph => return malformed("it has two graphs"),
                7 => {
                    has_graph = true;
                    model.graph(field.message()?, "")?;
                }
                8 => {
                    let (domain, version) = operator_set(&field)?;
                    model.set(&format!("onnx.opset_import.{domain}"), version.to_string())?;
                }
                14 => {
                    let (key, value) = property(&field)?;
                    model.metadata.set(&key, value, Origin::Property)?;
                }
                20 => {
                    model.training(field.message()?, &format!("training_info[{n_training}]."))?;
                    n_training += 1;
                }
                25 => {
                    model.function(field.message()?, &format!("functions[{n_functions}]."))?;
                    n_functions += 1;
                }
                _ => {}
            }
        }
        if ir_version.is_none() {
            return malformed("it has no IR version");
        }
        if !has_graph {
            return malformed("it has no graph");
        }
        Ok(model)
    }

    /// Sets the value of a key that fields of the model have, not its properties.
    fn set(&mut self, key: &str, value: String) -> Result<(), Problem> {
        self.metadata.set(key, value, Origin::Field)
    }

    /// Reads the text of a field that a model has at most once, which counts if it is not empty.
    fn text(&mut self, name: &str, field: &Field<'_>, known: &mut Option<()>) -> Result<(), Problem> {
        let what = format!("`{name}`");
        once(known, (), field, &what)?;
        let value = text(field, &what, MAX_TEXT)?;
        if value.is_empty() { Ok(()) } else { self.set(&format!("onnx.{name}"), value) }
    }

    /// Adds a tensor under a name that no other tensor has.
    fn add(&mut self, prefix: &str, name: String, found: TensorInfo, at: u64) -> Result<(), Problem> {
        if name.is_empty() {
            return malformed(format!("the tensor at byte {at} has no name"));
        }
        let name = if prefix.is_empty() { name } else { format!("{prefix}{name}") };
        self.count_name(name.len())?;
        if self.tensors.len() == MAX_TENSORS {
            return refused(format!("it has more than {MAX_TENSORS} tensors"));
        }
        if self.positions.insert(name.clone(), self.tensors.len()).is_some() {
            return malformed(format!("two tensors are named {}, the second at byte {at}", quoted(&name)));
        }
        self.tensors.push(TensorInfo { name, ..found });
        Ok(())
    }

    /// Counts the bytes of a name, or of the path of a graph in others, which is made for each graph.
    fn count_name(&mut self, n_bytes: usize) -> Result<(), Problem> {
        self.n_name_bytes = self.n_name_bytes.saturating_add(n_bytes);
        match self.n_name_bytes > MAX_NAMES {
            true => refused(format!("the names of its tensors and graphs have more than {MAX_NAMES} bytes")),
            false => Ok(()),
        }
    }

    fn training(&mut self, message: Message<'_>, prefix: &str) -> Result<(), Problem> {
        let (mut initialization, mut algorithm) = (None, None);
        for field in message {
            let field = field?;
            match field.number() {
                1 => {
                    once(&mut initialization, (), &field, "`initialization`")?;
                    self.graph(field.message()?, &format!("{prefix}initialization."))?;
                }
                2 => {
                    once(&mut algorithm, (), &field, "`algorithm`")?;
                    self.graph(field.message()?, &format!("{prefix}algorithm."))?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn function(&mut self, message: Message<'_>, prefix: &str) -> Result<(), Problem> {
        let mut n_nodes = 0;
        for field in message {
            let field = field?;
            if field.number() == 7 {
                self.node(&field, prefix, n_nodes)?;
                n_nodes += 1;
            }
        }
        Ok(())
    }

    fn graph(&mut self, message: Message<'_>, prefix: &str) -> Result<(), Problem> {
        self.count_name(prefix.len())?;
        let mut n_nodes = 0;
        for field in message {
            let field = field?;
            match field.number() {
                1 => {
                    self.node(&field, prefix, n_nodes)?;
                    n_nodes += 1;
                }
                5 => {
                    let found = tensor(&field, &mut self.locations)?;
                    self.add(prefix, found.name.clone(), found, field.offset())?;
                }
                15 => {
                    let found = sparse_tensor(&field, &mut self.locations)?;
                    self.add(prefix, found.name.clone(), found, field.offset())?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Reads a node for the graphs in it, and for the tensor of a constant.
    fn node(&mut self, field: &Field<'_>, prefix: &str, index: usize) -> Result<(), Problem> {
        let (mut operator, mut domain, mut output) = (None, None, None);
        let mut attributes = false;
        let message = field.message()?;
        for part in message.clone() {
            let part = part?;
            match part.number() {
                2 if output.is_none() => output = Some(text(&part, "the output of a node", MAX_NAME)?),
                4 => text_once(&mut operator, &part, "the operator of a node", MAX_NAME)?,
                5 => attributes = true,
                7 => text_once(&mut domain, &part, "the domain of a node", MAX_NAME)?,
                _ => {}
            }
        }
        if !attributes {
            return Ok(());
        }
        let is_constant =
            operator.as_deref() == Some("Constant") && matches!(domain.as_deref(), None | Some("" | "ai.onnx"));
        let output = output.filter(|_| is_constant);
        // What the output and the operator are is known, in whatever order the fields are.
        for part in message {
            let part = part?;
            if part.number() == 5 {
                self.attribute(&part, prefix, index, output.as_deref())?;
            }
        }
        Ok(())
    }

    fn attribute(
        &mut self,
        field: &Field<'_>,
        prefix: &str,
        index: usize,
        output: Option<&str>,
    ) -> Result<(), Problem> {
        let (mut name, mut is_wanted) = (None, false);
        let message = field.message()?;
        for part in message.clone() {
            let part = part?;
            match part.number() {
                1 => text_once(&mut name, &part, "the name of an attribute", MAX_NAME)?,
                6 | 11 => is_wanted = true,
                5 | 22 => is_wanted |= output.is_some(),
                _ => {}
            }
        }
        if !is_wanted {
            return Ok(());
        }
        let name = name.unwrap_or_default();
        let (mut n_graphs, mut has_graph) = (0, false);
        for part in message {
            let part = part?;
            match (part.number(), output) {
                (5, Some(output)) if name == "value" => {
                    let found = tensor(&part, &mut self.locations)?;
                    self.add(prefix, output.to_owned(), found, part.offset())?;
                }
                (22, Some(output)) if name == "sparse_value" => {
                    let found = sparse_tensor(&part, &mut self.locations)?;
                    self.add(prefix, output.to_owned(), found, part.offset())?;
                }
                (6, _) if has_graph => {
                    return malformed(format!("the attribute at byte {} has two graphs", field.offset()));
                }
                (6, _) => {
                    has_graph = true;
                    self.graph(part.message()?, &format!("{prefix}node[{index}].{name}."))?;
                }
                (11, _) => {
                    self.graph(part.message()?, &format!("{prefix}node[{index}].{name}[{n_graphs}]."))?;
                    n_graphs += 1;
                }
                _ => {}
            }
        }
        Ok(())
    }
}

fn operator_set(field: &Field<'_>) -> Result<(String, i64), Problem> {
    let (mut domain, mut version) = (None, None);
    for part in field.message()? {
        let part = part?;
        match part.number() {
            1 => text_once(&mut domain, &part, "the domain of an operator set", MAX_NAME)?,
            2 => once(&mut version, part.integer()?, &part, "the version of an operator set")?,
            _ => {}
        }
    }
    let domain = domain.filter(|domain| !domain.is_empty()).unwrap_or_else(|| "ai.onnx".to_owned());
    Ok((domain, version.unwrap_or_default()))
}

fn property(field: &Field<'_>) -> Result<(String, String), Problem> {
    let (mut key, mut value) = (None, None);
    for part in field.message()? {
        let part = part?;
        match part.number() {
            1 => text_once(&mut key, &part, "a key of the metadata", MAX_NAME)?,
            2 => text_once(&mut value, &part, "a value of the metadata", MAX_TEXT)?,
            _ => {}
        }
    }
    Ok((key.unwrap_or_default(), value.unwrap_or_default()))
}

/// Reads the message of a sparse tensor, whose name is that of its values.
fn sparse_tensor(field: &Field<'_>, locations: &mut Locations) -> Result<TensorInfo, Problem> {
    let (mut values, mut indices, mut shape) = (None, None, Vec::new());
    for part in field.message()? {
        let part = part?;
        let which = match part.number() {
            1 => &mut values,
            2 => &mut indices,
            3 => {
                dimensions(&part, &mut shape)?;
                continue;
            }
            _ => continue,
        };
        if which.replace(tensor(&part, locations)?).is_some() {
            return malformed(format!("the sparse tensor at byte {} has two of its parts twice", field.offset()));
        }
    }
    let (Some(values), Some(indices)) = (values, indices) else {
        return malformed(format!("the sparse tensor at byte {} has no values or no indices", field.offset()));
    };
    let named = format!("sparse tensor {} at byte {}", quoted(&values.name), field.offset());
    let (name, onnx_type) = (values.name.clone(), values.onnx_type);
    let unsupported = match (&values.unsupported, values.onnx_type) {
        (Some(reason), _) => Some(reason.clone()),
        (None, Some(of)) if of.bits() < 8 => Some(format!("sparse tensors of {} are not read", of.name())),
        _ => None,
    };
    if unsupported.is_some() {
        let data = Data::Nothing;
        return Ok(TensorInfo { name, shape, onnx_type, n_bytes: 0, stored: 0, data, unsupported });
    }
    if indices.onnx_type != Some(OnnxType::Int64) || indices.unsupported.is_some() {
        return malformed(format!("the indices of {named} are not int64"));
    }
    let [n_values] = values.shape[..] else {
        return malformed(format!("the values of {named} have the shape {:?}, expected one dimension", values.shape));
    };
    if indices.shape != [n_values] && indices.shape != [n_values, shape.len()] {
        return malformed(format!(
            "the indices of {named} have the shape {:?}, expected [{n_values}] or [{n_values}, {}]",
            indices.shape,
            shape.len()
        ));
    }
    let n_bytes = element_count(&shape).and_then(|count| onnx_type?.element_type()?.n_bytes(count));
    if n_bytes.is_none_or(|n_bytes| isize::try_from(n_bytes).is_err()) {
        return malformed(format!("{named} has the shape {shape:?}, which no memory can hold"));
    }
    let n_bytes = values.n_bytes.saturating_add(indices.n_bytes);
    let stored = values.stored.saturating_add(indices.stored);
    let data = Data::Sparse(Box::new([values, indices]));
    Ok(TensorInfo { name, shape, onnx_type, n_bytes, stored, data, unsupported: None })
}
