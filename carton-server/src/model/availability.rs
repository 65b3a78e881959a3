//! Whether a model takes calls: it does not while none of its runners is up and the next start waits, because they keep dying or cannot be
//! started.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use super::health::Health;
use crate::failure::{Failure, Reason};

/// The runners of a model that are up, and the pause of the model when none is.
#[derive(Debug, Default)]
pub(crate) struct Availability {
    state: watch::Sender<State>,
}

#[derive(Debug, Default)]
struct State {
    n_up: usize,
    health: Health,
    /// How long the runner that died last, or could not be started, waits for its next start.
    delay: Duration,
}

/// The shortest delay after a runner that could not be started.
const SHORTEST_RETRY: Duration = Duration::from_secs(1);

impl State {
    /// How long the model takes no calls; zero if it takes calls.
    fn pause(&self) -> Duration {
        if self.n_up == 0 { self.delay } else { Duration::ZERO }
    }
}

impl Availability {
    pub(crate) fn new() -> Arc<Self> {
        Arc::default()
    }

    /// # Errors
    /// The model takes no calls now.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        let pause = self.state.borrow().pause();
        match pause.is_zero() {
            true => Ok(()),
            false => {
                let failure = Failure::new(Reason::Unavailable, "the model is not ready: its runners keep dying");
                Err(failure.retry_after(pause))
            }
        }
    }

    /// Waits until the model takes no calls.
    pub(crate) async fn until_paused(&self) {
        // The channel is closed only with this.
        let _ = self.state.subscribe().wait_for(|state| !state.pause().is_zero()).await;
    }

    /// Waits until another runner has started, died, or could not be started.
    pub(crate) async fn until_changed(&self) {
        let _ = self.state.subscribe().changed().await;
    }

    /// A runner is up.
    pub(crate) fn runner_started(&self) {
        self.state.send_modify(|state| state.n_up += 1);
    }

    /// A runner died that was up for this time. Returns the delay of its next start.
    pub(crate) fn runner_died(&self, uptime: Duration) -> Duration {
        self.change(|state| {
            state.n_up = state.n_up.saturating_sub(1);
            state.health.died(Some(uptime))
        })
    }

    /// A runner could not be started. Returns the delay of its next start.
    pub(crate) fn runner_not_started(&self) -> Duration {
        self.change(|state| state.health.died(None).max(SHORTEST_RETRY))
    }

    fn change(&self, change: impl FnOnce(&mut State) -> Duration) -> Duration {
        let mut delay = Duration::ZERO;
        self.state.send_modify(|state| {
            delay = change(state);
            state.delay = delay;
        });
        delay
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    const SHORT: Duration = Duration::from_millis(10);

    #[test]
    fn a_model_pauses_when_no_runner_is_up() {
        let model = Availability::default();
        model.runner_started();
        model.runner_started();
        // One of two keeps dying: the other one answers.
        for delay in [0, 0, 1, 2] {
            assert_eq!(model.runner_died(SHORT).as_secs(), delay);
            assert_eq!(model.check(), Ok(()));
            model.runner_started();
        }
        assert_eq!(model.runner_died(SHORT).as_secs(), 4);
        assert_eq!(model.check(), Ok(()));
        assert_eq!(model.runner_died(SHORT).as_secs(), 8);
        let failure = model.check().unwrap_err();
        assert_eq!((failure.reason, failure.retry_after), (Reason::Unavailable, Some(Duration::from_secs(8))));
        model.runner_started();
        assert_eq!(model.check(), Ok(()));
    }

    #[test]
    fn a_first_death_is_no_pause_and_a_failed_start_is_one() {
        let model = Availability::default();
        model.runner_started();
        assert_eq!(model.runner_died(Duration::from_secs(100)), Duration::ZERO);
        assert_eq!(model.check(), Ok(()));
        assert_eq!(model.runner_not_started(), SHORTEST_RETRY);
        assert!(model.check().is_err());
    }
}
