//! Rewrites operators that `rten` would refuse, or would compute differently from the ONNX operator specifications.
//!
//! - `rten` does not infer the `kernel_shape` of convolutions and the `strides` of poolings, so they are stated.
//! - `ArgMax` and `ArgMin` return the first of several equal elements, but `rten`'s return the last. The axis is therefore
//!   reversed before, and the index after. Operators that request the last element (with `select_last_index`, which `rten`
//!   refuses) become `rten`'s own.
//! - `MatMul` with a vector has one dimension less than with a matrix, but in `rten` not always.
//! - `Sign` of zero is zero, but in `rten` it is one.
//!
//! Models with deviations that cannot be rewritten are refused instead ([`deviations`]).

use std::collections::{BTreeMap, BTreeSet};

use rten_onnx::onnx::{AttributeProto, AttributeType, DataType, GraphProto, NodeProto, TensorProto};

use crate::model_file::{CONVOLUTIONS, ModelFile, POOLINGS};

/// Operators whose results differ in `rten`, and that are rewritten wherever they occur.
const REPAIRED: [&str; 3] = ["ArgMax", "ArgMin", "Sign"];

/// Whether [`repair`] would change anything in a model.
pub(super) fn is_needed(file: &ModelFile) -> bool {
    file.has_implied_windows
        || file.has_vector_products
        || file
            .operators
            .iter()
            .any(|operator| operator.domain.is_empty() && REPAIRED.contains(&operator.name.as_str()))
}

/// Returns the operators that the engine would compute differently from their specification, as text for messages.
pub(super) fn deviations(file: &ModelFile) -> Vec<String> {
    let mut found = Vec::new();
    // The engine compares boxes across images and classes, and uses the hull of two boxes as their union.
    if file.operators.iter().any(|operator| operator.domain.is_empty() && operator.name == "NonMaxSuppression") {
        found.push("`NonMaxSuppression`".to_owned());
    }
    for choice in &file.choices {
        match (choice.name, choice.value.as_str()) {
            // The engine pads at the end.
            ("auto_pad", "SAME_LOWER") => found.push(format!("`{}` with auto_pad SAME_LOWER", choice.operator)),
            // The engine interpolates linearly.
            ("mode", "cubic") if choice.operator.name == "Resize" => found.push("`Resize` with mode cubic".to_owned()),
            _ => {}
        }
    }
    found
}

/// Repairs a graph and the graphs inside its operators.
pub(super) fn repair(graph: &mut GraphProto) {
    Repair { names: 0, kernels: Vec::new() }.graph(graph);
}

struct Repair {
    /// The number of generated names.
    names: usize,
    /// The shapes of possible kernels by name, for the outermost graph, a graph inside it, and so on.
    kernels: Vec<BTreeMap<String, Vec<i64>>>,
}

impl Repair {
    fn graph(&mut self, graph: &mut GraphProto) {
        let kernels = graph.initializer.iter().filter_map(|tensor| match (&tensor.name, tensor.dims.get(2..)) {
            (Some(name), Some(shape @ [_, ..])) => Some((name.clone(), shape.to_vec())),
            _ => None,
        });
        self.kernels.push(kernels.collect());
        let vectors = vectors(graph);
        for mut node in std::mem::take(&mut graph.node) {
            for attribute in &mut node.attribute {
                if let Some(inner) = &mut attribute.g {
                    self.graph(inner);
                }
            }
            let is_standard = matches!(node.domain.as_deref(), None | Some("" | "ai.onnx"));
            match node.op_type.as_deref() {
                Some("ArgMax" | "ArgMin") if is_standard => self.first_index(node, graph),
                Some("MatMul") if node.input.get(1).is_some_and(|factor| vectors.contains(factor)) => {
                    self.vector_product(node, graph);
                }
                Some("Sign") if is_standard => self.sign(node, graph),
                _ => {
                    self.state_window(&mut node);
                    graph.node.push(node);
                }
            }
        }
        self.kernels.pop();
    }

    /// States the `kernel_shape` of a convolution if it follows from its weights, and the `strides` of a pooling.
    fn state_window(&self, node: &mut NodeProto) {
        let name = node.op_type.as_deref().unwrap_or_default();
        let stated = if CONVOLUTIONS.contains(&name) && attribute(node, "kernel_shape").is_none() {
            let weights = node.input.get(1).map(String::as_str).unwrap_or_default();
            let shape = self.kernels.iter().rev().find_map(|kernels| kernels.get(weights));
            shape.map(|shape| ("kernel_shape", shape.clone()))
        } else if POOLINGS.contains(&name) && attribute(node, "strides").is_none() {
            attribute(node, "kernel_shape").map(|kernel| ("strides", vec![1; kernel.ints.len()]))
        } else {
            None
        };
        if let Some((name, ints)) = stated {
            node.attribute.push(AttributeProto {
                name: Some(name.to_owned()),
                ints,
                r#type: Some(AttributeType::INTS),
                ..AttributeProto::default()
            });
        }
    }

