//! Runs the calls that a worker took from the queue: together if they are several, and each by itself if that fails.

use std::sync::Arc;
use std::time::Instant;

use carton_core::{DataType, Error, ErrorKind, NumericTensor, Tensor, Tensors};
use tokio::sync::oneshot;

use super::admission::Share;
use super::batch;
use super::call::{Answered, CallResources};
use super::instance::Instance;
use crate::failure::Failure;
use crate::metrics::ModelMetrics;

/// A call that waits for a worker, or that a worker has taken.
#[derive(Debug)]
pub(super) struct WaitingCall {
    pub(super) number: u64,
    pub(super) inputs: Tensors,
    pub(super) n_rows: usize,
    pub(super) arrived: Instant,
    /// Until when its time in the queue is in the metrics. A call that a runner does not answer waits once more.
    pub(super) counted_until: Instant,
    /// Whether it is joined with no others, because a run with others failed.
    pub(super) is_alone: bool,
    pub(super) deadline: Option<Instant>,
    /// What the call takes, also if its client has left.
    pub(super) held: CallResources,
    pub(super) answer: oneshot::Sender<Result<Answered, Failure>>,
}

impl WaitingCall {
    /// Whether its client has left, or waits no longer.
    pub(super) fn is_over(&self, now: Instant) -> bool {
        self.answer.is_closed() || self.deadline.is_some_and(|deadline| deadline <= now)
    }

    fn answer(self, answer: Result<(Tensors, Arc<Share>), Failure>) {
        // The place is free before the client knows.
        let memory = self.held.into_memory();
        let answer = answer.map(|(outputs, outputs_memory)| Answered { outputs, outputs_memory, memory });
        // A client that has left gets no answer.
        let _ = self.answer.send(answer);
    }

    pub(super) fn fail(self, failure: Failure) {
        self.answer(Err(failure));
    }
}

/// Runs calls that can be joined, and answers each of them. Returns those that no runner has answered, because this one died before.
pub(super) async fn run(instance: &Instance, metrics: &ModelMetrics, mut batch: Vec<WaitingCall>) -> Vec<WaitingCall> {
    let now = Instant::now();
    for call in &mut batch {
        metrics.waited(now - call.counted_until);
        call.counted_until = now;
    }
    if batch.len() > 1 && batch.iter().all(|call| !call.is_alone) {
        match run_joined(instance, metrics, &mut batch).await {
            Ok((outputs, share)) => {
                let answers = batch.into_iter().zip(outputs);
                answers.for_each(|(call, outputs)| call.answer(Ok((outputs, Arc::clone(&share)))));
                return Vec::new();
            }
            Err(Unjoined::Alike(failure)) => {
                batch.into_iter().for_each(|call| call.fail(failure.clone()));
                return Vec::new();
            }
            // One of the calls may be the cause: each gets the answer that it would get without the others.
            Err(Unjoined::Apart) => batch.iter_mut().for_each(|call| call.is_alone = true),
        }
    }
    let mut rest = batch.into_iter();
    while instance.is_up()
        && let Some(mut call) = rest.next()
    {
        if call.is_over(Instant::now()) {
            call.fail(Failure::deadline());
            continue;
        }
        let (inputs, n_rows) = (std::mem::take(&mut call.inputs), call.n_rows);
        let answer = tokio::select! {
            answer = run_once(instance, metrics, inputs, (n_rows, 1)) => answer,
            // Its client has left: dropping the call cancels it.
            () = call.answer.closed() => continue,
        };
        match answer {
            Ok(outputs) => {
                let share = call.held.share_of(&outputs);
                call.answer(Ok((outputs, share)));
            }
            Err(error) => call.fail(Failure::from(&error)),
        }
    }
    rest.collect()
}

