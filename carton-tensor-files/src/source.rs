//! What tensors are read from: files of several formats, and cartons. Names, dtypes and shapes are known once it is open; a tensor is read on
//! request.

use std::collections::HashMap;
use std::io;
use std::path::PathBuf;
use std::sync::OnceLock;

use carton_core::Package;
use carton_core::tensor::FileBytes;
use carton_tensor::any_file::{ElementOrder, Entry, TensorFile, TensorFileFormat};
use carton_tensor::context::Context;
use carton_tensor::files::{RawTensor, Slice};
use carton_tensor::npy::Array;
use carton_tensor::weights::{self, Filter, LoadOptions, Logical, PackedError, Statistics};
use carton_tensor::ztensor::{self, Checks};
use carton_tensor::ztensor2;
use carton_tensor::{NestedTensor, StringTensor, Tensor};

use crate::checkpoint;
use crate::error::TensorFilesError;
use crate::location::{TENSOR_DATA, split_where, tensor_data_part};
use crate::packed::{Beside, LogicalTensor, PackedTensors};
use crate::tensor_info::{TensorInfo, of_carton, of_file};
use crate::text::{shown_name, shown_names};

/// A tensor that was read.
#[derive(Clone, Debug)]
pub enum Value {
    /// Numbers, as the file has them.
    Numbers(RawTensor),
    /// Strings.
    Strings(StringTensor),
    /// A list of tensors, which only cartons have.
    Nested(NestedTensor),
}

impl Value {
    /// The numbers; `None` for strings and lists.
    #[must_use]
    pub fn into_numbers(self) -> Option<RawTensor> {
        match self {
            Self::Numbers(tensor) => Some(tensor),
            Self::Strings(_) | Self::Nested(_) => None,
        }
    }
}

/// An open tensor file, or the tensors of a carton, made by [`open`](crate::open()).
pub struct TensorSource {
    place: String,
    opened: Opened,
    tensors: Vec<TensorInfo>,
    /// Where tensors are among them, by their names.
    positions: HashMap<String, usize>,
    /// Whether one tensor was asked for.
    is_one: bool,
    /// Opens files beside that of the tensors.
    beside: Beside,
    /// The packed tensors of the file, once they were asked for.
    packed: OnceLock<PackedTensors>,
    /// The tensors, with dense ones for the packed ones, once they were asked for.
    dense: OnceLock<Vec<TensorInfo>>,
}

/// A file, with its path or place, or a carton.
enum Opened {
    File(Box<TensorFile>, PathBuf),
    Carton(Package),
}

/// The tensor file of a carton that `part` begins with: a file of the model, or the folder of a checkpoint; and the name of a tensor in it, which
/// follows a `#`. `None` if `part` is no path of the model.
fn file_in<'p>(
    package: &Package,
    place: &str,
    part: &'p str,
) -> Result<Option<(String, Option<&'p str>)>, TensorFilesError> {
    if part != MODEL && !part.starts_with(&format!("{MODEL}/")) {
        return Ok(None);
    }
    let files = package.files();
    let is_file = |path: &str| files.iter().any(|file| file.path == path);
    if is_file(part) {
        return Ok(Some((part.to_owned(), None)));
    }
    if let Some((path, name)) = split_where(part, "#", |path, _| is_file(path)) {
        return Ok(Some((path.to_owned(), Some(name))));
    }
    let (folder, name) = part.split_once('#').map_or((part, None), |(folder, name)| (folder, Some(name)));
    let folder = folder.trim_end_matches('/');
    let inside = |path: &'_ str| -> Option<String> {
        path.strip_prefix(folder)?.strip_prefix('/').filter(|name| !name.contains('/')).map(str::to_owned)
    };
    let names: Vec<String> = files.iter().filter_map(|file| inside(&file.path)).collect();
    if names.is_empty() {
        return Err(TensorFilesError::NoSuchFile { place: place.to_owned(), file: shown_name(part) });
    }
    match checkpoint::choose(names.iter().map(String::as_str)) {
        Ok(file) => Ok(Some((format!("{folder}/{file}"), name))),
        Err(no_choice) => Err(TensorFilesError::no_choice(&format!("{place}#{folder}"), no_choice)),
    }
}

/// The folder of a carton's model.
const MODEL: &str = "model";

