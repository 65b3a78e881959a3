//! `carton tensor …`.

use std::path::PathBuf;
use std::str::FromStr;

use carton_tensor::checkpoint::FollowLinks;
use carton_tensor::gguf::QuantizedType;
use carton_tensor::weights::FloatType;
use carton_tensor::ztensor::{DigestAlgorithm, Version};
use carton_tensor_files::{MethodKind, Rename, RoundedType, ZtensorVersion};
use clap::builder::PossibleValue;
use clap::{Args, Subcommand, ValueEnum, ValueHint};

use super::elements::ElementsArgs;
use super::values::{density, key_and_value, named_size, size, tolerance};

/// `carton tensor …`.
#[derive(Debug, Subcommand)]
pub(crate) enum TensorCommand {
    /// List the tensors in a file: dtype, shape, size, and how they are stored
    #[command(visible_alias = "list", after_long_help = SOURCES)]
    Ls(TensorLsArgs),
    /// Show the range, mean and standard deviation of tensors, and count NaN and infinities
    #[command(after_long_help = SOURCES)]
    Stats(TensorStatsArgs),
    /// Print the elements of a tensor
    #[command(after_long_help = CAT_EXAMPLES)]
    Cat(TensorCatArgs),
    /// Show what differs between the tensors of two files or checkpoints
    #[command(after_long_help = DIFF_EXAMPLES)]
    Diff(TensorDiffArgs),
    /// Write tensors to a file of another format
    #[command(after_long_help = CONVERT_EXAMPLES)]
    Convert(TensorConvertArgs),
    /// Write a blend of models of one architecture, or a model with low-rank adapters (LoRA) merged into it
    #[command(after_long_help = MERGE_EXAMPLES)]
    Merge(TensorMergeArgs),
    /// Check a file against every rule of its format, and the digests in it
    #[command(after_long_help = VERIFY_EXAMPLES)]
    Verify(TensorVerifyArgs),
    /// Compare tensors with what a kind of model should have
    #[command(after_long_help = VALIDATE_EXAMPLES)]
    Validate(TensorValidateArgs),
    /// Write float tensors as int8, each with its scale
    #[command(after_long_help = QUANTIZE_EXAMPLES)]
    Quantize(TensorQuantizeArgs),
}

const SOURCES: &str = "\
Tensors come from:
  FILE.safetensors, FILE.safetensors.index.json or its FOLDER (a sharded checkpoint), FILE.zt, FILE.npy, FILE.npz,
  FILE.pt, FILE.pth or FILE.bin (PyTorch), FILE.gguf, FILE.onnx
  MODEL.carton, those of a carton's self-tests and examples; MODEL.carton#model/FILE, those of a file of the model
  the URL of a file or carton, of which only what is needed is fetched: https://…, hf://OWNER/REPOSITORY/FILE, s3://…; oci://… for cartons
  any of these with #NAME for one tensor: weights.zt#lm_head, MODEL.carton#x, MODEL.carton#model/weights.zt#lm_head";

const CAT_EXAMPLES: &str = "\
Examples:
  carton tensor cat weights.safetensors embed --slice 0:2,:8
  carton tensor cat model.carton#x --first 10
  carton tensor cat weights.zt lm_head --npy > lm_head.npy";

const VERIFY_EXAMPLES: &str = "\
Every violation is a problem, and leads to exit code 4. What cannot be checked (NumPy arrays of objects and of types that tensors do not
have; entries of .npz that are no arrays, or that bzip2 or LZMA compressed) may be whole or damaged: without a problem, it leads to exit code 1. A note names a feature
that the version stated in a .zt file forbids, although the file can be read, or a digest whose algorithm is not known: this is not damage,
and the exit code stays 0. With --json they are `problems`, `unchecked` and `findings`, and what --deep notes is `deep`.

Examples:
  carton tensor verify weights.zt
  carton tensor verify model.safetensors.index.json
  carton tensor verify weights.zt --json | jq .findings
  carton tensor verify weights.safetensors --deep";

const DIFF_EXAMPLES: &str = "\
Sources are those of `carton tensor ls`, and may have other formats. Tensors are compared by name; where both sources are one tensor, as an .npy
file or FILE#NAME is, the names do not matter. Tensors of other types are compared by value if some type holds all numbers of both; quantized
groups by the float32 numbers that they represent. NaN equals NaN, and -0.0 equals 0.0.

