//! Writes the few ONNX files that the suite needs: one operator after another, with shapes left open.
//!
//! Field numbers are those of onnx.proto3 (ONNX 1.23).

/// The numbers of ONNX's element types (`TensorProto.DataType`).
pub(super) mod element {
    pub(in super::super) const FLOAT: u64 = 1;
    pub(in super::super) const INT64: u64 = 7;
    pub(in super::super) const BOOL: u64 = 9;
}

/// An ONNX model: its operators, its inputs and outputs with their element types, its constants.
#[derive(Default)]
pub(super) struct Graph {
    fields: Vec<u8>,
}

impl Graph {
    /// An operator without attributes.
    pub(super) fn node(self, operator: &str, inputs: &[&str], outputs: &[&str]) -> Self {
        self.node_with(operator, inputs, outputs, &[])
    }

    /// An operator with attributes that are graphs.
    pub(super) fn node_with(
        mut self,
        operator: &str,
        inputs: &[&str],
        outputs: &[&str],
        graphs: &[(&str, Self)],
    ) -> Self {
        let mut node = Vec::new();
        for input in inputs {
            bytes(&mut node, 1, input.as_bytes());
        }
        for output in outputs {
            bytes(&mut node, 2, output.as_bytes());
        }
        bytes(&mut node, 3, outputs.join(" ").as_bytes());
        bytes(&mut node, 4, operator.as_bytes());
        for (name, graph) in graphs {
            let mut attribute = Vec::new();
            bytes(&mut attribute, 1, name.as_bytes());
            bytes(&mut attribute, 6, &graph.encoded());
            // AttributeProto.GRAPH
            number(&mut attribute, 20, 5);
            bytes(&mut node, 5, &attribute);
        }
        bytes(&mut self.fields, 1, &node);
        self
    }

    /// An input of any rank; a scalar if `is_scalar`.
    pub(super) fn input(mut self, name: &str, element: u64, is_scalar: bool) -> Self {
        bytes(&mut self.fields, 11, &value(name, element, is_scalar));
        self
    }

    /// An output of any rank; a scalar if `is_scalar`.
    pub(super) fn output(mut self, name: &str, element: u64, is_scalar: bool) -> Self {
        bytes(&mut self.fields, 12, &value(name, element, is_scalar));
        self
    }

    /// A constant.
    pub(super) fn constant(mut self, name: &str, element: u64, shape: &[u64], data: &[u8]) -> Self {
        let mut tensor = Vec::new();
        for &dimension in shape {
            number(&mut tensor, 1, dimension);
        }
        number(&mut tensor, 2, element);
        bytes(&mut tensor, 8, name.as_bytes());
        bytes(&mut tensor, 9, data);
        bytes(&mut self.fields, 5, &tensor);
        self
    }

    fn encoded(&self) -> Vec<u8> {
        let mut graph = self.fields.clone();
        bytes(&mut graph, 2, b"graph");
        graph
    }

    /// The model file, of operator set 17.
    pub(super) fn file(&self) -> Vec<u8> {
        let mut operator_set = Vec::new();
        bytes(&mut operator_set, 1, b"");
        number(&mut operator_set, 2, 17);
        let mut model = Vec::new();
        number(&mut model, 1, 8);
        bytes(&mut model, 7, &self.encoded());
        bytes(&mut model, 8, &operator_set);
        model
    }
}

fn value(name: &str, element: u64, is_scalar: bool) -> Vec<u8> {
    let (mut tensor, mut kind, mut value) = (Vec::new(), Vec::new(), Vec::new());
    number(&mut tensor, 1, element);
    if is_scalar {
        bytes(&mut tensor, 2, b"");
    }
    bytes(&mut kind, 1, &tensor);
    bytes(&mut value, 1, name.as_bytes());
    bytes(&mut value, 2, &kind);
    value
}

fn number(message: &mut Vec<u8>, field: u64, value: u64) {
    varint(message, field << 3);
    varint(message, value);
}

fn bytes(message: &mut Vec<u8>, field: u64, value: &[u8]) {
    varint(message, field << 3 | 2);
    varint(message, value.len() as u64);
    message.extend_from_slice(value);
}

fn varint(message: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        message.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    message.push(value as u8);
}
