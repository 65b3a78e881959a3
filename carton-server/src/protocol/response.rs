//! The answer to an inference: its JSON, and the bytes of binary outputs behind it.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use carton_core::{Tensor, Tensors};
use serde::ser::{Serialize, SerializeMap, Serializer};

use super::json_data::FlatData;
use super::request::OutputChoice;
use super::{binary, datatype};
use crate::failure::{Failure, Reason, quoted};

/// About as many bytes as the rest of an answer takes.
const HEAD_LENGTH: usize = 160;
/// The most bytes that are allocated for numbers before they are written.
const MAX_EXPECTED: usize = 1 << 20;

/// The answer to an inference.
#[derive(Debug)]
pub(crate) struct Response<'a> {
    model_name: &'a str,
    model_version: &'a str,
    id: Option<String>,
    outputs: Vec<Output>,
}

/// An output in an answer, with its bytes if it is binary.
#[derive(Debug)]
struct Output {
    name: String,
    tensor: Tensor,
    bytes: Option<Bytes>,
}

/// The outputs that a request asks for, in its order or else in that of the signature, each with whether it is binary.
///
/// # Errors
/// The model has no such output, an output is chosen twice, or an output is a nested tensor, which the protocol does not have.
pub(crate) fn chosen(choice: &OutputChoice, mut outputs: Tensors) -> Result<Vec<(String, Tensor, bool)>, Failure> {
    let chosen: Vec<_> = match &choice.chosen {
        None => {
            let mut all: Vec<_> = outputs.into_iter().map(|(name, tensor)| (name, tensor, choice.binary)).collect();
            let declared = choice.declared.as_deref().unwrap_or_default();
            all.sort_by_key(|(name, ..)| declared.iter().position(|declared| declared == name).unwrap_or(usize::MAX));
            all
        }
        Some(chosen) => {
            let take = |output: &super::request::ChosenOutput| {
                let tensor = outputs.remove(&output.name);
                let missing = || Failure::invalid(format!("the model returned no output {}", quoted(&output.name)));
                Ok((output.name.clone(), tensor.ok_or_else(missing)?, output.binary.unwrap_or(choice.binary)))
            };
            chosen.iter().map(take).collect::<Result<_, Failure>>()?
        }
    };
    let nested = chosen.iter().find(|(_, tensor, _)| tensor.as_nested().is_some());
    match nested {
        Some((name, ..)) => Err(Failure::new(
            Reason::Model,
            format!("output {} has tensors of different shapes, which the protocol cannot carry", quoted(name)),
        )),
        None => Ok(chosen),
    }
}

/// Checks the names of the outputs that a request chooses, before the model is run, and notes which the model declares.
///
/// # Errors
/// The model declares its outputs and has no such one, or an output is chosen twice.
pub(crate) fn check_choice(choice: &mut OutputChoice, declared: Option<&Arc<[String]>>) -> Result<(), Failure> {
    let mut names = BTreeSet::new();
    for output in choice.chosen.iter().flatten() {
        if !names.insert(&output.name) {
            return Err(Failure::invalid(format!("the request names output {} twice", quoted(&output.name))));
        }
        if declared.is_some_and(|declared| !declared.contains(&output.name)) {
            return Err(Failure::invalid(format!("the model has no output {}", quoted(&output.name))));
        }
    }
    choice.declared = declared.cloned();
    Ok(())
}

impl<'a> Response<'a> {
    /// # Errors
    /// As [`chosen`].
    pub(crate) fn new(
        (model_name, model_version): (&'a str, &'a str),
        id: Option<String>,
        choice: &OutputChoice,
        outputs: Tensors,
    ) -> Result<Self, Failure> {
        let outputs = chosen(choice, outputs)?.into_iter();
        let outputs = outputs.map(|(name, tensor, is_binary)| {
            let bytes = if is_binary { binary::bytes(&tensor) } else { None };
            Output { name, tensor, bytes }
        });
        let outputs = outputs.collect();
        Ok(Self { model_name, model_version, id, outputs })
    }

    /// The JSON, and the bytes behind it: none if no output is binary.
    ///
    /// # Errors
    /// An output has a type that JSON cannot have.
    pub(crate) fn write(self) -> Result<(Vec<u8>, Vec<Bytes>), Failure> {
        let mut json = Vec::with_capacity(self.expected_length());
        serde_json::to_writer(&mut json, &self)
            .map_err(|error| Failure::new(Reason::Internal, format!("the answer cannot be written: {error}")))?;
        Ok((json, self.outputs.into_iter().filter_map(|output| output.bytes).collect()))
    }

