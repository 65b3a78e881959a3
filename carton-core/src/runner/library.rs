//! The library of the machine that a runner needs and does not bring (spec/runner-descriptor.md, "Libraries of the machine"). Pure.

use std::path::{Component, Path, PathBuf};

use carton_format::digest::Sha256Digest;
use semver::{Version, VersionReq};
use serde::{Deserialize, Serialize};

/// The link in a runner's folder that leads to the folder of its library.
pub(super) const LIBRARY_LINK: &str = "lib";
/// The largest number of files, or of wheels, that a descriptor names.
const MAX_LISTED: usize = 64;

/// What a runner needs of a library that is not in its folder. Whoever installs the runner finds the library, and links it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct LibraryNeed {
    /// The library's name, by which the installing program knows how to find it.
    pub name: String,
    /// The versions that the runner was built for.
    pub version: VersionReq,
    /// The files that the library's folder must have.
    pub files: Vec<String>,
    /// Cartons in the runner's folder. Their self-tests prove that runner and library fit.
    pub self_tests: Vec<PathBuf>,
    /// Wheels of a Python package index that have the library; none if no wheel has it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub wheels: Vec<LibraryWheel>,
    /// The files that are taken from folders `lib` of the wheels.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub wheel_files: Vec<String>,
}

/// A wheel that has a part of a library.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct LibraryWheel {
    /// The name of the package in the index.
    pub name: String,
    /// Its exact version.
    pub version: String,
    /// The hash of the wheel.
    pub sha256: Sha256Digest,
    /// The size of the wheel in bytes.
    pub size: u64,
}

/// A library on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundLibrary {
    /// Its exact version.
    pub version: Version,
    /// The folder that its files are in.
    pub folder: PathBuf,
    /// The folders and files that a confined process reads to use it: that folder, and those of the libraries that it needs in turn.
    pub read: Vec<PathBuf>,
}

impl LibraryNeed {
    /// Returns the first value that cannot be used.
    pub(super) fn invalid(&self) -> Option<String> {
        let is_name = |text: &str| {
            !text.is_empty()
                && text.chars().all(|c| c.is_ascii_alphanumeric() || "._+-".contains(c))
                && !text.starts_with(['.', '-'])
        };
        if !is_name(&self.name) {
            return Some(self.name.clone());
        }
        let is_below = |path: &Path| {
            !path.as_os_str().is_empty() && path.components().all(|part| matches!(part, Component::Normal(_)))
        };
        if let Some(path) = self.self_tests.iter().find(|path| !is_below(path)) {
            return Some(path.display().to_string());
        }
        let lists = [
            ("files", self.files.len(), 1),
            ("self_tests", self.self_tests.len(), 1),
            ("wheels", self.wheels.len(), 0),
            ("wheel_files", self.wheel_files.len(), 0),
        ];
        if let Some((list, length, _)) = lists.iter().find(|(_, n, least)| !(*least..=MAX_LISTED).contains(n)) {
            return Some(format!("{length} {list}"));
        }
        let files = self.files.iter().chain(&self.wheel_files);
        let wheels = self.wheels.iter().flat_map(|wheel| [&wheel.name, &wheel.version]);
        files.chain(wheels).find(|name| !is_name(name)).cloned()
    }

    /// The bytes of the wheels that have the library.
    #[must_use]
    pub fn wheels_size(&self) -> u64 {
        self.wheels.iter().fold(0, |sum, wheel| sum.saturating_add(wheel.size))
    }

    /// Returns the first file that a folder lacks; `None` if the library in it is complete.
    #[must_use]
    pub fn missing_in(&self, folder: &Path) -> Option<&str> {
        self.files.iter().map(String::as_str).find(|file| !folder.join(file).is_file())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn need() -> LibraryNeed {
        LibraryNeed {
            name: "libtorch".to_owned(),
            version: "~2.15".parse().unwrap(),
            files: vec!["libc10.so".to_owned()],
            self_tests: vec![PathBuf::from("tests/self-test.carton")],
            wheels: vec![LibraryWheel {
                name: "torch".to_owned(),
                version: "2.15.0".to_owned(),
                sha256: Sha256Digest::of(b""),
                size: 1,
            }],
            wheel_files: Vec::new(),
        }
    }

    #[test]
    fn names_cannot_be_options_or_paths() {
        assert_eq!(need().invalid(), None);
        let check = |change: &dyn Fn(&mut LibraryNeed)| {
            let mut changed = need();
            change(&mut changed);
            assert!(changed.invalid().is_some(), "{changed:?}");
        };
        check(&|need| need.name = "../x".to_owned());
        check(&|need| need.files.clear());
        check(&|need| need.self_tests.clear());
        check(&|need| need.files[0] = "a/b".to_owned());
        check(&|need| need.files[0] = "..".to_owned());
        check(&|need| need.self_tests[0] = PathBuf::from("/etc/x.carton"));
        check(&|need| need.self_tests[0] = PathBuf::from("../x.carton"));
        check(&|need| need.self_tests[0] = PathBuf::new());
        check(&|need| need.wheels[0].name = "--index-url".to_owned());
        check(&|need| need.wheels[0].name = "a @ https://host/x".to_owned());
        check(&|need| need.wheels[0].version = "1\n-e .".to_owned());
        check(&|need| need.wheel_files = vec!["x".to_owned(); 65]);
    }

    #[test]
    fn a_folder_is_searched_for_every_file() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(need().missing_in(folder.path()), Some("libc10.so"));
        std::fs::write(folder.path().join("libc10.so"), "").unwrap();
        assert_eq!(need().missing_in(folder.path()), None);
    }
}
