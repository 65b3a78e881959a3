//! `carton dataset …`.

use std::collections::BTreeMap;
use std::fmt;
use std::num::{NonZeroU32, NonZeroUsize};
use std::path::PathBuf;

use carton_tensor::files::ElementType;
use carton_tensor::safetensors::parse_dtype;
use clap::{ArgGroup, Args, Subcommand, ValueEnum, ValueHint};
use serde::Deserializer;
use serde::de::{Error, MapAccess, Visitor};
use uuid::Uuid;

use super::elements::ElementsArgs;

/// `carton dataset …`.
#[derive(Debug, Subcommand)]
pub(crate) enum DatasetCommand {
    /// Write the rows of Parquet and Arrow files as a dataset
    #[command(
        after_long_help = WRITE_EXAMPLES,
        override_usage = "carton dataset write [OPTIONS] <--batch-size <N>|--name-col <NAME>> <INPUT>... <OUT>"
    )]
    Write(Box<DatasetWriteArgs>),
    /// Commit what tasks have written as one dataset, or make a manifest for shards that have none
    #[command(after_long_help = MERGE_EXAMPLES)]
    Merge(DatasetMergeArgs),
    /// List the shards of a dataset, or its tensors
    #[command(visible_alias = "list")]
    Ls(DatasetLsArgs),
    /// Check that every shard exists, is complete, and agrees with the manifest and the index
    Verify(DatasetVerifyArgs),
    /// Print the elements of a tensor
    #[command(after_long_help = CAT_EXAMPLES)]
    Cat(DatasetCatArgs),
}

const WRITE_EXAMPLES: &str = "\
With --batch-size, that many rows become one shard, with one tensor per column of shape [rows, *shape of a sample]. With --name-col,
each row becomes tensors of its own, named NAME__COLUMN, and a shard is closed when it is large enough.

Options for the other mode are ignored with a warning, as the Spark connector does.

Numbers keep their type unless --dtype gives another; binary columns need a dtype. Lists are vectors unless --shapes gives a shape.
A column of structs {data, shape, dtype} has both for each row.

Several programs can write one dataset: each writes with a --task of its own, and `carton dataset merge` commits what they wrote.

Examples:
  carton dataset write train.parquet dataset/ --batch-size 64 --shapes '{\"image\": [3, 224, 224]}'
  carton dataset write embeddings.parquet dataset/ --name-col id --dtype BF16 --generate-index
  producer | carton dataset write - dataset/ --batch-size 256 --task 3 --json";

const MERGE_EXAMPLES: &str = "\
One attempt of each task counts: exactly those of --attempts, or else the complete ones, if the choice is clear. No file has its
final name before this, and the manifest is written last. A merge that was killed is finished by the next one.

A folder with shards and no tasks, such as shards copied from many machines, gets a manifest of these shards. Shards written by this
command record their number of samples. For other shards, such as those of the Spark connector, give --batch-size N if their tensors
are columns of N rows, or --kv-separator S if tensors are named after rows, NAME S COLUMN without the spaces. With --overwrite, the
existing manifest has the numbers.

Examples:
  carton dataset merge copied/ --kv-separator __
  carton dataset merge dataset/ --tasks 16 --generate-index
  carton dataset merge dataset/ --attempts - < attempts.txt";

const CAT_EXAMPLES: &str = "\
Examples:
  carton dataset cat dataset/ sample-17__image --slice 0,:8,:8
  carton dataset cat dataset/ label --shard 2 --first 10
  carton dataset cat dataset/ sample-17__image --npy > image.npy";

/// The folder of a dataset.
#[derive(Args, Debug)]
pub(crate) struct DatasetArgs {
    /// The folder of the dataset
    #[arg(value_name = "DATASET", value_hint = ValueHint::DirPath)]
    pub(crate) dataset: PathBuf,
}

/// `carton dataset write`.
#[derive(Args, Debug)]
#[command(group = ArgGroup::new("mode").required(true).args(["batch_size", "name_col"]))]
pub(crate) struct DatasetWriteArgs {
    /// Files of rows: Parquet, Arrow IPC files, Arrow IPC streams; `-` is a stream on standard input, and a folder stands for its files,
    /// in the order of their names, without those that begin with `_` or `.`. The last path is OUT, the folder to write into
    // One list, because the parser would take the last path before an option for OUT.
    #[arg(value_name = "INPUT", required = true, num_args = 1.., value_hint = ValueHint::AnyPath)]
    pub(crate) paths: Vec<PathBuf>,

    /// Make a shard of every N rows, with one tensor per column
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub(crate) batch_size: Option<NonZeroUsize>,

    /// Make tensors of every row, named after its value in this column. Spaces around the name are ignored
    #[arg(long, value_name = "NAME")]
    pub(crate) name_col: Option<String>,

    /// Write only these columns. Spaces around names are ignored
    #[arg(long, value_name = "A,B")]
    pub(crate) columns: Option<Columns>,

    /// The type of the elements, as safetensors names it (F32, BF16, …); `COLUMN=F32` for one column. May be given several times
    #[arg(long, value_name = "[COLUMN=]DTYPE")]
    pub(crate) dtype: Vec<DtypeArgument>,

