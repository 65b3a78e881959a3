//! Where the tensors of `carton tensor` come from: files of several formats, and cartons. Opening one reads names, dtypes and shapes;
//! a tensor is read when it is asked for.

use std::path::{Path, PathBuf};

use carton_core::Package;
use carton_tensor::files::{Entry, RawTensor, TensorFile, TensorFileFormat};
use carton_tensor::npy::Array;
use carton_tensor::weights::Filter;
use carton_tensor::ztensor::{self, Checks};
use carton_tensor::{NestedTensor, StringTensor, Tensor};

use super::error::TensorFileError;
use super::listing::{Listed, list};
use super::opened::Opened;

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
    opened: Opened,
    listed: Vec<Listed>,
}

/// What a source is, as its text says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// A tensor file, and the one tensor of it that is asked for.
    File(PathBuf, Option<String>),
    /// A carton, and what follows its `#`: see [`Source::carton`].
    Carton(PathBuf, Option<String>),
}

/// The folder of a carton that its tensors are in, which may stand between `#` and a name.
const TENSOR_DATA: &str = "tensor_data";
/// What follows `#` where a carton is pinned to a hash, which is part of where it is.
const PIN: &str = "sha256=";

impl Place {
    /// Takes apart `FILE#NAME`, `CARTON#NAME` and `CARTON#tensor_data/NAME`. A file whose own name has a `#` is taken as it is.
    pub(crate) fn parse(source: &Path) -> Self {
        let Some(text) = source.to_str() else { return Self::File(source.to_path_buf(), None) };
        let exists = source.exists();
        // The first of them: the name of a tensor may have another one in it.
        let is_carton = |place: &str, rest: &str| {
            !rest.starts_with(PIN) && (names_a_carton(place) || tensor_data_part(rest).is_some())
        };
        if !exists && let Some((carton, part)) = split_where(text, "#", is_carton) {
            return Self::Carton(carton.into(), Some(part.to_owned()).filter(|part| !part.is_empty()));
        }
        if names_a_carton(text) {
            return Self::Carton(text.into(), None);
        }
        if exists {
            return Self::File(text.into(), None);
        }
        match split_where(text, "#", |file, _| Path::new(file).is_file()) {
            Some((file, name)) => Self::File(file.into(), Some(name.to_owned())),
            None => Self::File(text.into(), None),
        }
    }
}

/// Whether text is where a carton is, as far as it and what is there say so.
fn names_a_carton(text: &str) -> bool {
    let place = text.split_once(&format!("#{PIN}")).map_or(text, |(place, _)| place);
    let is_url = ["http://", "https://"].iter().any(|scheme| place.starts_with(scheme));
    let path = Path::new(place);
    is_url || place.ends_with(".carton") || (path.is_dir() && path.join("carton.toml").is_file())
}

/// What follows the folder of tensors, where `part` begins with it; nothing where it is that folder.
fn tensor_data_part(part: &str) -> Option<&str> {
    let rest = part.strip_prefix(TENSOR_DATA)?;
    if rest.is_empty() { Some(rest) } else { rest.strip_prefix('/') }
}

/// Splits the text at the first separator that this is true of, given what is before and behind it.
fn split_where<'a>(
    text: &'a str,
    separator: &str,
    is_right: impl Fn(&str, &str) -> bool,
) -> Option<(&'a str, &'a str)> {
    let mut places = text.match_indices(separator).map(|(at, found)| (&text[..at], &text[at + found.len()..]));
    places.find(|(before, behind)| is_right(before, behind))
}

impl Source {
    /// Opens a tensor file. What it is its first bytes say, and its name where they say nothing that is known.
    pub(crate) fn open(path: &Path, only: Option<&str>) -> Result<Self, TensorFileError> {
        let unreadable = |source| TensorFileError::Io { action: "open", path: path.to_path_buf(), source };
        let metadata = std::fs::metadata(path).map_err(unreadable)?;
        if !metadata.is_file() {
            return Err(TensorFileError::NotAFile { path: path.to_path_buf() });
        }
        let file = Box::new(TensorFile::open(path)?);
        Self::new(path.display().to_string(), Opened::File(file, path.to_path_buf()), only)
    }

    /// The tensors of a carton; with a `part`, the tensor of that name, or of what follows `tensor_data/` in it.
    pub(crate) fn carton(package: Package, path: &Path, part: Option<&str>) -> Result<Self, TensorFileError> {
        let is_name = part.is_some_and(|part| package.tensors().get(part).is_some());
        let only = match part.and_then(tensor_data_part) {
            Some(name) if !is_name => Some(name).filter(|name| !name.is_empty()),
            _ => part,
        };
        Self::new(format!("{}#{TENSOR_DATA}", path.display()), Opened::Carton(package), only)
    }

    fn new(place: String, opened: Opened, only: Option<&str>) -> Result<Self, TensorFileError> {
        let mut source = Self { listed: list(&opened), opened, place };
        if let Some(only) = only {
            source.keep(only)?;
        }
        Ok(source)
    }

