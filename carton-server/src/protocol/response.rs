//! The answer to an inference: its JSON, and the bytes of binary outputs behind it.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use carton_core::metadata::TensorSpec;
use carton_core::tensor::carried;
use carton_core::{Tensor, Tensors};
use serde::ser::{Serialize, SerializeMap, Serializer};

use super::json_data::FlatData;
use super::request::OutputChoice;
use super::{binary, bytes_elements, datatype, lists};
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

/// An output in an answer.
#[derive(Debug)]
struct Output {
    name: String,
    tensor: Tensor,
    form: OutputForm,
}

/// How the elements of an output are written.
#[derive(Debug)]
enum OutputForm {
    /// Behind the JSON.
    Binary(Bytes),
    /// As they are.
    Data,
    /// As texts that are made of bytes, in base64 or not.
    Texts(Vec<String>, bool),
}

/// An output that a request asks for.
#[derive(Debug)]
pub(crate) struct Chosen {
    pub(crate) name: String,
    pub(crate) tensor: Tensor,
    binary: bool,
    in_base64: bool,
}

/// The outputs that a request asks for, in its order or else in that of the signature. Those of types that the protocol does not have are their
/// carriers, and lists what stands for them.
///
/// # Errors
/// The model has no such output, an output is chosen twice, or an output is a list that the protocol cannot carry.
pub(crate) fn chosen(choice: &OutputChoice, mut outputs: Tensors) -> Result<Vec<Chosen>, Failure> {
    let chosen: Vec<_> = match &choice.chosen {
        None => {
            let chosen = |(name, tensor)| Chosen { name, tensor, binary: choice.binary, in_base64: false };
            let mut all: Vec<_> = outputs.into_iter().map(chosen).collect();
            let declared = choice.declared.as_deref().unwrap_or_default();
            let position =
                |name: &str| declared.iter().position(|declared| declared.name == name).unwrap_or(usize::MAX);
            all.sort_by_key(|output| position(&output.name));
            all
        }
        Some(chosen) => {
            let take = |output: &super::request::ChosenOutput| {
                let tensor = outputs.remove(&output.name);
                let missing = || Failure::invalid(format!("the model returned no output {}", quoted(&output.name)));
                Ok(Chosen {
                    name: output.name.clone(),
                    tensor: tensor.ok_or_else(missing)?,
                    binary: output.binary.unwrap_or(choice.binary),
                    in_base64: output.in_base64,
                })
            };
            chosen.iter().map(take).collect::<Result<_, Failure>>()?
        }
    };
    let declared = choice.declared.as_deref().unwrap_or_default();
    let n_chosen = chosen.len();
    let mut written: Vec<Chosen> = Vec::with_capacity(n_chosen);
    for mut output in chosen {
        let mut shapes = None;
        // Before a list is taken apart, so that its shapes are those of what is sent.
        output.tensor = as_sent(&output.name, output.tensor)?;
        if let Some(list) = output.tensor.as_nested() {
            let declared = declared.iter().find(|declared| declared.name == output.name);
            let (tensor, found) = lists::tensors_of(&output.name, list, declared)?;
            // An empty list has its type only now, from the declaration.
            output.tensor = as_sent(&output.name, tensor)?;
            shapes = found;
        }
        let shapes = shapes.map(|tensor| {
            let name = lists::shapes_name(&output.name);
            Chosen { name, tensor, binary: output.binary, in_base64: false }
        });
        written.extend([Some(output), shapes].into_iter().flatten());
    }
    let mut names = BTreeSet::new();
    // Only the shapes of a list can have the name of another output.
    if written.len() > n_chosen
        && let Some(twice) = written.iter().find(|output| !names.insert(&output.name))
    {
        let reason = format!("output {} has the name that the shapes of a list are sent under", quoted(&twice.name));
        return Err(Failure::new(Reason::Model, reason));
    }
    Ok(written)
}

/// An output of a type that the protocol lacks, as its carrier; others as they are.
fn as_sent(name: &str, tensor: Tensor) -> Result<Tensor, Failure> {
    match tensor.dtype().is_some_and(|dtype| !datatype::is_known(dtype)) {
        true => carried(&tensor).map_err(|error| {
            Failure::new(Reason::Model, format!("output {} cannot be written: {error}", quoted(name)))
        }),
        false => Ok(tensor),
    }
}

