//! Why the tensors of two cartons cannot be read to be compared.

use std::error::Error as StdError;
use std::io;

use carton_format::context::Cancelled;
use carton_format::error_kind::ErrorKind;
use carton_tensor::any_file::TensorFileError;

use crate::error::{Error, Failure};

/// A tensor file of a carton cannot be read, or the work was cancelled.
#[derive(Debug, thiserror::Error)]
pub(super) enum DiffError {
    #[error("cannot compare the tensors of `{path}` in `{location}`")]
    Tensors { location: String, path: String, source: Box<TensorFileError> },
    #[error("the comparison was cancelled")]
    Cancelled(#[source] Cancelled),
}

/// What ends the comparison of two tensors, before it is known of which file.
pub(super) enum Ended {
    File(TensorFileError),
    Cancelled(Cancelled),
}

impl From<TensorFileError> for Ended {
    fn from(error: TensorFileError) -> Self {
        Self::File(error)
    }
}

impl From<Cancelled> for Ended {
    fn from(cancelled: Cancelled) -> Self {
        Self::Cancelled(cancelled)
    }
}

fn causes<'a>(error: &'a (dyn StdError + 'static)) -> impl Iterator<Item = &'a (dyn StdError + 'static)> {
    std::iter::successors(Some(error), |error| (*error).source())
}

/// Whether reading failed: the bytes of the carton could not be had. Otherwise the file is no valid tensor file, and the carton as it should be.
pub(super) fn is_of_reading(error: &TensorFileError) -> bool {
    // A file that ends early is one of these too, if its own bytes say that they are more.
    causes(error).filter_map(|error| error.downcast_ref::<io::Error>()).any(|error| {
        error.get_ref().is_some_and(|inner| inner.is::<Error>())
            || !matches!(error.kind(), io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof)
    })
}

/// The messages of an error and its causes, in one line.
pub(super) fn in_one_line(error: &(dyn StdError + 'static)) -> String {
    let mut texts: Vec<String> = causes(error).map(ToString::to_string).collect();
    texts.dedup();
    texts.join(": ")
}

impl Failure for DiffError {
    fn kind(&self) -> ErrorKind {
        match self {
            Self::Cancelled(_) => ErrorKind::Interrupted,
            Self::Tensors { .. } => self.within().map_or(ErrorKind::Machine, Error::kind),
        }
    }

    fn within(&self) -> Option<&Error> {
        let Self::Tensors { source, .. } = self else { return None };
        causes(&**source)
            .filter_map(|error| error.downcast_ref::<io::Error>())
            .find_map(|error| error.get_ref()?.downcast_ref::<Error>())
    }
}
