//! Converts `-i` arguments to the inputs of a call.
//!
//! This takes two steps. Files are read and JSON is parsed before a runner is started, so that mistakes are found without waiting. Names
//! and dtypes come from the loaded model.

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use carton_core::metadata::TensorSpec;
use carton_tensor::any_file::{TensorFile, TensorFileError};
use carton_tensor::files::{RawTensor, RawTensorError};
use carton_tensor::npy::{self, NpyError, Npz};
use carton_tensor::{CastError, DataType, SymbolicShape, Tensor, mark_bare_numbers, restored};
use serde_json::Value;

use super::from_json::{self, JsonTensorError};
use crate::args::{InputArgument, InputValue, STANDARD_STREAM};
use crate::failure::Failure;

/// An error of an input on the command line.
#[derive(Debug, thiserror::Error)]
pub(crate) enum InputError {
    #[error("cannot read input {input}")]
    File { input: String, source: NpyError },
    #[error("cannot read input {input}")]
    TensorFile { input: String, source: Box<TensorFileError> },
    #[error("cannot use input {input}: `{}`", path.display())]
    Numbers { input: String, path: PathBuf, source: RawTensorError },
    #[error("cannot use input {input}: `{}`", path.display())]
    Elements { input: String, path: PathBuf, source: Box<CastError> },
    #[error("cannot read input {input}: `{}`", path.display())]
    Bytes { input: String, path: PathBuf, source: io::Error },
    #[error("input {input}: standard input is the value of another input")]
    StandardInput { input: String },
    #[error("input `{input}` takes text, and `{}` is not UTF-8", path.display())]
    NotText { input: String, path: PathBuf },
    #[error("input `{input}` takes {dtype}: `@{}` gives the bytes of a file, for an input of bytes or of texts", path.display())]
    NotBytes { input: String, dtype: DataType, path: PathBuf },
    #[error("input {input}: `{text}` is not valid JSON")]
    Json { input: String, text: String, source: serde_json::Error },
    #[error("input {input}: `{text}` is neither JSON nor the name of a .npy, .npz, .safetensors or .zt file")]
    Unknown { input: String, text: String },
    #[error("cannot use input {input}")]
    Value { input: String, source: Box<JsonTensorError> },
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
            InputError::File { .. } | InputError::TensorFile { .. } | InputError::Bytes { .. } | InputError::Elements { .. } => {
                Self::new(error)
            }
            InputError::Numbers { .. } => Self::usage(error).hint("--cast converts them to the declared dtype"),
            InputError::Unknown { .. } => Self::usage(error).hint(
                "strings need quotes in JSON too: -i name='\"text\"' or -i name='[\"a\", \"b\"]'; the bytes or the text of a file are \
                 -i name=@FILE",
            ),
            InputError::NotBytes { input, path, .. } => {
                let path = path.display();
                let hint = format!("decode it first: a .npy file of its numbers is -i {input}={path}.npy");
                Self::usage(error).hint(hint)
            }
            InputError::NoArray { input, path, .. } => {
                let hint = format!("name the array: -i {input}={}#NAME", path.display());
                Self::usage(error).hint(hint)
            }
            InputError::NoDeclaration { .. } => Self::usage(error).hint("name it: -i NAME=VALUE"),
            InputError::Json { .. }
            | InputError::StandardInput { .. }
            | InputError::NotText { .. }
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
    /// Its shape.
    pub(crate) shape: &'a SymbolicShape,
}

impl<'a> From<&'a TensorSpec> for DeclaredInput<'a> {
    fn from(spec: &'a TensorSpec) -> Self {
        Self { name: &spec.name, dtype: spec.dtype, shape: &spec.shape }
    }
}

/// Inputs whose files have been read and whose JSON has been parsed.
pub(crate) struct ReadInputs(Vec<(Option<String>, ReadValue)>);

