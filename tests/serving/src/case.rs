//! What clients send, and the answer that they must get: a model of one input and one output, both FP32.

use std::path::{Path, PathBuf};

use bytes::Bytes;
use carton_tensor::npy;
use serde::{Deserialize, Serialize};

use crate::Result;
use crate::protocol::model_infer_request::{InferInputTensor, InferRequestedOutputTensor};
use crate::protocol::model_infer_response::InferOutputTensor;
use crate::protocol::{ModelInferRequest, ModelInferResponse};

/// The header that says how many bytes of a body with binary tensors are JSON.
pub(crate) const HEADER_LENGTH: &str = "inference-header-content-length";

/// The ways to send a tensor.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Encoding {
    /// HTTP, numbers in JSON.
    Json,
    /// HTTP, JSON followed by the bytes of the tensors.
    Binary,
    /// gRPC, the bytes of the tensors in `raw_input_contents`.
    Grpc,
}

/// A request and its answer.
pub(crate) struct Case {
    pub(crate) model: &'static str,
    pub(crate) encoding: Encoding,
    input: Tensor,
    output: Tensor,
}

struct Tensor {
    name: &'static str,
    shape: Vec<usize>,
    elements: Vec<f32>,
}

/// A request over HTTP, or the answer to one.
#[derive(Clone)]
pub(crate) struct HttpMessage {
    /// Length of the JSON part, if binary tensors follow it.
    pub(crate) header_length: Option<usize>,
    pub(crate) body: Bytes,
}

/// The JSON of a request.
#[derive(Serialize, Deserialize)]
pub(crate) struct RequestJson {
    pub(crate) inputs: Vec<TensorJson>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    outputs: Vec<RequestedOutputJson>,
}

/// The JSON of an answer.
#[derive(Serialize, Deserialize)]
pub(crate) struct AnswerJson {
    pub(crate) model_name: String,
    pub(crate) outputs: Vec<TensorJson>,
}

/// A tensor in JSON, with its elements or with the number of its bytes after the JSON.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct TensorJson {
    pub(crate) name: String,
    pub(crate) shape: Vec<usize>,
    pub(crate) datatype: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    parameters: Option<TensorParameters>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) data: Option<Vec<f32>>,
}

#[derive(Clone, Serialize, Deserialize)]
struct TensorParameters {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    binary_data_size: Option<usize>,
}

#[derive(Serialize, Deserialize)]
struct RequestedOutputJson {
    name: String,
    parameters: RequestedOutputParameters,
}

#[derive(Serialize, Deserialize)]
struct RequestedOutputParameters {
    binary_data: bool,
}

/// The model of `examples/digits`.
pub(crate) fn digits(encoding: Encoding) -> Result<Case> {
    let folder = repository().join("examples/digits");
    Ok(Case {
        model: "digits",
        encoding,
        input: Tensor::read("image", &folder.join("image.npy"))?,
        output: Tensor::read("probabilities", &folder.join("probabilities.npy"))?,
    })
}

/// The mean of each channel of a picture of 602 KB: a large input and a small output. `peers/make_models.py` makes the model.
pub(crate) fn pixels(encoding: Encoding) -> Case {
    let means = [0.25, 0.5, 0.75];
    // Exact in binary, so that the order in which an engine adds makes little difference.
    let elements = means.iter().flat_map(|mean| std::iter::repeat_n(*mean, 224 * 224)).collect();
    let input = Tensor { name: "x", shape: vec![1, 3, 224, 224], elements };
    Case { model: "pixels", encoding, input, output: Tensor { name: "y", shape: vec![1, 3], elements: means.to_vec() } }
}

/// Four products with large matrices, for which a batch of rows takes little longer than a row. `peers/make_models.py` makes the model,
/// and computes what it gives for this row.
pub(crate) fn layers(encoding: Encoding) -> Result<Case> {
    let elements = (0..1024).map(|index| (index % 251) as f32 / 251.0).collect();
    let input = Tensor { name: "x", shape: vec![1, 1024], elements };
    Ok(Case { model: "layers", encoding, input, output: Tensor::read("y", &models().join("layers.npy"))? })
}

/// The root of the checkout.
pub(crate) fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The folder of what is made and installed for the benchmarks.
pub(crate) fn workspace() -> PathBuf {
    repository().join("target/serving")
}

/// The folder of the models that `peers/make_models.py` makes.
pub(crate) fn models() -> PathBuf {
    workspace().join("models")
}

