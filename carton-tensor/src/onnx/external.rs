//! The files beside a model that have data of it.

use std::io;

use super::error::{OnnxError, quoted};
use crate::files::{Beside, FileBytes};
use crate::parallel::par_map;

/// The folder of a place, with the slash at its end.
pub(super) fn folder(place: &str) -> &str {
    place.rfind('/').map_or("", |end| place.get(..=end).unwrap_or_default())
}

/// Opens the files of external data.
pub(super) fn open_external(
    paths: &[String],
    place: &str,
    beside: Option<Beside<'_>>,
) -> Result<Vec<FileBytes>, OnnxError> {
    /// How many files are opened at a time: elsewhere than in a folder, each waits for an answer of its server.
    const OPENED_AT_ONCE: usize = 8;
    let Some(first) = paths.first() else { return Ok(Vec::new()) };
    let Some(beside) = beside else {
        let problem = format!("its data is in {}, and it is opened without the files beside it", quoted(first));
        return Err(OnnxError::Refused { place: place.to_owned(), problem });
    };
    par_map(
        paths.len(),
        OPENED_AT_ONCE,
        || (),
        |(), position| {
            let path = paths.get(position).map_or("", String::as_str);
            beside(path).map_err(|source| match source.kind() {
                io::ErrorKind::NotFound => {
                    OnnxError::Missing { place: place.to_owned(), file: path.escape_debug().to_string() }
                }
                io::ErrorKind::PermissionDenied if source.get_ref().is_some() => {
                    OnnxError::Refused { place: place.to_owned(), problem: source.to_string() }
                }
                _ => OnnxError::Io { place: format!("{}{path}", folder(place)), source },
            })
        },
    )
}