enum ReadValue {
    Tensor(Tensor),
    /// Numbers of a type that cartons lack. They have to be cast.
    Other(RawTensor),
    /// The bytes of a file.
    File(PathBuf, Vec<u8>),
    Json(Value),
}

/// Reads a tensor of a file. If it will be cast, it may have a type that cartons lack.
fn tensor_of_file(
    file: &TensorFile,
    name: &str,
    input: &str,
    path: &Path,
    is_cast: bool,
) -> Result<ReadValue, InputError> {
    let file_error = |source| InputError::TensorFile { input: input.to_owned(), source: Box::new(source) };
    let array = file.entry(name).and_then(|entry| entry.dequantize()).map_err(file_error)?;
    let numbers = match array.to_numeric() {
        Ok(numbers) => numbers,
        Err(_) if is_cast => return Ok(ReadValue::Other(array)),
        Err(source) => return Err(InputError::Numbers { input: input.to_owned(), path: path.to_path_buf(), source }),
    };
    if numbers.dtype() != DataType::Bool {
        return Ok(ReadValue::Tensor(numbers.into()));
    }
    // The format says nothing of bytes that are neither 0 nor 1.
    let shape = numbers.shape().to_vec();
    let bytes = numbers.reinterpreted(DataType::Uint8, shape).map_err(CastError::from);
    let bools = bytes.and_then(|bytes| restored(&bytes.into(), DataType::Bool));
    let elements =
        |source| InputError::Elements { input: input.to_owned(), path: path.to_path_buf(), source: Box::new(source) };
    Ok(ReadValue::Tensor(bools.map_err(elements)?))
}

/// The most bytes that are read of standard input, or of a file whose size is not known, such as a pipe: others might never end.
const MAX_STREAM_BYTES: u64 = 1 << 30;

/// The bytes of a file, or of standard input.
fn bytes_of_file(path: &Path) -> io::Result<Vec<u8>> {
    if path.as_os_str() == STANDARD_STREAM {
        return bytes_of_stream(io::stdin().lock());
    }
    let file = std::fs::File::open(path)?;
    if file.metadata()?.is_file() { std::fs::read(path) } else { bytes_of_stream(file) }
}

fn bytes_of_stream(stream: impl io::Read) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    stream.take(MAX_STREAM_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_STREAM_BYTES {
        let text = format!(
            "it has more than {MAX_STREAM_BYTES} bytes, the most that are read of what is no file of a known size"
        );
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, text));
    }
    Ok(bytes)
}

