//! Removes an installed runner.

use std::fs;
use std::path::{Path, PathBuf};

use carton_format::context::CancelToken;
use semver::{Version, VersionReq};

use super::launcher;
use super::workspace::Workspace;
use super::{AvailableRunners, Descriptor, InstallError};
use crate::config::Config;
use crate::error::Error;

/// Removes the installed runner that `asked` names: `NAME`, `NAME@VERSION` or `NAME@REQUIREMENT`. A version with all three
/// numbers means exactly that version. Returns the runner and its former folder.
///
/// # Errors
/// No runner or several fit; the runner is part of this program; its folder holds other runners too.
pub fn remove(asked: &str, config: &Config) -> Result<(Descriptor, PathBuf), Error> {
    let asked_for = Asked::parse(asked)?;
    let runners = AvailableRunners::read(config)?;
    let fits = |runner: &Descriptor| asked_for.fits(runner);
    let installed: Vec<(&Descriptor, &Path)> = runners.installed().collect();
    // A runner that understands several compat versions has a descriptor for each.
    let mut found: Vec<_> = installed.iter().filter(|(runner, _)| fits(runner)).collect();
    found.dedup_by(|one, other| one.1 == other.1 && one.0.is_same_but_for_compat(other.0));
    let runner_dir = config.runner_dir.as_path();
    let (runner, folder) = match found.as_slice() {
        [] => {
            if let Some(runner) = runners.embedded().iter().find(|runner| fits(runner)) {
                return Err(InstallError::Embedded { runner: runner.to_string() }.into());
            }
            let (asked, runner_dir) = (asked.to_owned(), runner_dir.to_path_buf());
            return Err(InstallError::NotInstalled { asked, runner_dir }.into());
        }
        [(runner, folder)] => (*runner, *folder),
        several => {
            let mut found: Vec<String> =
                several.iter().map(|(runner, folder)| format!("{runner} in `{}`", folder.display())).collect();
            found.sort();
            return Err(InstallError::Ambiguous { asked: asked.to_owned(), found }.into());
        }
    };
    let others = installed
        .iter()
        .filter(|(other, other_folder)| *other_folder == folder && !other.is_same_but_for_compat(runner));
    let others: Vec<String> = others.map(|(other, _)| other.to_string()).collect();
    if !others.is_empty() {
        return Err(InstallError::Shared { folder: folder.to_path_buf(), others }.into());
    }
    let locked = launcher::lock(runner_dir, &CancelToken::default());
    let _lock = locked.map_err(InstallError::io("change", runner_dir))?;
    launcher::forget(runner_dir, folder).map_err(InstallError::io("delete from", runner_dir))?;
    let workspace = Workspace::create(runner_dir).map_err(InstallError::io("change", runner_dir))?;
    workspace.take(folder).map_err(InstallError::io("remove", folder))?;
    if let Some(vendor) = folder.parent().filter(|parent| *parent != runner_dir) {
        // Fails if the folder still holds other runners, which is intended.
        let _ = fs::remove_dir(vendor);
    }
    Ok((runner.clone(), folder.to_path_buf()))
}

struct Asked<'a> {
    name: &'a str,
    version: AskedVersion,
}

enum AskedVersion {
    Any,
    Exact(Version),
    Requirement(VersionReq),
}

impl<'a> Asked<'a> {
    fn parse(text: &'a str) -> Result<Self, InstallError> {
        let Some((name, version)) = text.split_once('@') else {
            return Ok(Self { name: text, version: AskedVersion::Any });
        };
        let version = match (Version::parse(version), VersionReq::parse(version)) {
            (Ok(version), _) => AskedVersion::Exact(version),
            (_, Ok(requirement)) => AskedVersion::Requirement(requirement),
            (_, Err(source)) => return Err(InstallError::Requirement { text: version.to_owned(), source }),
        };
        Ok(Self { name, version })
    }

    fn fits(&self, runner: &Descriptor) -> bool {
        let version = &runner.framework_version;
        runner.runner_name == self.name
            && match &self.version {
                AskedVersion::Any => true,
                AskedVersion::Exact(exact) => exact == version,
                AskedVersion::Requirement(requirement) => requirement.matches(version),
            }
    }
}
