//! Finds the shared library of ONNX Runtime, and its version: at `ORT_DYLIB_PATH` if that is set, otherwise in our own install
//! folder.

use std::collections::BTreeMap;
use std::env;
use std::ffi::OsString;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

/// The depth to which the install folder is searched: a version, then the folders of a wheel.
const MAX_DEPTH: usize = 6;
/// The number of entries after which the search stops.
const MAX_ENTRIES: usize = 20_000;

/// The largest file that is searched for the version of its symbols; the library of 1.31 has 29 MB.
const MAX_LIBRARY_BYTES: u64 = 1 << 30;

/// The places where the library may be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SearchPath {
    /// The user's own choice (`ORT_DYLIB_PATH`).
    pub(crate) chosen: Option<PathBuf>,
    /// Our install folder, `<runner_data_dir>/onnxruntime`.
    pub(crate) installed: Option<PathBuf>,
    /// The version that the host has chosen this runner for (`CARTON_FRAMEWORK_VERSION`). Of several that are installed, this one is used.
    pub(crate) wanted: Option<String>,
}

/// The result of a search for the library.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum LibrarySearch {
    /// The path of the library.
    Library(PathBuf),
    /// The user chose a path where no file is.
    ChosenIsMissing(PathBuf),
    /// The user chose none, and none is installed.
    Nothing,
}

impl SearchPath {
    /// Reads the places from the environment of this process.
    pub(crate) fn of_environment() -> Self {
        let wanted = env::var("CARTON_FRAMEWORK_VERSION").ok();
        let places =
            Self::new(env::var_os("ORT_DYLIB_PATH"), env::var_os("CARTON_RUNNER_DATA_DIR"), env::var_os("HOME"));
        Self { wanted, ..places }
    }

    /// The places for runners with this data folder, as this process would start them.
    pub(crate) fn of_data_folder(runner_data_dir: &Path) -> Self {
        Self::new(env::var_os("ORT_DYLIB_PATH"), Some(runner_data_dir.into()), None)
    }

    fn new(chosen: Option<OsString>, runner_data_dir: Option<OsString>, home: Option<OsString>) -> Self {
        let set = |value: Option<OsString>| value.filter(|value| !value.is_empty()).map(PathBuf::from);
        let runner_data_dir = set(runner_data_dir).or_else(|| Some(set(home)?.join(".carton/runner_data")));
        let installed = runner_data_dir.map(|folder| folder.join("onnxruntime"));
        Self { chosen: set(chosen), installed, wanted: None }
    }

    /// Looks for the library.
    pub(crate) fn find(&self) -> LibrarySearch {
        if let Some(chosen) = &self.chosen {
            // The bindings resolve a relative path from the program's own folder, users mean the current one.
            return match chosen.canonicalize() {
                Ok(path) if path.is_file() => LibrarySearch::Library(path),
                _ => LibrarySearch::ChosenIsMissing(chosen.clone()),
            };
        }
        let Some(installed) = self.installed.as_deref() else { return LibrarySearch::Nothing };
        let wanted = self.wanted.as_ref().and_then(|version| newest_library(&installed.join(version)));
        wanted.or_else(|| newest_library(installed)).map_or(LibrarySearch::Nothing, LibrarySearch::Library)
    }

    /// Lists the places for a message.
    pub(crate) fn places(&self) -> String {
        let chosen = match &self.chosen {
            Some(path) => format!("ORT_DYLIB_PATH ({})", path.display()),
            None => "ORT_DYLIB_PATH (not set)".to_owned(),
        };
        match &self.installed {
            Some(folder) => format!("{chosen} and {}", folder.display()),
            None => chosen,
        }
    }
}

