//! Writes outputs to the files of `-o` arguments, each under a temporary name that is then renamed.

use std::collections::BTreeMap;
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};

use carton_tensor::Tensor;
use carton_tensor::files::{PendingFile, RawTensor};
use carton_tensor::npy::{self, NpyError};
use carton_tensor::safetensors::{self, Metadata, SafetensorsError};
use serde::Serialize;
use serde::ser::SerializeMap;

use super::to_json::{JsonTensor, serialize_kind};
use crate::args::{OutputArgument, is_safetensors};
use crate::failure::Failure;

/// An error of writing an output to a file.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OutputFileError {
    #[error("cannot write `{}`", path.display())]
    Npy { path: PathBuf, source: NpyError, advice: &'static str },
    #[error("cannot write `{}`", path.display())]
    Safetensors { path: PathBuf, source: Box<SafetensorsError>, advice: &'static str },
    #[error("cannot write `{}`: output `{output}` has {found}, and a safetensors file holds numbers", path.display())]
    NotNumbers { path: PathBuf, output: String, found: &'static str, advice: &'static str },
    #[error("cannot write `{}`", path.display())]
    Io { path: PathBuf, source: io::Error },
    #[error("the model returned no output `{name}`, it returned: {}", returned.join(", "))]
    NoSuchOutput { name: String, returned: Vec<String> },
    #[error("`{}` is named twice", path.display())]
    Twice { path: PathBuf },
    #[error("`{}` has no output's name, and the model does not declare that many outputs: {}", path.display(), names.join(", "))]
    NoName { path: PathBuf, names: Vec<String> },
}

impl From<OutputFileError> for Failure {
    fn from(error: OutputFileError) -> Self {
        match &error {
            OutputFileError::Npy { source: NpyError::Unsupported { .. }, advice, .. }
            | OutputFileError::NotNumbers { advice, .. } => {
                let advice = *advice;
                Self::new(error).hint(advice)
            }
            OutputFileError::Safetensors { source, advice, .. }
                if matches!(**source, SafetensorsError::Unwritable(_)) =>
            {
                let advice = *advice;
                Self::new(error).hint(advice)
            }
            OutputFileError::Twice { .. } => Self::usage(error),
            OutputFileError::NoName { .. } => Self::usage(error).hint("name it: -o NAME=FILE.npy"),
            _ => Self::new(error),
        }
    }
}

/// The file of each output.
pub(crate) struct Destinations(Vec<(Destination, PathBuf)>);

#[derive(PartialEq, Eq)]
enum Destination {
    All,
    One(String),
}

impl Destinations {
    /// Assigns outputs to files without a name: in the declared order, or the only output.
    ///
    /// # Errors
    /// There are more files without a name than outputs, or the model does not return an output of this name.
    pub(crate) fn resolve(
        arguments: Vec<OutputArgument>,
        declared: &[&str],
        outputs: &BTreeMap<String, Tensor>,
    ) -> Result<Self, OutputFileError> {
        let named: Vec<String> = arguments.iter().filter_map(|argument| argument.name.clone()).collect();
        let known: Vec<&str> = match (declared, outputs.len()) {
            ([], 1) => outputs.keys().map(String::as_str).collect(),
            (declared, _) => declared.to_vec(),
        };
        let mut free = known.iter().filter(|name| !named.iter().any(|given| given == *name));
        let mut destinations: Vec<(Destination, PathBuf)> = Vec::new();
        for argument in arguments {
            // `o.npy` and `./o.npy` are the same file.
            let place = |path: &Path| std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf());
            if destinations.iter().any(|(_, path)| place(path) == place(&argument.path)) {
                return Err(OutputFileError::Twice { path: argument.path });
            }
            if argument.takes_all() {
                destinations.push((Destination::All, argument.path));
                continue;
            }
            let Some(name) = argument.name.or_else(|| free.next().map(|&name| name.to_owned())) else {
                let names = outputs.keys().cloned().collect();
                return Err(OutputFileError::NoName { path: argument.path, names });
            };
            if !outputs.contains_key(&name) {
                let returned = outputs.keys().cloned().collect();
                return Err(OutputFileError::NoSuchOutput { name, returned });
            }
            destinations.push((Destination::One(name), argument.path));
        }
        Ok(Self(destinations))
    }

    /// Whether there are no files.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The file that holds this output.
    pub(crate) fn file_of(&self, output: &str) -> Option<&Path> {
        self.0
            .iter()
            .find(|(destination, _)| match destination {
                Destination::All => true,
                Destination::One(name) => name == output,
            })
            .map(|(_, path)| path.as_path())
    }

    /// Writes the files, and returns their paths. Each appears complete or not at all.
    ///
    /// # Errors
    /// A file cannot be written, or a tensor is nested, which `.npy` cannot hold.
    pub(crate) fn write(&self, outputs: &BTreeMap<String, Tensor>) -> Result<Vec<PathBuf>, OutputFileError> {
        let mut written = Vec::new();
        for (destination, path) in &self.0 {
            let npy_error = |source| OutputFileError::Npy { path: path.clone(), source, advice: advice(outputs) };
            let io_error = |source| OutputFileError::Io { path: path.clone(), source };
            let file = PendingFile::new(path).map_err(io_error)?;
            let mut buffered = BufWriter::new(file.file());
            match destination {
                Destination::All if is_safetensors(path) => {
                    let tensors = numbers(outputs).map_err(|(output, found)| {
                        let (path, output) = (path.clone(), output.to_owned());
                        OutputFileError::NotNumbers { path, output, found, advice: advice(outputs) }
                    })?;
                    let tensors = tensors.iter().map(|(name, tensor)| (*name, tensor));
                    safetensors::write(tensors, &Metadata::default(), &mut buffered).map_err(|source| {
                        let (path, source) = (path.clone(), Box::new(source));
                        OutputFileError::Safetensors { path, source, advice: advice(outputs) }
                    })?;
                }
                Destination::All => {
                    let tensors = outputs.iter().map(|(name, tensor)| (name.as_str(), tensor));
                    npy::write_npz(&mut buffered, tensors).map_err(npy_error)?;
                }
                Destination::One(name) => match outputs.get(name) {
                    Some(tensor) => npy::write(&mut buffered, tensor).map_err(npy_error)?,
                    None => continue,
                },
            }
            buffered.into_inner().map_err(|error| io_error(error.into_error()))?;
            file.publish().map_err(io_error)?;
            written.push(path.clone());
        }
        Ok(written)
    }
}

