//! Writes one attempt at one task: record batches in, shards out (spec/dataset.md §4 and §5.1).

use std::collections::BTreeMap;
use std::num::{NonZeroU32, NonZeroUsize};
use std::path::{Path, PathBuf};

use arrow_array::RecordBatch;
use arrow_schema::{Schema, SchemaRef};
use carton_tensor::context::{Context, ProgressEvent};
use uuid::Uuid;

use super::attempt::{Attempt, explained};
use super::columns::{Chosen, Columns};
use super::commit::{abort, commit};
use super::commit_options::CommitOptions;
use super::gathered_schema::Sharing;
use super::shard_file::Written;
use super::{batch, key_value};
use crate::column::ExtensionType;
use crate::error::{ColumnProblem, DatasetError};
use crate::manifest::Manifest;
use crate::options::{Duplicates, Mode, TailStrategy, WriteOptions};
use crate::report::TaskReport;
use crate::shard_metadata::ShardMode;

/// Writes the rows of one task, in one attempt. Other attempts at the same task, on this machine or another, have ids of their own, and
/// replace nothing of this one.
///
/// Nothing of it is part of a dataset before it is [committed](crate::commit). If it is dropped without [`finish`](Self::finish), or
/// after any error, it removes what it wrote. It holds the rows of one shard and of one record batch, as slices of the memory that they
/// came in. It also holds the names of all tensors of the task, which its report lists: in key-value mode a few for each row.
pub struct TaskWriter {
    schema: SchemaRef,
    columns: Columns,
    rows: Rows,
    attempt: Attempt,
    /// The report, still without shards and schema.
    report: TaskReport,
    written: Written,
    /// The inputs of the rows, each with the number of its first row, counted over all rows.
    inputs: Vec<(u64, String)>,
    /// The options for [`finish_and_commit`](Self::finish_and_commit).
    commit_options: CommitOptions,
    /// The number of rows that were given.
    n_rows: u64,
    context: Context,
    has_failed: bool,
}

/// Rows that are not in a shard yet.
enum Rows {
    Batch { pending: batch::Pending, batch_size: NonZeroUsize, tail: TailStrategy },
    KeyValue(key_value::Filling),
}

impl TaskWriter {
    /// Begins an attempt at a task whose record batches will have this schema. The dataset is in `folder`, which is created if needed.
    ///
    /// # Errors
    /// [`DatasetError::Exists`] if the folder already contains a dataset and the options do not say `overwrite`;
    /// [`DatasetError::Attempts`] while other attempts are being committed, also if that commit was killed and has not been finished;
    /// [`DatasetError::Options`], [`DatasetError::NoColumn`] and [`DatasetError::Column`] for options that do not fit the schema;
    /// [`DatasetError::Io`].
    pub fn create(folder: &Path, schema: &SchemaRef, options: &WriteOptions, task: u32) -> Result<Self, DatasetError> {
        let columns = Columns::choose(schema, options)?;
        let rows = match &options.mode {
            Mode::Batch { batch_size, tail } => Rows::Batch {
                pending: batch::Pending::new(columns.chosen.iter().map(|chosen| chosen.column.name())),
                batch_size: *batch_size,
                tail: *tail,
            },
            Mode::KeyValue(options) => Rows::KeyValue(key_value::Filling::new(options, &columns.chosen)),
        };
        let attempt = Attempt::create(folder, task, options.overwrite)?;
        let mode = match &rows {
            Rows::Batch { .. } => ShardMode::Batch,
            Rows::KeyValue(_) => ShardMode::KeyValue,
        };
        let report = TaskReport {
            task,
            attempt: attempt.id(),
            job: options.job,
            mode,
            has_unique_names: matches!(&options.mode, Mode::KeyValue(options) if options.duplicates == Duplicates::Fail),
            shards: Vec::new(),
            schema: BTreeMap::new(),
        };
        let written = Written::new(Sharing::of(mode, report.has_unique_names));
        let (index, overwrite) = (options.index, options.overwrite);
        let commit_options = CommitOptions { index, overwrite, ..CommitOptions::default() };
        let (schema, context) = (schema.clone(), Context::default());
        let (inputs, n_rows, has_failed) = (Vec::new(), 0, false);
        Ok(Self {
            schema,
            columns,
            rows,
            attempt,
            report,
            written,
            inputs,
            commit_options,
            n_rows,
            context,
            has_failed,
        })
    }

