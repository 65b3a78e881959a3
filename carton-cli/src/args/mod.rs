//! The command line: options, arguments and their parsing. Pure: nothing here touches a file.

#[cfg(not(all(feature = "server", feature = "tables")))]
mod absent;
mod cache;
#[cfg(feature = "tables")]
mod dataset;
mod diff;
mod doctor;
mod elements;
mod model;
mod pack;
mod registry;
#[cfg(feature = "tables")]
mod rows;
mod run;
mod runner;
mod sandbox;
#[cfg(feature = "server")]
mod serve;
mod shrink;
mod signature_mode;
mod signing;
mod tensor;
mod values;

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{ArgAction, Args, Parser, Subcommand, ValueEnum};

#[cfg(not(all(feature = "server", feature = "tables")))]
pub(crate) use absent::AbsentArgs;
#[cfg(not(all(feature = "server", feature = "tables")))]
#[cfg(not(feature = "tables"))]
pub(crate) use absent::AbsentRowsArgs;
pub(crate) use cache::{CacheCommand, PruneArgs, RemoveArgs};
#[cfg(feature = "tables")]
pub(crate) use dataset::{
    Columns, DatasetCatArgs, DatasetCommand, DatasetLsArgs, DatasetMergeArgs, DatasetVerifyArgs, DatasetWriteArgs,
    DtypeArgument, DuplicatesChoice, IndexChoice, RoundingChoice, TailChoice, column_name,
};
pub(crate) use diff::DiffArgs;
pub(crate) use doctor::DoctorArgs;
pub(crate) use elements::ElementsArgs;
pub(crate) use model::ModelArgs;
pub(crate) use pack::{CompressionChoice, PackArgs, TensorFormatChoice};
pub(crate) use registry::{PullArgs, PushArgs, RegistryCommand, TagArgs};
#[cfg(feature = "tables")]
pub(crate) use rows::RowsArgs;
pub(crate) use run::RunArgs;
pub(crate) use runner::{
    RunnerCommand, RunnerInstallArgs, RunnerLsArgs, RunnerPackageArgs, RunnerPruneArgs, RunnerRmArgs,
};
#[cfg(feature = "server")]
pub(crate) use serve::ServeArgs;
pub(crate) use shrink::ShrinkArgs;
pub(crate) use signing::{KeygenArgs, SignArgs, TrustArgs};
pub(crate) use tensor::{
    DenseArgs, DigestsArgs, LinksArgs, OnlyArgs, SinkArgs, SourceArgs, TensorCatArgs, TensorCommand, TensorConvertArgs,
    TensorDiffArgs, TensorLsArgs, TensorMergeArgs, TensorQuantizeArgs, TensorStatsArgs, TensorValidateArgs,
    TensorVerifyArgs,
};
pub(crate) use values::{
    InputArgument, InputValue, LinkArgument, MiscArgument, OutputArgument, STANDARD_STREAM, is_safetensors,
};

/// The whole command line.
#[derive(Debug, Parser)]
#[command(
    name = "carton",
    version,
    disable_version_flag = true,
    about = "Packs machine-learning models into one verifiable file and runs them in isolated runners",
    long_about = "Packs machine-learning models into one verifiable file, inspects and verifies such files, and runs \
                  the models in them, each in a process of its own.\n\n\
                  Data goes to standard output, everything else to standard error.",
    after_long_help = EXIT_CODES,
    max_term_width = 100,
    propagate_version = false,
    subcommand_required = true,
    arg_required_else_help = true
)]
pub(crate) struct Cli {
    /// Print version; with -v what was built in
    // The parser prints it itself.
    #[allow(dead_code)]
    #[arg(short = 'V', long, action = ArgAction::Version)]
    version: Option<bool>,
    /// Options of every command.
    #[command(flatten)]
    pub(crate) global: GlobalArgs,
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: Command,
}

