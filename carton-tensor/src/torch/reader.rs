//! Reads the tensors of a checkpoint by name. Opening reads the pickle; the bytes of a tensor are read when they are wanted.

use std::fmt;
#[cfg(feature = "weights")]
use std::ops::ControlFlow;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use zip::read::ZipArchive;

use super::contents::{Contents, Place, Storage, TensorInfo, width};
use super::error::{Problem, TorchError, malformed, quoted};
use super::names::LeftOut;
#[cfg(feature = "weights")]
use super::pieces::Strided;
use super::strides::{extent, gather, is_contiguous};
use super::{archive, stream};
use crate::AlignedBytes;
use crate::content::Content;
#[cfg(feature = "weights")]
use crate::files::Visit;
use crate::files::{ElementType, FileBytes, FileReader, RawTensor, SharedBytes};

/// An open PyTorch checkpoint. Its pickle was read and understood; data is read on request. Any number of threads may read at once.
///
/// ```no_run
/// use carton_tensor::torch::Reader;
/// let reader = Reader::open("pytorch_model.bin")?;
/// for tensor in reader.tensors() {
///     println!("{} {} {:?}", tensor.name(), tensor.dtype(), tensor.shape());
/// }
/// let weight = reader.read("embedding.weight")?;
/// # Ok::<(), carton_tensor::torch::TorchError>(())
/// ```
#[derive(Clone)]
pub struct Reader {
    place: String,
    bytes: FileBytes,
    contents: Arc<Contents>,
    archive: Option<ZipArchive<FileReader>>,
}

impl Reader {
    /// Opens the file at `path`. Reading a tensor copies its bytes out of the file.
    ///
    /// # Errors
    /// [`TorchError`].
    pub fn open(path: impl AsRef<Path>) -> Result<Self, TorchError> {
        Self::of_path(path.as_ref(), |path| FileBytes::open(path))
    }

    /// Maps the file at `path`. Tensors whose elements are one after another are views of the map. No process may write to the file
    /// while it is mapped ([`FileBytes::map`]).
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn map(path: impl AsRef<Path>) -> Result<Self, TorchError> {
        Self::of_path(path.as_ref(), |path| FileBytes::map(path))
    }

    fn of_path(path: &Path, open: impl Fn(&Path) -> std::io::Result<FileBytes>) -> Result<Self, TorchError> {
        let place = path.display().to_string();
        match open(path) {
            Ok(bytes) => Self::new(bytes, place),
            Err(source) => Err(TorchError::Io { place, source }),
        }
    }

