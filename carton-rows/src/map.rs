//! Keeps calls in flight on all workers, and returns their results in the order of the rows.

use std::collections::VecDeque;
use std::future::{Future, IntoFuture};
use std::num::NonZeroUsize;
use std::pin::Pin;
use std::sync::Arc;

use arrow_array::{RecordBatch, RecordBatchOptions};
use arrow_schema::{FieldRef, Schema, SchemaRef, TimeUnit};
use carton_core::{Carton, Tensor, Tensors};
use carton_dataset::column::ExtensionType;
use tokio::sync::RwLock;
use tokio::task::JoinHandle;

use crate::call::{Answer, Caller};
use crate::cut::{Batch, BatchSize, Cutter};
use crate::error::{RowsError, escaped};
use crate::input::Nulls;
use crate::output;
use crate::plan::{ColumnChoice, Keep, Plan};

/// The most rows of a call, unless [`MapRows::batch_rows`] sets another number.
const BATCH_ROWS: usize = 1024;
/// The most bytes of a call's inputs, unless [`MapRows::batch_bytes`] sets another number.
const BATCH_BYTES: usize = 16 << 20;
/// The number of calls in flight on each worker: one that runs, and others whose inputs are copied meanwhile.
const CALLS_PER_WORKER: usize = 3;

/// The most workers of a table: processes that each have the model in memory.
pub const MAX_WORKERS: usize = 1024;

/// Maps tables of one schema by a model. Made with [`new`](Self::new), configured by its setters, and awaited, which starts the
/// workers and returns a [`MappedRows`].
#[must_use = "nothing is mapped until this is awaited"]
#[derive(Debug)]
pub struct MapRows<'a> {
    model: &'a Carton,
    schema: SchemaRef,
    choice: ColumnChoice,
    constants: Tensors,
    batch_size: BatchSize,
    workers: NonZeroUsize,
}

impl<'a> MapRows<'a> {
    /// Maps record batches with the columns of `schema`. Each required input of the model is the column of its name, and each output
    /// becomes a column of its name; all columns that are not inputs are kept.
    pub fn new(model: &'a Carton, schema: &SchemaRef) -> Self {
        let batch_size = BatchSize { rows: BATCH_ROWS, bytes: BATCH_BYTES };
        let (choice, constants) = (ColumnChoice::default(), Tensors::default());
        Self { model, schema: schema.clone(), choice, constants, batch_size, workers: NonZeroUsize::MIN }
    }

    /// Takes the input `name` from this column.
    pub fn input(mut self, name: impl Into<String>, column: impl Into<String>) -> Self {
        self.choice.inputs.insert(name.into(), column.into());
        self
    }

    /// Writes the output `name` to this column. Outputs that are not named in any call of this setter are left out.
    pub fn output(mut self, name: impl Into<String>, column: impl Into<String>) -> Self {
        self.choice.outputs.insert(name.into(), column.into());
        self
    }

    /// Gives the input `name` one value in all calls, instead of a column.
    pub fn constant(mut self, name: impl Into<String>, value: impl Into<Tensor>) -> Self {
        let name = name.into();
        self.choice.constants.insert(name.clone());
        self.constants.insert(name, value.into());
        self
    }

    /// Sets which columns are kept; all that are not inputs by default.
    pub fn keep(mut self, keep: Keep) -> Self {
        self.choice.keep = keep;
        self
    }

    /// Sets what becomes of missing values in columns of numbers; they are an error by default.
    pub fn nulls(mut self, nulls: Nulls) -> Self {
        self.choice.values.nulls = nulls;
        self
    }

    /// Sets the unit in which dates, timestamps, times of day and durations are counted, by `int64`; they are an error by default. Dates and
    /// timestamps are counted from 1970-01-01T00:00:00, in UTC where they have a time zone.
    pub fn times(mut self, unit: TimeUnit) -> Self {
        self.choice.values.time_unit = Some(unit);
        self
    }