    /// Reports to `context`, after every record batch, the number of rows that were given, as the stage `writing`. Once `context` is
    /// cancelled, writing ends with [`DatasetError::Interrupted`], also within large shards.
    #[must_use]
    pub fn with_context(self, context: Context) -> Self {
        Self { context, ..self }
    }

    /// The folder of the attempt. It is removed when writing fails or is interrupted. A program that ends the process without dropping
    /// the writer has to remove it.
    #[must_use]
    pub fn folder(&self) -> PathBuf {
        self.attempt.folder()
    }

    /// The id of the attempt.
    #[must_use]
    pub fn attempt(&self) -> Uuid {
        self.attempt.id()
    }

    /// Names the input of the rows that are written next. Errors name it, and count its rows from 0.
    pub fn begin_input(&mut self, place: impl Into<String>) {
        self.inputs.push((self.n_rows, place.into()));
    }

    /// Writes the next rows. When this returns, all complete shards are in files.
    ///
    /// # Errors
    /// [`DatasetError::Row`] for a value that cannot become a tensor, or, in batch mode, differs in dtype or shape from those before;
    /// [`DatasetError::DuplicateName`]; [`DatasetError::Column`] and [`DatasetError::OtherColumns`] for a record batch with another
    /// schema; [`DatasetError::AttemptRemoved`] if another writer has committed to the folder; [`DatasetError::Io`];
    /// [`DatasetError::Interrupted`]. After an error nothing more can be written: further calls fail with [`DatasetError::WriterFailed`].
    pub fn write(&mut self, batch: &RecordBatch) -> Result<(), DatasetError> {
        self.check()?;
        self.has_failed = true;
        self.write_rows(batch).map_err(|error| self.attempt.explained(self.located(error)))?;
        self.n_rows += batch.num_rows() as u64;
        self.context.advance(&ProgressEvent::new("writing", self.n_rows, None, "rows"))?;
        self.has_failed = false;
        Ok(())
    }

    /// Writes the remaining rows and the report, which it returns. From then on the attempt can be [committed](crate::commit).
    ///
    /// # Errors
    /// As [`write`](Self::write).
    pub fn finish(mut self) -> Result<TaskReport, DatasetError> {
        self.check()?;
        let Self { rows, attempt, mut report, mut written, context, .. } = self;
        let written_rest = match rows {
            Rows::Batch { mut pending, batch_size, tail } => {
                let n_rows = pending.n_rows();
                let padded = match tail {
                    TailStrategy::Drop => 0,
                    TailStrategy::Pad => batch_size.get(),
                    TailStrategy::Write => n_rows,
                };
                if n_rows > 0 && padded > 0 {
                    pending.write_shard(n_rows, padded, &attempt, &mut written, &context)
                } else {
                    Ok(())
                }
            }
            Rows::KeyValue(mut filling) => filling.write_shard(&attempt, &mut written, &context),
        };
        written_rest.map_err(|error| attempt.explained(error))?;
        (report.shards, report.schema) = (written.shards, written.schema.into_entries());
        attempt.finish(&report)?;
        Ok(report)
    }