/// Returns the library with the highest version below `folder`.
pub(crate) fn newest_library(folder: &Path) -> Option<PathBuf> {
    let mut found: Vec<(Vec<u64>, PathBuf)> = Vec::new();
    let mut folders = vec![(folder.to_owned(), 0)];
    let mut n_entries = 0;
    while let Some((folder, depth)) = folders.pop() {
        let Ok(entries) = folder.read_dir() else { continue };
        for entry in entries.flatten() {
            n_entries += 1;
            if n_entries > MAX_ENTRIES {
                break;
            }
            // An installation in progress, or the remains of one.
            if entry.file_name().as_encoded_bytes().starts_with(b".") {
                continue;
            }
            let path = entry.path();
            let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
            if is_folder && depth < MAX_DEPTH {
                folders.push((path, depth + 1));
            } else if is_library(&entry.file_name().to_string_lossy()) && path.is_file() {
                found.push((version(&path), path));
            }
        }
    }
    found.into_iter().max().map(|(_, path)| path)
}

fn is_library(name: &str) -> bool {
    name == "libonnxruntime.so"
        || name.starts_with("libonnxruntime.so.")
        || (name.starts_with("libonnxruntime.") && name.ends_with(".dylib"))
}

/// Returns the version of a library with all three numbers, as its name, that of its folder, or the version of its symbols states
/// it. The library is not loaded, because this process may be a user's program.
pub(crate) fn stated_version(path: &Path) -> Option<String> {
    // Releases of ONNX Runtime have the library under its full name, and a link to it under the short one.
    let path = path.canonicalize().ok()?;
    let names = path.ancestors().take(2).filter_map(|part| part.file_name()?.to_str());
    names
        .filter_map(|name| {
            let version = name.strip_prefix("libonnxruntime.so.").unwrap_or(name);
            let version = version.strip_prefix("libonnxruntime.").unwrap_or(version);
            version.strip_suffix(".dylib").or(Some(version))
        })
        .find(|version| has_three_numbers(version))
        .map(str::to_owned)
        .or_else(|| version_of_symbols(&path))
}

/// Returns the version of the symbols that a library defines: on Linux all those of ONNX Runtime 1.2.3 have the version `VERS_1.2.3`.
fn version_of_symbols(path: &Path) -> Option<String> {
    type Identity = (PathBuf, u64, SystemTime);
    /// What was found in files, by their path, length and time: runners are listed with each load.
    static FOUND: Mutex<BTreeMap<Identity, Option<String>>> = Mutex::new(BTreeMap::new());

    let metadata = path.metadata().ok()?;
    if metadata.len() > MAX_LIBRARY_BYTES {
        return None;
    }
    let identity = (path.to_path_buf(), metadata.len(), metadata.modified().ok()?);
    let mut found = FOUND.lock().unwrap_or_else(PoisonError::into_inner);
    found.entry(identity).or_insert_with(|| search_version(File::open(path).ok()?)).clone()
}

/// Searches a file, piece by piece.
fn search_version(mut file: impl Read) -> Option<String> {
    const PREFIX: &[u8] = b"\0VERS_";
    // The name of a version is short, and the string ends with a NUL.
    const LONGEST: usize = 32;
    const PIECE: u64 = 1 << 20;

    let mut bytes = Vec::new();
    loop {
        if file.by_ref().take(PIECE).read_to_end(&mut bytes).ok()? == 0 {
            return None;
        }
        let version = memchr::memmem::find_iter(&bytes, PREFIX).find_map(|position| {
            let rest = bytes.get(position + PREFIX.len()..)?;
            let name = rest.iter().take(LONGEST).position(|&byte| byte == 0).and_then(|length| rest.get(..length))?;
            std::str::from_utf8(name).ok().filter(|version| has_three_numbers(version))
        });
        if version.is_some() {
            return version.map(str::to_owned);
        }
        // The name may be cut by the end of the piece.
        let n_seen = bytes.len().saturating_sub(PREFIX.len() + LONGEST);
        bytes.drain(..n_seen);
    }
}

fn has_three_numbers(version: &str) -> bool {
    let parts: Vec<&str> = version.split('.').collect();
    let is_number = |part: &&str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    parts.len() == 3 && parts.iter().all(is_number)
}

