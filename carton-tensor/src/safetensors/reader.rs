//! Reads the tensors of a file by name.

use std::path::Path;

use super::{Header, Metadata, SafetensorsError, TensorInfo};
use crate::content::Content;
use crate::files::{FileBytes, RawTensor};

/// An open safetensors file. Its header was read and validated; data is read on request. Any number of threads may read at once.
///
/// ```
/// use carton_tensor::files::{ElementType, RawTensor};
/// use carton_tensor::safetensors::{self, Metadata, Reader};
/// let tensor = RawTensor::new(ElementType::Uint8, vec![3], vec![1_u8, 2, 3].into())?;
/// let mut file = Vec::new();
/// safetensors::write([("a", &tensor)], &Metadata::default(), &mut file)?;
/// let reader = Reader::new(file, "a.safetensors")?;
/// assert_eq!(reader.read("a")?, tensor);
/// assert_eq!(reader.read("b").unwrap_err().to_string(), "`a.safetensors` has no tensor `b`");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Reader {
    place: String,
    bytes: FileBytes,
    header: Header,
}

impl Reader {
    /// Opens the file at `path`. Reading a tensor copies its bytes out of the file.
    ///
    /// # Errors
    /// [`SafetensorsError::Header`], [`SafetensorsError::OtherContent`], [`SafetensorsError::Io`].
    pub fn open(path: impl AsRef<Path>) -> Result<Self, SafetensorsError> {
        Self::of_path(path.as_ref(), |path| FileBytes::open(path))
    }

    /// Maps the file at `path`. Its tensors are views of the map, and nothing is copied. Use this only for files that no process writes
    /// to while they are mapped; [`FileBytes::map`] describes the danger.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn map(path: impl AsRef<Path>) -> Result<Self, SafetensorsError> {
        Self::of_path(path.as_ref(), |path| FileBytes::map(path))
    }

    fn of_path(path: &Path, open: impl Fn(&Path) -> std::io::Result<FileBytes>) -> Result<Self, SafetensorsError> {
        let place = path.display().to_string();
        match open(path) {
            Ok(bytes) => Self::new(bytes, place),
            Err(source) => Err(SafetensorsError::Io { place, source }),
        }
    }

    /// Opens a file from its bytes and reads its header. Errors refer to the file as `place`.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn new(bytes: impl Into<FileBytes>, place: impl Into<String>) -> Result<Self, SafetensorsError> {
        let (bytes, place) = (bytes.into(), place.into());
        match read_header(&bytes) {
            Ok(Ok(header)) => Ok(Self { place, bytes, header }),
            // The rule that another kind of file breaks first would not tell what the file is.
            Ok(Err(source)) => match bytes.start(Content::START).map(|start| other_content(&start)) {
                Ok(Some(content)) => Err(SafetensorsError::OtherContent { place, content }),
                Ok(None) => Err(SafetensorsError::Header { place, source }),
                Err(source) => Err(SafetensorsError::Io { place, source }),
            },
            Err(source) => Err(SafetensorsError::Io { place, source }),
        }
    }

    /// The header of the file.
    #[must_use]
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// The names of the tensors, in the order of their data.
    pub fn names(&self) -> impl ExactSizeIterator<Item = &str> {
        self.header.names()
    }

    /// Returns the tensor of this name, without its data.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<TensorInfo<'_>> {
        self.header.get(name)
    }

    /// The metadata of the file.
    #[must_use]
    pub fn metadata(&self) -> &Metadata {
        self.header.metadata()
    }

    /// The bytes of the file, for callers that read the ranges of tensors themselves.
    #[must_use]
    pub fn bytes(&self) -> &FileBytes {
        &self.bytes
    }

    /// The name by which errors refer to the file.
    #[must_use]
    pub fn place(&self) -> &str {
        &self.place
    }

    /// Reads the tensor of this name. If the file is mapped or in memory, the tensor is a view; otherwise it is a copy, aligned to 64
    /// bytes.
    ///
    /// # Errors
    /// [`SafetensorsError::NoSuchTensor`]; [`SafetensorsError::Io`], also if the file has become shorter.
    pub fn read(&self, name: &str) -> Result<RawTensor, SafetensorsError> {
        let Some(tensor) = self.get(name) else {
            return Err(SafetensorsError::NoSuchTensor { place: self.place.clone(), name: name.to_owned() });
        };
        let bytes = self
            .bytes
            .read(tensor.range)
            .map_err(|source| SafetensorsError::Io { place: self.place.clone(), source })?;
        RawTensor::new(tensor.dtype, tensor.shape.to_vec(), bytes).map_err(|source| SafetensorsError::Tensor {
            place: self.place.clone(),
            name: name.to_owned(),
            source,
        })
    }
}

/// Recognizes what a file is that is not valid safetensors. Its first bytes say nothing about that if they are the length of a header.
fn other_content(start: &[u8]) -> Option<Content> {
    if Header::is_at(start) { None } else { Content::of_start(start) }
}

/// Reads the header. Copies it before parsing, because a mapped file may change between validation and use.
fn read_header(bytes: &FileBytes) -> std::io::Result<Result<Header, super::HeaderError>> {
    let file_length = bytes.len();
    let mut start = [0; Header::PREFIX];
    let n_bytes = bytes.len().min(Header::PREFIX as u64);
    let prefix = start.get_mut(..n_bytes as usize).unwrap_or_default();
    bytes.read_into(0, prefix)?;
    let end = match Header::end(prefix, file_length) {
        Ok(end) => end,
        Err(error) => return Ok(Err(error)),
    };
    // `Header::end` checked the length against the size of the file and the cap on headers.
    let mut header = vec![0; usize::try_from(end).unwrap_or_default()];
    bytes.read_into(0, &mut header)?;
    Ok(Header::parse(&header, file_length))
}
