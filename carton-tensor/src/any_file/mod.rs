//! Opens a tensor file of any supported format: safetensors, zTensor, PyTorch's, GGUF, ONNX, `.npy` or `.npz`. `format` detects the format; parsing is up to the
//! format's own module.

use std::io::{Read, Seek};
use std::ops::Range;
use std::path::Path;

use crate::checkpoint::{FollowLinks, ShardKind, Sharded};
use crate::content::Content;
use crate::files::{Beside, FileBytes, FileReader, Folder, Visit};
use crate::gguf::{self, Split};
use crate::npy::{self, ArrayInfo, NpyError, Npz};
use crate::onnx;
use crate::safetensors;
use crate::torch::{self, TorchError};
use crate::ztensor::{self, Checks, MAX_DENSE, ZTensorError};
use crate::ztensor2::{self, ZTensor2Error};

mod contents;
mod entry;
mod error;
mod format;
mod in_step;
mod part;
mod verifying;

pub use entry::{ElementOrder, Entry};
pub use error::TensorFileError;
pub use format::TensorFileFormat;
use format::has_ending;
pub use in_step::{of_another_length, visit_in_step};
pub(crate) use verifying::{ExpectedDigest, VerifyingReader};

/// An open tensor file of any format. Opening reads the descriptions of the tensors, not their data. Any number of threads may read
/// from the file.
///
/// ```
/// use carton_tensor::any_file::{TensorFile, TensorFileFormat};
/// use carton_tensor::files::{ElementType, RawTensor};
/// use carton_tensor::safetensors::{self, Metadata};
/// let tensor = RawTensor::new(ElementType::Uint8, vec![3], vec![1_u8, 2, 3].into())?;
/// let mut bytes = Vec::new();
/// safetensors::write([("a", &tensor)], &Metadata::default(), &mut bytes)?;
///
/// let file = TensorFile::new(bytes, "example")?;
/// assert_eq!(file.format(), TensorFileFormat::Safetensors);
/// for entry in file.entries() {
///     assert_eq!((entry.name(), entry.shape(), entry.dtype()), ("a", &[3][..], Some(ElementType::Uint8)));
///     assert_eq!(entry.read()?, tensor);
/// }
/// assert_eq!(file.read("a")?, tensor);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct TensorFile {
    place: String,
    bytes: FileBytes,
    inner: Inner,
    /// The most bytes that a sparse object may have once it is dense.
    max_dense: u64,
    /// Whether NumPy arrays are views of the bytes, where the file holds them as they are.
    has_array_views: bool,
}

enum Inner {
    Safetensors(safetensors::Reader),
    Sharded(Sharded),
    ZTensor(ztensor::Reader),
    ZTensor2(ztensor2::Reader),
    Torch(torch::Reader),
    /// The array has no name in the file; it is called [`NPY_NAME`].
    Npy(Array),
    /// Each read has a clone, so that none waits for another.
    Npz(Npz<FileReader>, Vec<Array>),
    Gguf(Split),
    Onnx(onnx::Reader),
}

/// A NumPy array, as its header describes it.
struct Array {
    name: String,
    info: ArrayInfo,
    /// Where the file holds the elements, if it holds them as a tensor has them.
    plain: Option<Range<u64>>,
    /// Why the type of the array is unsupported, if it is. Only the name of such an array is known.
    unsupported: Option<String>,
}

impl Array {
    /// Describes the array of an `.npy` file.
    fn in_file(info: ArrayInfo) -> Self {
        let plain = info.plain_from.map(|start| start..start.saturating_add(info.n_bytes));
        Self { name: NPY_NAME.to_owned(), info, plain, unsupported: None }
    }

    /// Describes one array of an archive. An array of an unsupported type does not prevent the others from being read.
    fn in_archive<R: Read + Seek>(npz: &mut Npz<R>, name: String) -> Result<Self, NpyError> {
        match npz.array_info(&name) {
            Ok(info) => {
                let plain = npz.plain_elements(&name, &info);
                Ok(Self { name, info, plain, unsupported: None })
            }
            Err(NpyError::Unsupported { problem, .. }) => {
                let info = ArrayInfo { dtype: None, shape: Vec::new(), n_bytes: 0, is_c_order: true, plain_from: None };
                Ok(Self { name, info, plain: None, unsupported: Some(problem) })
            }
            Err(error) => Err(error),
        }
    }
}