    /// The shape of a sample of each column, as JSON: {"image": [3, 224, 224]}
    #[arg(long, value_name = "JSON", value_parser = shapes)]
    pub(crate) shapes: Option<Shapes>,

    /// What to do with the last rows when they do not fill a batch [default: write]
    #[arg(long, value_name = "STRATEGY", ignore_case = true)]
    pub(crate) tail_strategy: Option<TailChoice>,

    /// The separator between the names of row and column [default: __]
    #[arg(long, value_name = "S", allow_hyphen_values = true)]
    pub(crate) kv_separator: Option<String>,

    /// The target size of shards in MiB, 50 to 1000 [default: 300]
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = clap::value_parser!(u64).range(50..=1000))]
    pub(crate) target_shard_size_mb: Option<u64>,

    /// What to do when two rows have the same name [default: fail]
    #[arg(long, value_name = "WHAT", ignore_case = true, alias = "duplicates-strategy")]
    pub(crate) duplicates: Option<DuplicatesChoice>,

    /// How to round floats to F16 and BF16; `truncate` is what the Spark connector does
    #[arg(long, value_name = "HOW", default_value = "nearest-even", ignore_case = true)]
    pub(crate) rounding: RoundingChoice,

    /// Write an index of all tensors as well, _tensor_index.parquet: a folder, which Spark reads, or a file
    #[arg(
        long,
        value_name = "WHAT",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "folder",
        ignore_case = true,
        conflicts_with = "task"
    )]
    pub(crate) generate_index: Option<IndexChoice>,

    /// Write task N of many, without committing it: `carton dataset merge` does that
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub(crate) task: Option<u32>,

    /// The job that the task belongs to. It tells attempts of this job from those of an earlier, failed one; any complete attempt of the
    /// job counts
    #[arg(long, value_name = "UUID", requires = "task")]
    pub(crate) job: Option<Uuid>,

    /// Replace an existing dataset in the folder
    #[arg(long)]
    pub(crate) overwrite: bool,
}

/// `carton dataset merge`.
#[derive(Args, Debug)]
pub(crate) struct DatasetMergeArgs {
    #[command(flatten)]
    pub(crate) dataset: DatasetArgs,

    /// The attempts that count, as `write --task` printed them; `-` reads them from standard input, one per line
    #[arg(long, value_name = "UUID,…", value_delimiter = ',')]
    pub(crate) attempts: Option<Vec<String>>,

    /// The number of tasks, numbered from 0. Without it, a missing last task is not noticed
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub(crate) tasks: Option<NonZeroU32>,

    /// For shards without metadata: their tensors hold columns of N rows each, or fewer in the last shard of a task
    #[arg(long, value_name = "N", allow_negative_numbers = true, conflicts_with = "kv_separator")]
    pub(crate) batch_size: Option<NonZeroUsize>,

    /// For shards without metadata: their tensors belong to one row each, with this separator between the names of row and column
    #[arg(long, value_name = "S", allow_hyphen_values = true)]
    pub(crate) kv_separator: Option<String>,

    /// The columns that follow the separator [default: inferred as what the names of all rows have in common]
    #[arg(long, value_name = "A,B", requires = "kv_separator")]
    pub(crate) columns: Option<Columns>,

    /// What to do when two of these shards have the same name [default: fail]
    #[arg(long, value_name = "WHAT", ignore_case = true, alias = "duplicates-strategy", requires = "kv_separator")]
    pub(crate) duplicates: Option<DuplicatesChoice>,

    /// Write an index of all tensors as well, _tensor_index.parquet: a folder, which Spark reads, or a file
    #[arg(
        long,
        value_name = "WHAT",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "folder",
        ignore_case = true
    )]
    pub(crate) generate_index: Option<IndexChoice>,

    /// Replace an existing dataset in the folder
    #[arg(long)]
    pub(crate) overwrite: bool,
}

/// `carton dataset ls`.
#[derive(Args, Debug)]
pub(crate) struct DatasetLsArgs {
    #[command(flatten)]
    pub(crate) dataset: DatasetArgs,

    /// List the tensors, and the shard of each
    #[arg(long)]
    pub(crate) tensors: bool,
}

/// `carton dataset verify`.
#[derive(Args, Debug)]
pub(crate) struct DatasetVerifyArgs {
    #[command(flatten)]
    pub(crate) dataset: DatasetArgs,

    /// Compare only the files' sizes, and open none of them
    #[arg(long)]
    pub(crate) sizes: bool,
}

/// `carton dataset cat`.
#[derive(Args, Debug)]
pub(crate) struct DatasetCatArgs {
    #[command(flatten)]
    pub(crate) dataset: DatasetArgs,

    /// The tensor's name
    #[arg(value_name = "KEY")]
    pub(crate) key: String,

    /// The shard to look into, by its name or its number in `carton dataset ls`, from 0
    #[arg(long, value_name = "SHARD")]
    pub(crate) shard: Option<String>,

    #[command(flatten)]
    pub(crate) elements: ElementsArgs,
}

