//! `carton pack`.

use std::path::PathBuf;

use carton_core::ManifestHash;
use carton_core::packing::Compression;
use clap::{Args, ValueEnum};
use semver::VersionReq;

use super::model::digest;
use super::sandbox::SandboxArgs;
use super::values::{InputArgument, LinkArgument, MiscArgument, OptionArgument};

/// What to pack, for which runner, and into which file.
#[derive(Args, Debug)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct PackArgs {
    /// The model: a file, a folder, or its address, such as hf://OWNER/REPOSITORY@REVISION, s3://BUCKET/FILE or runs:/RUN/NAME; with --resolve, a carton
    #[arg(value_name = "PATH", value_hint = clap::ValueHint::AnyPath)]
    pub(crate) path: PathBuf,

    /// Make a carton whole instead: PATH is a .carton file, its URL, or the folder of an unpacked one, and the files that it
    /// only links are brought back. Its hash stays the same
    #[arg(long, conflicts_with_all = ["runner", "framework_version", "metadata", "options", "bundle_wheels", "misc", "record_self_test", "install_runners", "tensor_format", "no_check", "link", "links"])]
    pub(crate) resolve: bool,

    /// With --resolve: refuse the carton unless its manifest has this SHA-256 (see `carton hash`)
    #[arg(long, value_name = "HASH", requires = "resolve", value_parser = digest::<ManifestHash>)]
    pub(crate) expect: Option<ManifestHash>,

    /// With --resolve: let a local carton's LINKS name local files
    #[arg(long, requires = "resolve")]
    pub(crate) allow_file_links: bool,

    /// The runner that will run the model (see `carton runner ls`)
    /// [default: the metadata's, else the one for a .onnx file, TorchScript, a Python module or a folder with one, or the files of a framework]
    #[arg(long, value_name = "NAME")]
    pub(crate) runner: Option<String>,

    /// Install the runner from the configured index if it is missing
    #[arg(long)]
    pub(crate) install_runners: bool,

    /// The versions of the runner's framework that can run the model, such as `>=1.12, <2`
    /// [default: what the runner recommends for this model]
    #[arg(long, value_name = "REQUIREMENT")]
    pub(crate) framework_version: Option<VersionReq>,

    /// Name, description, inputs, outputs, self-tests and examples: a carton.toml that may leave out `[runner]`
    ///
    /// Tensor references in it may be files next to it: `x = "x.npy"`, or `x = "cases.npz#x"`.
    #[arg(long, value_name = "FILE.toml", value_hint = clap::ValueHint::FilePath)]
    pub(crate) metadata: Option<PathBuf>,

    /// Refuse mistakes in the metadata, instead of warning of them: keys that mean nothing, descriptions with `@misc/FILE` that is
    /// not in the carton, and platforms that do not exist
    #[arg(long, conflicts_with = "resolve")]
    pub(crate) strict: bool,

    /// An option for the runner, stored in the carton; numbers, booleans and lists as JSON, anything else is a string
    ///
    /// env.NAME=VALUE is an environment variable, which the carton sets for the model.
    #[arg(long = "opt", value_name = "KEY=VALUE")]
    pub(crate) options: Vec<OptionArgument>,

    /// Put the packages that a Python model needs into the carton, so that it runs without a network
    #[arg(long)]
    pub(crate) bundle_wheels: bool,

    /// Leave files of the folder out of the carton: a pattern as in .gitignore, which comes after those of the folder's .cartonignore
    ///
    /// A pattern that begins with `!` packs what an earlier one leaves out. Without a pattern, what no model needs is left out: .git,
    /// __pycache__, .ipynb_checkpoints, wandb and the like.
    #[arg(long, value_name = "PATTERN", conflicts_with = "resolve")]
    pub(crate) exclude: Vec<String>,

    /// Pack this file although it looks like a secret; env.NAME for an environment variable
    #[arg(long, value_name = "PATH", conflicts_with = "resolve")]
    pub(crate) allow_secret: Vec<String>,

    /// Write the Python model that runs the file into this folder, to read and change it, and pack nothing
    #[arg(long, value_name = "FOLDER", value_hint = clap::ValueHint::DirPath, conflicts_with_all = ["resolve", "output", "record_self_test", "runner", "metadata"])]
    pub(crate) eject: Option<PathBuf>,

    /// A file that examples and descriptions refer to as @misc/FILE; NAME=FILE stores it under another name, such as pictures/cat.png=cat.png
    #[arg(long, value_name = "[NAME=]FILE")]
    pub(crate) misc: Vec<MiscArgument>,

    /// Run the packed model with these inputs and store what it returns as a self-test
    ///
    /// Give the option once for each input; the values are written as for `carton run --input`. If neither the metadata nor the model declares
    /// inputs and outputs, those of this call are declared, for all sizes.
    #[arg(long, visible_alias = "example", value_name = "NAME=VALUE")]
    pub(crate) record_self_test: Vec<InputArgument>,

    /// Cast arrays of --record-self-test to the declared dtypes, as `carton run --cast` does
    #[arg(long, requires = "record_self_test")]
    pub(crate) cast: bool,

    /// Write the carton without loading the model: neither declared inputs and outputs nor self-tests are checked
    ///
    /// Otherwise the model is loaded in its runner and put to the self-tests, and no file is written when something does not match
    /// (exit code 3) or the runner refuses the model or crashes (6). Without self-tests it is run on zeros, if it takes them, and
    /// output shapes that the model states wrongly are corrected with a warning. The python runner refuses syntax errors and missing
    /// functions in any case.
    #[arg(long)]
    pub(crate) no_check: bool,

    /// Leave the file with this SHA-256 out of the carton, to be fetched from the URL; several URLs of one file are tried in turn
    #[arg(long, value_name = "SHA256=URL")]
    pub(crate) link: Vec<LinkArgument>,

    /// Leave out every file that this LINKS file has URLs for, as `carton shrink --links` does; it may know other files too
    #[arg(long, value_name = "LINKS.toml", value_hint = clap::ValueHint::FilePath)]
    pub(crate) links: Option<PathBuf>,

    /// How to compress; `auto` decides for each file, and leaves weights as they are so that runners can map them
    #[arg(long, value_name = "METHOD", default_value = "auto")]
    pub(crate) compression: CompressionChoice,

    /// How to store the numeric tensors of self-tests and examples: a file each, or all in one
    ///
    /// Only readers that know of it can open a carton with a file of many tensors.
    #[arg(long, value_name = "FORMAT", default_value = "bin")]
    pub(crate) tensor_format: TensorFormatChoice,

    /// The file to write, replaced if it is there [default: the model's name with .carton, here]
    #[arg(short, long, value_name = "OUT.carton", value_hint = clap::ValueHint::FilePath)]
    pub(crate) output: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) sandbox: SandboxArgs,
}