/// Returns the version in a library's name, or in the name of the nearest folder above it that has one.
fn version(path: &Path) -> Vec<u64> {
    let numbers = |name: &str| -> Vec<u64> {
        name.split(|character: char| !character.is_ascii_digit()).filter_map(|part| part.parse().ok()).collect()
    };
    path.ancestors()
        .filter_map(|part| part.file_name())
        .map(|name| numbers(&name.to_string_lossy()))
        .find(|numbers| numbers.len() > 1)
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn environment() {
        let check = |chosen: &str, data: &str, home: &str, expected_chosen: Option<&str>, installed: Option<&str>| {
            let set = |value: &str| (value != "unset").then(|| OsString::from(value));
            let found = SearchPath::new(set(chosen), set(data), set(home));
            let expected = SearchPath {
                chosen: expected_chosen.map(PathBuf::from),
                installed: installed.map(PathBuf::from),
                wanted: None,
            };
            assert_eq!(found, expected);
        };
        check("unset", "unset", "/home/a", None, Some("/home/a/.carton/runner_data/onnxruntime"));
        check("/x.so", "/data", "/home/a", Some("/x.so"), Some("/data/onnxruntime"));
        check("", "", "", None, None);
        check("unset", "unset", "unset", None, None);
    }

    #[test]
    fn search() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let installed = SearchPath { installed: Some(root.clone()), ..SearchPath::default() };
        assert_eq!(installed.find(), LibrarySearch::Nothing);
        let put = |path: &str| {
            let path = root.join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, "").unwrap();
            path
        };
        put("1.32.0/onnxruntime/capi/libonnxruntime_providers_shared.so");
        put("readme.txt");
        put(".install-x/new/libonnxruntime.so.1.32.0");
        assert_eq!(installed.find(), LibrarySearch::Nothing);
        let old = put("1.9.0/libonnxruntime.so");
        assert_eq!(installed.find(), LibrarySearch::Library(old.clone()));
        let new = put("1.32.0/onnxruntime/capi/libonnxruntime.so.1.32.0");
        assert_eq!(installed.find(), LibrarySearch::Library(new.clone()));
        let wanted = |version: &str| SearchPath { wanted: Some(version.to_owned()), ..installed.clone() };
        assert_eq!(wanted("1.9.0").find(), LibrarySearch::Library(old.clone()));
        assert_eq!(wanted("1.33.0").find(), LibrarySearch::Library(new));
        let chosen = SearchPath { chosen: Some(old.clone()), ..installed.clone() };
        assert_eq!(chosen.find(), LibrarySearch::Library(old));
        assert_eq!(stated_version(&root.join("1.9.0/libonnxruntime.so")).as_deref(), Some("1.9.0"));
        let named = root.join("1.32.0/onnxruntime/capi/libonnxruntime.so.1.32.0");
        assert_eq!(stated_version(&named).as_deref(), Some("1.32.0"));
        let link = root.join("libonnxruntime.so");
        std::os::unix::fs::symlink(&named, &link).unwrap();
        assert_eq!(stated_version(&link).as_deref(), Some("1.32.0"));
        for unnamed in ["plain/libonnxruntime.so", "plain/libonnxruntime.so.1", "1.2/libonnxruntime.1.2.dylib"] {
            assert_eq!(stated_version(&put(unnamed)), None, "{unnamed}");
        }
        let unnamed = put("plain/libonnxruntime.so");
        for (contents, expected) in [
            (&b"\0VERS_x\0VERS_1.27.0\0"[..], Some("1.27.0")),
            (b"\0VERS_1.27.0", None),
            (b"VERS_1.27.0\0", None),
            (b"\0VERS_1.27\0", None),
        ] {
            assert_eq!(search_version(contents).as_deref(), expected);
            // At the end of a piece, wherever that cuts it.
            for n_before in (1 << 20) - 20..(1 << 20) + 20 {
                let long = [&vec![1; n_before], contents, &[1; 100]].concat();
                assert_eq!(
                    search_version(&*long).as_deref(),
                    expected.filter(|_| contents.ends_with(b"\0")),
                    "{n_before}"
                );
            }
        }
        std::fs::write(&unnamed, b"\0VERS_1.27.0\0").unwrap();
        assert_eq!(stated_version(&unnamed).as_deref(), Some("1.27.0"));
        let missing = SearchPath { chosen: Some(root.join("no.so")), ..installed };
        assert_eq!(missing.find(), LibrarySearch::ChosenIsMissing(root.join("no.so")));
    }
}
