//! `carton dataset …`: folders of many safetensors files.

mod cat;
mod error;
mod ls;
mod merge;
mod rows;
mod verify;
mod write;

use std::borrow::Cow;

use carton_dataset::index::IndexLayout;
use carton_dataset::{Duplicates, Manifest};
use error::failure;
use serde::Serialize;

use super::Context;
use crate::args::{DatasetCommand, DuplicatesChoice, IndexChoice};
use crate::failure::{Exit, Failure};
use crate::output::{Output, byte_size, count, one_line};

pub(super) async fn run(command: DatasetCommand, context: &Context<'_>) -> Result<Exit, Failure> {
    match command {
        DatasetCommand::Write(arguments) => write::run(*arguments, context).await,
        DatasetCommand::Merge(arguments) => merge::run(arguments, context).await,
        DatasetCommand::Ls(arguments) => ls::run(arguments, context).await,
        DatasetCommand::Verify(arguments) => verify::run(arguments, context).await,
        DatasetCommand::Cat(arguments) => cat::run(arguments, context).await,
    }
}

/// Converts the choice of the index's layout.
fn index_layout(choice: IndexChoice) -> IndexLayout {
    match choice {
        IndexChoice::Folder => IndexLayout::Folder,
        IndexChoice::File => IndexLayout::File,
    }
}

impl From<DuplicatesChoice> for Duplicates {
    fn from(choice: DuplicatesChoice) -> Self {
        match choice {
            DuplicatesChoice::Fail => Self::Fail,
            DuplicatesChoice::LastWin => Self::LastWins,
        }
    }
}

/// The output of `--json` for a dataset that was written.
#[derive(Serialize)]
struct Committed<'a> {
    /// Characters that JSON cannot hold are replaced, as in messages.
    path: Cow<'a, str>,
    samples: u64,
    bytes: u64,
    n_shards: usize,
    index: bool,
}

/// Reports the dataset that was written.
fn committed(path: &std::path::Path, manifest: &Manifest, index: bool, output: &Output) -> Result<Exit, Failure> {
    let (samples, bytes, shards) = (manifest.total_samples(), manifest.total_bytes(), manifest.shards().len());
    if output.is_json() {
        let path = path.to_string_lossy();
        output.json(&Committed { path, samples, bytes, n_shards: shards, index })?;
        return Ok(Exit::Ok);
    }
    let path = one_line(&path.display().to_string());
    output.text(&format!("wrote {path}: {}\n", contents(samples, bytes, shards)))?;
    Ok(Exit::Ok)
}

/// `1000 samples in 16 shards, 2.3 MiB`.
fn contents(samples: u64, bytes: u64, shards: usize) -> String {
    let samples = count(usize::try_from(samples).unwrap_or(usize::MAX), "sample");
    format!("{samples} in {}, {}", count(shards, "shard"), byte_size(bytes))
}
