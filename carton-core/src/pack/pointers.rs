//! Finds files that are not the model's: pointers of Git LFS, which stand for files that were not fetched, and web pages that a server sent
//! in place of a model.

use std::path::{Path, PathBuf};

use carton_format::source::{FileSource, Source};
use carton_tensor::content::Content;

use super::error::PackError;
use crate::Error;

/// No pointer is larger, by the specification of Git LFS.
const LARGEST_POINTER: u64 = 1024;

/// Refuses a model that is a pointer or a web page instead of a file.
///
/// # Errors
/// It is one of these, or it cannot be read.
pub(super) fn check_file(path: &Path) -> Result<(), Error> {
    match content(path)? {
        Some(content @ (Content::GitLfsPointer | Content::Html)) => {
            Err(PackError::ModelContent { path: path.to_path_buf(), content }.into())
        }
        _ => Ok(()),
    }
}

/// Returns the pointers among the files of a model, by their paths in it.
pub(super) fn find(files: &[(String, PathBuf)]) -> Vec<PathBuf> {
    let is_pointer = |path: &Path| {
        let is_small = std::fs::metadata(path).is_ok_and(|metadata| metadata.len() <= LARGEST_POINTER);
        is_small && matches!(content(path), Ok(Some(Content::GitLfsPointer)))
    };
    files.iter().filter(|(_, path)| is_pointer(path)).map(|(name, _)| PathBuf::from(name)).collect()
}

/// Recognizes a file by its first bytes.
pub(super) fn content(path: &Path) -> Result<Option<Content>, Error> {
    let source = FileSource::open(path).map_err(Error::io("open", path))?;
    let mut start = vec![0; source.len().min(Content::START as u64) as usize];
    source.read_at(0, &mut start).map_err(Error::io("read", path))?;
    Ok(Content::of_start(&start))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::package::{Selection, walk};

    const POINTER: &str = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345678\n";

    #[test]
    fn pointers_are_found_wherever_they_are() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, content: &[u8]| {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, content).unwrap();
        };
        write("main.py", b"");
        write("weights/a.bin", POINTER.as_bytes());
        write("notes.txt", b"version https://git-lfs.github.com");
        write("long.txt", &[POINTER.as_bytes(), &[b' '; 1024]].concat());
        let of = |path: &Path| find(&walk(path, &Selection::default()).unwrap().model_files());
        assert_eq!(of(folder.path()), [Path::new("weights/a.bin")]);
        assert_eq!(of(&folder.path().join("main.py")), [] as [PathBuf; 0]);
    }

    #[test]
    fn a_model_that_is_not_there_is_called_that() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model.onnx");
        let check = |content: &[u8], expected: Option<&str>| {
            std::fs::write(&path, content).unwrap();
            let found = check_file(&path).err().map(|error| error.to_string());
            let expected = expected.map(|expected| format!("cannot pack `{}`: it is {expected}", path.display()));
            assert_eq!(found, expected);
        };
        check(POINTER.as_bytes(), Some("a Git LFS pointer"));
        check(b"<!doctype html>", Some("a web page (HTML)"));
        check(b"", None);
        check(b"\x08\x08\x12\x07pytorch", None);
        check(b"{}", None);
    }
}
