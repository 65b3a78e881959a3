//! Finds libtorch on this machine: in a Python environment, in a folder, or among the system's libraries. Opens no library, and imports
//! nothing.

use std::collections::BTreeSet;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use carton_core::CancelToken;
use carton_core::runner::{FoundLibrary, PLATFORM};
use semver::Version;

use super::error::LibraryError;
use carton_core::program::{Ended, run};

/// The library's name in descriptors.
pub(super) const NAME: &str = "libtorch";
/// The part of libtorch that every release has.
const FILE: &str = "libtorch_cpu.so";
/// The variables that name an active Python environment.
const ENVIRONMENTS: [&str; 2] = ["VIRTUAL_ENV", "CONDA_PREFIX"];
/// The timeout for programs that are asked.
const PATIENCE: Duration = Duration::from_secs(60);
/// The largest number of files that are looked at in one folder.
const MAX_FILES: usize = 4096;

/// The question for an interpreter. The current folder is not searched for packages.
const QUESTION: &str = r#"
import sys
sys.path = [path for path in sys.path if path]
import importlib.util, json
spec = importlib.util.find_spec("torch")
folders = list(spec.submodule_search_locations or []) if spec else []
print("\n" + json.dumps(folders[0] if folders else None))
"#;

/// Returns the active Python environments, each with the variable that names it.
pub(super) fn active_environments() -> Vec<(&'static str, PathBuf)> {
    let named = ENVIRONMENTS.iter().filter_map(|name| Some((*name, PathBuf::from(env::var_os(name)?))));
    named.filter(|(_, path)| path.is_absolute() && path.is_dir()).collect()
}

/// Finds libtorch at a path: an interpreter, a Python environment, the package `torch`, or a folder with libtorch.
pub(super) fn at(path: &Path, cancel_token: &CancelToken) -> Result<FoundLibrary, LibraryError> {
    let path = std::path::absolute(path).map_err(LibraryError::io("locate", path))?;
    if path.is_file() {
        return of_interpreter(&path, cancel_token);
    }
    let mut interpreters = ["python3", "python"].iter().map(|name| path.join("bin").join(name));
    if let Some(interpreter) = interpreters.find(|interpreter| interpreter.is_file()) {
        return of_interpreter(&interpreter, cancel_token);
    }
    for package in [path.clone(), path.join("torch")] {
        if package.join("version.py").is_file() && package.join("lib").is_dir() {
            return of_package(&package);
        }
    }
    for folder in [path.join("lib"), path.clone()] {
        if has_libtorch(&folder) {
            return of_folder(&folder, cancel_token);
        }
    }
    Err(LibraryError::NotThere { path })
}

/// Finds the libtorch of the system's packages.
pub(super) fn of_system(cancel_token: &CancelToken) -> Option<FoundLibrary> {
    let architecture = PLATFORM.split('-').next().unwrap_or_default();
    let folders = [format!("/usr/lib/{architecture}-linux-gnu"), "/usr/lib64".to_owned(), "/usr/lib".to_owned()];
    let folder = folders.iter().map(PathBuf::from).find(|folder| has_libtorch(folder))?;
    of_folder(&folder, cancel_token).ok()
}

fn of_interpreter(interpreter: &Path, cancel_token: &CancelToken) -> Result<FoundLibrary, LibraryError> {
    let failed = |reason: String| LibraryError::Interpreter { interpreter: interpreter.to_path_buf(), reason };
    let mut command = Command::new(interpreter);
    command.args(["-c", QUESTION]).env("PYTHONDONTWRITEBYTECODE", "1");
    let said = match run(&mut command, Some(PATIENCE), cancel_token).map_err(|error| failed(error.to_string()))? {
        Ended::Exited { status, stdout, .. } if status.success() => stdout,
        Ended::Exited { status, stderr, .. } => {
            return Err(failed(format!("{status}: {}", stderr.lines().last().unwrap_or_default())));
        }
        Ended::TimedOut => return Err(failed(format!("it did not answer within {} seconds", PATIENCE.as_secs()))),
        Ended::Interrupted => return Err(LibraryError::Interrupted),
    };
    let last = said.lines().next_back().unwrap_or_default();
    let package: Option<PathBuf> =
        serde_json::from_str(last).map_err(|_| failed("it does not behave like a Python interpreter".to_owned()))?;
    let package = package.ok_or_else(|| LibraryError::NoPackage { interpreter: interpreter.to_path_buf() })?;
    of_package(&package)
}