The exit code is 3 if tensors differ, and 1 if none differs but some could not be compared.

Examples:
  carton tensor diff before.safetensors after.safetensors
  carton tensor diff model.safetensors.index.json model.zt --rtol 1e-3
  carton tensor diff 'old.carton#model/weights.zt#lm_head' lm_head.npy --json";

const CONVERT_EXAMPLES: &str = "\
The extension of OUTPUT gives its format: .safetensors, .zt, .gguf, .npz, or .npy for one tensor. Values that a format cannot hold are
refused. No number changes without --dtype or --dequantize. Blocks of a .gguf file are copied to another one as they are.

Examples:
  carton tensor convert pytorch_model.bin model.safetensors
  carton tensor convert model.safetensors half.safetensors --dtype bf16 --exclude 'lm_head*'
  carton tensor convert model-0000?-of-00004.safetensors model.safetensors
  carton tensor convert model.safetensors sharded/model.safetensors --shard-size 5GB
  carton tensor convert llama.safetensors blk.safetensors --rename 's/^model\\.layers\\.([0-9]+)/blk.\\1/'
  carton tensor convert model.safetensors.index.json model.zt --zstd 3 --digest sha256
  carton tensor convert model.carton cases.npz
  carton tensor convert weights.zt layer0.safetensors --only 'layers.0.*'
  carton tensor convert pruned.safetensors pruned.zt --sparse-below 0.3
  carton tensor convert weights.int8.safetensors groups.zt --quantized-groups --version 1.1
  carton tensor convert named.safetensors model.gguf --dtype q8_0 --metadata general.architecture=llama";

const MERGE_EXAMPLES: &str = "\
The models have the same tensors: a name that one of them lacks is an error, and so is another shape or dtype. Floats are blended in float32, or in
float64 if that is their type, and rounded once. Integers, booleans and floats of 8 bits must be the same in all models.

  linear           w1*A + w2*B + …, divided by w1 + w2 + …
  slerp            from A to B on the arc between them, --t of the way
  task-arithmetic  BASE + lambda * (w1*(A - BASE) + w2*(B - BASE) + …)

With --lora, the weights of one model get what adapters of PEFT add: `adapter_model.safetensors`, with `adapter_config.json` beside it. An adapter
that does more than that, such as DoRA, is refused, and so is one with a tensor that has no place in the model.

Examples:
  carton tensor merge a.safetensors b.safetensors soup.safetensors
  carton tensor merge a.safetensors b.safetensors c.zt mix.safetensors --weights 0.5,0.3,0.2
  carton tensor merge a.safetensors b.safetensors between.safetensors --method slerp --t 0.3
  carton tensor merge math.safetensors code.safetensors both.zt --method task-arithmetic --base base.safetensors --weights 0.4,0.6
  carton tensor merge base.safetensors tuned.safetensors --lora adapter/ --lora-scale 0.8";

const VALIDATE_EXAMPLES: &str = "\
Examples:
  carton tensor validate weights.safetensors --model bitnet-7b
  carton tensor validate weights.zt --model llama.toml --json
  carton tensor validate small.safetensors --model bitnet-7b --size num_layers=12 --size hidden_size=2048";

const QUANTIZE_EXAMPLES: &str = "\
A float tensor NAME becomes two tensors: NAME, its int8 numbers, and NAME.scale, the float64 number that they were multiplied by. With
--per-channel, NAME.scale has a number for each index of axis 0. NaN and infinities become 0 and are counted. Tensors of other dtypes are
written unchanged, and so is what is quantized already with its scales: by GPTQ, AWQ, bitsandbytes and others, numbers of 8 bits or fewer, and
what this command wrote.

Examples:
  carton tensor quantize weights.safetensors weights.int8.safetensors
  carton tensor quantize weights.safetensors weights.int8.safetensors --per-channel --report
  carton tensor quantize weights.zt small.zt --only '*_proj.weight' --zstd 3
  carton tensor quantize weights.safetensors groups.zt --group-size 128 --version 1.1";

/// Where tensors come from.
#[derive(Args, Debug)]
pub(crate) struct SourceArgs {
    /// A tensor file, a carton, or one tensor of either: FILE#NAME
    #[arg(value_name = "SOURCE", value_hint = ValueHint::FilePath)]
    pub(crate) source: PathBuf,

