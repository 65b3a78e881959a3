//! Joins calls that come together to batches, and runs them.
//!
//! Each runner has as many workers as it runs calls at once. A worker takes the first call that waits and the calls that can be joined to it, in the order of
//! their arrival. While all workers are busy, waiting calls collect and are joined. A call that finds an idle worker runs at once, unless the
//! operator sets a delay. The last idle worker first lets the connections read what they have received already.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use carton_core::{CallTimings, DataType, Error, ErrorKind, Inputs, NumericTensor, Tensor, Tensors};
use parking_lot::Mutex;
use tokio::sync::{Notify, oneshot};

use super::batch::{self, BatchKey};
use super::instance::Instance;
use super::spec::Batching;
use crate::failure::{Failure, Reason};
use crate::metrics::ModelMetrics;

/// The calls that wait for a worker.
#[derive(Debug)]
pub(crate) struct Queue {
    waiting: Mutex<Waiting>,
    arrived: Notify,
    batching: Batching,
    metrics: Arc<ModelMetrics>,
}

#[derive(Debug, Default)]
struct Waiting {
    calls: VecDeque<WaitingCall>,
    /// The number of calls that ever waited.
    n_calls: u64,
    /// The workers that wait for calls.
    n_idle: usize,
    closed: bool,
}

/// What an idle worker does.
enum Step {
    Run(Vec<WaitingCall>),
    /// Let the connections read what they have received, so that their calls join the first.
    Yield,
    /// Wait for a call.
    Wait,
    /// Wait for further calls, until then.
    WaitUntil(Instant),
    End,
}

/// A call that waits to be joined to a batch.
#[derive(Debug)]
struct WaitingCall {
    number: u64,
    inputs: Tensors,
    key: BatchKey,
    n_rows: usize,
    arrived: Instant,
    deadline: Option<Instant>,
    answer: oneshot::Sender<Result<Tensors, Failure>>,
}

impl WaitingCall {
    /// Whether its client has left, or waits no longer.
    fn is_over(&self, now: Instant) -> bool {
        self.answer.is_closed() || self.deadline.is_some_and(|deadline| deadline <= now)
    }

    fn answer(self, answer: Result<Tensors, Failure>) {
        // A client that has left gets no answer.
        let _ = self.answer.send(answer);
    }
}

impl Queue {
    /// Starts the workers. They end when the queue is [closed](Self::close).
    pub(crate) fn start(batching: Batching, instances: &[Arc<Instance>], metrics: &Arc<ModelMetrics>) -> Arc<Self> {
        let (waiting, arrived) = (Mutex::default(), Notify::new());
        let queue = Arc::new(Self { waiting, arrived, batching, metrics: Arc::clone(metrics) });
        for instance in instances {
            for _ in 0..instance.model.max_concurrency().clamp(1, MAX_WORKERS) {
                tokio::spawn(Arc::clone(&queue).work(Arc::clone(instance)));
            }
        }
        queue
    }

    /// Runs a call with others that come together with it.
    ///
    /// # Errors
    /// The call itself fails, or its runner died.
    pub(crate) async fn run(
        &self,
        inputs: Tensors,
        (key, n_rows): (BatchKey, usize),
        deadline: Option<Instant>,
    ) -> Result<Tensors, Failure> {
        let (answer, answered) = oneshot::channel();
        let number = {
            let mut waiting = self.waiting.lock();
            waiting.n_calls += 1;
            let (number, arrived) = (waiting.n_calls, Instant::now());
            waiting.calls.push_back(WaitingCall { number, inputs, key, n_rows, arrived, deadline, answer });
            number
        };
        self.arrived.notify_one();
        let mut entry = Entry { queue: self, number, is_answered: false };
        let answer = answered.await;
        entry.is_answered = true;
        answer.unwrap_or_else(|_| Err(Failure::new(Reason::Unavailable, "the model was unloaded")))
    }

    /// Ends the workers, once all calls were taken.
    pub(crate) fn close(&self) {
        self.waiting.lock().closed = true;
        self.arrived.notify_waiters();
        self.arrived.notify_one();
    }