/// Describes the libtorch of the Python package `torch` in the folder `package`.
fn of_package(package: &Path) -> Result<FoundLibrary, LibraryError> {
    let path = package.join("version.py");
    let text = fs::read_to_string(&path).map_err(LibraryError::io("read", &path))?;
    let line = text.lines().find_map(|line| line.strip_prefix("__version__")?.trim_start().strip_prefix('='));
    let version = line.unwrap_or_default().trim().trim_matches(['\'', '"']);
    let version = parse(version).ok_or_else(|| LibraryError::Version { path, found: version.to_owned() })?;
    let folder = package.join("lib");
    let mut folders = vec![folder.clone()];
    if let Some(packages) = package.parent() {
        folders.extend(libraries_of_wheels(packages));
        // The libraries of a conda environment are in its own `lib`.
        let environment = packages.ancestors().nth(3).filter(|path| path.join("conda-meta").is_dir());
        folders.extend(environment.map(|path| path.join("lib")));
    }
    found(version, &folder, &folders)
}

/// Returns the folders `nvidia/*/lib` beside the package `torch`, which has CUDA in wheels of their own.
fn libraries_of_wheels(packages: &Path) -> Vec<PathBuf> {
    let entries = packages.join("nvidia").read_dir().into_iter().flatten().flatten();
    entries.take(MAX_FILES).map(|entry| entry.path().join("lib")).filter(|path| path.is_dir()).collect()
}

/// Describes the libtorch in a folder of libraries, whose version is in a file beside it, or is that of a package of the system.
fn of_folder(folder: &Path, cancel_token: &CancelToken) -> Result<FoundLibrary, LibraryError> {
    let beside = folder.parent().unwrap_or(folder).join("build-version");
    if let Ok(text) = fs::read_to_string(&beside) {
        let version = parse(text.trim())
            .ok_or_else(|| LibraryError::Version { path: beside, found: text.trim().chars().take(80).collect() })?;
        return found(version, folder, &[folder.to_path_buf()]);
    }
    let said = of_dpkg(folder, cancel_token).unwrap_or_default();
    let upstream = said.rsplit(':').next().unwrap_or_default().split(['+', '~', '-']).next().unwrap_or_default();
    let version = parse(upstream).ok_or(LibraryError::Version { path: folder.join(FILE), found: said })?;
    // All processes read the system's libraries.
    Ok(FoundLibrary { version, folder: folder.to_path_buf(), read: Vec::new() })
}

/// Returns the version of the Debian package that has libtorch in `folder`.
fn of_dpkg(folder: &Path, cancel_token: &CancelToken) -> Option<String> {
    let ask = |arguments: &[&str]| match run(Command::new("dpkg-query").args(arguments), Some(PATIENCE), cancel_token) {
        Ok(Ended::Exited { status, stdout, .. }) if status.success() => Some(stdout),
        _ => None,
    };
    let file = files_of(folder).find(|path| is_libtorch(path))?;
    let owner = ask(&["-S", file.to_str()?])?;
    let (package, _) = owner.lines().next()?.rsplit_once(": ")?;
    ask(&["-W", "-f", "${Version}", package])
}

fn found(version: Version, folder: &Path, folders: &[PathBuf]) -> Result<FoundLibrary, LibraryError> {
    let folder = fs::canonicalize(folder).map_err(LibraryError::io("open", folder))?;
    // Files may be links into the cache of an installer.
    let mut read = BTreeSet::from([folder.clone()]);
    for searched in folders {
        read.extend(fs::canonicalize(searched).ok());
        let real = files_of(searched).filter(|path| path.is_symlink()).filter_map(|path| fs::canonicalize(path).ok());
        read.extend(real.filter_map(|path| Some(path.parent()?.to_path_buf())));
    }
    Ok(FoundLibrary { version, folder, read: read.into_iter().collect() })
}

fn has_libtorch(folder: &Path) -> bool {
    files_of(folder).any(|path| is_libtorch(&path))
}