/// `--tail-strategy`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum TailChoice {
    /// Leave them out
    Drop,
    /// Add rows of zeros
    Pad,
    /// Write a smaller shard
    Write,
}

/// `--duplicates`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum DuplicatesChoice {
    /// Write nothing
    Fail,
    /// Keep the last row of each shard
    #[value(alias = "lastWin")]
    LastWin,
}

/// `--generate-index`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum IndexChoice {
    /// A folder that contains a Parquet file: for Spark, pyarrow and others
    Folder,
    /// A Parquet file: for programs that open nothing else, such as the Python class of the Spark connector
    File,
}

/// `--columns A,B`: names as they were given, with the spaces around them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Columns(Vec<String>);

impl Columns {
    /// Returns the names, each as it was given if such a column exists, else without the spaces around it.
    pub(crate) fn names(&self, exists: impl Fn(&str) -> bool) -> Vec<String> {
        let names = self.0.iter().map(|given| column_name(given, &exists));
        names.filter(|name| !name.is_empty()).map(str::to_owned).collect()
    }
}

impl std::str::FromStr for Columns {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(Self(text.split(',').map(str::to_owned).collect()))
    }
}

/// Returns the name of a column as it was given if such a column exists, else without the spaces around it.
pub(crate) fn column_name(given: &str, exists: impl Fn(&str) -> bool) -> &str {
    if exists(given) { given } else { given.trim() }
}

/// `--rounding`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum RoundingChoice {
    /// To the nearest, as NumPy and PyTorch do
    NearestEven,
    /// Cut off the lower bits
    Truncate,
}

/// `--dtype [COLUMN=]DTYPE`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DtypeArgument {
    /// The column; all columns if `None`.
    pub(crate) column: Option<String>,
    /// The element type.
    pub(crate) dtype: ElementType,
}

impl std::str::FromStr for DtypeArgument {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        // The name of a column may contain `=`, that of a dtype cannot.
        let (column, name) = match text.rsplit_once('=') {
            Some((column, name)) => (Some(column.trim().to_owned()), name),
            None => (None, text),
        };
        let dtype = parse_dtype(&name.trim().to_ascii_uppercase())
            .ok_or("expected a dtype of safetensors such as F32, F16, BF16, I64 or U8")?;
        Ok(Self { column, dtype })
    }
}

/// `--shapes`.
pub(crate) type Shapes = BTreeMap<String, Vec<usize>>;

fn shapes(text: &str) -> Result<Shapes, String> {
    let mut json = serde_json::Deserializer::from_str(text);
    let shapes = json.deserialize_map(ShapesVisitor).and_then(|shapes| json.end().map(|()| shapes));
    shapes.map_err(|error| format!("expected JSON such as {{\"image\": [3, 224, 224]}}: {error}"))
}

/// Refuses duplicate columns, of which the map's own deserializer would keep the last.
struct ShapesVisitor;

impl<'de> Visitor<'de> for ShapesVisitor {
    type Value = Shapes;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a map of shapes")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Shapes, A::Error> {
        let mut shapes = Shapes::new();
        while let Some(column) = map.next_key::<String>()? {
            if shapes.contains_key(&column) {
                return Err(A::Error::custom(format_args!("column `{}` is given twice", column.escape_debug())));
            }
            shapes.insert(column, map.next_value()?);
        }
        Ok(shapes)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn dtypes() {
        let check = |text: &str, expected: Option<(Option<&str>, ElementType)>| {
            let expected = expected.map(|(column, dtype)| DtypeArgument { column: column.map(str::to_owned), dtype });
            assert_eq!(text.parse().ok(), expected, "{text}");
        };
        check("F32", Some((None, ElementType::Float32)));
        check("image=BF16", Some((Some("image"), ElementType::BFloat16)));
        check("a=b=I64", Some((Some("a=b"), ElementType::Int64)));
        check(" image = bf16 ", Some((Some("image"), ElementType::BFloat16)));
        check("f32", Some((None, ElementType::Float32)));
        check("float32", None);
        check("image=", None);
        check("", None);
    }

    #[test]
    fn columns_have_no_spaces_around_them_unless_they_exist() {
        let check = |text: &str, expected: &[&str]| {
            let names = text.parse::<Columns>().unwrap().names(|name| name == " e ");
            assert_eq!(names, expected, "{text}");
        };
        check("a,b", &["a", "b"]);
        check(" a, b c ,", &["a", "b c"]);
        check(" e , e,e ", &[" e ", "e", "e"]);
        check("", &[]);
    }

    #[test]
    fn shapes_of_samples() {
        assert_eq!(shapes(r#"{"image": [3, 2], "label": []}"#).unwrap()["image"], [3, 2]);
        assert!(shapes("[3, 2]").is_err());
        assert!(shapes(r#"{"image": [-1]}"#).is_err());
        assert!(shapes(r#"{"image": [1]} {}"#).is_err());
        let twice = shapes(r#"{"image": [3, 2], "label": [], "image": [6]}"#).unwrap_err();
        assert!(twice.contains("column `image` is given twice"), "{twice}");
    }
}
