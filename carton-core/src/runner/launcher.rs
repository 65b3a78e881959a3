//! Finds the program that confines runners (spec/sandbox.md, "How it is enforced").

use std::env;
use std::path::{Path, PathBuf};

use super::{Registry, embedded};
use crate::config::Config;

/// The names in `PATH` of programs that are launchers.
const NAMES: &[&str] = &["carton", "carton-launcher"];

/// Returns this program, if it called `runner_main`; else an installed copy of a program that does; else one in `PATH`.
pub(crate) fn launcher(config: &Config) -> Option<PathBuf> {
    embedded::executable().map(Path::to_path_buf).or_else(|| installed(config)).or_else(in_path)
}

/// Returns an installed copy of such a program. Descriptors of runners from an index cannot claim to be one.
fn installed(config: &Config) -> Option<PathBuf> {
    let registry = Registry::read(&config.runner_dir).ok()?;
    registry
        .runners()
        .iter()
        .filter(|runner| runner.launcher && runner.runner_interface_version == super::INTERFACE_VERSION)
        .max_by_key(|runner| runner.runner_release_date.clone())
        .map(|runner| runner.runner_path.clone())
}

fn in_path() -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    let folders: Vec<PathBuf> = env::split_paths(&path).filter(|folder| folder.is_absolute()).collect();
    NAMES.iter().flat_map(|name| folders.iter().map(move |folder| folder.join(name))).find(|path| path.is_file())
}