impl TensorSource {
    /// Takes the tensors of an open file, which `place` names in messages, or the one called `only`.
    ///
    /// # Errors
    /// It has no tensor of this name.
    pub(crate) fn file_at(
        file: TensorFile,
        place: &str,
        only: Option<&str>,
        beside: Beside,
    ) -> Result<Self, TensorFilesError> {
        Self::new(place.to_owned(), Opened::File(Box::new(file), PathBuf::from(place)), only, beside)
    }

    /// Takes the tensors of a carton, or with `model/…` as the `part` those of one of its files. With another `part`, takes the tensor with that
    /// name, or with the name after `tensor_data/`. `place` names the carton in messages.
    ///
    /// # Errors
    /// The carton has no such file or tensor; the file is none of tensors.
    pub fn of_carton(package: Package, place: &str, part: Option<&str>) -> Result<Self, TensorFilesError> {
        let is_name = part.is_some_and(|part| package.tensors().get(part).is_some());
        let file = match part {
            Some(part) if !is_name => file_in(&package, place, part)?,
            _ => None,
        };
        if let Some((file, only)) = file {
            let folder = file.rfind('/').map_or("", |end| &file[..=end]);
            let beside = |name: &str| bytes_of(&package, &format!("{folder}{name}"));
            let file_place = format!("{place}#{file}");
            let opened = TensorFile::with_files_beside(package.file_bytes(&file)?, file_place.as_str(), beside)?;
            let (package, folder) = (package.clone(), folder.to_owned());
            let beside = move |name: &str| match bytes_of(&package, &format!("{folder}{name}")) {
                Ok(bytes) => Ok(Some(bytes)),
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
                Err(error) => Err(error.to_string()),
            };
            return Self::file_at(opened, &file_place, only, Box::new(beside));
        }
        let only = match part.and_then(tensor_data_part) {
            Some(name) if !is_name => Some(name).filter(|name| !name.is_empty()),
            _ => part,
        };
        Self::new(format!("{place}#{TENSOR_DATA}"), Opened::Carton(package), only, Box::new(|_| Ok(None)))
    }

    fn new(place: String, opened: Opened, only: Option<&str>, beside: Beside) -> Result<Self, TensorFilesError> {
        let tensors: Vec<TensorInfo> = match &opened {
            Opened::File(file, path) => file.entries().map(|entry| of_file(file, path, &entry)).collect(),
            Opened::Carton(package) => package.tensors().iter().map(|(name, entry)| of_carton(name, entry)).collect(),
        };
        let is_one = only.is_some();
        let (packed, dense) = (OnceLock::new(), OnceLock::new());
        let mut source = Self { positions: positions(&tensors), tensors, opened, place, is_one, beside, packed, dense };
        if let Some(only) = only {
            source.keep(only)?;
        }
        Ok(source)
    }

    /// The location as it was given, for messages.
    #[must_use]
    pub fn place(&self) -> &str {
        &self.place
    }

    /// Sets the largest size in bytes of sparse tensors that are made dense.
    #[must_use]
    pub fn with_max_dense(self, n_bytes: Option<u64>) -> Self {
        match (self.opened, n_bytes) {
            (Opened::File(file, path), Some(n_bytes)) => {
                Self { opened: Opened::File(Box::new(file.with_max_dense(n_bytes)), path), ..self }
            }
            (opened, _) => Self { opened, ..self },
        }
    }

    /// Keeps only the tensor of this name.
    ///
    /// # Errors
    /// It has no tensor of this name.
    pub fn keep(&mut self, only: &str) -> Result<(), TensorFilesError> {
        if self.get(only).is_none() {
            let present = self.tensors.iter().map(|info| info.name.clone()).collect();
            let (place, name) = (self.place.clone(), only.to_owned());
            return Err(TensorFilesError::NoSuchTensor { place, name, present });
        }
        self.tensors.retain(|info| info.name == only);
        self.positions = positions(&self.tensors);
        self.dense = OnceLock::new();
        Ok(())
    }

    /// Keeps only tensors whose names match one of the patterns, if there are patterns.
    ///
    /// # Errors
    /// A pattern is not valid, or no name matches.
    pub fn keep_matching(&mut self, patterns: &[String]) -> Result<(), TensorFilesError> {
        if patterns.is_empty() {
            return Ok(());
        }
        let filter = Filter::any_glob(patterns)?;
        self.tensors.retain(|info| filter.accepts(&info.name));
        self.positions = positions(&self.tensors);
        self.dense = OnceLock::new();
        match self.tensors.is_empty() {
            true => Err(TensorFilesError::NoneMatches { place: self.place.clone(), patterns: patterns.to_vec() }),
            false => Ok(()),
        }
    }

