//! The input of `carton tensor`: files of several formats, and cartons. Opening one reads names, dtypes and shapes; a tensor is read on
//! request.

use std::path::{Path, PathBuf};

use carton_core::tensor::FileBytes;
use carton_core::{Package, Place};
use carton_tensor::any_file::{ElementOrder, Entry, TensorFile, TensorFileFormat};
use carton_tensor::files::RawTensor;
use carton_tensor::npy::Array;
use carton_tensor::weights::{self, Filter, LoadOptions, Statistics};
use carton_tensor::ztensor::{self, Checks};
use carton_tensor::{NestedTensor, StringTensor, Tensor};

use super::error::{TensorFileError, shown_name};
use super::listing::{Listed, list};
use super::opened::Opened;
use crate::progress::WorkContext;

/// A tensor that was read.
#[derive(Clone, Debug)]
pub(crate) enum Value {
    Numbers(RawTensor),
    Strings(StringTensor),
    Nested(NestedTensor),
}

/// An open tensor file, or the tensors of a carton.
pub(crate) struct Source {
    /// The location as it was given, for messages.
    pub(crate) place: String,
    opened: Opened,
    listed: Vec<Listed>,
}

/// The location of a source, parsed from its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SourceLocation {
    /// A tensor file, and the name of the requested tensor, if any.
    File(PathBuf, Option<String>),
    /// A carton, and the text after its `#`: see [`Source::carton`].
    Carton(PathBuf, Option<String>),
    /// A URL that may be that of a tensor file or of a carton, which its bytes decide, and the text after its `#`.
    Unknown(String, Option<String>),
}

/// The folder of a carton's tensors, which may stand between `#` and a name.
const TENSOR_DATA: &str = "tensor_data";
/// The text after `#` that pins a carton to a hash, which is part of its location.
const PIN: &str = "sha256=";

impl SourceLocation {
    /// Parses `FILE#NAME`, `CARTON#NAME` and `CARTON#tensor_data/NAME`. An existing file whose own name contains `#` is taken as it is.
    pub(crate) fn parse(source: &Path) -> Self {
        let Some(text) = source.to_str() else { return Self::File(source.to_path_buf(), None) };
        if Place::is_url(text) && !text.starts_with("file:") {
            return Self::parse_url(text);
        }
        let exists = source.exists();
        // Splits at the first `#`, because the name of a tensor may contain another one.
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

/// The scheme of registries, which have cartons and no other files.
const REGISTRY: &str = "oci:";

impl SourceLocation {
    /// Splits a URL from what follows its `#`. A pin follows one of its own.
    fn parse_url(text: &str) -> Self {
        let (place, part) = match text.split_once('#') {
            Some((place, rest)) if rest.starts_with(PIN) => match rest.split_once('#') {
                Some((pin, part)) => (format!("{place}#{pin}"), Some(part)),
                None => (text.to_owned(), None),
            },
            Some((place, part)) => (place.to_owned(), Some(part)),
            None => (text.to_owned(), None),
        };
        let is_carton = place.starts_with(REGISTRY)
            || place.contains('#')
            || place.ends_with(".carton")
            || part.is_some_and(|part| tensor_data_part(part).is_some());
        let part = part.filter(|part| !part.is_empty()).map(str::to_owned);
        if is_carton { Self::Carton(place.into(), part) } else { Self::Unknown(place, part) }
    }
}

/// Whether text is the path of a carton, judged by the text and by what exists there.
fn names_a_carton(text: &str) -> bool {
    let place = text.split_once(&format!("#{PIN}")).map_or(text, |(place, _)| place);
    let path = Path::new(place);
    place.ends_with(".carton") || (path.is_dir() && path.join("carton.toml").is_file())
}

/// Returns the text after the folder of tensors, if `part` begins with it; empty if `part` is that folder.
fn tensor_data_part(part: &str) -> Option<&str> {
    let rest = part.strip_prefix(TENSOR_DATA)?;
    if rest.is_empty() { Some(rest) } else { rest.strip_prefix('/') }
}

/// The file of the carton that `part` begins with, and the name of a tensor in it, which follows a `#`.
fn file_in<'a>(package: &Package, part: &'a str) -> Option<(&'a str, Option<&'a str>)> {
    if !part.starts_with("model/") {
        return None;
    }
    let files = package.files();
    let is_file = |path: &str| files.iter().any(|file| file.path == path);
    if is_file(part) {
        return Some((part, None));
    }
    split_where(part, "#", |path, _| is_file(path)).map(|(path, name)| (path, Some(name)))
}

/// Splits the text at the first separator for which `is_right` accepts the text before and after it.
fn split_where<'a>(
    text: &'a str,
    separator: &str,
    is_right: impl Fn(&str, &str) -> bool,
) -> Option<(&'a str, &'a str)> {
    let mut places = text.match_indices(separator).map(|(at, found)| (&text[..at], &text[at + found.len()..]));
    places.find(|(before, behind)| is_right(before, behind))
}

