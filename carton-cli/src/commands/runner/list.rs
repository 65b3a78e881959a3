//! `carton runner ls`: lists the runners on this machine and in this program.

use std::path::PathBuf;

use carton_core::runner::{AvailableRunners, Descriptor, PLATFORM, Requirement, reject};
use serde::Serialize;

use super::super::Context;
use crate::failure::{Exit, Failure, causes_in_one_line};
use crate::output::{Align, Role, Table};

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

pub(super) fn run(context: &Context<'_>) -> Result<Exit, Failure> {
    let Context { config, output, .. } = context;
    let available = AvailableRunners::read(config)?;
    let embedded = available.embedded().iter().map(|descriptor| listed(descriptor, true));
    let installed = available.installed().map(|(descriptor, _)| listed(descriptor, false));
    let runners: Vec<ListedRunner> = embedded.chain(installed).collect();
    let broken: Vec<BrokenRunner> = available
        .broken()
        .iter()
        .map(|broken| BrokenRunner { path: broken.path.clone(), error: causes_in_one_line(&broken.error) })
        .collect();
    if output.is_json() {
        output.json(&RunnerList { runners, broken })?;
        return Ok(Exit::Ok);
    }
    let mut table = Table::new(&[Align::Left; 7]);
    table.row(["NAME", "VERSION", "COMPAT", "INTERFACE", "PLATFORM", "PATH", "SUPPORTED"]);
    // A runner that understands several versions of the contents of `model/` has a descriptor for each, but only one line.
    let lines: Vec<&[ListedRunner]> = runners.chunk_by(ListedRunner::differs_in_compat_version_alone).collect();
    for same in &lines {
        let Some(runner) = same.first() else { continue };
        let Descriptor { runner_name, framework_version, runner_interface_version, platform, runner_path, .. } =
            &runner.descriptor;
        let compat: Vec<String> = same.iter().map(|one| one.descriptor.runner_compat_version.to_string()).collect();
        let path = if runner.embedded { "in this program".to_owned() } else { runner_path.display().to_string() };
        let supported = runner.reason.as_ref().map_or_else(|| "yes".to_owned(), |reason| format!("no: {reason}"));
        table.row([
            runner_name.clone(),
            framework_version.to_string(),
            compat.join(", "),
            runner_interface_version.to_string(),
            platform.clone(),
            path,
            supported,
        ]);
    }
    for broken in &broken {
        let path = broken.path.display().to_string();
        table.row(["-", "-", "-", "-", "-", &path, &format!("no: {}", broken.error)]);
    }
    output.text(&table.lines(&|row, column, cell| match (row, column) {
        (0, _) => output.paint(Role::Heading, &cell),
        (row, 6) if !lines.get(row - 1).is_some_and(|same| same.iter().all(|runner| runner.supported)) => {
            output.paint(Role::Notice, &cell)
        }
        _ => cell,
    }))?;
    Ok(Exit::Ok)
}

impl ListedRunner {
    fn differs_in_compat_version_alone(&self, other: &Self) -> bool {
        let mut same = self.descriptor.clone();
        same.runner_compat_version = other.descriptor.runner_compat_version;
        self.embedded == other.embedded && same == other.descriptor
    }
}

fn listed(descriptor: &Descriptor, embedded: bool) -> ListedRunner {
    let lost = |folder: PathBuf| format!("its library is no longer in `{}`", folder.display());
    let reason = why_not(descriptor, PLATFORM).or_else(|| descriptor.lost_library().map(lost));
    ListedRunner { embedded, supported: reason.is_none(), reason, descriptor: descriptor.clone() }
}

/// Returns why a runner cannot be used on `platform`, whatever the model; `None` if it can.
pub(in crate::commands) fn why_not(descriptor: &Descriptor, platform: &str) -> Option<String> {
    // Every runner of this name meets this requirement, so that only platform and interface are judged.
    let any = Requirement::new(&descriptor.runner_name);
    reject(descriptor, &any, platform).map(|reason| reason.to_string())
}
