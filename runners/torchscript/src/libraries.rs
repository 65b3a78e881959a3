//! Loads the libraries that register operators of TorchScript beyond those of libtorch: files of the model, or of packages of Python.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Write;
use std::os::fd::IntoRawFd;
use std::path::{Component, Path, PathBuf};

use carton_runner_interface::runner::{ModelFiles, RunnerError};
use rustix::fs::{MemfdFlags, memfd_create};

use crate::libtorch::process;

/// The variables that name an environment of Python, which has packages in `lib/python3.*/site-packages`.
const ENVIRONMENTS: [&str; 2] = ["VIRTUAL_ENV", "CONDA_PREFIX"];
/// Where packages of the system are.
const SYSTEM: [&str; 2] = ["/usr/lib/python3/dist-packages", "/usr/local/lib/python3/dist-packages"];

/// Loads each library that `names` names: the path of a file of the model, a package of Python such as `torchvision`, or a file in one,
/// `torchaudio/lib/libtorchaudio.so`.
///
/// # Errors
/// There is no such file and no such package, or the linker of the system refuses it.
pub(crate) fn load(names: &[String], files: &ModelFiles) -> Result<(), RunnerError> {
    if names.is_empty() {
        return Ok(());
    }
    let paths = files.paths();
    let folders = package_folders();
    for name in names {
        let failed = |error: RunnerError| RunnerError {
            message: format!("the library `{name}` cannot be loaded: {}", error.message),
            ..error
        };
        if paths.contains(name) {
            load_file_of_model(name, files).map_err(failed)?;
            continue;
        }
        let library = find(name, &folders)?;
        process::load_library(&library).map_err(failed)?;
    }
    Ok(())
}

/// Loads a file of the model, from its folder or, where its bytes are in a carton, from a copy in memory that has a path.
fn load_file_of_model(name: &str, files: &ModelFiles) -> Result<(), RunnerError> {
    let failed = |error: std::io::Error| RunnerError::from_error(&error);
    if let Some(folder) = files.directory() {
        return process::load_library(&folder.join(name));
    }
    let bytes = files.map(name).map_err(failed)?;
    let memory = memfd_create("library", MemfdFlags::CLOEXEC).map_err(|error| failed(error.into()))?;
    let mut memory = File::from(memory);
    memory.write_all(bytes.bytes()).map_err(failed)?;
    // Never closed: the linker takes a further library of the same path for this one.
    process::load_library(Path::new(&format!("/proc/self/fd/{}", memory.into_raw_fd())))
}

/// The folders that may have packages of Python: those beside libtorch, of the active environment, and of the system.
fn package_folders() -> Vec<PathBuf> {
    let mut folders = Vec::new();
    // In a wheel of torch, libtorch is in `site-packages/torch/lib`.
    let beside = process::libtorch_path().and_then(|path| Some(path.parent()?.parent()?.to_owned()));
    folders.extend(
        beside.filter(|package| package.ends_with("torch")).and_then(|package| Some(package.parent()?.to_owned())),
    );
    for root in ENVIRONMENTS.iter().filter_map(std::env::var_os).map(|root| PathBuf::from(root).join("lib")) {
        let versions = std::fs::read_dir(root).into_iter().flatten().flatten();
        let versions = versions.filter(|entry| entry.file_name().as_encoded_bytes().starts_with(b"python3"));
        folders.extend(versions.map(|entry| entry.path().join("site-packages")));
    }
    let listed = std::env::var_os("PYTHONPATH").unwrap_or_default();
    folders.extend(std::env::split_paths(&listed).filter(|folder| folder.is_absolute()));
    folders.extend(SYSTEM.map(PathBuf::from));
    folders
}