    /// The tensors, in the order of the file.
    #[must_use]
    pub fn tensors(&self) -> &[TensorInfo] {
        &self.tensors
    }

    /// The tensors as they are written: with dense ones in the place of packed ones, if these are dequantized.
    pub(crate) fn listed(&self, dequantize: bool) -> &[TensorInfo] {
        match dequantize {
            true => self.dense.get_or_init(|| self.packed().dense(&self.tensors)),
            false => &self.tensors,
        }
    }

    /// The packed tensors of the file, which are found when this is first called.
    pub(crate) fn packed(&self) -> &PackedTensors {
        self.packed.get_or_init(|| self.file().map(|file| PackedTensors::find(file, &self.beside)).unwrap_or_default())
    }

    /// The packed tensor whose dense one has this name, and its file.
    pub(crate) fn packed_as(&self, name: &str) -> Option<(&TensorFile, &Logical)> {
        Some((self.file()?, self.packed().of_name(name)?))
    }

    /// Refuses a tensor that should be made dense, and cannot be.
    pub(crate) fn expect_dense(&self, name: &str) -> Result<(), PackedError> {
        self.packed().expect_dense(name)
    }

    /// Describes the dense tensor that the tensor of this name stands for, together with others that belong to it (spec/packed.md). The first call reads what the
    /// model's configuration beside the file says of quantization, if the file has such tensors, and tensors that describe others.
    #[must_use]
    pub fn logical(&self, name: &str) -> Option<LogicalTensor> {
        self.packed().logical(name)
    }

    /// Whether the tensor of this name belongs to one that [`logical`](Self::logical) describes.
    #[must_use]
    pub fn is_packed_part(&self, name: &str) -> bool {
        self.packed().is_part(name)
    }

    /// The one tensor, where its name says nothing: one tensor was asked for, or the file is an .npy file, which has no name for it.
    pub(crate) fn only_one(&self) -> Option<&TensorInfo> {
        let is_npy = self.file().is_some_and(|file| file.format() == TensorFileFormat::Npy);
        if self.is_one || is_npy { self.tensors.first() } else { None }
    }

