//! Lets calls wait for runners, and chooses those that are run together.
//!
//! Each runner has as many workers as it runs calls at once. A worker takes the first call that waits and the calls that can be joined to it, in the order of
//! their arrival. While all workers are busy, waiting calls collect and are joined. A call that finds an idle worker runs at once, unless the
//! operator sets a delay. The last idle worker first lets the connections read what they have received already.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use carton_core::Tensors;
use parking_lot::Mutex;
use tokio::sync::{Notify, oneshot, watch};

use super::availability::Availability;
use super::batch;
use super::call::{Answered, CallResources};
use super::instance::{Instance, RunnerState};
use super::run::{WaitingCall, run};
use super::spec::Batching;
use crate::failure::{Failure, Reason};
use crate::metrics::ModelMetrics;

/// The calls that wait for a worker.
#[derive(Debug)]
pub(crate) struct Queue {
    waiting: Mutex<Waiting>,
    arrived: Notify,
    /// Whether the model was unloaded.
    closed: watch::Sender<bool>,
    availability: Arc<Availability>,
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
}

/// What an idle worker does.
enum Step {
    Run(Vec<WaitingCall>),
    /// Leave the calls to other workers: its runner is down.
    Leave,
    /// Let the connections read what they have received, so that their calls join the first.
    Yield,
    /// Wait for a call.
    Wait,
    /// Wait for further calls, until then.
    WaitUntil(Instant),
    End,
}

impl Queue {
    /// Starts the workers. The workers end when the queue is [closed](Self::close).
    pub(crate) fn start(
        batching: Batching,
        instances: &[Arc<Instance>],
        availability: Arc<Availability>,
        metrics: &Arc<ModelMetrics>,
    ) -> Arc<Self> {
        let (waiting, arrived, closed) = (Mutex::default(), Notify::new(), watch::Sender::new(false));
        let queue = Arc::new(Self { waiting, arrived, closed, availability, batching, metrics: Arc::clone(metrics) });
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
        n_rows: usize,
        deadline: Option<Instant>,
        held: CallResources,
    ) -> Result<Answered, Failure> {
        let (answer, answered) = oneshot::channel();
        let number = {
            let mut waiting = self.waiting.lock();
            waiting.n_calls += 1;
            let (number, arrived) = (waiting.n_calls, Instant::now());
            let (counted_until, is_alone) = (arrived, false);
            let call = WaitingCall { number, inputs, n_rows, arrived, counted_until, is_alone, deadline, held, answer };
            waiting.calls.push_back(call);
            number
        };
        self.arrived.notify_one();
        let mut entry = Entry { queue: self, number, is_answered: false };
        // If the model pauses by now, the calls that waited may have been answered already.
        self.availability.check()?;
        let answer = answered.await;
        entry.is_answered = true;
        answer.unwrap_or_else(|_| Err(Failure::new(Reason::Unavailable, "the model was unloaded")))
    }

    /// Ends the workers. No call waits any more.
    pub(crate) fn close(&self) {
        self.closed.send_replace(true);
        self.arrived.notify_waiters();
        self.arrived.notify_one();
    }

    async fn work(self: Arc<Self>, instance: Arc<Instance>) {
        let (mut state, mut closed) = (instance.watch(), self.closed.subscribe());
        loop {
            // Another runner may be up, whose workers take the calls meanwhile.
            tokio::select! {
                () = self.wait_for_runner(&instance) => {}
                // The channel is closed only with the queue.
                _ = closed.wait_for(|closed| *closed) => return,
            }
            let Some(batch) = self.next_batch(&mut state).await else { return };
            if !batch.is_empty() {
                let _running = instance.enter();
                let rest = run(&instance, &self.metrics, batch).await;
                self.put_back(rest);
            }
        }
    }

    /// Waits until the runner is up. While the model pauses, the calls that wait fail.
    async fn wait_for_runner(&self, instance: &Instance) {
        while let Err(failure) = instance.until_up().await {
            let calls = std::mem::take(&mut self.waiting.lock().calls);
            calls.into_iter().for_each(|call| call.fail(failure.clone()));
            tokio::select! {
                () = instance.until_started() => {}
                () = self.availability.until_changed() => {}
            }
        }
    }

