//! Options for writing a dataset, and the summary after the commit.

use std::borrow::Cow;

use carton_dataset::index::IndexLayout;
use carton_dataset::{Duplicates, Manifest};
use serde::Serialize;

use crate::args::{DuplicatesChoice, IndexChoice};
use crate::commands::warn_each;
use crate::failure::{Exit, Failure};
use crate::output::Output;
use crate::text::{byte_size, count, one_line};

/// Converts the choice of the index's layout.
pub(super) fn index_layout(choice: IndexChoice) -> IndexLayout {
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
    warnings: Vec<String>,
}

/// Warns of options that mean nothing in the chosen mode, each with the option of the mode that it belongs to. Returns the warnings.
pub(super) fn warnings_of_ignored(ignored: &[(&str, &str)], output: &Output) -> Vec<String> {
    let warning = |(option, mode): &(&str, &str)| format!("{option} is ignored, it goes with {mode}");
    let warnings: Vec<String> = ignored.iter().map(warning).collect();
    warn_each(warnings.iter().cloned(), output);
    warnings
}

/// Reports the dataset that was written.
pub(super) fn committed(
    path: &std::path::Path,
    manifest: &Manifest,
    index: bool,
    warnings: Vec<String>,
    output: &Output,
) -> Result<Exit, Failure> {
    let (samples, bytes, shards) = (manifest.total_samples(), manifest.total_bytes(), manifest.shards().len());
    if output.is_json() {
        let path = path.to_string_lossy();
        output.json(&Committed { path, samples, bytes, n_shards: shards, index, warnings })?;
        return Ok(Exit::Ok);
    }
    let path = one_line(&path.display().to_string());
    output.text(&format!("wrote {path}: {}\n", contents(samples, bytes, shards)))?;
    Ok(Exit::Ok)
}

/// `1000 samples in 16 shards, 2.3 MiB`.
pub(super) fn contents(samples: u64, bytes: u64, shards: usize) -> String {
    let samples = count(usize::try_from(samples).unwrap_or(usize::MAX), "sample");
    format!("{samples} in {}, {}", count(shards, "shard"), byte_size(bytes))
}