const EXIT_CODES: &str = "\
Exit codes:
  0    success
  1    failure
  2    the arguments make no sense
  3    a self-test's outputs differ from the expected ones
  4    the carton, tensor file or dataset is malformed, incomplete or tampered with, or the
       carton is not signed as it must be
  5    no installed runner fits the model
  6    the runner crashed or refused the model
  7    the network failed, or is needed and --offline was given
  130  interrupted";

const COMPLETIONS: &str = "\
Put the line for your shell where it is read at each start, so that the script is that of the installed version:
  bash, ~/.bashrc              source <(carton completions bash)
  zsh, ~/.zshrc                source <(carton completions zsh)
  fish, ~/.config/fish/completions/carton.fish
                               carton completions fish | source
  elvish, ~/.config/elvish/rc.elv
                               eval (carton completions elvish | slurp)
  PowerShell, $PROFILE         carton completions powershell | Out-String | Invoke-Expression";

/// Options of every command.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Global options")]
pub(crate) struct GlobalArgs {
    /// Print one JSON object on standard output, {"error": …} when the command fails
    #[arg(long, global = true)]
    pub(crate) json: bool,

    /// Print nothing but results and errors
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    pub(crate) quiet: bool,

    /// Say more: -v shows what is done and what the runner prints, -vv is for finding faults
    #[arg(short, long, global = true, action = ArgAction::Count)]
    pub(crate) verbose: u8,

    /// When to use colors; `auto` means on a terminal, unless NO_COLOR is set
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto")]
    pub(crate) color: ColorChoice,

    /// How to show progress: bars (`auto`, on a terminal only), a line now and then, or nothing
    #[arg(long, global = true, value_name = "HOW", default_value = "auto")]
    pub(crate) progress: ProgressChoice,

    /// Never use the network
    #[arg(long, global = true)]
    pub(crate) offline: bool,

    /// The configuration file [default: ~/.carton/config.toml]
    #[arg(long, global = true, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub(crate) config: Option<PathBuf>,
}

/// When to use colors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ColorChoice {
    Auto,
    Always,
    Never,
}

impl From<ColorChoice> for clap::ColorChoice {
    fn from(choice: ColorChoice) -> Self {
        match choice {
            ColorChoice::Auto => Self::Auto,
            ColorChoice::Always => Self::Always,
            ColorChoice::Never => Self::Never,
        }
    }
}

/// How to show progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ProgressChoice {
    Auto,
    Plain,
    None,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Pack a model into a .carton file
    Pack(Box<PackArgs>),
    /// Extract everything in a carton into a folder
    Unpack(UnpackArgs),
    /// Leave files out of a carton that can be fetched when it is loaded
    Shrink(ShrinkArgs),
    /// Show what a carton says about its model
    Info(InfoArgs),
    /// Show what differs between two cartons
    Diff(DiffArgs),
    /// List the files in a carton
    #[command(visible_alias = "list")]
    Ls(ModelArgs),
    /// Check every file in a carton against its manifest
    Verify(ModelArgs),
    /// Print the hash that identifies a model (SHA-256 of its manifest)
    Hash(ModelArgs),
    /// Sign a carton, so that others can tell whom it is from
    Sign(SignArgs),
    /// Make a pair of keys to sign cartons with
    Keygen(KeygenArgs),
    /// Run a model, or its self-tests
    Run(Box<RunArgs>),
    /// Serve models over HTTP and gRPC, by the Open Inference Protocol
    #[cfg(feature = "server")]
    Serve(Box<ServeArgs>),
    #[cfg(not(feature = "server"))]
    #[command(hide = true)]
    Serve(AbsentArgs),
    /// Push a carton to a registry of container images
    Push(PushArgs),
    /// Write a carton of a registry as a file
    Pull(PullArgs),
    /// Give a carton in a registry a further tag
    Tag(TagArgs),
    /// See what is in a registry
    #[command(subcommand, arg_required_else_help = true)]
    Registry(RegistryCommand),
    /// See and install runners, the programs that run models
    #[command(subcommand, arg_required_else_help = true)]
    Runner(RunnerCommand),
    /// Look at, check and convert tensor files and the tensors of cartons
    #[command(subcommand, arg_required_else_help = true)]
    Tensor(TensorCommand),
    /// Write, check and look into datasets of many safetensors files
    #[cfg(feature = "tables")]
    #[command(subcommand, arg_required_else_help = true)]
    Dataset(DatasetCommand),
    #[cfg(not(feature = "tables"))]
    #[command(hide = true)]
    Dataset(AbsentArgs),
    /// See, check and clear the cache of model files
    #[command(subcommand, arg_required_else_help = true)]
    Cache(CacheCommand),
    /// Look at what this machine lacks, and say how to mend it
    #[command(long_about = "Look at what this machine lacks, and say how to mend it.\n\n\
                            Examines the configuration, the cache, the sandbox, the GPUs and the runners, each of which is started once.")]
    Doctor(DoctorArgs),
    /// Print a script that completes this command in a shell
    #[command(long_about = "Print a script that completes this command in a shell.\n\n\
                            The shell then asks the program, which knows the runners that are installed and the inputs of a model.",
              after_long_help = COMPLETIONS)]
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Write the manual pages of this command and all its subcommands into a folder
    #[command(hide = true)]
    Man {
        /// The folder, made if it is missing
        #[arg(value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
        folder: PathBuf,
    },
}