    /// About as many bytes as the JSON of a usual answer takes.
    fn expected_length(&self) -> usize {
        // With its comma, a number of one byte takes up to 5 bytes, a float32 about 12, and a float64 about 20.
        let n_bytes = |output: &Output| match (&output.bytes, output.tensor.as_numeric()) {
            (None, Some(numbers)) => numbers.bytes().len().saturating_mul(3),
            _ => 0,
        };
        let numbers = self.outputs.iter().map(n_bytes).fold(0, usize::saturating_add);
        HEAD_LENGTH + numbers.min(MAX_EXPECTED)
    }
}

impl Serialize for Response<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("model_name", self.model_name)?;
        map.serialize_entry("model_version", self.model_version)?;
        if let Some(id) = &self.id {
            map.serialize_entry("id", id)?;
        }
        map.serialize_entry("outputs", &self.outputs)?;
        map.end()
    }
}

impl Serialize for Output {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(serde::Serialize)]
        struct BinaryParameters {
            binary_data_size: usize,
        }

        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("name", &self.name)?;
        map.serialize_entry("datatype", self.tensor.dtype().map_or("UNKNOWN", datatype::name))?;
        map.serialize_entry("shape", &self.tensor.shape())?;
        match &self.bytes {
            Some(bytes) => map.serialize_entry("parameters", &BinaryParameters { binary_data_size: bytes.len() })?,
            None => map.serialize_entry("data", &FlatData(&self.tensor))?,
        }
        map.end()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::super::request::ChosenOutput;
    use super::*;

    fn outputs() -> Tensors {
        let y = Tensor::from_vec(vec![1.0_f32, 0.5], vec![1, 2]).unwrap();
        Tensors::from([("y".to_owned(), y), ("s".to_owned(), Tensor::from_strings(["a"], vec![1]).unwrap())])
    }

    #[test]
    fn json_and_bytes() {
        let write = |choice: OutputChoice| {
            let response = Response::new(("m", "1"), Some("7".to_owned()), &choice, outputs()).unwrap();
            let (json, bytes) = response.write().unwrap();
            (String::from_utf8(json).unwrap(), bytes.concat())
        };
        let head = r#"{"model_name":"m","model_version":"1","id":"7","outputs":["#;
        let (s, y) = (
            r#"{"name":"s","datatype":"BYTES","shape":[1],"data":["a"]}"#,
            r#"{"name":"y","datatype":"FP32","shape":[1,2],"data":[1.0,0.5]}"#,
        );
        assert_eq!(write(OutputChoice::default()), (format!("{head}{s},{y}]}}"), vec![]));
        let chosen = Some(vec![ChosenOutput { name: "y".to_owned(), binary: Some(true) }]);
        let y = r#"{"name":"y","datatype":"FP32","shape":[1,2],"parameters":{"binary_data_size":8}}"#;
        let bytes = [1.0_f32.to_le_bytes(), 0.5_f32.to_le_bytes()].concat();
        assert_eq!(write(OutputChoice { chosen, ..OutputChoice::default() }), (format!("{head}{y}]}}"), bytes));
    }

    #[test]
    fn all_outputs_are_in_the_order_of_the_signature() {
        let mut choice = OutputChoice::default();
        check_choice(&mut choice, Some(&Arc::from(["y", "s"].map(str::to_owned)))).unwrap();
        let names: Vec<_> = chosen(&choice, outputs()).unwrap().into_iter().map(|(name, ..)| name).collect();
        assert_eq!(names, ["y", "s"]);
    }

    #[test]
    fn outputs_that_are_not_there() {
        let choose = |names: &[&str]| OutputChoice {
            chosen: Some(names.iter().map(|name| ChosenOutput { name: (*name).to_owned(), binary: None }).collect()),
            ..OutputChoice::default()
        };
        let declared = Arc::from(["y".to_owned()]);
        let check = |names: &[&str], expected: &str| {
            assert_eq!(check_choice(&mut choose(names), Some(&declared)).unwrap_err().message, expected);
        };
        check(&["z"], "the model has no output `z`");
        check(&["y", "y"], "the request names output `y` twice");
        assert_eq!(check_choice(&mut choose(&["z"]), None), Ok(()));
        assert_eq!(chosen(&choose(&["z"]), outputs()).unwrap_err().message, "the model returned no output `z`");
        let nested = Tensors::from([("n".to_owned(), Tensor::nested(vec![Tensor::scalar(1_i32)]).unwrap())]);
        assert!(chosen(&OutputChoice::default(), nested).unwrap_err().message.contains("different shapes"));
    }
}