/// What can be done with outputs that a file cannot hold.
fn advice(outputs: &BTreeMap<String, Tensor>) -> &'static str {
    let in_safetensors = || {
        let tensors = numbers(outputs).ok()?;
        let tensors = tensors.iter().map(|(name, tensor)| (*name, tensor));
        safetensors::write(tensors, &Metadata::default(), io::sink()).ok()
    };
    if outputs.values().all(|tensor| tensor.as_nested().is_none() && tensor.dtype().is_some_and(npy::holds)) {
        "-o FILE.npz takes these outputs, and --json prints every kind of output"
    } else if in_safetensors().is_some() {
        "-o FILE.safetensors takes these outputs, and --json prints every kind of output"
    } else {
        "no one file takes these outputs: --json prints every kind of output"
    }
}

/// The outputs as tensors of files.
///
/// # Errors
/// One is no tensor of numbers: its name, and what it has.
fn numbers(outputs: &BTreeMap<String, Tensor>) -> Result<Vec<(&str, RawTensor)>, (&str, &'static str)> {
    let of_output = |tensor: &Tensor| match tensor {
        Tensor::Numeric(numbers) => Ok(RawTensor::from(numbers)),
        Tensor::String(_) => Err("texts"),
        Tensor::Bytes(_) => Err("bytes"),
        _ => Err("tensors of different shapes"),
    };
    let mut numbers = Vec::new();
    for (name, tensor) in outputs {
        numbers.push((name.as_str(), of_output(tensor).map_err(|found| (name.as_str(), found))?));
    }
    Ok(numbers)
}

/// An output as `--json` prints it: its data, or the file that holds it.
pub(crate) struct JsonOutput<'a> {
    /// The output.
    pub(crate) tensor: &'a Tensor,
    /// The file that it was written to.
    pub(crate) file: Option<&'a Path>,
}

impl Serialize for JsonOutput<'_> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Some(file) = self.file else { return JsonTensor(self.tensor).serialize(serializer) };
        let mut map = serializer.serialize_map(None)?;
        serialize_kind(self.tensor, &mut map)?;
        map.serialize_entry("file", &file.to_string_lossy())?;
        map.end()
    }
}
