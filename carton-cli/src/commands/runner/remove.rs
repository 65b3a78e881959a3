//! `carton runner rm`: removes an installed runner.

use std::path::Path;

use carton_core::runner;
use serde::Serialize;

use super::super::Context;
use crate::args::RunnerRmArgs;
use crate::failure::{Exit, Failure};
use crate::text::one_line;

#[derive(Serialize)]
struct Removed<'a> {
    runner_name: &'a str,
    framework_version: String,
    path: &'a Path,
}

pub(super) fn run(arguments: &RunnerRmArgs, context: &Context<'_>) -> Result<Exit, Failure> {
    let Context { config, output, .. } = context;
    let (descriptor, folder) = runner::remove(&arguments.runner, config)?;
    if output.is_json() {
        output.json(&Removed {
            runner_name: &descriptor.runner_name,
            framework_version: descriptor.framework_version.to_string(),
            path: &folder,
        })?;
    } else {
        output.text(&format!("removed {descriptor} from {}\n", one_line(&folder.display().to_string())))?;
    }
    Ok(Exit::Ok)
}