    /// Writes the remaining rows, and makes a dataset of this attempt alone; returns its manifest. Only task 0 can be a whole dataset,
    /// since tasks are numbered from 0 (spec/dataset.md §5); any other is refused. After an error nothing is left of what was written,
    /// unless it happened in the middle of the commit, which [`merge`](crate::merge) then finishes.
    ///
    /// # Errors
    /// As [`finish`](Self::finish) and [`commit`].
    pub fn finish_and_commit(self) -> Result<Manifest, DatasetError> {
        let (dataset, task, attempt) = (self.attempt.dataset().to_owned(), self.report.task, self.attempt.id());
        let options = CommitOptions {
            attempts: Some(vec![attempt]),
            n_tasks: Some(NonZeroU32::MIN),
            context: self.context.clone(),
            ..self.commit_options.clone()
        };
        self.finish()?;
        commit(&dataset, &options).map_err(|error| {
            let error = explained(error, &dataset, task, attempt);
            // The attempt will not be committed again, so it is removed. `abort` refuses that if the commit has begun, which can then be
            // finished.
            let _ = abort(&dataset, &[attempt]);
            error
        })
    }

    /// Adds to an error the input of its rows, and counts them within that input.
    fn located(&self, error: DatasetError) -> DatasetError {
        let place = |row: u64| {
            let input = self.inputs.iter().rfind(|(first, _)| *first <= row);
            input.map_or((None, row), |(first, place)| (Some(place.as_str().into()), row - first))
        };
        match error {
            DatasetError::Row { row, column, problem, .. } => {
                let (input, row) = place(row);
                DatasetError::Row { input, row, column, problem }
            }
            DatasetError::DuplicateName { row, column, name, first, .. } => {
                let ((input, row), (first_input, first)) = (place(row), place(first));
                DatasetError::DuplicateName { input, row, column, name, first, first_input }
            }
            other => other,
        }
    }

    fn check(&mut self) -> Result<(), DatasetError> {
        if self.has_failed {
            return Err(DatasetError::WriterFailed);
        }
        Ok(())
    }

    fn write_rows(&mut self, batch: &RecordBatch) -> Result<(), DatasetError> {
        check_schema(&self.schema, batch)?;
        let first_row = self.n_rows;
        let runs = |chosen: &Chosen| chosen.column.runs(batch.column(chosen.position), first_row);
        match &mut self.rows {
            Rows::Batch { pending, batch_size, .. } => {
                for (position, chosen) in self.columns.chosen.iter().enumerate() {
                    pending.push(position, &chosen.column, runs(chosen)?, first_row)?;
                }
                pending.add_rows(batch.num_rows());
                let batch_size = batch_size.get();
                while pending.n_rows() >= batch_size {
                    pending.write_shard(batch_size, batch_size, &self.attempt, &mut self.written, &self.context)?;
                }
                pending.settle();
            }
            Rows::KeyValue(filling) => {
                let columns = self.columns.chosen.iter().map(runs).collect::<Result<Vec<_>, _>>()?;
                // In key-value mode there is a column of names.
                if let Some(names) = self.columns.names {
                    let names = batch.column(names);
                    filling.push(names, columns, first_row, &self.attempt, &mut self.written, &self.context)?;
                }
            }
        }
        Ok(())
    }
}

/// Checks that a record batch has the columns of the schema, in their order, and of the same extension types. Their Arrow types are
/// compared when they are converted.
fn check_schema(schema: &Schema, batch: &RecordBatch) -> Result<(), DatasetError> {
    let found = batch.schema_ref();
    if std::ptr::eq(schema, found.as_ref()) {
        return Ok(());
    }
    let names = |schema: &Schema| {
        schema.fields().iter().map(|field| field.name().escape_debug().to_string()).collect::<Vec<_>>()
    };
    if !found.fields().iter().map(|field| field.name()).eq(schema.fields().iter().map(|field| field.name())) {
        return Err(DatasetError::OtherColumns { found: names(found), expected: names(schema) });
    }
    let mut pairs = found.fields().iter().zip(schema.fields());
    match pairs.find(|(found, expected)| !ExtensionType::is_same(found, expected)) {
        Some((found, _)) => {
            let column = found.name().escape_debug().to_string();
            Err(DatasetError::Column { column, problem: ColumnProblem::OtherExtension })
        }
        None => Ok(()),
    }
}
