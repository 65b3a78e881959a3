//! Errors of mapping rows.

use std::error::Error;
use std::io;
use std::path::{Path, PathBuf};

use arrow_schema::ArrowError;
use carton_core::signature::Side;
use carton_core::{DataType, ErrorKind};
use carton_dataset::{ColumnProblem, DatasetError, InputError};
use carton_tensor::context::Cancelled;
use parquet::errors::ParquetError;

/// An error of mapping rows.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RowsError {
    /// The model has no input or output of a name that the caller gave.
    #[error("the model has no {side} `{name}`; it has {}", list(.names))]
    NoTensor {
        /// Which of the two.
        side: Side,
        /// The name, escaped.
        name: String,
        /// The names that exist, escaped.
        names: Vec<String>,
    },
    /// An input that the model requires has neither a column nor a value for all rows.
    #[error("input `{name}` has no column; the columns are {}", list(.columns))]
    NoColumn {
        /// The input, escaped.
        name: String,
        /// The columns that exist, escaped.
        columns: Vec<String>,
    },
    /// No input comes from a column.
    #[error("no input of the model is a column")]
    NoInputs,
    /// An input gets a column and a value for all rows.
    #[error("input `{name}` is given twice: as a column and as a value for all rows")]
    InputTwice {
        /// The input, escaped.
        name: String,
    },
    /// A tensor without dimensions has no rows.
    #[error("{side} `{name}` is a scalar: it has no dimension for rows")]
    Scalar {
        /// Input or output.
        side: Side,
        /// Its name, escaped.
        name: String,
    },
    /// The carton declares different numbers of rows for its inputs.
    #[error("the inputs take calls of {first} and of {second} rows")]
    FixedRows {
        /// The number of rows that one input declares.
        first: usize,
        /// That of another.
        second: usize,
    },
    /// The carton declares an input without rows.
    #[error("input `{name}` takes calls of 0 rows")]
    NoRows {
        /// The input, escaped.
        name: String,
    },
    /// Two columns of the result have the same name.
    #[error("there are two columns `{column}` in the result")]
    TwoColumns {
        /// The name, escaped.
        column: String,
        /// How many columns of that name are kept: 0 if both are outputs, 1 if one of them is.
        n_kept: usize,
    },
    /// More workers are asked for than [`MAX_WORKERS`](crate::MAX_WORKERS).
    #[error("{found} workers, expected at most {most}")]
    TooManyWorkers {
        /// The number that the caller gave.
        found: usize,
        /// The largest number.
        most: usize,
    },
    /// The model declares no outputs and there are no rows, so that the columns of the result are unknown.
    #[error("the columns of the result are unknown: the carton does not declare its outputs, and there are no rows")]
    UnknownOutputs,
    /// A column, or one of its values, cannot become an input.
    #[error(transparent)]
    Column(Box<DatasetError>),
    /// Values of a column's type cannot become the input.
    #[error("column `{column}`: values of type {found} cannot become input `{input}`, which takes {expected}")]
    Type {
        /// The column, escaped.
        column: String,
        /// The input, escaped.
        input: String,
        /// The declared dtype, or the dtypes of cartons if none is declared.
        expected: String,
        /// The Arrow type of the column.
        found: String,
    },
    /// Values that no tensor has, such as dates.
    #[error("column `{column}`: values of type {found} cannot become input `{input}`")]
    Unfit {
        /// The column, escaped.
        column: String,
        /// The input, escaped.
        input: String,
        /// The Arrow type of the column.
        found: String,
        /// What to do about it.
        advice: &'static str,
    },
    /// A value is missing.
    #[error("row {row} of column `{column}`")]
    Null {
        /// The row, counted from 0 over all rows.
        row: u64,
        /// The column, escaped.
        column: String,
        /// The input, escaped.
        input: String,
        /// Whether it could become NaN by [`Nulls::Nan`](crate::Nulls::Nan).
        may_be_nan: bool,
        /// That it is null.
        #[source]
        problem: Box<ColumnProblem>,
    },
    /// An input or output of complex numbers, which Arrow lacks.
    #[error("{side} `{name}` is {dtype}: tables have no complex numbers")]
    Complex {
        /// Input or output.
        side: Side,
        /// Its name, escaped.
        name: String,
        /// Its dtype.
        dtype: DataType,
    },
    /// A column of booleans for an input of bytes, which are numbers to the model.
    #[error("column `{column}`: booleans cannot become input `{input}`, which takes uint8")]
    Bools {
        /// The column, escaped.
        column: String,
        /// The input, escaped.
        input: String,
    },
    /// The values of a column have another shape than the carton declares.
    #[error("row {row} of column `{column}` has shape {found:?}, expected {expected} for input `{input}`")]
    Shape {
        /// The row, counted from 0 over all rows.
        row: u64,
        /// The column, escaped.
        column: String,
        /// The input, escaped.
        input: String,
        /// The declared shape of a row.
        expected: String,
        /// The shape of the row.
        found: Vec<usize>,
    },
    /// A record batch has other columns than the schema of the table.
    #[error("a record batch has other columns than the schema says")]
    OtherColumns,
    /// Rows are pushed after the end of the rows, or after an error.
    #[error("rows come after the last one")]
    Ended,
    /// An output is not one value for each row.
    #[error("output `{output}` has shape {shape:?} for {n_rows} rows: it has no value for each row")]
    NotByRow {
        /// The output, escaped.
        output: String,
        /// Its shape; empty for a ragged tensor.
        shape: Vec<usize>,
        /// The number of rows of the call.
        n_rows: usize,
    },
    /// The model did not return an output.
    #[error("the model returned no output `{output}`")]
    NotReturned {
        /// The output, escaped.
        output: String,
    },
    /// The model did not return an optional output, and nothing says what its column is.
    #[error(
        "the model did not return the optional output `{output}`, and the carton does not declare the type of its column"
    )]
    UnknownColumn {
        /// The output, escaped.
        output: String,
    },
    /// An output has another dtype or other dimensions than in the calls before.
    #[error("output `{output}` became {found}, expected {expected} as before")]
    OtherOutput {
        /// The output, escaped.
        output: String,
        /// The Arrow type of its column.
        expected: String,
        /// The Arrow type that it has now.
        found: String,
    },
    /// A call returned other outputs than the calls before.
    #[error("the model returned the outputs {}, expected {} as before", list(.found), list(.expected))]
    OtherOutputs {
        /// The outputs of the calls before, escaped.
        expected: Vec<String>,
        /// The outputs of this call, escaped.
        found: Vec<String>,
    },
    /// A call has more bytes of inputs than is accepted: a row is too large, or the carton declares too many rows.
    #[error("calls of {n_rows} rows take {n_bytes} bytes of inputs, expected at most {most}")]
    LargeCall {
        /// The number of rows of a call.
        n_rows: usize,
        /// The size of its inputs in bytes.
        n_bytes: usize,
        /// The most bytes that are accepted.
        most: usize,
    },
    /// An output cannot be read as its own dtype says.
    #[error("output `{output}` cannot be read as {dtype}")]
    UnreadableOutput {
        /// The output, escaped.
        output: String,
        /// Its dtype.
        dtype: DataType,
    },
    /// The strings of an output, or its bytes, have more bytes in one call than a column can hold.
    #[error("output `{output}` has {n_bytes} bytes of text in one call, more than a column can hold")]
    LargeText {
        /// The output, escaped.
        output: String,
        /// The number of bytes.
        n_bytes: usize,
    },
    /// An output has more elements in one call than a column can hold.
    #[error("output `{output}` has {n_elements} elements in one call, more than a column can hold")]
    LargeOutput {
        /// The output, escaped.
        output: String,
        /// The number of its elements, or of the bytes of its strings.
        n_elements: usize,
    },
    /// The runner for another worker cannot be started.
    #[error("cannot start another runner")]
    Worker(#[source] carton_core::Error),
    /// A call of the model failed with these rows, and with no fewer of them where the model answered with an error.
    #[error("{}", rows_text(*first, *last))]
    Call {
        /// The first row of the call, counted from 0 over all rows.
        first: u64,
        /// The last one.
        last: u64,
        /// The cause.
        #[source]
        source: carton_core::Error,
    },
    /// The rows cannot be read.
    #[error(transparent)]
    Read(Box<dyn Error + Send + Sync>),
    /// The format of the results has no type for a column.
    #[error("column `{column}`: Parquet has no type for {found}")]
    Unwritable {
        /// The column, escaped.
        column: String,
        /// Its Arrow type.
        found: String,
    },
    /// The results cannot be written.
    #[error("cannot write the results")]
    Write(#[source] Box<dyn Error + Send + Sync>),
    /// The results cannot be written to a file.
    #[error("cannot write `{}`", path.display())]
    Output {
        /// The file, as the caller named it.
        path: PathBuf,
        /// The cause.
        #[source]
        source: Box<dyn Error + Send + Sync>,
    },
    /// A thread cannot be started, or ended early.
    #[error("a thread that maps rows")]
    Thread(#[source] io::Error),
    /// The caller cancelled the work.
    #[error("interrupted")]
    Interrupted,
}

impl From<Cancelled> for RowsError {
    fn from(_: Cancelled) -> Self {
        Self::Interrupted
    }
}

impl RowsError {
    /// The kind of the failure, which decides what a caller does about it.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Worker(error) | Self::Call { source: error, .. } => error.kind(),
            Self::Read(error) => kind_of_source(error.as_ref()),
            Self::Output { source, .. } => kind_of_output(source.as_ref()),
            Self::Write(_) | Self::Thread(_) => ErrorKind::Machine,
            Self::Interrupted => ErrorKind::Interrupted,
            Self::NotByRow { .. }
            | Self::NotReturned { .. }
            | Self::OtherOutput { .. }
            | Self::OtherOutputs { .. }
            | Self::UnreadableOutput { .. } => ErrorKind::Model,
            _ => ErrorKind::InvalidInput,
        }
    }

    /// Advice for the user, if there is any.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Worker(error) | Self::Call { source: error, .. } => error.hint(),
            Self::LargeOutput { .. } | Self::LargeText { .. } => Some("smaller calls have smaller outputs".to_owned()),
            Self::NoColumn { .. } => {
                Some("name the column of the input, or give the input one value for all rows".to_owned())
            }
            Self::NoInputs => Some("name the columns of inputs".to_owned()),
            Self::Unfit { advice, .. } => Some((*advice).to_owned()),
            Self::Null { may_be_nan: true, .. } => {
                Some("make NaN of missing values: `--null nan`, in Python `null=\"nan\"`".to_owned())
            }
            Self::Complex { side: Side::Input, .. } => Some("give the input one value for all rows".to_owned()),
            Self::Complex { .. } => Some("name the outputs that become columns, without this one".to_owned()),
            Self::Bools { input, .. } => Some(carton_core::signature::how_to_declare_bools(input)),
            Self::NotByRow { .. } => Some("name the outputs that become columns, without this one".to_owned()),
            Self::TwoColumns { n_kept: 0, .. } => Some("give one of the outputs another column".to_owned()),
            Self::TwoColumns { n_kept: 1, .. } => {
                Some("give the output another column, or do not keep that column".to_owned())
            }
            Self::TwoColumns { .. } => Some("name the columns that are kept, without these".to_owned()),
            Self::Scalar { side: Side::Input, .. } => Some("give the input one value for all rows".to_owned()),
            _ => None,
        }
    }

    /// Adds the path of the output to an error of writing it. Other errors stay as they are.
    #[must_use]
    pub fn at_output(self, path: &Path) -> Self {
        match self {
            Self::Write(source) => Self::Output { path: path.to_owned(), source },
            other => other,
        }
    }

    /// Makes the error for rows that cannot be written.
    pub(crate) fn write(source: impl Into<WriteError>) -> Self {
        Self::Write(source.into().0)
    }
}

