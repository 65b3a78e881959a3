//! Arbitrary bytes as the archive of a runner: zip, tar or tar.gz. Unpacking creates only files, folders and links inside the
//! destination, within limits, and no link leads out of it.

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::{fs, io};

use carton_core::internals::runner::fuzzing::unpack;

use crate::generate::file::MemoryFile;

/// The limits on the content of an archive.
const MAX_BYTES: u64 = 1 << 20;
const MAX_ENTRIES: u64 = 64;

/// Checks these bytes. Returns whether they are accepted.
pub fn check(bytes: &[u8]) -> bool {
    let memory = Path::new("/dev/shm");
    let folder = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
    let folder = folder.expect("there is room");
    let root = folder.path().join("runner");
    fs::create_dir(&root).expect("it is new");
    let archive = MemoryFile::new(bytes);
    let unpacked = unpack(&archive.path(), root.clone(), MAX_ENTRIES, MAX_BYTES);
    let mut beside = fs::read_dir(folder.path()).expect("it is there");
    assert!(beside.next().is_some() && beside.next().is_none(), "something was written outside");
    let mut found = UnpackedSize::default();
    look(&root, &root, unpacked.is_ok(), &mut found).expect("it was written");
    assert!(found.n_entries <= MAX_ENTRIES && found.n_bytes <= MAX_BYTES, "{found:?}");
    unpacked.is_ok()
}

#[derive(Debug, Default)]
struct UnpackedSize {
    n_entries: u64,
    n_bytes: u64,
}

fn look(folder: &Path, root: &Path, is_complete: bool, found: &mut UnpackedSize) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let metadata = fs::symlink_metadata(&path)?;
        found.n_entries += 1;
        if metadata.is_dir() {
            look(&path, root, is_complete, found)?;
        } else if metadata.is_symlink() {
            // Links are created last, after checking that none of them leads out of the folder.
            assert!(is_complete);
            // A dangling link leads nowhere.
            if let Ok(target) = fs::canonicalize(&path) {
                assert!(target.starts_with(fs::canonicalize(root)?), "{path:?} leads to {target:?}");
            }
        } else {
            assert!(metadata.is_file());
            assert!([0o644, 0o755].contains(&(metadata.mode() & 0o7777)) || !is_complete, "{:o}", metadata.mode());
            // Hard-linked files are not counted, because several names share their bytes.
            if metadata.nlink() == 1 {
                found.n_bytes += metadata.len();
            }
        }
    }
    Ok(())
}
