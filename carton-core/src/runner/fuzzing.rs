//! What the fuzz targets need of this module's parsers. Callers unpack archives only by installing a runner, which also starts it.
//! `cargo fuzz` alone sets `cfg(fuzzing)`, so that this is no part of the API.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use super::UnpackError;
use super::unpack::{Limits, Tree, unpack as unpack_into};

/// Unpacks an archive into `folder`, which is there and empty, under limits that keep a fuzz target fast.
///
/// # Errors
/// As installing a runner.
pub fn unpack(archive: &Path, folder: PathBuf, n_entries: u64, n_bytes: u64) -> Result<(), UnpackError> {
    let limits = Limits { n_entries, n_bytes, ..Limits::default() };
    let mut tree = Tree::new(folder, limits, &|| ControlFlow::Continue(()));
    unpack_into(archive, "", &mut tree)?;
    tree.finish()
}