    async fn work(self: Arc<Self>, instance: Arc<Instance>) {
        loop {
            // Another runner may be up, whose workers take the calls meanwhile.
            instance.until_up().await;
            let Some(batch) = self.next_batch().await else { return };
            let _running = instance.enter();
            self.run_batch(&instance, batch).await;
        }
    }

    /// Waits for a call, and takes it with those that can be joined to it. `None` when the queue is closed.
    async fn next_batch(&self) -> Option<Vec<WaitingCall>> {
        self.waiting.lock().n_idle += 1;
        let mut has_yielded = false;
        loop {
            let arrived = self.arrived.notified();
            match self.step(has_yielded) {
                Step::Run(batch) => return Some(batch),
                Step::End => return None,
                Step::Yield => {
                    has_yielded = true;
                    tokio::task::yield_now().await;
                }
                Step::Wait => arrived.await,
                Step::WaitUntil(ready_at) => {
                    tokio::select! {
                        () = arrived => {}
                        () = tokio::time::sleep_until(ready_at.into()) => {}
                    }
                }
            }
        }
    }

    /// Decides what an idle worker does.
    fn step(&self, has_yielded: bool) -> Step {
        let mut waiting = self.waiting.lock();
        let now = Instant::now();
        waiting.remove_leading(now);
        let Some(first) = waiting.calls.front() else {
            if !waiting.closed {
                return Step::Wait;
            }
            waiting.n_idle -= 1;
            // For the other workers, which wait for the same notice.
            self.arrived.notify_one();
            return Step::End;
        };
        // A delay that no clock can hold is one without an end.
        let ready_at = first.arrived.checked_add(self.batching.max_delay).unwrap_or_else(|| now + LONGEST_DELAY);
        let is_full = waiting.n_joinable(self.max_batch()) >= self.max_batch();
        if !is_full && !waiting.closed {
            if waiting.n_idle == 1 && !has_yielded {
                return Step::Yield;
            }
            if ready_at > now {
                return Step::WaitUntil(ready_at);
            }
        }
        waiting.n_idle -= 1;
        let batch = waiting.take(self.max_batch(), now);
        if !waiting.calls.is_empty() {
            // The notices of several arrivals are one notice; another worker may be idle.
            self.arrived.notify_one();
        }
        Step::Run(batch)
    }

    fn max_batch(&self) -> usize {
        self.batching.max_batch.get()
    }

    async fn run_batch(&self, instance: &Arc<Instance>, mut batch: Vec<WaitingCall>) {
        let now = Instant::now();
        batch.iter().for_each(|call| self.metrics.waited(now - call.arrived));
        if batch.len() > 1 {
            match self.run_joined(instance, &mut batch).await {
                Ok(outputs) => {
                    batch.into_iter().zip(outputs).for_each(|(call, outputs)| call.answer(Ok(outputs)));
                    return;
                }
                Err(Unjoined::Alike(failure)) => {
                    batch.into_iter().for_each(|call| call.answer(Err(failure.clone())));
                    return;
                }
                // One of the calls may be the cause: each gets the answer that it would get without the others.
                Err(Unjoined::Apart) => {}
            }
        }
        for mut call in batch {
            if call.is_over(Instant::now()) {
                call.answer(Err(Failure::deadline()));
                continue;
            }
            // After a call that killed the runner.
            instance.until_up().await;
            let inputs = std::mem::take(&mut call.inputs);
            let answer = tokio::select! {
                answer = self.run_once(instance, inputs, call.n_rows) => answer,
                // Its client has left: dropping the call cancels it.
                () = call.answer.closed() => continue,
            };
            call.answer(answer.map_err(|error| Failure::from(&error)));
        }
    }