fn is_libtorch(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    name.strip_prefix(FILE).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// Returns the shared libraries in a folder.
fn files_of(folder: &Path) -> impl Iterator<Item = PathBuf> {
    let entries = folder.read_dir().into_iter().flatten().flatten().take(MAX_FILES);
    entries.filter(|entry| entry.file_name().to_string_lossy().contains(".so")).map(|entry| entry.path())
}

/// Parses a version of libtorch: `2.15.0`, `2.15.0+cu130`, `2.16.0a0+git1234`.
fn parse(text: &str) -> Option<Version> {
    let release = text.split('+').next().unwrap_or_default();
    let end = release.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(release.len());
    let (numbers, rest) = release.split_at(end);
    match rest.trim_start_matches(['.', '-']) {
        "" => Version::parse(numbers).ok(),
        pre => Version::parse(&format!("{}-{pre}", numbers.trim_end_matches('.'))).ok(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn versions() {
        let check = |text: &str, expected: Option<&str>| {
            assert_eq!(parse(text).map(|version| version.to_string()).as_deref(), expected, "{text}");
        };
        check("2.15.0", Some("2.15.0"));
        check("2.15.0+cu130", Some("2.15.0"));
        check("2.16.0a0+git12", Some("2.16.0-a0"));
        check("2.16.0.dev20261125+cpu", Some("2.16.0-dev20261125"));
        for none in ["", "2.15", "x", "2.15.0.1"] {
            check(none, None);
        }
    }

    /// Writes a package `torch` of CUDA's wheels below `site-packages`.
    fn package(site_packages: &Path, version: &str) {
        for file in ["torch/lib/libtorch_cpu.so", "torch/lib/libc10.so", "nvidia/cu13/lib/libcudart.so.13"] {
            fs::create_dir_all(site_packages.join(file).parent().unwrap()).unwrap();
            fs::write(site_packages.join(file), "").unwrap();
        }
        fs::write(site_packages.join("torch/version.py"), format!("from x import y\n__version__ = '{version}'\n"))
            .unwrap();
    }

    #[test]
    fn a_package_is_found_in_each_way() {
        let root = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(root.path()).unwrap();
        let site_packages = root.join("venv/lib/python3.11/site-packages");
        package(&site_packages, "2.15.0+cu130");
        let python = root.join("venv/bin/python");
        fs::create_dir_all(python.parent().unwrap()).unwrap();
        let answer = format!("#!/bin/sh\necho noise\necho '\"{}\"'\n", site_packages.join("torch").display());
        fs::write(&python, answer).unwrap();
        fs::set_permissions(&python, fs::Permissions::from_mode(0o755)).unwrap();
        for path in
            ["venv", "venv/bin/python", "venv/lib/python3.11/site-packages", "venv/lib/python3.11/site-packages/torch"]
        {
            let found = at(&root.join(path), &CancelToken::default()).unwrap();
            assert_eq!(found.version, Version::new(2, 15, 0), "{path}");
            assert_eq!(found.folder, site_packages.join("torch/lib"), "{path}");
            assert_eq!(found.read, [site_packages.join("nvidia/cu13/lib"), site_packages.join("torch/lib")], "{path}");
        }
        let empty = root.join("venv/lib");
        assert!(matches!(at(&empty, &CancelToken::default()), Err(LibraryError::NotThere { .. })));
        fs::write(&python, "#!/bin/sh\necho null\n").unwrap();
        assert!(matches!(at(&python, &CancelToken::default()), Err(LibraryError::NoPackage { .. })));
        fs::write(&python, "#!/bin/sh\necho Python 2\n").unwrap();
        assert!(matches!(at(&python, &CancelToken::default()), Err(LibraryError::Interpreter { .. })));
    }

    #[test]
    fn a_folder_is_found_with_its_version_beside_it() {
        let root = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(root.path()).unwrap();
        let (folder, cache) = (root.join("libtorch/lib"), root.join("cache"));
        fs::create_dir_all(&folder).unwrap();
        fs::create_dir_all(&cache).unwrap();
        fs::write(cache.join("real"), "").unwrap();
        symlink(cache.join("real"), folder.join("libtorch_cpu.so")).unwrap();
        fs::write(root.join("libtorch/build-version"), "2.14.1+cpu\n").unwrap();
        for path in [root.join("libtorch"), folder.clone()] {
            let found = at(&path, &CancelToken::default()).unwrap();
            assert_eq!((found.version, &found.folder), (Version::new(2, 14, 1), &folder));
            assert_eq!(found.read, [cache.clone(), folder.clone()]);
        }
        fs::write(root.join("libtorch/build-version"), "soon").unwrap();
        assert!(matches!(at(&folder, &CancelToken::default()), Err(LibraryError::Version { .. })));
    }
}