/// The name given to the only array of an `.npy` file.
const NPY_NAME: &str = "data";

impl TensorFile {
    /// Opens the file at `path`. Reading a tensor copies its bytes out of the file.
    ///
    /// # Errors
    /// [`TensorFileError`].
    pub fn open(path: impl AsRef<Path>) -> Result<Self, TensorFileError> {
        Self::open_following(path, FollowLinks::default())
    }

    /// Opens the file at `path` like [`open`](Self::open). `links` says which links to the files are followed that an index, or the first file of
    /// several, names beside itself.
    ///
    /// # Errors
    /// [`TensorFileError`].
    pub fn open_following(path: impl AsRef<Path>, links: FollowLinks) -> Result<Self, TensorFileError> {
        Self::of_path(path.as_ref(), links, |path| FileBytes::open(path))
    }

    /// Maps the file at `path`. Safetensors tensors, uncompressed tensors of zTensor 1 and 2, NumPy arrays that are stored uncompressed,
    /// little-endian and in C order, and tensors of PyTorch, GGUF and ONNX whose elements are in a file one after another are views of the map, also of
    /// files of external data of ONNX; the checksums that archives of NumPy and PyTorch have are then not compared. Use this
    /// only for files that no process writes to while they are mapped; [`FileBytes::map`] describes the danger.
    ///
    /// # Errors
    /// [`TensorFileError`].
    pub fn map(path: impl AsRef<Path>) -> Result<Self, TensorFileError> {
        Self::map_following(path, FollowLinks::default())
    }

    /// Maps the file at `path` like [`map`](Self::map), and follows links like [`open_following`](Self::open_following).
    ///
    /// # Errors
    /// [`TensorFileError`].
    pub fn map_following(path: impl AsRef<Path>, links: FollowLinks) -> Result<Self, TensorFileError> {
        let file = Self::of_path(path.as_ref(), links, |path| FileBytes::map(path))?;
        Ok(Self { has_array_views: true, ..file })
    }

    fn of_path(
        path: &Path,
        links: FollowLinks,
        open: impl Fn(&Path) -> std::io::Result<FileBytes> + Sync,
    ) -> Result<Self, TensorFileError> {
        let place = path.display().to_string();
        let failed = |source| TensorFileError::Io { place: place.clone(), source };
        let bytes = open(path).map_err(failed)?;
        let start = bytes.start(Content::START).map_err(failed)?;
        if is_index(&start, &place) {
            let inner = Inner::Sharded(Sharded::open_following(path, links, open)?);
            return Ok(Self { place, bytes, inner, max_dense: MAX_DENSE, has_array_views: false });
        }
        let is_onnx = is_onnx(&start, &place);
        let beside = |name: &str| match is_onnx {
            true => Folder::of_model(path, links)?.open(name, &open),
            false => Folder::of(path, links)?.open(name, &open),
        };
        Self::of_start(bytes, place, start, Some(&beside))
    }

    /// Opens a file from its bytes, as [`new`](Self::new) does, or the sharded checkpoint of which it is the index or the first file. `beside` opens the file of a
    /// name in the same folder, on several threads.
    ///
    /// # Errors
    /// [`TensorFileError`].
    pub fn with_files_beside(
        bytes: FileBytes,
        place: impl Into<String>,
        beside: impl Fn(&str) -> std::io::Result<FileBytes> + Sync,
    ) -> Result<Self, TensorFileError> {
        let place = place.into();
        let start = match bytes.start(Content::START) {
            Ok(start) => start,
            Err(source) => return Err(TensorFileError::Io { place, source }),
        };
        if is_index(&start, &place) {
            let inner = Inner::Sharded(Sharded::of_index(&bytes, place.as_str(), beside)?);
            return Ok(Self { place, bytes, inner, max_dense: MAX_DENSE, has_array_views: false });
        }
        Self::of_start(bytes, place, start, Some(&beside))
    }

