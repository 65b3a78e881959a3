//! `carton runner package`: makes an archive of a runner's folder, and its entry for an index.

use std::path::{Path, PathBuf};

use carton_core::Sha256Digest;
use carton_core::runner::{self, OfferedRunner, Packaged};
use serde::Serialize;

use super::super::Context;
use crate::args::RunnerPackageArgs;
use crate::failure::{Exit, Failure};
use crate::interrupt;
use crate::text::{byte_size, one_line};

#[derive(Serialize)]
struct Answer<'a> {
    path: &'a Path,
    sha256: Sha256Digest,
    size: u64,
    entries: &'a [OfferedRunner],
}

pub(super) async fn run(arguments: RunnerPackageArgs, context: &Context<'_>) -> Result<Exit, Failure> {
    let output = context.output;
    let progress = output.progress().clone();
    let (packaged, offered) = interrupt::blocking(move |cancel_token| {
        let packaged = package(&arguments, &progress.context(cancel_token))?;
        let url = url(&packaged, &arguments)?;
        let offered = packaged.offered(&url);
        if let Some(index) = &arguments.add_to {
            runner::add_to_index(index, &offered, cancel_token)?;
        }
        Ok((packaged, offered))
    })
    .await?;
    output.progress().finish();
    let Packaged { path, sha256, size, .. } = &packaged;
    output.note(&format!("packaged {} ({})", one_line(&path.display().to_string()), byte_size(*size)));
    if output.is_json() {
        output.json(&Answer { path, sha256: *sha256, size: *size, entries: &offered })?;
    } else {
        // Prints a list, which is a valid index when it is redirected to a file.
        output.json(&offered)?;
    }
    Ok(Exit::Ok)
}

fn package(arguments: &RunnerPackageArgs, context: &carton_core::Context) -> Result<Packaged, Failure> {
    let path = match &arguments.output {
        Some(path) => path.clone(),
        None => {
            let name = runner::archive_name(&arguments.folder)?;
            let beside = arguments.add_to.as_deref().and_then(Path::parent);
            beside.map_or_else(|| PathBuf::from(&name), |folder| folder.join(&name))
        }
    };
    Ok(runner::package(&arguments.folder, &path, context)?)
}

fn url(packaged: &Packaged, arguments: &RunnerPackageArgs) -> Result<String, Failure> {
    if let Some(url) = &arguments.url {
        return Ok(url.clone());
    }
    let beside = packaged.path.with_file_name("index.json");
    let Some(prefix) = &arguments.url_prefix else {
        return Ok(packaged.relative_url(arguments.add_to.as_deref().unwrap_or(&beside))?);
    };
    let name = packaged.relative_url(&beside)?;
    Ok(format!("{}/{name}", prefix.trim_end_matches('/')))
}
