//! Where the tensors of `carton tensor` come from: files of several formats, and cartons. Opening one reads names, dtypes and shapes;
//! a tensor is read when it is asked for.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use carton_core::package::Package;
use carton_tensor::files::{RawTensor, TensorFileFormat};
use carton_tensor::npy::{self, Array, Npz};
use carton_tensor::safetensors::{self, Sharded};
use carton_tensor::ztensor::{self, Checks, Format};
use carton_tensor::{NestedTensor, StringTensor, Tensor};

use super::error::TensorFileError;
use super::listing::{Listed, list};
use super::pattern::matches_any;

/// A tensor that was read.
#[derive(Clone, Debug)]
pub(crate) enum Value {
    Numbers(RawTensor),
    Strings(StringTensor),
    Nested(NestedTensor),
}

/// An open file of tensors, or those of a carton.
pub(crate) struct Source {
    /// As it was given, for messages.
    pub(crate) place: String,
    pub(crate) opened: Opened,
    listed: Vec<Listed>,
    /// The file that was opened, if it is one.
    path: Option<PathBuf>,
}

/// What was opened.
pub(crate) enum Opened {
    Safetensors(Box<safetensors::Reader>),
    Sharded(Box<Sharded>),
    Ztensor(Box<ztensor::Reader>),
    Npy(PathBuf),
    Npz(Mutex<Npz>),
    Carton(Package),
}

/// What a source is, as its text says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// A tensor file, and the one tensor of it that is asked for.
    File(PathBuf, Option<String>),
    /// A carton, and the one tensor.
    Carton(PathBuf, Option<String>),
}

/// What separates a carton from its tensors.
const TENSOR_DATA: &str = "#tensor_data";

impl Place {
    /// Takes apart `FILE#NAME` and `CARTON#tensor_data/NAME`. A file whose own name has a `#` is taken as it is.
    pub(crate) fn parse(source: &Path) -> Self {
        let Some(text) = source.to_str() else { return Self::File(source.to_path_buf(), None) };
        if let Some((carton, rest)) = text.rsplit_once(TENSOR_DATA)
            && (rest.is_empty() || rest.starts_with('/'))
        {
            let name = rest.strip_prefix('/').filter(|name| !name.is_empty());
            return Self::Carton(carton.into(), name.map(str::to_owned));
        }
        let is_url = ["http://", "https://"].iter().any(|scheme| text.starts_with(scheme));
        let is_folder = source.is_dir() && source.join("carton.toml").is_file();
        if is_url || is_folder || text.ends_with(".carton") {
            return Self::Carton(text.into(), None);
        }
        match text.rsplit_once('#') {
            Some((file, name)) if !source.exists() && Path::new(file).exists() => {
                Self::File(file.into(), Some(name.to_owned()))
            }
            _ => Self::File(text.into(), None),
        }
    }
}

impl Source {
    /// Opens a tensor file. What it is its first bytes say, and its name for a sharded checkpoint.
    pub(crate) fn open(path: &Path, only: Option<&str>) -> Result<Self, TensorFileError> {
        let source = Self::new(path.display().to_string(), open(path)?, only)?;
        Ok(Self { path: Some(path.to_path_buf()), ..source })
    }

    /// The tensors of a carton.
    pub(crate) fn carton(package: Package, path: &Path, only: Option<&str>) -> Result<Self, TensorFileError> {
        Self::new(format!("{}{TENSOR_DATA}", path.display()), Opened::Carton(package), only)
    }

    fn new(place: String, opened: Opened, only: Option<&str>) -> Result<Self, TensorFileError> {
        let mut source = Self { listed: list(&opened)?, opened, place, path: None };
        if let Some(only) = only {
            source.keep(only)?;
        }
        Ok(source)
    }

    /// Leaves only the tensor of this name.
    pub(crate) fn keep(&mut self, only: &str) -> Result<(), TensorFileError> {
        if !self.listed.iter().any(|listed| listed.name == only) {
            let present = self.listed.iter().map(|listed| listed.name.clone()).collect();
            let (place, name) = (self.place.clone(), only.to_owned());
            return Err(TensorFileError::NoSuchTensor { place, name, present });
        }
        self.listed.retain(|listed| listed.name == only);
        Ok(())
    }

    /// Leaves only tensors whose names match one of the patterns, if there are patterns.
    pub(crate) fn keep_matching(&mut self, patterns: &[String]) -> Result<(), TensorFileError> {
        if patterns.is_empty() {
            return Ok(());
        }
        self.listed.retain(|listed| matches_any(patterns, &listed.name));
        match self.listed.is_empty() {
            true => Err(TensorFileError::NoneMatches { place: self.place.clone(), patterns: patterns.to_vec() }),
            false => Ok(()),
        }
    }

    /// The tensors, in the order of the file.
    pub(crate) fn listed(&self) -> &[Listed] {
        &self.listed
    }