const EXAMPLES: &str = r#"Examples:
  Pack an ONNX model. Inputs and outputs are read from it, and it is loaded to see that it runs:
    carton pack digits.onnx

  Add a name, descriptions and self-tests, and choose the file. The self-tests must pass:
    carton pack digits.onnx --metadata digits.toml -o digits.carton

  Name the runner, where the file leaves doubt which one runs it:
    carton pack my_model/ --runner python --opt infer_fn=predict

  Record what the model returns for an input as its self-test:
    carton pack digits.onnx --record-self-test x=x.npy

  Pack a model that this machine cannot run:
    carton pack large.onnx --no-check

  Bring back what `carton shrink` left out:
    carton pack --resolve small.carton -o digits.carton

  The metadata file, in short:
    model_name = "digits"
    [[self_test]]
    inputs = { x = "cases.npz#x" }
    expected_out = { y = "cases.npz#y" }"#;

/// How to store tensors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum TensorFormatChoice {
    /// A file each, which every reader of cartons knows.
    Bin,
    /// One safetensors file.
    Safetensors,
    /// One zTensor file.
    Ztensor,
}

/// How to compress.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum CompressionChoice {
    /// What suits each file.
    Auto,
    /// Nothing is compressed.
    Stored,
    /// Every file with zstd.
    Zstd,
    /// Every file with Deflate, which every zip tool can read.
    Deflate,
}

impl From<CompressionChoice> for Compression {
    fn from(choice: CompressionChoice) -> Self {
        match choice {
            CompressionChoice::Auto => Self::Auto,
            CompressionChoice::Stored => Self::Stored,
            CompressionChoice::Zstd => Self::Zstd,
            CompressionChoice::Deflate => Self::Deflate,
        }
    }
}
