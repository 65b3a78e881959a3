//! One runner of a model: its calls, and its restarts.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use carton_core::{Carton, Error, ErrorKind};
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::task::AbortHandle;

use super::health::Health;
use crate::failure::{Failure, Reason, in_one_line};
use crate::metrics::ModelMetrics;

/// A runner of a model.
#[derive(Debug)]
pub(crate) struct Instance {
    pub(crate) model: Carton,
    n_calls: AtomicUsize,
    pulse: Arc<Pulse>,
    /// The task that starts the runner again whenever it has died.
    keeper: AbortHandle,
}

/// Whether a runner is up.
#[derive(Debug)]
struct Pulse {
    beat: watch::Sender<Beat>,
    vitality: Arc<Vitality>,
}

/// The state of a runner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Beat {
    /// It has been ready since then.
    Up(Instant),
    /// It died, and is started again after this pause.
    Down(Duration),
}

/// Whether the runners of a model stay alive.
#[derive(Debug)]
pub(crate) struct Vitality {
    /// The name and version, for the log.
    label: String,
    health: Mutex<Health>,
    /// The runners that are up.
    n_up: AtomicUsize,
    /// How long the model is not ready, because its runners keep dying or cannot be started; zero if it is ready.
    pause: watch::Sender<Duration>,
    metrics: Arc<ModelMetrics>,
}

/// A call on an instance, while it runs.
#[derive(Debug)]
pub(crate) struct Running(Arc<Instance>);

/// The shortest pause after a runner that could not be started.
const SHORTEST_RETRY: Duration = Duration::from_secs(1);

impl Beat {
    pub(super) fn is_up(&self) -> bool {
        matches!(self, Self::Up(_))
    }
}

impl Vitality {
    pub(crate) fn new(label: String, metrics: Arc<ModelMetrics>) -> Arc<Self> {
        let (health, n_up) = (Mutex::default(), AtomicUsize::new(0));
        Arc::new(Self { label, health, n_up, pause: watch::Sender::new(Duration::ZERO), metrics })
    }

    /// # Errors
    /// The model is in a pause, because its runners keep dying or cannot be started.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        let pause = *self.pause.borrow();
        match pause.is_zero() {
            true => Ok(()),
            false => {
                let failure = Failure::new(Reason::Unavailable, "the model is not ready: its runners keep dying");
                Err(failure.retry_after(pause))
            }
        }
    }

    fn set_pause(&self, pause: Duration) {
        self.pause.send_if_modified(|known| std::mem::replace(known, pause) != pause);
    }

    fn has_runner(&self) -> bool {
        self.n_up.load(Ordering::Relaxed) > 0
    }
}

impl Instance {
    pub(crate) fn new(model: Carton, vitality: Arc<Vitality>) -> Arc<Self> {
        vitality.n_up.fetch_add(1, Ordering::Relaxed);
        let pulse = Arc::new(Pulse { beat: watch::Sender::new(Beat::Up(Instant::now())), vitality });
        let keeper = tokio::spawn(keep(model.clone(), Arc::clone(&pulse))).abort_handle();
        Arc::new(Self { model, n_calls: AtomicUsize::new(0), pulse, keeper })
    }

    /// Whether it is down, and the calls that it has. The instance with the least of this takes the next call.
    pub(crate) fn load(&self) -> (bool, usize) {
        (!self.pulse.beat.borrow().is_up(), self.n_calls.load(Ordering::Relaxed))
    }

    /// Counts a call until the returned value is dropped.
    pub(crate) fn enter(self: &Arc<Self>) -> Running {
        self.n_calls.fetch_add(1, Ordering::Relaxed);
        Running(Arc::clone(self))
    }

    /// Receives the changes of its state.
    pub(crate) fn watch(&self) -> watch::Receiver<Beat> {
        self.pulse.beat.subscribe()
    }

    /// Waits until its runner is up.
    ///
    /// # Errors
    /// The model is in a pause, because its runners keep dying or cannot be started.
    pub(crate) async fn until_up(&self) -> Result<(), Failure> {
        if self.pulse.beat.borrow().is_up() {
            return Ok(());
        }
        let (mut beat, mut pause) = (self.watch(), self.pulse.vitality.pause.subscribe());
        tokio::select! {
            // The channels are closed only with this.
            _ = beat.wait_for(Beat::is_up) => Ok(()),
            _ = pause.wait_for(|pause| !pause.is_zero()) => self.pulse.vitality.check(),
        }
    }