    #[command(flatten)]
    pub(crate) links: LinksArgs,
}

/// Which links to the files of a checkpoint are followed.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct LinksArgs {
    /// Follow links that other users made from the files of a checkpoint to files elsewhere
    #[arg(long)]
    pub(crate) follow_links: bool,
}

impl From<LinksArgs> for FollowLinks {
    fn from(links: LinksArgs) -> Self {
        if links.follow_links { Self::All } else { Self::default() }
    }
}

/// Which tensors.
#[derive(Args, Debug)]
pub(crate) struct OnlyArgs {
    /// Only tensors whose name matches; `*` stands for any characters, `?` for one. May be given several times
    #[arg(long, value_name = "PATTERN")]
    pub(crate) only: Vec<String>,
}

/// How large sparse tensors may become.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct DenseArgs {
    /// The largest size of a sparse tensor when it is made dense, such as `64GB` [default: 4GiB]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub(crate) max_dense: Option<u64>,
}

/// Whether digests are compared.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct DigestsArgs {
    /// Do not compare the digests that a .zt file has with the bytes that are read
    #[arg(long)]
    pub(crate) no_digests: bool,
}

/// Where tensors go, and how they are stored there.
#[derive(Args, Debug)]
pub(crate) struct SinkArgs {
    /// The file to write, replaced if it is there
    #[arg(value_name = "OUTPUT", value_hint = ValueHint::FilePath)]
    pub(crate) output: PathBuf,

    /// Compress with zstd, from 1 (fast) to 22 (small); for .zt
    #[arg(long, value_name = "LEVEL", value_parser = clap::value_parser!(i32).range(1..=22))]
    pub(crate) zstd: Option<i32>,

    /// Store a digest with each tensor; for .zt [default: the digests that a .zt input has]
    #[arg(long, value_name = "ALGORITHM")]
    pub(crate) digest: Option<DigestChoice>,

    /// Write this version of the format, for readers that support no other one; for .zt [default: 1.2]
    #[arg(long, value_name = "VERSION")]
    pub(crate) version: Option<VersionChoice>,

    /// Store a tensor as sparse if less than this share of its elements is not 0, from 0 to 1; for .zt
    ///
    /// A matrix becomes `sparse_csr`, any other tensor `sparse_coo`; -0.0 counts as not 0, and is kept. An index takes 8 bytes, so a
    /// float32 matrix becomes smaller below about 0.33.
    #[arg(long, value_name = "DENSITY", value_parser = density)]
    pub(crate) sparse_below: Option<f64>,
}

/// A type that floats are rounded to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum FloatChoice {
    /// bfloat16: the range of float32 with 8 bits of precision.
    #[value(name = "bf16", alias = "bfloat16")]
    BFloat16,
    /// float16: 11 bits of precision, at most 65504.
    #[value(name = "f16", alias = "float16")]
    Float16,
    /// float32.
    #[value(name = "f32", alias = "float32")]
    Float32,
    /// float8_e4m3fn: 4 bits of precision, at most 448, no infinities.
    #[value(name = "f8_e4m3fn", alias = "float8_e4m3fn")]
    Float8E4m3Fn,
}

impl From<FloatChoice> for FloatType {
    fn from(choice: FloatChoice) -> Self {
        match choice {
            FloatChoice::BFloat16 => Self::BFloat16,
            FloatChoice::Float16 => Self::Float16,
            FloatChoice::Float32 => Self::Float32,
            FloatChoice::Float8E4m3Fn => Self::Float8E4m3Fn,
        }
    }
}

/// What floats become: a type, or blocks of a GGUF file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RoundedChoice {
    Float(FloatChoice),
    Blocks(QuantizedType),
}

impl ValueEnum for RoundedChoice {
    fn value_variants<'a>() -> &'a [Self] {
        &[
            Self::Float(FloatChoice::BFloat16),
            Self::Float(FloatChoice::Float16),
            Self::Float(FloatChoice::Float32),
            Self::Float(FloatChoice::Float8E4m3Fn),
            Self::Blocks(QuantizedType::Q8_0),
            Self::Blocks(QuantizedType::Q4_0),
        ]
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        match self {
            Self::Float(choice) => choice.to_possible_value(),
            Self::Blocks(QuantizedType::Q8_0) => Some(
                PossibleValue::new("q8_0")
                    .alias("Q8_0")
                    .help("Blocks of ggml, for .gguf: 8 bits, and a scale for 32 numbers of a row of a matrix"),
            ),
            Self::Blocks(QuantizedType::Q4_0) => Some(
                PossibleValue::new("q4_0")
                    .alias("Q4_0")
                    .help("Blocks of ggml, for .gguf: 4 bits, and a scale for 32 numbers of a row of a matrix"),
            ),
            Self::Blocks(_) => None,
        }
    }
}

