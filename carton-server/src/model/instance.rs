//! One runner of a model: its calls, and its restarts.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use carton_core::{Carton, Error, ErrorKind};
use parking_lot::Mutex;
use tokio::sync::watch;

use super::health::Health;
use crate::failure::in_one_line;
use crate::metrics::ModelMetrics;

/// A runner of a model.
#[derive(Debug)]
pub(crate) struct Instance {
    pub(crate) model: Carton,
    n_calls: AtomicUsize,
    /// When its runner became ready; `None` while it is down.
    ready_since: watch::Sender<Option<Instant>>,
    vitality: Arc<Vitality>,
}

/// Whether the runners of a model stay alive.
#[derive(Debug)]
pub(crate) struct Vitality {
    /// The name and version, for the log.
    label: String,
    health: Mutex<Health>,
    /// The seconds that the model is not ready, because its runners keep dying or cannot be started; 0 if it is ready.
    pause: AtomicU64,
    metrics: Arc<ModelMetrics>,
}

/// A call on an instance, while it runs.
#[derive(Debug)]
pub(crate) struct Running(Arc<Instance>);

impl Vitality {
    pub(crate) fn new(label: String, metrics: Arc<ModelMetrics>) -> Arc<Self> {
        Arc::new(Self { label, health: Mutex::default(), pause: AtomicU64::new(0), metrics })
    }

    /// The length of the pause in which the model is, because its runners keep dying.
    pub(crate) fn pause(&self) -> Option<Duration> {
        Some(self.pause.load(Ordering::Relaxed)).filter(|seconds| *seconds > 0).map(Duration::from_secs)
    }

    fn set_pause(&self, pause: Duration) {
        self.pause.store(pause.as_secs(), Ordering::Relaxed);
    }
}

impl Instance {
    pub(crate) fn new(model: Carton, vitality: Arc<Vitality>) -> Arc<Self> {
        let (ready_since, _) = watch::channel(Some(Instant::now()));
        Arc::new(Self { model, n_calls: AtomicUsize::new(0), ready_since, vitality })
    }

    /// The calls that it has, and whether it is down. The instance with the least of this takes the next call.
    pub(crate) fn load(&self) -> (bool, usize) {
        (self.ready_since.borrow().is_none(), self.n_calls.load(Ordering::Relaxed))
    }

    /// Counts a call until the returned value is dropped.
    pub(crate) fn enter(self: &Arc<Self>) -> Running {
        self.n_calls.fetch_add(1, Ordering::Relaxed);
        Running(Arc::clone(self))
    }

    /// Waits until its runner is up.
    pub(crate) async fn until_up(&self) {
        // The channel is closed only with this.
        let _ = self.ready_since.subscribe().wait_for(Option::is_some).await;
    }

    /// Looks at the error of a call. If the runner died, it is started again, after a pause if it dies again and again.
    pub(crate) fn note(self: &Arc<Self>, error: &Error) {
        // When a running call exceeds the model's timeout, the library kills the runner.
        let is_dead = match error {
            Error::Timeout { waiting, .. } => !waiting,
            error => error.kind() == ErrorKind::RunnerCrashed,
        };
        // One death fails all calls of the runner. The first of them to get here takes this.
        let Some(ready_since) = is_dead.then(|| self.ready_since.send_replace(None)).flatten() else { return };
        tracing::warn!(target: "carton::serve", model = self.vitality.label, "a runner died: {}", in_one_line(error));
        let pause = self.vitality.health.lock().died(Some(ready_since.elapsed()));
        // Set here, so that no further call of this moment is sent to it.
        if !pause.is_zero() {
            self.vitality.set_pause(pause);
        }
        let (instance, vitality) = (Arc::downgrade(self), Arc::clone(&self.vitality));
        tokio::spawn(async move {
            let mut pause = pause;
            loop {
                if !pause.is_zero() {
                    let (model, seconds) = (&vitality.label, pause.as_secs());
                    tracing::warn!(target: "carton::serve", model, "not ready for {seconds} s: its runners keep dying");
                    tokio::time::sleep(pause).await;
                }
                // The model may have been unloaded meanwhile.
                let Some(instance) = instance.upgrade() else { return };
                vitality.metrics.restarts.inc();
                match instance.model.ping().await {
                    Ok(()) => {
                        instance.ready_since.send_replace(Some(Instant::now()));
                        vitality.set_pause(Duration::ZERO);
                        tracing::info!(target: "carton::serve", model = vitality.label, "a runner was started again");
                        return;
                    }
                    Err(error) => {
                        let (model, error) = (&vitality.label, in_one_line(&error));
                        tracing::warn!(target: "carton::serve", model, "a runner cannot be started again: {error}");
                        pause = vitality.health.lock().died(None).max(SHORTEST_RETRY);
                        vitality.set_pause(pause);
                    }
                }
            }
        });
    }
}

/// The shortest pause after a runner that could not be started.
const SHORTEST_RETRY: Duration = Duration::from_secs(1);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.n_calls.fetch_sub(1, Ordering::Relaxed);
    }
}
