//! The model files that a runner gets: a folder, or ranges of files that it maps in place.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::path::{Component, Path, PathBuf};
use std::ptr::{NonNull, null_mut};
use std::sync::Arc;

use carton_tensor::Storage;
use rustix::mm::{MapFlags, ProtFlags};

/// Mappings start at multiples of this, which is a multiple of every page size in use.
const PAGE_MULTIPLE: u64 = 64 << 10;

/// The files of a model: a folder, or ranges of files to be mapped in place.
pub struct ModelFiles(Kind);

enum Kind {
    Directory(PathBuf),
    Ranges(BTreeMap<String, Range>),
}

pub(super) struct Range {
    pub(super) file: Arc<File>,
    pub(super) offset: u64,
    pub(super) length: u64,
}

impl ModelFiles {
    /// The files below a folder.
    pub fn from_directory(path: impl Into<PathBuf>) -> Self {
        Self(Kind::Directory(path.into()))
    }

    pub(super) fn from_ranges(ranges: BTreeMap<String, Range>) -> Self {
        Self(Kind::Ranges(ranges))
    }

    /// The paths of the files, relative to `model/`, separated by `/`, in order. Leaves out files that cannot be listed and names that are
    /// not UTF-8.
    #[must_use]
    pub fn paths(&self) -> Vec<String> {
        match &self.0 {
            Kind::Ranges(ranges) => ranges.keys().cloned().collect(),
            Kind::Directory(root) => {
                let mut paths = Vec::new();
                let mut folders = vec![(root.clone(), String::new())];
                while let Some((folder, prefix)) = folders.pop() {
                    let Ok(entries) = std::fs::read_dir(folder) else { continue };
                    for entry in entries.flatten() {
                        let Ok(name) = entry.file_name().into_string() else { continue };
                        let path = format!("{prefix}{name}");
                        // A link to a folder is not followed: it may lead in a circle.
                        match entry.file_type() {
                            Ok(kind) if kind.is_dir() => folders.push((entry.path(), format!("{path}/"))),
                            Ok(_) if entry.path().is_file() => paths.push(path),
                            _ => {}
                        }
                    }
                }
                paths.sort();
                paths
            }
        }
    }

    /// The folder that holds the files (`files = "directory"`); `None` with `files = "ranges"`.
    #[must_use]
    pub fn directory(&self) -> Option<&Path> {
        match &self.0 {
            Kind::Directory(path) => Some(path),
            Kind::Ranges(_) => None,
        }
    }

    /// The bytes of a file, mapped read-only. Empty files map to an empty slice.
    ///
    /// # Errors
    /// A file that does not exist, or IO.
    pub fn map(&self, path: &str) -> io::Result<Arc<dyn Storage>> {
        let not_found = || io::Error::new(io::ErrorKind::NotFound, format!("the model has no file `{path}`"));
        match &self.0 {
            Kind::Directory(root) => {
                let relative = Path::new(path);
                if relative.components().any(|component| !matches!(component, Component::Normal(_))) {
                    return Err(not_found());
                }
                let file = File::open(root.join(relative))?;
                let length = file.metadata()?.len();
                MappedFile::map(&file, 0, length)
            }
            Kind::Ranges(ranges) => {
                let Range { file, offset, length } = ranges.get(path).ok_or_else(not_found)?;
                MappedFile::map(file, *offset, *length)
            }
        }
    }
}

/// A range of a file, mapped for reading. A carton is not written to once it exists. If one is truncated while it is mapped, the
/// runner process ends, and the host goes on.
struct MappedFile {
    base: NonNull<u8>,
    mapped: usize,
    start: usize,
    length: usize,
}

// SAFETY: the mapping is read-only memory that belongs to no thread.
unsafe impl Send for MappedFile {}
// SAFETY: as above.
unsafe impl Sync for MappedFile {}

impl MappedFile {
    fn map(file: &File, offset: u64, length: u64) -> io::Result<Arc<dyn Storage>> {
        let end = offset.checked_add(length).ok_or(io::ErrorKind::InvalidInput)?;
        let actual = file.metadata()?.len();
        if end > actual {
            let problem = format!("bytes {offset} to {end} of a file that has {actual}");
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, problem));
        }
        if length == 0 {
            return Ok(Arc::new(Vec::<u8>::new()));
        }
        let page = offset - offset % PAGE_MULTIPLE;
        let to_size = |bytes: u64| usize::try_from(bytes).map_err(io::Error::other);
        let (mapped, start, length) = (to_size(end - page)?, to_size(offset - page)?, to_size(length)?);
        // SAFETY: a new mapping at an address the kernel chooses aliases nothing of ours.
        let base = unsafe { rustix::mm::mmap(null_mut(), mapped, ProtFlags::READ, MapFlags::SHARED, file, page) }?;
        let base = NonNull::new(base.cast()).ok_or(io::ErrorKind::InvalidData)?;
        Ok(Arc::new(Self { base, mapped, start, length }))
    }
}

impl Storage for MappedFile {
    fn bytes(&self) -> &[u8] {
        // SAFETY: `start + length` is the length of the mapping, which lives as long as `self`. Nothing in this process writes
        // to it, and the host promises that no other process does: the files of a model are not written to once they exist.
        unsafe { std::slice::from_raw_parts(self.base.add(self.start).as_ptr(), self.length) }
    }
}

impl Drop for MappedFile {
    fn drop(&mut self) {
        // SAFETY: the mapping was made by `map` with this length; slices of it borrow from `self`.
        let _ = unsafe { rustix::mm::munmap(self.base.as_ptr().cast(), self.mapped) };
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn ranges_are_mapped_wherever_they_start() {
        let folder = tempfile::tempdir().unwrap();
        let bytes: Vec<u8> = (0..200_000_u32).map(|index| index as u8 ^ (index >> 8) as u8).collect();
        std::fs::write(folder.path().join("carton"), &bytes).unwrap();
        let file = Arc::new(File::open(folder.path().join("carton")).unwrap());
        for (offset, length) in [(0, 200_000), (1, 10), (65_536, 1), (70_000, 100_000), (4095, 2), (200_000, 0)] {
            let range = Range { file: Arc::clone(&file), offset, length };
            let files = ModelFiles::from_ranges(BTreeMap::from([("a".to_owned(), range)]));
            let mapped = files.map("a").unwrap();
            assert!(mapped.bytes() == &bytes[offset as usize..(offset + length) as usize], "{offset} {length}");
        }
        for (offset, length) in [(200_000, 1), (0, 200_001), (u64::MAX, 2)] {
            let range = Range { file: Arc::clone(&file), offset, length };
            assert!(ModelFiles::from_ranges(BTreeMap::from([("a".to_owned(), range)])).map("a").is_err());
        }
    }

    #[test]
    fn folders_are_listed_and_mapped() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(folder.path().join("sub/deep")).unwrap();
        std::fs::write(folder.path().join("b"), b"bee").unwrap();
        std::fs::write(folder.path().join("sub/deep/a"), b"").unwrap();
        let files = ModelFiles::from_directory(folder.path());
        assert_eq!(files.paths(), ["b", "sub/deep/a"]);
        assert_eq!(files.map("b").unwrap().bytes(), b"bee");
        assert_eq!(files.map("sub/deep/a").unwrap().bytes(), b"");
        for path in ["c", "../b", "/etc/passwd", "sub"] {
            assert!(files.map(path).is_err() || path == "sub", "{path}");
        }
    }
}