impl From<RoundedChoice> for RoundedType {
    fn from(choice: RoundedChoice) -> Self {
        match choice {
            RoundedChoice::Float(choice) => Self::Float(choice.into()),
            RoundedChoice::Blocks(to) => Self::Blocks(to),
        }
    }
}

/// A version of zTensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum VersionChoice {
    /// For readers that support no later version. It has neither AMD's FP8 types nor the MX types of the OCP.
    #[value(name = "1.1")]
    V1_1,
    /// With all types.
    #[value(name = "1.2")]
    V1_2,
    /// Another container, with dense tensors in canonical form, and none of the other options for .zt.
    #[value(name = "2")]
    V2,
}

impl From<VersionChoice> for ZtensorVersion {
    fn from(choice: VersionChoice) -> Self {
        match choice {
            VersionChoice::V1_1 => Self::V1(Version::V1_1),
            VersionChoice::V1_2 => Self::V1(Version::V1_2),
            VersionChoice::V2 => Self::V2,
        }
    }
}

/// A digest of stored bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum DigestChoice {
    /// Cryptographic: also detects deliberate changes.
    Sha256,
    /// Detects damage only, and is faster.
    Crc32c,
}

impl From<DigestChoice> for DigestAlgorithm {
    fn from(choice: DigestChoice) -> Self {
        match choice {
            DigestChoice::Sha256 => Self::Sha256,
            DigestChoice::Crc32c => Self::Crc32c,
        }
    }
}

/// `carton tensor ls`.
#[derive(Args, Debug)]
pub(crate) struct TensorLsArgs {
    #[command(flatten)]
    pub(crate) source: SourceArgs,
    #[command(flatten)]
    pub(crate) only: OnlyArgs,
}

/// `carton tensor stats`.
#[derive(Args, Debug)]
pub(crate) struct TensorStatsArgs {
    #[command(flatten)]
    pub(crate) source: SourceArgs,
    #[command(flatten)]
    pub(crate) only: OnlyArgs,
    #[command(flatten)]
    pub(crate) dense: DenseArgs,
    #[command(flatten)]
    pub(crate) digests: DigestsArgs,

    /// Draw a histogram of each tensor
    #[arg(long)]
    pub(crate) plot: bool,
}

/// `carton tensor diff`.
#[derive(Args, Debug)]
pub(crate) struct TensorDiffArgs {
    /// The tensors before
    #[arg(value_name = "A", value_hint = ValueHint::FilePath)]
    pub(crate) a: PathBuf,

    /// The tensors after
    #[arg(value_name = "B", value_hint = ValueHint::FilePath)]
    pub(crate) b: PathBuf,

    #[command(flatten)]
    pub(crate) only: OnlyArgs,

    #[command(flatten)]
    pub(crate) elements: ElementDiffArgs,

    /// Read tensors also where both .zt files state the same SHA-256 of their bytes
    #[arg(long)]
    pub(crate) read_all: bool,

    #[command(flatten)]
    pub(crate) links: LinksArgs,
    #[command(flatten)]
    pub(crate) dense: DenseArgs,
    #[command(flatten)]
    pub(crate) digests: DigestsArgs,
}

/// Which numbers count as equal.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct ElementDiffArgs {
    /// Relative tolerance of floats, which are equal if they differ by at most ATOL + RTOL * |number before|. Integers are compared exactly
    #[arg(long, value_name = "R", default_value = "0", value_parser = tolerance)]
    pub(crate) rtol: f64,

    /// Absolute tolerance of floats
    #[arg(long, value_name = "A", default_value = "0", value_parser = tolerance)]
    pub(crate) atol: f64,
}

/// `carton tensor cat`.
#[derive(Args, Debug)]
pub(crate) struct TensorCatArgs {
    #[command(flatten)]
    pub(crate) source: SourceArgs,
    #[command(flatten)]
    pub(crate) dense: DenseArgs,
    #[command(flatten)]
    pub(crate) digests: DigestsArgs,