/// Checks the names of the outputs that a request chooses, before the model is run, and notes which the model declares.
///
/// # Errors
/// The model declares its outputs and has no such one, or an output is chosen twice.
pub(crate) fn check_choice(choice: &mut OutputChoice, declared: Option<&Arc<[TensorSpec]>>) -> Result<(), Failure> {
    let mut names = BTreeSet::new();
    for output in choice.chosen.iter().flatten() {
        if !names.insert(&output.name) {
            return Err(Failure::invalid(format!("the request names output {} twice", quoted(&output.name))));
        }
        if declared.is_some_and(|declared| declared.iter().all(|declared| declared.name != output.name)) {
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
        let outputs = outputs.map(|Chosen { name, tensor, binary, in_base64 }| {
            let form = match (binary.then(|| binary::bytes(&tensor)).flatten(), &tensor) {
                (Some(bytes), _) => OutputForm::Binary(bytes),
                (None, Tensor::Bytes(bytes)) => {
                    let (texts, is_base64) = bytes_elements::texts(bytes, in_base64);
                    OutputForm::Texts(texts, is_base64)
                }
                (None, _) => OutputForm::Data,
            };
            Output { name, tensor, form }
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
        let bytes = self.outputs.into_iter().filter_map(|output| match output.form {
            OutputForm::Binary(bytes) => Some(bytes),
            _ => None,
        });
        Ok((json, bytes.collect()))
    }

    /// About as many bytes as the JSON of a usual answer takes.
    fn expected_length(&self) -> usize {
        // With its comma, a number of one byte takes up to 5 bytes, a float32 about 12, and a float64 about 20.
        let n_bytes = |output: &Output| match (&output.form, output.tensor.as_numeric()) {
            (OutputForm::Data, Some(numbers)) => numbers.bytes().len().saturating_mul(3),
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
        match &self.form {
            OutputForm::Binary(bytes) => {
                map.serialize_entry("parameters", &BinaryParameters { binary_data_size: bytes.len() })?;
            }
            OutputForm::Data => map.serialize_entry("data", &FlatData(&self.tensor))?,
            OutputForm::Texts(texts, is_base64) => {
                if *is_base64 {
                    map.serialize_entry("parameters", &bytes_elements::BASE64_PARAMETERS)?;
                }
                map.serialize_entry("data", texts)?;
            }
        }
        map.end()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use carton_core::{DataType, SymbolicShape};

    use super::super::request::ChosenOutput;
    use super::*;

    fn outputs() -> Tensors {
        let y = Tensor::from_vec(vec![1.0_f32, 0.5], vec![1, 2]).unwrap();
        Tensors::from([("y".to_owned(), y), ("s".to_owned(), Tensor::from_strings(["a"], vec![1]).unwrap())])
    }

    #[test]
    fn lists_of_types_that_the_protocol_lacks_are_lists_of_their_carriers() {
        use carton_core::tensor::{Complex, restored};

        use super::super::datatype::InputTypes;

        let part = |numbers: &[f32]| {
            let complex = numbers.iter().map(|&number| Complex::new(number, -number)).collect();
            Tensor::from_vec::<Complex<f32>>(complex, vec![1, numbers.len()]).unwrap()
        };
        let list = Tensor::nested(vec![part(&[1.0]), part(&[2.0, 3.0])]).unwrap();
        let outputs = Tensors::from([("x".to_owned(), list.clone())]);
        let sent = chosen(&OutputChoice::default(), outputs).unwrap();
        let (elements, shapes) = (&sent[0], &sent[1]);
        assert_eq!((elements.tensor.dtype(), elements.tensor.shape()), (Some(DataType::Float32), Some(&[6][..])));
        let expected = Tensor::from_vec(vec![1_i64, 1, 2, 1, 2, 2], vec![2, 3]).unwrap();
        assert_eq!((shapes.name.as_str(), &shapes.tensor), ("x.#shapes", &expected));
        let mut inputs: Tensors = sent.into_iter().map(|output| (output.name, output.tensor)).collect();
        lists::make_lists(&InputTypes::new(), &mut inputs).unwrap();
        assert_eq!(restored(&inputs["x"], DataType::Complex64).unwrap(), list);
    }

    #[test]
    fn shapes_of_a_list_have_a_name_of_their_own() {
        let part = |length: usize| Tensor::from_vec(vec![1.0_f32; length], vec![length]).unwrap();
        let list = Tensor::nested(vec![part(1), part(2)]).unwrap();
        let outputs = Tensors::from([("x".to_owned(), list), ("x.#shapes".to_owned(), part(1))]);
        let error = chosen(&OutputChoice::default(), outputs).err().unwrap().message;
        assert_eq!(error, "output `x.#shapes` has the name that the shapes of a list are sent under");
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
        let chosen = Some(vec![ChosenOutput { name: "y".to_owned(), binary: Some(true), in_base64: false }]);
        let y = r#"{"name":"y","datatype":"FP32","shape":[1,2],"parameters":{"binary_data_size":8}}"#;
        let bytes = [1.0_f32.to_le_bytes(), 0.5_f32.to_le_bytes()].concat();
        assert_eq!(write(OutputChoice { chosen, ..OutputChoice::default() }), (format!("{head}{y}]}}"), bytes));
    }

    #[test]
    fn types_that_json_or_the_protocol_lacks() {
        let write = |tensor: Tensor, in_base64| {
            let chosen = vec![ChosenOutput { name: "y".to_owned(), binary: None, in_base64 }];
            let choice = OutputChoice { chosen: Some(chosen), ..OutputChoice::default() };
            let outputs = Tensors::from([("y".to_owned(), tensor)]);
            let (json, _) = Response::new(("m", "1"), None, &choice, outputs).unwrap().write().unwrap();
            let json: serde_json::Value = serde_json::from_slice(&json).unwrap();
            json["outputs"][0].clone()
        };
        let bytes = |bytes: &[u8]| Tensor::from_bytes([bytes.to_vec()], vec![1]).unwrap();
        let head = serde_json::json!({"name": "y", "datatype": "BYTES", "shape": [1]});
        let expect = |more: serde_json::Value| {
            let mut whole = head.clone();
            whole.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            whole
        };
        assert_eq!(write(bytes(b"a"), false), expect(serde_json::json!({"data": ["a"]})));
        let base64 = |data: &str| expect(serde_json::json!({"data": [data], "parameters": {"content_type": "base64"}}));
        assert_eq!(write(bytes(b"\xff"), false), base64("/w=="));
        assert_eq!(write(bytes(b"a"), true), base64("YQ=="));
        let complex = Tensor::from_vec(vec![carton_core::tensor::Complex::new(1.0_f32, -2.0)], vec![1]).unwrap();
        let pairs = serde_json::json!({"name": "y", "datatype": "FP32", "shape": [1, 2], "data": [1.0, -2.0]});
        assert_eq!(write(complex, false), pairs);
        let float8 = Tensor::from_vec(vec![carton_core::tensor::Float8E5m2::from_f64(0.5).unwrap()], vec![1]).unwrap();
        let wide = serde_json::json!({"name": "y", "datatype": "FP32", "shape": [1], "data": [0.5]});
        assert_eq!(write(float8, false), wide);
    }

    #[test]
    fn all_outputs_are_in_the_order_of_the_signature() {
        let mut choice = OutputChoice::default();
        let declared = ["y", "s"].map(|name| TensorSpec::new(name, DataType::Float32, SymbolicShape::Any));
        check_choice(&mut choice, Some(&Arc::from(declared))).unwrap();
        let names: Vec<_> = chosen(&choice, outputs()).unwrap().into_iter().map(|output| output.name).collect();
        assert_eq!(names, ["y", "s"]);
    }

    #[test]
    fn outputs_that_are_not_there() {
        let choose = |names: &[&str]| OutputChoice {
            chosen: Some(
                names
                    .iter()
                    .map(|name| ChosenOutput { name: (*name).to_owned(), binary: None, in_base64: false })
                    .collect(),
            ),
            ..OutputChoice::default()
        };
        let declared = Arc::from([TensorSpec::new("y", DataType::Float32, SymbolicShape::Any)]);
        let check = |names: &[&str], expected: &str| {
            assert_eq!(check_choice(&mut choose(names), Some(&declared)).unwrap_err().message, expected);
        };
        check(&["z"], "the model has no output `z`");
        check(&["y", "y"], "the request names output `y` twice");
        assert_eq!(check_choice(&mut choose(&["z"]), None), Ok(()));
        assert_eq!(chosen(&choose(&["z"]), outputs()).unwrap_err().message, "the model returned no output `z`");
        let vector = |elements: &[i32]| Tensor::from_vec(elements.to_vec(), vec![elements.len()]).unwrap();
        let list = |elements| Tensors::from([("n".to_owned(), Tensor::nested(elements).unwrap())]);
        let stacked = chosen(&OutputChoice::default(), list(vec![vector(&[1, 2]), vector(&[3, 4])])).unwrap();
        assert_eq!(stacked[0].tensor, Tensor::from_vec(vec![1, 2, 3, 4], vec![2, 2]).unwrap());
        // A list of other tensors is their elements and their shapes, together also where the request chooses the list.
        let ragged = chosen(&choose(&["n"]), list(vec![vector(&[1]), vector(&[2, 3])])).unwrap();
        let found: Vec<_> =
            ragged.iter().map(|output| (output.name.as_str(), output.tensor.shape().unwrap())).collect();
        assert_eq!(found, [("n", [3].as_slice()), ("n.#shapes", &[2, 1])]);
        let refused = |elements| chosen(&OutputChoice::default(), list(elements)).unwrap_err().message;
        assert!(refused(vec![]).contains("an empty list of tensors"));
    }
}
