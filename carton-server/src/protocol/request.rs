//! An inference request: its JSON, whole or as the header of binary tensors.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use carton_core::metadata::TensorSpec;
use carton_core::tensor::mark_bare_numbers;
use carton_core::{DataType, NumericTensor, Tensor};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::bytes_elements::{self, BytesElements};
use super::datatype::InputTypes;
use super::few::{Few, MAX_PARTS, MAX_RANK};
use super::parameter::{self, Parameters, Place};
use super::{datatype, few, json_data};
use crate::failure::Failure;

/// An inference request.
#[derive(Debug)]
pub(crate) struct Request {
    /// What the client calls the request. The answer has it, too.
    pub(crate) id: Option<String>,
    /// The inputs, in the order of the request, which is the order of their bytes behind the JSON.
    pub(crate) inputs: Vec<RequestInput>,
    pub(crate) outputs: OutputChoice,
    /// How long the client waits for the answer.
    pub(crate) timeout: Option<Duration>,
}

/// An input of a request.
#[derive(Debug)]
pub(crate) struct RequestInput {
    pub(crate) name: String,
    pub(crate) dtype: DataType,
    /// What its elements are, if they are `BYTES`.
    pub(crate) kind: BytesElements,
    pub(crate) shape: Vec<usize>,
    pub(crate) data: InputData,
}

/// Where the elements of an input are.
#[derive(Debug)]
pub(crate) enum InputData {
    /// They were in the JSON.
    Json(Tensor),
    /// They are the next bytes behind the JSON. For numbers, the size is the one that dtype and shape need.
    Binary { n_bytes: usize },
}

/// Which outputs the answer has, and in which form.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct OutputChoice {
    /// The chosen outputs, in the order of the request; `None` for all.
    pub(crate) chosen: Option<Vec<ChosenOutput>>,
    /// Whether outputs are binary that do not say themselves whether they are.
    pub(crate) binary: bool,
    /// The outputs that the signature declares, in whose order all are returned.
    pub(crate) declared: Option<Arc<[TensorSpec]>>,
}

/// An output that the request names.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ChosenOutput {
    pub(crate) name: String,
    /// Whether it is binary; `None` leaves that to the request.
    pub(crate) binary: Option<bool>,
    /// Whether bytes in JSON are base64, also where all are UTF-8.
    pub(crate) in_base64: bool,
}

#[derive(Deserialize)]
#[serde(expecting = "an object with inputs")]
struct RawRequest<'a> {
    #[serde(default)]
    id: Option<String>,
    #[serde(default, deserialize_with = "few::parameters")]
    parameters: Option<Parameters>,
    #[serde(borrow)]
    inputs: Few<RawInput<'a>, MAX_PARTS>,
    #[serde(default)]
    outputs: Option<Few<RawOutput, MAX_PARTS>>,
}

#[derive(Deserialize)]
#[serde(expecting = "an input: an object with name, shape and datatype")]
struct RawInput<'a> {
    name: String,
    shape: Few<i64, MAX_RANK>,
    #[serde(borrow)]
    datatype: Cow<'a, str>,
    #[serde(default, deserialize_with = "few::parameters")]
    parameters: Option<Parameters>,
    #[serde(borrow, default)]
    data: Option<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(expecting = "an output: an object with a name")]
struct RawOutput {
    name: String,
    #[serde(default, deserialize_with = "few::parameters")]
    parameters: Option<Parameters>,
}

impl Request {
    /// Parses the JSON of a request, for a model that declares these inputs. `n_behind` is the number of bytes that may follow it, at most.
    /// `claim` is called with the size of the elements of each input before they are parsed, and refuses what is too much: numbers take more
    /// memory than their digits. The numbers `NaN`, `Infinity` and `-Infinity` that Python's `json` writes are read, too.
    ///
    /// # Errors
    /// The text is not a request, an input is named twice, or its data contradicts its shape and datatype.
    pub(crate) fn parse(
        json: &[u8],
        n_behind: usize,
        declared: &InputTypes,
        claim: &mut dyn FnMut(usize) -> Result<(), Failure>,
    ) -> Result<Self, Failure> {
        if !json.trim_ascii_start().starts_with(b"{") {
            return Err(Failure::invalid("the request is not valid JSON of an inference: expected an object"));
        }
        let json = mark_bare_numbers(json);
        if let Cow::Owned(marked) = &json {
            claim(marked.len())?;
        }
        let raw: RawRequest<'_> = serde_json::from_slice(&json)
            .map_err(|error| Failure::invalid(format!("the request is not valid JSON of an inference: {error}")))?;
        let parameters = raw.parameters.unwrap_or_default();
        parameter::check("the request", &parameters)?;
        check_names(&raw.inputs.0)?;
        let mut n_left = n_behind;
        let inputs = raw
            .inputs
            .0
            .into_iter()
            .map(|input| input.parse(&mut n_left, declared, claim))
            .collect::<Result<_, _>>()?;
        let chosen = raw.outputs.map(|outputs| outputs.0).filter(|outputs| !outputs.is_empty());
        let chosen = chosen.map(|outputs| outputs.into_iter().map(RawOutput::parse).collect()).transpose()?;
        let binary = parameter::flag(&parameters, "binary_data_output")?.unwrap_or(false);
        let timeout = parameter::timeout(&parameters)?;
        Ok(Self { id: raw.id, inputs, outputs: OutputChoice { chosen, binary, declared: None }, timeout })
    }
}