    /// The tensor; may be left out if there is only one
    #[arg(value_name = "NAME")]
    pub(crate) name: Option<String>,

    #[command(flatten)]
    pub(crate) elements: ElementsArgs,
}

/// `carton tensor convert`.
#[derive(Args, Debug)]
pub(crate) struct TensorConvertArgs {
    /// Tensor files, cartons, or one tensor of either: FILE#NAME. The tensors of several are joined
    #[arg(value_name = "SOURCE", required = true, value_hint = ValueHint::FilePath)]
    pub(crate) sources: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) links: LinksArgs,
    #[command(flatten)]
    pub(crate) sink: SinkArgs,
    #[command(flatten)]
    pub(crate) only: OnlyArgs,

    /// Leave out tensors whose name matches; `*` stands for any characters, `?` for one. May be given several times
    #[arg(long, value_name = "PATTERN")]
    pub(crate) exclude: Vec<String>,

    /// Change names by a substitution like those of `sed -E`, such as 's/^model\.//'. May be given several times
    #[arg(long, value_name = "s/REGEX/TEXT/", value_parser = Rename::from_str)]
    pub(crate) rename: Vec<Rename>,

    /// Round floats to this type, to the nearest number; of two, to the even one. Integers stay, and what is quantized already
    #[arg(long, value_name = "DTYPE")]
    pub(crate) dtype: Option<RoundedChoice>,

    /// Write the largest number of the type in place of numbers beyond it, which are an error otherwise
    #[arg(long, requires = "dtype")]
    pub(crate) saturate: bool,

    /// Write files of at most this size, such as `5GB`, and an index of them; for .safetensors
    ///
    /// NAME.safetensors becomes NAME-00001-of-00002.safetensors and so on, with NAME.safetensors.index.json, as transformers writes
    /// checkpoints. If all fits, NAME.safetensors is written. A tensor that is larger has a file of its own.
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub(crate) shard_size: Option<u64>,

    /// Set a text of the metadata; for .safetensors, .zt and .gguf. May be given several times
    #[arg(long, value_name = "KEY=VALUE", value_parser = key_and_value)]
    pub(crate) metadata: Vec<(String, String)>,

    /// Leave out the metadata of the sources
    #[arg(long)]
    pub(crate) no_metadata: bool,

    #[command(flatten)]
    pub(crate) dense: DenseArgs,

    /// Write the numbers that quantized tensors stand for: groups of a .zt file, blocks of a .gguf file, GPTQ, AWQ, FP8 and others
    ///
    /// Several tensors that a library of quantization stores for one, which `tensor ls` shows, become that one, in the type that the library computes.
    /// --only, --exclude and --rename then see its name. The numbers of groups and blocks are float32.
    #[arg(long)]
    pub(crate) dequantize: bool,

    /// Make a quantized group of each int8 matrix NAME and its scale NAME.scale, as `tensor quantize` writes them; for .zt
    ///
    /// Each integer gets 2, 4 or 8 bits, the fewest that hold all integers of its matrix. The group multiplies by 1 / NAME.scale, rounded
    /// to float32.
    #[arg(long, conflicts_with = "dequantize")]
    pub(crate) quantized_groups: bool,
}

/// `carton tensor merge`.
#[derive(Args, Debug)]
pub(crate) struct TensorMergeArgs {
    /// The models: tensor files and checkpoints, as for `carton tensor ls`
    #[arg(value_name = "MODEL", required = true, value_hint = ValueHint::FilePath)]
    pub(crate) models: Vec<PathBuf>,

    #[command(flatten)]
    pub(crate) links: LinksArgs,

    #[command(flatten)]
    pub(crate) sink: SinkArgs,

    /// How the models become one
    #[arg(long, value_name = "METHOD", default_value = "linear")]
    pub(crate) method: MethodChoice,

    /// A weight for each model [default: 1 for each]
    #[arg(long, value_name = "W,W…", value_delimiter = ',', allow_negative_numbers = true)]
    pub(crate) weights: Vec<f64>,

    /// Whether to divide by the sum of the weights [default: true for linear, false for task-arithmetic]
    #[arg(long, value_name = "BOOL")]
    pub(crate) normalize: Option<bool>,

    /// Where between the first model, 0, and the second one, 1; for slerp
    #[arg(long, value_name = "T", allow_negative_numbers = true)]
    pub(crate) t: Option<f64>,