/// Runs calls together. Those whose clients leave while the batch waits for memory are taken out of it. Returns the outputs of each, and
/// what all of them take: a part keeps the memory of the whole.
async fn run_joined(
    instance: &Instance,
    metrics: &ModelMetrics,
    batch: &mut Vec<WaitingCall>,
) -> Result<(Vec<Tensors>, Arc<Share>), Unjoined> {
    let (inputs, n_rows) = loop {
        let n_rows: Vec<usize> = batch.iter().map(|call| call.n_rows).collect();
        let memory = memory(instance, batch, n_rows.iter().sum()).await;
        let memory = memory.map_err(|error| Unjoined::of(&error))?;
        let now = Instant::now();
        let over = batch.extract_if(.., |call| call.is_over(now));
        if over.map(|call| call.fail(Failure::deadline())).count() == 0 {
            break (join(batch, memory).ok_or(Unjoined::Apart)?, n_rows);
        }
        if batch.len() < 2 {
            return Err(Unjoined::Apart);
        }
    };
    let first = batch.first().ok_or(Unjoined::Apart)?;
    // The joined inputs take memory beside those of each call.
    let _joined = first.held.share_of(&inputs);
    let outputs = run_once(instance, metrics, inputs, (n_rows.iter().sum(), batch.len())).await;
    let outputs = outputs.map_err(|error| Unjoined::of(&error))?;
    let start = Instant::now();
    let divided = batch::divide(&outputs, &n_rows).ok_or(Unjoined::Apart)?;
    metrics.divided(batch.len(), start.elapsed());
    Ok((divided, first.held.share_of(&outputs)))
}

/// Runs the model on the rows of this many calls.
async fn run_once(
    instance: &Instance,
    metrics: &ModelMetrics,
    inputs: Tensors,
    (n_rows, n_calls): (usize, usize),
) -> Result<Tensors, Error> {
    let (outputs, timings) = instance.infer(inputs).await?;
    metrics.ran(n_rows, n_calls, &timings);
    Ok(outputs)
}

/// Why calls were not run together.
enum Unjoined {
    /// They fail alike, whichever of them there are.
    Alike(Failure),
    /// Each has to be run by itself.
    Apart,
}

impl Unjoined {
    fn of(error: &Error) -> Self {
        match error.kind() {
            ErrorKind::Timeout | ErrorKind::Machine | ErrorKind::NoRunner => Self::Alike(Failure::from(error)),
            // A batch that finds no room in the memory that is shared with the runner is run apart, too.
            _ => Self::Apart,
        }
    }
}

/// The memory of the inputs of a batch, by their names.
type BatchMemory = Vec<(String, Option<NumericTensor>)>;

/// Takes the memory for the inputs of calls that are joined: for large ones, that which the runner shares. Strings need none.
async fn memory(instance: &Instance, batch: &[WaitingCall], n_rows: usize) -> Result<BatchMemory, Error> {
    let mut memory = Vec::new();
    for (name, tensor) in batch.first().into_iter().flat_map(|first| &first.inputs) {
        let place = match batch::joined_shape(tensor, n_rows) {
            Some((dtype, shape)) => zeroed(instance, dtype, &shape).await?,
            None => None,
        };
        memory.push((name.clone(), place));
    }
    Ok(memory)
}

/// Joins the inputs of calls in this memory. `None` if they cannot be joined.
fn join(batch: &[WaitingCall], memory: BatchMemory) -> Option<Tensors> {
    let joined = memory.into_iter().map(|(name, memory)| {
        let parts: Vec<&Tensor> = batch.iter().filter_map(|call| call.inputs.get(&name)).collect();
        Some((name, batch::join(&parts, memory)?))
    });
    joined.collect()
}

/// Memory for an input: shared with the runner if it is large. `None` if no tensor can have this shape.
pub(crate) async fn zeroed(
    instance: &Instance,
    dtype: DataType,
    shape: &[usize],
) -> Result<Option<NumericTensor>, Error> {
    let Ok(n_bytes) = NumericTensor::n_bytes_of(dtype, shape) else { return Ok(None) };
    match batch::is_shared(n_bytes) {
        true => instance.model.alloc_dtype(dtype, shape).await.map(Some),
        false => Ok(batch::on_heap(dtype, shape.to_vec(), n_bytes)),
    }
}
