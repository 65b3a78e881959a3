//! What the server counts, in Prometheus' format (spec/serving.md §8). Names that begin with `nv_` are those of Triton, which dashboards
//! know; the others are ours.

use std::time::Duration;

use parking_lot::Mutex;
use prometheus::{
    Encoder, Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts,
};

use crate::failure::Reason;

/// The counters of a server.
#[derive(Debug)]
pub(crate) struct Metrics {
    registry: prometheus::Registry,
    success: IntCounterVec,
    failure: IntCounterVec,
    count: IntCounterVec,
    executions: IntCounterVec,
    request_us: IntCounterVec,
    queue_us: IntCounterVec,
    transfer_us: IntCounterVec,
    run_us: IntCounterVec,
    output_us: IntCounterVec,
    pending: IntGaugeVec,
    failure_us: IntCounterVec,
    restarts: IntCounterVec,
    ready: IntGaugeVec,
    batch: HistogramVec,
    duration: HistogramVec,
    /// The connections that are open.
    pub(crate) connections: IntGauge,
    /// Connections that were closed at once, because too many are open.
    pub(crate) connections_refused: IntCounter,
    /// The bytes of calls that are in memory.
    call_bytes: IntGauge,
    memory: IntGauge,
    /// Held while the metrics are written: what is set for one reader would be gone for another.
    writing: Mutex<()>,
}

/// The counters of one version of a model.
#[derive(Debug)]
pub(crate) struct ModelMetrics {
    success: IntCounter,
    failures: Vec<IntCounter>,
    count: IntCounter,
    executions: IntCounter,
    request_us: IntCounter,
    queue_us: IntCounter,
    transfer_us: IntCounter,
    run_us: IntCounter,
    output_us: IntCounter,
    pub(crate) pending: IntGauge,
    failure_us: IntCounter,
    pub(crate) restarts: IntCounter,
    batch: Histogram,
    duration: Histogram,
}

/// Triton's statistics of a model, as the protocol's clients ask for them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Totals {
    pub(crate) success: u64,
    pub(crate) failure: u64,
    pub(crate) count: u64,
    pub(crate) executions: u64,
    pub(crate) request_us: u64,
    pub(crate) failure_us: u64,
    pub(crate) queue_us: u64,
    pub(crate) transfer_us: u64,
    pub(crate) run_us: u64,
    pub(crate) output_us: u64,
}

const LABELS: [&str; 2] = ["model", "version"];

/// The upper bounds of the buckets of batch sizes.
const BATCH_BUCKETS: [f64; 9] = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0];
/// The upper bounds of the buckets of durations, in seconds.
const DURATION_BUCKETS: [f64; 14] =
    [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];