    /// Sets the largest number of rows in a call; 1024 by default. If the carton declares a number of rows, that is used.
    pub fn batch_rows(mut self, n_rows: NonZeroUsize) -> Self {
        self.batch_size.rows = n_rows.get();
        self
    }

    /// Sets the largest size of a call's inputs, in bytes; 16 MiB by default. A row that is larger is a call of its own.
    pub fn batch_bytes(mut self, n_bytes: NonZeroUsize) -> Self {
        self.batch_size.bytes = n_bytes.get();
        self
    }

    /// Sets the number of runners; 1 by default, which is that of the model. Each of the others is a process of its own. More than
    /// [`MAX_WORKERS`] are an error.
    pub fn workers(mut self, n_workers: NonZeroUsize) -> Self {
        self.workers = n_workers;
        self
    }

    /// The names of the columns that are read, in the order of the table: inputs, and columns that are kept. A source of rows need not
    /// decode the others.
    ///
    /// # Errors
    /// A name is unknown, a required input has no column, or a column cannot become an input; there are more than [`MAX_WORKERS`].
    pub fn columns(&self) -> Result<Vec<String>, RowsError> {
        let plan = self.plan()?;
        let is_read = |position: &usize| {
            plan.kept.contains(position) || plan.inputs.iter().any(|input| input.position() == *position)
        };
        let fields = self.schema.fields();
        Ok((0..fields.len()).filter(is_read).map(|position| fields[position].name().clone()).collect())
    }

    fn plan(&self) -> Result<Plan, RowsError> {
        if self.workers.get() > MAX_WORKERS {
            return Err(RowsError::TooManyWorkers { found: self.workers.get(), most: MAX_WORKERS });
        }
        let signature = self.model.package().metadata().signature();
        let inputs = signature.and_then(|signature| signature.inputs.as_deref());
        let outputs = signature.and_then(|signature| signature.outputs.as_deref());
        Plan::new(inputs, outputs, &self.schema, &self.choice)
    }

    async fn start(self) -> Result<MappedRows, RowsError> {
        let plan = self.plan()?;
        let Self { model, schema, constants, mut batch_size, workers, .. } = self;
        if let Some(rows) = plan.fixed_rows {
            batch_size = BatchSize { rows, bytes: usize::MAX };
        }
        let mut models = vec![Worker::new(model.clone())];
        for _ in 1..workers.get() {
            models.push(Worker::new(model.start_another().await.map_err(RowsError::Worker)?));
        }
        let result = declared_schema(&plan, &schema);
        let kept = plan.kept_fields(&schema);
        let caller = Arc::new(Caller { plan, constants });
        let cutter = Cutter::new(batch_size);
        let (ready, running) = (VecDeque::new(), VecDeque::new());
        Ok(MappedRows { caller, input: schema, kept, result, workers: models, cutter: Some(cutter), ready, running })
    }
}

impl<'a> IntoFuture for MapRows<'a> {
    type Output = Result<MappedRows, RowsError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send + 'a>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.start())
    }
}

/// Whether record batches of both schemas have the same columns.
fn has_columns(found: &SchemaRef, expected: &SchemaRef) -> bool {
    let is_same = |(found, expected): (&FieldRef, &FieldRef)| {
        Arc::ptr_eq(found, expected)
            || found.name() == expected.name()
                && found.data_type() == expected.data_type()
                && ExtensionType::is_same(found, expected)
    };
    Arc::ptr_eq(found, expected)
        || found.fields().len() == expected.fields().len() && found.fields().iter().zip(expected.fields()).all(is_same)
}

/// The schema of the result, if the carton declares its outputs.
fn declared_schema(plan: &Plan, schema: &Schema) -> Option<SchemaRef> {
    let outputs = plan.outputs.as_ref()?.iter();
    let outputs: Vec<FieldRef> =
        outputs.map(|output| output::declared_field(output).map(Arc::new)).collect::<Option<_>>()?;
    Some(Arc::new(Schema::new(plan.kept_fields(schema).into_iter().chain(outputs).collect::<Vec<_>>())))
}

