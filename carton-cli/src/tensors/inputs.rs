//! Converts `-i` arguments to the inputs of a call.
//!
//! This takes two steps. Files are read and JSON is parsed before a runner is started, so that mistakes are found without waiting. Names
//! and dtypes come from the loaded model.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use carton_core::metadata::TensorSpec;
use carton_tensor::files::RawTensor;
use carton_tensor::npy::{self, Array, NpyError, Npz};
use carton_tensor::{CastError, DataType, Tensor};
use serde_json::Value;

use super::from_json::{self, JsonTensorError};
use crate::args::{InputArgument, InputValue};
use crate::failure::Failure;

/// An error of an input on the command line.
#[derive(Debug, thiserror::Error)]
pub(crate) enum InputError {
    #[error("cannot read input {input}")]
    File { input: String, source: NpyError },
    #[error("input {input}: `{text}` is not valid JSON")]
    Json { input: String, text: String, source: serde_json::Error },
    #[error("input {input}: `{text}` is neither JSON nor the name of a .npy or .npz file")]
    Unknown { input: String, text: String },
    #[error("cannot use input {input}")]
    Value { input: String, source: JsonTensorError },
    #[error("cannot cast input `{input}` to {dtype}")]
    Cast { input: String, dtype: DataType, source: Box<CastError> },
    #[error("cannot cast input `{input}`, an array of {dtype}: the model declares no such input")]
    NothingToCastTo { input: String, dtype: String },
    #[error("input `{input}`: `{}` holds the arrays {}, and none is chosen", path.display(), names.join(", "))]
    NoArray { input: String, path: PathBuf, names: Vec<String> },
    #[error("input `{name}` is given twice")]
    Twice { name: String },
    #[error("input {position} has no name, and the model declares no inputs whose order it could follow")]
    NoDeclaration { position: usize },
    #[error("{given} inputs are given without a name, and the model declares only {declared} others: {}", names.join(", "))]
    TooMany { given: usize, declared: usize, names: Vec<String> },
}

impl From<InputError> for Failure {
    fn from(error: InputError) -> Self {
        match &error {
            InputError::File { .. } => Self::new(error),
            InputError::Unknown { .. } => Self::usage(error)
                .hint("strings need quotes in JSON too: -i name='\"text\"' or -i name='[\"a\", \"b\"]'"),
            InputError::NoArray { input, path, .. } => {
                let hint = format!("name the array: -i {input}={}#NAME", path.display());
                Self::usage(error).hint(hint)
            }
            InputError::NoDeclaration { .. } => Self::usage(error).hint("name it: -i NAME=VALUE"),
            InputError::Json { .. }
            | InputError::Value { .. }
            | InputError::Cast { .. }
            | InputError::NothingToCastTo { .. }
            | InputError::Twice { .. }
            | InputError::TooMany { .. } => Self::usage(error),
        }
    }
}

/// A declared input, as far as it is needed here.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DeclaredInput<'a> {
    /// Its name.
    pub(crate) name: &'a str,
    /// Its dtype.
    pub(crate) dtype: DataType,
}

impl<'a> From<&'a TensorSpec> for DeclaredInput<'a> {
    fn from(spec: &'a TensorSpec) -> Self {
        Self { name: &spec.name, dtype: spec.dtype }
    }
}

/// Inputs whose files have been read and whose JSON has been parsed.
pub(crate) struct ReadInputs(Vec<(Option<String>, ReadValue)>);

enum ReadValue {
    Tensor(Tensor),
    /// Numbers of a type that cartons lack. They have to be cast.
    Other(RawTensor),
    Json(Value),
}

impl From<Array> for ReadValue {
    fn from(array: Array) -> Self {
        match array.into_tensor() {
            Ok(tensor) => Self::Tensor(tensor),
            Err(other) => Self::Other(other),
        }
    }
}

impl ReadInputs {
    /// Reads the files and parses the JSON. If the inputs will be cast, arrays may have types that cartons lack.
    ///
    /// # Errors
    /// A file cannot be read, text is not JSON, or an `.npz` file has several arrays and none is named.
    pub(crate) fn read(arguments: Vec<InputArgument>, is_cast: bool) -> Result<Self, InputError> {
        let read_npy = |path: &Path| match is_cast {
            true => npy::read_array(path).map(ReadValue::from),
            false => npy::read_path(path).map(ReadValue::Tensor),
        };
        let read_npz = |file: &mut Npz, array: &str| match is_cast {
            true => file.read_array(array).map(ReadValue::from),
            false => file.read(array).map(ReadValue::Tensor),
        };
        let mut read = Vec::new();
        for (position, argument) in arguments.into_iter().enumerate() {
            let input = argument.name.as_ref().map_or_else(|| (position + 1).to_string(), |name| format!("`{name}`"));
            let file_error = |source| InputError::File { input: input.clone(), source };
            match argument.value {
                InputValue::Npy(path) => {
                    read.push((argument.name, read_npy(&path).map_err(file_error)?));
                }
                InputValue::Npz(path, Some(array)) => {
                    let value = Npz::open(&path).and_then(|mut file| read_npz(&mut file, &array));
                    read.push((argument.name, value.map_err(file_error)?));
                }
                InputValue::Npz(path, None) => {
                    let mut file = Npz::open(&path).map_err(file_error)?;
                    for (name, array) in chosen_arrays(argument.name, &path, file.names())? {
                        read.push((Some(name), read_npz(&mut file, &array).map_err(file_error)?));
                    }
                }
                InputValue::Json(text) => match serde_json::from_str(&text) {
                    Ok(value) => read.push((argument.name, ReadValue::Json(value))),
                    Err(source) if text.trim_start().starts_with(['[', '{', '"']) => {
                        return Err(InputError::Json { input, text: shortened(&text), source });
                    }
                    Err(_) => return Err(InputError::Unknown { input, text: shortened(&text) }),
                },
            }
        }
        Ok(Self(read))
    }

