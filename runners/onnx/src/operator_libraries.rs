//! Libraries of operators that a model uses beyond those of ONNX and ONNX Runtime (the option `libraries`): a file of the model, a Python
//! package that is installed, or a file in one. A package is searched for a library, and never imported.
//!
//! ```text
//! <runner_data_dir>/onnxruntime/packages/       where `pip install --target` puts packages for all programs
//! SITE-PACKAGES/                                the environment of the ONNX Runtime that `ORT_DYLIB_PATH` names
//!   onnxruntime/capi/libonnxruntime.so.1.32.0
//!   onnxruntime_extensions/_extensions_pydll.cpython-311-x86_64-linux-gnu.so
//! ```

use std::fs;
use std::io::ErrorKind;
use std::path::{Component, Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use carton_runner_interface::runner::{ModelFiles, RunnerError};

use crate::model_source::Files;

/// The name of the function that each such library has (onnxruntime_c_api.h, `RegisterCustomOpsLibrary_V2`).
const ENTRY: &[u8] = b"\0RegisterCustomOps\0";

/// The folder for packages in the install folder of ONNX Runtime.
const PACKAGES: &str = "packages";

/// The depth to which a package is searched, and the number of entries after which the search stops.
const MAX_DEPTH: usize = 4;
const MAX_ENTRIES: usize = 20_000;

/// A library that the model names, on disk for as long as this lives.
#[derive(Debug)]
pub(crate) struct OperatorLibrary {
    /// What the option says.
    pub(crate) name: String,
    pub(crate) path: PathBuf,
    /// Whether the file is a copy that is deleted when it has been loaded.
    is_copy: bool,
}

impl Drop for OperatorLibrary {
    fn drop(&mut self) {
        if self.is_copy {
            // A failure leaves a file in the scratch folder of the process.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Whether an option names a file, of the model or in a package, and not a package.
pub(crate) fn is_file(name: &str) -> bool {
    name.contains('/') || is_library(name)
}

/// Whether an option may name a file in a package: `PACKAGE/FILE`, without `..`.
pub(crate) fn is_in_package(name: &str) -> bool {
    name.contains('/') && is_inside(name)
}

/// Whether a name leads to what is below the folder that it is joined to.
fn is_inside(name: &str) -> bool {
    !name.is_empty() && Path::new(name).components().all(|component| matches!(component, Component::Normal(_)))
}

fn is_library(name: &str) -> bool {
    name.ends_with(".so") || name.ends_with(".dylib") || name.contains(".so.")
}

/// Finds a library by what the option `libraries` says. `runtime` is the library of ONNX Runtime, `installed` the folder where such libraries
/// are installed.
///
/// # Errors
/// The model has no such file, or no such package, or file of one, is installed (kind `Unavailable`) or readable.
pub(crate) fn find(
    name: &str,
    files: &dyn Files,
    runtime: &Path,
    installed: Option<&Path>,
) -> Result<OperatorLibrary, RunnerError> {
    if files.paths().iter().any(|path| path == name) {
        return of_model(name, files);
    }
    if !is_inside(name) || (is_file(name) && !is_in_package(name)) {
        return Err(RunnerError::new(format!(
            "option `libraries` names `{name}`, which is neither a file of the model nor a package"
        )));
    }
    of_package(name, runtime, installed)
}

/// The library at a path among the model's files. One that is not in a folder is copied into the scratch folder of this process.
fn of_model(name: &str, files: &dyn Files) -> Result<OperatorLibrary, RunnerError> {
    if let Some(directory) = files.directory() {
        return Ok(OperatorLibrary { name: name.to_owned(), path: directory.join(name), is_copy: false });
    }
    let failed = |error: std::io::Error| RunnerError::new(format!("copying the library `{name}`: {error}"));
    let bytes = files.map(name).map_err(failed)?;
    let file_name = name.rsplit('/').next().unwrap_or(name);
    // Files of several folders may have one name.
    static N_COPIES: AtomicUsize = AtomicUsize::new(0);
    let number = N_COPIES.fetch_add(1, Ordering::Relaxed);
    let path = std::env::temp_dir().join(format!("carton-{}-{number}-{file_name}", std::process::id()));
    // Made by this process alone: another file of this name is not written to.
    let mut file = fs::OpenOptions::new().write(true).create_new(true).open(&path).map_err(failed)?;
    let library = OperatorLibrary { name: name.to_owned(), path, is_copy: true };
    std::io::Write::write_all(&mut file, bytes.bytes()).map_err(failed)?;
    Ok(library)
}

/// The library of an installed Python package, or the one at a path in it.
fn of_package(name: &str, runtime: &Path, installed: Option<&Path>) -> Result<OperatorLibrary, RunnerError> {
    let (package, file) = name.split_once('/').map_or((name, None), |(package, file)| (package, Some(file)));
    let folder_name = package.replace('-', "_");
    let mut places: Vec<PathBuf> = installed.map(|folder| folder.join(PACKAGES)).into_iter().collect();
    // `onnxruntime/capi/libonnxruntime.so` in an environment.
    places.extend(runtime.ancestors().nth(3).map(Path::to_path_buf));
    for place in &places {
        let folder = place.join(&folder_name);
        match folder.read_dir() {
            Ok(_) => {
                let path = match file {
                    Some(file) => Some(folder.join(file)).filter(|path| has_entry(path)),
                    None => library_in(&folder),
                };
                let path = path.ok_or_else(|| {
                    let place = file.map_or_else(|| folder.clone(), |file| folder.join(file));
                    RunnerError::new(format!("{} has no library of operators for ONNX Runtime", place.display()))
                })?;
                return Ok(OperatorLibrary { name: name.to_owned(), path, is_copy: false });
            }
            Err(error) if error.kind() == ErrorKind::PermissionDenied => {
                return Err(RunnerError::new(format!(
                    "reading the package `{package}`: {}: {error}",
                    folder.display()
                ))
                .with_hint(format!("allow reading `{}`, if the model may run its code", folder.display())));
            }
            Err(_) => {}
        }
    }
    let looked = places.iter().map(|place| place.display().to_string()).collect::<Vec<_>>().join(" and ");
    let hint = match installed {
        Some(folder) => format!(
            "`pip install --no-deps --target {} {}` installs it for all programs",
            folder.join(PACKAGES).display(),
            package.replace('_', "-")
        ),
        None => "install the package in the Python environment whose ONNX Runtime ORT_DYLIB_PATH names".to_owned(),
    };
    Err(RunnerError::unavailable(
        format!("the package `{package}`, which has operators of the model, is not in {looked}"),
        hint,
    ))
}

/// The first library below `folder`, by its path, that has the entry for ONNX Runtime.
fn library_in(folder: &Path) -> Option<PathBuf> {
    let mut found = libraries_below(folder);
    found.sort();
    found.into_iter().find(|path| has_entry(path))
}

/// The libraries among the first [`MAX_ENTRIES`] entries below `folder`.
fn libraries_below(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![(folder.to_owned(), 0)];
    let mut n_entries = 0;
    while let Some((folder, depth)) = folders.pop() {
        let Ok(entries) = folder.read_dir() else { continue };
        for entry in entries.flatten() {
            n_entries += 1;
            if n_entries > MAX_ENTRIES {
                return found;
            }
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) && depth < MAX_DEPTH {
                folders.push((entry.path(), depth + 1));
            } else if is_library(&entry.file_name().to_string_lossy()) {
                found.push(entry.path());
            }
        }
    }
    found
}

/// Whether a library has the entry among the names of its symbols. It is not loaded for this, which would run code of it.
fn has_entry(path: &Path) -> bool {
    let (Some(folder), Some(name)) = (path.parent(), path.file_name().and_then(|name| name.to_str())) else {
        return false;
    };
    if !path.is_file() {
        return false;
    }
    let bytes = ModelFiles::from_directory(folder).map(name);
    bytes.is_ok_and(|bytes| memchr::memmem::find(bytes.bytes(), ENTRY).is_some())
}

/// Opens what a library needs and does not name. Extensions of Python leave the interpreter's symbols to the process that loads them, so the
/// library of that Python is loaded for one; no interpreter is started.
///
/// # Errors
/// The library cannot be loaded, for another reason or because Python's library is not there (kind `Unavailable`).
pub(crate) fn open(library: &OperatorLibrary) -> Result<(), RunnerError> {
    let failed = |error: &dyn std::fmt::Display| {
        RunnerError::new(format!("the library `{}` of operators cannot be loaded: {error}", library.name))
    };
    let error = match load(&library.path, false) {
        Ok(()) => return Ok(()),
        Err(error) => error,
    };
    let Some(version) = python_version(&library.path) else { return Err(failed(&error)) };
    let file_name = format!("libpython{version}.{}", if cfg!(target_os = "macos") { "dylib" } else { "so.1.0" });
    let is_there = python_libraries(&library.path, &file_name).iter().any(|path| load(path, true).is_ok());
    if !is_there {
        return Err(RunnerError::unavailable(
            failed(&error).message,
            format!(
                "it is an extension of Python {version}: install the package that has {file_name}, or name a library built without Python"
            ),
        ));
    }
    load(&library.path, false).map_err(|error| failed(&error))
}

/// The version of Python in the name of an extension: `3.11` of `x.cpython-311-x86_64-linux-gnu.so`.
fn python_version(path: &Path) -> Option<String> {
    let (_, tag) = path.file_name()?.to_str()?.split_once(".cpython-3")?;
    let minor: String = tag.chars().take_while(char::is_ascii_digit).collect();
    (!minor.is_empty()).then(|| format!("3.{minor}"))
}

/// The places of Python's library, for an extension in an environment: where the system has libraries, and where the environment's Python has.
fn python_libraries(extension: &Path, file_name: &str) -> Vec<PathBuf> {
    let mut places = vec![PathBuf::from(file_name)];
    for folder in extension.ancestors().skip(1).take(6) {
        places.push(folder.join("lib").join(file_name));
        // The folder of a virtual environment says where its Python is.
        let Ok(text) = fs::read_to_string(folder.join("pyvenv.cfg")) else { continue };
        let home = text.lines().filter_map(|line| line.split_once('=')).find(|(key, _)| key.trim() == "home");
        let prefix = home.and_then(|(_, home)| Some(Path::new(home.trim()).parent()?.join("lib").join(file_name)));
        places.extend(prefix);
    }
    places
}

/// Loads a library and keeps it; with `for_all`, for libraries that are loaded later too.
#[cfg(unix)]
fn load(path: &Path, for_all: bool) -> Result<(), libloading::Error> {
    use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_LOCAL, RTLD_NOW};

    let scope = if for_all { RTLD_GLOBAL } else { RTLD_LOCAL };
    // SAFETY: the library's code runs, which is what the option asks for: it is part of the model, or the user installed it.
    let library = unsafe { Library::open(Some(path), RTLD_NOW | scope) }?;
    // The runtime uses it for as long as the model is loaded, and a process has one model.
    std::mem::forget(library);
    Ok(())
}

#[cfg(not(unix))]
fn load(path: &Path, _: bool) -> Result<(), libloading::Error> {
    // SAFETY: as above.
    std::mem::forget(unsafe { libloading::Library::new(path) }?);
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::tests::TestFiles;

    #[test]
    fn places() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        let put = |path: &str, contents: &[u8]| {
            let path = root.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, contents).unwrap();
            path
        };
        let runtime = put("env/onnxruntime/capi/libonnxruntime.so.1.32.0", b"");
        let installed = root.join("data");
        let none = TestFiles::default();
        let path = |name: &str| find(name, &none, &runtime, Some(&installed)).map(|library| library.path.clone());
        let error = path("some_ops").unwrap_err();
        assert!(error.is_unavailable(), "{error:?}");
        assert!(error.hint.unwrap().contains("data/packages some-ops` installs it"));
        put("env/some_ops/plain.so", b"no entry");
        assert!(path("some_ops").unwrap_err().message.ends_with("has no library of operators for ONNX Runtime"));
        let ours = put("env/some_ops/lib/x.cpython-311-x86_64-linux-gnu.so", b"\x7fELF\0RegisterCustomOps\0");
        assert_eq!(path("some-ops").unwrap(), ours);
        assert_eq!(python_version(&ours).as_deref(), Some("3.11"));
        put("env/pyvenv.cfg", b"home = /opt/python/bin\nversion = 3.11.7\n");
        assert!(python_libraries(&ours, "l").contains(&PathBuf::from("/opt/python/lib/l")));
        let file = put("env/some_ops/other.so", b"\0RegisterCustomOps\0");
        assert_eq!(path("some-ops/other.so").unwrap(), file);
        let message = path("some_ops/plain.so").unwrap_err().message;
        assert!(message.ends_with("some_ops/plain.so has no library of operators for ONNX Runtime"), "{message}");
        assert!(path("more_ops/ops.so").unwrap_err().is_unavailable());
        for outside in ["..", ".", "", "some_ops/../some_ops", "/etc", "../env/some_ops/other.so", "other.so"] {
            let message = path(outside).unwrap_err().message;
            assert!(message.ends_with("is neither a file of the model nor a package"), "{outside}: {message}");
        }
        // Those for all programs come first.
        let first = put("data/packages/some_ops/ops.so", b"\0RegisterCustomOps\0");
        assert_eq!(path("some_ops").unwrap(), first);
    }

    #[test]
    fn files_of_the_model() {
        let contents = [("libs/ops.so".to_owned(), b"library".to_vec()), ("more/ops.so".to_owned(), b"more".to_vec())];
        let files = TestFiles { files: contents.into(), directory: None };
        let found = |name: &str, files: &TestFiles| find(name, files, Path::new("/x"), None);
        let copied = found("libs/ops.so", &files).unwrap();
        assert_eq!(fs::read(&copied.path).unwrap(), b"library");
        assert_eq!(fs::read(&found("more/ops.so", &files).unwrap().path).unwrap(), b"more");
        let path = copied.path.clone();
        drop(copied);
        assert!(!path.exists());
        let message = found("../ops.so", &files).unwrap_err().message;
        assert_eq!(message, "option `libraries` names `../ops.so`, which is neither a file of the model nor a package");
        let in_folder = TestFiles { directory: Some("/model".into()), ..files };
        assert_eq!(found("libs/ops.so", &in_folder).unwrap().path, Path::new("/model/libs/ops.so"));
    }
}
