//! The commands, one per file: arguments in, one call of the library, one result out.

mod cache;
#[cfg(feature = "card")]
mod card;
mod completions;
mod context;
#[cfg(feature = "tables")]
mod dataset;
mod diff;
mod doctor;
mod elements;
mod example;
mod hash;
mod how_to_run;
mod info;
mod ls;
mod man;
mod open;
mod pack;
mod registry;
mod run;
#[cfg(feature = "tables")]
mod run_rows;
mod runner;
mod self_test;
#[cfg(feature = "server")]
mod serve;
mod shrink;
mod sign;
mod tensor;
mod trust;
mod unpack;
mod verify;

use carton_core::Config;
use context::{Context, set, warn_each};

use crate::args::{Cli, Command};
use crate::failure::{Exit, Failure};
use crate::interrupt;
use crate::output::Output;

/// Runs the command and returns the exit code of the process.
///
/// # Errors
/// Returns the failure that kept the command from having a result.
pub(crate) fn run(cli: Cli, output: &Output) -> Result<Exit, Failure> {
    match &cli.command {
        Command::Completions { shell } => return completions::run(*shell, output),
        Command::Man { folder } => return man::run(folder),
        _ => {}
    }
    if let Command::Doctor(arguments) = cli.command {
        return interrupt::run(doctor::run(arguments, &cli.global, output));
    }
    let mut unknown = Vec::new();
    let mut config = Config::load_reporting(cli.global.config.as_deref(), &mut |path, key| {
        unknown.push(format!("configuration `{}`, {key}", path.display()));
    })?;
    warn_each(unknown.into_iter(), output);
    // From here on, only `config.offline` decides whether the network may be used.
    config.offline |= cli.global.offline;
    let context = Context { config, output };
    let result = match cli.command {
        Command::Pack(arguments) => interrupt::run(pack::run(*arguments, &context)),
        Command::Shrink(arguments) => interrupt::run(shrink::run(arguments, &context)),
        Command::Unpack(arguments) => interrupt::run(unpack::run(arguments, &context)),
        Command::Info(arguments) => interrupt::run(info::run(arguments, cli.global.verbose > 0, &context)),
        Command::Diff(arguments) => interrupt::run(diff::run(arguments, &context)),
        Command::Ls(model) => interrupt::run(ls::run(model, &context)),
        Command::Verify(model) => interrupt::run(verify::run(model, &context)),
        Command::Hash(model) => interrupt::run(hash::run(model, &context)),
        Command::Sign(arguments) => interrupt::run(sign::run(arguments, &context)),
        Command::Keygen(arguments) => sign::keygen(&arguments, &context),
        Command::Run(arguments) => interrupt::run(run::run(*arguments, &context)),
        #[cfg(feature = "server")]
        Command::Serve(arguments) => interrupt::run_service(serve::run(*arguments, &context)),
        Command::Push(arguments) => interrupt::run(registry::push(arguments, &context)),
        Command::Pull(arguments) => interrupt::run(registry::pull(arguments, &context)),
        Command::Tag(arguments) => interrupt::run(registry::tag(arguments, &context)),
        Command::Registry(command) => interrupt::run(registry::run(command, &context)),
        Command::Tensor(command) => interrupt::run(tensor::run(command, &context)),
        #[cfg(not(feature = "server"))]
        Command::Serve(_) => Err(Failure::absent("`carton serve`")),
        #[cfg(feature = "tables")]
        Command::Dataset(command) => interrupt::run(dataset::run(command, &context)),
        #[cfg(not(feature = "tables"))]
        Command::Dataset(_) => Err(Failure::absent("`carton dataset`")),
        Command::Runner(command) => interrupt::run(runner::run(command, &context)),
        Command::Cache(command) => interrupt::run(cache::run(command, &context)),
        Command::Doctor(_) | Command::Completions { .. } | Command::Man { .. } => Ok(Exit::Ok),
    };
    output.progress().finish();
    result
}
