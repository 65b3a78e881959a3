//! `carton runner`: which runners there are, and making the embedded ones available to other programs.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use carton_core::runner::{
    Descriptor, EmbeddedRunner, INTERFACE_VERSION, ModelFilesMode, PLATFORM, RUNNER_ARGUMENT, Registry, Requirement,
    reject,
};
use serde::Serialize;

use super::Context;
use crate::EMBEDDED_RUNNERS;
use crate::failure::{Exit, Failure, causes_in_one_line};
use crate::output::{Align, Role, Table};

/// Permissions of the copied executable.
const EXECUTABLE: u32 = 0o755;

#[derive(Serialize)]
struct RunnerList {
    runners: Vec<ListedRunner>,
    broken: Vec<BrokenRunner>,
}

#[derive(Serialize)]
struct ListedRunner {
    #[serde(flatten)]
    descriptor: Descriptor,
    embedded: bool,
    supported: bool,
    reason: Option<String>,
}

#[derive(Serialize)]
struct BrokenRunner {
    path: PathBuf,
    error: String,
}

/// `carton runner ls`.
pub(super) fn list(context: &Context<'_>) -> Result<Exit, Failure> {
    let Context { config, output, .. } = context;
    let registry = Registry::read(&config.runner_dir).map_err(carton_core::Error::from)?;
    let runners: Vec<ListedRunner> =
        registry.runners().iter().map(|descriptor| listed(descriptor, &config.runner_dir)).collect();
    let broken: Vec<BrokenRunner> = registry
        .broken()
        .iter()
        .map(|broken| BrokenRunner { path: broken.path.clone(), error: causes_in_one_line(&broken.error) })
        .collect();
    if output.is_json() {
        output.json(&RunnerList { runners, broken })?;
        return Ok(Exit::Ok);
    }
    let mut table = Table::new(&[Align::Left; 6]);
    table.row(["NAME", "VERSION", "INTERFACE", "PLATFORM", "PATH", "SUPPORTED"]);
    for runner in &runners {
        let Descriptor { runner_name, framework_version, runner_interface_version, platform, runner_path, .. } =
            &runner.descriptor;
        let path = if runner.embedded { "in this program".to_owned() } else { runner_path.display().to_string() };
        let supported = runner.reason.as_ref().map_or_else(|| "yes".to_owned(), |reason| format!("no: {reason}"));
        table.row([
            runner_name.clone(),
            framework_version.to_string(),
            runner_interface_version.to_string(),
            platform.clone(),
            path,
            supported,
        ]);
    }
    output.text(&table.lines(&|row, column, cell| match (row, column) {
        (0, _) => output.paint(Role::Heading, &cell),
        (row, 5) if runners.get(row - 1).is_some_and(|runner| !runner.supported) => output.paint(Role::Notice, &cell),
        _ => cell,
    }))?;
    for broken in &broken {
        output.warning(&format!("`{}` cannot be used: {}", broken.path.display(), broken.error));
    }
    Ok(Exit::Ok)
}

fn listed(descriptor: &Descriptor, runner_dir: &Path) -> ListedRunner {
    // A requirement that every runner of the name meets leaves platform and interface to judge.
    let any = Requirement { name: descriptor.runner_name.clone(), framework_version: None, compat_version: None };
    let reason = reject(descriptor, &any, PLATFORM).map(|reason| reason.to_string());
    ListedRunner {
        embedded: is_embedded(descriptor, runner_dir),
        supported: reason.is_none(),
        reason,
        descriptor: descriptor.clone(),
    }
}

/// Whether it is one of this program's own, as opposed to a copy that was installed.
fn is_embedded(descriptor: &Descriptor, runner_dir: &Path) -> bool {
    descriptor.args.first().is_some_and(|argument| argument == RUNNER_ARGUMENT)
        && !descriptor.runner_path.starts_with(runner_dir)
}

