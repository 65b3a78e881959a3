//! The results, as tables with ratios or as JSON.

use std::time::Duration;

use serde::Serialize;

use crate::load::Load;
use crate::part::Part;

/// All results.
#[derive(Default, Serialize)]
pub(crate) struct Report {
    pub(crate) rows: Vec<Row>,
    /// Servers that could not be measured, with the reasons.
    failures: Vec<(String, String)>,
}

/// One server at one number of connections, and the reference that was measured in turns with it.
#[derive(Serialize)]
pub(crate) struct Row {
    pub(crate) part: Part,
    pub(crate) server: String,
    pub(crate) connections: usize,
    pub(crate) subject: Measurement,
    pub(crate) bound: Measurement,
}

/// What was measured of one server.
#[derive(Serialize)]
pub(crate) struct Measurement {
    requests_per_second: f64,
    p50_us: f64,
    p99_us: f64,
    /// Processor time of all processes of the server.
    cpu_us_per_request: f64,
    memory_bytes: u64,
    n_requests: usize,
    n_failures: usize,
    first_failure: Option<String>,
}

impl Measurement {
    pub(crate) fn new(mut load: Load, processor_time: Duration, memory_bytes: u64) -> Self {
        load.times.sort_unstable();
        let micros = |time: Duration| time.as_secs_f64() * 1e6;
        let percentile = |share: f64| {
            let index = (load.times.len() as f64 * share) as usize;
            load.times.get(index).or(load.times.last()).map_or(f64::NAN, |time| micros(*time))
        };
        let n_requests = load.times.len();
        Self {
            requests_per_second: n_requests as f64 / load.duration.as_secs_f64(),
            p50_us: percentile(0.5),
            p99_us: percentile(0.99),
            cpu_us_per_request: micros(processor_time) / n_requests as f64,
            memory_bytes,
            n_requests,
            n_failures: load.n_failures,
            first_failure: load.failure,
        }
    }
}

impl Report {
    /// Records that a server could not be measured.
    pub(crate) fn fail(&mut self, server: &str, reason: String) {
        self.failures.push((server.to_owned(), reason));
    }

    /// Prints the tables.
    pub(crate) fn print(&self) {
        let mut part = None;
        let mut rows: Vec<&Row> = self.rows.iter().collect();
        // Stable: the servers stay in their order.
        rows.sort_by_key(|row| (row.part, row.connections));
        for row in rows {
            if part.replace(row.part) != Some(row.part) {
                println!("\n{}", row.part.title());
                println!(
                    "{:16} {:>5} {:>11} {:>9} {:>6} {:>9} {:>9} {:>9} {:>8} {:>6} {:>8}",
                    "server",
                    "conn.",
                    "requests/s",
                    "bound",
                    "ratio",
                    "p50 us",
                    "bound",
                    "p99 us",
                    "CPU us",
                    "ratio",
                    "MiB"
                );
            }
            let (subject, bound) = (&row.subject, &row.bound);
            println!(
                "{:16} {:>5} {:>11.0} {:>9.0} {:>6.3} {:>9.0} {:>9.0} {:>9.0} {:>8.0} {:>6.1} {:>8.0}",
                row.server,
                row.connections,
                subject.requests_per_second,
                bound.requests_per_second,
                subject.requests_per_second / bound.requests_per_second,
                subject.p50_us,
                bound.p50_us,
                subject.p99_us,
                subject.cpu_us_per_request,
                subject.cpu_us_per_request / bound.cpu_us_per_request,
                subject.memory_bytes as f64 / f64::from(1 << 20),
            );
            for measurement in [subject, bound] {
                if let Some(failure) = &measurement.first_failure {
                    println!("    {} requests failed, the first with: {failure}", measurement.n_failures);
                }
            }
        }
        for (server, reason) in &self.failures {
            println!("\n{server} was not measured: {reason}");
        }
    }
}
