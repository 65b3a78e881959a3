//! Reads the tensors of a model by name. Opening reads the messages of the model; the elements of a tensor are read when they are wanted.

use std::fmt;
use std::io;
use std::ops::{ControlFlow, Range};
use std::path::Path;
use std::sync::Arc;

use super::elements::{visit_elements, visit_positions, visit_raw, visit_strings, visit_values};
use super::error::{OnnxError, Problem, malformed, quoted};
use super::external::{folder, open_external};
use super::model::Model;
use super::onnx_type::OnnxType;
use super::source::FileSource;
use super::tensor::{Data, TensorInfo};
use crate::files::{Beside, FileBytes, Folder, FollowLinks, RawTensor, Visit};
use crate::{AlignedBytes, StringTensor};

/// The elements that are in memory at a time where they are collected.
const AT_ONCE: usize = 1 << 18;

/// An open ONNX model. Its messages were read and checked; data is read on request. Any number of threads may read at once.
///
/// ```no_run
/// use carton_tensor::onnx::Reader;
/// let reader = Reader::open("model.onnx")?;
/// for tensor in reader.tensors() {
///     println!("{} {:?} {:?}", tensor.name(), tensor.dtype(), tensor.shape());
/// }
/// # Ok::<(), carton_tensor::onnx::OnnxError>(())
/// ```
#[derive(Clone)]
pub struct Reader {
    place: String,
    bytes: FileBytes,
    model: Arc<Model>,
    /// The files of external data, in the order of the model's locations.
    external: Vec<FileBytes>,
}

impl Reader {
    /// Opens the model at `path`, and the files beside it that have its data.
    ///
    /// # Errors
    /// [`OnnxError`].
    pub fn open(path: impl AsRef<Path>) -> Result<Self, OnnxError> {
        let (path, place) = (path.as_ref(), path.as_ref().display().to_string());
        match FileBytes::open(path) {
            Ok(bytes) => {
                let open = |file: &Path| FileBytes::open(file);
                Self::new(bytes, place, Some(&|name| Folder::of_model(path, FollowLinks::Own)?.open(name, open)))
            }
            Err(source) => Err(OnnxError::Io { place, source }),
        }
    }

