//! Exposes the parser of `ModelInferRequest` to the fuzz targets, and the library's, to compare them. Compiled for `cfg(fuzzing)` only.

use bytes::Bytes;
use prost::Message;

use super::request::InferRequest;
use super::wire::Fields;
use super::{contents, proto};

/// What a request says, as far as two parsers can be compared.
#[derive(Debug, PartialEq, Eq)]
pub struct GrpcRequest {
    /// The model.
    pub model_name: String,
    /// The name and shape of each input.
    pub inputs: Vec<(String, Vec<i64>)>,
}

/// Parses a message, and the typed contents of its inputs.
pub fn grpc_request(message: &[u8]) -> Option<GrpcRequest> {
    let mut fields = Fields(Bytes::copy_from_slice(message));
    let mut request = InferRequest::default();
    while let Some((number, value)) = fields.next().ok()? {
        if InferRequest::has_field(number) {
            request.add(number, value.bytes().ok()?).ok()?;
        } else if number == InferRequest::RAW_CONTENTS {
            request.count_part().ok()?;
            value.bytes().ok()?;
        }
    }
    request.timeout().ok()?;
    let mut inputs = Vec::new();
    for mut input in request.inputs {
        let shape = input.shape.iter().map(|size| *size as i64).collect();
        if let Some(bytes) = input.contents.take().filter(|contents| !contents.is_empty()) {
            let tensor = contents::parse(&input, bytes, None).ok()?;
            assert_eq!(tensor.shape(), Some(input.shape.as_slice()));
        }
        inputs.push((input.name, shape));
    }
    Some(GrpcRequest { model_name: request.model_name, inputs })
}

/// Parses a message by `prost`.
pub fn decoded_by_library(message: &[u8]) -> Option<GrpcRequest> {
    let request = proto::ModelInferRequest::decode(message).ok()?;
    let inputs = request.inputs.into_iter().map(|input| (input.name, input.shape)).collect();
    Some(GrpcRequest { model_name: request.model_name, inputs })
}
