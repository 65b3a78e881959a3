//! Access for the fuzz targets to the parsers of this module. Other code unpacks archives only as a part of installing a runner.
//! Only `cargo fuzz` sets `cfg(fuzzing)`, so this is not part of the API.

use std::path::{Path, PathBuf};

use carton_format::context::CancelToken;

use super::unpack::{Tree, UnpackLimits, unpack as unpack_into};
use crate::Error;

/// Unpacks an archive into `folder`, which must exist and be empty, under limits that keep a fuzz target fast.
///
/// # Errors
/// Those of installing a runner.
pub fn unpack(archive: &Path, folder: PathBuf, n_entries: u64, n_bytes: u64) -> Result<(), Error> {
    let limits = UnpackLimits { n_entries, n_bytes, ..UnpackLimits::default() };
    let cancel_token = CancelToken::default();
    let mut tree = Tree::new(folder, limits, &cancel_token);
    unpack_into(archive, "", &mut tree)?;
    Ok(tree.finish()?)
}
