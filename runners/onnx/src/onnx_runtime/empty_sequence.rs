//! Makes empty sequences. The runtime's C interface makes none, but an operator does (`SequenceEmpty`): it is run in a model of its own.

use carton_runner_interface::runner::RunnerError;
use ort::session::Session;

use super::LIBRARY;
use super::value::Value;
use crate::element_type::ElementType;

/// An empty sequence of tensors with these elements.
///
/// # Errors
/// ONNX Runtime has no sequences of such tensors.
pub(super) fn make(element: ElementType) -> Result<Value<'static>, RunnerError> {
    let failed = |error: &dyn std::fmt::Display| RunnerError::new(format!("an empty sequence of {element}: {error}"));
    let library = LIBRARY.get().ok_or_else(|| failed(&"ONNX Runtime is not loaded"))?;
    let mut builder = Session::builder(&library.environment).map_err(|error| failed(&error))?;
    builder = builder.with_intra_threads(1).map_err(|error| failed(&error))?;
    let session = builder.commit_from_memory(&model(element)).map_err(|error| failed(&error))?;
    let mut made = super::run_session(&session, &[], &[], &[NAME.as_ptr()], vec![None])?;
    made.pop().ok_or_else(|| failed(&"the runtime returned nothing"))
}

/// The name of the output.
const NAME: &std::ffi::CStr = c"s";

/// A `ModelProto` with one operator (onnx.proto).
fn model(element: ElementType) -> Vec<u8> {
    let number = u8::try_from(element.0).unwrap_or(0);
    let attribute = [text(1, b"dtype"), vec![tag(3, 0), number, 0xa0, 0x01, 2]].concat();
    let node = [text(2, NAME.to_bytes()), text(4, b"SequenceEmpty"), text(5, &attribute)].concat();
    let tensor = text(1, &[tag(1, 0), number]);
    let output = [text(1, NAME.to_bytes()), text(2, &text(4, &text(1, &tensor)))].concat();
    let graph = [text(1, &node), text(2, b"g"), text(12, &output)].concat();
    let operator_set = vec![tag(2, 0), 11];
    [vec![tag(1, 0), 8], text(7, &graph), text(8, &operator_set)].concat()
}

/// The key of a field of a message: its number, and how it is encoded.
fn tag(number: u8, encoding: u8) -> u8 {
    number << 3 | encoding
}

/// A field of fewer than 128 bytes.
fn text(number: u8, contents: &[u8]) -> Vec<u8> {
    let length = u8::try_from(contents.len()).unwrap_or(0);
    [&[tag(number, 2), length], contents].concat()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::model_file::{ModelFile, ValueKind};

    #[test]
    fn the_model_is_one() {
        let file = ModelFile::parse(&model(ElementType::STRING)).unwrap();
        let kind = &file.outputs[0].kind;
        assert!(matches!(kind, ValueKind::Sequence { element: ElementType::STRING, .. }), "{kind:?}");
    }
}
