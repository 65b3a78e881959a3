//! An inference request (`ModelInferRequest`), field by field. Pure.

use std::collections::BTreeSet;
use std::time::Duration;

use bytes::Bytes;
use carton_core::DataType;

use super::wire::{Fields, Value, text, varint};
use crate::failure::{Failure, quoted};
use crate::protocol::bytes_elements::{self, BytesElements};
use crate::protocol::datatype;
use crate::protocol::few::{MAX_PARTS, MAX_RANK};
use crate::protocol::parameter::{self, Parameter, Parameters, Place};
use crate::protocol::request::{ChosenOutput, OutputChoice, n_elements, sizes};

/// What a request says, without its tensors.
#[derive(Debug, Default)]
pub(super) struct InferRequest {
    pub(super) model_name: String,
    /// Empty if the server chooses it.
    pub(super) model_version: String,
    /// What the client calls the request. The answer has it, too.
    pub(super) id: String,
    pub(super) parameters: Parameters,
    /// In the order of the request, which is the order of the raw contents.
    pub(super) inputs: Vec<Input>,
    pub(super) outputs: OutputChoice,
    names: BTreeSet<String>,
    n_parts: usize,
}

/// An input of a request.
#[derive(Debug)]
pub(super) struct Input {
    pub(super) name: String,
    pub(super) dtype: DataType,
    pub(super) shape: Vec<usize>,
    /// The number of elements of the shape.
    pub(super) count: usize,
    /// Whether its elements are base64, if they are `BYTES`.
    pub(super) is_base64: bool,
    /// The typed contents, as bytes.
    pub(super) contents: Option<Bytes>,
}

impl Input {
    /// Whether it has typed contents. Some clients write the message without elements beside raw contents.
    pub(super) fn has_contents(&self) -> bool {
        self.contents.as_ref().is_some_and(|contents| !contents.is_empty())
    }

    /// What its elements are, if they are `BYTES`, for an input that is declared with this dtype.
    pub(super) fn kind(&self, declared: Option<DataType>) -> BytesElements {
        BytesElements::declared(declared, self.is_base64)
    }
}

impl InferRequest {
    /// The field with the name of the model.
    pub(super) const MODEL_NAME: u32 = 1;
    /// The field with the raw contents of an input, which the caller reads.
    pub(super) const RAW_CONTENTS: u32 = 7;

    /// Whether [`add`](Self::add) takes a field of this number. Further ones are of later versions of the protocol.
    pub(super) fn has_field(number: u32) -> bool {
        (Self::MODEL_NAME..Self::RAW_CONTENTS).contains(&number)
    }

    /// Adds a field.
    ///
    /// # Errors
    /// It is malformed, an input is named twice or has an invalid shape or datatype, or there are too many.
    pub(super) fn add(&mut self, number: u32, bytes: Bytes) -> Result<(), Failure> {
        match number {
            Self::MODEL_NAME => self.model_name = text(&bytes)?,
            2 => self.model_version = text(&bytes)?,
            3 => self.id = text(&bytes)?,
            4 => {
                self.count_part()?;
                add_parameter(&mut self.parameters, bytes)?;
            }
            5 => {
                self.count_part()?;
                let input = self.input(bytes)?;
                if !self.names.insert(input.name.clone()) {
                    return Err(Failure::invalid(format!("the request has input {} twice", quoted(&input.name))));
                }
                self.inputs.push(input);
            }
            6 => {
                self.count_part()?;
                let output = self.output(bytes)?;
                self.outputs.chosen.get_or_insert_default().push(output);
            }
            _ => {}
        }
        Ok(())
    }

    /// Counts an input, an output, a parameter or the raw contents of an input.
    ///
    /// # Errors
    /// There are too many.
    pub(super) fn count_part(&mut self) -> Result<(), Failure> {
        self.n_parts += 1;
        match self.n_parts > MAX_PARTS {
            true => Err(Failure::invalid(format!(
                "the request has more than {MAX_PARTS} inputs, outputs, parameters and raw contents"
            ))),
            false => Ok(()),
        }
    }

    /// Checks what only the whole request tells. Returns how long the client waits.
    ///
    /// # Errors
    /// A parameter asks for something that the server does not have.
    pub(super) fn timeout(&self) -> Result<Option<Duration>, Failure> {
        parameter::check("the request", &self.parameters)?;
        parameter::timeout(&self.parameters)
    }