    /// Replaces `ArgMax` or `ArgMin` by that of the reversed axis, with the index counted from the end.
    fn first_index(&mut self, mut node: NodeProto, graph: &mut GraphProto) {
        let integer = |name: &str| attribute(&node, name).and_then(|attribute| attribute.i);
        let axis = integer("axis").unwrap_or(0);
        let is_last = integer("select_last_index").unwrap_or(0) != 0;
        node.attribute.retain(|attribute| attribute.name.as_deref() != Some("select_last_index"));
        let (Some(input), Some(output)) = (node.input.first().cloned(), node.output.first().cloned()) else {
            return graph.node.push(node);
        };
        if is_last {
            return graph.node.push(node);
        }
        let end = self.constant(graph, -1, &[1]);
        let start = self.constant(graph, i64::MIN, &[1]);
        let axes = self.constant(graph, axis, &[1]);
        let [reversed, index, shape, size, last] = std::array::from_fn(|_| self.name());
        let slice = [&input, &end, &start, &axes, &end];
        graph.node.push(operator("Slice", &slice, &reversed));
        node.input = vec![reversed];
        node.output = vec![index.clone()];
        graph.node.push(node);
        let axis = self.constant(graph, axis, &[]);
        let one = self.constant(graph, 1, &[]);
        graph.node.push(operator("Shape", &[&input], &shape));
        graph.node.push(operator("Gather", &[&shape, &axis], &size));
        graph.node.push(operator("Sub", &[&size, &one], &last));
        graph.node.push(operator("Sub", &[&last, &index], &output));
    }

    /// Replaces a product with a vector by one with a matrix of one column, and removes the column axis from the result.
    fn vector_product(&mut self, mut node: NodeProto, graph: &mut GraphProto) {
        let (Some(vector), Some(output)) = (node.input.get(1).cloned(), node.output.first().cloned()) else {
            return graph.node.push(node);
        };
        let column_axis = self.constant(graph, 1, &[1]);
        let last_axis = self.constant(graph, -1, &[1]);
        let [column, product] = std::array::from_fn(|_| self.name());
        graph.node.push(operator("Unsqueeze", &[&vector, &column_axis], &column));
        node.input.truncate(1);
        node.input.push(column);
        node.output = vec![product.clone()];
        graph.node.push(node);
        graph.node.push(operator("Squeeze", &[&product, &last_axis], &output));
    }

    /// Replaces `Sign` so that zeros stay zeros for every type of elements: `x - x` is zero for every finite `x`.
    fn sign(&mut self, mut node: NodeProto, graph: &mut GraphProto) {
        let (Some(input), Some(output)) = (node.input.first().cloned(), node.output.first().cloned()) else {
            return graph.node.push(node);
        };
        let [zero, is_zero, sign] = std::array::from_fn(|_| self.name());
        graph.node.push(operator("Sub", &[&input, &input], &zero));
        graph.node.push(operator("Equal", &[&input, &zero], &is_zero));
        node.output = vec![sign.clone()];
        graph.node.push(node);
        graph.node.push(operator("Where", &[&is_zero, &input, &sign], &output));
    }

    /// Adds an int64 constant of one element to a graph and returns its name.
    fn constant(&mut self, graph: &mut GraphProto, value: i64, shape: &[i64]) -> String {
        let name = self.name();
        graph.initializer.push(TensorProto {
            dims: shape.to_vec(),
            data_type: Some(DataType::INT64),
            int64_data: vec![value],
            name: Some(name.clone()),
            ..TensorProto::default()
        });
        name
    }

    fn name(&mut self) -> String {
        self.names += 1;
        format!("carton.repair.{}", self.names)
    }
}

/// Returns the names of a graph's values that are known to have one dimension.
fn vectors(graph: &GraphProto) -> BTreeSet<String> {
    let constants = graph.initializer.iter().filter(|tensor| tensor.dims.len() == 1).map(|tensor| &tensor.name);
    let values = graph.input.iter().chain(&graph.output).chain(&graph.value_info).filter(|value| {
        let tensor = value.r#type.as_ref().and_then(|kind| kind.tensor_type.as_ref());
        tensor.and_then(|tensor| tensor.shape.as_ref()).is_some_and(|shape| shape.dim.len() == 1)
    });
    constants.chain(values.map(|value| &value.name)).flatten().cloned().collect()
}

fn attribute<'a>(node: &'a NodeProto, name: &str) -> Option<&'a AttributeProto> {
    node.attribute.iter().find(|attribute| attribute.name.as_deref() == Some(name))
}

/// A standard operator without attributes.
fn operator(name: &str, inputs: &[&String], output: &str) -> NodeProto {
    NodeProto {
        op_type: Some(name.to_owned()),
        input: inputs.iter().map(|input| (*input).clone()).collect(),
        output: vec![output.to_owned()],
        ..NodeProto::default()
    }
}
