//! The commands that this program was built without.

use std::ffi::OsString;

use clap::Args;

/// The arguments of such a command: whatever they are, the answer is that the command is missing.
#[derive(Args, Debug)]
#[command(disable_help_flag = true)]
pub(crate) struct AbsentArgs {
    #[arg(hide = true, trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<OsString>,
}

/// The option for tables, in a program that was built without them.
#[cfg(not(feature = "tables"))]
#[derive(Args, Debug)]
pub(crate) struct AbsentRowsArgs {
    #[arg(long, hide = true, value_name = "FILE")]
    pub(crate) rows: Vec<std::path::PathBuf>,
}
