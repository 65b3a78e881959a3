//! `carton runner install`: from an index, an archive, a folder, or this program itself.

use std::path::{Path, PathBuf};

use carton_core::network::shown;
use carton_core::runner::{InstallError, Installed, Installer, Place, Requirement};
use semver::VersionReq;
use serde::Serialize;

use super::super::Context;
use super::{failure, index_place, with_installer};
use crate::args::RunnerInstallArgs;
use crate::failure::{Exit, Failure};
use crate::output::one_line;

/// What `--json` prints.
#[derive(Serialize)]
struct Answer<'a> {
    runner_name: &'a str,
    framework_version: String,
    path: &'a Path,
    /// Where it came from: an index, an archive, a folder, or `this program`.
    source: &'a str,
}

/// Where the runner comes from, as the argument says it.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Source {
    Named(Requirement),
    Archive(Place),
    Folder(PathBuf),
}

/// A hash that nothing would be compared with.
#[derive(Debug, thiserror::Error)]
#[error("--sha256 is the hash of an archive, and none is named")]
struct NoArchive;

pub(super) async fn run(arguments: RunnerInstallArgs, context: &Context<'_>) -> Result<Exit, Failure> {
    let Context { config, output, .. } = context;
    let source = source(&arguments)?;
    if arguments.sha256.is_some() && !matches!(source, Source::Archive(_)) {
        return Err(Failure::usage(NoArchive).hint("an index has the hash of each of its archives; a folder has none"));
    }
    let index = index_place(arguments.index.as_deref(), config)?;
    let only_index = arguments.index.is_some();
    let offline = config.offline;
    let sha256 = arguments.sha256;
    let (installed, from) = with_installer(context, move |installer| match source {
        Source::Named(requirement) => named(installer, &requirement, index.as_ref(), only_index, offline),
        Source::Archive(place) => {
            let installed = installer.from_archive(&place, sha256).map_err(|error| match error {
                InstallError::NoDigest { .. } => failure(error).instead_of(Exit::Failure, Exit::Usage),
                error => failure(error),
            });
            Ok((installed?, place.to_string()))
        }
        Source::Folder(path) => Ok((installer.from_folder(&path).map_err(failure)?, path.display().to_string())),
    })
    .await?;
    let Installed { descriptor, folder } = installed;
    if output.is_json() {
        output.json(&Answer {
            runner_name: &descriptor.runner_name,
            framework_version: descriptor.framework_version.to_string(),
            path: &folder,
            source: &from,
        })?;
    } else {
        let folder = folder.display().to_string();
        output.text(&format!("installed {descriptor} from {} in {}\n", one_line(&from), one_line(&folder)))?;
    }
    Ok(Exit::Ok)
}

/// From the index, or else what this program carries; the index's error where both have none.
fn named(
    installer: &Installer<'_>,
    requirement: &Requirement,
    index: Option<&Place>,
    only_index: bool,
    offline: bool,
) -> Result<(Installed, String), Failure> {
    let own = |installer: &Installer<'_>| {
        installer.from_program(requirement).map(|installed| (installed, "this program".to_owned()))
    };
    let Some(index) = index else {
        return own(installer).map_err(failure);
    };
    let error = match installer.from_index(index, requirement) {
        Ok(installed) => return Ok((installed, index.to_string())),
        Err(error) => error,
    };
    let absent =
        matches!(error, InstallError::NoRunner(_)) || (offline && matches!(error, InstallError::Network { .. }));
    if absent
        && !only_index
        && let Ok(installed) = own(installer)
    {
        return Ok(installed);
    }
    Err(failure(error))
}

/// What could be a name is one, unless it can only be a path or a URL.
fn source(arguments: &RunnerInstallArgs) -> Result<Source, Failure> {
    let text = arguments.runner.as_str();
    let place = || Place::parse(text).map_err(|source| failure(InstallError::Place { text: shown(text), source }));
    let path = Path::new(text);
    let is_url = text.contains("://");
    let is_path = text.starts_with(['/', '.'])
        || text.ends_with('/')
        || (text.contains('/') && path.exists())
        || [".zip", ".tar", ".tar.gz", ".tgz"].iter().any(|ending| text.ends_with(ending));
    if is_url || is_path {
        let place = place()?;
        return Ok(match place.path() {
            Some(path) if path.is_dir() => Source::Folder(path.to_path_buf()),
            _ => Source::Archive(place),
        });
    }
    let (name, version) = text.split_once('@').map_or((text, None), |(name, version)| (name, Some(version)));
    let parsed = version.map(|text| {
        VersionReq::parse(text)
            .map_err(|source| Failure::usage(InstallError::Requirement { text: text.to_owned(), source }))
    });
    let framework_version = parsed.transpose()?;
    let compat_version = arguments.compat_version;
    Ok(Source::Named(Requirement { name: name.to_owned(), framework_version, compat_version }))
}