/// Why a runner cannot be installed.
#[derive(Debug, thiserror::Error)]
enum InstallError {
    #[error("this program carries no runner `{name}`, and runners cannot be installed from an index yet")]
    Unknown { name: String },
    #[error("cannot install the runner `{name}` into `{}`", folder.display())]
    Io { name: &'static str, folder: PathBuf, source: io::Error },
    #[error("cannot find the file of this program")]
    OwnExecutable(#[source] io::Error),
    #[error("cannot write the runner's descriptor")]
    Descriptor(#[source] toml::ser::Error),
}

#[derive(Serialize)]
struct DescriptorFile<'a> {
    version: u32,
    runner: [InstalledDescriptor<'a>; 1],
}

#[derive(Serialize)]
struct InstalledDescriptor<'a> {
    runner_name: &'a str,
    framework_version: &'a str,
    runner_compat_version: u64,
    runner_interface_version: u64,
    runner_release_date: &'a str,
    runner_path: &'a str,
    args: [&'a str; 2],
    platform: &'a str,
    files: ModelFilesMode,
}

#[derive(Serialize)]
struct Installed<'a> {
    runner_name: &'a str,
    framework_version: &'a str,
    path: &'a Path,
}

/// `carton runner install`.
pub(super) fn install(name: &str, context: &Context<'_>) -> Result<Exit, Failure> {
    let Context { config, output, .. } = context;
    let wanted = name.split_once('@').map_or(name, |(name, _)| name);
    let runner = EMBEDDED_RUNNERS
        .iter()
        .find(|runner| runner.name == wanted)
        .filter(|runner| version_fits(name, runner))
        .ok_or_else(|| {
            let names: Vec<String> =
                EMBEDDED_RUNNERS.iter().map(|runner| format!("{} {}", runner.name, runner.framework_version)).collect();
            Failure::with_exit(Exit::NoRunner, InstallError::Unknown { name: name.to_owned() })
                .hint(format!("it carries {}; put others into runner_dir yourself", names.join(" and ")))
        })?;
    let registry = Registry::read(&config.runner_dir).map_err(carton_core::Error::from)?;
    let release_date = registry
        .runners()
        .iter()
        .find(|descriptor| descriptor.runner_name == runner.name && is_embedded(descriptor, &config.runner_dir))
        .map_or("1970-01-01T00:00:00Z", |descriptor| descriptor.runner_release_date.as_str());
    let folder = install_into(&config.runner_dir, runner, release_date).map_err(Failure::new)?;
    if output.is_json() {
        output.json(&Installed {
            runner_name: runner.name,
            framework_version: runner.framework_version,
            path: &folder,
        })?;
    } else {
        output.text(&format!("installed {} {} in {}\n", runner.name, runner.framework_version, folder.display()))?;
    }
    Ok(Exit::Ok)
}

/// Whether the runner meets the requirement of `NAME@REQUIREMENT`, the form in which errors suggest the command.
fn version_fits(name: &str, runner: &EmbeddedRunner) -> bool {
    let Some((_, requirement)) = name.split_once('@') else { return true };
    match (semver::VersionReq::parse(requirement), semver::Version::parse(runner.framework_version)) {
        (Ok(requirement), Ok(version)) => requirement.matches(&version),
        _ => false,
    }
}

/// Copies this program into `runner_dir/NAME-VERSION/`, where it appears with its descriptor at once: a folder that is
/// already there is moved aside and removed.
fn install_into(runner_dir: &Path, runner: &EmbeddedRunner, release_date: &str) -> Result<PathBuf, InstallError> {
    let folder = runner_dir.join(format!("{}-{}", runner.name, runner.framework_version));
    let io_error = |source| InstallError::Io { name: runner.name, folder: folder.clone(), source };
    let own = std::env::current_exe().map_err(InstallError::OwnExecutable)?;
    let descriptor = DescriptorFile {
        version: 1,
        runner: [InstalledDescriptor {
            runner_name: runner.name,
            framework_version: runner.framework_version,
            runner_compat_version: runner.compat_version,
            runner_interface_version: INTERFACE_VERSION,
            runner_release_date: release_date,
            runner_path: "carton",
            args: [RUNNER_ARGUMENT, runner.name],
            platform: PLATFORM,
            files: runner.files,
        }],
    };
    let descriptor = toml::to_string(&descriptor).map_err(InstallError::Descriptor)?;
    fs::create_dir_all(runner_dir).map_err(io_error)?;
    // The registry looks for runner.toml below every folder here, so the half-made one is a level deeper than it looks.
    let temporary = tempfile::Builder::new().prefix(".install-").tempdir_in(runner_dir).map_err(io_error)?;
    let made = temporary.path().join("new/runner");
    fs::create_dir_all(&made).map_err(io_error)?;
    let executable = made.join("carton");
    fs::copy(&own, &executable).map_err(io_error)?;
    make_executable(&executable).map_err(io_error)?;
    fs::write(made.join("runner.toml"), descriptor).map_err(io_error)?;
    if folder.exists() {
        fs::rename(&folder, temporary.path().join("new/old")).map_err(io_error)?;
    }
    fs::rename(&made, &folder).map_err(io_error)?;
    Ok(folder)
}

fn make_executable(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(path, fs::Permissions::from_mode(EXECUTABLE))
}