/// The ONNX file of a model.
pub(crate) fn model_file(model: &str) -> PathBuf {
    match model {
        "digits" => repository().join("examples/digits/model.onnx"),
        _ => models().join(format!("{model}.onnx")),
    }
}

impl Case {
    /// The request over HTTP.
    pub(crate) fn http_request(&self) -> Result<HttpMessage> {
        let mut request = RequestJson { inputs: vec![self.input.json()], outputs: Vec::new() };
        if self.encoding == Encoding::Json {
            return Ok(HttpMessage { header_length: None, body: serde_json::to_vec(&request)?.into() });
        }
        let parameters = RequestedOutputParameters { binary_data: true };
        request.outputs.push(RequestedOutputJson { name: self.output.name.to_owned(), parameters });
        request.inputs = vec![self.input.binary_json()];
        Ok(HttpMessage::binary(&serde_json::to_vec(&request)?, &self.input))
    }

    /// The answer over HTTP of a program that runs no model.
    pub(crate) fn http_answer(&self) -> Result<HttpMessage> {
        self.answer_of(self.output.elements.clone())
    }

    /// The answer over HTTP of a program that has computed these elements.
    pub(crate) fn answer_of(&self, elements: Vec<f32>) -> Result<HttpMessage> {
        let output = Tensor { name: self.output.name, shape: self.output.shape.clone(), elements };
        let tensor = if self.encoding == Encoding::Json { output.json() } else { output.binary_json() };
        let answer = serde_json::to_vec(&AnswerJson { model_name: self.model.to_owned(), outputs: vec![tensor] })?;
        Ok(match self.encoding {
            Encoding::Json => HttpMessage { header_length: None, body: answer.into() },
            _ => HttpMessage::binary(&answer, &output),
        })
    }

    /// The request over gRPC.
    pub(crate) fn grpc_request(&self) -> ModelInferRequest {
        ModelInferRequest {
            model_name: self.model.to_owned(),
            inputs: vec![InferInputTensor {
                name: self.input.name.to_owned(),
                datatype: "FP32".to_owned(),
                shape: self.input.dimensions(),
                ..InferInputTensor::default()
            }],
            outputs: vec![InferRequestedOutputTensor {
                name: self.output.name.to_owned(),
                ..InferRequestedOutputTensor::default()
            }],
            raw_input_contents: vec![self.input.bytes().into()],
            ..ModelInferRequest::default()
        }
    }

    /// The answer over gRPC of a program that runs no model.
    pub(crate) fn grpc_answer(&self) -> ModelInferResponse {
        ModelInferResponse {
            model_name: self.model.to_owned(),
            outputs: vec![InferOutputTensor {
                name: self.output.name.to_owned(),
                datatype: "FP32".to_owned(),
                shape: self.output.dimensions(),
                ..InferOutputTensor::default()
            }],
            raw_output_contents: vec![self.output.bytes()],
            ..ModelInferResponse::default()
        }
    }

    /// Checks an answer over HTTP.
    pub(crate) fn check_http(&self, answer: &HttpMessage) -> Result<()> {
        let (json, binary) = match answer.header_length {
            Some(length) => answer.body.split_at_checked(length).ok_or("the answer is shorter than its header says")?,
            None => (&answer.body[..], &[][..]),
        };
        let parsed: AnswerJson = serde_json::from_slice(json)?;
        let [tensor] = &parsed.outputs[..] else { return Err("not one output".into()) };
        self.check_description(&tensor.name, &tensor.datatype, tensor.shape.iter().map(|size| *size as i64))?;
        match (&tensor.data, tensor.parameters.as_ref().and_then(|parameters| parameters.binary_data_size)) {
            (Some(elements), None) => self.check_elements(elements),
            (None, Some(size)) if size == binary.len() => self.check_bytes(binary),
            _ => Err("the elements are neither in the JSON nor all that follows it".into()),
        }
    }

    /// Checks an answer over gRPC, raw or not: some servers give back the other kind.
    pub(crate) fn check_grpc(&self, answer: &ModelInferResponse) -> Result<()> {
        let [tensor] = &answer.outputs[..] else { return Err("not one output".into()) };
        self.check_description(&tensor.name, &tensor.datatype, tensor.shape.iter().copied())?;
        match (&answer.raw_output_contents[..], &tensor.contents) {
            ([bytes], _) => self.check_bytes(bytes),
            ([], Some(contents)) => self.check_elements(&contents.fp32_contents),
            _ => Err("not the elements of one output".into()),
        }
    }

