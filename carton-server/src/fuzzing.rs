//! Exposes the parsers of requests to the fuzz targets. Otherwise only a server reaches them. Only `cargo fuzz` sets `cfg(fuzzing)`, so this
//! is not part of the API.

use bytes::Bytes;
use carton_core::{DataType, Tensor, Tensors};

use crate::access::TraceContext;
use crate::protocol::binary;
use crate::protocol::datatype::InputTypes;
use crate::protocol::request::{InputData, OutputChoice, Request, n_elements};
use crate::protocol::response::Response;

pub use crate::grpc::fuzzing::{GrpcRequest, decoded_by_library, grpc_request};

/// The inputs of a request over HTTP, whose JSON has this length, or all bytes.
pub fn http_request(json_length: Option<usize>, body: &[u8]) -> Option<Tensors> {
    let (json, mut rest) = body.split_at_checked(json_length.unwrap_or(body.len()))?;
    let request = Request::parse(json, rest.len(), &InputTypes::new(), &mut |_| Ok(())).ok()?;
    let mut inputs = Tensors::new();
    for input in request.inputs {
        let tensor = match input.data {
            InputData::Json(tensor) => tensor,
            InputData::Binary { n_bytes } => {
                let (bytes, behind) = rest.split_at_checked(n_bytes)?;
                rest = behind;
                match input.dtype {
                    DataType::String => {
                        let count = n_elements("input", input.dtype, &input.shape).ok()?;
                        binary::parse("input", bytes, input.kind, &input.shape, count).ok()?
                    }
                    dtype => carton_core::NumericTensor::copy_from_bytes(dtype, input.shape, bytes)
                        .map(Tensor::Numeric)
                        .ok()?,
                }
            }
        };
        inputs.insert(input.name, tensor);
    }
    rest.is_empty().then_some(inputs)
}

/// An answer with these outputs: its JSON, and what follows it.
pub fn http_answer(outputs: Tensors, is_binary: bool) -> Option<(Vec<u8>, Vec<u8>)> {
    let choice = OutputChoice { binary: is_binary, ..OutputChoice::default() };
    let (json, chunks) = Response::new(("m", "1"), None, &choice, outputs).and_then(Response::write).ok()?;
    Some((json, chunks.iter().flat_map(|chunk: &Bytes| chunk.iter().copied()).collect()))
}

/// Whether a header of a request is a trace context.
pub fn is_trace_context(header: &str) -> bool {
    TraceContext::parse(header).is_some()
}
