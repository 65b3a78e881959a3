//! `carton man`: writes the manual pages, for packages of this program.

use std::fs;
use std::path::Path;

use carton_core::Error;
use clap::CommandFactory;

use crate::args::Cli;
use crate::failure::{Exit, Failure};

pub(super) fn run(folder: &Path) -> Result<Exit, Failure> {
    let failed = |source| Error::Io { what: "write into", path: folder.to_path_buf(), source };
    fs::create_dir_all(folder).map_err(failed)?;
    // Hidden commands and `help` have no page.
    clap_mangen::generate_to(Cli::command(), folder).map_err(failed)?;
    Ok(Exit::Ok)
}
