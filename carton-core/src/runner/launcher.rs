//! Finds the program that confines runners (spec/sandbox.md, "The launcher").

use std::env;
use std::path::{Path, PathBuf};

use super::{RUNNER_ARGUMENT, Registry, embedded};
use crate::config::Config;

/// The names in `PATH` of programs that are launchers.
const NAMES: &[&str] = &["carton", "carton-launcher"];

/// Returns this program, if it called `runner_main`; else an installed copy of a program that does; else one in `PATH`.
pub(crate) fn launcher(config: &Config) -> Option<PathBuf> {
    embedded::executable().map(Path::to_path_buf).or_else(|| installed(config)).or_else(in_path)
}

/// Returns an installed runner that is such a program: one that is started as `runner_main` expects it.
fn installed(config: &Config) -> Option<PathBuf> {
    let registry = Registry::read(&config.runner_dir).ok()?;
    let is_launcher = |args: &[String]| args.first().is_some_and(|argument| argument == RUNNER_ARGUMENT);
    registry
        .runners()
        .iter()
        .filter(|runner| is_launcher(&runner.args) && runner.runner_interface_version == super::INTERFACE_VERSION)
        .max_by_key(|runner| runner.runner_release_date.clone())
        .map(|runner| runner.runner_path.clone())
}

fn in_path() -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    let folders: Vec<PathBuf> = env::split_paths(&path).filter(|folder| folder.is_absolute()).collect();
    NAMES.iter().flat_map(|name| folders.iter().map(move |folder| folder.join(name))).find(|path| path.is_file())
}