/// Checks that no input comes twice.
fn check_names(inputs: &[RawInput<'_>]) -> Result<(), Failure> {
    if inputs.len() < 2 {
        return Ok(());
    }
    let mut names = BTreeSet::new();
    match inputs.iter().find(|input| !names.insert(&input.name)) {
        Some(input) => Err(Failure::invalid(format!("the request has {} twice", Place::input(&input.name)))),
        None => Ok(()),
    }
}

impl RawInput<'_> {
    fn parse(
        self,
        n_left: &mut usize,
        declared: &InputTypes,
        claim: &mut dyn FnMut(usize) -> Result<(), Failure>,
    ) -> Result<RequestInput, Failure> {
        let Self { name, shape, datatype, parameters, data } = self;
        let parameters = parameters.unwrap_or_default();
        let place = Place::input(&name);
        parameter::check(place, &parameters)?;
        let dtype = datatype::parse(&name, &datatype)?;
        let kind = BytesElements::declared(declared.get(&name).copied(), bytes_elements::is_base64(&parameters));
        let shape = sizes(place, &shape.0)?;
        let count = n_elements(place, dtype, &shape)?;
        let data = match (data, parameter::size(&parameters, "binary_data_size")?) {
            (Some(_), Some(_)) => {
                return Err(Failure::invalid(format!("{place} has both `data` and `binary_data_size`")));
            }
            (None, None) => return Err(Failure::invalid(format!("{place} has neither `data` nor `binary_data_size`"))),
            (Some(json), None) => {
                let size = dtype.size().unwrap_or(size_of::<String>());
                claim(json_data::capacity(json.get(), count).saturating_mul(size))?;
                let tensor = json_data::parse(json.get(), dtype, kind, &shape, count);
                InputData::Json(tensor.map_err(|reason| Failure::invalid(format!("{place}: {reason}")))?)
            }
            (None, Some(n_bytes)) => {
                check_size(place, dtype, &shape, n_bytes)?;
                *n_left = n_left.checked_sub(n_bytes).ok_or_else(|| {
                    Failure::invalid(format!("{place} has {n_bytes} bytes, more than the request has behind its JSON"))
                })?;
                InputData::Binary { n_bytes }
            }
        };
        Ok(RequestInput { name, dtype, kind, shape, data })
    }
}

impl RawOutput {
    fn parse(self) -> Result<ChosenOutput, Failure> {
        let parameters = self.parameters.unwrap_or_default();
        parameter::check(Place::output(&self.name), &parameters)?;
        let binary = parameter::flag(&parameters, "binary_data")?;
        Ok(ChosenOutput { in_base64: bytes_elements::is_base64(&parameters), name: self.name, binary })
    }
}

/// The sizes of a shape in a request.
pub(crate) fn sizes(place: impl fmt::Display, shape: &[i64]) -> Result<Vec<usize>, Failure> {
    let sizes = shape.iter().map(|size| usize::try_from(*size)).collect::<Result<Vec<_>, _>>();
    sizes.map_err(|_| Failure::invalid(format!("{place} has the shape {shape:?}, which has a negative size")))
}

/// The number of elements of a shape, each of which has at least one byte.
pub(crate) fn n_elements(place: impl fmt::Display, dtype: DataType, shape: &[usize]) -> Result<usize, Failure> {
    let dtype = if dtype == DataType::String { DataType::Uint8 } else { dtype };
    let n_bytes = NumericTensor::n_bytes_of(dtype, shape);
    let n_bytes = n_bytes.map_err(|error| Failure::invalid(format!("{place}: {error}")))?;
    Ok(n_bytes / dtype.size().unwrap_or(1))
}

