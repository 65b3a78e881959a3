//! Tensor files and the tensors of cartons, as `carton tensor` reads and writes them.

mod error;
mod listing;
mod pattern;
mod sink;
mod source;

pub(crate) use error::TensorFileError;
pub(crate) use listing::Listed;
pub(crate) use pattern::matches_any;
pub(crate) use sink::{Kind, ObjectCopy, OutputFormat, Piece, Planned, Sink};
pub(crate) use source::{Opened, Place, Source, Value};