    /// Runs calls together. Those whose clients leave while the batch waits for memory are taken out of it.
    async fn run_joined(
        &self,
        instance: &Arc<Instance>,
        batch: &mut Vec<WaitingCall>,
    ) -> Result<Vec<Tensors>, Unjoined> {
        let (inputs, n_rows) = loop {
            let n_rows: Vec<usize> = batch.iter().map(|call| call.n_rows).collect();
            let memory = memory(instance, batch, n_rows.iter().sum()).await.map_err(Unjoined::of)?;
            let now = Instant::now();
            let over = batch.extract_if(.., |call| call.is_over(now));
            if over.map(|call| call.answer(Err(Failure::deadline()))).count() == 0 {
                break (join(batch, memory).ok_or(Unjoined::Apart)?, n_rows);
            }
            if batch.len() < 2 {
                return Err(Unjoined::Apart);
            }
        };
        let outputs = self.run_once(instance, inputs, n_rows.iter().sum()).await.map_err(Unjoined::of)?;
        let start = Instant::now();
        let divided = batch::divide(&outputs, &n_rows);
        self.metrics.divided(start.elapsed());
        divided.ok_or(Unjoined::Apart)
    }

    async fn run_once(&self, instance: &Arc<Instance>, inputs: Tensors, n_rows: usize) -> Result<Tensors, Error> {
        let ran: Result<(Tensors, CallTimings), Error> = instance.model.infer(Inputs::Named(inputs)).timed().await;
        match ran {
            Ok((outputs, timings)) => {
                self.metrics.ran(n_rows, &timings);
                Ok(outputs)
            }
            Err(error) => {
                instance.note(&error);
                Err(error)
            }
        }
    }
}

/// The place of a call in the queue. A client that leaves takes its call with it: what it sent is counted no longer.
struct Entry<'a> {
    queue: &'a Queue,
    number: u64,
    is_answered: bool,
}

impl Drop for Entry<'_> {
    fn drop(&mut self) {
        if !self.is_answered {
            self.queue.waiting.lock().calls.retain(|call| call.number != self.number);
        }
    }
}

/// What stands for a delay that is longer than any.
const LONGEST_DELAY: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// The most workers of a runner. A runner that runs more calls at once gets batches instead.
const MAX_WORKERS: usize = 16;

/// Why calls were not run together.
enum Unjoined {
    /// They fail alike, whichever of them there are.
    Alike(Failure),
    /// Each has to be run by itself.
    Apart,
}

impl Unjoined {
    fn of(error: Error) -> Self {
        match error.kind() {
            ErrorKind::Busy | ErrorKind::Timeout | ErrorKind::Machine | ErrorKind::NoRunner => {
                Self::Alike(Failure::from(&error))
            }
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

impl Waiting {
    /// Removes the calls at the front that nobody waits for.
    fn remove_leading(&mut self, now: Instant) {
        while self.calls.front().is_some_and(|call| call.is_over(now)) {
            if let Some(call) = self.calls.pop_front() {
                call.answer(Err(Failure::deadline()));
            }
        }
    }

    /// The rows that would be run with the first call, up to `most`.
    fn n_joinable(&self, most: usize) -> usize {
        let Some(first) = self.calls.front() else { return 0 };
        let alike = self.calls.iter().filter(|call| call.key == first.key);
        alike
            .map(|call| call.n_rows)
            .try_fold(0_usize, |sum, rows| Some(sum.saturating_add(rows)).filter(|sum| *sum < most))
            .unwrap_or(most)
    }

    /// Takes the first call, and the calls that fit into a batch with it.
    fn take(&mut self, most: usize, now: Instant) -> Vec<WaitingCall> {
        let Some(first) = self.calls.pop_front() else { return Vec::new() };
        let mut n_rows = first.n_rows;
        let mut batch = vec![first];
        let mut position = 0;
        while let Some(call) = self.calls.get(position) {
            if call.is_over(now) {
                if let Some(call) = self.calls.remove(position) {
                    call.answer(Err(Failure::deadline()));
                }
            } else if n_rows >= most {
                break;
            } else if call.key == batch[0].key && n_rows.saturating_add(call.n_rows) <= most {
                n_rows += call.n_rows;
                batch.extend(self.calls.remove(position));
            } else {
                position += 1;
            }
        }
        batch
    }
}