    fn check_description(&self, name: &str, datatype: &str, shape: impl Iterator<Item = i64>) -> Result<()> {
        if name != self.output.name || datatype != "FP32" || !shape.eq(self.output.dimensions()) {
            return Err(format!("`{name}`, {datatype}, is not the output").into());
        }
        Ok(())
    }

    fn check_bytes(&self, bytes: &[u8]) -> Result<()> {
        let (chunks, rest) = bytes.as_chunks();
        if !rest.is_empty() {
            return Err("the bytes are no elements".into());
        }
        self.check_elements(&chunks.iter().map(|chunk| f32::from_le_bytes(*chunk)).collect::<Vec<_>>())
    }

    fn check_elements(&self, found: &[f32]) -> Result<()> {
        let expected = &self.output.elements;
        let is_close = |(found, expected): (&f32, &f32)| (found - expected).abs() <= 1e-4 + 1e-3 * expected.abs();
        if found.len() != expected.len() || !found.iter().zip(expected).all(is_close) {
            return Err(format!("wrong answer: {:?}, not {:?}", few(found), few(expected)).into());
        }
        Ok(())
    }
}

fn few(elements: &[f32]) -> &[f32] {
    &elements[..elements.len().min(10)]
}

impl HttpMessage {
    fn binary(json: &[u8], tensor: &Tensor) -> Self {
        Self { header_length: Some(json.len()), body: [json, &tensor.bytes()].concat().into() }
    }
}

impl Tensor {
    fn read(name: &'static str, path: &Path) -> Result<Self> {
        let tensor = npy::read_path(path)?;
        let numeric = tensor.as_numeric().ok_or("not a numeric tensor")?;
        Ok(Self { name, shape: numeric.shape().to_vec(), elements: numeric.as_slice::<f32>()?.to_vec() })
    }

    fn dimensions(&self) -> Vec<i64> {
        self.shape.iter().map(|size| *size as i64).collect()
    }

    fn bytes(&self) -> Vec<u8> {
        self.elements.iter().flat_map(|element| element.to_le_bytes()).collect()
    }

    fn json(&self) -> TensorJson {
        TensorJson {
            name: self.name.to_owned(),
            shape: self.shape.clone(),
            datatype: "FP32".to_owned(),
            parameters: None,
            data: Some(self.elements.clone()),
        }
    }

    fn binary_json(&self) -> TensorJson {
        let parameters = TensorParameters { binary_data_size: Some(4 * self.elements.len()) };
        TensorJson { data: None, parameters: Some(parameters), ..self.json() }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn only_the_right_answer_over_http_passes() {
        for case in [digits(Encoding::Json).unwrap(), digits(Encoding::Binary).unwrap(), pixels(Encoding::Binary)] {
            let answer = case.http_answer().unwrap();
            case.check_http(&answer).unwrap();
            let changed = |change: &dyn Fn(&mut Vec<u8>)| {
                let mut body = answer.body.to_vec();
                change(&mut body);
                case.check_http(&HttpMessage { body: body.into(), ..answer.clone() }).is_err()
            };
            assert!(changed(&|body| body.truncate(body.len() - 1)));
            assert!(changed(&|body| body.push(b'1')));
            // The last element, or its last digits, and the name of the output.
            assert!(changed(&|body| body.iter_mut().rev().take(8).for_each(|byte| *byte ^= 1)));
            assert!(changed(&|body| {
                let name = format!("\"{}\"", case.output.name);
                let at = body.windows(name.len()).position(|window| window == name.as_bytes()).unwrap();
                body[at + 1] = b'z';
            }));
        }
    }

    #[test]
    fn only_the_right_answer_over_grpc_passes() {
        let case = digits(Encoding::Grpc).unwrap();
        let right = case.grpc_answer();
        case.check_grpc(&right).unwrap();
        let is_refused = |change: &dyn Fn(&mut ModelInferResponse)| {
            let mut answer = right.clone();
            change(&mut answer);
            case.check_grpc(&answer).is_err()
        };
        assert!(is_refused(&|answer| answer.raw_output_contents[0][3] ^= 1));
        assert!(is_refused(&|answer| answer.raw_output_contents.clear()));
        assert!(is_refused(&|answer| answer.outputs[0].shape = vec![10]));
        assert!(is_refused(&|answer| answer.outputs.clear()));
    }
}
