//! `carton man`: writes the manual pages, for packages of this program.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use clap::CommandFactory;

use crate::args::Cli;
use crate::failure::{Exit, Failure};

#[derive(Debug, thiserror::Error)]
#[error("cannot write into `{}`", folder.display())]
struct WriteError {
    folder: PathBuf,
    source: io::Error,
}

pub(super) fn run(folder: &Path) -> Result<Exit, Failure> {
    let failed = |source| Failure::new(WriteError { folder: folder.to_path_buf(), source });
    fs::create_dir_all(folder).map_err(failed)?;
    // Hidden commands and `help` have no page.
    clap_mangen::generate_to(Cli::command(), folder).map_err(failed)?;
    Ok(Exit::Ok)
}