    /// Opens a file from its bytes. Errors refer to the file as `place`.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn new(bytes: impl Into<FileBytes>, place: impl Into<String>) -> Result<Self, TorchError> {
        let (bytes, place) = (bytes.into(), place.into());
        let opened = match bytes.start(Content::START) {
            Err(error) => Err(error.into()),
            Ok(start) if start.starts_with(b"PK\x03\x04") => {
                archive::open(&bytes).map(|(contents, archive)| (contents, Some(archive)))
            }
            Ok(start) => match Content::of_start(&start) {
                Some(Content::TorchPickle) => stream::open(&bytes).map(|contents| (contents, None)),
                Some(content) => Err(Problem::OtherContent(content)),
                None => Err(Problem::Malformed("it begins as no file of `torch.save` does".to_owned())),
            },
        };
        match opened {
            Ok((contents, archive)) => Ok(Self { place, bytes, contents: Arc::new(contents), archive }),
            Err(problem) => Err(problem.at(&place)),
        }
    }

    /// The name by which errors refer to the file.
    #[must_use]
    pub fn place(&self) -> &str {
        &self.place
    }

    /// The bytes of the whole file.
    #[must_use]
    pub fn bytes(&self) -> &FileBytes {
        &self.bytes
    }

    /// The tensors, in the order of the pickle.
    #[must_use]
    pub fn tensors(&self) -> &[TensorInfo] {
        &self.contents.tensors
    }

    /// Returns the tensor of this name, without its data.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&TensorInfo> {
        self.contents.tensors.get(*self.contents.positions.get(name)?)
    }

    /// The values that are no tensors: numbers, strings and the like.
    #[must_use]
    pub fn left_out(&self) -> &LeftOut {
        &self.contents.left_out
    }

    /// Reads the tensor of this name, with the elements in C order. Up to 4 GiB of repeated elements are made.
    ///
    /// # Errors
    /// [`TorchError`].
    pub fn read(&self, name: &str) -> Result<RawTensor, TorchError> {
        /// As for sparse tensors of other formats.
        const MAX_REPEATED: u64 = 4 << 30;
        match self.get(name) {
            Some(tensor) => self.read_within(tensor, MAX_REPEATED),
            None => Err(TorchError::NoSuchTensor { place: self.place.clone(), name: name.to_owned() }),
        }
    }

    /// Reads a tensor of this file. One that repeats elements of its storage may have at most `max_repeated` bytes.
    ///
    /// # Errors
    /// [`TorchError`].
    pub fn read_within(&self, tensor: &TensorInfo, max_repeated: u64) -> Result<RawTensor, TorchError> {
        let made = match self.range(tensor).map_err(|problem| problem.at(&self.place))? {
            Some(range) => self.bytes.read(range).map_err(Problem::from),
            None => {
                self.check_repeated(tensor, max_repeated)?;
                self.gathered(tensor)
            }
        };
        let checked = made.and_then(|bytes| self.check_bools(tensor, bytes));
        let bytes = checked.map_err(|problem| problem.at(&self.place))?;
        RawTensor::new(tensor.parts.dtype, tensor.parts.shape.clone(), bytes).map_err(|source| TorchError::Tensor {
            place: self.place.clone(),
            name: tensor.name.to_string(),
            source,
        })
    }

    /// Passes the elements of a tensor to `visit` in C order, in pieces of `n_bytes`. One that repeats elements of its storage may have at most
    /// `max_repeated` bytes.
    ///
    /// # Errors
    /// [`TorchError`].
    #[cfg(feature = "weights")]
    pub(crate) fn visit(
        &self,
        tensor: &TensorInfo,
        max_repeated: u64,
        n_bytes: usize,
        visit: Visit<'_>,
    ) -> Result<(), TorchError> {
        let walk = |visit: Visit<'_>| {
            let storage = self.storage(tensor)?;
            let start = storage.start(&self.bytes)?;
            let width = width(tensor.parts.dtype);
            let outside = || Problem::Malformed("a tensor is not inside of its storage".to_owned());
            let n_elements = extent(&tensor.parts.shape, &tensor.parts.strides).ok_or_else(outside)?;
            let stored = n_elements.checked_mul(width as u64).ok_or_else(outside)?;
            self.bytes_of(tensor, start, stored)?;
            Strided::new(&self.bytes, start, width).visit(tensor, n_bytes, visit)
        };
        self.check_repeated(tensor, max_repeated)?;
        let is_bool = tensor.parts.dtype == ElementType::Bool;
        let mut wrong = false;
        let walked = walk(&mut |piece| {
            wrong = is_bool && piece.iter().any(|byte| *byte > 1);
            if wrong { ControlFlow::Break(()) } else { visit(piece) }
        });
        let checked = walked.and_then(|()| if wrong { self.wrong_bools(tensor) } else { Ok(()) });
        checked.map_err(|problem: Problem| problem.at(&self.place))
    }

    /// Refuses a tensor that repeats elements of its storage, and would be larger than `max_repeated` without that.
    fn check_repeated(&self, tensor: &TensorInfo, max_repeated: u64) -> Result<(), TorchError> {
        let stored = self.storage(tensor).map_err(|problem| problem.at(&self.place))?.n_bytes;
        if tensor.n_bytes > stored && tensor.n_bytes > max_repeated {
            let (place, name) = (self.place.clone(), tensor.name.to_string());
            return Err(TorchError::TooLarge { place, name, n_bytes: tensor.n_bytes, limit: max_repeated });
        }
        Ok(())
    }

    /// Where the file has exactly the elements of a tensor. `None` if they are not one after another, or are bools, which reading checks.
    ///
    /// # Errors
    /// [`TorchError`]: the storage is not where the file says.
    pub fn location(&self, tensor: &TensorInfo) -> Result<Option<Range<u64>>, TorchError> {
        match tensor.parts.dtype {
            ElementType::Bool => Ok(None),
            _ => self.range(tensor).map_err(|problem| problem.at(&self.place)),
        }
    }

    /// Compares the checksum of the storage of a tensor, once for all tensors that share it. Files from before PyTorch 1.6 have none.
    ///
    /// # Errors
    /// [`TorchError`].
    pub fn check(&self, tensor: &TensorInfo) -> Result<(), TorchError> {
        let check = || {
            let storage = self.storage(tensor)?;
            storage.start(&self.bytes)?;
            if tensor.parts.dtype == ElementType::Bool {
                let once = tensor.once();
                // Windows of a storage that overlap are as many bytes as are asked for, and are checked when they are read.
                if once.n_bytes <= storage.n_bytes {
                    let range = self.range(&once)?;
                    let bytes = range.map_or_else(|| self.gathered(&once), |range| Ok(self.bytes.read(range)?))?;
                    self.check_bools(tensor, bytes)?;
                }
            }
            if let (Some(archive), Place::Entry { position, .. }) = (&self.archive, &storage.place)
                && !storage.is_checked.load(Ordering::Relaxed)
            {
                archive::check(archive.clone(), *position)?;
                storage.is_checked.store(true, Ordering::Relaxed);
            }
            Ok(())
        };
        check().map_err(|problem: Problem| problem.at(&self.place))
    }

    /// Bools are bytes of 0 or 1: of another byte, PyTorch makes what its processor makes of it.
    fn check_bools(&self, tensor: &TensorInfo, bytes: SharedBytes) -> Result<SharedBytes, Problem> {
        match tensor.parts.dtype == ElementType::Bool && bytes.iter().any(|byte| *byte > 1) {
            true => self.wrong_bools(tensor),
            false => Ok(bytes),
        }
    }

    fn wrong_bools<T>(&self, tensor: &TensorInfo) -> Result<T, Problem> {
        malformed(format!("bools of tensor {} are neither 0 nor 1", quoted(&tensor.name)))
    }

    fn storage(&self, tensor: &TensorInfo) -> Result<&Storage, Problem> {
        let storage = self.contents.storages.get(tensor.parts.storage);
        storage.ok_or_else(|| Problem::Malformed("a storage is not there".to_owned()))
    }

    fn range(&self, tensor: &TensorInfo) -> Result<Option<Range<u64>>, Problem> {
        let parts = &tensor.parts;
        if !is_contiguous(&parts.shape, &parts.strides) {
            return Ok(None);
        }
        let start = self.storage(tensor)?.start(&self.bytes)?;
        if tensor.n_bytes == 0 {
            return Ok(Some(start..start));
        }
        self.bytes_of(tensor, start, tensor.n_bytes).map(Some)
    }

    /// A range of the file that begins with the first element.
    fn bytes_of(&self, tensor: &TensorInfo, start: u64, n_bytes: u64) -> Result<Range<u64>, Problem> {
        let first = tensor.parts.offset.checked_mul(width(tensor.parts.dtype) as u64);
        let end = first.and_then(|first| first.checked_add(n_bytes));
        match (first, end) {
            (Some(first), Some(end)) if end <= self.storage(tensor)?.n_bytes => Ok(start + first..start + end),
            _ => Err(Problem::Malformed("a tensor is not inside of its storage".to_owned())),
        }
    }

    /// Reads the elements from the first to the last, and brings them into C order.
    fn gathered(&self, tensor: &TensorInfo) -> Result<SharedBytes, Problem> {
        let parts = &tensor.parts;
        let start = self.storage(tensor)?.start(&self.bytes)?;
        let outside = || Problem::Malformed("a tensor is not inside of its storage".to_owned());
        let memory = || Problem::Io(std::io::ErrorKind::OutOfMemory.into());
        let n_elements = extent(&parts.shape, &parts.strides).ok_or_else(outside)?;
        let stored = n_elements.checked_mul(width(parts.dtype) as u64).ok_or_else(outside)?;
        let source = self.bytes.read(self.bytes_of(tensor, start, stored)?)?;
        let length = usize::try_from(tensor.n_bytes).map_err(|_| memory())?;
        let mut gathered = AlignedBytes::try_zeroed(length).ok_or_else(memory)?;
        gather(&source, width(parts.dtype), &parts.shape, &parts.strides, gathered.as_mut_slice())
            .ok_or_else(outside)?;
        Ok(gathered.into())
    }
}

impl fmt::Debug for Reader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reader").field("place", &self.place).field("contents", &self.contents).finish_non_exhaustive()
    }
}
