//! Finds out which operators `rten` has. It has no public list, so a model with only that operator is loaded for each one.

use rten::{LoadErrorKind, ModelOptions};

use crate::model_file::Operator;

/// Whether `rten` knows an operator. Other errors, such as those about its attributes, do not count.
pub(super) fn is_supported(operator: &Operator) -> bool {
    // The engine treats constants as part of the graph, not as operators.
    if operator.domain.is_empty() && operator.name == "Constant" {
        return true;
    }
    let mut options = ModelOptions::with_all_ops();
    options.enable_optimization(false);
    match options.load(model_of(operator)) {
        Ok(_) => true,
        // The error's type is private, so its text is compared; a test checks that it still has these words.
        Err(error) if error.kind() == LoadErrorKind::OperatorInvalid => {
            let message = error.to_string();
            !message.contains("not supported or not enabled") && !message.contains("not enabled because")
        }
        Err(_) => true,
    }
}

/// A model with one node: `operator` without attributes, from `x` to `y`.
fn model_of(operator: &Operator) -> Vec<u8> {
    let mut node = Vec::new();
    put_text(&mut node, 1, "x");
    put_text(&mut node, 2, "y");
    put_text(&mut node, 4, &operator.name);
    put_text(&mut node, 7, &operator.domain);
    let mut value = Vec::new();
    put_text(&mut value, 1, "x");
    let mut graph = Vec::new();
    put_bytes(&mut graph, 1, &node);
    put_bytes(&mut graph, 11, &value);
    let mut model = Vec::new();
    // ir_version = 8.
    model.extend([0x08, 0x08]);
    put_bytes(&mut model, 7, &graph);
    // opset_import { version = 21 }.
    put_bytes(&mut model, 8, &[0x10, 21]);
    model
}

fn put_text(message: &mut Vec<u8>, number: u8, text: &str) {
    put_bytes(message, number, text.as_bytes());
}

/// Appends a field that holds bytes; `number` is below 16, so that its tag is one byte.
fn put_bytes(message: &mut Vec<u8>, number: u8, bytes: &[u8]) {
    message.push(number << 3 | 2);
    let mut length = bytes.len();
    while length >= 0x80 {
        message.push((length & 0x7f) as u8 | 0x80);
        length >>= 7;
    }
    message.push(length as u8);
    message.extend(bytes);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_and_unknown() {
        let check = |domain: &str, name: &str, expected: bool| {
            let operator = Operator { domain: domain.to_owned(), name: name.to_owned() };
            assert_eq!(is_supported(&operator), expected, "{operator}");
        };
        for name in ["MatMul", "Conv", "Gemm", "Relu", "If", "Loop", "Dropout", "Constant", "LSTM", "Cast", "Resize"] {
            check("", name, true);
        }
        for name in ["StringNormalizer", "TfIdfVectorizer", "DFT", "NoSuchOperator", "Scan"] {
            check("", name, false);
        }
        check("com.microsoft", "MatMulNBits", true);
        check("com.microsoft", "NoSuchOperator", false);
        check("ai.onnx.ml", "TreeEnsembleClassifier", false);
        check("x", &"long".repeat(100), false);
    }
}
