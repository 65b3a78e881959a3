//! Installs runners into `runner_dir`: from an index (spec/runner-descriptor.md, "Installation from an index"), an archive, a
//! folder, or the program itself.
//!
//! From every source, the runner is first assembled in a folder that reading the installed runners skips, then checked there, and then moved to
//! its place.

mod assembled;
mod check;
mod error;

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use carton_format::context::Context;
use carton_format::digest::Sha256Digest;
use carton_format::progress::Stage;
use carton_network::http::Network;

use self::check::Expected;
use super::fetch::Fetcher;
use super::folder::{self, FoundKind};
use super::launcher;
use super::select::{Requirement, select};
use super::unpack::{self, Tree, UnpackError, UnpackLimits};
use super::workspace::{Lock, Workspace};
use super::{Descriptor, ExecutablePaths, IndexEntry, LibraryNeed, PLATFORM, Part, Place, RunnerIndex, embedded};
use crate::config::Config;
use crate::context_setters::blocking_setters;
use crate::error::Error;

pub use assembled::Assembled;
pub(super) use check::check_executable;
pub(crate) use error::InstallError;

/// The name of the executable of a runner that was installed from a program.
const EXECUTABLE: &str = "carton";
/// The longest folder name that is used as it is. A longer one is cut and gets a hash.
const MAX_FOLDER_NAME: usize = 128;

/// Installs runners into the folder of a [`Config`].
pub struct Installer<'a> {
    runner_dir: &'a Path,
    runner_data_dir: &'a Path,
    cache_dir: &'a Path,
    network: Network,
    pub(super) context: Context,
}

impl<'a> Installer<'a> {
    /// Makes an installer for the `runner_dir` of this configuration. It downloads archives into the cache, and deletes them
    /// there once they are unpacked.
    #[must_use]
    pub fn new(config: &'a Config) -> Self {
        Self::with_context(config, Context::default())
    }

    /// Makes an installer whose work is part of another operation.
    pub(super) fn with_context(config: &'a Config, context: Context) -> Self {
        Self {
            runner_dir: &config.runner_dir,
            runner_data_dir: &config.runner_data_dir,
            cache_dir: &config.cache_dir,
            network: config.network(),
            context,
        }
    }

    blocking_setters!();
}

/// An installed runner.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Installed {
    /// Its descriptor.
    pub descriptor: Descriptor,
    /// Its folder in `runner_dir`.
    pub folder: PathBuf,
}

/// A file of a runner that a program assembles.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct RunnerFile<'a> {
    /// Its path below the runner's folder.
    pub path: &'a str,
    /// Its contents.
    pub contents: &'a [u8],
    /// Whether it may be executed.
    pub is_executable: bool,
}

impl<'a> RunnerFile<'a> {
    /// Makes a file that is not executable.
    #[must_use]
    pub fn new(path: &'a str, contents: &'a [u8]) -> Self {
        Self { path, contents, is_executable: false }
    }

    /// Whether it may be executed.
    #[must_use]
    pub fn executable(mut self, is_executable: bool) -> Self {
        self.is_executable = is_executable;
        self
    }
}

