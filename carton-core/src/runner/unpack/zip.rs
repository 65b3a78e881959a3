//! Unpacks a zip file, with the same reader as cartons: everything that is an error in a carton is an error here too.

use std::path::Path;
use std::sync::Arc;

use carton_format::archive::{Archive, EntryKind};
use carton_format::name;
use carton_format::source::FileSource;

use super::names::inside;
use super::{Tree, UnpackError};

pub(super) fn unpack(path: &Path, folder: &str, tree: &mut Tree<'_>) -> Result<(), UnpackError> {
    let source = FileSource::open(path).map_err(UnpackError::io("open", path))?;
    let archive = Archive::open(Arc::new(source)).map_err(UnpackError::Zip)?;
    let n_bytes = archive.entries().iter().fold(0_u64, |sum, entry| sum.saturating_add(entry.size()));
    if n_bytes > tree.n_bytes_left() {
        return Err(tree.too_large());
    }
    for entry in archive.entries() {
        let name = inside(folder, entry.name());
        match entry.kind() {
            EntryKind::Directory => tree.folder(&name)?,
            EntryKind::File => {
                let mut data = archive.reader(entry).map_err(UnpackError::Zip)?;
                tree.file(&name, entry.is_executable(), &mut data)?;
            }
            EntryKind::Symlink => {
                let target = archive.read(entry, name::MAX_LENGTH as u64).map_err(UnpackError::Zip)?;
                tree.link(&name, &target)?;
            }
        }
    }
    Ok(())
}