    /// Reads a tensor; one that is stored sparse or quantized becomes dense.
    pub(crate) fn read(&self, name: &str) -> Result<Value, TensorFileError> {
        match &self.opened {
            Opened::Safetensors(reader) => Ok(Value::Numbers(reader.read(name)?)),
            Opened::Sharded(sharded) => Ok(Value::Numbers(sharded.read(name)?)),
            Opened::Ztensor(reader) => {
                let object = reader.object(name)?;
                Ok(Value::Numbers(match object.format() {
                    Format::SparseCsr => reader.csr(name)?.to_dense()?,
                    Format::SparseCoo => reader.coo(name)?.to_dense()?,
                    Format::QuantizedGroup => reader.quantized_group(name)?.dequantize()?,
                    Format::Dense | Format::Other(_) => reader.read_object(&object)?,
                }))
            }
            Opened::Npy(path) => Ok(npy::read_array(path)?.into()),
            Opened::Npz(npz) => Ok(npz.lock().unwrap_or_else(PoisonError::into_inner).read_array(name)?.into()),
            Opened::Carton(package) => Ok(match package.tensor(name).map_err(carton_core::Error::from)? {
                Tensor::Numeric(tensor) => Value::Numbers(RawTensor::from(&tensor)),
                Tensor::String(tensor) => Value::Strings(tensor),
                Tensor::Nested(tensor) => Value::Nested(tensor),
                _ => return Err(TensorFileError::UnknownKind { name: name.to_owned() }),
            }),
        }
    }

    /// The file that is read, if it is one.
    pub(crate) fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// All files that are read.
    pub(crate) fn files(&self) -> Vec<PathBuf> {
        let Some(path) = &self.path else { return Vec::new() };
        let mut files = vec![path.clone()];
        if let Opened::Sharded(sharded) = &self.opened {
            files.extend(sharded.shards().map(|(name, _)| path.with_file_name(name)));
        }
        files
    }

    /// The same, and each digest is compared with the bytes that are read: for what is written again must not be damaged.
    pub(crate) fn verifying(self) -> Self {
        let opened = match self.opened {
            Opened::Ztensor(reader) => {
                Opened::Ztensor(Box::new(reader.checking(Checks { digests: true, bools: false })))
            }
            other => other,
        };
        Self { opened, ..self }
    }

    /// The bytes of all tensors, as far as that is known. What a file claims may be more than there can be.
    pub(crate) fn total(&self) -> u64 {
        self.listed.iter().filter_map(|listed| listed.bytes).fold(0, u64::saturating_add)
    }
}

impl From<Array> for Value {
    fn from(array: Array) -> Self {
        match array {
            Array::Numbers(tensor) => Self::Numbers(tensor),
            Array::Strings(tensor) => Self::Strings(tensor),
        }
    }
}

fn open(path: &Path) -> Result<Opened, TensorFileError> {
    let unreadable = |source| TensorFileError::Io { action: "open", path: path.to_path_buf(), source };
    let metadata = std::fs::metadata(path).map_err(unreadable)?;
    if !metadata.is_file() {
        return Err(TensorFileError::NotAFile { path: path.to_path_buf() });
    }
    if path.to_string_lossy().to_ascii_lowercase().ends_with(".index.json") {
        return Ok(Opened::Sharded(Box::new(Sharded::open(path)?)));
    }
    let mut first = Vec::new();
    std::fs::File::open(path).and_then(|file| file.take(9).read_to_end(&mut first)).map_err(unreadable)?;
    // What the bytes say comes first: a file may be called anything. Where they say nothing that is known, the reader that the
    // name asks for says what is wrong with it.
    let extension = path.extension().map(|extension| extension.to_string_lossy().to_ascii_lowercase());
    let format = TensorFileFormat::of_bytes(&first).or(match extension.as_deref() {
        Some("safetensors") => Some(TensorFileFormat::Safetensors),
        Some("zt") => Some(TensorFileFormat::ZTensor),
        Some("npz") => Some(TensorFileFormat::Npz),
        Some("npy") => Some(TensorFileFormat::Npy),
        _ => None,
    });
    match format {
        Some(TensorFileFormat::Safetensors) => Ok(Opened::Safetensors(Box::new(safetensors::Reader::open(path)?))),
        Some(TensorFileFormat::ZTensor) => {
            let reader = ztensor::Reader::open(path).map_err(|error| match TensorFileError::from(error) {
                TensorFileError::Ztensor(source) if TensorFileError::is_malformed_ztensor(&source) => {
                    TensorFileError::NoZtensor { path: path.to_path_buf(), source }
                }
                other => other,
            })?;
            Ok(Opened::Ztensor(Box::new(reader)))
        }
        Some(TensorFileFormat::Npz) => Ok(Opened::Npz(Mutex::new(Npz::open(path)?))),
        Some(TensorFileFormat::Npy) => Ok(Opened::Npy(path.to_path_buf())),
        _ => Err(TensorFileError::UnknownFormat { path: path.to_path_buf() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places() {
        let check = |text: &str, expected: Place| assert_eq!(Place::parse(Path::new(text)), expected);
        let name = |name: &str| Some(name.to_owned());
        check("none.zt", Place::File("none.zt".into(), None));
        check("none.zt#x", Place::File("none.zt#x".into(), None));
        check("Cargo.toml#x", Place::File("Cargo.toml".into(), name("x")));
        check("m.carton", Place::Carton("m.carton".into(), None));
        check("m.carton#tensor_data", Place::Carton("m.carton".into(), None));
        check("m.carton#tensor_data/", Place::Carton("m.carton".into(), None));
        check("m.carton#tensor_data/a/b", Place::Carton("m.carton".into(), name("a/b")));
        check("https://host/m#tensor_data/x", Place::Carton("https://host/m".into(), name("x")));
        check("https://host/m.carton", Place::Carton("https://host/m.carton".into(), None));
    }
}