impl Installer<'_> {
    /// Fetches and parses an index.
    ///
    /// # Errors
    /// The index cannot be fetched, or is not an index.
    pub fn index(&self, place: &Place) -> Result<RunnerIndex, Error> {
        let bytes = self.fetcher().index(place)?;
        let index = RunnerIndex::of_bytes(&bytes, place);
        Ok(index.map_err(|source| InstallError::Index { index: place.to_string(), source })?)
    }

    /// Installs the best runner of an index that meets `requirement`. An installed runner of the same name and version is
    /// replaced.
    ///
    /// # Errors
    /// The index has none ([`Error::no_runner`]), or it cannot be fetched, verified, unpacked or used here. Nothing is left behind then.
    pub fn from_index(&self, place: &Place, requirement: &Requirement) -> Result<Installed, Error> {
        self.from_entry(self.index(place)?.select(place, requirement).map_err(InstallError::NoRunner)?)
    }

    /// Installs the runner of an index entry. An installed runner of the same name and version is replaced.
    ///
    /// # Errors
    /// The runner needs a library of this machine, or it cannot be fetched, verified, unpacked or used here. Nothing is left behind then.
    pub fn from_entry(&self, entry: &IndexEntry) -> Result<Installed, Error> {
        if let Some(LibraryNeed { name, version, .. }) = &entry.descriptor.library {
            // Known before anything is fetched.
            let runner = entry.descriptor.to_string();
            return Err(InstallError::Library { runner, library: format!("{name} {version}") }.into());
        }
        let folder = self.runner_dir.join(folder_name(&entry.descriptor));
        fs::create_dir_all(self.runner_dir).map_err(InstallError::io("create", self.runner_dir))?;
        let (_lock, waited) = self.lock(&folder)?;
        // The process that held the lock may have installed the same runner.
        if waited && let Ok(descriptor) = check::find(&folder, &entry.descriptor) {
            return Ok(Installed { descriptor, folder });
        }
        self.install(self.assemble_entry(entry)?)
    }

    /// Fetches, checks and unpacks the runner of an index entry, without installing it.
    ///
    /// # Errors
    /// The runner cannot be fetched, verified, unpacked or used here.
    pub fn assemble_entry(&self, entry: &IndexEntry) -> Result<Assembled, Error> {
        fs::create_dir_all(self.runner_dir).map_err(InstallError::io("create", self.runner_dir))?;
        let workspace = self.workspace()?;
        self.unpack_entry(entry, &workspace)?;
        let place = entry.parts.first().map(|part| part.place.to_string()).unwrap_or_default();
        Ok(assembled(workspace, place, Expected::Entry(&entry.descriptor))?)
    }

    /// Installs an assembled runner. An installed runner of the same name and version is replaced.
    ///
    /// # Errors
    /// The runner needs a library that was not linked, or files cannot be written.
    pub fn install(&self, assembled: Assembled) -> Result<Installed, Error> {
        if let Some(error) = assembled.lacks_library() {
            return Err(error.into());
        }
        let Assembled { workspace, descriptor, .. } = assembled;
        Ok(self.publish(&workspace, self.runner_dir.join(folder_name(&descriptor)), &descriptor)?)
    }

    /// Installs a runner from an archive with a `runner.toml` at its top.
    ///
    /// # Errors
    /// A URL without an expected hash; an archive that cannot be fetched, verified, unpacked or used here.
    pub fn from_archive(&self, place: &Place, sha256: Option<Sha256Digest>) -> Result<Installed, Error> {
        self.install(self.assemble_archive(place, sha256)?)
    }

    /// Does what [`from_archive`](Self::from_archive) does, without installing the runner.
    ///
    /// # Errors
    /// As for [`from_archive`](Self::from_archive).
    pub fn assemble_archive(&self, place: &Place, sha256: Option<Sha256Digest>) -> Result<Assembled, Error> {
        let workspace = self.workspace()?;
        let new = new_folder(&workspace)?;
        let unpack = |path: &Path| {
            let mut tree = Tree::new(new.clone(), UnpackLimits::default(), self.context.cancel_token());
            let unpacked = unpack::unpack(path, "", &mut tree).and_then(|()| tree.finish());
            unpacked.map_err(|source| unpack_error(source, place.to_string()))
        };
        match (place, sha256) {
            (_, Some(sha256)) => {
                let part = Part { place: place.clone(), sha256, folder: String::new() };
                self.fetcher().archive(&part, &Stage::Install(place.to_string()), unpack)?;
            }
            (Place::Path(path), None) => unpack(path)?,
            (_, None) => return Err(InstallError::NoDigest { place: place.to_string() }.into()),
        }
        Ok(assembled(workspace, place.to_string(), Expected::Usable)?)
    }

    /// Installs a copy of a folder with a `runner.toml` at its top.
    ///
    /// # Errors
    /// The runner cannot be fetched, verified, unpacked or used here.
    pub fn from_folder(&self, source: &Path) -> Result<Installed, Error> {
        self.install(self.assemble_folder(source)?)
    }

    /// Does what [`from_folder`](Self::from_folder) does, without installing the runner.
    ///
    /// # Errors
    /// The runner cannot be fetched, verified, unpacked or used here.
    pub fn assemble_folder(&self, source: &Path) -> Result<Assembled, Error> {
        let name = source.display().to_string();
        let unpack_error = |source| unpack_error(source, name.clone());
        let found = folder::list(source).map_err(unpack_error)?;
        let workspace = self.workspace()?;
        let new = new_folder(&workspace)?;
        let mut tree = Tree::new(new.clone(), UnpackLimits::default(), self.context.cancel_token());
        for found in found {
            match found.kind {
                FoundKind::Folder => tree.folder(&found.name),
                FoundKind::Link { target } => tree.link(&found.name, &target),
                FoundKind::File { is_executable, .. } => {
                    let mut file = File::open(&found.path).map_err(InstallError::io("open", &found.path))?;
                    tree.file(&found.name, is_executable, &mut file)
                }
            }
            .map_err(unpack_error)?;
        }
        tree.finish().map_err(unpack_error)?;
        Ok(assembled(workspace, source.display().to_string(), Expected::Usable)?)
    }

    /// Installs a runner that is part of this program (see [`runner_main`](super::runner_main)), so that other programs can use
    /// it. Copies the executable, and writes a descriptor whose `args` select the runner.
    ///
    /// # Errors
    /// The program has none that fits ([`Error::no_runner`]); files cannot be written.
    pub fn from_program(&self, requirement: &Requirement) -> Result<Installed, Error> {
        let carried = embedded::descriptors(self.runner_data_dir);
        let runner =
            select(&carried, requirement, PLATFORM).map_err(|none| InstallError::NoRunner(none.in_program()))?;
        let workspace = self.workspace()?;
        let new = new_folder(&workspace)?;
        let executable = new.join(EXECUTABLE);
        let mut program = File::open(&runner.runner_path).map_err(InstallError::io("read", &runner.runner_path))?;
        let mut copy = File::create(&executable).map_err(InstallError::io("write", &executable))?;
        io::copy(&mut program, &mut copy).map_err(InstallError::io("write", &executable))?;
        let mode = fs::Permissions::from_mode(0o755);
        fs::set_permissions(&executable, mode).map_err(InstallError::io("write", &executable))?;
        check::write(&[Descriptor { runner_path: EXECUTABLE.into(), ..runner.clone() }], &new)?;
        let _lock = self.lock_launcher()?;
        let installed = self.replace(&workspace, self.runner_dir.join(folder_name(runner)), runner)?;
        // The copy is a launcher, as this program is. Written last, because replacing the folder forgets what it was before.
        launcher::remember(self.runner_dir, &installed.folder.join(EXECUTABLE))
            .map_err(InstallError::io("write into", self.runner_dir))?;
        Ok(installed)
    }

    /// Installs a runner that consists of `files`, and writes its `runner.toml`. The paths of executables in `runners` are
    /// relative to the runner's folder. An installed runner of the same name and version is replaced. A runner that understands
    /// several versions of the contents of `model/` has a descriptor for each; the first one names the folder and is returned.
    ///
    /// # Errors
    /// There is no descriptor, a file has a name that is not allowed, the executable of a descriptor is missing, the runner is
    /// for another platform, or a file cannot be written. Nothing is left behind then.
    pub fn from_files(&self, runners: &[Descriptor], files: &[RunnerFile<'_>]) -> Result<Installed, Error> {
        let place = runners.first().map(ToString::to_string).unwrap_or_default();
        let unpack_error = |source| unpack_error(source, place.clone());
        let workspace = self.workspace()?;
        let new = new_folder(&workspace)?;
        let mut tree = Tree::new(new.clone(), UnpackLimits::default(), self.context.cancel_token());
        for RunnerFile { path, mut contents, is_executable } in files.iter().copied() {
            tree.file(path, is_executable, &mut contents).map_err(unpack_error)?;
        }
        tree.finish().map_err(unpack_error)?;
        check::write(runners, &new)?;
        // This program says what its runner needs, also outside of the runner's folder.
        let descriptor = check::folder(&new, &place, Expected::Usable, ExecutablePaths::Anywhere)?;
        Ok(self.publish(&workspace, self.runner_dir.join(folder_name(&descriptor)), &descriptor)?)
    }

    /// Fetches, verifies, unpacks and checks the parts of an index entry.
    fn unpack_entry(&self, entry: &IndexEntry, workspace: &Workspace) -> Result<(), InstallError> {
        let new = new_folder(workspace)?;
        let mut tree = Tree::new(new.clone(), UnpackLimits::default(), self.context.cancel_token());
        let stage = Stage::Install(entry.descriptor.to_string());
        for part in &entry.parts {
            let unpack_error = |source| unpack_error(source, part.place.to_string());
            self.fetcher().archive(part, &stage, |path| {
                if !part.folder.is_empty() {
                    tree.folder(&part.folder).map_err(unpack_error)?;
                }
                unpack::unpack(path, &part.folder, &mut tree).map_err(unpack_error)
            })?;
        }
        let place = entry.parts.first().map(|part| part.place.to_string()).unwrap_or_default();
        tree.finish().map_err(|source| unpack_error(source, place.clone()))?;
        check::folder(&new, &place, Expected::Entry(&entry.descriptor), ExecutablePaths::InFolder).map(drop)
    }

    pub(super) fn fetcher(&self) -> Fetcher<'_> {
        Fetcher { network: &self.network, cache_dir: self.cache_dir, context: &self.context }
    }

    fn workspace(&self) -> Result<Workspace, InstallError> {
        Workspace::create(self.runner_dir).map_err(InstallError::io("install into", self.runner_dir))
    }

    /// Locks `folder` against other installers. Also returns whether the lock had to be waited for, in which case another process
    /// may have installed the runner.
    fn lock(&self, folder: &Path) -> Result<(Lock, bool), InstallError> {
        let name = folder.file_name().unwrap_or_default().to_string_lossy();
        let path = self.runner_dir.join(format!(".lock-{name}"));
        let locked = Lock::acquire(&path, self.context.cancel_token()).map_err(InstallError::io("lock", &path))?;
        locked.ok_or(InstallError::Interrupted)
    }

    fn lock_launcher(&self) -> Result<Lock, InstallError> {
        let locked = launcher::lock(self.runner_dir, self.context.cancel_token());
        locked.map_err(InstallError::io("lock", self.runner_dir))?.ok_or(InstallError::Interrupted)
    }

    fn publish(
        &self,
        workspace: &Workspace,
        folder: PathBuf,
        descriptor: &Descriptor,
    ) -> Result<Installed, InstallError> {
        let _lock = self.lock_launcher()?;
        self.replace(workspace, folder, descriptor)
    }

    /// As [`publish`](Self::publish). The caller holds the lock of the launcher.
    fn replace(
        &self,
        workspace: &Workspace,
        folder: PathBuf,
        descriptor: &Descriptor,
    ) -> Result<Installed, InstallError> {
        self.context.check()?;
        // What replaces the folder may be somebody else's program.
        launcher::forget(self.runner_dir, &folder).map_err(InstallError::io("delete from", self.runner_dir))?;
        workspace.publish(&workspace.path().join(NEW), &folder).map_err(InstallError::io("create", &folder))?;
        let descriptor = check::find(&folder, descriptor)?;
        Ok(Installed { descriptor, folder })
    }
}

