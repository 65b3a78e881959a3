//! What both faces list of the models: the repository's index, and statistics as Triton has them.

use serde::Serialize;

use crate::app::App;
use crate::model::repository::{IndexEntry, State};
use crate::model::served::Served;

/// A line of the index.
#[derive(Debug, Serialize)]
pub(crate) struct IndexLine {
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) state: &'static str,
    pub(crate) reason: String,
}

/// The statistics of a version of a model.
#[derive(Debug, Serialize)]
pub(crate) struct ModelStatistics {
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) inference_count: u64,
    pub(crate) execution_count: u64,
    pub(crate) inference_stats: InferenceStatistics,
}

#[derive(Debug, Serialize)]
pub(crate) struct InferenceStatistics {
    pub(crate) success: Duration,
    pub(crate) fail: Duration,
    pub(crate) queue: Duration,
    pub(crate) compute_input: Duration,
    pub(crate) compute_infer: Duration,
    pub(crate) compute_output: Duration,
}

/// How often something happened, and how long it took in all, in nanoseconds.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Duration {
    pub(crate) count: u64,
    pub(crate) ns: u64,
}

/// All models, or those that are ready.
pub(crate) fn index(app: &App, only_ready: bool) -> Vec<IndexLine> {
    let entries = app.repository.index().into_iter().filter(|entry| !only_ready || entry.state.is_ready());
    let line = |entry: IndexEntry| {
        let (state, reason) = entry.state.described();
        IndexLine { name: entry.name, version: entry.version, state, reason }
    };
    entries.map(line).collect()
}

/// The statistics of all models that are loaded.
pub(crate) fn statistics(app: &App) -> Vec<ModelStatistics> {
    let loaded = app.repository.index().into_iter().filter_map(|entry| match entry.state {
        State::Ready(served) => Some(ModelStatistics::new(&served)),
        _ => None,
    });
    loaded.collect()
}

impl ModelStatistics {
    pub(crate) fn new(served: &Served) -> Self {
        let totals = served.totals();
        let of = |count, microseconds: u64| Duration { count, ns: microseconds.saturating_mul(1000) };
        Self {
            name: served.name.clone(),
            version: served.version.clone(),
            inference_count: totals.count,
            execution_count: totals.executions,
            inference_stats: InferenceStatistics {
                success: of(totals.success, totals.request_us),
                fail: of(totals.failure, totals.failure_us),
                queue: of(totals.success, totals.queue_us),
                compute_input: of(totals.success, totals.transfer_us),
                compute_infer: of(totals.success, totals.run_us),
                compute_output: of(totals.success, totals.output_us),
            },
        }
    }
}