    /// Whether there are no inputs.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Assigns names to inputs without one, in the declared order, and casts JSON, and arrays of types that cartons lack, to the declared
    /// dtypes.
    ///
    /// # Errors
    /// A value does not fit its declared dtype, an input is given twice, or there are more inputs than are declared.
    pub(crate) fn into_tensors(self, declared: &[DeclaredInput<'_>]) -> Result<BTreeMap<String, Tensor>, InputError> {
        let named: Vec<String> = self.0.iter().filter_map(|(name, _)| name.clone()).collect();
        let free: Vec<&str> =
            declared.iter().map(|input| input.name).filter(|name| !named.iter().any(|given| given == name)).collect();
        let given = self.0.iter().filter(|(name, _)| name.is_none()).count();
        if given > free.len() && !declared.is_empty() {
            let names = free.iter().map(|&name| name.to_owned()).collect();
            return Err(InputError::TooMany { given, declared: free.len(), names });
        }
        let mut free = free.into_iter();
        let mut tensors = BTreeMap::new();
        for (position, (name, value)) in self.0.into_iter().enumerate() {
            let name = name
                .or_else(|| free.next().map(str::to_owned))
                .ok_or(InputError::NoDeclaration { position: position + 1 })?;
            let tensor = match value {
                ReadValue::Tensor(tensor) => tensor,
                ReadValue::Other(array) => {
                    let Some(declared) = declared.iter().find(|input| input.name == name) else {
                        return Err(InputError::NothingToCastTo { input: name, dtype: array.dtype().to_string() });
                    };
                    let (input, dtype) = (name.clone(), declared.dtype);
                    let cast = array.cast(dtype).map_err(|source| InputError::Cast {
                        input,
                        dtype,
                        source: Box::new(source),
                    })?;
                    Tensor::Numeric(cast)
                }
                ReadValue::Json(value) => {
                    let dtype = declared.iter().find(|input| input.name == name).map(|input| input.dtype);
                    from_json::tensor(&value, dtype)
                        .map_err(|source| InputError::Value { input: format!("`{name}`"), source })?
                }
            };
            if tensors.insert(name.clone(), tensor).is_some() {
                return Err(InputError::Twice { name });
            }
        }
        Ok(tensors)
    }
}

/// Returns the arrays that `[NAME=]FILE.npz` means, as (input, array): all arrays under their own names; or, for a named input, the array
/// of that name, or else the only one.
fn chosen_arrays(input: Option<String>, path: &Path, names: &[String]) -> Result<Vec<(String, String)>, InputError> {
    match (input, names) {
        (None, names) => Ok(names.iter().map(|name| (name.clone(), name.clone())).collect()),
        (Some(input), names) if names.contains(&input) => Ok(vec![(input.clone(), input)]),
        (Some(input), [only]) => Ok(vec![(input, only.clone())]),
        (Some(input), names) => Err(InputError::NoArray { input, path: path.to_path_buf(), names: names.to_vec() }),
    }
}

fn shortened(text: &str) -> String {
    match text.char_indices().nth(80) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use carton_tensor::files::ElementType;

    use super::*;

    const fn declared(name: &'static str, dtype: DataType) -> DeclaredInput<'static> {
        DeclaredInput { name, dtype }
    }

    const DECLARED: [DeclaredInput<'static>; 2] = [declared("b", DataType::Float32), declared("a", DataType::Uint8)];

    fn tensors(arguments: &[&str], declared: &[DeclaredInput<'_>]) -> Result<BTreeMap<String, Tensor>, InputError> {
        let arguments = arguments.iter().map(|text| text.parse().unwrap()).collect();
        ReadInputs::read(arguments, false)?.into_tensors(declared)
    }

    #[test]
    fn names_and_dtypes_come_from_the_declaration() {
        let check = |arguments: &[&str], expected: &[(&str, Tensor)]| {
            let expected = expected.iter().map(|(name, tensor)| ((*name).to_owned(), tensor.clone())).collect();
            assert_eq!(tensors(arguments, &DECLARED).unwrap(), expected, "{arguments:?}");
        };
        let (b, a) = (Tensor::scalar(1.0_f32), Tensor::scalar(2_u8));
        check(&["b=1", "a=2"], &[("b", b.clone()), ("a", a.clone())]);
        check(&["1", "2"], &[("b", b.clone()), ("a", a.clone())]);
        check(&["2", "b=1"], &[("b", b.clone()), ("a", a.clone())]);
        check(&["1"], &[("b", b)]);
        check(&["c=3"], &[("c", Tensor::scalar(3_i64))]);
    }

    #[test]
    fn mistakes() {
        let check = |arguments: &[&str], declared: &[DeclaredInput<'_>], expected: &str| {
            let error = tensors(arguments, declared).unwrap_err();
            assert!(error.to_string().contains(expected), "{arguments:?}: {error}");
        };
        check(&["b=1", "b=2"], &DECLARED, "`b` is given twice");
        check(&["1", "2", "3"], &DECLARED, "3 inputs are given without a name");
        check(&["1"], &[], "input 1 has no name");
        check(&["b=[1,"], &DECLARED, "`[1,` is not valid JSON");
        check(&["b=one"], &DECLARED, "`one` is neither JSON nor");
        check(&["a=300"], &DECLARED, "cannot use input `a`");
        check(&["a=/does/not/exist.npy"], &DECLARED, "cannot read input `a`");
    }

    #[test]
    fn arrays_that_cartons_lack_are_cast() {
        let folder = tempfile::tempdir().unwrap();
        let raw = |dtype, bytes: &[u8]| Array::Numbers(RawTensor::new(dtype, vec![2], bytes.to_vec().into()).unwrap());
        let (flags, halves) = (raw(ElementType::Bool, &[1, 0]), raw(ElementType::Float16, &[0, 0x3e, 0, 0xc0]));
        let path = |name: &str| folder.path().join(name).display().to_string();
        npy::write_array(std::fs::File::create(path("flags.npy")).unwrap(), &flags).unwrap();
        let mut archive = npy::NpzWriter::new(std::fs::File::create(path("both.npz")).unwrap());
        archive.add_array("a", &flags).unwrap();
        archive.add_array("b", &halves).unwrap();
        archive.finish().unwrap();
        let check = |argument: &str, expected: Result<&[(&str, Tensor)], &str>| {
            let found = ReadInputs::read(vec![argument.parse().unwrap()], true).unwrap().into_tensors(&DECLARED);
            let expected =
                expected.map(|all| all.iter().map(|(name, one)| ((*name).to_owned(), one.clone())).collect());
            assert_eq!(found.map_err(|error| error.to_string()), expected.map_err(str::to_owned), "{argument}");
        };
        let (a, b) = (
            Tensor::from_vec(vec![1_u8, 0], vec![2]).unwrap(),
            Tensor::from_vec(vec![1.5_f32, -2.0], vec![2]).unwrap(),
        );
        check(&format!("a={}", path("flags.npy")), Ok(&[("a", a.clone())]));
        check(&path("both.npz"), Ok(&[("a", a.clone()), ("b", b)]));
        check(&format!("a={}#a", path("both.npz")), Ok(&[("a", a)]));
        check(&format!("a={}#b", path("both.npz")), Err("cannot cast input `a` to uint8"));
        let undeclared = "cannot cast input `c`, an array of bool: the model declares no such input";
        check(&format!("c={}", path("flags.npy")), Err(undeclared));
        // Only on request. Booleans are read, and refused where the carton does not declare them.
        let found = tensors(&[&format!("a={}", path("flags.npy"))], &DECLARED).unwrap();
        assert_eq!(found["a"].element_kind(), Some(ElementKind::Bool));
        let error = tensors(&[&format!("b={}#b", path("both.npz"))], &DECLARED).unwrap_err();
        assert!(error.to_string().contains("cannot read input `b`"), "{error}");
    }

    #[test]
    fn arrays_of_an_npz_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("cases.npz");
        let (a, b) = (Tensor::scalar(2_u8), Tensor::scalar(1.0_f32));
        npy::write_npz(std::fs::File::create(&path).unwrap(), [("a", &a), ("b", &b)]).unwrap();
        let path = path.to_str().unwrap();
        let check = |argument: String, expected: &[(&str, &Tensor)]| {
            let expected = expected.iter().map(|&(name, tensor)| (name.to_owned(), tensor.clone())).collect();
            assert_eq!(tensors(&[&argument], &DECLARED).unwrap(), expected, "{argument}");
        };
        check(path.to_owned(), &[("a", &a), ("b", &b)]);
        check(format!("a={path}"), &[("a", &a)]);
        check(format!("c={path}#a"), &[("c", &a)]);
        check(format!("{path}#b"), &[("b", &b)]);
        let error = tensors(&[&format!("c={path}")], &DECLARED).unwrap_err();
        assert!(error.to_string().contains("holds the arrays a, b"), "{error}");
    }
}