    fn input(&mut self, bytes: Bytes) -> Result<Input, Failure> {
        let (mut name, mut datatype, mut shape) = (String::new(), String::new(), Vec::new());
        let (mut parameters, mut contents) = (Parameters::new(), None);
        let mut fields = Fields(bytes);
        while let Some((number, value)) = fields.next()? {
            match number {
                1 => name = value.text()?,
                2 => datatype = value.text()?,
                3 => add_sizes(&mut shape, value)?,
                4 => {
                    self.count_part()?;
                    add_parameter(&mut parameters, value.bytes()?)?;
                }
                5 if contents.is_some() => {
                    return Err(Failure::invalid(format!("input {} has `contents` twice", quoted(&name))));
                }
                5 => contents = Some(value.bytes()?),
                _ => {}
            }
        }
        let place = Place::input(&name);
        parameter::check(place, &parameters)?;
        let dtype = datatype::parse(&name, &datatype)?;
        let shape = sizes(place, &shape)?;
        let count = n_elements(place, dtype, &shape)?;
        let is_base64 = bytes_elements::is_base64(&parameters);
        Ok(Input { name, dtype, shape, count, is_base64, contents })
    }

    fn output(&mut self, bytes: Bytes) -> Result<ChosenOutput, Failure> {
        let (mut name, mut parameters) = (String::new(), Parameters::new());
        let mut fields = Fields(bytes);
        while let Some((number, value)) = fields.next()? {
            match number {
                1 => name = value.text()?,
                2 => {
                    self.count_part()?;
                    add_parameter(&mut parameters, value.bytes()?)?;
                }
                _ => {}
            }
        }
        parameter::check(Place::output(&name), &parameters)?;
        Ok(ChosenOutput { name, binary: None, in_base64: false })
    }
}

/// Adds sizes to a shape: a list, or one.
fn add_sizes(shape: &mut Vec<i64>, value: Value) -> Result<(), Failure> {
    let mut list = match value {
        Value::Bytes(list) => list,
        Value::Varint(size) => {
            shape.push(size as i64);
            return check_rank(shape);
        }
        _ => return value.bytes().map(drop),
    };
    while !list.is_empty() {
        shape.push(varint(&mut list)? as i64);
        check_rank(shape)?;
    }
    Ok(())
}

fn check_rank(shape: &[i64]) -> Result<(), Failure> {
    match shape.len() > MAX_RANK {
        true => Err(Failure::invalid(format!("a shape has more than {MAX_RANK} dimensions"))),
        false => Ok(()),
    }
}

/// Adds an entry of a map of parameters.
fn add_parameter(parameters: &mut Parameters, entry: Bytes) -> Result<(), Failure> {
    let (mut name, mut parameter) = (String::new(), Parameter::Other);
    let mut fields = Fields(entry);
    while let Some((number, value)) = fields.next()? {
        match number {
            1 => name = value.text()?,
            2 => parameter = parse_parameter(value.bytes()?)?,
            _ => {}
        }
    }
    parameters.insert(name, parameter);
    Ok(())
}

