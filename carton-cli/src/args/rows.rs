//! The options of `carton run` for tables.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use arrow_schema::TimeUnit;
use carton_rows::{MAX_WORKERS, Nulls};
use clap::{Args, ValueEnum, ValueHint};

use super::dataset::Columns;
use super::values::{ColumnArgument, positive_size};

/// The table that a model is run on, and its columns.
#[derive(Args, Debug)]
#[command(next_help_heading = "Tables")]
pub(crate) struct RowsArgs {
    /// Run the model on each row of Parquet and Arrow files, and write the outputs as a table to --output; `-` is a stream on standard
    /// input. A folder is the table of its files, in the order of their names, without those that begin with `_` or `.`. May be given
    /// several times
    #[arg(long, value_name = "FILE", conflicts_with_all = ["compared", "cast"], requires = "outputs", value_hint = ValueHint::AnyPath)]
    pub(crate) rows: Vec<PathBuf>,

    /// The column of an input, if it has another name than the input
    #[arg(long, value_name = "INPUT=COLUMN", requires = "rows")]
    pub(crate) input_column: Vec<ColumnArgument>,

    /// The column of an output. Outputs without this option are then left out [default: all outputs, under their names]
    #[arg(long, value_name = "OUTPUT=COLUMN", requires = "rows")]
    pub(crate) output_column: Vec<ColumnArgument>,

    /// Write these columns of the table too; `*` means all of them, and an empty list none [default: all columns that are not inputs]
    #[arg(long, value_name = "A,B", requires = "rows")]
    pub(crate) keep: Option<Columns>,

    /// What missing values of a column become: NaN where the input is a float; without the option they are an error
    #[arg(long, value_name = "VALUE", requires = "rows", value_enum)]
    pub(crate) null: Option<NullArgument>,

    /// Count dates, timestamps, times of day and durations in this unit: dates and timestamps from 1970-01-01 (UTC), times of day from midnight;
    /// without the option they are an error
    #[arg(long, value_name = "UNIT", requires = "rows", value_enum)]
    pub(crate) times: Option<UnitArgument>,

    /// The number of runner processes that work at the same time, at most 1024 [default: 1]
    #[arg(long, value_name = "N", requires = "rows", allow_negative_numbers = true, value_parser = workers)]
    pub(crate) workers: Option<NonZeroUsize>,

    /// The most rows in a call of the model [default: 1024, or the number that the carton declares]
    #[arg(long, value_name = "ROWS", requires = "rows", allow_negative_numbers = true)]
    pub(crate) batch_size: Option<NonZeroUsize>,

    /// The most bytes of inputs in a call of the model, such as `64MiB` [default: 16MiB]
    #[arg(long, value_name = "SIZE", requires = "rows", value_parser = positive_size)]
    pub(crate) batch_bytes: Option<NonZeroUsize>,
}

/// What missing values become.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum NullArgument {
    /// They become NaN
    Nan,
}

impl From<NullArgument> for Nulls {
    fn from(argument: NullArgument) -> Self {
        match argument {
            NullArgument::Nan => Self::Nan,
        }
    }
}

/// A unit of time.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum UnitArgument {
    /// Seconds
    S,
    /// Milliseconds
    Ms,
    /// Microseconds
    Us,
    /// Nanoseconds
    Ns,
}

impl From<UnitArgument> for TimeUnit {
    fn from(argument: UnitArgument) -> Self {
        match argument {
            UnitArgument::S => Self::Second,
            UnitArgument::Ms => Self::Millisecond,
            UnitArgument::Us => Self::Microsecond,
            UnitArgument::Ns => Self::Nanosecond,
        }
    }
}

/// Parses the number of workers, so that too many are refused before the model is loaded.
fn workers(text: &str) -> Result<NonZeroUsize, String> {
    match text.parse::<NonZeroUsize>() {
        Ok(n_workers) if n_workers.get() <= MAX_WORKERS => Ok(n_workers),
        _ => Err(format!("expected a number from 1 to {MAX_WORKERS}")),
    }
}
