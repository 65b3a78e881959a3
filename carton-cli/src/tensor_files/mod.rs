//! Tensor files and the tensors of cartons, as `carton tensor` reads and writes them. The formats themselves are in `carton-tensor`.

mod error;
mod layout;
mod listing;
mod metadata;
mod opened;
mod sink;
mod source;
mod ztensor_output;

pub(crate) use error::{TensorFileError, shown_name};
pub(crate) use layout::TensorLayout;
pub(crate) use listing::Listed;
pub(crate) use metadata::{Metadata, object as metadata_object, to_json as attribute_to_json};
pub(crate) use sink::{OutputFormat, Piece, Planned, PlannedKind, Sink, is_in_numpy};
pub(crate) use source::{Source, SourceLocation, Value};
