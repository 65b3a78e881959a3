//! A tensor file of whichever format its bytes are: safetensors, zTensor, `.npy` or `.npz`.

use std::io::BufReader;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use super::FileBytes;
use crate::npy::{self, ArrayInfo, NpyError, Npz};
use crate::safetensors::{self, SafetensorsError, Sharded, ShardedError};
use crate::ztensor::{self, Attribute, Checks, MAX_DENSE, ZTensorError};

mod entry;
mod file_reader;

pub use entry::Entry;
use file_reader::FileReader;

/// The formats of tensor files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TensorFileFormat {
    /// safetensors, one file.
    Safetensors,
    /// safetensors in several files, opened by their index (`model.safetensors.index.json`).
    Sharded,
    /// zTensor 1.x.
    ZTensor,
    /// NumPy's `.npy`, which holds one array.
    Npy,
    /// NumPy's `.npz`.
    Npz,
}

impl TensorFileFormat {
    /// The name of the format.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Safetensors => "safetensors",
            Self::Sharded => "sharded safetensors",
            Self::ZTensor => "zTensor",
            Self::Npy => "npy",
            Self::Npz => "npz",
        }
    }

    /// The format that the extension of a file claims.
    fn of_name(name: &str) -> Option<Self> {
        let named =
            [(".safetensors", Self::Safetensors), (".zt", Self::ZTensor), (".npz", Self::Npz), (".npy", Self::Npy)];
        named.into_iter().find(|(ending, _)| has_ending(name, ending)).map(|(_, format)| format)
    }

    /// The format that a file with these first bytes claims to have. Other versions of zTensor count as zTensor, which then
    /// says what they are.
    ///
    /// ```
    /// use carton_tensor::files::TensorFileFormat;
    /// assert_eq!(TensorFileFormat::of_bytes(b"PK\x03\x04\x14\0\0\0\0"), Some(TensorFileFormat::Npz));
    /// // A header whose length begins with the same bytes.
    /// assert_eq!(TensorFileFormat::of_bytes(b"PK\x03\x04\0\0\0\0{"), Some(TensorFileFormat::Safetensors));
    /// ```
    #[must_use]
    pub fn of_bytes(start: &[u8]) -> Option<Self> {
        const ZIP: [&[u8]; 2] = [b"PK\x03\x04", b"PK\x05\x06"];
        const ZTENSOR: [&[u8]; 2] = [b"ZTEN", b"\x89ZT2"];
        // A header of at most 100 MB, which is an object: the eight bytes of its length, then `{`. It is asked for first,
        // since such a length may begin as other formats do, none of which goes on like this.
        if start.get(4..8) == Some(&[0; 4]) && start.get(8) == Some(&b'{') {
            Some(Self::Safetensors)
        } else if start.starts_with(b"\x93NUMPY") {
            Some(Self::Npy)
        } else if ZIP.iter().any(|magic| start.starts_with(magic)) {
            Some(Self::Npz)
        } else if ZTENSOR.iter().any(|magic| start.starts_with(magic)) {
            Some(Self::ZTensor)
        } else {
            None
        }
    }
}

/// An open tensor file of any format. Opening it reads what it says of its tensors and none of their data; any number of
/// threads may read from it.
///
/// ```
/// use carton_tensor::files::{ElementType, RawTensor, TensorFile, TensorFileFormat};
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
    /// How many bytes a sparse object may have when it is made dense.
    max_dense: u64,
}

enum Inner {
    Safetensors(safetensors::Reader),
    Sharded(Sharded),
    ZTensor(ztensor::Reader),
    /// The array's name is none that the file has.
    Npy(Array),
    Npz(Mutex<Npz<BufReader<FileReader>>>, Vec<Array>),
}

/// An array of NumPy, as its header describes it.
struct Array {
    name: String,
    info: ArrayInfo,
    /// Why it is of no use here, if it is that: then nothing is known of it but its name.
    unsupported: Option<String>,
}

impl Array {
    fn known(name: String, info: ArrayInfo) -> Self {
        Self { name, info, unsupported: None }
    }

    /// One of several in a file. What NumPy can store and tensors cannot have does not keep the others from being read.
    fn in_archive(name: String, info: Result<ArrayInfo, NpyError>) -> Result<Self, NpyError> {
        match info {
            Ok(info) => Ok(Self::known(name, info)),
            Err(NpyError::Unsupported { problem, .. }) => {
                let info = ArrayInfo { dtype: None, shape: Vec::new(), n_bytes: 0 };
                Ok(Self { name, info, unsupported: Some(problem) })
            }
            Err(error) => Err(error),
        }
    }
}

