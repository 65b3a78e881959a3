//! Arbitrary bytes as the table of a dataset's tensors. Every row that is read can be found, and is the same after writing and reading
//! it again.

use std::path::{Component, Path};

use carton_dataset::index::{IndexLayout, read, write};

use crate::generate::file::MemoryFile;

/// The most rows that are written again.
const MAX_WRITTEN: usize = 1 << 12;

/// Checks these bytes. Returns whether they are accepted.
pub fn check(bytes: &[u8]) -> bool {
    let file = MemoryFile::new(bytes);
    let Ok(index) = read(&file.path()) else { return false };
    assert!(index.rows().is_sorted());
    for row in index.rows().iter().take(MAX_WRITTEN) {
        assert!(index.find(&row.tensor_key).contains(row));
        let path = Path::new(&*row.file_name);
        assert!(path.components().all(|part| matches!(part, Component::Normal(_))), "{path:?}");
    }
    let fits = |size: &u64| i32::try_from(*size).is_ok();
    if index.rows().len() > MAX_WRITTEN || !index.rows().iter().all(|row| row.shape.iter().all(fits)) {
        return true;
    }
    let folder = tempfile::tempdir().expect("there is room");
    let path = folder.path().join("index");
    for layout in [IndexLayout::File, IndexLayout::Folder] {
        write(&path, index.rows().iter().cloned(), layout).expect("it was read");
        assert_eq!(read(&path).expect("it was written"), index);
    }
    true
}
