//! `carton run --rows`: runs a model on the rows of a table.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::time::Instant;

use arrow_array::RecordBatch;
use arrow_schema::Schema;
use carton_core::signature::Side;
use carton_core::{Carton, ErrorKind, Tensors};
use carton_dataset::DatasetError;
use carton_rows::{Keep, MapCounts, MapRows, MappedRows, RowFormat, RowsError, write_mapped};
use carton_tensor::files::PendingFile;
use serde::Serialize;
use tokio::runtime::Handle;

use super::Context;
use super::dataset::{self, rows::Rows};
use crate::args::{OutputArgument, RowsArgs, RunArgs};
use crate::failure::{Exit, Failure};
use crate::hints;
use crate::interrupt::{self, InterruptError};
use crate::output::{StdoutError, ignore_broken_pipe, standard_output};
use crate::progress::WorkContext;
use crate::text::{count, one_line};

#[derive(Debug, thiserror::Error)]
enum TableError {
    #[error("`{}` is a table, which `--rows` must accompany", path.display())]
    NoRows { path: PathBuf },
    #[error("the outputs of all rows go to one file, found {n_files}")]
    Files { n_files: usize },
    #[error("`{}` is not a table", path.display())]
    NoTable { path: PathBuf },
    #[error("standard output is the table, and has no room for the result of --json")]
    JsonToo,
}

/// The output of `--json`.
#[derive(Serialize)]
struct Report<'a> {
    file: &'a str,
    rows: u64,
    calls: u64,
    workers: usize,
    seconds: f64,
}

/// The table that the user asked for.
struct Destination {
    path: PathBuf,
    format: RowFormat,
    /// `None` for standard output.
    file: Option<PendingFile>,
}

/// The failure for a table among the outputs of a single call.
fn unexpected(output: &OutputArgument) -> Failure {
    Failure::usage(TableError::NoRows { path: output.path.clone() })
        .hint("--rows FILE gives the rows; a single call writes its outputs to .npy and .npz files")
}

/// Opens the table and its output, so that errors in them are found before the model is loaded. Returns `None` without `--rows`.
pub(super) async fn open(arguments: &RunArgs, is_json: bool) -> Result<Option<Table>, Failure> {
    if arguments.table.rows.is_empty() {
        return match arguments.outputs.iter().find(|output| output.table_format().is_some()) {
            Some(output) => Err(unexpected(output)),
            None => Ok(None),
        };
    }
    let destination = destination(&arguments.outputs, is_json)?;
    let paths = arguments.table.rows.clone();
    let rows = interrupt::blocking(move |cancel_token| Rows::open(&paths, |_| None, cancel_token)).await?;
    Ok(Some(Table { rows, destination }))
}

/// The rows that a model is run on, and the destination of its outputs.
pub(super) struct Table {
    rows: Rows,
    destination: Destination,
}

/// Runs the model on all rows. `constants` are inputs with one value for all rows.
pub(super) async fn run(
    model: &Carton,
    table: Table,
    constants: Tensors,
    arguments: &RowsArgs,
    context: &Context<'_>,
) -> Result<Exit, Failure> {
    let Table { rows, destination } = table;
    let output = context.output;
    let schema = rows.schema();
    let columns =
        configured(MapRows::new(model, &schema), arguments, &constants, &schema).columns().map_err(failure)?;
    // The other columns are not decoded.
    let rows = rows.project(&columns)?;
    let schema = rows.schema();
    let mapped = configured(MapRows::new(model, &schema), arguments, &constants, &schema).await.map_err(failure)?;
    output.progress().finish();

    let started = Instant::now();
    let (display, total, runtime) = (output.progress().clone(), rows.n_rows(), Handle::current());
    let path = one_line(&destination.path.display().to_string());
    let counts = interrupt::blocking(move |cancel_token| {
        write(mapped, rows, destination, &runtime, &display.context_of_rows(total, cancel_token))
    })
    .await?;
    output.progress().finish();
    let Some(counts) = counts else { return Ok(Exit::Ok) };
    let seconds = started.elapsed().as_secs_f64();
    if output.is_json() {
        let MapCounts { rows, calls, .. } = counts;
        let workers = arguments.workers.map_or(1, usize::from);
        output.json(&Report { file: &path, rows, calls, workers, seconds })?;
    } else {
        let rate = counts.rows as f64 / seconds.max(f64::MIN_POSITIVE);
        let rows = count(usize::try_from(counts.rows).unwrap_or(usize::MAX), "row");
        output.note(&format!("wrote {rows} to {path} in {seconds:.1} s, {rate:.0} rows/s"));
    }
    Ok(Exit::Ok)
}

fn destination(outputs: &[OutputArgument], is_json: bool) -> Result<Destination, Failure> {
    let [output] = outputs else { return Err(Failure::usage(TableError::Files { n_files: outputs.len() })) };
    let path = output.path.clone();
    let Some(format) = output.table_format() else {
        return Err(Failure::usage(TableError::NoTable { path })
            .hint("a table is FILE.parquet, FILE.arrow, or a stream: FILE.arrows, or `-` for standard output"));
    };
    if output.is_standard_output() {
        if is_json {
            return Err(Failure::usage(TableError::JsonToo));
        }
        ignore_broken_pipe(standard_output::check())?;
        return Ok(Destination { path: "standard output".into(), format, file: None });
    }
    let file = PendingFile::new(&path).map_err(|source| unwritable(&path, source))?;
    Ok(Destination { path, format, file: Some(file) })
}

/// The failure for an output file that cannot be written.
fn unwritable(path: &Path, source: io::Error) -> Failure {
    failure(RowsError::Write(source.into()).at_output(path))
}

