//! `carton dataset write`: writes rows as shards, as a whole dataset or as one task of it.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_schema::Schema;
use carton_core::CancelToken;
use carton_dataset::{
    DatasetError, Duplicates, KeyValue, Manifest, Mode, Rounding, TailStrategy, TaskReport, TaskWriter, WriteOptions,
};
use carton_tensor::files::ElementType;
use serde::Serialize;

use super::rows::Rows;
use super::{Context, committed, contents, failure, index_layout, warnings_of_ignored};
use crate::args::{DatasetWriteArgs, DtypeArgument, RoundingChoice, TailChoice, column_name};
use crate::failure::{Exit, Failure};
use crate::interrupt::{self, Leftover};
use crate::progress::ProgressDisplay;
use crate::text::one_line;

#[derive(Debug, thiserror::Error)]
enum WriteArgumentError {
    #[error("two dtypes are given for {}", .column.as_ref().map_or_else(|| "all columns".to_owned(), |name| format!("column `{name}`")))]
    TwoDtypes { column: Option<String> },
    #[error("there is one path, `{}`, expected INPUT… and OUT", path.display())]
    OnePath { path: PathBuf },
}

/// The output of `--json` for a task.
#[derive(Serialize)]
struct Task<'r> {
    #[serde(flatten)]
    report: &'r TaskReport,
    warnings: Vec<String>,
}

/// The result of writing.
enum Written {
    /// A committed dataset.
    Dataset(Manifest),
    /// An attempt at one task of many.
    Task(TaskReport),
}

pub(super) async fn run(arguments: DatasetWriteArgs, context: &Context<'_>) -> Result<Exit, Failure> {
    let output = context.output;
    let (inputs, path) = paths(&arguments)?;
    let (path, index) = (path.to_owned(), arguments.generate_index.is_some());
    let options = options(&arguments)?;
    let warnings = warnings_of_ignored(&ignored(&arguments), output);
    let (inputs, folder, progress) = (inputs.to_vec(), path.clone(), output.progress().clone());
    let work = move |cancel_token: &CancelToken| write(&arguments, &inputs, &folder, options, &progress, cancel_token);
    let written = interrupt::blocking(work).await?;
    output.progress().finish();
    let report = match written {
        Written::Dataset(manifest) => return committed(&path, &manifest, index, warnings, output),
        Written::Task(report) => report,
    };
    if output.is_json() {
        output.json(&Task { report: &report, warnings })?;
        return Ok(Exit::Ok);
    }
    let samples = report.shards.iter().map(|shard| shard.samples_count).sum();
    let bytes = report.shards.iter().map(|shard| shard.bytes).sum();
    let contents = contents(samples, bytes, report.shards.len());
    let (task, attempt, path) = (report.task, report.attempt, one_line(&path.display().to_string()));
    output.text(&format!("task {task}: {contents}\nattempt {attempt}\n"))?;
    output.note(&format!("`carton dataset merge {path}` makes it part of the dataset"));
    Ok(Exit::Ok)
}

/// Returns the inputs and the output.
fn paths(arguments: &DatasetWriteArgs) -> Result<(&[PathBuf], &Path), Failure> {
    match arguments.paths.split_last() {
        Some((output, inputs)) if !inputs.is_empty() => Ok((inputs, output)),
        _ => {
            let path = arguments.paths.first().cloned().unwrap_or_default();
            Err(Failure::usage(WriteArgumentError::OnePath { path }))
        }
    }
}

fn write(
    arguments: &DatasetWriteArgs,
    inputs: &[PathBuf],
    output: &Path,
    mut options: WriteOptions,
    progress: &Arc<ProgressDisplay>,
    cancel_token: &CancelToken,
) -> Result<Written, Failure> {
    let choose = |schema: &Schema| {
        choose_columns(arguments, &mut options, schema);
        columns_read(&options)
    };
    let rows = Rows::open(inputs, choose, cancel_token)?;
    let created = CreatedFolder::unless_exists(output);
    let writer = TaskWriter::create(output, &rows.schema(), &options, arguments.task.unwrap_or(0)).map_err(failure)?;
    // A signal may come while a read from a file or pipe blocks.
    let _removed = Leftover::new(writer.folder());
    let mut writer = writer.with_context(progress.context_of_rows(rows.n_rows(), cancel_token));
    for (input, arrangement) in rows.into_inputs() {
        writer.begin_input(input.place());
        for batch in input {
            // After a signal the read fails; the reason is the signal, not that error.
            if cancel_token.is_cancelled() {
                return Err(failure(DatasetError::Interrupted));
            }
            let batch = arrangement.apply(&batch.map_err(failure)?).map_err(Failure::new)?;
            writer.write(&batch).map_err(failure)?;
        }
    }
    let written = match arguments.task {
        Some(_) => Written::Task(writer.finish().map_err(failure)?),
        None => Written::Dataset(writer.finish_and_commit().map_err(failure)?),
    };
    created.keep();
    Ok(written)
}