/// What the one array of an `.npy` file is called.
const NPY_NAME: &str = "data";

/// Why a tensor file cannot be opened or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TensorFileError {
    /// Opening or reading it failed.
    #[error("cannot read `{place}`")]
    Io {
        /// The file.
        place: String,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
    /// It is of no known format.
    #[error("`{place}` is no tensor file: expected safetensors, zTensor, .npy or .npz, found `{found}` at its start")]
    Unknown {
        /// The file.
        place: String,
        /// Its first bytes, escaped.
        found: String,
    },
    /// It is no valid safetensors file, or cannot be read as one.
    #[error(transparent)]
    Safetensors(#[from] SafetensorsError),
    /// It is no valid index of a sharded checkpoint, or the files do not agree with it.
    #[error(transparent)]
    Sharded(#[from] ShardedError),
    /// It is no valid zTensor file, or cannot be read as one.
    #[error("{}", told(.source, .place))]
    ZTensor {
        /// The file.
        place: String,
        /// Which rule it breaks.
        #[source]
        source: Box<ZTensorError>,
    },
    /// It is no valid NumPy file, or cannot be read as one.
    #[error(transparent)]
    Npy(#[from] NpyError),
    /// There is no tensor of this name.
    #[error("`{place}` has no tensor `{name}`")]
    NoSuchTensor {
        /// The file.
        place: String,
        /// The name asked for, escaped.
        name: String,
    },
    /// What has this name cannot be read as one tensor of numbers.
    #[error("`{name}` in `{place}` is {found}, expected a tensor of numbers")]
    NoTensor {
        /// The file.
        place: String,
        /// Its name, escaped.
        name: String,
        /// What it is.
        found: String,
    },
}

/// What is said of a zTensor file, beside which rule it breaks.
fn told(error: &ZTensorError, place: &str) -> String {
    if matches!(error, ZTensorError::OtherVersion { .. }) {
        format!("`{place}` is not a file of zTensor 1.1 or 1.2")
    } else if error.is_malformed() {
        format!("`{place}` is not a valid zTensor file")
    } else {
        format!("cannot read `{place}`")
    }
}

impl TensorFileError {
    /// Whether the file breaks a rule of its format, or is of another version of it. What is only too large or too odd for this library
    /// breaks none.
    #[must_use]
    pub fn is_malformed(&self) -> bool {
        match self {
            Self::Safetensors(error) => error.is_about_content(),
            Self::Sharded(ShardedError::Shard(error)) => error.is_about_content(),
            Self::Sharded(error) => !matches!(error, ShardedError::Io { .. } | ShardedError::NoSuchTensor { .. }),
            Self::ZTensor { source, .. } => source.is_malformed(),
            Self::Npy(error) => matches!(error, NpyError::Format { .. }),
            Self::Io { .. } | Self::Unknown { .. } | Self::NoSuchTensor { .. } | Self::NoTensor { .. } => false,
        }
    }

    /// Whether it is what the file holds that is wrong. Otherwise nothing is known of that, because the file could not be read,
    /// or something was asked for that is not there.
    #[must_use]
    pub fn is_about_content(&self) -> bool {
        match self {
            Self::Safetensors(error) => error.is_about_content(),
            Self::Sharded(ShardedError::Shard(error)) => error.is_about_content(),
            Self::Sharded(ShardedError::Io { .. } | ShardedError::NoSuchTensor { .. }) => false,
            Self::Sharded(_) | Self::Unknown { .. } | Self::NoTensor { .. } => true,
            Self::ZTensor { source, .. } => source.is_about_content(),
            Self::Npy(error) => !matches!(error, NpyError::Io { .. } | NpyError::NoSuchArray { .. }),
            Self::Io { .. } | Self::NoSuchTensor { .. } => false,
        }
    }

    /// What is wrong, in one line, without the name of the file.
    pub(crate) fn reason(&self) -> String {
        let mut cause: &(dyn std::error::Error + 'static) = match self {
            Self::ZTensor { source, .. } => source.as_ref(),
            Self::NoTensor { found, .. } => return format!("it is {found}, expected a tensor of numbers"),
            other => other,
        };
        let mut text = cause.to_string();
        while let Some(source) = cause.source() {
            cause = source;
            text.push_str(": ");
            text.push_str(&cause.to_string());
        }
        text
    }
}

impl TensorFile {
    /// Opens the file at `path`. Its tensors are copied out of it when they are read.
    ///
    /// # Errors
    /// [`TensorFileError`].
    pub fn open(path: impl AsRef<Path>) -> Result<Self, TensorFileError> {
        Self::of_path(path.as_ref(), |path| FileBytes::open(path), |path| Sharded::open(path))
    }

    /// Maps the file at `path`: tensors of safetensors, and uncompressed ones of zTensor, are views of it. For files that nobody
    /// writes to meanwhile; [`FileBytes::map`] tells what happens otherwise.
    ///
    /// # Errors
    /// [`TensorFileError`].
    pub fn map(path: impl AsRef<Path>) -> Result<Self, TensorFileError> {
        Self::of_path(path.as_ref(), |path| FileBytes::map(path), |path| Sharded::map(path))
    }

    fn of_path(
        path: &Path,
        open: impl Fn(&Path) -> std::io::Result<FileBytes>,
        open_index: impl Fn(&Path) -> Result<Sharded, ShardedError>,
    ) -> Result<Self, TensorFileError> {
        let place = path.display().to_string();
        let failed = |source| TensorFileError::Io { place: place.clone(), source };
        let bytes = open(path).map_err(failed)?;
        let mut start = [0; 16];
        let start = read_start(&bytes, &mut start).map_err(failed)?;
        // Nothing else begins like JSON: the length that a safetensors file begins with is below 100 MB.
        let is_json = || start.trim_ascii_start().starts_with(b"{") || has_ending(&place, ".index.json");
        if TensorFileFormat::of_bytes(start).is_none() && is_json() {
            let inner = Inner::Sharded(open_index(path)?);
            return Ok(Self { place, bytes, inner, max_dense: MAX_DENSE });
        }
        Self::new(bytes, place)
    }

    /// Opens the file that `bytes` are; `place` is what errors call it.
    ///
    /// # Errors
    /// [`TensorFileError`].
    pub fn new(bytes: impl Into<FileBytes>, place: impl Into<String>) -> Result<Self, TensorFileError> {
        let (bytes, place) = (bytes.into(), place.into());
        let mut start = [0; 16];
        let start = match read_start(&bytes, &mut start) {
            Ok(start) => start,
            Err(source) => return Err(TensorFileError::Io { place, source }),
        };
        // What is named as a safetensors file is told what is wrong with it as one.
        let format = TensorFileFormat::of_bytes(start).or_else(|| TensorFileFormat::of_name(&place));
        let inner = match format {
            Some(TensorFileFormat::Safetensors) => {
                Inner::Safetensors(safetensors::Reader::new(bytes.clone(), place.as_str())?)
            }
            Some(TensorFileFormat::ZTensor) => {
                let reader = ztensor::Reader::new(bytes.clone());
                let failed = |source| TensorFileError::ZTensor { place: place.clone(), source: Box::new(source) };
                Inner::ZTensor(reader.map_err(failed)?)
            }
            Some(TensorFileFormat::Npy) => {
                let reader = BufReader::new(FileReader::new(bytes.clone()));
                Inner::Npy(Array::known(NPY_NAME.to_owned(), npy::array_info_of(reader, bytes.len(), &place)?))
            }
            Some(TensorFileFormat::Npz) => {
                let mut npz = Npz::from_reader(BufReader::new(FileReader::new(bytes.clone())), &place)?;
                let names = npz.names().to_vec();
                let mut arrays = Vec::with_capacity(names.len());
                for name in names {
                    let info = npz.array_info(&name);
                    arrays.push(Array::in_archive(name, info)?);
                }
                Inner::Npz(Mutex::new(npz), arrays)
            }
            // `of_bytes` knows none: its files have to be found by a path.
            Some(TensorFileFormat::Sharded) | None => {
                return Err(TensorFileError::Unknown { place, found: start.escape_ascii().to_string() });
            }
        };
        Ok(Self { place, bytes, inner, max_dense: MAX_DENSE })
    }

    /// The same file, whose sparse objects may have up to so many bytes when they are read, which makes them dense. Otherwise it is
    /// [`MAX_DENSE`].
    #[must_use]
    pub fn with_max_dense(self, n_bytes: u64) -> Self {
        Self { max_dense: n_bytes, ..self }
    }

    /// The same file, with these checks for all that is read of a zTensor file from now on. Other formats have nothing to check.
    #[must_use]
    pub fn checking(self, checks: Checks) -> Self {
        let inner = match self.inner {
            Inner::ZTensor(reader) => Inner::ZTensor(reader.checking(checks)),
            other => other,
        };
        Self { inner, ..self }
    }

    /// The format.
    #[must_use]
    pub fn format(&self) -> TensorFileFormat {
        match self.inner {
            Inner::Safetensors(_) => TensorFileFormat::Safetensors,
            Inner::Sharded(_) => TensorFileFormat::Sharded,
            Inner::ZTensor(_) => TensorFileFormat::ZTensor,
            Inner::Npy(_) => TensorFileFormat::Npy,
            Inner::Npz(..) => TensorFileFormat::Npz,
        }
    }

    /// What errors call the file.
    #[must_use]
    pub fn place(&self) -> &str {
        &self.place
    }

    /// The bytes of the whole file; of a sharded checkpoint those of its index.
    #[must_use]
    pub fn bytes(&self) -> &FileBytes {
        &self.bytes
    }

    /// The file as safetensors, if it is that.
    #[must_use]
    pub fn as_safetensors(&self) -> Option<&safetensors::Reader> {
        match &self.inner {
            Inner::Safetensors(reader) => Some(reader),
            _ => None,
        }
    }

    /// The files of a sharded checkpoint, if it is one.
    #[must_use]
    pub fn as_sharded(&self) -> Option<&Sharded> {
        match &self.inner {
            Inner::Sharded(sharded) => Some(sharded),
            _ => None,
        }
    }

    /// The file as zTensor, if it is that: what only this format has is read there.
    #[must_use]
    pub fn as_ztensor(&self) -> Option<&ztensor::Reader> {
        match &self.inner {
            Inner::ZTensor(reader) => Some(reader),
            _ => None,
        }
    }

    /// What the file says of itself: `__metadata__` of safetensors, for each key what the first shard says, and of zTensor's
    /// attributes those that are text.
    ///
    /// # Errors
    /// [`TensorFileError::ZTensor`] for attributes beyond the limits.
    pub fn metadata(&self) -> Result<Vec<(String, String)>, TensorFileError> {
        match &self.inner {
            Inner::Safetensors(reader) => {
                Ok(reader.metadata().iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect())
            }
            Inner::Sharded(sharded) => {
                let mut seen = std::collections::HashSet::new();
                let pairs = sharded.shards().flat_map(|(_, shard)| shard.metadata().iter());
                let new = pairs.filter(|(key, _)| seen.insert(*key));
                Ok(new.map(|(key, value)| (key.to_owned(), value.to_owned())).collect())
            }
            Inner::ZTensor(reader) => {
                let attributes = reader.manifest().attributes().map_err(|source| self.ztensor_error(source))?;
                let text = |value: &Attribute| value.as_text().map(str::to_owned);
                Ok(attributes.into_iter().filter_map(|(key, value)| Some((key, text(&value)?))).collect())
            }
            Inner::Npy(_) | Inner::Npz(..) => Ok(Vec::new()),
        }
    }

    fn ztensor_error(&self, source: ZTensorError) -> TensorFileError {
        TensorFileError::ZTensor { place: self.place.clone(), source: Box::new(source) }
    }

    /// Reads one array of NumPy's formats.
    fn read_array(&self, name: &str) -> Result<npy::Array, NpyError> {
        match &self.inner {
            // A panic while it was held is no reason to give up a reader that positions itself before each read.
            Inner::Npz(npz, _) => npz.lock().unwrap_or_else(PoisonError::into_inner).read_array(name),
            _ => npy::read_array_of(FileReader::new(self.bytes.clone()), self.bytes.len(), &self.place),
        }
    }
}

/// Whether a name ends in this, in letters of either case.
fn has_ending(name: &str, ending: &str) -> bool {
    let start = name.len().checked_sub(ending.len());
    start.and_then(|start| name.get(start..)).is_some_and(|end| end.eq_ignore_ascii_case(ending))
}

/// The first bytes of a file, as many of them as there are.
fn read_start<'a>(bytes: &FileBytes, start: &'a mut [u8]) -> std::io::Result<&'a [u8]> {
    let length = bytes.len().min(start.len() as u64) as usize;
    let start = start.get_mut(..length).unwrap_or_default();
    bytes.read_into(0, start)?;
    Ok(start)
}

impl std::fmt::Debug for TensorFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TensorFile").field("place", &self.place).field("format", &self.format()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