impl Source {
    /// Opens a tensor file. Its format is recognized by its first bytes, or else by its name.
    pub(crate) fn open(path: &Path, only: Option<&str>) -> Result<Self, TensorFileError> {
        let unreadable = |source| TensorFileError::Io { action: "open", path: path.to_path_buf(), source };
        let metadata = std::fs::metadata(path).map_err(unreadable)?;
        if !metadata.is_file() {
            return Err(TensorFileError::NotAFile { path: path.to_path_buf() });
        }
        let file = Box::new(TensorFile::open(path)?);
        Self::new(path.display().to_string(), Opened::File(file, path.to_path_buf()), only)
    }

    /// Opens the bytes of a tensor file that is elsewhere. `place` is its name in messages, by whose ending formats without a mark are recognized.
    pub(crate) fn of_bytes(bytes: FileBytes, place: &str, only: Option<&str>) -> Result<Self, TensorFileError> {
        let file = Box::new(TensorFile::new(bytes, place)?);
        Self::new(place.to_owned(), Opened::File(file, PathBuf::from(place)), only)
    }

    /// Takes the tensors of a carton, or with `model/…` as the `part` those of one of its files. With another `part`, takes the tensor with that name, or with the name after `tensor_data/`.
    pub(crate) fn carton(package: Package, path: &Path, part: Option<&str>) -> Result<Self, TensorFileError> {
        if let Some((file, only)) = part.and_then(|part| file_in(&package, part)) {
            let bytes = package.file_bytes(file)?;
            return Self::of_bytes(bytes, &format!("{}#{file}", path.display()), only);
        }
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

    /// Sets the largest size in bytes of sparse tensors that are made dense.
    pub(crate) fn with_max_dense(self, n_bytes: Option<u64>) -> Self {
        match (self.opened, n_bytes) {
            (Opened::File(file, path), Some(n_bytes)) => {
                Self { opened: Opened::File(Box::new(file.with_max_dense(n_bytes)), path), ..self }
            }
            (opened, _) => Self { opened, ..self },
        }
    }

    /// Keeps only the tensor of this name.
    pub(crate) fn keep(&mut self, only: &str) -> Result<(), TensorFileError> {
        if !self.listed.iter().any(|listed| listed.name == only) {
            let present = self.listed.iter().map(|listed| listed.name.clone()).collect();
            let (place, name) = (self.place.clone(), only.to_owned());
            return Err(TensorFileError::NoSuchTensor { place, name, present });
        }
        self.listed.retain(|listed| listed.name == only);
        Ok(())
    }

    /// Keeps only tensors whose names match one of the patterns, if there are patterns.
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

    /// Reads a tensor. Sparse and quantized tensors become dense.
    pub(crate) fn read(&self, name: &str) -> Result<Value, TensorFileError> {
        match &self.opened {
            Opened::File(file, _) => Ok(match entry(file, name)?.read_array()? {
                Array::Numbers(tensor) => Value::Numbers(tensor),
                Array::Strings(tensor) => Value::Strings(tensor),
            }),
            Opened::Carton(package) => Ok(match package.tensor(name)? {
                Tensor::Numeric(tensor) => Value::Numbers(RawTensor::from(&tensor)),
                Tensor::String(tensor) => Value::Strings(tensor),
                Tensor::Nested(tensor) => Value::Nested(tensor),
                _ => return Err(TensorFileError::UnknownKind { name: name.to_owned() }),
            }),
        }
    }

    /// Reads all that a file has of a tensor, and checks it, piece by piece. A tensor of a carton is read whole.
    pub(crate) fn check(&self, name: &str) -> Result<(), TensorFileError> {
        match &self.opened {
            Opened::File(file, _) => Ok(entry(file, name)?.check()?),
            Opened::Carton(_) => self.read(name).map(drop),
        }
    }

    /// Measures the numbers of a tensor of a file, which is read piece by piece. `None` for a carton.
    pub(crate) fn measure(&self, name: &str, context: &WorkContext) -> Result<Option<Statistics>, TensorFileError> {
        let Opened::File(file, _) = &self.opened else { return Ok(None) };
        let options = LoadOptions::default().context(context.clone());
        Ok(Some(weights::stats_of_entry(&entry(file, name)?, &options)?))
    }

    /// Passes the numbers of a tensor of a file to `visit`, piece by piece, in the order in which they are measured.
    pub(crate) fn visit(
        &self,
        name: &str,
        context: &WorkContext,
        mut visit: impl FnMut(&[u8]),
    ) -> Result<(), TensorFileError> {
        /// The numbers that are passed at a time.
        const AT_ONCE: usize = 1 << 16;
        let Opened::File(file, _) = &self.opened else { return Ok(()) };
        entry(file, name)?.visit(ElementOrder::File, AT_ONCE, |piece| {
            visit(piece);
            Ok(context.check()?)
        })
    }

    /// The file, if the source is one.
    pub(crate) fn file(&self) -> Option<&TensorFile> {
        match &self.opened {
            Opened::File(file, _) => Some(file),
            Opened::Carton(_) => None,
        }
    }

    /// The reader, if the source is a zTensor file.
    pub(crate) fn as_ztensor(&self) -> Option<&ztensor::Reader> {
        self.file().and_then(TensorFile::as_ztensor)
    }

    /// The paths of all files of the source.
    pub(crate) fn paths(&self) -> Vec<PathBuf> {
        let Opened::File(file, path) = &self.opened else { return Vec::new() };
        let shards = file.as_sharded().into_iter().flat_map(|sharded| sharded.shards());
        std::iter::once(path.clone()).chain(shards.map(|(name, _)| path.with_file_name(name))).collect()
    }

    /// Whether to compare each digest with the bytes that are read, so that no damaged bytes are shown, or written again.
    pub(crate) fn verifying(self, digests: bool) -> Self {
        let opened = match self.opened {
            Opened::File(file, path) => Opened::File(Box::new(file.checking(Checks { digests, bools: false })), path),
            other => other,
        };
        Self { opened, ..self }
    }

    /// Names the digests of the listed tensors that are not `compared`, because their algorithms are not known, if there are any.
    pub(crate) fn unknown_digests(&self, not_compared: &str) -> Option<String> {
        const SHOWN: usize = 5;
        let reader = self.as_ztensor()?;
        let mut unknown = Vec::new();
        for object in self.listed.iter().filter_map(|listed| reader.object(&listed.name).ok()) {
            let algorithms = object.components().filter_map(|component| component.unknown_digest());
            unknown.extend(
                algorithms.map(|algorithm| format!("{} of `{}`", shown_name(algorithm), shown_name(object.name()))),
            );
        }
        let shown = unknown.iter().take(SHOWN).map(String::as_str).collect::<Vec<_>>().join(", ");
        let more = if unknown.len() > SHOWN { " and others" } else { "" };
        (!unknown.is_empty()).then(|| {
            format!("{not_compared}, because their algorithms are not known: the digests {shown}{more} [spec/ztensor.md §4.3]")
        })
    }

    /// The names of the entries of an archive that are no arrays, and are not read, unless only one tensor was asked for.
    pub(crate) fn other_entries(&self) -> Vec<String> {
        let is_whole = |file: &&TensorFile| file.entries().count() == self.listed.len();
        self.file().filter(is_whole).map(TensorFile::other_entries).unwrap_or_default()
    }

    /// Says what is lost of the source whatever is written: digests that cannot be compared, and entries that are no arrays.
    pub(crate) fn not_written(&self) -> Vec<String> {
        const SHOWN: usize = 5;
        let others = self.other_entries();
        let shown: Vec<String> = others.iter().take(SHOWN).map(|name| shown_name(name)).collect();
        let more = if others.len() > SHOWN { " and others" } else { "" };
        let others = (!others.is_empty())
            .then(|| format!("not written, because they are no arrays (.npy): `{}`{more}", shown.join("`, `")));
        self.unknown_digests("neither compared nor written").into_iter().chain(others).collect()
    }

    /// The number of elements in all tensors, as far as it is known. Saturates, because a file may claim more than fits.
    pub(crate) fn n_elements(&self) -> u64 {
        let of_one =
            |shape: &[usize]| shape.iter().fold(1, |product: u64, &length| product.saturating_mul(length as u64));
        let shapes = self.listed.iter().filter_map(|listed| listed.shape.as_deref());
        shapes.map(of_one).fold(0, u64::saturating_add)
    }

    /// The size of all tensors in bytes, as far as it is known. Saturates, because a file may claim more than fits.
    pub(crate) fn total(&self) -> u64 {
        self.listed.iter().filter_map(|listed| listed.bytes).fold(0, u64::saturating_add)
    }
}

/// Returns the tensor of this name. The only array of an .npy file has no name, and is listed under the name of the file.
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
        let check = |text: &str, expected: SourceLocation| assert_eq!(SourceLocation::parse(Path::new(text)), expected);
        let name = |name: &str| Some(name.to_owned());
        check("none.zt", SourceLocation::File("none.zt".into(), None));
        check("none.zt#x", SourceLocation::File("none.zt#x".into(), None));
        check("Cargo.toml#x", SourceLocation::File("Cargo.toml".into(), name("x")));
        check("Cargo.toml#x#y", SourceLocation::File("Cargo.toml".into(), name("x#y")));
        let carton = |place: &str, part: &str| {
            SourceLocation::Carton(place.into(), Some(part.to_owned()).filter(|part| !part.is_empty()))
        };
        check("m.carton", carton("m.carton", ""));
        check("m.carton#", carton("m.carton", ""));
        check("m.carton#x", carton("m.carton", "x"));
        check("m.carton#a/b#c.carton", carton("m.carton", "a/b#c.carton"));
        check("m.carton#tensor_data/x#tensor_data", carton("m.carton", "tensor_data/x#tensor_data"));
        check("m.carton#tensor_data", carton("m.carton", "tensor_data"));
        check("m#tensor_data/a/b", carton("m", "tensor_data/a/b"));
        check("m#tensor_dates", SourceLocation::File("m#tensor_dates".into(), None));
        check("m.carton#sha256=12", carton("m.carton#sha256=12", ""));
        check("m.carton#sha256=12#x", carton("m.carton#sha256=12", "x"));
        check("https://host/m#tensor_data/x", carton("https://host/m", "tensor_data/x"));
        check("https://host/m.carton", carton("https://host/m.carton", ""));
        check("https://host/m.carton#x", carton("https://host/m.carton", "x"));
        check("https://host/m#sha256=12", carton("https://host/m#sha256=12", ""));
        check("https://host/m#sha256=12#x", carton("https://host/m#sha256=12", "x"));
        check("oci://host/m:1#x", carton("oci://host/m:1", "x"));
        let unknown =
            |place: &str, part: Option<&str>| SourceLocation::Unknown(place.to_owned(), part.map(str::to_owned));
        check("https://host/m", unknown("https://host/m", None));
        check("https://host/m#x#y", unknown("https://host/m", Some("x#y")));
        check("hf://a/b/c.safetensors#x", unknown("hf://a/b/c.safetensors", Some("x")));
        check("s3://a/b.npy", unknown("s3://a/b.npy", None));
    }
}