impl Metrics {
    /// # Errors
    /// Two metrics have one name, which is a bug here.
    pub(crate) fn new() -> Result<Self, prometheus::Error> {
        let registry = prometheus::Registry::new();
        let counter = |name: &str, help: &str| {
            let counter = IntCounterVec::new(Opts::new(name, help), &LABELS)?;
            registry.register(Box::new(counter.clone())).map(|()| counter)
        };
        let gauge = |name: &str, help: &str| {
            let gauge = IntGaugeVec::new(Opts::new(name, help), &LABELS)?;
            registry.register(Box::new(gauge.clone())).map(|()| gauge)
        };
        let plain = |name: &str, help: &str| {
            let gauge = IntGauge::new(name, help)?;
            registry.register(Box::new(gauge.clone())).map(|()| gauge)
        };
        let histogram = |name: &str, help: &str, labels: &[&str], buckets: &[f64]| {
            let histogram = HistogramVec::new(HistogramOpts::new(name, help).buckets(buckets.to_vec()), labels)?;
            registry.register(Box::new(histogram.clone())).map(|()| histogram)
        };
        let failure = IntCounterVec::new(
            Opts::new("nv_inference_request_failure", "Inference requests that failed, by reason"),
            &["model", "version", "reason"],
        )?;
        registry.register(Box::new(failure.clone()))?;
        let connections_refused =
            IntCounter::new("carton_connections_refused", "Connections closed because too many are open")?;
        registry.register(Box::new(connections_refused.clone()))?;
        Ok(Self {
            success: counter("nv_inference_request_success", "Inference requests that were answered")?,
            failure,
            count: counter("nv_inference_count", "Inferences, counting each element of a batch")?,
            executions: counter("nv_inference_exec_count", "Runs of the model; a batch is one")?,
            request_us: counter(
                "nv_inference_request_duration_us",
                "Time of inference requests in microseconds, waiting included",
            )?,
            queue_us: counter(
                "nv_inference_queue_duration_us",
                "Time that inference requests waited, in microseconds",
            )?,
            transfer_us: counter(
                "nv_inference_compute_input_duration_us",
                "Time to pass tensors to and from runners, in microseconds",
            )?,
            run_us: counter("nv_inference_compute_infer_duration_us", "Time in runners, in microseconds")?,
            output_us: counter(
                "nv_inference_compute_output_duration_us",
                "Time to divide the outputs of batches, in microseconds",
            )?,
            pending: gauge("nv_inference_pending_request_count", "Inference requests that wait or run")?,
            failure_us: counter(
                "carton_request_failure_duration_us",
                "Time of inference requests that failed, in microseconds",
            )?,
            restarts: counter("carton_runner_restarts", "Runners that died and were started again")?,
            ready: gauge("carton_model_ready", "1 if the model is ready, else 0")?,
            batch: histogram("carton_batch_size", "Elements of the batch dimension in a run", &LABELS, &BATCH_BUCKETS)?,
            duration: histogram(
                "carton_request_duration_seconds",
                "Time of inference requests, waiting included",
                &LABELS,
                &DURATION_BUCKETS,
            )?,
            connections: plain("carton_connections", "Open connections")?,
            connections_refused,
            call_bytes: plain("carton_call_bytes", "Bytes of requests and answers in memory")?,
            memory: plain("process_resident_memory_bytes", "Resident memory of the server, without its runners")?,
            writing: Mutex::default(),
            registry,
        })
    }

    /// The counters of a version of a model. Those of the same name and version go on.
    pub(crate) fn model(&self, name: &str, version: &str) -> ModelMetrics {
        let labels = [name, version];
        let failure = |reason: &Reason| self.failure.with_label_values(&[name, version, reason.name()]);
        ModelMetrics {
            success: self.success.with_label_values(&labels),
            failures: Reason::ALL.iter().map(failure).collect(),
            count: self.count.with_label_values(&labels),
            executions: self.executions.with_label_values(&labels),
            request_us: self.request_us.with_label_values(&labels),
            queue_us: self.queue_us.with_label_values(&labels),
            transfer_us: self.transfer_us.with_label_values(&labels),
            run_us: self.run_us.with_label_values(&labels),
            output_us: self.output_us.with_label_values(&labels),
            pending: self.pending.with_label_values(&labels),
            failure_us: self.failure_us.with_label_values(&labels),
            restarts: self.restarts.with_label_values(&labels),
            batch: self.batch.with_label_values(&labels),
            duration: self.duration.with_label_values(&labels),
        }
    }

    /// Ends the series of a version that is served no longer.
    pub(crate) fn forget(&self, name: &str, version: &str) {
        let labels = [name, version];
        let Self { success, count, executions, request_us, queue_us, transfer_us, run_us, output_us, .. } = self;
        let counters = [success, count, executions, request_us, queue_us, transfer_us, run_us, output_us];
        for counter in counters.into_iter().chain([&self.failure_us, &self.restarts]) {
            // It has none if the version was never loaded.
            let _ = counter.remove_label_values(&labels);
        }
        for reason in Reason::ALL {
            let _ = self.failure.remove_label_values(&[name, version, reason.name()]);
        }
        let _ = self.pending.remove_label_values(&labels);
        let _ = self.batch.remove_label_values(&labels);
        let _ = self.duration.remove_label_values(&labels);
    }

