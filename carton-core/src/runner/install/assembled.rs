//! A runner that is complete but for its name in `runner_dir`, and perhaps for a library of this machine
//! (spec/runner-descriptor.md, "Libraries of the machine").

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use super::super::available::{self, AvailableError};
use super::super::library::LIBRARY_LINK;
use super::super::workspace::Workspace;
use super::super::{Descriptor, ExecutablePaths, FoundLibrary, LibraryNeed};
use super::{InstallError, NEW, check};
use crate::error::Error;

/// A runner in a folder that reading the installed runners skips. Dropping the value deletes it.
#[derive(Debug)]
pub struct Assembled {
    pub(super) workspace: Workspace,
    pub(super) descriptor: Descriptor,
    pub(super) place: String,
    pub(super) needs_library: bool,
}

impl Assembled {
    pub(super) fn new(workspace: Workspace, descriptor: Descriptor, place: String) -> Self {
        let needs_library = descriptor.library.is_some();
        Self { workspace, descriptor, place, needs_library }
    }

    /// Returns the runner.
    #[must_use]
    pub fn descriptor(&self) -> &Descriptor {
        &self.descriptor
    }

    /// Returns a folder in which this runner alone is installed. With it as `runner_dir`, the runner can be tried before it has its name.
    #[must_use]
    pub fn runner_dir(&self) -> &Path {
        self.workspace.path()
    }

    /// Returns the cartons whose self-tests prove that the runner works with its library; none if it needs no library.
    #[must_use]
    pub fn self_tests(&self) -> Vec<PathBuf> {
        let need = self.descriptor.library.iter();
        need.flat_map(|need| &need.self_tests).map(|path| self.folder().join(path)).collect()
    }

    fn folder(&self) -> PathBuf {
        self.workspace.path().join(NEW)
    }

    /// Links the library that the runner needs, lets the runner read it in its sandbox, and gives the runner the library's version.
    ///
    /// # Errors
    /// The runner needs none, or another version; the library is incomplete; a file cannot be written.
    pub fn link(&mut self, library: &FoundLibrary) -> Result<(), Error> {
        let need = self.descriptor.library.as_ref().ok_or_else(|| self.other_library(library, "no library"))?;
        if !need.version.matches(&library.version) {
            return Err(self.other_library(library, &format!("{} {}", need.name, need.version)).into());
        }
        if let Some(file) = need.missing_in(&library.folder) {
            return Err(InstallError::LibraryFile { file: file.to_owned(), folder: library.folder.clone() }.into());
        }
        let folder = self.folder();
        let link = folder.join(LIBRARY_LINK);
        symlink(&library.folder, &link).map_err(InstallError::io("create", &link))?;
        let name = need.name.clone();
        let mut runners = self.read(&folder)?;
        for runner in &mut runners {
            let executable = runner.runner_path.strip_prefix(&folder).map(Path::to_path_buf);
            runner.runner_path = executable.unwrap_or_else(|_| runner.runner_path.clone());
            if let Some(need) = runner.library.as_mut().filter(|need| need.name == name) {
                // An installed runner does not download its library.
                (need.wheels, need.wheel_files) = (Vec::new(), Vec::new());
                runner.framework_version = library.version.clone();
                runner.sandbox.read = library.read.clone();
            }
        }
        check::write(&runners, &folder)?;
        self.descriptor.framework_version = library.version.clone();
        self.descriptor = check::find(&folder, &self.descriptor)?;
        self.needs_library = false;
        Ok(())
    }

    fn read(&self, folder: &Path) -> Result<Vec<Descriptor>, InstallError> {
        let path = folder.join(available::DESCRIPTOR);
        available::read_descriptor(&path, folder, ExecutablePaths::InFolder).map_err(|error| match error {
            AvailableError::Descriptor { source, .. } => InstallError::Descriptor { place: self.place.clone(), source },
            error => InstallError::Available(error),
        })
    }

    /// Returns the error for a runner whose library was not linked; `None` if it needs none.
    pub(super) fn lacks_library(&self) -> Option<InstallError> {
        let LibraryNeed { name, version, .. } = self.descriptor.library.as_ref().filter(|_| self.needs_library)?;
        Some(InstallError::Library { runner: self.descriptor.to_string(), library: format!("{name} {version}") })
    }

    fn other_library(&self, found: &FoundLibrary, expected: &str) -> InstallError {
        InstallError::OtherLibrary {
            runner: self.descriptor.to_string(),
            expected: expected.to_owned(),
            found: format!("{} in `{}`", found.version, found.folder.display()),
        }
    }
}