    /// Opens a model from its bytes. Errors refer to it as `place`. `beside` opens the file of a path in the model's folder; without it, a model
    /// that has data in other files is refused.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn new(
        bytes: impl Into<FileBytes>,
        place: impl Into<String>,
        beside: Option<Beside<'_>>,
    ) -> Result<Self, OnnxError> {
        let (bytes, place) = (bytes.into(), place.into());
        let model = match bytes.is_empty() {
            true => malformed("it is empty"),
            false => Model::read(&FileSource::new(bytes.clone())),
        };
        let model = model.map_err(|problem| problem.at(&place, |_| String::new()))?;
        let external = open_external(&model.locations.paths, &place, beside)?;
        let reader = Self { place, bytes, model: Arc::new(model), external };
        for tensor in reader.tensors() {
            reader.check_external(tensor).map_err(|problem| reader.named(problem))?;
        }
        Ok(reader)
    }

    /// The name by which errors refer to the model.
    #[must_use]
    pub fn place(&self) -> &str {
        &self.place
    }

    /// The bytes of the model's own file.
    #[must_use]
    pub fn bytes(&self) -> &FileBytes {
        &self.bytes
    }

    /// The tensors, in the order of the model.
    #[must_use]
    pub fn tensors(&self) -> &[TensorInfo] {
        &self.model.tensors
    }

    /// Returns the tensor of this name, without its data.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&TensorInfo> {
        self.model.tensors.get(*self.model.positions.get(name)?)
    }

    /// The versions, the producer, the operator sets and the properties that the model states.
    #[must_use]
    pub fn metadata(&self) -> &[(String, String)] {
        self.model.metadata.entries()
    }

    /// The paths, in the folder of the model, of the files that have data of it.
    #[must_use]
    pub fn external_files(&self) -> &[String] {
        &self.model.locations.paths
    }

    /// Reads the tensor of this name. Sparse ones of up to 4 GiB become dense.
    ///
    /// # Errors
    /// [`OnnxError`].
    pub fn read(&self, name: &str) -> Result<RawTensor, OnnxError> {
        /// As for sparse tensors of other formats.
        const MAX_DENSE: u64 = 4 << 30;
        match self.get(name) {
            Some(tensor) => self.read_within(tensor, MAX_DENSE),
            None => Err(OnnxError::NoSuchTensor { place: self.place.clone(), name: name.to_owned() }),
        }
    }

    /// Reads a tensor of numbers of this model. A sparse one may have at most `max_dense` bytes once it is dense.
    ///
    /// # Errors
    /// [`OnnxError`].
    pub fn read_within(&self, tensor: &TensorInfo, max_dense: u64) -> Result<RawTensor, OnnxError> {
        let of = self.numbers(tensor)?;
        let Some(dtype) = of.element_type() else { return Err(self.not_numbers(tensor)) };
        let n_bytes = dtype.n_bytes(usize::try_from(tensor.n_elements()).unwrap_or(usize::MAX)).unwrap_or(usize::MAX);
        let bytes = match &tensor.data {
            Data::Sparse(parts) => {
                self.check_size(tensor, n_bytes as u64, max_dense)?;
                self.dense(tensor, parts, n_bytes)
            }
            _ => match self.location(tensor) {
                Some((file, range)) => file.read(range).map_err(|source| self.unreadable(tensor, source)),
                None => self.collected(tensor, of, n_bytes),
            },
        };
        let bytes = bytes.map_err(|problem| self.named(problem))?;
        RawTensor::new(dtype, tensor.shape.clone(), bytes).map_err(|source| OnnxError::Tensor {
            place: self.place.clone(),
            name: tensor.name.clone(),
            source,
        })
    }

    /// Reads a tensor of strings of this model, which may take at most `max_bytes` of memory.
    ///
    /// # Errors
    /// [`OnnxError`].
    pub fn read_strings(&self, tensor: &TensorInfo, max_bytes: u64) -> Result<StringTensor, OnnxError> {
        let n_bytes = tensor.n_elements().saturating_mul(size_of::<String>() as u64).saturating_add(tensor.stored);
        self.check_size(tensor, n_bytes, max_bytes)?;
        let mut strings = Vec::new();
        self.visit_strings(tensor, |text| {
            strings.push(text);
            Ok(())
        })?;
        StringTensor::new(strings, tensor.shape.clone()).map_err(|source| OnnxError::Strings {
            place: self.place.clone(),
            name: tensor.name.clone(),
            source,
        })
    }

    /// Where a file has exactly the elements that are read, if it has them so, and they are not bools, which reading checks.
    #[must_use]
    pub fn location(&self, tensor: &TensorInfo) -> Option<(&FileBytes, Range<u64>)> {
        let of = tensor.onnx_type.filter(|of| *of != OnnxType::Bool && !of.is_narrow_integer())?;
        let _ = tensor.dtype()?;
        match &tensor.data {
            Data::Raw(range) => Some((&self.bytes, range.clone())),
            Data::External { file, offset, .. } => {
                let end = offset.checked_add(of.raw_bytes(tensor.n_elements())?)?;
                Some((self.external.get(*file)?, *offset..end))
            }
            Data::Nothing => Some((&self.bytes, 0..0)),
            Data::Values(_) | Data::Sparse(_) => None,
        }
    }

    /// Passes the elements that [`read_within`](Self::read_within) returns to `visit`, until it wants no more, in pieces of `n_elements`; of
    /// elements of less than a byte in the file, the next multiple of 8. One piece is in memory at a time. A sparse tensor is refused.
    ///
    /// # Errors
    /// As [`read_within`](Self::read_within).
    pub fn visit(
        &self,
        tensor: &TensorInfo,
        n_elements: usize,
        visit: &mut dyn FnMut(&[u8]) -> ControlFlow<()>,
    ) -> Result<(), OnnxError> {
        let of = self.numbers(tensor)?;
        match self.visit_numbers(tensor, of, n_elements, visit) {
            Err(Problem::Stopped) => Ok(()),
            visited => visited.map_err(|problem| self.named(problem)),
        }
    }

    /// Checks what opening the model did not: the number and range of values, bools, text, and the indices of sparse tensors.
    ///
    /// # Errors
    /// As [`read_within`](Self::read_within).
    pub fn check(&self, tensor: &TensorInfo) -> Result<(), OnnxError> {
        if tensor.is_strings() {
            return self.visit_strings(tensor, |_| Ok(()));
        }
        let of = self.numbers(tensor)?;
        if self.location(tensor).is_some() {
            return Ok(());
        }
        match &tensor.data {
            Data::Sparse(parts) => {
                let [values, indices] = &**parts;
                self.check(values)?;
                let checked = self.positions(tensor, indices, |_| Ok(()));
                checked.map_err(|problem| self.named(problem))
            }
            _ => {
                let visited = self.visit_numbers(tensor, of, AT_ONCE, &mut |_| ControlFlow::Continue(()));
                visited.map_err(|problem| self.named(problem))
            }
        }
    }

    fn visit_numbers(
        &self,
        tensor: &TensorInfo,
        of: OnnxType,
        n_elements: usize,
        visit: Visit<'_>,
    ) -> Result<(), Problem> {
        visit_elements(tensor, of, n_elements, visit, |n_bytes, each| match &tensor.data {
            Data::Nothing => Ok(()),
            Data::Raw(range) => visit_raw(&self.bytes, range.clone(), n_bytes, each),
            Data::Values(message) => visit_values(&self.bytes, message.clone(), tensor, of, n_bytes, each),
            Data::External { file, offset, .. } => {
                let end = offset.saturating_add(of.raw_bytes(tensor.n_elements()).unwrap_or(u64::MAX));
                let Some(bytes) = self.external.get(*file) else { return malformed("its external data is not there") };
                visit_raw(bytes, *offset..end, n_bytes, each).map_err(|problem| match problem {
                    Problem::Io(source) => Problem::External(*file, source),
                    problem => problem,
                })
            }
            Data::Sparse(_) => malformed(format!("tensor {} is sparse, and is read as a whole", quoted(&tensor.name))),
        })
    }

    /// Reads elements that the file has in another form.
    fn collected(
        &self,
        tensor: &TensorInfo,
        of: OnnxType,
        n_bytes: usize,
    ) -> Result<crate::files::SharedBytes, Problem> {
        let mut collected = zeroed(n_bytes)?;
        let mut rest = collected.as_mut_slice();
        self.visit_numbers(tensor, of, AT_ONCE, &mut |piece| {
            let taken = std::mem::take(&mut rest);
            let Some((now, later)) = taken.split_at_mut_checked(piece.len()) else { return ControlFlow::Break(()) };
            now.copy_from_slice(piece);
            rest = later;
            ControlFlow::Continue(())
        })?;
        Ok(collected.into())
    }

    /// Writes the values of a sparse tensor to where they are among the elements of the dense one.
    fn dense(
        &self,
        tensor: &TensorInfo,
        parts: &[TensorInfo; 2],
        n_bytes: usize,
    ) -> Result<crate::files::SharedBytes, Problem> {
        let [values, indices] = parts;
        let values = self.read_part(values)?;
        let width = values.dtype().bits() / 8;
        let mut dense = zeroed(n_bytes)?;
        let mut elements = values.bytes().chunks_exact(width);
        self.positions(tensor, indices, |position| {
            let start = usize::try_from(position).ok().and_then(|position| position.checked_mul(width));
            let place = start.and_then(|start| dense.as_mut_slice().get_mut(start..start.checked_add(width)?));
            if let (Some(place), Some(element)) = (place, elements.next()) {
                place.copy_from_slice(element);
            }
            Ok(())
        })?;
        Ok(dense.into())
    }

    /// Passes the positions of the values of a sparse tensor.
    fn positions(
        &self,
        tensor: &TensorInfo,
        indices: &TensorInfo,
        each: impl FnMut(u64) -> Result<(), Problem>,
    ) -> Result<(), Problem> {
        let read = self.read_part(indices)?;
        // Values of a scalar have indices of no numbers: there is one element.
        if indices.shape.len() == 2 && tensor.shape.is_empty() {
            return match indices.shape.first() {
                Some(0) => Ok(()),
                Some(1) => [0].into_iter().try_for_each(each),
                _ => malformed(format!("sparse tensor {} has more values than elements", quoted(&tensor.name))),
            };
        }
        visit_positions(tensor, read.bytes(), indices.shape.len() == 1, each)
    }

    /// Reads the values or indices of a sparse tensor, which are not sparse themselves.
    fn read_part(&self, tensor: &TensorInfo) -> Result<RawTensor, Problem> {
        self.read_within(tensor, 0).map_err(|error| match error {
            OnnxError::Format { problem, .. } => Problem::Malformed(problem),
            OnnxError::Io { source, .. } => Problem::Io(source),
            error => Problem::Refused(error.to_string()),
        })
    }

    fn visit_strings(
        &self,
        tensor: &TensorInfo,
        each: impl FnMut(String) -> Result<(), Problem>,
    ) -> Result<(), OnnxError> {
        match &tensor.data {
            Data::Values(message) => {
                let visited = visit_strings(&self.bytes, message.clone(), tensor, each);
                visited.map_err(|problem| self.named(problem))
            }
            _ => Ok(()),
        }
    }

    /// Checks that the data of a tensor is in its file.
    fn check_external(&self, tensor: &TensorInfo) -> Result<(), Problem> {
        if let Data::Sparse(parts) = &tensor.data {
            return parts.iter().try_for_each(|part| self.check_external(part));
        }
        let (Data::External { file, offset, length }, Some(of)) = (&tensor.data, tensor.onnx_type) else {
            return Ok(());
        };
        let has = self.external.get(*file).map_or(0, FileBytes::len);
        let needed = of.raw_bytes(tensor.n_elements()).unwrap_or(u64::MAX);
        let left = has.checked_sub(*offset);
        let named = || {
            let path = self.model.locations.paths.get(*file).map_or("", String::as_str);
            format!("external data of tensor {} in {}", quoted(&tensor.name), quoted(path))
        };
        match (left, length) {
            (Some(left), Some(_)) if needed <= left => Ok(()),
            // Without a length, it is all that follows.
            (Some(left), None) if needed == left => Ok(()),
            (Some(left), None) if needed < left => malformed(format!(
                "the {} has no length, and {left} bytes from {offset} on, expected {needed}",
                named()
            )),
            _ => malformed(format!("the {} needs {needed} bytes at {offset}, and the file has {has}", named())),
        }
    }

    /// The element type of a tensor that is read as numbers.
    fn numbers(&self, tensor: &TensorInfo) -> Result<OnnxType, OnnxError> {
        match tensor.onnx_type {
            Some(of) if tensor.dtype().is_some() => Ok(of),
            _ => Err(self.not_numbers(tensor)),
        }
    }

    fn not_numbers(&self, tensor: &TensorInfo) -> OnnxError {
        let reason = tensor.unsupported().unwrap_or("it is of strings");
        let problem = format!("tensor {} is not read: {reason}", quoted(&tensor.name));
        OnnxError::Refused { place: self.place.clone(), problem }
    }

    fn check_size(&self, tensor: &TensorInfo, n_bytes: u64, limit: u64) -> Result<(), OnnxError> {
        if n_bytes <= limit {
            return Ok(());
        }
        Err(OnnxError::TooLarge { place: self.place.clone(), name: tensor.name.clone(), n_bytes, limit })
    }

    /// The error of the system for the file that has the data of a tensor.
    fn unreadable(&self, tensor: &TensorInfo, source: io::Error) -> Problem {
        match &tensor.data {
            Data::External { file, .. } => Problem::External(*file, source),
            _ => Problem::Io(source),
        }
    }

    fn named(&self, problem: Problem) -> OnnxError {
        let external = |file: usize| {
            let path = self.model.locations.paths.get(file).map_or("", String::as_str);
            format!("{}{path}", folder(&self.place))
        };
        problem.at(&self.place, external)
    }
}

fn zeroed(n_bytes: usize) -> Result<AlignedBytes, Problem> {
    AlignedBytes::try_zeroed(n_bytes).ok_or_else(|| Problem::Io(io::ErrorKind::OutOfMemory.into()))
}

impl fmt::Debug for Reader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reader").field("place", &self.place).field("model", &self.model).finish_non_exhaustive()
    }
}
