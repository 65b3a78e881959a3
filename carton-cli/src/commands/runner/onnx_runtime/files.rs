//! Selects and copies the files of a wheel, or of the user's own installation: the library, the libraries that it loads itself, and the
//! licenses.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use carton_runner_onnx::onnx_runtime_library::file_name;

use super::LibraryError;

/// License files beside the library.
const LICENSES: [&str; 3] = ["LICENSE", "ThirdPartyNotices.txt", "Privacy.md"];

/// Moves the library and its licenses out of an unpacked wheel.
pub(super) fn take_from_wheel(wheel: &Path, new: &Path, version: &str) -> Result<(), LibraryError> {
    let package = wheel.join("onnxruntime");
    let capi = package.join("capi");
    let library = library_in(&capi).ok_or(LibraryError::NoLibrary { place: capi })?;
    let to = new.join(file_name(version));
    fs::rename(&library, &to).map_err(LibraryError::io("create", &to))?;
    for name in LICENSES {
        let to = new.join(name);
        match fs::rename(package.join(name), &to) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(LibraryError::io("create", &to)(error));
            }
            _ => {}
        }
    }
    Ok(())
}

/// Copies a library, the libraries of execution providers that it would load from its folder, and its licenses.
pub(super) fn copy_with_providers(library: &Path, new: &Path, version: &str) -> Result<(), LibraryError> {
    let copy = |from: &Path, name: &str| {
        let to = new.join(name);
        fs::copy(from, &to).map(drop).map_err(LibraryError::io("write", &to))
    };
    copy(library, &file_name(version))?;
    let Some(folder) = library.parent() else { return Ok(()) };
    let entries = folder.read_dir().map_err(LibraryError::io("read", folder))?;
    for entry in entries.flatten() {
        let Ok(name) = entry.file_name().into_string() else { continue };
        let is_provider = name.starts_with("libonnxruntime_providers_");
        if (is_provider || LICENSES.contains(&name.as_str())) && entry.path().is_file() {
            copy(&entry.path(), &name)?;
        }
    }
    Ok(())
}

/// Finds the library in a folder.
pub(super) fn library_in(folder: &Path) -> Option<PathBuf> {
    let mut entries = folder.read_dir().ok()?.flatten();
    let found = entries.find(|entry| {
        let name = entry.file_name();
        let is_file = entry.file_type().is_ok_and(|kind| kind.is_file());
        is_file && (name.as_encoded_bytes().starts_with(b"libonnxruntime."))
    });
    Some(found?.path())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let mut names: Vec<String> =
            folder.read_dir().unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn only_the_library_and_its_licenses_are_kept() {
        let root = tempfile::tempdir().unwrap();
        let (wheel, new) = (root.path().join("wheel"), root.path().join("new"));
        fs::create_dir(&new).unwrap();
        for file in [
            "onnxruntime/capi/libonnxruntime.so.1.32.0",
            "onnxruntime/capi/libonnxruntime_providers_shared.so",
            "onnxruntime/capi/onnxruntime_pybind11_state.so",
            "onnxruntime/LICENSE",
            "onnxruntime/ThirdPartyNotices.txt",
            "onnxruntime/__init__.py",
        ] {
            let path = wheel.join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, file).unwrap();
        }
        take_from_wheel(&wheel, &new, "1.32.0").unwrap();
        let library = file_name("1.32.0");
        assert_eq!(names(&new), ["LICENSE", "ThirdPartyNotices.txt", &library]);
        assert_eq!(library_in(&new).unwrap(), new.join(&library));
        let error = take_from_wheel(&wheel, &new, "1.32.0").unwrap_err();
        assert!(matches!(error, LibraryError::NoLibrary { .. }), "{error}");
    }

    #[test]
    fn execution_providers_come_along() {
        let root = tempfile::tempdir().unwrap();
        let new = root.path().join("new");
        fs::create_dir(&new).unwrap();
        for file in ["libonnxruntime.so", "libonnxruntime_providers_cuda.so", "LICENSE", "libother.so"] {
            fs::write(root.path().join(file), file).unwrap();
        }
        copy_with_providers(&root.path().join("libonnxruntime.so"), &new, "1.30.0").unwrap();
        assert_eq!(names(&new), ["LICENSE", &file_name("1.30.0"), "libonnxruntime_providers_cuda.so"]);
    }
}