impl ReadInputs {
    /// Reads the files and parses the JSON. If the inputs will be cast, tensors of files may have types that cartons lack.
    ///
    /// # Errors
    /// A file cannot be read, text is not JSON, or a file has several arrays and none is named.
    pub(crate) fn read(arguments: Vec<InputArgument>, is_cast: bool) -> Result<Self, InputError> {
        let mut read = Vec::new();
        let mut has_standard_input = false;
        for (position, argument) in arguments.into_iter().enumerate() {
            let input = argument.name.as_ref().map_or_else(|| (position + 1).to_string(), |name| format!("`{name}`"));
            let file_error = |source| InputError::File { input: input.clone(), source };
            match argument.value {
                InputValue::Npy(path) => {
                    read.push((argument.name, ReadValue::Tensor(npy::read_path(&path).map_err(file_error)?)));
                }
                InputValue::Npz(path, Some(array)) => {
                    let value = Npz::open(&path).and_then(|mut file| file.read(&array));
                    read.push((argument.name, ReadValue::Tensor(value.map_err(file_error)?)));
                }
                InputValue::Npz(path, None) => {
                    let mut file = Npz::open(&path).map_err(file_error)?;
                    for (name, array) in chosen_arrays(argument.name, &path, file.names())? {
                        read.push((Some(name), ReadValue::Tensor(file.read(&array).map_err(file_error)?)));
                    }
                }
                InputValue::Tensors(path, tensor) => {
                    let file = TensorFile::open(&path)
                        .map_err(|source| InputError::TensorFile { input: input.clone(), source: Box::new(source) })?;
                    let chosen = match tensor {
                        Some(tensor) => vec![(argument.name, tensor)],
                        None => {
                            let names: Vec<String> = file.entries().map(|entry| entry.name().to_owned()).collect();
                            let chosen = chosen_arrays(argument.name, &path, &names)?;
                            chosen.into_iter().map(|(name, tensor)| (Some(name), tensor)).collect()
                        }
                    };
                    for (name, tensor) in chosen {
                        read.push((name, tensor_of_file(&file, &tensor, &input, &path, is_cast)?));
                    }
                }
                InputValue::File(path) => {
                    if path.as_os_str() == STANDARD_STREAM && std::mem::replace(&mut has_standard_input, true) {
                        return Err(InputError::StandardInput { input });
                    }
                    let bytes = bytes_of_file(&path);
                    let bytes = bytes.map_err(|source| InputError::Bytes { input, path: path.clone(), source })?;
                    read.push((argument.name, ReadValue::File(path, bytes)));
                }
                InputValue::Json(text) => match serde_json::from_slice(&mark_bare_numbers(text.as_bytes())) {
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

    /// Assigns names to inputs without one, in the declared order, and casts JSON, the bytes of files, and numbers of types that cartons lack,
    /// to the declared dtypes.
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
                ReadValue::File(path, bytes) => {
                    one_element(&name, path, bytes, declared.iter().find(|input| input.name == name))?
                }
                ReadValue::Json(value) => {
                    let declared = declared.iter().find(|input| input.name == name);
                    let shape = declared.map_or(&SymbolicShape::Any, |declared| declared.shape);
                    from_json::tensor(&value, declared.map(|declared| declared.dtype), shape)
                        .map_err(|source| InputError::Value { input: format!("`{name}`"), source: Box::new(source) })?
                }
            };
            if tensors.insert(name.clone(), tensor).is_some() {
                return Err(InputError::Twice { name });
            }
        }
        Ok(tensors)
    }
}

/// Makes a tensor of one element of the bytes of a file: of bytes, or of text where that is declared.
fn one_element(
    input: &str,
    path: PathBuf,
    bytes: Vec<u8>,
    declared: Option<&DeclaredInput<'_>>,
) -> Result<Tensor, InputError> {
    let rank = match declared.map(|declared| declared.shape) {
        Some(SymbolicShape::Dimensions(dimensions)) => dimensions.len(),
        _ => 0,
    };
    let (dtype, shape) = (declared.map_or(DataType::Bytes, |declared| declared.dtype), vec![1; rank]);
    let tensor = match dtype {
        DataType::Bytes => Tensor::from_bytes([bytes], shape),
        DataType::String => match String::from_utf8(bytes) {
            Ok(text) => Tensor::from_strings([text], shape),
            Err(_) => return Err(InputError::NotText { input: input.to_owned(), path }),
        },
        dtype => return Err(InputError::NotBytes { input: input.to_owned(), dtype, path }),
    };
    tensor.map_err(|source| InputError::Value { input: format!("`{input}`"), source: Box::new(source.into()) })
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
    use carton_tensor::safetensors::{self, Metadata};
    use carton_tensor::{BoolByte, Complex, Dimension, Float8E5m2, f16};

    use super::*;

    const fn declared(name: &'static str, dtype: DataType) -> DeclaredInput<'static> {
        DeclaredInput { name, dtype, shape: &SymbolicShape::Any }
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
    fn arrays_of_every_type_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name).display().to_string();
        let flags = Tensor::from_vec(vec![BoolByte(1), BoolByte(0)], vec![2]).unwrap();
        let halves = Tensor::from_vec(vec![f16::from_f32(1.5), f16::NEG_INFINITY], vec![2]).unwrap();
        let complex = Tensor::from_vec(vec![Complex::new(1.0_f32, -2.0)], vec![1]).unwrap();
        npy::write(std::fs::File::create(path("flags.npy")).unwrap(), &flags).unwrap();
        npy::write_npz(std::fs::File::create(path("both.npz")).unwrap(), [("h", &halves), ("z", &complex)]).unwrap();
        let check = |argument: &str, expected: &[(&str, &Tensor)]| {
            let expected = expected.iter().map(|&(name, tensor)| (name.to_owned(), tensor.clone())).collect();
            assert_eq!(tensors(&[argument], &DECLARED).unwrap(), expected, "{argument}");
        };
        check(&format!("a={}", path("flags.npy")), &[("a", &flags)]);
        check(&path("both.npz"), &[("h", &halves), ("z", &complex)]);
    }

    #[test]
    fn tensors_of_safetensors_files() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("w.safetensors");
        let raw = |dtype, bytes: &[u8]| RawTensor::new(dtype, vec![bytes.len()], bytes.to_vec().into()).unwrap();
        let all = [
            ("a", raw(ElementType::Float8E5m2, &[0x3c])),
            ("scale", raw(ElementType::Float8E8m0Fnu, &[0x80])),
            ("wrong", raw(ElementType::Bool, &[1, 2])),
        ];
        let file = std::fs::File::create(&path).unwrap();
        safetensors::write(all.iter().map(|(name, tensor)| (*name, tensor)), &Metadata::default(), file).unwrap();
        let path = path.to_str().unwrap();
        let read = |argument: String, is_cast| {
            let read = ReadInputs::read(vec![argument.parse().unwrap()], is_cast)?.into_tensors(&DECLARED)?;
            Ok(read.into_values().next().unwrap())
        };
        let one = Tensor::from_vec(vec![Float8E5m2(0x3c)], vec![1]).unwrap();
        assert_eq!(read(format!("b={path}#a"), false).map_err(|error: InputError| error.to_string()), Ok(one.clone()));
        assert_eq!(read(format!("a={path}"), false).map_err(|error: InputError| error.to_string()), Ok(one));
        // Only weights have this type. It is cast on request.
        assert!(matches!(read(format!("b={path}#scale"), false), Err(InputError::Numbers { .. })));
        let two = Tensor::from_vec(vec![2.0_f32], vec![1]).unwrap();
        assert_eq!(read(format!("b={path}#scale"), true).map_err(|error: InputError| error.to_string()), Ok(two));
        assert!(matches!(read(format!("b={path}#wrong"), false), Err(InputError::Elements { .. })));
        assert!(matches!(read(format!("b={path}#none"), false), Err(InputError::TensorFile { .. })));
        assert!(matches!(read(format!("b={path}"), false), Err(InputError::NoArray { .. })));
    }