/// Checks that an input of `n_bytes` has the size that dtype and shape need. The size of strings is known only from their bytes.
pub(crate) fn check_size(
    place: impl fmt::Display,
    dtype: DataType,
    shape: &[usize],
    n_bytes: usize,
) -> Result<(), Failure> {
    if dtype == DataType::String {
        return Ok(());
    }
    let expected =
        NumericTensor::n_bytes_of(dtype, shape).map_err(|error| Failure::invalid(format!("{place}: {error}")))?;
    if n_bytes != expected {
        return Err(Failure::invalid(format!(
            "{place} has {n_bytes} bytes, expected {expected} for {} {shape:?}",
            datatype::name(dtype)
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn parse(json: &str, n_behind: usize) -> Result<Request, String> {
        Request::parse(json.as_bytes(), n_behind, &InputTypes::new(), &mut |_| Ok(()))
            .map_err(|failure| failure.message)
    }

    #[test]
    fn a_request_in_json() {
        let request = parse(
            r#"{"id": "7", "inputs": [{"data": [[1, 2]], "datatype": "FP32", "shape": [1, 2], "name": "x"}],
                "outputs": [{"name": "y", "parameters": {"binary_data": true}}], "parameters": {"timeout": 1500}, "more": [[{}]]}"#,
            0,
        );
        let request = request.unwrap();
        assert_eq!((request.id.as_deref(), request.timeout), (Some("7"), Some(Duration::from_micros(1500))));
        let expected = Tensor::from_vec(vec![1.0_f32, 2.0], vec![1, 2]).unwrap();
        assert!(matches!(&request.inputs[0].data, InputData::Json(tensor) if *tensor == expected), "{request:?}");
        let chosen = vec![ChosenOutput { name: "y".to_owned(), binary: Some(true), in_base64: false }];
        assert_eq!(request.outputs, OutputChoice { chosen: Some(chosen), binary: false, declared: None });
    }

    #[test]
    fn a_header_of_binary_tensors() {
        let json = r#"{"inputs": [{"name": "x", "shape": [2], "datatype": "INT64", "parameters": {"binary_data_size": 16}},
            {"name": "s", "shape": [1], "datatype": "BYTES", "parameters": {"binary_data_size": 5}}],
            "parameters": {"binary_data_output": true}}"#;
        let request = parse(json, 21).unwrap();
        let sizes: Vec<_> =
            request.inputs.iter().map(|input| matches!(input.data, InputData::Binary { n_bytes: 16 | 5 })).collect();
        assert_eq!((sizes, request.outputs.binary), (vec![true, true], true));
        assert_eq!(parse(json, 20).unwrap_err(), "input `s` has 5 bytes, more than the request has behind its JSON");
    }

    #[test]
    fn what_is_refused() {
        let check = |input: &str, expected: &str| {
            let error = parse(&format!(r#"{{"inputs": [{input}]}}"#), 1 << 40).unwrap_err();
            assert_eq!(error, expected, "{input}");
        };
        let x = |rest: &str| format!(r#"{{"name": "x", {rest}}}"#);
        check(&x(r#""shape": [1], "datatype": "FP32""#), "input `x` has neither `data` nor `binary_data_size`");
        check(
            &x(r#""shape": [-1], "datatype": "FP32", "data": []"#),
            "input `x` has the shape [-1], which has a negative size",
        );
        check(
            &x(r#""shape": [9223372036854775807, 9223372036854775807], "datatype": "FP32", "data": []"#),
            "input `x`: shape [9223372036854775807, 9223372036854775807] of float32 elements is too large",
        );
        check(
            &x(r#""shape": [2], "datatype": "FP32", "parameters": {"binary_data_size": 4}"#),
            "input `x` has 4 bytes, expected 8 for FP32 [2]",
        );
        check(
            &x(r#""shape": [1], "datatype": "FP32", "data": [1], "parameters": {"shared_memory_region": "r"}"#),
            "input `x`: the server has no `shared_memory_region`",
        );
        check(
            &x(r#""shape": [1], "datatype": "COMPLEX64", "data": [1]"#),
            "input `x` has the datatype `COMPLEX64`: the protocol has no complex numbers; send FP32 or FP64 with a last dimension of 2, the real and \
             the imaginary part",
        );
        let twice_marked = x(r#""shape": [1], "datatype": "BYTES", "data": [NaN]"#);
        check(&twice_marked, "input `x`: element 0: expected a string, found \"NaN\"");
        let twice = x(r#""shape": [1], "datatype": "FP32", "data": [1]"#);
        check(&format!("{twice}, {twice}"), "the request has input `x` twice");
        let parameters: Vec<String> = (0..few::MAX_PARAMETERS + 1).map(|index| format!("\"{index}\": 1")).collect();
        let parameters = format!("{{{}}}", parameters.join(","));
        let shape = format!("[{}1]", "1,".repeat(MAX_RANK));
        let outputs = format!("[{}{{\"name\": \"y\"}}]", "{\"name\": \"y\"},".repeat(MAX_PARTS));
        for (json, expected) in [
            (format!(r#"{{"inputs": [], "parameters": {parameters}}}"#), "more than 100 parameters"),
            (format!(r#"{{"inputs": [{{"name": "x", "parameters": {parameters}}}]}}"#), "more than 100 parameters"),
            (format!(r#"{{"inputs": [{{"name": "x", "shape": {shape}}}]}}"#), "more than 1000 entries"),
            (format!(r#"{{"inputs": [], "outputs": {outputs}}}"#), "more than 10000 entries"),
        ] {
            assert!(parse(&json, 0).unwrap_err().contains(expected), "{expected}");
        }
        for json in ["", "[]", "{", "{\"inputs\": 1}", "{\"inputs\": [{}]}", &"[".repeat(100_000)] {
            assert!(parse(json, 0).unwrap_err().starts_with("the request is not valid JSON"), "{json}");
        }
        let error = parse(r#"{"inputs": [1]}"#, 0).unwrap_err();
        assert!(error.contains("expected an input: an object with name, shape and datatype"), "{error}");
        assert!(parse(r#"{"inputs": [], "outputs": null, "parameters": {"sequence_id": 0}}"#, 0).is_ok());
    }
}
