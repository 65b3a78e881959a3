//! Reads the tensors of a file by name.

use std::ops::ControlFlow;
use std::path::Path;

use parking_lot::Mutex;

use super::cursor::Failed;
use super::{GgufError, Header, HeaderError, TensorInfo};
use crate::content::Content;
use crate::files::{ElementType, FileBytes, RawTensor, RawTensorError};
use crate::parallel::par_for_each;
use crate::{AlignedBytes, element_count};

/// The elements that a thread dequantizes at a time: a multiple of every block.
const AT_ONCE: usize = 1 << 16;
/// The elements that are in memory at a time where a tensor is passed on piece by piece.
const IN_MEMORY: usize = 1 << 21;

/// An open GGUF file. Its header was read and validated; data is read on request. Any number of threads may read at once.
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
    /// [`GgufError::Header`], [`GgufError::Io`].
    pub fn open(path: impl AsRef<Path>) -> Result<Self, GgufError> {
        let place = path.as_ref().display().to_string();
        match FileBytes::open(path) {
            Ok(bytes) => Self::new(bytes, place),
            Err(source) => Err(GgufError::Io { place, source }),
        }
    }

    /// Opens a file from its bytes and reads its header. Errors refer to the file as `place`.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn new(bytes: impl Into<FileBytes>, place: impl Into<String>) -> Result<Self, GgufError> {
        let (bytes, place) = (bytes.into(), place.into());
        match Header::read(&bytes) {
            Ok(header) => Ok(Self { place, bytes, header }),
            Err(Failed::Io(source)) => Err(GgufError::Io { place, source }),
            // A file that does not begin like GGUF is mostly a whole one of another kind, which the rule would not tell.
            Err(Failed::Rule(source @ HeaderError::Magic { .. })) => {
                match bytes.start(Content::START).map(|start| Content::of_start(&start)) {
                    Ok(Some(content)) => Err(GgufError::OtherContent { place, content }),
                    Ok(None) => Err(GgufError::Header { place, source: Box::new(source) }),
                    Err(source) => Err(GgufError::Io { place, source }),
                }
            }
            Err(Failed::Rule(source)) => Err(GgufError::Header { place, source: Box::new(source) }),
        }
    }

    /// The header of the file.
    #[must_use]
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// The bytes of the file.
    #[must_use]
    pub fn bytes(&self) -> &FileBytes {
        &self.bytes
    }

    /// The name by which errors refer to the file.
    #[must_use]
    pub fn place(&self) -> &str {
        &self.place
    }

    /// Returns the tensor of this name, without its data.
    ///
    /// # Errors
    /// [`GgufError::NoSuchTensor`].
    pub fn get(&self, name: &str) -> Result<&TensorInfo, GgufError> {
        let missing = || GgufError::NoSuchTensor { place: self.place.clone(), name: name.to_owned() };
        self.header.get(name).ok_or_else(missing)
    }

    /// Reads a tensor of this file. A quantized one becomes `float32`, as the Python package `gguf` dequantizes it.
    ///
    /// # Errors
    /// [`GgufError::NotDequantized`]; [`GgufError::Tensor`] if there is not enough memory; [`GgufError::Io`].
    pub fn read(&self, tensor: &TensorInfo) -> Result<RawTensor, GgufError> {
        let bytes = self.bytes.read(tensor.range.clone()).map_err(|source| self.io(source))?;
        let shape = tensor.shape.clone();
        let failed = |source| self.unreadable(tensor, source);
        if let Some(dtype) = tensor.ggml_type.element_type() {
            return RawTensor::new(dtype, shape, bytes).map_err(failed);
        }
        let dtype = ElementType::Float32;
        self.check_dequantized(tensor)?;
        let n_bytes = element_count(&tensor.shape).and_then(|n_elements| dtype.n_bytes(n_elements));
        let Some(mut numbers) = n_bytes.and_then(AlignedBytes::try_zeroed) else {
            return Err(failed(RawTensorError::NoSize { dtype, shape }));
        };
        tensor.ggml_type.dequantize_on_all_cores(&bytes, numbers.as_mut_slice());
        RawTensor::new(dtype, shape, numbers.into()).map_err(failed)
    }

    /// Passes the elements that [`read`](Self::read) returns to `visit`, until it wants no more, in pieces of `n_elements`; of quantized ones,
    /// the next multiple of a block. A few pieces are in memory at a time.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub fn visit(
        &self,
        tensor: &TensorInfo,
        n_elements: usize,
        visit: &mut dyn FnMut(&[u8]) -> ControlFlow<()>,
    ) -> Result<(), GgufError> {
        let of = tensor.ggml_type;
        let (elements, block) = of.block();
        let piece_blocks = n_elements.div_ceil(elements).max(1);
        // Of quantized elements whole pieces, and as many as are worth the start of threads.
        let pieces_at_once = if of.is_quantized() { (IN_MEMORY / elements / piece_blocks).max(1) } else { 1 };
        let bytes_at_once = (piece_blocks as u64).saturating_mul(pieces_at_once as u64).saturating_mul(block as u64);
        if of.is_quantized() {
            self.check_dequantized(tensor)?;
        }
        let (mut stored, mut numbers) = (Vec::new(), Vec::new());
        let mut rest = tensor.range.clone();
        while rest.start < rest.end {
            // At most as many as the tensor has, which is inside of the file.
            let n_bytes = (rest.end - rest.start).min(bytes_at_once);
            stored.resize(n_bytes as usize, 0);
            self.bytes.read_into(rest.start, &mut stored).map_err(|source| self.io(source))?;
            rest.start += n_bytes;
            let (pieces, piece_bytes) = if of.is_quantized() {
                numbers.resize(stored.len() / block * elements * size_of::<f32>(), 0);
                of.dequantize_on_all_cores(&stored, &mut numbers);
                (&numbers, piece_blocks.saturating_mul(elements * size_of::<f32>()))
            } else {
                (&stored, piece_blocks.saturating_mul(block))
            };
            if pieces.chunks(piece_bytes).try_for_each(&mut *visit).is_break() {
                break;
            }
        }
        Ok(())
    }

    /// Passes the bytes of a tensor, as they are in the file, to `visit`, until it wants no more, in pieces of at most `n_bytes`.
    ///
    /// # Errors
    /// [`GgufError::Io`].
    pub fn visit_stored(
        &self,
        tensor: &TensorInfo,
        n_bytes: u64,
        visit: &mut dyn FnMut(&[u8]) -> ControlFlow<()>,
    ) -> Result<(), GgufError> {
        let mut rest = tensor.range.clone();
        while rest.start < rest.end {
            let end = rest.end.min(rest.start.saturating_add(n_bytes.max(1)));
            let piece = self.bytes.read(rest.start..end).map_err(|source| self.io(source))?;
            rest.start = end;
            if visit(&piece).is_break() {
                break;
            }
        }
        Ok(())
    }

    fn check_dequantized(&self, tensor: &TensorInfo) -> Result<(), GgufError> {
        if tensor.ggml_type.is_dequantized() {
            return Ok(());
        }
        let (place, name) = (self.place.clone(), tensor.name.clone());
        Err(GgufError::NotDequantized { place, name, of: tensor.ggml_type })
    }

    fn unreadable(&self, tensor: &TensorInfo, source: RawTensorError) -> GgufError {
        GgufError::Tensor { place: self.place.clone(), name: tensor.name.clone(), source }
    }

    fn io(&self, source: std::io::Error) -> GgufError {
        GgufError::Io { place: self.place.clone(), source }
    }
}

impl super::GgmlType {
    /// Writes the little-endian numbers of whole blocks to `numbers`, on all cores.
    fn dequantize_on_all_cores(self, blocks: &[u8], numbers: &mut [u8]) {
        let (elements, bytes) = self.block();
        let at_once = AT_ONCE / elements;
        let numbers = numbers.chunks_mut(at_once * elements * size_of::<f32>()).map(Mutex::new);
        let pieces: Vec<_> = blocks.chunks(at_once * bytes).zip(numbers).collect();
        let _: Result<(), std::convert::Infallible> = par_for_each(pieces.len(), |position| {
            if let Some((blocks, numbers)) = pieces.get(position) {
                self.dequantize(blocks, &mut numbers.lock());
            }
            Ok(())
        });
    }
}