/// Removes a folder that this command created, unless something was written into it.
struct CreatedFolder<'a>(Option<&'a Path>);

impl<'a> CreatedFolder<'a> {
    fn unless_exists(folder: &'a Path) -> Self {
        Self((!folder.exists()).then_some(folder))
    }

    fn keep(mut self) {
        self.0 = None;
    }
}

impl Drop for CreatedFolder<'_> {
    fn drop(&mut self) {
        if let Some(folder) = self.0 {
            // Fails if the folder is not empty or was never created, which is intended.
            let _ = fs::remove_dir(folder);
        }
    }
}

/// Sets the columns that are written and the one that names the rows. Spaces around a name are ignored, unless there is a column with
/// them.
fn choose_columns(arguments: &DatasetWriteArgs, options: &mut WriteOptions, schema: &Schema) {
    let exists = |name: &str| schema.field_with_name(name).is_ok();
    options.columns = arguments.columns.as_ref().map(|columns| columns.names(exists));
    if let (Mode::KeyValue(mode), Some(name)) = (&mut options.mode, &arguments.name_col) {
        column_name(name, exists).clone_into(&mut mode.name_column);
    }
}

/// Returns the columns to read: those that are written, and the one that names the rows.
fn columns_read(options: &WriteOptions) -> Option<Vec<String>> {
    let mut columns = options.columns.clone()?;
    if let Mode::KeyValue(mode) = &options.mode
        && !columns.contains(&mode.name_column)
    {
        columns.push(mode.name_column.clone());
    }
    Some(columns)
}

/// Returns the options that were given but mean nothing in the chosen mode, each with the option of the mode that it belongs to.
fn ignored(arguments: &DatasetWriteArgs) -> Vec<(&'static str, &'static str)> {
    let (given, mode): (&[(&str, bool)], _) = match arguments.batch_size {
        Some(_) => (
            &[
                ("--kv-separator", arguments.kv_separator.is_some()),
                ("--target-shard-size-mb", arguments.target_shard_size_mb.is_some()),
                ("--duplicates", arguments.duplicates.is_some()),
            ],
            "--name-col",
        ),
        None => (&[("--tail-strategy", arguments.tail_strategy.is_some())], "--batch-size"),
    };
    given.iter().filter(|(_, is_given)| *is_given).map(|(option, _)| (*option, mode)).collect()
}

fn options(arguments: &DatasetWriteArgs) -> Result<WriteOptions, Failure> {
    let mode = match (arguments.batch_size, &arguments.name_col) {
        (Some(batch_size), _) => Mode::Batch {
            batch_size,
            tail: match arguments.tail_strategy {
                None | Some(TailChoice::Write) => TailStrategy::Write,
                Some(TailChoice::Drop) => TailStrategy::Drop,
                Some(TailChoice::Pad) => TailStrategy::Pad,
            },
        },
        (None, name) => {
            let mut mode = KeyValue::new(name.as_deref().unwrap_or_default());
            if let Some(separator) = &arguments.kv_separator {
                separator.clone_into(&mut mode.separator);
            }
            if let Some(megabytes) = arguments.target_shard_size_mb {
                mode.target_shard_bytes = megabytes << 20;
            }
            mode.duplicates = arguments.duplicates.map_or(mode.duplicates, Duplicates::from);
            Mode::KeyValue(mode)
        }
    };
    let mut options = WriteOptions::new(mode);
    options.shapes = arguments.shapes.clone().unwrap_or_default();
    options.rounding = match arguments.rounding {
        RoundingChoice::NearestEven => Rounding::NearestEven,
        RoundingChoice::Truncate => Rounding::Truncate,
    };
    options.index = arguments.generate_index.map(index_layout);
    options.overwrite = arguments.overwrite;
    options.job = arguments.job;
    for DtypeArgument { column, dtype } in &arguments.dtype {
        let before: Option<ElementType> = match column {
            Some(column) => options.dtypes.insert(column.clone(), *dtype),
            None => options.dtype.replace(*dtype),
        };
        if before.is_some() {
            return Err(Failure::usage(WriteArgumentError::TwoDtypes { column: column.clone() }));
        }
    }
    Ok(options)
}
