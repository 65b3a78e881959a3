//! `carton runner prune`: deletes data of runners that is not in use, which is the environments of Python models.

use std::path::PathBuf;
use std::time::SystemTime;

use serde::Serialize;

use super::super::Context;
use crate::args::RunnerPruneArgs;
use crate::failure::{Exit, Failure};
use crate::interrupt;
use crate::python::environments;
use crate::text::{byte_size, count};

#[derive(Serialize)]
struct Report {
    dry_run: bool,
    environments: Vec<Environment>,
    freed: u64,
    /// The number of environments that were kept only because a process uses them.
    in_use: usize,
}

#[derive(Serialize)]
struct Environment {
    path: PathBuf,
    bytes: u64,
    /// In seconds since 1970; `null` for an environment that was never completed.
    last_used: Option<u64>,
}

pub(super) async fn run(arguments: RunnerPruneArgs, context: &Context<'_>) -> Result<Exit, Failure> {
    let Context { config, output, .. } = context;
    let RunnerPruneArgs { older_than, dry_run } = arguments;
    let runner_data_dir = config.runner_data_dir.clone();
    let pruned = interrupt::blocking(move |cancel_token| {
        environments::prune(&runner_data_dir, older_than, dry_run, cancel_token).map_err(Failure::new)
    })
    .await?;
    let freed = pruned.environments.iter().map(|environment| environment.bytes).sum();
    if output.is_json() {
        let seconds = |time: SystemTime| time.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |time| time.as_secs());
        let environments = pruned.environments.into_iter().map(|environment| {
            let environments::Environment { path, bytes, last_used } = environment;
            Environment { path, bytes, last_used: last_used.map(seconds) }
        });
        output.json(&Report { dry_run, environments: environments.collect(), freed, in_use: pruned.n_in_use })?;
        return Ok(Exit::Ok);
    }
    let verb = if dry_run { "would delete" } else { "deleted" };
    let environments = count(pruned.environments.len(), "environment");
    let mut text = format!("{verb} {environments} of Python models: {}\n", byte_size(freed));
    if pruned.n_in_use > 0 {
        text.push_str(&format!("kept {} that is in use\n", count(pruned.n_in_use, "environment")));
    }
    output.text(&text)?;
    Ok(Exit::Ok)
}
