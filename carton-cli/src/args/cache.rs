//! `carton cache …`.

use std::time::Duration;

use clap::{Args, Subcommand};

use super::values::{age, size};

/// `carton cache …`.
#[derive(Debug, Subcommand)]
pub(crate) enum CacheCommand {
    /// List the cartons that have something in the cache
    #[command(visible_alias = "list")]
    Ls,
    /// Delete single cartons from the cache, with the files that no other carton uses
    #[command(visible_alias = "remove")]
    Rm(RemoveArgs),
    /// Delete what no loaded model uses
    #[command(long_about = "Delete what no loaded model uses.\n\n\
                            Without limits that is everything: cartons, interrupted downloads, and what is remembered of \
                            verified files. What is deleted is fetched or made again when it is next needed.")]
    Prune(PruneArgs),
    /// Hash every file in the cache again and delete those that are damaged
    Verify,
}

/// `carton cache rm`.
#[derive(Args, Debug)]
pub(crate) struct RemoveArgs {
    /// The cartons: names of models, manifest hashes (8 digits or more of each), URLs or files, as `carton cache ls` shows them
    #[arg(value_name = "CARTON", required = true)]
    pub(crate) cartons: Vec<String>,
}

/// `carton cache prune`.
#[derive(Args, Debug)]
pub(crate) struct PruneArgs {
    /// Delete only what was not used for this long, such as `12h`, `30d` or `8w`
    #[arg(long, value_name = "DURATION", value_parser = age)]
    pub(crate) older_than: Option<Duration>,

    /// Delete what was not used for the longest time, until the rest takes at most this much, such as `500MB` or `10GiB`
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub(crate) max_size: Option<u64>,

    /// Only show what would be deleted
    #[arg(short = 'n', long)]
    pub(crate) dry_run: bool,
}
