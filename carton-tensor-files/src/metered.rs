//! Progress of the elements that are written.

use carton_tensor::files::{ElementType, RawTensor};

use crate::error::TensorFilesError;
use crate::numbers::{Advance, Numbers, VisitPiece};
use crate::sink::Piece;

struct Metered<'a> {
    of: Box<dyn Numbers + 'a>,
    advance: &'a Advance<'a>,
}

/// Reports the bytes of a tensor of numbers, or of blocks, to `advance` when they have been written.
pub(crate) fn metered<'a>(piece: Piece<'a>, advance: &'a Advance<'a>) -> Piece<'a> {
    match piece {
        Piece::Numbers(of) => Piece::Numbers(Box::new(Metered { of, advance })),
        Piece::Blocks(of) => Piece::Blocks(of.metered(advance)),
        other => other,
    }
}

impl Numbers for Metered<'_> {
    fn dtype(&self) -> ElementType {
        self.of.dtype()
    }

    fn shape(&self) -> &[usize] {
        self.of.shape()
    }

    fn visit(&self, visit: &mut VisitPiece<'_>) -> Result<(), TensorFilesError> {
        self.of.visit(&mut |piece| {
            visit(piece)?;
            (self.advance)(piece.len() as u64)
        })
    }

    fn warning(&self) -> Option<String> {
        self.of.warning()
    }

    fn whole(&self) -> Result<RawTensor, TensorFilesError> {
        self.of.whole()
    }
}
