//! One runner of a model: its calls, and its restarts.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use carton_core::{CallTimings, Carton, Error, Inputs, Tensors};
use tokio::sync::watch;
use tokio::task::AbortHandle;

use super::availability::Availability;
use crate::failure::{Failure, in_one_line};
use crate::metrics::ModelMetrics;

/// A runner of a model.
#[derive(Debug)]
pub(crate) struct Instance {
    pub(crate) model: Carton,
    n_calls: AtomicUsize,
    state: watch::Receiver<RunnerState>,
    availability: Arc<Availability>,
    /// The task that starts the runner again.
    restarting: AbortHandle,
}

/// The state of a runner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RunnerState {
    pub(crate) is_up: bool,
    n_deaths: u64,
}

/// The longest time that a call which a runner did not survive waits until no further call is sent there.
const DEATH_NOTICE: Duration = Duration::from_secs(1);

/// How often a runner that is to be started again is looked at.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// A call on an instance, while it runs.
#[derive(Debug)]
pub(crate) struct RunningCall(Arc<Instance>);

impl Instance {
    /// A runner that is up. `label` is the model's name and version, for the log.
    pub(crate) fn new(
        model: Carton,
        label: &str,
        availability: &Arc<Availability>,
        metrics: &Arc<ModelMetrics>,
    ) -> Arc<Self> {
        let (report, state) = watch::channel(RunnerState { is_up: true, n_deaths: 0 });
        availability.runner_started();
        let restarts = Restarts {
            model: model.clone(),
            label: label.to_owned(),
            report,
            availability: Arc::clone(availability),
            metrics: Arc::clone(metrics),
        };
        let restarting = tokio::spawn(restarts.run()).abort_handle();
        let (n_calls, availability) = (AtomicUsize::new(0), Arc::clone(availability));
        Arc::new(Self { model, n_calls, state, availability, restarting })
    }

    pub(crate) fn is_up(&self) -> bool {
        self.state.borrow().is_up
    }

    /// Runs the model.
    ///
    /// # Errors
    /// As those of [`Carton::infer`]. After one that the runner did not survive, it is down.
    pub(crate) async fn infer(&self, inputs: Tensors) -> Result<(Tensors, CallTimings), Error> {
        let n_deaths = self.state.borrow().n_deaths;
        let ran = self.model.infer(Inputs::Named(inputs)).timed().await;
        // When a running call exceeds the model's timeout, the library kills the runner.
        if ran.as_ref().is_err_and(Error::is_runner_lost) {
            let mut state = self.state.clone();
            // If nobody notices the death, the next call does.
            let _ = tokio::time::timeout(DEATH_NOTICE, state.wait_for(|state| state.n_deaths > n_deaths)).await;
        }
        ran.map(|(outputs, timings)| (outputs.into_tensors(), timings))
    }

    /// Whether it is down, and the calls that it has. The instance with the least of this takes the next call.
    pub(crate) fn busyness(&self) -> (bool, usize) {
        (!self.is_up(), self.n_calls.load(Ordering::Relaxed))
    }

    /// Counts a call until the returned value is dropped.
    pub(crate) fn enter(self: &Arc<Self>) -> RunningCall {
        self.n_calls.fetch_add(1, Ordering::Relaxed);
        RunningCall(Arc::clone(self))
    }

    /// Receives its state.
    pub(crate) fn watch(&self) -> watch::Receiver<RunnerState> {
        self.state.clone()
    }

    /// Waits until it is up.
    ///
    /// # Errors
    /// The model takes no calls, because its runners keep dying or cannot be started.
    pub(crate) async fn until_up(&self) -> Result<(), Failure> {
        tokio::select! {
            biased;
            () = self.until_started() => Ok(()),
            () = self.availability.until_paused() => self.availability.check(),
        }
    }

    /// Waits until it is up, however long the model takes no calls.
    pub(crate) async fn until_started(&self) {
        if self.state.clone().wait_for(|state| state.is_up).await.is_err() {
            // The task that starts it ended with a panic.
            std::future::pending().await
        }
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        self.restarting.abort();
    }
}

impl Drop for RunningCall {
    fn drop(&mut self) {
        self.0.n_calls.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Starts a runner again whenever it has died, also if no call is running, after a delay if it dies again and again.
struct Restarts {
    model: Carton,
    label: String,
    report: watch::Sender<RunnerState>,
    availability: Arc<Availability>,
    metrics: Arc<ModelMetrics>,
}

impl Restarts {
    /// Never returns. The instance aborts it.
    async fn run(self) {
        let model = &self.label;
        loop {
            let started = Instant::now();
            let error = self.model.runner_died().await;
            // Comes before the model pauses: calls of a model that pauses see no runner that is up.
            self.report.send_modify(|state| (state.is_up, state.n_deaths) = (false, state.n_deaths + 1));
            let delay = self.availability.runner_died(started.elapsed());
            tracing::warn!(target: "carton::serve", model, "a runner died: {}", in_one_line(&error));
            self.start(delay).await;
            self.availability.runner_started();
            self.report.send_modify(|state| state.is_up = true);
            self.metrics.restarts.inc();
            tracing::info!(target: "carton::serve", model, "a runner was started again");
        }
    }

    async fn until_running(&self) {
        while !self.model.is_running() {
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }

    async fn start(&self, mut delay: Duration) {
        let model = &self.label;
        loop {
            if !delay.is_zero() && !self.model.is_running() {
                let seconds = delay.as_secs();
                tracing::warn!(target: "carton::serve", model, "a runner is started again in {seconds} s");
                // A call that came before the death was noticed may have started one.
                tokio::select! {
                    () = tokio::time::sleep(delay) => {}
                    () = self.until_running() => {}
                }
            }
            let Err(error) = self.model.ensure_running().await else { return };
            let reason = in_one_line(&error);
            tracing::warn!(target: "carton::serve", model, "a runner cannot be started again: {reason}");
            delay = self.availability.runner_not_started();
        }
    }
}
