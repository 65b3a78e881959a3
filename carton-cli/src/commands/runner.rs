//! `carton runner`: which runners there are, and making the embedded ones available to other programs.

use std::path::{Path, PathBuf};

use carton_core::runner::{
    Descriptor, InstallError, PLATFORM, RUNNER_ARGUMENT, Registry, Requirement, install_embedded, reject,
};
use serde::Serialize;

use super::Context;
use crate::failure::{Exit, Failure, causes_in_one_line};
use crate::output::{Align, Role, Table, one_line};

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
    for broken in &broken {
        let path = broken.path.display().to_string();
        table.row(["-", "-", "-", "-", &path, &format!("no: {}", broken.error)]);
    }
    output.text(&table.lines(&|row, column, cell| match (row, column) {
        (0, _) => output.paint(Role::Heading, &cell),
        (row, 5) if !runners.get(row - 1).is_some_and(|runner| runner.supported) => output.paint(Role::Notice, &cell),
        _ => cell,
    }))?;
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

#[derive(Debug, thiserror::Error)]
#[error("`{requirement}` is no requirement on a version")]
struct BadRequirement {
    requirement: String,
    source: semver::Error,
}

#[derive(Serialize)]
struct Installed<'a> {
    runner_name: &'a str,
    framework_version: String,
    path: &'a Path,
}

/// `carton runner install`. `NAME@REQUIREMENT` is the form in which errors suggest the command.
pub(super) fn install(name: &str, context: &Context<'_>) -> Result<Exit, Failure> {
    let Context { config, output, .. } = context;
    let (name, requirement) = name.split_once('@').map_or((name, None), |(name, version)| (name, Some(version)));
    let framework_version = requirement
        .map(|text| {
            semver::VersionReq::parse(text)
                .map_err(|source| Failure::usage(BadRequirement { requirement: text.to_owned(), source }))
        })
        .transpose()?;
    let requirement = Requirement { name: name.to_owned(), framework_version, compat_version: None };
    let (descriptor, folder) = install_embedded(&requirement, &config.runner_dir).map_err(|error| match error {
        InstallError::NotEmbedded(_) => Failure::with_exit(Exit::NoRunner, error)
            .hint(format!("put its folder, with the runner.toml in it, into `{}`", config.runner_dir.display())),
        error => Failure::new(error),
    })?;
    if output.is_json() {
        output.json(&Installed {
            runner_name: &descriptor.runner_name,
            framework_version: descriptor.framework_version.to_string(),
            path: &folder,
        })?;
    } else {
        output.text(&format!("installed {descriptor} in {}\n", one_line(&folder.display().to_string())))?;
    }
    Ok(Exit::Ok)
}
