//! Log records on standard error.
//!
//! Warnings by default, and more with `-v`: what is done and what runners print, `-vv`: what is needed to find faults,
//! `-vvv`: everything. `CARTON_LOG` takes a filter in the form `carton_core=debug,carton::runner=trace` and wins.

use std::io::{self, Write};
use std::sync::Arc;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;

use crate::args::GlobalArgs;
use crate::output::Output;
use crate::progress::ProgressDisplay;

/// Starts logging for the rest of the process.
pub(crate) fn start(global: &GlobalArgs, output: &Output) {
    let level = match (global.quiet, global.verbose) {
        (true, _) => "error",
        (false, 0) => "warn",
        (false, 1) => "info",
        (false, 2) => "debug",
        (false, _) => "trace",
    };
    let filter = std::env::var("CARTON_LOG")
        .ok()
        .and_then(|filter| EnvFilter::try_new(filter).ok())
        .unwrap_or_else(|| EnvFilter::new(level));
    let logger = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(AroundProgress(Arc::clone(output.progress())))
        .with_ansi(output.colors_errors())
        .with_target(global.verbose > 0);
    // There is one logger a process, and this is the only place that starts one.
    let _ = if global.verbose > 1 { logger.try_init() } else { logger.without_time().try_init() };
}

/// Writes records to standard error without leaving half a progress bar in them.
struct AroundProgress(Arc<ProgressDisplay>);

impl<'a> MakeWriter<'a> for AroundProgress {
    type Writer = RecordWriter<'a>;

    fn make_writer(&'a self) -> RecordWriter<'a> {
        RecordWriter(&self.0)
    }
}

struct RecordWriter<'a>(&'a ProgressDisplay);

impl Write for RecordWriter<'_> {
    fn write(&mut self, record: &[u8]) -> io::Result<usize> {
        self.0.hide_while(|| io::stderr().lock().write(record))
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().lock().flush()
    }
}
