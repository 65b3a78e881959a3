//! `carton runner ls --available`: lists the runners that an index offers.

use carton_core::runner::{AvailableRunners, Descriptor, PLATFORM};
use serde::Serialize;

use super::super::Context;
use super::list::why_not;
use super::{index_place, with_installer};
use crate::args::RunnerLsArgs;
use crate::failure::{Exit, Failure};
use crate::output::{Align, Role, Table};
use crate::text::one_line;

#[derive(Debug, thiserror::Error)]
#[error("no runner index is configured")]
struct NoIndex;

#[derive(Serialize)]
struct Offer {
    index: String,
    runners: Vec<OfferedRunner>,
    broken: Vec<BrokenEntry>,
}

#[derive(Serialize)]
struct OfferedRunner {
    #[serde(flatten)]
    descriptor: Descriptor,
    id: Option<String>,
    installed: bool,
    supported: bool,
    reason: Option<String>,
}

#[derive(Serialize)]
struct BrokenEntry {
    position: usize,
    error: String,
}

pub(super) async fn run(arguments: RunnerLsArgs, context: &Context<'_>) -> Result<Exit, Failure> {
    let Context { config, output, .. } = context;
    let place = index_place(arguments.index.as_deref(), config)?.ok_or_else(|| {
        Failure::usage(NoIndex).hint("name one: `--index URL|FILE`, or `runner_index` in the configuration")
    })?;
    let at = place.clone();
    let index = with_installer(context, move |installer, _| installer.index(&at).map_err(Failure::from)).await?;
    let runners = AvailableRunners::read(config)?;
    let is_installed = |offered: &Descriptor| runners.installed().any(|(runner, _)| runner.is_same_runner(offered));
    let runners = index.entries().iter().map(|entry| {
        let reason = why_not(&entry.descriptor, PLATFORM);
        OfferedRunner {
            installed: is_installed(&entry.descriptor),
            supported: reason.is_none(),
            reason,
            id: entry.id.clone(),
            descriptor: entry.descriptor.clone(),
        }
    });
    let runners: Vec<OfferedRunner> = runners.collect();
    let broken = index.broken().iter();
    let broken = broken.map(|broken| BrokenEntry { position: broken.position, error: broken.reason.clone() });
    let offer = Offer { index: place.to_string(), runners, broken: broken.collect() };
    if output.is_json() {
        output.json(&offer)?;
        return Ok(Exit::Ok);
    }
    let mut table = Table::new(&[Align::Left; 7]);
    table.row(["NAME", "VERSION", "INTERFACE", "PLATFORM", "RELEASED", "INSTALLED", "SUPPORTED"]);
    for runner in &offer.runners {
        let Descriptor { runner_name, framework_version, runner_interface_version, platform, .. } = &runner.descriptor;
        table.row([
            one_line(runner_name),
            framework_version.to_string(),
            runner_interface_version.to_string(),
            one_line(platform),
            runner.descriptor.runner_release_date.to_string(),
            if runner.installed { "yes" } else { "no" }.to_owned(),
            runner.reason.as_ref().map_or_else(|| "yes".to_owned(), |reason| format!("no: {}", one_line(reason))),
        ]);
    }
    output.text(&table.lines(&|row, column, cell| match (row, column) {
        (0, _) => output.paint(Role::Heading, &cell),
        (row, 6) if !offer.runners.get(row - 1).is_some_and(|runner| runner.supported) => {
            output.paint(Role::Notice, &cell)
        }
        _ => cell,
    }))?;
    for BrokenEntry { position, error } in &offer.broken {
        output.warning(&format!("entry {position} of the index cannot be used: {}", one_line(error)));
    }
    Ok(Exit::Ok)
}
