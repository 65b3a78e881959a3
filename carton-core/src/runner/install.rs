//! Puts runners into `runner_dir`: into a temporary folder there first, then renamed.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::select::{NoRunner, Requirement, select};
use super::{Descriptor, PLATFORM, embedded};

/// The name of the executable of an installed runner.
const EXECUTABLE: &str = "carton";

/// Why a runner could not be installed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InstallError {
    /// The program carries no such runner.
    #[error("this program carries no such runner, and runners cannot be installed from an index yet")]
    NotEmbedded(#[source] Box<NoRunner>),
    /// A file cannot be written.
    #[error("cannot install runner {runner} into `{}`", folder.display())]
    Io {
        /// Name and version of the runner.
        runner: String,
        /// Where it was to go.
        folder: PathBuf,
        /// Why it did not.
        source: io::Error,
    },
}

/// Installs a runner that this program carries (see [`runner_main`](super::runner_main)), so that programs which carry none
/// find it: a copy of the executable, with a descriptor whose `args` select the runner. Returns the descriptor and the
/// folder `NAME-VERSION`, which is replaced if it is there.
///
/// # Errors
/// [`InstallError::NotEmbedded`], [`InstallError::Io`].
pub fn install_embedded(requirement: &Requirement, runner_dir: &Path) -> Result<(Descriptor, PathBuf), InstallError> {
    let carried = embedded::descriptors();
    let runner = select(&carried, requirement, PLATFORM).map_err(InstallError::NotEmbedded)?;
    let folder = runner_dir.join(format!("{}-{}", runner.runner_name.replace('/', "-"), runner.framework_version));
    let installed = Descriptor { runner_path: folder.join(EXECUTABLE), ..runner.clone() };
    write(runner, &folder, runner_dir).map_err(|source| InstallError::Io {
        runner: runner.to_string(),
        folder: folder.clone(),
        source,
    })?;
    Ok((installed, folder))
}

fn write(runner: &Descriptor, folder: &Path, runner_dir: &Path) -> io::Result<()> {
    fs::create_dir_all(runner_dir)?;
    // A name with a dot: the registry takes it for an installation in progress.
    let temporary = tempfile::Builder::new().prefix(".install-").tempdir_in(runner_dir)?;
    let unfinished = temporary.path().join("unfinished");
    fs::create_dir(&unfinished)?;
    let executable = unfinished.join(EXECUTABLE);
    fs::copy(&runner.runner_path, &executable)?;
    fs::set_permissions(&executable, fs::Permissions::from_mode(0o755))?;
    let relative = Descriptor { runner_path: EXECUTABLE.into(), ..runner.clone() };
    fs::write(unfinished.join("runner.toml"), relative.to_toml()?)?;
    if folder.exists() {
        fs::rename(folder, temporary.path().join("replaced"))?;
    }
    fs::rename(&unfinished, folder)
}