    /// Waits until its runner is up, or the model is in another pause.
    pub(crate) async fn until_change(&self) {
        let (mut beat, mut pause) = (self.watch(), self.pulse.vitality.pause.subscribe());
        tokio::select! {
            _ = beat.wait_for(Beat::is_up) => {}
            _ = pause.changed() => {}
        }
    }

    /// Whether the model has a runner that is up.
    pub(crate) fn has_companion(&self) -> bool {
        self.pulse.vitality.has_runner()
    }

    /// Turns the error of a call into its failure. If the runner died, no further call is sent to it until it was started again.
    pub(crate) fn failure(&self, error: &Error) -> Failure {
        let cannot_start = matches!(
            error,
            Error::Launch(_) | Error::LoadRefused { .. } | Error::LoadTimeout { .. } | Error::RunnerGone { .. }
        );
        let is_dead = match error {
            // When a running call exceeds the model's timeout, the library kills the runner.
            Error::Timeout { waiting, .. } => !waiting,
            error => cannot_start || error.kind() == ErrorKind::RunnerCrashed,
        };
        if is_dead {
            self.pulse.stop(error);
        }
        match cannot_start {
            true => Failure::new(Reason::Unavailable, "the model's runner died, and cannot be started again"),
            false => Failure::from(error),
        }
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        self.keeper.abort();
    }
}

impl Pulse {
    /// The runner died. One death fails all calls of the runner, and the keeper sees it, too: the first of them that gets here counts it.
    fn stop(&self, error: &Error) {
        let vitality = &self.vitality;
        self.beat.send_if_modified(|beat| {
            let Beat::Up(since) = *beat else { return false };
            vitality.n_up.fetch_sub(1, Ordering::Relaxed);
            tracing::warn!(target: "carton::serve", model = vitality.label, "a runner died: {}", in_one_line(error));
            let pause = vitality.health.lock().died(Some(since.elapsed()));
            // Set here, so that no further call of this moment is sent to it.
            if !pause.is_zero() {
                vitality.set_pause(pause);
            }
            *beat = Beat::Down(pause);
            true
        });
    }

    fn start(&self) {
        self.vitality.n_up.fetch_add(1, Ordering::Relaxed);
        self.beat.send_replace(Beat::Up(Instant::now()));
        self.vitality.set_pause(Duration::ZERO);
        tracing::info!(target: "carton::serve", model = self.vitality.label, "a runner was started again");
    }
}

/// Starts the runner again whenever it has died, after a pause if it dies again and again. Ends with its instance, which aborts it.
async fn keep(model: Carton, pulse: Arc<Pulse>) {
    let mut beat = pulse.beat.subscribe();
    loop {
        let pause = tokio::select! {
            error = model.runner_died() => {
                pulse.stop(&error);
                match *pulse.beat.borrow() {
                    Beat::Down(pause) => pause,
                    Beat::Up(_) => Duration::ZERO,
                }
            }
            down = beat.wait_for(|beat| !beat.is_up()) => match down.as_deref() {
                Ok(Beat::Down(pause)) => *pause,
                _ => return,
            },
        };
        start_again(&model, &pulse.vitality, pause).await;
        pulse.start();
    }
}

async fn start_again(model: &Carton, vitality: &Vitality, mut pause: Duration) {
    let label = &vitality.label;
    loop {
        if !pause.is_zero() {
            let seconds = pause.as_secs();
            tracing::warn!(target: "carton::serve", model = label, "a runner is started again in {seconds} s");
            tokio::time::sleep(pause).await;
        }
        vitality.metrics.restarts.inc();
        let Err(error) = model.ping().await else { return };
        let reason = in_one_line(&error);
        tracing::warn!(target: "carton::serve", model = label, "a runner cannot be started again: {reason}");
        pause = vitality.health.lock().died(None).max(SHORTEST_RETRY);
        // Other runners go on answering calls.
        if !vitality.has_runner() {
            vitality.set_pause(pause);
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.n_calls.fetch_sub(1, Ordering::Relaxed);
    }
}
