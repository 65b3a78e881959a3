//! `carton run`.

use std::time::Duration;

use clap::Args;
use semver::VersionReq;

#[cfg(not(feature = "tables"))]
use super::AbsentRowsArgs as RowsArgs;
use super::model::ModelArgs;
#[cfg(feature = "tables")]
use super::rows::RowsArgs;
use super::sandbox::SandboxArgs;
use super::signature_mode::SignatureChoice;
use super::values::{InputArgument, OptionArgument, OutputArgument, duration, tolerance};

/// What to run, on what, and where results go.
#[derive(Args, Debug)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    pub(crate) model: ModelArgs,

    /// An input: NAME=FILE.npy, NAME=FILE.npz#ARRAY, NAME=FILE.safetensors#TENSOR, NAME=@FILE or NAME='JSON'; without NAME= in the declared
    /// order
    ///
    /// @FILE is the bytes of a file, for an input of bytes, or its text, for one of strings; `@-` is standard input. FILE.zt#TENSOR is a
    /// tensor of a zTensor file. FILE.npz or FILE.safetensors alone gives every array in it by its name.
    ///
    /// JSON is cast to the declared dtype: booleans are true and false, complex numbers pairs, bytes base64, and null is NaN; NaN and
    /// Infinity need no quotes. Without a declaration it becomes what NumPy makes of the same list. With --rows, the input has this value
    /// for all rows.
    #[arg(short, long = "input", value_name = "[NAME=]VALUE")]
    pub(crate) inputs: Vec<InputArgument>,

    /// Write an output to a file: NAME=FILE.npy; without NAME= in the declared order. FILE.npz or FILE.safetensors takes all outputs
    ///
    /// With --rows, the one file for all rows: FILE.parquet, FILE.arrow, or an Arrow stream: FILE.arrows, `-` for standard output.
    #[arg(short, long = "output", value_name = "[NAME=]FILE", value_hint = clap::ValueHint::FilePath)]
    pub(crate) outputs: Vec<OutputArgument>,

    /// Run the carton's self-tests and compare what comes out
    #[arg(long, conflicts_with_all = ["inputs", "outputs"], group = "compared")]
    pub(crate) self_test: bool,

    /// Run the model on the inputs of one of the carton's examples, and compare what comes out with its sample outputs
    ///
    /// An example without a name is `example_N`, counted from 0. A difference is shown and is no failure.
    #[arg(long, value_name = "NAME", conflicts_with = "inputs", group = "compared")]
    pub(crate) example: Option<String>,

    /// Cast arrays to the declared dtypes, where no value changes but floats that are rounded to shorter ones
    ///
    /// What the dtype cannot hold is refused: 300 in uint8, 0.5 or NaN in integers, 1e39 or the integer 16777217 in float32.
    /// Booleans become 0 and 1. Tensors of types that only weights have are cast too.
    #[arg(long, conflicts_with = "self_test")]
    pub(crate) cast: bool,

    /// Relative tolerance of self-tests and examples
    #[arg(long, value_name = "R", default_value = "1e-5", value_parser = tolerance, requires = "compared")]
    pub(crate) rtol: f64,

    /// Absolute tolerance of self-tests and examples
    #[arg(long, value_name = "A", default_value = "1e-8", value_parser = tolerance, requires = "compared")]
    pub(crate) atol: f64,

    /// An option for the runner that overrides the carton's; numbers, booleans and lists as JSON
    ///
    /// env.NAME=VALUE is an environment variable, as --env gives one.
    #[arg(long = "opt", value_name = "KEY=VALUE")]
    pub(crate) options: Vec<OptionArgument>,

    /// Where to run: `cpu`, the index of a GPU, or its UUID [default: the CPU in the sandbox, else the framework's choice]
    #[arg(long)]
    pub(crate) device: Option<String>,

    /// Use this runner. MODEL may then be a bare model that is in no carton
    #[arg(long, value_name = "NAME")]
    pub(crate) runner: Option<String>,

    /// Install the runner from the configured index if it is missing
    #[arg(long)]
    pub(crate) install_runners: bool,

    /// Accept these versions of the runner's framework, whatever the carton requires
    #[arg(long, value_name = "REQUIREMENT")]
    pub(crate) framework_version: Option<VersionReq>,

    /// Stop the runner when a call takes longer, such as `30s`, `500ms` or `2m`
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) timeout: Option<Duration>,

    /// What to do when inputs or outputs are not as the carton declares them
    #[arg(long, value_name = "HOW", default_value = "strict")]
    pub(crate) signature_mode: SignatureChoice,

    #[command(flatten)]
    pub(crate) sandbox: SandboxArgs,

    #[command(flatten)]
    pub(crate) table: RowsArgs,
}

const EXAMPLES: &str = r#"Examples:
  Run a model on arrays in files, and write what it returns to another:
    carton run digits.carton -i x=x.npy -o y=y.npy

  Give the input as JSON, and get the outputs as JSON:
    carton run digits.carton -i x='[[1.0, 2.0]]' --json

  Give the bytes of a file to a model that takes bytes:
    carton run classifier.carton -i image=@cat.jpg

  Run the self-tests; exit code 3 means that outputs differ:
    carton run digits.carton --self-test --rtol 1e-4

  Run the model on an example that `carton info` lists:
    carton run digits.carton --example 'an image'

  Run a model that is in no carton:
    carton run digits.onnx --runner onnx --framework-version '>=1.12' -i cases.npz

  Run the model on every row of a table, in two processes:
    carton run digits.carton --rows images.parquet -o digits.parquet --workers 2

With --json, outputs are {"outputs": {NAME: {"dtype", "shape", "data"}}}: data holds nested lists, and the strings
"NaN", "Infinity" and "-Infinity" for the numbers that JSON lacks; booleans are true and false, complex numbers pairs,
and bytes base64. An output written to a file has "file" in place of
"data"; a ragged one has "shapes", one for each of its tensors, in place of "shape"."#;