    /// The model that the others were made of; for task-arithmetic
    #[arg(long, value_name = "MODEL", value_hint = ValueHint::FilePath)]
    pub(crate) base: Option<PathBuf>,

    /// A factor of the sum of the differences; for task-arithmetic [default: 1]
    #[arg(long, value_name = "L", allow_negative_numbers = true)]
    pub(crate) lambda: Option<f64>,

    /// Merge this adapter of PEFT into the model: its folder, or its file of tensors. May be given several times
    #[arg(
        long,
        value_name = "ADAPTER",
        value_hint = ValueHint::AnyPath,
        conflicts_with_all = ["method", "weights", "normalize", "t", "base", "lambda"]
    )]
    pub(crate) lora: Vec<PathBuf>,

    /// A factor of what each adapter adds [default: 1 for each]
    #[arg(long, value_name = "S,S…", value_delimiter = ',', requires = "lora", allow_negative_numbers = true)]
    pub(crate) lora_scale: Vec<f64>,

    /// The type of the floats that are written [default: that of the models]
    #[arg(long, value_name = "DTYPE")]
    pub(crate) dtype: Option<FloatChoice>,

    #[command(flatten)]
    pub(crate) dense: DenseArgs,
}

/// How models become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum MethodChoice {
    /// The weighted mean.
    Linear,
    /// Spherical interpolation between two models.
    Slerp,
    /// A base, and weighted differences from it.
    TaskArithmetic,
}

impl From<MethodChoice> for MethodKind {
    fn from(choice: MethodChoice) -> Self {
        match choice {
            MethodChoice::Linear => Self::Linear,
            MethodChoice::Slerp => Self::Slerp,
            MethodChoice::TaskArithmetic => Self::TaskArithmetic,
        }
    }
}

/// `carton tensor verify`.
#[derive(Args, Debug)]
pub(crate) struct TensorVerifyArgs {
    #[command(flatten)]
    pub(crate) source: SourceArgs,

    /// Read the numbers too, and note NaN, infinities, tensors whose elements are all equal, and tensors with the same bytes
    #[arg(long)]
    pub(crate) deep: bool,
}

/// `carton tensor validate`.
#[derive(Args, Debug)]
pub(crate) struct TensorValidateArgs {
    #[command(flatten)]
    pub(crate) source: SourceArgs,
    #[command(flatten)]
    pub(crate) dense: DenseArgs,
    #[command(flatten)]
    pub(crate) digests: DigestsArgs,

    /// The expected model: `bitnet-7b`, or a description in a TOML file
    #[arg(long, value_name = "NAME|FILE.toml")]
    pub(crate) model: String,

    /// Override one of the sizes that the description names, for a smaller or larger model. May be given several times
    #[arg(long, value_name = "NAME=NUMBER", value_parser = named_size)]
    pub(crate) size: Vec<(String, usize)>,
}

/// `carton tensor quantize`.
#[derive(Args, Debug)]
pub(crate) struct TensorQuantizeArgs {
    #[command(flatten)]
    pub(crate) source: SourceArgs,
    #[command(flatten)]
    pub(crate) sink: SinkArgs,

    /// Give each output channel its own scale: each index of axis 0 of tensors with two dimensions or more
    ///
    /// For normally distributed weights and channels of some thousands of numbers, this loses less than 1 %; one scale per tensor loses
    /// about 1.2 %. --report shows the actual loss.
    #[arg(long)]
    pub(crate) per_channel: bool,

    /// Make a quantized group of each matrix instead, with one scale for this many rows of each column; for .zt
    ///
    /// Applies to matrices whose number of rows is a multiple of 4; others become int8 with their scale beside them. Groups of 128 rows
    /// lose less than scales of channels. Readers of groups multiply by float32 scales.
    #[arg(long, value_name = "ROWS", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) group_size: Option<u64>,

    /// Report what was lost, for each tensor and for all: the norm of the differences divided by that of the numbers, and the largest
    /// difference
    #[arg(long)]
    pub(crate) report: bool,

    /// Quantize only tensors whose name matches, and write the others unchanged; `*` stands for any characters
    #[arg(long, value_name = "PATTERN")]
    pub(crate) only: Vec<String>,

    #[command(flatten)]
    pub(crate) dense: DenseArgs,
}