    /// All metrics as text. `call_bytes` is what the calls of the server take now, and `ready` says of each model, by name and version,
    /// whether it is ready.
    pub(crate) fn text(&self, call_bytes: usize, ready: impl IntoIterator<Item = (String, String, bool)>) -> Vec<u8> {
        let _writing = self.writing.lock();
        self.ready.reset();
        for (name, version, is_ready) in ready {
            self.ready.with_label_values(&[&name, &version]).set(i64::from(is_ready));
        }
        self.call_bytes.set(i64::try_from(call_bytes).unwrap_or(i64::MAX));
        self.memory.set(resident_bytes().unwrap_or(0));
        let mut text = Vec::new();
        // Writing to memory fails only for a metric without a value, which the registry does not gather.
        let _ = prometheus::TextEncoder::new().encode(&self.registry.gather(), &mut text);
        text
    }
}

/// The media type of the text.
pub(crate) const TEXT_FORMAT: &str = prometheus::TEXT_FORMAT;

impl ModelMetrics {
    /// A request was answered.
    pub(crate) fn answered(&self, took: Duration) {
        self.success.inc();
        self.request_us.inc_by(microseconds(took));
        self.duration.observe(took.as_secs_f64());
    }

    /// A request failed after this time.
    pub(crate) fn failed(&self, reason: Reason, took: Duration) {
        self.failure_us.inc_by(microseconds(took));
        if let Some(counter) =
            Reason::ALL.iter().position(|known| *known == reason).and_then(|at| self.failures.get(at))
        {
            counter.inc();
        }
    }

    /// The model was run on `n_rows` elements of the batch dimension, which are those of `n_calls` calls. Times are those of calls, as in
    /// Triton: each call of a batch takes the time of the batch.
    pub(crate) fn ran(&self, n_rows: usize, n_calls: usize, timings: &carton_core::CallTimings) {
        self.executed(n_rows, n_calls, timings.run);
        self.queue_us.inc_by(of_calls(n_calls, timings.queue));
        self.transfer_us.inc_by(of_calls(n_calls, timings.transfer));
    }

    /// The model was run for this time, and returned its outputs one after another.
    pub(crate) fn streamed(&self, took: Duration) {
        self.executed(1, 1, took);
    }

    fn executed(&self, n_rows: usize, n_calls: usize, took: Duration) {
        let n_rows = n_rows.max(1);
        self.executions.inc();
        self.count.inc_by(n_rows as u64);
        self.batch.observe(n_rows as f64);
        self.run_us.inc_by(of_calls(n_calls, took));
    }

    /// A call waited to be joined to a batch.
    pub(crate) fn waited(&self, waited: Duration) {
        self.queue_us.inc_by(microseconds(waited));
    }

    /// The outputs of a batch were divided among this many calls.
    pub(crate) fn divided(&self, n_calls: usize, took: Duration) {
        self.output_us.inc_by(of_calls(n_calls, took));
    }

    pub(crate) fn totals(&self) -> Totals {
        Totals {
            success: self.success.get(),
            failure: self.failures.iter().map(IntCounter::get).sum(),
            count: self.count.get(),
            executions: self.executions.get(),
            request_us: self.request_us.get(),
            failure_us: self.failure_us.get(),
            queue_us: self.queue_us.get(),
            transfer_us: self.transfer_us.get(),
            run_us: self.run_us.get(),
            output_us: self.output_us.get(),
        }
    }
}

/// The time of this many calls that take as long, in microseconds.
fn of_calls(n_calls: usize, each: Duration) -> u64 {
    microseconds(each).saturating_mul(n_calls as u64)
}

fn microseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

/// The resident memory of this process.
fn resident_bytes() -> Option<i64> {
    let text = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: usize = text.split(' ').nth(1)?.parse().ok()?;
    i64::try_from(pages * rustix::param::page_size()).ok()
}
