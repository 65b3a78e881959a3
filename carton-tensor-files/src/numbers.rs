//! Tensors of numbers that are written: what they are, and where their elements come from, piece by piece. Whatever computes elements is a
//! [`Numbers`] of another.

use std::io;

use carton_tensor::any_file::{ElementOrder, Entry, TensorFile};
use carton_tensor::files::{ElementType, RawTensor};
use carton_tensor::weights::Logical;

use crate::error::TensorFilesError;

/// The elements that are passed at a time: about a megabyte of most types, and a multiple of 8, so that pieces of types of less than a byte are whole
/// bytes.
pub(crate) const AT_ONCE: usize = 1 << 18;

/// Gets one piece of elements after another.
pub(crate) type VisitPiece<'a> = dyn FnMut(&[u8]) -> Result<(), TensorFilesError> + 'a;

/// Called with the number of bytes that were visited. An error ends the visit.
pub(crate) type Advance<'a> = dyn Fn(u64) -> Result<(), TensorFilesError> + 'a;

/// A tensor of numbers.
pub(crate) trait Numbers {
    /// The type of its elements.
    fn dtype(&self) -> ElementType;

    /// Its dimensions.
    fn shape(&self) -> &[usize];

    /// Passes the elements to `visit`, little-endian and in C order, in pieces of about [`AT_ONCE`] elements. The elements may only be used if no error
    /// follows.
    fn visit(&self, visit: &mut VisitPiece<'_>) -> Result<(), TensorFilesError>;

    /// What was lost on the way, in one sentence, once the elements have been visited.
    fn warning(&self) -> Option<String> {
        None
    }

    /// The tensor as a whole, where the memory for it is needed anyway.
    fn whole(&self) -> Result<RawTensor, TensorFilesError> {
        let mut bytes = Vec::new();
        self.visit(&mut |piece| {
            bytes.try_reserve(piece.len()).map_err(|_| TensorFilesError::Memory)?;
            bytes.extend_from_slice(piece);
            Ok(())
        })?;
        let made = RawTensor::new(self.dtype(), self.shape().to_vec(), bytes.into());
        made.map_err(|error| TensorFilesError::Changed(error.to_string()))
    }
}

impl Numbers for RawTensor {
    fn dtype(&self) -> ElementType {
        self.dtype()
    }

    fn shape(&self) -> &[usize] {
        self.shape()
    }

    fn visit(&self, visit: &mut VisitPiece<'_>) -> Result<(), TensorFilesError> {
        visit(self.bytes())
    }

    fn whole(&self) -> Result<RawTensor, TensorFilesError> {
        Ok(self.clone())
    }
}

/// The numbers of a tensor of a file. Those of sparse and quantized tensors are computed.
pub(crate) struct EntryNumbers<'a> {
    entry: Entry<'a>,
    dtype: ElementType,
}

impl<'a> EntryNumbers<'a> {
    /// Takes the numbers of this type that reading `entry` gives.
    pub(crate) fn new(entry: Entry<'a>, dtype: ElementType) -> Self {
        Self { entry, dtype }
    }
}

impl Numbers for EntryNumbers<'_> {
    fn dtype(&self) -> ElementType {
        self.dtype
    }

    fn shape(&self) -> &[usize] {
        self.entry.shape()
    }

    fn visit(&self, visit: &mut VisitPiece<'_>) -> Result<(), TensorFilesError> {
        self.entry.visit(ElementOrder::C, AT_ONCE, visit)
    }
}

/// The numbers that packed tensors of a file stand for.
pub(crate) struct PackedNumbers<'a> {
    file: &'a TensorFile,
    logical: &'a Logical,
}

impl<'a> PackedNumbers<'a> {
    /// Takes the numbers of a packed tensor of this file.
    pub(crate) fn new(file: &'a TensorFile, logical: &'a Logical) -> Self {
        Self { file, logical }
    }
}

impl Numbers for PackedNumbers<'_> {
    fn dtype(&self) -> ElementType {
        self.logical.dtype()
    }

    fn shape(&self) -> &[usize] {
        self.logical.shape()
    }

    fn visit(&self, visit: &mut VisitPiece<'_>) -> Result<(), TensorFilesError> {
        self.logical.visit(self.file, AT_ONCE, visit)
    }
}

/// Passes the elements of a tensor to a writer. Errors of the tensor come out as they are, and those of the writer as `failed` makes them.
pub(crate) fn copy_to<E>(
    numbers: &dyn Numbers,
    write: impl FnOnce(&mut dyn FnMut(&mut dyn io::Write) -> io::Result<()>) -> Result<(), E>,
) -> Result<(), TensorFilesError>
where
    TensorFilesError: From<E>,
{
    let mut failure = None;
    let written = write(&mut |out| {
        let visited = numbers.visit(&mut |piece| out.write_all(piece).map_err(TensorFilesError::Writing));
        match visited {
            Ok(()) => Ok(()),
            Err(TensorFilesError::Writing(error)) => Err(error),
            Err(error) => {
                failure = Some(error);
                Err(io::Error::other("the source of the tensor cannot be read"))
            }
        }
    });
    match failure {
        Some(failure) => Err(failure),
        None => Ok(written?),
    }
}
