//! `carton dataset merge`: commits the attempts of tasks as one dataset, or makes a manifest for existing shards.

use std::io::{self, Read};
use std::num::NonZeroUsize;

use carton_core::CancelToken;
use carton_dataset::{CommitOptions, Duplicates, ShardLayout, merge};
use uuid::Uuid;

use super::rows::InterruptibleStdin;
use super::{Context, committed, failure, index_layout, warnings_of_ignored};
use crate::args::{Columns, DatasetMergeArgs, DuplicatesChoice};
use crate::failure::{Exit, Failure};
use crate::interrupt;

/// The largest list of attempts on standard input, in bytes: a million of them.
const MAX_LIST: u64 = 40 << 20;

#[derive(Debug, thiserror::Error)]
enum AttemptsError {
    #[error("cannot read standard input")]
    Read(#[source] io::Error),
    #[error("standard input has more than {MAX_LIST} bytes, too many for a list of attempts")]
    TooLong,
    #[error("`{}` is not the id of an attempt, expected a UUID", .0.escape_debug())]
    NoUuid(String),
}

pub(super) async fn run(arguments: DatasetMergeArgs, context: &Context<'_>) -> Result<Exit, Failure> {
    let output = context.output;
    let (path, index) = (arguments.dataset.dataset.clone(), arguments.generate_index.is_some());
    let ignored = [("--columns", arguments.columns.is_some()), ("--duplicates", arguments.duplicates.is_some())];
    let ignored = ignored.into_iter().filter(|(_, is_given)| *is_given && arguments.kv_separator.is_none());
    let ignored: Vec<_> = ignored.map(|(option, _)| (option, "--kv-separator")).collect();
    let warnings = warnings_of_ignored(&ignored, output);
    let progress = output.progress().clone();
    let manifest = interrupt::blocking(move |cancel_token| {
        let attempts = match arguments.attempts.as_deref() {
            Some([only]) if only == "-" => Some(parse(&listed(cancel_token)?)?),
            Some(attempts) => Some(parse(&attempts.join("\n"))?),
            None => None,
        };
        let options = CommitOptions {
            attempts,
            n_tasks: arguments.tasks,
            index: arguments.generate_index.map(index_layout),
            overwrite: arguments.overwrite,
            layout: layout(arguments.batch_size, arguments.kv_separator, arguments.columns, arguments.duplicates),
            context: progress.context(cancel_token),
        };
        merge(&arguments.dataset.dataset, &options).map_err(failure)
    })
    .await?;
    output.progress().finish();
    committed(&path, &manifest, index, warnings, output)
}

/// Returns the layout of shards without metadata, as the options describe it.
fn layout(
    batch_size: Option<NonZeroUsize>,
    separator: Option<String>,
    columns: Option<Columns>,
    duplicates: Option<DuplicatesChoice>,
) -> Option<ShardLayout> {
    match (batch_size, separator) {
        (Some(batch_size), _) => Some(ShardLayout::Batch { batch_size }),
        (None, Some(separator)) => Some(ShardLayout::KeyValue {
            separator,
            columns: columns.map(|columns| columns.names(|_| false)),
            duplicates: duplicates.map_or(Duplicates::Fail, Duplicates::from),
        }),
        (None, None) => None,
    }
}

/// Reads standard input.
fn listed(cancel_token: &CancelToken) -> Result<String, Failure> {
    let mut text = String::new();
    let read = InterruptibleStdin::new(cancel_token).take(MAX_LIST + 1).read_to_string(&mut text);
    match read.map_err(|error| Failure::new(AttemptsError::Read(error)))? {
        length if length as u64 > MAX_LIST => Err(Failure::usage(AttemptsError::TooLong)),
        _ => Ok(text),
    }
}

fn parse(text: &str) -> Result<Vec<Uuid>, Failure> {
    let attempt = |name: &str| {
        Uuid::try_parse(name).map_err(|_| {
            let hint = "`carton dataset write --task N` prints it: attempt 550e8400-…";
            Failure::usage(AttemptsError::NoUuid(name.to_owned())).hint(hint)
        })
    };
    text.lines().map(str::trim).filter(|name| !name.is_empty()).map(attempt).collect()
}