fn parse_parameter(bytes: Bytes) -> Result<Parameter, Failure> {
    let mut parameter = Parameter::Other;
    let mut fields = Fields(bytes);
    while let Some(field) = fields.next()? {
        parameter = match field {
            (1, Value::Varint(value)) => Parameter::Boolean(value != 0),
            (2, Value::Varint(value)) => Parameter::Integer(value as i64),
            (3, value) => Parameter::Text(value.text()?),
            (5, Value::Varint(value)) => i64::try_from(value).map_or(Parameter::Other, Parameter::Integer),
            _ => Parameter::Other,
        };
    }
    Ok(parameter)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use prost::Message;

    use super::super::proto;
    use super::*;

    fn parse(request: &proto::ModelInferRequest) -> Result<(InferRequest, Option<Duration>), String> {
        let mut parsed = InferRequest::default();
        let mut add = || {
            let mut fields = Fields(request.encode_to_vec().into());
            while let Some((number, value)) = fields.next()? {
                parsed.add(number, value.bytes()?)?;
            }
            parsed.timeout()
        };
        let timeout = add().map_err(|failure: Failure| failure.message)?;
        Ok((parsed, timeout))
    }

    fn parameter(choice: proto::infer_parameter::ParameterChoice) -> proto::InferParameter {
        proto::InferParameter { parameter_choice: Some(choice) }
    }

    fn input(name: &str, datatype: &str, shape: &[i64]) -> proto::model_infer_request::InferInputTensor {
        let (name, datatype, shape) = (name.to_owned(), datatype.to_owned(), shape.to_vec());
        proto::model_infer_request::InferInputTensor { name, datatype, shape, ..Default::default() }
    }

    #[test]
    fn a_request() {
        use proto::infer_parameter::ParameterChoice::{BoolParam, DoubleParam, Int64Param, StringParam, Uint64Param};

        let parameters = [
            ("timeout", StringParam("1500".to_owned())),
            ("truth", BoolParam(true)),
            ("number", Int64Param(-7)),
            ("large", Uint64Param(7)),
            ("too_large", Uint64Param(u64::MAX)),
            ("double", DoubleParam(0.5)),
        ];
        let parameters = parameters.map(|(name, value)| (name.to_owned(), parameter(value)));
        let outputs = ["b", "a"].map(|name| proto::model_infer_request::InferRequestedOutputTensor {
            name: name.to_owned(),
            ..Default::default()
        });
        let request = proto::ModelInferRequest {
            model_name: "m".to_owned(),
            model_version: "2".to_owned(),
            id: "7".to_owned(),
            parameters: parameters.into(),
            inputs: vec![input("x", "FP32", &[2, 3]), input("s", "BYTES", &[])],
            outputs: outputs.to_vec(),
            raw_input_contents: Vec::new(),
        };
        let (parsed, timeout) = parse(&request).unwrap();
        assert_eq!((parsed.model_name.as_str(), parsed.model_version.as_str(), parsed.id.as_str()), ("m", "2", "7"));
        assert_eq!(timeout, Some(Duration::from_micros(1500)));
        let expected = [
            ("timeout", Parameter::Text("1500".to_owned())),
            ("truth", Parameter::Boolean(true)),
            ("number", Parameter::Integer(-7)),
            ("large", Parameter::Integer(7)),
            ("too_large", Parameter::Other),
            ("double", Parameter::Other),
        ];
        assert_eq!(parsed.parameters, expected.map(|(name, value)| (name.to_owned(), value)).into());
        let inputs: Vec<_> =
            parsed.inputs.iter().map(|x| (x.name.as_str(), x.dtype, x.shape.as_slice(), x.count)).collect();
        assert_eq!(inputs, [("x", DataType::Float32, [2, 3].as_slice(), 6), ("s", DataType::String, &[], 1)]);
        let chosen = ["b", "a"].map(|name| ChosenOutput { name: name.to_owned(), binary: None, in_base64: false });
        assert_eq!(parsed.outputs, OutputChoice { chosen: Some(chosen.into()), ..OutputChoice::default() });
    }

    #[test]
    fn what_is_refused() {
        use proto::infer_parameter::ParameterChoice::{Int64Param, StringParam};

        let check = |inputs: Vec<proto::model_infer_request::InferInputTensor>, expected: &str| {
            let request = proto::ModelInferRequest { inputs, ..Default::default() };
            assert_eq!(parse(&request).unwrap_err(), expected);
        };
        check(
            vec![input("x", "FP8", &[1])],
            "input `x` has the datatype `FP8`: the protocol has no floats of 8 bits; send FP32, with their values",
        );
        check(vec![input("x", "FP32", &[-1])], "input `x` has the shape [-1], which has a negative size");
        check(vec![input("x", "FP32", &[1]), input("x", "FP32", &[1])], "the request has input `x` twice");
        check(vec![input("x", "FP32", &[1; 1001])], "a shape has more than 1000 dimensions");
        let shape = [i64::MAX, i64::MAX];
        let too_large = "input `x`: shape [9223372036854775807, 9223372036854775807] of float32 elements is too large";
        check(vec![input("x", "FP32", &shape)], too_large);
        let mut shared = input("x", "FP32", &[1]);
        shared.parameters.insert("shared_memory_region".to_owned(), parameter(StringParam("r".to_owned())));
        check(vec![shared], "input `x`: the server has no `shared_memory_region`");
        let many = (0..MAX_PARTS + 1).map(|index| input(&index.to_string(), "FP32", &[1])).collect();
        check(many, "the request has more than 10000 inputs, outputs, parameters and raw contents");
        let parameters = [("sequence_id".to_owned(), parameter(Int64Param(3)))].into();
        let request = proto::ModelInferRequest { parameters, ..Default::default() };
        assert_eq!(parse(&request).unwrap_err(), "the request: the server has no `sequence_id`");
    }
}