/// `carton info`.
#[derive(Args, Debug)]
pub(crate) struct InfoArgs {
    #[command(flatten)]
    pub(crate) model: ModelArgs,

    /// Write the model's card, with its pictures and examples, as one HTML file; `-` is standard output
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub(crate) html: Option<PathBuf>,

    /// Print a bill of materials as JSON: a CycloneDX 1.6 ML-BOM, or SPDX 3.0 with the AI profile. It
    /// documents what the carton states and contains, and certifies nothing
    #[arg(long, value_name = "FORMAT", conflicts_with = "html")]
    pub(crate) bom: Option<BomFormat>,
}

/// A format of bills of materials.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum BomFormat {
    #[value(name = "cyclonedx")]
    CycloneDx,
    Spdx,
}

/// `carton unpack`.
#[derive(Args, Debug)]
pub(crate) struct UnpackArgs {
    #[command(flatten)]
    pub(crate) model: ModelArgs,

    /// The folder to make; it must not exist, or be empty [default: MODEL without .carton, here]
    #[arg(short, long, value_name = "FOLDER", value_hint = clap::ValueHint::DirPath)]
    pub(crate) output: Option<PathBuf>,
}

/// Returns the value of `--color`, for help and usage errors, which are printed before the arguments are parsed.
pub(crate) fn color_asked(arguments: &[OsString]) -> ColorChoice {
    let mut asked = ColorChoice::Auto;
    let mut arguments = arguments.iter().map(|argument| argument.to_string_lossy());
    while let Some(argument) = arguments.next() {
        let value = match argument.strip_prefix("--color") {
            Some("") => arguments.next(),
            Some(rest) => rest.strip_prefix('=').map(|value| value.to_owned().into()),
            None => None,
        };
        if let Some(choice) = value.and_then(|value| ColorChoice::from_str(&value, false).ok()) {
            asked = choice;
        }
    }
    asked
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        <Cli as clap::CommandFactory>::command().debug_assert();
    }

    #[test]
    fn color_is_known_before_arguments_are_parsed() {
        let check = |arguments: &[&str], expected| {
            let arguments: Vec<OsString> = arguments.iter().map(Into::into).collect();
            assert_eq!(color_asked(&arguments), expected, "{arguments:?}");
        };
        check(&["carton", "ls"], ColorChoice::Auto);
        check(&["carton", "--color", "always", "ls"], ColorChoice::Always);
        check(&["carton", "ls", "--color=never"], ColorChoice::Never);
        check(&["carton", "--colour=never"], ColorChoice::Auto);
        check(&["carton", "--color"], ColorChoice::Auto);
    }
}