/// Returns the library that a name means in the first folder that has the package.
fn find(name: &str, folders: &[PathBuf]) -> Result<PathBuf, RunnerError> {
    let relative = Path::new(name);
    let is_inside = relative.components().all(|component| matches!(component, Component::Normal(_)));
    let mut other = None;
    for path in folders.iter().map(|folder| folder.join(relative)).filter(|_| is_inside) {
        if path.is_file() {
            return Ok(path);
        }
        let libraries = libraries_in(&path);
        if let Some(library) = libraries.iter().find(|library| is_extension(library)) {
            return Ok(path.join(library));
        }
        if path.is_dir() && other.is_none() {
            other = Some((path, libraries));
        }
    }
    Err(match other {
        Some((path, libraries)) => {
            let list: Vec<String> =
                libraries.iter().map(|library| format!("\"{name}/{}\"", library.to_string_lossy())).collect();
            let hint = match list.as_slice() {
                [] => "name the file: libraries = [\"PACKAGE/FILE.so\"]".to_owned(),
                list => format!("name the file: libraries = [{}]", list.join(" or ")),
            };
            RunnerError::new(format!("the package `{name}` in {} has no library `_C`", path.display())).with_hint(hint)
        }
        None => RunnerError::unavailable(
            format!(
                "the library `{name}` of option `libraries` is neither a file of the model nor an installed package"
            ),
            format!(
                "put the file into the model's folder, or install the package for the torch that the runner uses; if the package is in a folder \
                 outside the system's, also pass --allow read=FOLDER; searched: {}",
                folders.iter().map(|folder| folder.display().to_string()).collect::<Vec<_>>().join(", ")
            ),
        ),
    })
}

/// The names of the shared libraries in a package, and in its folder `lib`.
fn libraries_in(package: &Path) -> Vec<OsString> {
    let names = |folder: PathBuf, prefix: &'static str| {
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        let names =
            entries.map(|entry| entry.file_name()).filter(|name| Path::new(name).extension() == Some(OsStr::new("so")));
        names.map(move |name| [OsStr::new(prefix), &name].into_iter().collect::<OsString>()).collect::<Vec<_>>()
    };
    let mut libraries = [names(package.to_owned(), ""), names(package.join("lib"), "lib/")].concat();
    libraries.sort();
    libraries
}

/// Whether a file is where packages have their operators: `_C.so`, `_C.cpython-311-x86_64-linux-gnu.so`.
fn is_extension(name: &OsStr) -> bool {
    let name = name.as_encoded_bytes();
    name == b"_C.so" || (name.starts_with(b"_C.") && name.ends_with(b".so"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]

    use super::*;

    #[test]
    fn where_libraries_are() {
        let folder = tempfile::tempdir().unwrap();
        let site = folder.path().join("site-packages");
        for file in
            ["vision/_C.cpython-311-x86_64-linux-gnu.so", "vision/image.so", "audio/lib/libaudio.so", "audio/x.py"]
        {
            let path = site.join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, b"").unwrap();
        }
        let folders = [folder.path().join("none"), site.clone()];
        let check = |name: &str, expected: Result<&str, &str>| {
            let found = find(name, &folders).map(|path| path.strip_prefix(&site).unwrap().display().to_string());
            let found = found.map_err(|error| format!("{}: {}", error.message, error.hint.unwrap_or_default()));
            match (found, expected) {
                (Ok(path), Ok(expected)) => assert_eq!(path, expected),
                (Err(message), Err(expected)) => assert!(message.contains(expected), "{message}"),
                (found, expected) => panic!("{name}: {found:?}, expected {expected:?}"),
            }
        };
        check("vision", Ok("vision/_C.cpython-311-x86_64-linux-gnu.so"));
        check("vision/image.so", Ok("vision/image.so"));
        check("audio", Err("has no library `_C`: name the file: libraries = [\"audio/lib/libaudio.so\"]"));
        check("audio/lib/libaudio.so", Ok("audio/lib/libaudio.so"));
        for none in ["text", "../site-packages/vision", "/etc/passwd"] {
            check(none, Err("neither a file of the model nor an installed package"));
        }
    }
}