/// The reason why rows cannot be written: the error of the operating system, without the wrapper of a format, where there is one.
pub(crate) struct WriteError(Box<dyn Error + Send + Sync>);

impl From<ArrowError> for WriteError {
    fn from(error: ArrowError) -> Self {
        match error {
            ArrowError::IoError(_, source) => Self(Box::new(source)),
            other => Self(Box::new(other)),
        }
    }
}

impl From<ParquetError> for WriteError {
    fn from(error: ParquetError) -> Self {
        match error {
            ParquetError::External(source) => Self(source),
            other => Self(Box::new(other)),
        }
    }
}

impl From<DatasetError> for RowsError {
    fn from(error: DatasetError) -> Self {
        Self::Column(Box::new(error))
    }
}

/// An error of reading is the machine's if the operating system caused it, the caller's if there is no such file, else the file's.
/// The rows of a call, in the words of an error.
fn rows_text(first: u64, last: u64) -> String {
    if first == last { format!("row {first}") } else { format!("rows {first} to {last}") }
}

fn kind_of_source(error: &(dyn Error + 'static)) -> ErrorKind {
    let transparent = error.downcast_ref().and_then(|error| match error {
        // The system's error is not among its sources.
        DatasetError::Input { source: InputError::Io(error), .. } => Some(error),
        _ => None,
    });
    let sources = std::iter::successors(Some(error), |&error| error.source());
    let system = transparent.or_else(|| sources.filter_map(|error| error.downcast_ref::<io::Error>()).next());
    match system.map(io::Error::kind) {
        Some(io::ErrorKind::NotFound | io::ErrorKind::IsADirectory) => ErrorKind::InvalidInput,
        // Parsers report truncated and corrupt files as errors of reading.
        Some(io::ErrorKind::UnexpectedEof | io::ErrorKind::InvalidData) => ErrorKind::Integrity,
        None if error.is::<DatasetError>() => ErrorKind::Integrity,
        // The source is not a file.
        None => ErrorKind::Other,
        Some(_) => ErrorKind::Machine,
    }
}

/// An output that cannot be written is the caller's fault if its folder does not exist or something else has its name.
fn kind_of_output(error: &(dyn Error + 'static)) -> ErrorKind {
    use io::ErrorKind as Io;
    match error.downcast_ref::<io::Error>().map(io::Error::kind) {
        Some(Io::NotFound | Io::NotADirectory | Io::InvalidInput) => ErrorKind::InvalidInput,
        _ => ErrorKind::Machine,
    }
}

fn list(names: &[String]) -> String {
    match names {
        [] => "none".to_owned(),
        names => names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", "),
    }
}

pub(crate) fn escaped(name: &str) -> String {
    name.escape_debug().to_string()
}