    /// Lets calls wait again, before all others. Another runner takes them, or the next one.
    fn put_back(&self, calls: Vec<WaitingCall>) {
        if calls.is_empty() {
            return;
        }
        let mut waiting = self.waiting.lock();
        calls.into_iter().rev().for_each(|call| waiting.calls.push_front(call));
        drop(waiting);
        self.arrived.notify_one();
    }

    /// Waits for a call, and takes it with those that can be joined to it. There is none if the runner is down; `None` when the
    /// queue is closed.
    async fn next_batch(&self, state: &mut watch::Receiver<RunnerState>) -> Option<Vec<WaitingCall>> {
        self.waiting.lock().n_idle += 1;
        let mut has_yielded = false;
        loop {
            let arrived = self.arrived.notified();
            let is_up = state.borrow_and_update().is_up;
            match self.step(is_up, has_yielded) {
                Step::Run(batch) => return Some(batch),
                Step::Leave => return Some(Vec::new()),
                Step::End => return None,
                Step::Yield => {
                    has_yielded = true;
                    tokio::task::yield_now().await;
                }
                Step::Wait => {
                    tokio::select! {
                        () = arrived => {}
                        _ = state.changed() => {}
                    }
                }
                Step::WaitUntil(ready_at) => {
                    tokio::select! {
                        () = arrived => {}
                        _ = state.changed() => {}
                        () = tokio::time::sleep_until(ready_at.into()) => {}
                    }
                }
            }
        }
    }

    /// Decides what an idle worker does.
    fn step(&self, is_up: bool, has_yielded: bool) -> Step {
        let mut waiting = self.waiting.lock();
        let (now, is_closed) = (Instant::now(), *self.closed.borrow());
        waiting.remove_leading(now);
        if !is_up || is_closed && waiting.calls.is_empty() {
            waiting.n_idle -= 1;
            // For another worker, which may wait for the notice that woke this one.
            self.arrived.notify_one();
            return if is_up { Step::End } else { Step::Leave };
        }
        let Some(first) = waiting.calls.front() else { return Step::Wait };
        // A delay that no clock can hold is one without an end.
        let ready_at = first.arrived.checked_add(self.batching.max_delay).unwrap_or_else(|| now + LONGEST_DELAY);
        let is_full = waiting.n_joinable(self.max_batch()) >= self.max_batch();
        if !is_full && !is_closed {
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

impl Waiting {
    /// Removes the calls at the front that nobody waits for.
    fn remove_leading(&mut self, now: Instant) {
        while self.calls.front().is_some_and(|call| call.is_over(now)) {
            if let Some(call) = self.calls.pop_front() {
                call.fail(Failure::deadline());
            }
        }
    }

    /// The rows that would be run with the first call, up to `most`.
    fn n_joinable(&self, most: usize) -> usize {
        let Some(first) = self.calls.front() else { return 0 };
        if first.is_alone {
            return most;
        }
        let alike = self.calls.iter().filter(|call| !call.is_alone && batch::can_join(&call.inputs, &first.inputs));
        alike
            .map(|call| call.n_rows)
            .try_fold(0_usize, |sum, rows| Some(sum.saturating_add(rows)).filter(|sum| *sum < most))
            .unwrap_or(most)
    }

    /// Takes the first call, and the calls that fit into a batch with it.
    fn take(&mut self, most: usize, now: Instant) -> Vec<WaitingCall> {
        let Some(first) = self.calls.pop_front() else { return Vec::new() };
        if first.is_alone {
            // One worker runs them one after the other: side by side, one that kills its runner would cost the others theirs.
            let n_others = self.calls.iter().take_while(|call| call.is_alone).count();
            return std::iter::once(first).chain(self.calls.drain(..n_others)).collect();
        }
        let mut n_rows = first.n_rows;
        let mut taken = vec![first];
        let mut position = 0;
        while let Some(call) = self.calls.get(position) {
            if call.is_over(now) {
                if let Some(call) = self.calls.remove(position) {
                    call.fail(Failure::deadline());
                }
            } else if n_rows >= most {
                break;
            } else if !call.is_alone
                && n_rows.saturating_add(call.n_rows) <= most
                && batch::can_join(&call.inputs, &taken[0].inputs)
            {
                n_rows += call.n_rows;
                taken.extend(self.calls.remove(position));
            } else {
                position += 1;
            }
        }
        taken
    }
}
