//! Tensors in blocks of ggml that are written, piece by piece: those of a GGUF file as they are, and numbers that are quantized on the way.

use std::cell::Cell;
use std::ops::ControlFlow;

use carton_tensor::any_file::TensorFileError;
use carton_tensor::gguf::{self, GgmlType, QuantizedType};

use crate::error::TensorFilesError;
use crate::numbers::{Advance, Numbers, VisitPiece};
use crate::text::{count, shown_name};

/// The bytes of a file that are read at a time.
const BYTES_AT_ONCE: u64 = 1 << 20;

/// A tensor in blocks.
pub(crate) struct Blocks<'a> {
    of: GgmlType,
    from: From<'a>,
    advance: Option<&'a Advance<'a>>,
}

/// Where blocks come from.
enum From<'a> {
    File(&'a gguf::Reader, &'a gguf::TensorInfo),
    /// Numbers of float32 that are quantized.
    Numbers {
        name: String,
        numbers: Box<dyn Numbers + 'a>,
        to: QuantizedType,
        saturate: bool,
        n_saturated: Cell<u64>,
    },
}

impl<'a> Blocks<'a> {
    /// Takes the blocks of a file as they are.
    pub(crate) fn of_file(reader: &'a gguf::Reader, tensor: &'a gguf::TensorInfo) -> Self {
        Self { of: tensor.ggml_type, from: From::File(reader, tensor), advance: None }
    }

    /// Quantizes float32 numbers, which messages call `name`.
    pub(crate) fn quantized(name: &str, numbers: Box<dyn Numbers + 'a>, to: QuantizedType, saturate: bool) -> Self {
        let (name, n_saturated) = (shown_name(name), Cell::new(0));
        Self { of: to.ggml_type(), from: From::Numbers { name, numbers, to, saturate, n_saturated }, advance: None }
    }

    /// Reports the bytes that were visited to `advance`.
    pub(crate) fn metered(self, advance: &'a Advance<'a>) -> Self {
        Self { advance: Some(advance), ..self }
    }

    /// The type of the blocks.
    pub(crate) fn ggml_type(&self) -> GgmlType {
        self.of
    }

    /// The dimensions.
    pub(crate) fn shape(&self) -> &[usize] {
        match &self.from {
            From::File(_, tensor) => &tensor.shape,
            From::Numbers { numbers, .. } => numbers.shape(),
        }
    }

    /// Passes the bytes of the blocks to `visit`, in pieces of about a megabyte. They may only be used if no error follows.
    pub(crate) fn visit(&self, visit: &mut VisitPiece<'_>) -> Result<(), TensorFilesError> {
        let mut visit = |piece: &[u8]| {
            visit(piece)?;
            self.advance.map_or(Ok(()), |advance| advance(piece.len() as u64))
        };
        match &self.from {
            From::File(reader, tensor) => {
                let mut failure = None;
                let visited = reader.visit_stored(tensor, BYTES_AT_ONCE, &mut |piece| match visit(piece) {
                    Ok(()) => ControlFlow::Continue(()),
                    Err(error) => {
                        failure = Some(error);
                        ControlFlow::Break(())
                    }
                });
                failure.map_or(Ok(()), Err)?;
                Ok(visited.map_err(TensorFileError::from)?)
            }
            From::Numbers { name, numbers, to, saturate, n_saturated } => {
                let (mut blocks, mut found) = (Vec::new(), gguf::NotRepresented::default());
                // Pieces of numbers are whole blocks, but for those of a source that has other ones.
                let mut rest: Vec<u8> = Vec::new();
                let block = self.of.block_elements() * size_of::<f32>();
                numbers.visit(&mut |piece| {
                    let joined;
                    let piece = if rest.is_empty() {
                        piece
                    } else {
                        joined = [rest.as_slice(), piece].concat();
                        &joined
                    };
                    let (whole, left) = piece.split_at(piece.len() / block * block);
                    let in_piece = to.quantize(whole, *saturate, &mut blocks);
                    found.n_nan += in_piece.n_nan;
                    found.n_beyond += in_piece.n_beyond;
                    rest = left.to_vec();
                    // Of a tensor that is refused, only the numbers are wanted.
                    if found.n_nan == 0 && (found.n_beyond == 0 || *saturate) { visit(&blocks) } else { Ok(()) }
                })?;
                if found.n_nan > 0 {
                    return Err(TensorFilesError::NanInBlocks {
                        name: name.clone(),
                        n_numbers: found.n_nan,
                        of: self.of,
                    });
                }
                if found.n_beyond > 0 && !saturate {
                    let dtype = self.of.name();
                    return Err(TensorFilesError::Beyond { name: name.clone(), n_numbers: found.n_beyond, dtype });
                }
                n_saturated.set(found.n_beyond);
                Ok(())
            }
        }
    }

    /// What was lost on the way, once the blocks have been visited.
    pub(crate) fn warnings(&self) -> Vec<String> {
        let From::Numbers { name, numbers, n_saturated, .. } = &self.from else { return Vec::new() };
        let saturated = Some(n_saturated.get()).filter(|n_saturated| *n_saturated > 0).map(|n_saturated| {
            let numbers = count(n_saturated, "number");
            format!("{numbers} of `{name}` became the largest of {} with the same sign", self.of)
        });
        numbers.warning().into_iter().chain(saturated).collect()
    }
}