    /// Opens a file from its bytes; errors refer to it as `place`.
    ///
    /// # Errors
    /// [`TensorFileError`].
    pub fn new(bytes: impl Into<FileBytes>, place: impl Into<String>) -> Result<Self, TensorFileError> {
        let (bytes, place) = (bytes.into(), place.into());
        let start = match bytes.start(Content::START) {
            Ok(start) => start,
            Err(source) => return Err(TensorFileError::Io { place, source }),
        };
        Self::of_start(bytes, place, start, None)
    }

    /// Opens a file whose first bytes have been read.
    fn of_start(
        bytes: FileBytes,
        place: String,
        start: Vec<u8>,
        beside: Option<Beside<'_>>,
    ) -> Result<Self, TensorFileError> {
        let named = TensorFileFormat::of_name(&place);
        let format = match (TensorFileFormat::of_bytes(&start), Content::of_start(&start)) {
            (Some(TensorFileFormat::Npz), Some(Content::TorchArchive)) | (None, Some(Content::TorchPickle)) => {
                Some(TensorFileFormat::Torch)
            }
            (Some(format), _) => Some(format),
            (None, Some(Content::Onnx)) => Some(TensorFileFormat::Onnx),
            (None, _) if start.is_empty() => return Err(TensorFileError::Empty { place, named }),
            (None, Some(content)) => {
                let found = (content == Content::Text).then(|| first_line(&start));
                return Err(TensorFileError::OtherContent { place, content, found, named });
            }
            // A file named like safetensors gets the error of that parser rather than "unknown format".
            (None, None) => named,
        };
        let inner = match format {
            Some(TensorFileFormat::Safetensors) => {
                Inner::Safetensors(safetensors::Reader::new(bytes.clone(), place.as_str())?)
            }
            Some(TensorFileFormat::ZTensor) => {
                let reader = ztensor::Reader::new(bytes.clone());
                let failed = |source| TensorFileError::ZTensor { place: place.clone(), source: Box::new(source) };
                Inner::ZTensor(reader.map_err(failed)?)
            }
            Some(TensorFileFormat::ZTensor2) => {
                let reader = ztensor2::Reader::new(bytes.clone(), &place, beside);
                let failed = |source| TensorFileError::ZTensor2 { place: place.clone(), source: Box::new(source) };
                Inner::ZTensor2(reader.map_err(failed)?)
            }
            Some(TensorFileFormat::Npy) => {
                let reader = FileReader::new(bytes.clone());
                Inner::Npy(Array::in_file(npy::array_info_of(reader, bytes.len(), &place)?))
            }
            Some(TensorFileFormat::Torch) => Inner::Torch(open_torch(&bytes, &place)?),
            Some(TensorFileFormat::Npz) => {
                let npz = Npz::from_reader(FileReader::new(bytes.clone()), &place);
                let mut npz = match npz.map_err(|error| not_npz(error, &start, &place)) {
                    // The first entry of an archive need not be the pickle.
                    Err(TensorFileError::OtherContent { content: Content::TorchArchive, .. }) => {
                        let inner = Inner::Torch(open_torch(&bytes, &place)?);
                        return Ok(Self { place, bytes, inner, max_dense: MAX_DENSE, has_array_views: false });
                    }
                    npz => npz?,
                };
                let names = npz.names().to_vec();
                let mut arrays = Vec::with_capacity(names.len());
                for name in names {
                    arrays.push(Array::in_archive(&mut npz, name)?);
                }
                Inner::Npz(npz, arrays)
            }
            Some(TensorFileFormat::Gguf) => {
                Inner::Gguf(Split::new(gguf::Reader::new(bytes.clone(), place.as_str())?, beside)?)
            }
            Some(TensorFileFormat::Onnx) => Inner::Onnx(onnx::Reader::new(bytes.clone(), place.as_str(), beside)?),
            // `of_bytes` and `of_name` never return what an index is: that can only be opened by its path.
            Some(TensorFileFormat::Sharded | TensorFileFormat::ShardedTorch) | None => {
                let found = start.get(..SHOWN).unwrap_or(&start).escape_ascii().to_string();
                return Err(TensorFileError::Unknown { place, found });
            }
        };
        Ok(Self { place, bytes, inner, max_dense: MAX_DENSE, has_array_views: false })
    }

