//! `carton doctor`.

use clap::Args;

/// `carton doctor`.
#[derive(Args, Debug)]
#[command(after_long_help = STATUSES)]
pub(crate) struct DoctorArgs {
    /// Also hash every file in the cache, which reads all of them
    #[arg(long)]
    pub(crate) full: bool,
}

const STATUSES: &str = "\
Each line begins with
  ok       it is there and works
  missing  it is not there; only what the line names needs it
  warning  it works, but less well or less safely than it could
  bad      models cannot run, or an installed runner cannot be used, until this is mended

The exit code is 1 if a line begins with `bad`, and else 0. Nothing is installed and nothing repaired.";
