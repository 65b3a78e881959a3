//! An answer to an inference as bytes, without a copy of large outputs. Pure.

use bytes::Bytes;
use carton_core::{Tensor, Tensors};
use prost::Message;

use super::framing::prefix;
use super::proto;
use super::proto::infer_parameter::ParameterChoice;
use super::request::InferRequest;
use crate::failure::{Failure, Reason, quoted};
use crate::protocol::response::Chosen;
use crate::protocol::{binary, datatype, response};

/// Says of an answer in a stream whether it is the last to its request.
const FINAL: &str = "triton_final_response";
/// The key of `raw_output_contents`: field 6, with a length.
const RAW_CONTENTS: u8 = 6 << 3 | 2;
/// The key of `ModelStreamInferResponse.infer_response`: field 2, with a length.
const STREAMED: u8 = 2 << 3 | 2;
/// Smaller outputs are copied next to what is before them.
const SMALL_OUTPUT: usize = 4 << 10;

/// How an answer is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// As the only one to its request.
    Single,
    /// In a stream. `is_final` is said if the client asked for it.
    Streamed { is_final: Option<bool> },
}

/// The model's outputs as a message with its prefix. Outputs are always raw, as with Triton: all clients read that.
///
/// # Errors
/// The model has no output that the request chose, or an output cannot be written.
pub(super) fn outputs(
    (name, version): (&str, &str),
    request: &InferRequest,
    outputs: Tensors,
    form: Form,
) -> Result<Vec<Bytes>, Failure> {
    let mut message = empty((name, version), &request.id, form);
    let mut contents = Vec::new();
    for Chosen { name, tensor, .. } in response::chosen(&request.outputs, outputs)? {
        let unwritable = || Failure::new(Reason::Model, format!("output {} cannot be written", quoted(&name)));
        contents.push(binary::bytes(&tensor).ok_or_else(unwritable)?);
        message.outputs.push(described(name, &tensor));
    }
    write(&message, contents, form)
}

/// The answer that ends those to a request, if the client asked for one.
///
/// # Errors
/// None: it is small.
pub(super) fn last(model: (&str, &str), request: &InferRequest) -> Result<Vec<Bytes>, Failure> {
    let form = Form::Streamed { is_final: Some(true) };
    write(&empty(model, &request.id, form), Vec::new(), form)
}

fn empty((name, version): (&str, &str), id: &str, form: Form) -> proto::ModelInferResponse {
    let is_final = match form {
        Form::Streamed { is_final: Some(is_final) } => Some(is_final),
        _ => None,
    };
    let parameter = |is_final| proto::InferParameter { parameter_choice: Some(ParameterChoice::BoolParam(is_final)) };
    proto::ModelInferResponse {
        model_name: name.to_owned(),
        model_version: version.to_owned(),
        id: id.to_owned(),
        parameters: is_final.map(|is_final| (FINAL.to_owned(), parameter(is_final))).into_iter().collect(),
        ..Default::default()
    }
}

fn described(name: String, tensor: &Tensor) -> proto::model_infer_response::InferOutputTensor {
    let shape = tensor.shape().unwrap_or_default().iter().map(|size| i64::try_from(*size).unwrap_or(i64::MAX));
    proto::model_infer_response::InferOutputTensor {
        name,
        datatype: tensor.dtype().map_or("UNKNOWN", datatype::name).to_owned(),
        shape: shape.collect(),
        ..Default::default()
    }
}

/// Writes a message, and the raw contents behind it as its last field.
fn write(message: &proto::ModelInferResponse, contents: Vec<Bytes>, form: Form) -> Result<Vec<Bytes>, Failure> {
    let framed = |content: &Bytes| 1 + prost::length_delimiter_len(content.len()) + content.len();
    let n_bytes = message.encoded_len() + contents.iter().map(framed).sum::<usize>();
    let mut head = Vec::new();
    match form {
        Form::Single => head.extend(prefix(n_bytes)?),
        Form::Streamed { .. } => {
            head.extend(prefix(1 + prost::length_delimiter_len(n_bytes) + n_bytes)?);
            head.push(STREAMED);
            add_length(&mut head, n_bytes);
        }
    }
    head.extend(message.encode_to_vec());
    let mut chunks = Vec::new();
    for content in contents {
        head.push(RAW_CONTENTS);
        add_length(&mut head, content.len());
        if content.len() <= SMALL_OUTPUT {
            head.extend_from_slice(&content);
        } else {
            chunks.push(std::mem::take(&mut head).into());
            chunks.push(content);
        }
    }
    chunks.push(head.into());
    Ok(chunks)
}

fn add_length(bytes: &mut Vec<u8>, length: usize) {
    // A vector has room for it.
    let _ = prost::encode_length_delimiter(length, bytes);
}

/// The failure of a request in a stream, which goes on.
///
/// # Errors
/// None: it is small.
pub(super) fn failed(failure: &Failure, id: &str) -> Result<Bytes, Failure> {
    super::framing::plain(&proto::ModelStreamInferResponse {
        error_message: failure.message.clone(),
        infer_response: Some(proto::ModelInferResponse { id: id.to_owned(), ..Default::default() }),
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::field_reassign_with_default)]

    use super::*;

    fn tensors() -> Tensors {
        let (small, large) = (vec![1.0_f32, 0.5], vec![7_i64; 1000]);
        Tensors::from([
            ("small".to_owned(), Tensor::from_vec(small, vec![1, 2]).unwrap()),
            ("large".to_owned(), Tensor::from_vec(large, vec![1000]).unwrap()),
            ("strings".to_owned(), Tensor::from_strings(["a", "äb"], vec![2]).unwrap()),
        ])
    }

    fn check(message: &proto::ModelInferResponse) {
        assert_eq!((message.model_name.as_str(), message.model_version.as_str(), message.id.as_str()), ("m", "1", "7"));
        let contents: Vec<_> = message.outputs.iter().zip(&message.raw_output_contents).collect();
        assert_eq!(contents.len(), 3);
        for (output, content) in contents {
            let (datatype, shape, bytes) = match output.name.as_str() {
                "small" => ("FP32", vec![1, 2], [1.0_f32.to_le_bytes(), 0.5_f32.to_le_bytes()].concat()),
                "large" => ("INT64", vec![1000], 7_i64.to_le_bytes().repeat(1000)),
                _ => ("BYTES", vec![2], b"\x01\0\0\0a\x03\0\0\0\xc3\xa4b".to_vec()),
            };
            assert_eq!((output.datatype.as_str(), &output.shape, content), (datatype, &shape, &Bytes::from(bytes)));
        }
    }

    #[test]
    fn outputs_are_raw() {
        let mut request = InferRequest::default();
        request.id = "7".to_owned();
        let write = |form| {
            let mut message = outputs(("m", "1"), &request, tensors(), form).unwrap().concat();
            let body = message.split_off(5);
            assert_eq!(message, prefix(body.len()).unwrap());
            body
        };
        check(&proto::ModelInferResponse::decode(write(Form::Single).as_slice()).unwrap());
        let streamed = write(Form::Streamed { is_final: Some(false) });
        let streamed = proto::ModelStreamInferResponse::decode(streamed.as_slice()).unwrap();
        let answer = streamed.infer_response.unwrap();
        check(&answer);
        let said = proto::InferParameter { parameter_choice: Some(ParameterChoice::BoolParam(false)) };
        assert_eq!((streamed.error_message.as_str(), &answer.parameters[FINAL]), ("", &said));
    }
}