    /// Sets the most bytes that a sparse object may have when reading makes it dense. The default is [`MAX_DENSE`].
    #[must_use]
    pub fn with_max_dense(self, n_bytes: u64) -> Self {
        Self { max_dense: n_bytes, ..self }
    }

    /// Sets the checks for everything read from a zTensor file of any version from now on. Other formats have no digests.
    #[must_use]
    pub fn checking(self, checks: Checks) -> Self {
        let inner = match self.inner {
            Inner::ZTensor(reader) => Inner::ZTensor(reader.checking(checks)),
            Inner::ZTensor2(reader) => Inner::ZTensor2(reader.checking(checks)),
            other => other,
        };
        Self { inner, ..self }
    }

    /// The format of the file.
    #[must_use]
    pub fn format(&self) -> TensorFileFormat {
        match &self.inner {
            Inner::Safetensors(_) => TensorFileFormat::Safetensors,
            Inner::Sharded(sharded) => match sharded.kind() {
                ShardKind::Safetensors => TensorFileFormat::Sharded,
                ShardKind::Torch => TensorFileFormat::ShardedTorch,
            },
            Inner::ZTensor(_) => TensorFileFormat::ZTensor,
            Inner::ZTensor2(_) => TensorFileFormat::ZTensor2,
            Inner::Torch(_) => TensorFileFormat::Torch,
            Inner::Npy(_) => TensorFileFormat::Npy,
            Inner::Npz(..) => TensorFileFormat::Npz,
            Inner::Gguf(_) => TensorFileFormat::Gguf,
            Inner::Onnx(_) => TensorFileFormat::Onnx,
        }
    }

    /// The name by which errors refer to the file.
    #[must_use]
    pub fn place(&self) -> &str {
        &self.place
    }

    /// The bytes of the whole file; for a sharded checkpoint, those of its index.
    #[must_use]
    pub fn bytes(&self) -> &FileBytes {
        &self.bytes
    }

    /// Returns the safetensors reader, if the file has that format.
    #[must_use]
    pub fn as_safetensors(&self) -> Option<&safetensors::Reader> {
        match &self.inner {
            Inner::Safetensors(reader) => Some(reader),
            _ => None,
        }
    }

    /// Returns the shards, if the file is the index of a sharded checkpoint.
    #[must_use]
    pub fn as_sharded(&self) -> Option<&Sharded> {
        match &self.inner {
            Inner::Sharded(sharded) => Some(sharded),
            _ => None,
        }
    }

    /// Returns the zTensor reader, which offers what only this format has, if the file has that format.
    #[must_use]
    pub fn as_ztensor(&self) -> Option<&ztensor::Reader> {
        match &self.inner {
            Inner::ZTensor(reader) => Some(reader),
            _ => None,
        }
    }

    /// Returns the reader of zTensor 2, which offers what only this format has, if the file has that format.
    #[must_use]
    pub fn as_ztensor2(&self) -> Option<&ztensor2::Reader> {
        match &self.inner {
            Inner::ZTensor2(reader) => Some(reader),
            _ => None,
        }
    }

    /// Returns the files of a GGUF model, if the file has that format.
    #[must_use]
    pub fn as_gguf(&self) -> Option<&Split> {
        match &self.inner {
            Inner::Gguf(split) => Some(split),
            _ => None,
        }
    }

    /// Returns the reader of an ONNX model, if the file is one.
    #[must_use]
    pub fn as_onnx(&self) -> Option<&onnx::Reader> {
        match &self.inner {
            Inner::Onnx(reader) => Some(reader),
            _ => None,
        }
    }