fn configured<'a>(mut map: MapRows<'a>, arguments: &RowsArgs, constants: &Tensors, schema: &Schema) -> MapRows<'a> {
    for argument in &arguments.input_column {
        map = map.input(&argument.name, &argument.column);
    }
    for argument in &arguments.output_column {
        map = map.output(&argument.name, &argument.column);
    }
    for (name, value) in constants {
        map = map.constant(name, value.clone());
    }
    if let Some(keep) = &arguments.keep {
        let names = keep.names(|name| schema.field_with_name(name).is_ok());
        map = map.keep(if names == ["*"] { Keep::All } else { Keep::These(names) });
    }
    let map = super::set(map, arguments.null.map(Into::into), MapRows::nulls);
    let map = super::set(map, arguments.times.map(Into::into), MapRows::times);
    let map = super::set(map, arguments.batch_size, MapRows::batch_rows);
    let map = super::set(map, arguments.batch_bytes, MapRows::batch_bytes);
    super::set(map, arguments.workers, MapRows::workers)
}

/// Writes the results. A file gets its name when it is complete. `None` if the reader of standard
/// output is gone, which is no failure.
fn write(
    mapped: MappedRows,
    rows: Rows,
    destination: Destination,
    runtime: &Handle,
    context: &WorkContext,
) -> Result<Option<MapCounts>, Failure> {
    let Destination { path, format, file } = destination;
    let wrong = |source| match file.is_some() {
        true => unwritable(&path, source),
        false => Failure::new(StdoutError(source)),
    };
    let output = match &file {
        Some(file) => file.file().try_clone(),
        None => io::stdout().as_fd().try_clone_to_owned().map(File::from),
    };
    let output = io::BufWriter::new(output.map_err(wrong)?);
    let mut rows = batches(rows);
    let (mut output, counts) = match write_mapped(mapped, &mut rows, output, format, runtime, context) {
        Err(RowsError::Write(error)) if file.is_none() && is_broken_pipe(error.as_ref()) => return Ok(None),
        written if file.is_none() => written.map_err(failure)?,
        written => written.map_err(|error| failure(error.at_output(&path)))?,
    };
    match output.flush() {
        Err(error) if file.is_none() && is_broken_pipe(&error) => return Ok(None),
        flushed => flushed.map_err(wrong)?,
    }
    let Some(file) = file else { return Ok(Some(counts)) };
    context.cancel_token().begin_publishing()?;
    file.publish().map_err(|source| unwritable(&path, source))?;
    Ok(Some(counts))
}

fn is_broken_pipe(error: &(dyn std::error::Error + 'static)) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

/// The record batches of all inputs, with the columns in the order of the first.
fn batches(rows: Rows) -> impl Iterator<Item = Result<RecordBatch, Box<dyn std::error::Error + Send + Sync>>> {
    rows.into_inputs().flat_map(|(input, arrangement)| input.map(move |batch| Ok(arrangement.apply(&batch?)?)))
}

/// The failure of the command for an error of mapping rows.
fn failure(error: RowsError) -> Failure {
    let error = match error {
        RowsError::Column(error) if matches!(*error, DatasetError::Column { .. }) => {
            return dataset::failure(*error)
                .hint("convert the column, or --input-column INPUT=COLUMN makes another one the input");
        }
        RowsError::Column(error) => return dataset::failure(*error),
        RowsError::Read(error) => match error.downcast::<DatasetError>() {
            Ok(error) => return dataset::failure(*error),
            Err(error) => RowsError::Read(error),
        },
        RowsError::Interrupted => return Failure::with_exit(Exit::Interrupted, InterruptError::Interrupted),
        error => error,
    };
    let hint = match &error {
        RowsError::NoColumn { name, .. } => Some(format!("--input-column {name}=COLUMN names it")),
        RowsError::TwoColumns { n_kept: 0, .. } => {
            Some("--output-column OUTPUT=COLUMN gives one of the outputs another column".to_owned())
        }
        RowsError::TwoColumns { column, n_kept: 1 } => Some(format!(
            "--output-column OUTPUT=COLUMN gives the output another name, and --keep A,B leaves out `{column}`"
        )),
        RowsError::TwoColumns { column, .. } => Some(format!("--keep A,B leaves out `{column}`")),
        RowsError::Scalar { side: Side::Input, .. } => {
            Some("-i NAME=VALUE gives an input one value for all rows".to_owned())
        }
        RowsError::NoInputs => Some("--input-column INPUT=COLUMN makes a column an input".to_owned()),
        RowsError::NotByRow { .. } => {
            Some("--output-column OUTPUT=COLUMN leaves out the outputs that it does not name".to_owned())
        }
        RowsError::LargeOutput { .. } | RowsError::LargeText { .. } => {
            Some("--batch-size N makes calls of fewer rows".to_owned())
        }
        RowsError::Worker(source) | RowsError::Call { source, .. } => hints::hint(source),
        error => error.hint(),
    };
    let exit = if is_usage(&error) { Exit::Usage } else { Exit::from(error.kind()) };
    let failure = Failure::with_exit(exit, error);
    match hint {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
}

/// Whether other options avoid the error. The rows, the carton and the model cause the other errors.
fn is_usage(error: &RowsError) -> bool {
    use RowsError as E;
    match error {
        E::NoTensor { .. } | E::NoColumn { .. } | E::NoInputs | E::InputTwice { .. } | E::TwoColumns { .. } => true,
        E::Output { .. } => error.kind() == ErrorKind::InvalidInput,
        _ => false,
    }
}