/// Checks the folder of unknown origin in a workspace.
fn assembled(workspace: Workspace, place: String, expected: Expected<'_>) -> Result<Assembled, InstallError> {
    let folder = workspace.path().join(NEW);
    let descriptor = check::folder(&folder, &place, expected, ExecutablePaths::InFolder)?;
    Ok(Assembled::new(workspace, descriptor, place))
}

/// The folder in a workspace that becomes the runner's folder.
const NEW: &str = "new";

fn new_folder(workspace: &Workspace) -> Result<PathBuf, InstallError> {
    let path = workspace.path().join(NEW);
    fs::create_dir(&path).map_err(InstallError::io("create", &path))?;
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).map_err(InstallError::io("create", &path))?;
    Ok(path)
}

pub(super) fn unpack_error(source: UnpackError, place: String) -> InstallError {
    match source {
        UnpackError::Interrupted => InstallError::Interrupted,
        source => InstallError::Unpack { place, source: Box::new(source) },
    }
}

/// Returns the name of a runner's folder. Runners that replace each other have the same name: `NAME-VERSION`, and the compat
/// version unless it is 1. A name with special characters gets a hash, so that no two runners share a folder.
pub(super) fn folder_name(runner: &Descriptor) -> String {
    let Descriptor { runner_name, framework_version, runner_compat_version, .. } = runner;
    let compat = if *runner_compat_version == 1 { String::new() } else { format!("-compat{runner_compat_version}") };
    let exact = format!("{runner_name}-{framework_version}{compat}");
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._+-".contains(c);
    if exact.chars().all(is_plain) && !exact.starts_with('.') && exact.len() <= MAX_FOLDER_NAME {
        return exact;
    }
    let readable = exact.chars().map(|c| if is_plain(c) { c } else { '-' });
    let readable: String = readable.skip_while(|c| *c == '.').take(MAX_FOLDER_NAME).collect();
    let hash = Sha256Digest::of(exact.as_bytes()).to_string();
    format!("{readable}-{}", &hash[..8])
}

#[cfg(test)]
mod tests;
