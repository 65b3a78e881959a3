//! `carton runner …`.

use std::path::PathBuf;
use std::time::Duration;

use carton_core::Sha256Digest;
use clap::{Args, Subcommand};

use super::model::digest;
use super::values::age;

/// The commands about runners.
#[derive(Debug, Subcommand)]
pub(crate) enum RunnerCommand {
    /// List the runners on this machine, and whether they can be used
    #[command(visible_alias = "list")]
    Ls(RunnerLsArgs),
    /// Install a runner where every program that uses Carton finds it
    Install(RunnerInstallArgs),
    /// Remove an installed runner
    #[command(visible_alias = "remove")]
    Rm(RunnerRmArgs),
    /// Delete the environments of Python models that are not in use
    #[command(long_about = "Delete the environments of Python models that are not in use.\n\n\
                            They are made again when such a model is loaded. Files that the environments share with the cache of uv \
                            stay there: `uv cache prune` deletes those.")]
    Prune(RunnerPruneArgs),
    /// Make an archive of a runner's folder, and print its entry for an index
    Package(RunnerPackageArgs),
}

/// `carton runner ls`.
#[derive(Args, Debug)]
pub(crate) struct RunnerLsArgs {
    /// List what the index offers instead
    #[arg(long)]
    pub(crate) available: bool,

    /// The index: a URL or a file [default: `runner_index` of the configuration]
    #[arg(long, value_name = "URL|FILE", requires = "available")]
    pub(crate) index: Option<String>,
}

/// `carton runner install`.
#[derive(Args, Debug)]
#[command(after_long_help = INSTALL_EXAMPLES)]
pub(crate) struct RunnerInstallArgs {
    /// NAME or NAME@REQUIREMENT from an index, an archive (zip, tar, tar.gz) by path or URL, or a folder
    ///
    /// A folder or archive has its runner.toml at the top level. Text that could be a name is taken as one: write ./NAME for a folder
    /// with that name.
    #[arg(value_name = "NAME[@REQ]|PATH|URL")]
    pub(crate) runner: String,

    /// Install from this index: a URL or a file [default: `runner_index` of the configuration, then what this program carries]
    #[arg(long, value_name = "URL|FILE")]
    pub(crate) index: Option<String>,

    /// The SHA-256 that the archive must have; needed for a URL
    #[arg(long, value_name = "HASH", value_parser = digest::<Sha256Digest>, conflicts_with = "index")]
    pub(crate) sha256: Option<Sha256Digest>,

    /// For the runner `python`: the interpreter, by its path or its version [default: `python3` in PATH]
    ///
    /// It takes CPython 3.9 or later. Runners for several versions are installed one after another, and each carton chooses the
    /// one that it was packed for.
    #[arg(long, value_name = "PATH|VERSION", conflicts_with_all = ["index", "sha256"], value_hint = clap::ValueHint::ExecutablePath)]
    pub(crate) python: Option<String>,

    /// For runners that need libtorch: a Python environment with torch, its interpreter, or the folder of a libtorch
    ///
    /// By default the active environment (VIRTUAL_ENV, CONDA_PREFIX) is used if it has torch. Else libtorch is taken from the wheel of
    /// torch, which uv or pip fetches after you have agreed, or from the system where the requirement asks for that version.
    #[arg(long, value_name = "PATH", conflicts_with_all = ["python"], value_hint = clap::ValueHint::AnyPath)]
    pub(crate) torch: Option<PathBuf>,

    /// Agree to downloads of what the runner needs: libtorch for `torchscript`, uv for `python`
    #[arg(short, long)]
    pub(crate) yes: bool,

    /// Only runners that understand this version of the contents of `model/`
    #[arg(long, value_name = "N")]
    pub(crate) compat_version: Option<u64>,

    /// Install the runner onnx alone, without the library of ONNX Runtime
    ///
    /// Otherwise the library is installed too: by uv or pip from the wheel on PyPI, or as a copy of the file that
    /// ORT_DYLIB_PATH names.
    #[arg(long)]
    pub(crate) without_onnxruntime: bool,

    /// Install the runner python alone, also where uv is missing
    ///
    /// Otherwise uv is installed too, from its wheel: it makes the environments of models with packages.
    #[arg(long)]
    pub(crate) without_uv: bool,
}

const INSTALL_EXAMPLES: &str = r#"Examples:
  From the configured index, the newest version that a requirement allows:
    carton runner install 'torchscript@^1.13'

  From an index in a file, or on a server:
    carton runner install torchscript --index https://example.org/runners/index.json

  With the torch of a Python environment, which may have CUDA:
    carton runner install torchscript --torch ~/project/.venv

  From an archive, or from a folder:
    carton runner install https://example.org/torchscript.tar.gz --sha256 HASH
    carton runner install ./my-runner

  One that this program carries, for programs that only link the library:
    carton runner install onnx

  The one for Python models, for the Python that is here, and for another one:
    carton runner install python
    carton runner install python --python 3.12"#;

/// `carton runner rm`.
#[derive(Args, Debug)]
pub(crate) struct RunnerRmArgs {
    /// The runner: its name, with a version or a requirement if several are installed
    #[arg(value_name = "NAME[@VERSION|REQ]")]
    pub(crate) runner: String,
}

/// `carton runner prune`.
#[derive(Args, Debug)]
pub(crate) struct RunnerPruneArgs {
    /// Delete only what was not used for this long, such as `12h`, `30d` or `8w`
    #[arg(long, value_name = "DURATION", value_parser = age)]
    pub(crate) older_than: Option<Duration>,

    /// Only show what would be deleted
    #[arg(short = 'n', long)]
    pub(crate) dry_run: bool,
}

/// `carton runner package`.
#[derive(Args, Debug)]
#[command(after_long_help = PACKAGE_EXAMPLES)]
pub(crate) struct RunnerPackageArgs {
    /// The runner's folder, with the runner.toml in it
    #[arg(value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    pub(crate) folder: PathBuf,

    /// The archive to write, replaced if it is there [default: NAME-VERSION-PLATFORM.tar.gz, here]
    #[arg(short, long, value_name = "OUT.tar.gz", value_hint = clap::ValueHint::FilePath)]
    pub(crate) output: Option<PathBuf>,

    /// The URL that the archive will have
    #[arg(long, conflicts_with = "url_prefix")]
    pub(crate) url: Option<String>,

    /// The part of the archive's URL before its file name [default: nothing, so that the archive lies beside the index]
    #[arg(long, value_name = "URL")]
    pub(crate) url_prefix: Option<String>,

    /// Add the entry to this index, replacing the entry of the same release; the file is created if needed
    #[arg(long, value_name = "INDEX.json", value_hint = clap::ValueHint::FilePath)]
    pub(crate) add_to: Option<PathBuf>,
}

const PACKAGE_EXAMPLES: &str = r#"Examples:
  Make an index of two runners, and install from it:
    carton runner package ./one --add-to index.json
    carton runner package ./two --add-to index.json
    carton runner install one --index index.json"#;