    /// The same, whose sparse tensors may have up to so many bytes when they are made dense.
    pub(crate) fn with_max_dense(self, n_bytes: Option<u64>) -> Self {
        match (self.opened, n_bytes) {
            (Opened::File(file, path), Some(n_bytes)) => {
                Self { opened: Opened::File(Box::new(file.with_max_dense(n_bytes)), path), ..self }
            }
            (opened, _) => Self { opened, ..self },
        }
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
        let filter = Filter::any_glob(patterns)?;
        self.listed.retain(|listed| filter.accepts(&listed.name));
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
            Opened::File(file, _) => Ok(match entry(file, name)?.read_array()? {
                Array::Numbers(tensor) => Value::Numbers(tensor),
                Array::Strings(tensor) => Value::Strings(tensor),
            }),
            Opened::Carton(package) => Ok(match package.tensor(name).map_err(carton_core::Error::from)? {
                Tensor::Numeric(tensor) => Value::Numbers(RawTensor::from(&tensor)),
                Tensor::String(tensor) => Value::Strings(tensor),
                Tensor::Nested(tensor) => Value::Nested(tensor),
                _ => return Err(TensorFileError::UnknownKind { name: name.to_owned() }),
            }),
        }
    }

    /// The file that is read, if it is one.
    pub(crate) fn file(&self) -> Option<&TensorFile> {
        match &self.opened {
            Opened::File(file, _) => Some(file),
            Opened::Carton(_) => None,
        }
    }

    /// The same, if it is a zTensor file.
    pub(crate) fn as_ztensor(&self) -> Option<&ztensor::Reader> {
        self.file().and_then(TensorFile::as_ztensor)
    }

    /// The paths of all files that are read.
    pub(crate) fn paths(&self) -> Vec<PathBuf> {
        let Opened::File(file, path) = &self.opened else { return Vec::new() };
        let shards = file.as_sharded().into_iter().flat_map(|sharded| sharded.shards());
        std::iter::once(path.clone()).chain(shards.map(|(name, _)| path.with_file_name(name))).collect()
    }

    /// The same, and each digest is compared with the bytes that are read: for what is written again must not be damaged.
    pub(crate) fn verifying(self) -> Self {
        let opened = match self.opened {
            Opened::File(file, path) => {
                Opened::File(Box::new(file.checking(Checks { digests: true, bools: false })), path)
            }
            other => other,
        };
        Self { opened, ..self }
    }

    /// The elements of all tensors, as far as that is known. What a file claims may be more than there can be.
    pub(crate) fn n_elements(&self) -> u64 {
        let of_one =
            |shape: &[usize]| shape.iter().fold(1, |product: u64, &length| product.saturating_mul(length as u64));
        let shapes = self.listed.iter().filter_map(|listed| listed.shape.as_deref());
        shapes.map(of_one).fold(0, u64::saturating_add)
    }

    /// The bytes of all tensors, as far as that is known. What a file claims may be more than there can be.
    pub(crate) fn total(&self) -> u64 {
        self.listed.iter().filter_map(|listed| listed.bytes).fold(0, u64::saturating_add)
    }
}

/// The tensor of this name. The one array of an .npy file has none, and is listed by the name of the file.
fn entry<'a>(file: &'a TensorFile, name: &str) -> Result<Entry<'a>, TensorFileError> {
    let only = if file.format() == TensorFileFormat::Npy { file.entries().next() } else { None };
    match only {
        Some(only) => Ok(only),
        None => Ok(file.entry(name)?),
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
        check("Cargo.toml#x#y", Place::File("Cargo.toml".into(), name("x#y")));
        let carton = |place: &str, part: &str| {
            Place::Carton(place.into(), Some(part.to_owned()).filter(|part| !part.is_empty()))
        };
        check("m.carton", carton("m.carton", ""));
        check("m.carton#", carton("m.carton", ""));
        check("m.carton#x", carton("m.carton", "x"));
        check("m.carton#a/b#c.carton", carton("m.carton", "a/b#c.carton"));
        check("m.carton#tensor_data/x#tensor_data", carton("m.carton", "tensor_data/x#tensor_data"));
        check("m.carton#tensor_data", carton("m.carton", "tensor_data"));
        check("m#tensor_data/a/b", carton("m", "tensor_data/a/b"));
        check("m#tensor_dates", Place::File("m#tensor_dates".into(), None));
        check("m.carton#sha256=12", carton("m.carton#sha256=12", ""));
        check("m.carton#sha256=12#x", carton("m.carton#sha256=12", "x"));
        check("https://host/m#tensor_data/x", carton("https://host/m", "tensor_data/x"));
        check("https://host/m#x", carton("https://host/m", "x"));
        check("https://host/m.carton", carton("https://host/m.carton", ""));
        check("https://host/m#sha256=12", carton("https://host/m#sha256=12", ""));
    }
}