    pub(crate) fn ztensor_error(&self, source: ZTensorError) -> TensorFileError {
        TensorFileError::ZTensor { place: self.place.clone(), source: Box::new(source) }
    }

    pub(crate) fn ztensor2_error(&self, source: ZTensor2Error) -> TensorFileError {
        TensorFileError::ZTensor2 { place: self.place.clone(), source: Box::new(source) }
    }

    /// Reads one array of a NumPy file.
    fn read_array(&self, name: &str) -> Result<npy::Array, NpyError> {
        match &self.inner {
            Inner::Npz(npz, _) => npz.clone().read_array(name),
            _ => npy::read_array_of(FileReader::new(self.bytes.clone()), self.bytes.len(), &self.place),
        }
    }

    /// Passes the elements of one array of a NumPy file to `visit`, in the order of the file. Strings are only checked.
    fn visit_array(&self, name: &str, n_elements: usize, visit: Visit<'_>) -> Result<(), NpyError> {
        match &self.inner {
            Inner::Npz(npz, _) => npz.clone().visit(name, n_elements, visit),
            _ => {
                let reader = FileReader::new(self.bytes.clone());
                npy::visit_array_of(reader, self.bytes.len(), &self.place, n_elements, visit)
            }
        }
    }
}

/// Opens a PyTorch checkpoint. A file that turns out to be of another kind is named as such.
fn open_torch(bytes: &FileBytes, place: &str) -> Result<torch::Reader, TensorFileError> {
    torch::Reader::new(bytes.clone(), place).map_err(|error| match error {
        TorchError::OtherContent { place, content } => {
            let named = TensorFileFormat::of_name(&place);
            TensorFileError::OtherContent { place, content, found: None, named }
        }
        error => error.into(),
    })
}

/// Whether a file is opened as an ONNX model: by its first bytes, or by its name if they say nothing.
fn is_onnx(start: &[u8], place: &str) -> bool {
    match Content::of_start(start) {
        Some(content) => content == Content::Onnx,
        None => {
            TensorFileFormat::of_bytes(start).is_none()
                && TensorFileFormat::of_name(place) == Some(TensorFileFormat::Onnx)
        }
    }
}

/// Whether a file is the index of a sharded checkpoint. Only an index starts like JSON: a safetensors file starts with a length below 100 MB.
fn is_index(start: &[u8], place: &str) -> bool {
    let is_json = match Content::of_start(start) {
        Some(content) => content == Content::Json,
        None => !start.is_empty() && (start.starts_with(b"{") || has_ending(place, ".index.json")),
    };
    is_json && TensorFileFormat::of_bytes(start).is_none()
}

/// As many of the first bytes of a file are shown if it is not recognized.
const SHOWN: usize = 16;

/// Returns the first line of a text for a message: escaped, and shortened.
fn first_line(start: &[u8]) -> String {
    const LONGEST: usize = 60;
    let text = String::from_utf8_lossy(start);
    let line = text.trim_start_matches('\u{feff}').trim_start().lines().next().unwrap_or_default();
    let mut shown: String = line.chars().take(LONGEST).flat_map(char::escape_debug).collect();
    if line.chars().nth(LONGEST).is_some() {
        shown.push('…');
    }
    shown
}

/// Names the file that is a zip archive and no valid .npz file, if it is known as something else.
fn not_npz(error: NpyError, start: &[u8], place: &str) -> TensorFileError {
    let content = match &error {
        NpyError::NotNpz { content, .. } => Some(*content),
        // A truncated archive has no list of its entries.
        NpyError::Format { .. } => Content::of_start(start).filter(|content| *content != Content::Zip),
        _ => None,
    };
    match content {
        Some(content) => {
            let named = TensorFileFormat::of_name(place);
            TensorFileError::OtherContent { place: place.to_owned(), content, found: None, named }
        }
        None => error.into(),
    }
}

impl std::fmt::Debug for TensorFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TensorFile").field("place", &self.place).field("format", &self.format()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