    #[test]
    fn bytes_and_texts_of_files() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let argument = format!("x=@{}", path.display());
        let one = SymbolicShape::Dimensions(vec![Dimension::Any]);
        let read = |bytes: &[u8], dtype: Option<DataType>| {
            std::fs::write(&path, bytes).unwrap();
            let declared: Vec<_> =
                dtype.map(|dtype| DeclaredInput { name: "x", dtype, shape: &one }).into_iter().collect();
            tensors(&[&argument], &declared).map(|mut tensors| tensors.remove("x").unwrap())
        };
        let bytes = |shape| Tensor::from_bytes([vec![0xff]], shape).unwrap();
        assert_eq!(read(b"\xff", Some(DataType::Bytes)).unwrap(), bytes(vec![1]));
        assert_eq!(read(b"\xff", None).unwrap(), bytes(vec![]));
        assert_eq!(read(b"hi", Some(DataType::String)).unwrap(), Tensor::from_strings(["hi"], vec![1]).unwrap());
        assert!(matches!(read(b"\xff", Some(DataType::String)), Err(InputError::NotText { .. })));
        assert!(matches!(read(b"1", Some(DataType::Float32)), Err(InputError::NotBytes { .. })));
        assert!(matches!(tensors(&["x=@/does/not/exist"], &[]), Err(InputError::Bytes { .. })));
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
