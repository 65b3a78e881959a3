//! Blocking work behind an async function, and giving it up when nobody waits for it any more.

use std::ops::ControlFlow;
use std::sync::Arc;

use crate::Error;
use crate::network::Activity;

/// Whether work on another thread is still wanted: stopped when the future that waits for it is dropped.
#[derive(Clone, Debug, Default)]
pub(crate) struct Abandoned(Arc<Activity>);

impl Abandoned {
    pub(crate) fn control(&self) -> ControlFlow<()> {
        self.0.control()
    }

    /// The activity under which the work fetches.
    pub(crate) fn activity(&self) -> &Arc<Activity> {
        &self.0
    }
}

/// Runs blocking work on the threads that tokio keeps for it. Dropping the future tells the work to stop.
pub(crate) async fn run_blocking<T: Send + 'static>(
    work: impl FnOnce(Abandoned) -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    struct StopOnDrop(Option<Abandoned>);
    impl Drop for StopOnDrop {
        fn drop(&mut self) {
            if let Some(Abandoned(activity)) = &self.0 {
                activity.stop();
            }
        }
    }
    let abandoned = Abandoned::default();
    let mut guard = StopOnDrop(Some(abandoned.clone()));
    let result = tokio::task::spawn_blocking(move || work(abandoned)).await;
    // The work is done, and what it returned may fetch later under the same activity, which must not be stopped for that reason.
    guard.0 = None;
    result.map_err(|error| Error::Internal(error.to_string()))?
}
