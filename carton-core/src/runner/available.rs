//! The available runners: those in `runner_dir` (spec/runner-descriptor.md, "Where") and those embedded in the program.

use std::io::{self, Read};
use std::path::{Path, PathBuf};

use super::descriptor::{self, Descriptor, DescriptorError, ExecutablePaths};
use super::embedded;
use crate::config::Config;
use crate::error::Error;
use crate::error::{Advice, Failure};
use crate::private_folder::{self, UnsafeFolder};
use carton_format::error_kind::ErrorKind;

/// The file that describes the runners of a folder.
pub(super) const DESCRIPTOR: &str = "runner.toml";

/// The largest `runner.toml` that is read, in bytes. It holds a few short fields for each runner.
const MAX_DESCRIPTOR_BYTES: u64 = 1 << 20;

/// The runners of this machine at the time they were read.
#[derive(Debug, Default)]
pub struct AvailableRunners {
    runners: Vec<Descriptor>,
    /// The folders of the installed runners. The embedded runners come first in `runners` and have no folder.
    folders: Vec<PathBuf>,
    broken: Vec<BrokenRunner>,
}

/// A folder in `runner_dir` whose `runner.toml` cannot be used. It does not affect other runners.
#[derive(Debug)]
#[non_exhaustive]
pub struct BrokenRunner {
    /// The file.
    pub path: PathBuf,
    /// The cause.
    pub error: Error,
}

/// Why installed runners cannot be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AvailableError {
    /// The folder or a file in it cannot be read.
    #[error("cannot read `{}`", path.display())]
    Io {
        /// The path.
        path: PathBuf,
        /// Why that failed.
        source: io::Error,
    },
    /// Another user could replace what runners consist of.
    #[error("cannot use the runners of `{}`", path.display())]
    Unsafe {
        /// The folder.
        path: PathBuf,
        /// What is wrong with it, or with one above it.
        source: UnsafeFolder,
        /// The environment variable that names the folder.
        variable: &'static str,
    },
    /// The descriptor is not valid.
    #[error("cannot use `{}`", path.display())]
    Descriptor {
        /// The file.
        path: PathBuf,
        /// Why that failed.
        source: DescriptorError,
    },
    /// The descriptor is too large.
    #[error("`{}` has {found} bytes, expected at most {MAX_DESCRIPTOR_BYTES}", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// Its size in bytes.
        found: u64,
    },
}

impl Failure for AvailableError {
    fn kind(&self) -> ErrorKind {
        ErrorKind::Machine
    }

    fn advice(&self) -> Option<Advice> {
        match self {
            Self::Unsafe { source, variable, .. } => Some(source.hint(variable).into()),
            _ => None,
        }
    }
}

impl AvailableRunners {
    /// Reads `runner_dir/*/runner.toml` and `runner_dir/VENDOR/*/runner.toml` of a configuration, and adds the embedded runners.
    /// A folder that does not exist holds no runners.
    ///
    /// # Errors
    /// `runner_dir` exists and cannot be listed; another user can write to it, to `runner_data_dir`, or to a folder above one of them.
    pub fn read(config: &Config) -> Result<Self, Error> {
        check_private(&config.runner_dir, "CARTON_RUNNER_DIR")?;
        check_private(&config.runner_data_dir, "CARTON_RUNNER_DATA_DIR")?;
        Ok(Self::of(embedded::descriptors(&config.runner_data_dir), &config.runner_dir)?)
    }

    /// Adds the runners that are installed in `runner_dir` to the embedded ones.
    pub(super) fn of(embedded: Vec<Descriptor>, runner_dir: &Path) -> Result<Self, AvailableError> {
        let mut runners = Self { runners: embedded, ..Self::default() };
        for folder in subfolders(runner_dir)? {
            if !runners.add(&folder) {
                // The folder of a vendor holds one folder for each runner. If it cannot be listed, it holds none.
                for inner in subfolders(&folder).unwrap_or_default() {
                    runners.add(&inner);
                }
            }
        }
        Ok(runners)
    }

    /// Returns all usable descriptors: first those of the embedded runners, then the installed ones by folder name.
    #[must_use]
    pub fn runners(&self) -> &[Descriptor] {
        &self.runners
    }

    /// Returns the runners that are part of this program.
    #[must_use]
    pub fn embedded(&self) -> &[Descriptor] {
        self.runners.get(..self.runners.len().saturating_sub(self.folders.len())).unwrap_or_default()
    }

    /// Returns the installed runners, each with the folder whose `runner.toml` describes it. The executable may be in another
    /// place.
    pub fn installed(&self) -> impl Iterator<Item = (&Descriptor, &Path)> {
        self.runners.iter().skip(self.embedded().len()).zip(self.folders.iter().map(PathBuf::as_path))
    }

    /// Returns the folders whose `runner.toml` cannot be used.
    #[must_use]
    pub fn broken(&self) -> &[BrokenRunner] {
        &self.broken
    }

    /// Adds the runners of a folder. Returns `false` if it has no `runner.toml`.
    fn add(&mut self, folder: &Path) -> bool {
        let path = folder.join(DESCRIPTOR);
        if !path.exists() {
            return false;
        }
        let descriptor = check_private(folder, "CARTON_RUNNER_DIR")
            .and_then(|()| read_descriptor(&path, folder, ExecutablePaths::Anywhere));
        match descriptor {
            Ok(runners) => {
                self.folders.extend(runners.iter().map(|_| folder.to_path_buf()));
                self.runners.extend(runners);
            }
            Err(error) => {
                tracing::warn!(path = %path.display(), "ignoring a runner: {error}");
                self.broken.push(BrokenRunner { path, error: error.into() });
            }
        }
        true
    }
}

