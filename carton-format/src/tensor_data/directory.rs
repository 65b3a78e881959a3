//! The directory of a file that holds many tensors (spec/carton-format-extensions.md, "Tensor files"): its names, types and
//! positions. Only the header of the file is read, as a range.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use carton_tensor::DataType;
use carton_tensor::files::ElementType;
use carton_tensor::safetensors::Header;
use carton_tensor::ztensor::{self, Encoding, Footer, Format, Manifest};
use parking_lot::Mutex;

use super::files::TensorFiles;
use super::{FileFormat, TensorDataError};

/// The longest header of a safetensors file and the longest manifest of a zTensor file that is read, in bytes.
pub(crate) const MAX_DIRECTORY_LENGTH: u64 = 100_000_000;

/// The number of files whose directories are kept. This library writes one file per carton.
const MOST_KEPT: usize = 8;

/// The directories of the files that were read, by file name and format.
#[derive(Debug, Default)]
pub struct Directories(Mutex<BTreeMap<(String, &'static str), Arc<Directory>>>);

impl Directories {
    /// Returns the directory of a file. Calls `read` if it is not known yet.
    pub(super) fn get<E>(
        &self,
        file: &str,
        format: FileFormat,
        read: impl FnOnce() -> Result<Directory, E>,
    ) -> Result<Arc<Directory>, E> {
        let lock = || self.0.lock();
        let key = (file.to_owned(), format.name());
        if let Some(found) = lock().get(&key) {
            return Ok(Arc::clone(found));
        }
        let directory = Arc::new(read()?);
        let mut known = lock();
        if known.len() >= MOST_KEPT {
            known.clear();
        }
        known.insert(key, Arc::clone(&directory));
        Ok(directory)
    }
}

/// The directory of one file.
#[derive(Debug)]
pub(super) enum Directory {
    Safetensors(Header),
    Ztensor(Manifest),
}

/// The type, shape and position of a tensor in a file.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct StoredTensor {
    pub(super) dtype: DataType,
    pub(super) shape: Vec<usize>,
    /// The range of its bytes, which is within the file.
    pub(super) range: Range<u64>,
}

/// Why a tensor of a file cannot be used.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Misfit {
    /// There is no tensor of that name.
    NotThere,
    /// There is such a tensor, but of a sort that a carton cannot have. Describes it.
    Other(String),
}

impl Directory {
    /// Reads the directory of the file at `path`.
    pub(super) fn read<F: TensorFiles>(
        path: &str,
        file: &str,
        format: FileFormat,
        files: &F,
    ) -> Result<Self, F::Error> {
        let length = files.exact_size(path)?;
        let refused = |source| TensorDataError::file(file, "read", format, source);
        // At this point the range that the file claims has been compared with the size of the file.
        let read = |range: Range<u64>| -> Result<Vec<u8>, F::Error> {
            let found = range.end.saturating_sub(range.start);
            let too_large = || {
                let what = format!("the list of the tensors in `{path}`");
                TensorDataError::TooLarge { what, limit: MAX_DIRECTORY_LENGTH, found }
            };
            if found > MAX_DIRECTORY_LENGTH + Header::PREFIX as u64 {
                return Err(too_large().into());
            }
            let mut bytes = vec![0; usize::try_from(found).map_err(|_| too_large())?];
            files.read_range(path, range.start, &mut bytes)?;
            Ok(bytes)
        };
        match format {
            FileFormat::Safetensors => {
                let prefix = read(0..length.min(Header::PREFIX as u64))?;
                let end = Header::end(&prefix, length).map_err(|error| refused(error.into()))?;
                let header = Header::parse(&read(0..end)?, length).map_err(|error| refused(error.into()))?;
                Ok(Self::Safetensors(header))
            }
            FileFormat::Ztensor => {
                let refused = |error: ztensor::ZTensorError| refused(error.into());
                let first = read(0..length.min(8))?;
                if let Ok(first) = first.try_into() {
                    ztensor::check_header(first).map_err(refused)?;
                }
                let last = read(length.saturating_sub(Footer::LENGTH as u64)..length)?;
                let last: Option<[u8; Footer::LENGTH]> = last.try_into().ok();
                // A file that is too short for a footer is refused for its length, so its content does not matter.
                let footer = Footer::parse(&last.unwrap_or_default(), length).map_err(refused)?;
                let manifest = footer.manifest();
                let offset = manifest.start;
                Ok(Self::Ztensor(Manifest::parse(&read(manifest)?, offset).map_err(refused)?))
            }
        }
    }

    /// Finds the tensor called `name`.
    pub(super) fn place(&self, name: &str) -> Result<StoredTensor, Misfit> {
        let (dtype, shape, range) = match self {
            Self::Safetensors(header) => {
                let tensor = header.get(name).ok_or(Misfit::NotThere)?;
                (tensor.dtype, tensor.shape, tensor.range)
            }
            Self::Ztensor(manifest) => {
                let object = manifest.object(name).ok_or(Misfit::NotThere)?;
                let data = match object.format() {
                    Format::Dense => object.component("data").ok_or(Misfit::NotThere)?,
                    other => {
                        return Err(Misfit::Other(format!("a tensor of the format `{}`", other.name().escape_debug())));
                    }
                };
                if let Some(logical) = data.unknown_type() {
                    return Err(Misfit::Other(format!("elements of the type `{}`", logical.escape_debug())));
                }
                if data.encoding() != Encoding::Raw {
                    let encoding = data.encoding().name();
                    return Err(Misfit::Other(format!(
                        "a tensor compressed with {encoding}, which cannot be read in place"
                    )));
                }
                (data.element_type(), object.shape(), data.stored())
            }
        };
        let dtype = ElementType::data_type(dtype).ok_or_else(|| Misfit::Other(format!("{dtype} {shape:?}")))?;
        Ok(StoredTensor { dtype, shape: shape.to_vec(), range })
    }
}
