//! Checks that a folder holds the expected runner, ready to be started.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::slice;

use super::super::available::{self, AvailableError};
use super::super::select::{Requirement, reject};
use super::super::{Descriptor, ExecutablePaths, PLATFORM};
use super::InstallError;

/// What a folder must hold.
#[derive(Clone, Copy, Debug)]
pub(super) enum Expected<'a> {
    /// The runner of this index entry.
    Entry(&'a Descriptor),
    /// Any runner that can be used on this machine.
    Usable,
}

/// Checks the folder of a runner, and returns the runner. If `runner.toml` is missing but the index entry states how the runner
/// is started, writes one.
pub(super) fn folder(
    folder: &Path,
    place: &str,
    expected: Expected<'_>,
    allowed: ExecutablePaths,
) -> Result<Descriptor, InstallError> {
    if !has_descriptor(folder) {
        match expected {
            Expected::Entry(entry) if !entry.runner_path.as_os_str().is_empty() => {
                write(slice::from_ref(entry), folder)?
            }
            _ => return Err(no_descriptor(folder, place)),
        }
    }
    let runners = read(folder, place, allowed)?;
    let chosen = match expected {
        Expected::Entry(entry) => runners.iter().find(|runner| runner.is_same_runner(entry)).ok_or_else(|| {
            let found = runners.iter().map(identity).collect::<Vec<_>>().join("; ");
            InstallError::OtherRunner { place: place.to_owned(), expected: identity(entry), found }
        })?,
        Expected::Usable => usable(&runners, place)?,
    };
    check_executable(chosen, folder)?;
    Ok(chosen.clone())
}

/// Returns the runner in an installed folder that is the same as `wanted`.
pub(super) fn find(folder: &Path, wanted: &Descriptor) -> Result<Descriptor, InstallError> {
    let place = folder.display().to_string();
    let runners = read(folder, &place, ExecutablePaths::Anywhere)?;
    let found = runners.into_iter().find(|runner| runner.is_same_runner(wanted));
    found.ok_or_else(|| InstallError::OtherRunner { place, expected: identity(wanted), found: "others".to_owned() })
}

/// Writes the `runner.toml` of a folder with these runners.
pub(super) fn write(runners: &[Descriptor], folder: &Path) -> Result<(), InstallError> {
    let path = folder.join(available::DESCRIPTOR);
    Descriptor::to_toml(runners).and_then(|text| fs::write(&path, text)).map_err(InstallError::io("write", &path))
}

fn read(folder: &Path, place: &str, allowed: ExecutablePaths) -> Result<Vec<Descriptor>, InstallError> {
    let path = folder.join(available::DESCRIPTOR);
    available::read_descriptor(&path, folder, allowed).map_err(|error| match error {
        // The path in a temporary folder would mean nothing to the user.
        AvailableError::Descriptor { source, .. } => InstallError::Descriptor { place: place.to_owned(), source },
        error => InstallError::Available(error),
    })
}

/// Returns the first runner that can be used on this machine.
fn usable<'a>(runners: &'a [Descriptor], place: &str) -> Result<&'a Descriptor, InstallError> {
    let mut reasons = Vec::new();
    for runner in runners {
        let any = Requirement { name: runner.runner_name.clone(), framework_version: None, compat_version: None };
        match reject(runner, &any, PLATFORM) {
            None => return Ok(runner),
            Some(reason) => reasons.push(format!("{runner}: {reason}")),
        }
    }
    let reasons = if reasons.is_empty() { "its runner.toml lists none".to_owned() } else { reasons.join("; ") };
    Err(InstallError::Unsupported { place: place.to_owned(), reasons })
}

/// Checks that the executable of a runner exists, is inside `folder`, and can be executed.
pub(in super::super) fn check_executable(runner: &Descriptor, folder: &Path) -> Result<(), InstallError> {
    let relative = runner.runner_path.strip_prefix(folder).unwrap_or(&runner.runner_path);
    let problem =
        |problem| InstallError::Executable { runner: runner.to_string(), path: relative.to_path_buf(), problem };
    let folder = fs::canonicalize(folder).map_err(InstallError::io("open", folder))?;
    let path = match fs::canonicalize(&runner.runner_path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(problem("is not there")),
        other => other.map_err(InstallError::io("open", &runner.runner_path))?,
    };
    if !path.starts_with(&folder) {
        return Err(problem("lies outside the runner's folder"));
    }
    let metadata = fs::metadata(&path).map_err(InstallError::io("inspect", &path))?;
    if !metadata.is_file() {
        return Err(problem("is not a file"));
    }
    if metadata.permissions().mode() & 0o111 == 0 {
        return Err(problem("is not marked as executable"));
    }
    Ok(())
}

fn has_descriptor(folder: &Path) -> bool {
    folder.join(available::DESCRIPTOR).is_file()
}

fn no_descriptor(folder: &Path, place: &str) -> InstallError {
    let entries = fs::read_dir(folder).map(|entries| entries.flatten().take(2).collect::<Vec<_>>());
    let inside = match entries.as_deref() {
        Ok([only]) if has_descriptor(&only.path()) => Some(only.file_name().to_string_lossy().into_owned()),
        _ => None,
    };
    InstallError::NoDescriptor { place: place.to_owned(), inside }
}

fn identity(runner: &Descriptor) -> String {
    let Descriptor { runner_compat_version, runner_interface_version, platform, .. } = runner;
    format!("{runner} (compat {runner_compat_version}, interface {runner_interface_version}, {platform})")
}