/// Refuses a folder whose content other users could replace.
fn check_private(folder: &Path, variable: &'static str) -> Result<(), AvailableError> {
    private_folder::check(folder).map_err(|source| AvailableError::Unsafe {
        path: folder.to_path_buf(),
        source,
        variable,
    })
}

/// Reads the runners from the `runner.toml` at `path`. Relative paths in it start from `folder`.
pub(super) fn read_descriptor(
    path: &Path,
    folder: &Path,
    allowed: ExecutablePaths,
) -> Result<Vec<Descriptor>, AvailableError> {
    let io_error = |source| AvailableError::Io { path: path.to_path_buf(), source };
    let found = std::fs::metadata(path).map_err(io_error)?.len();
    if found > MAX_DESCRIPTOR_BYTES {
        return Err(AvailableError::TooLarge { path: path.to_path_buf(), found });
    }
    let mut text = String::new();
    std::fs::File::open(path)
        .and_then(|file| file.take(MAX_DESCRIPTOR_BYTES).read_to_string(&mut text))
        .map_err(io_error)?;
    descriptor::parse(&text, folder, allowed)
        .map_err(|source| AvailableError::Descriptor { path: path.to_path_buf(), source })
}

/// Returns the folders directly below `path`, sorted; none if `path` does not exist. Names that begin with a dot are skipped,
/// because installations in progress have such names.
fn subfolders(path: &Path) -> Result<Vec<PathBuf>, AvailableError> {
    let io_error = |source| AvailableError::Io { path: path.to_path_buf(), source };
    let entries = match std::fs::read_dir(path) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(io_error(error)),
    };
    let mut folders = Vec::new();
    for entry in entries {
        let entry = entry.map_err(io_error)?;
        let hidden = entry.file_name().as_encoded_bytes().starts_with(b".");
        if !hidden && entry.path().is_dir() {
            folders.push(entry.path());
        }
    }
    folders.sort();
    Ok(folders)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn install(folder: &Path, text: &str) {
        std::fs::create_dir_all(folder).unwrap();
        std::fs::write(folder.join("runner.toml"), text).unwrap();
    }

    fn text(name: &str) -> String {
        format!(
            "version = 1\n[[runner]]\nrunner_name = \"{name}\"\nframework_version = \"1.0.0\"\n\
             runner_compat_version = 1\nrunner_interface_version = 2\nrunner_release_date = 2026-01-01T00:00:00Z\n\
             runner_path = \"bin/run\"\nplatform = \"x\"\n"
        )
    }

    #[test]
    fn broken_and_unfinished_runners_do_not_hide_the_others() {
        let root = tempfile::tempdir().unwrap();
        install(&root.path().join("b-good"), &text("good"));
        install(&root.path().join("a-broken"), "version = 1\n[[runner]]\n");
        install(&root.path().join(".unfinished"), &text("unfinished"));
        install(&root.path().join("them/inner"), &text("them/inner"));
        let runners = AvailableRunners::of(Vec::new(), root.path()).unwrap();
        let names: Vec<&str> = runners.runners().iter().map(|runner| runner.runner_name.as_str()).collect();
        assert_eq!(names, ["good", "them/inner"]);
        assert_eq!(runners.runners()[0].runner_path, root.path().join("b-good/bin/run"));
        assert_eq!(runners.broken().len(), 1);
    }

    #[test]
    fn runners_that_others_could_replace_are_not_used() {
        use std::os::unix::fs::PermissionsExt;
        let root = tempfile::tempdir().unwrap();
        let config = Config::in_folder(root.path());
        let folder = config.runner_dir.join("a");
        install(&folder, &text("a"));
        std::fs::create_dir_all(&config.runner_data_dir).unwrap();
        let read =
            || AvailableRunners::read(&config).map(|runners| (runners.installed().count(), runners.broken().len()));
        assert_eq!(read().unwrap(), (1, 0));
        let mode = |path: &Path, mode: u32| {
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
        };
        mode(&folder, 0o777);
        assert_eq!(read().unwrap(), (0, 1));
        mode(&folder, 0o755);
        for (shared, variable) in
            [(&config.runner_dir, "CARTON_RUNNER_DIR"), (&config.runner_data_dir, "CARTON_RUNNER_DATA_DIR")]
        {
            mode(shared, 0o777);
            let error = read().unwrap_err();
            let found = error.find();
            assert!(
                matches!(found, Some(AvailableError::Unsafe { source, .. }) if source.path == **shared),
                "{error:?}"
            );
            assert!(error.hint().unwrap().contains(variable));
            mode(shared, 0o755);
        }
        assert_eq!(read().unwrap(), (1, 0));
    }

    #[test]
    fn an_executable_elsewhere_belongs_to_the_folder_of_its_description() {
        let root = tempfile::tempdir().unwrap();
        install(&root.path().join("a"), &text("here"));
        install(&root.path().join("b"), &text("elsewhere").replace("bin/run", "/opt/elsewhere/run"));
        let runners = AvailableRunners::of(Vec::new(), root.path()).unwrap();
        let found: Vec<_> = runners.installed().map(|(runner, folder)| (&*runner.runner_path, folder)).collect();
        let (a, b) = (root.path().join("a"), root.path().join("b"));
        assert_eq!(found, [(&*a.join("bin/run"), &*a), (Path::new("/opt/elsewhere/run"), &*b)]);
        assert!(runners.embedded().is_empty());
    }

    #[test]
    fn no_folder_means_no_runners() {
        assert!(AvailableRunners::of(Vec::new(), Path::new("/does/not/exist")).unwrap().runners().is_empty());
    }
}