/// Rows that are being mapped. Dropping it cancels the calls in flight.
///
/// Rows are [pushed](Self::push) while there [is room](Self::has_room), and results are taken by [`next`](Self::next);
/// [`next_of`](Self::next_of) does both. Needs the tokio runtime in which the model was loaded.
#[derive(Debug)]
pub struct MappedRows {
    caller: Arc<Caller>,
    input: SchemaRef,
    kept: Vec<FieldRef>,
    /// The schema of the results. Unless all outputs are declared, the first result decides it.
    result: Option<SchemaRef>,
    workers: Vec<Worker>,
    /// `None` after the last row.
    cutter: Option<Cutter>,
    /// Calls that no worker has begun.
    ready: VecDeque<Batch>,
    /// Calls in flight, in the order of their rows.
    running: VecDeque<Running>,
}

/// A runner, and its calls in flight: each holds a clone of `calls`, which it locks for reading, or for writing if it must be alone.
#[derive(Debug)]
struct Worker {
    model: Carton,
    calls: Arc<RwLock<()>>,
}

/// A call in flight, which is cancelled when this is dropped.
#[derive(Debug)]
struct Running(JoinHandle<Result<Answer, RowsError>>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Worker {
    fn new(model: Carton) -> Self {
        Self { model, calls: Arc::default() }
    }
}

impl MappedRows {
    /// The schema of the results; `None` if the carton does not declare its outputs and there is no result yet.
    #[must_use]
    pub fn schema(&self) -> Option<&SchemaRef> {
        self.result.as_ref()
    }

    /// Whether more rows can be pushed: whether a worker would begin a call with them.
    #[must_use]
    pub fn has_room(&self) -> bool {
        self.cutter.is_some() && self.ready.is_empty() && self.running.len() < self.window()
    }

    /// Takes rows. They stay in memory until a call takes them, so that a caller should push only while there [is room](Self::has_room).
    ///
    /// # Errors
    /// The record batch has other columns than the schema, one of its values cannot become an input, or [`end`](Self::end) was called.
    pub fn push(&mut self, rows: &RecordBatch) -> Result<(), RowsError> {
        if !has_columns(rows.schema_ref(), &self.input) {
            return Err(RowsError::OtherColumns);
        }
        let cutter = self.cutter.as_mut().ok_or(RowsError::Ended)?;
        self.ready.extend(cutter.push(&self.caller.plan, rows)?);
        self.start_calls();
        Ok(())
    }

    /// Ends the rows: those that do not fill a call become the last one.
    pub fn end(&mut self) {
        self.ready.extend(self.cutter.take().and_then(|mut cutter| cutter.finish()));
        self.start_calls();
    }

    /// Waits for the results of the next call. `None` if no call is in flight: more rows must be pushed, or all results were returned.
    ///
    /// # Errors
    /// A call failed, or returned no values for its rows. After an error, the calls after it are cancelled.
    pub async fn next(&mut self) -> Option<Result<RecordBatch, RowsError>> {
        let running = self.running.front_mut()?;
        let answer = match (&mut running.0).await {
            Ok(answer) => answer,
            Err(error) => Err(RowsError::Thread(error.into())),
        };
        self.running.pop_front();
        let rows = answer.and_then(|answer| self.record_batch(answer));
        match rows.is_ok() {
            true => self.start_calls(),
            false => self.stop(),
        }
        Some(rows)
    }

    /// Pushes rows while there is room, and ends after the last. Reading `rows` blocks the thread. A thread that does not belong to the
    /// runtime must have entered it, but should not drive it meanwhile: `rows` may be the result of another model, and wait for that.
    ///
    /// # Errors
    /// As [`push`](Self::push); and [`RowsError::Read`] for an error of `rows`. After an error, all calls are cancelled.
    pub fn fill<E: Into<Box<dyn std::error::Error + Send + Sync>>>(
        &mut self,
        rows: &mut (impl Iterator<Item = Result<RecordBatch, E>> + ?Sized),
    ) -> Result<(), RowsError> {
        while self.has_room() {
            let pushed = match rows.next() {
                Some(Ok(batch)) => self.push(&batch),
                Some(Err(error)) => Err(RowsError::Read(error.into())),
                None => {
                    self.end();
                    return Ok(());
                }
            };
            if let Err(error) = pushed {
                self.stop();
                return Err(error);
            }
        }
        Ok(())
    }

    /// [Fills](Self::fill) the calls from `rows`, and waits for the results of the next one; `None` after the last.
    ///
    /// # Errors
    /// As [`fill`](Self::fill) and [`next`](Self::next).
    pub async fn next_of<E: Into<Box<dyn std::error::Error + Send + Sync>>>(
        &mut self,
        rows: &mut (impl Iterator<Item = Result<RecordBatch, E>> + ?Sized),
    ) -> Option<Result<RecordBatch, RowsError>> {
        match self.fill(rows) {
            Ok(()) => self.next().await,
            Err(error) => Some(Err(error)),
        }
    }

    /// Cancels all calls, after which there are no more results.
    fn stop(&mut self) {
        self.cutter = None;
        self.ready.clear();
        self.running.clear();
    }

    fn window(&self) -> usize {
        self.workers.len() * CALLS_PER_WORKER
    }

    /// Begins calls on the workers with the fewest calls in flight.
    fn start_calls(&mut self) {
        while self.running.len() < self.window() {
            let worker = self.workers.iter().min_by_key(|worker| Arc::strong_count(&worker.calls));
            let (Some(worker), Some(batch)) = (worker, self.ready.pop_front()) else { return };
            let (caller, model, calls) = (Arc::clone(&self.caller), worker.model.clone(), Arc::clone(&worker.calls));
            self.running.push_back(Running(tokio::spawn(async move { caller.call(&model, &calls, batch).await })));
        }
    }

    /// Makes a record batch of an answer. The first one decides the schema, if the carton does not declare it.
    fn record_batch(&mut self, answer: Answer) -> Result<RecordBatch, RowsError> {
        let Answer { kept, outputs, n_rows } = answer;
        let schema = match &self.result {
            Some(schema) => schema.clone(),
            None => {
                let plans: Vec<_> = outputs.iter().map(|(plan, ..)| plan.clone()).collect();
                self.caller.plan.check_columns(&self.input, &plans)?;
                let fields = self.kept.iter().cloned().chain(outputs.iter().map(|(_, field, _)| field.clone()));
                self.result.insert(Arc::new(Schema::new(fields.collect::<Vec<_>>()))).clone()
            }
        };
        let expected = schema.fields().iter().skip(kept.len());
        if outputs.len() != expected.len()
            || outputs.iter().zip(expected.clone()).any(|(output, field)| output.1.name() != field.name())
        {
            let found = outputs.iter().map(|(_, field, _)| escaped(field.name())).collect();
            return Err(RowsError::OtherOutputs {
                expected: expected.map(|field| escaped(field.name())).collect(),
                found,
            });
        }
        for ((plan, found, _), expected) in outputs.iter().zip(expected) {
            if found.data_type() != expected.data_type() {
                let (expected, found) = (expected.data_type().to_string(), found.data_type().to_string());
                return Err(RowsError::OtherOutput { output: escaped(&plan.name), expected, found });
            }
        }
        let columns = kept.into_iter().chain(outputs.into_iter().map(|(_, _, array)| array)).collect();
        let options = RecordBatchOptions::new().with_row_count(Some(n_rows));
        RecordBatch::try_new_with_options(schema, columns, &options).map_err(RowsError::write)
    }
}