    /// The entry of a tensor, if the source is a file.
    ///
    /// # Errors
    /// There is no such tensor.
    pub(crate) fn entry(&self, name: &str) -> Result<Option<Entry<'_>>, TensorFilesError> {
        self.file().map(|file| entry(file, name)).transpose()
    }

    /// Reads a tensor as cartons have it. `None` if it has elements that those cannot have.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub(crate) fn tensor(&self, name: &str) -> Result<Option<Tensor>, TensorFilesError> {
        Ok(match &self.opened {
            Opened::Carton(package) => Some(package.tensor(name)?),
            Opened::File(..) => match self.read(name)? {
                Value::Numbers(tensor) => tensor.to_numeric().ok().map(Tensor::from),
                Value::Strings(tensor) => Some(tensor.into()),
                Value::Nested(tensor) => Some(Tensor::Nested(tensor)),
            },
        })
    }

    /// What is known of the tensor of this name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&TensorInfo> {
        self.positions.get(name).and_then(|position| self.tensors.get(*position))
    }

    /// Reads a tensor. Sparse and quantized tensors become dense.
    ///
    /// # Errors
    /// There is no such tensor, its data is damaged, or it cannot be read.
    pub fn read(&self, name: &str) -> Result<Value, TensorFilesError> {
        match &self.opened {
            Opened::File(file, _) => Ok(match entry(file, name)?.read_array()? {
                Array::Numbers(tensor) => Value::Numbers(tensor),
                Array::Strings(tensor) => Value::Strings(tensor),
            }),
            Opened::Carton(package) => Ok(match package.tensor(name)? {
                Tensor::Numeric(tensor) => Value::Numbers(RawTensor::from(&tensor)),
                Tensor::String(tensor) => Value::Strings(tensor),
                Tensor::Nested(tensor) => Value::Nested(tensor),
                _ => return Err(TensorFilesError::UnknownKind { name: shown_name(name) }),
            }),
        }
    }

    /// Reads a part of a tensor of numbers; see [`Entry::read_slice`]. A tensor of a carton is read whole.
    ///
    /// # Errors
    /// As [`read`](Self::read); the tensor has no numbers, or another shape than the slice was made for.
    pub fn read_slice(&self, name: &str, slice: &Slice) -> Result<RawTensor, TensorFilesError> {
        if let Some(dtype) = self.get(name).and_then(|info| info.element_type) {
            slice.check(dtype)?;
        }
        match &self.opened {
            Opened::File(file, _) => Ok(entry(file, name)?.read_slice(slice)?),
            Opened::Carton(_) => {
                let unknown = || TensorFilesError::UnknownKind { name: shown_name(name) };
                Ok(self.read(name)?.into_numbers().ok_or_else(unknown)?.slice(slice)?)
            }
        }
    }

    /// Reads all that a file has of a tensor, and checks it, piece by piece. A tensor of a carton is read whole.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub fn check(&self, name: &str) -> Result<(), TensorFilesError> {
        match &self.opened {
            Opened::File(file, _) => Ok(entry(file, name)?.check()?),
            Opened::Carton(_) => self.read(name).map(drop),
        }
    }

    /// Measures the numbers of a tensor of a file, which is read piece by piece. `None` for a carton.
    ///
    /// # Errors
    /// As [`read`](Self::read); the work was cancelled.
    pub fn measure(&self, name: &str, context: &Context) -> Result<Option<Statistics>, TensorFilesError> {
        let Opened::File(file, _) = &self.opened else { return Ok(None) };
        let options = LoadOptions::default().context(context.clone());
        Ok(Some(weights::stats_of_entry(&entry(file, name)?, &options)?))
    }

    /// Passes the numbers of a tensor of a file to `visit`, piece by piece, in the order in which they are measured.
    ///
    /// # Errors
    /// As [`read`](Self::read); the work was cancelled.
    pub fn visit(&self, name: &str, context: &Context, mut visit: impl FnMut(&[u8])) -> Result<(), TensorFilesError> {
        /// The numbers that are passed at a time.
        const AT_ONCE: usize = 1 << 16;
        let Opened::File(file, _) = &self.opened else { return Ok(()) };
        entry(file, name)?.visit(ElementOrder::File, AT_ONCE, |piece| {
            visit(piece);
            Ok(context.check()?)
        })
    }

    /// The file, if the source is one.
    #[must_use]
    pub fn file(&self) -> Option<&TensorFile> {
        match &self.opened {
            Opened::File(file, _) => Some(file),
            Opened::Carton(_) => None,
        }
    }

    /// The reader, if the source is a zTensor file.
    #[must_use]
    pub fn as_ztensor(&self) -> Option<&ztensor::Reader> {
        self.file().and_then(TensorFile::as_ztensor)
    }

    /// The reader, if the source is a file of zTensor 2.
    #[must_use]
    pub fn as_ztensor2(&self) -> Option<&ztensor2::Reader> {
        self.file().and_then(TensorFile::as_ztensor2)
    }

    /// The paths of all files of the source.
    #[must_use]
    pub fn paths(&self) -> Vec<PathBuf> {
        let Opened::File(file, path) = &self.opened else { return Vec::new() };
        let shards = file.as_sharded().into_iter().flat_map(|sharded| sharded.shards());
        let parts = file.as_gguf().into_iter().flat_map(|split| split.file_names());
        let further = file.as_ztensor2().into_iter().flat_map(|reader| reader.shard_files());
        let external = file.as_onnx().into_iter().flat_map(|reader| reader.external_files()).map(String::as_str);
        let others = shards.map(|(name, _)| name).chain(parts).chain(further).chain(external);
        std::iter::once(path.clone()).chain(others.map(|name| path.with_file_name(name))).collect()
    }

    /// Whether to compare each digest with the bytes that are read, so that no damaged bytes are shown, or written again.
    #[must_use]
    pub fn verifying(self, digests: bool) -> Self {
        let opened = match self.opened {
            Opened::File(file, path) => Opened::File(Box::new(file.checking(Checks { digests, bools: false })), path),
            other => other,
        };
        Self { opened, ..self }
    }

    /// Names the digests of the listed tensors that are not `compared`, because their algorithms are not known, if there are any.
    #[must_use]
    pub fn unknown_digests(&self, not_compared: &str) -> Option<String> {
        const SHOWN: usize = 5;
        let mut unknown = Vec::new();
        for info in &self.tensors {
            let object = self.as_ztensor().and_then(|reader| reader.object(&info.name).ok());
            let components = object.into_iter().flat_map(|object| object.components());
            let object = self.as_ztensor2().and_then(|reader| reader.object(&info.name).ok());
            let parts = object.into_iter().flat_map(|object| object.parts());
            let algorithms = components.filter_map(|component| component.unknown_digest());
            let algorithms = algorithms.chain(parts.filter_map(|part| part.unknown_digest()));
            unknown.extend(
                algorithms.map(|algorithm| format!("{} of `{}`", shown_name(algorithm), shown_name(&info.name))),
            );
        }
        let page = if self.as_ztensor2().is_some() { "ztensor2" } else { "ztensor" };
        let shown = unknown.iter().take(SHOWN).map(String::as_str).collect::<Vec<_>>().join(", ");
        let more = if unknown.len() > SHOWN { " and others" } else { "" };
        (!unknown.is_empty()).then(|| {
            format!("{not_compared}, because their algorithms are not known: the digests {shown}{more} [spec/{page}.md §4.3]")
        })
    }

    /// The names of the entries of an archive that are no arrays, and are not read, unless only one tensor was asked for.
    #[must_use]
    pub fn other_entries(&self) -> Vec<String> {
        let is_whole = |file: &&TensorFile| file.entries().count() == self.tensors.len();
        self.file().filter(is_whole).map(TensorFile::other_entries).unwrap_or_default()
    }

    /// The values of a PyTorch checkpoint that are no tensors, in words, unless only one tensor was asked for.
    pub(crate) fn left_out(&self) -> Option<String> {
        let readers: Vec<_> = self.file()?.torch_readers().collect();
        let is_whole = readers.iter().map(|reader| reader.tensors().len()).sum::<usize>() == self.tensors.len();
        let mut left_out = readers.iter().map(|reader| reader.left_out()).filter(|left_out| left_out.count > 0);
        let first = left_out.next().filter(|_| is_whole)?;
        let others = left_out.fold(0_u64, |sum, left_out| sum.saturating_add(left_out.count));
        let others = if others > 0 { format!("; and {others} in other files") } else { String::new() };
        Some(format!("{first}{others}"))
    }

    /// Says what is lost of the source whatever is written: digests that cannot be compared, and entries that are no arrays.
    pub(crate) fn not_written(&self) -> Vec<String> {
        let others = self.other_entries();
        let others = (!others.is_empty()).then(|| {
            let names = shown_names(others.iter().map(String::as_str));
            format!("not written, because they are no arrays (.npy): {names}")
        });
        let no_tensors =
            self.left_out().map(|left_out| format!("not written, because they are no tensors: {left_out}"));
        self.unknown_digests("neither compared nor written").into_iter().chain(others).chain(no_tensors).collect()
    }

    /// The number of elements in all tensors, as far as it is known. Saturates, because a file may claim more than fits.
    #[must_use]
    pub fn n_elements(&self) -> u64 {
        let of_one =
            |shape: &[usize]| shape.iter().fold(1, |product: u64, &length| product.saturating_mul(length as u64));
        let shapes = self.tensors.iter().filter_map(|info| info.shape.as_deref());
        shapes.map(of_one).fold(0, u64::saturating_add)
    }

    /// The size of all tensors in bytes, as far as it is known. Saturates, because a file may claim more than fits.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.tensors.iter().filter_map(|info| info.bytes).fold(0, u64::saturating_add)
    }
}

fn positions(tensors: &[TensorInfo]) -> HashMap<String, usize> {
    tensors.iter().enumerate().map(|(position, info)| (info.name.clone(), position)).collect()
}

/// The bytes of a file of a carton, as the opening of a sharded checkpoint takes them.
fn bytes_of(package: &Package, path: &str) -> io::Result<FileBytes> {
    if !package.files().iter().any(|file| file.path == path) {
        return Err(io::ErrorKind::NotFound.into());
    }
    package.file_bytes(path).map_err(io::Error::other)
}

/// Returns the tensor of this name. The only array of an .npy file has no name, and is listed under the name of the file.
fn entry<'a>(file: &'a TensorFile, name: &str) -> Result<Entry<'a>, TensorFilesError> {
    let only = if file.format() == TensorFileFormat::Npy { file.entries().next() } else { None };
    match only {
        Some(only) => Ok(only),
        None => Ok(file.entry(name)?),
    }
}
