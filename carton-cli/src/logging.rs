//! Log records on standard error.
//!
//! Warnings by default, and more with `-v`: what is done and what runners print, `-vv`: what is needed to find faults,
//! `-vvv`: everything. `CARTON_LOG` takes a filter in the form `carton_core=debug,carton::runner=trace` and wins.

use std::io::{self, Write};
use std::sync::Arc;
use std::time::Instant;

use tracing::{Event, Level, Subscriber};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields, MakeWriter};
use tracing_subscriber::registry::LookupSpan;

use crate::args::GlobalArgs;
use crate::output::{Colors, Output, Role};
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
    // There is one logger a process, and this is the only place that starts one.
    let _ = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(AroundProgress(Arc::clone(output.progress())))
        .with_ansi(output.error_colors().shown())
        .event_format(Record { colors: output.error_colors(), detailed: global.verbose > 1, start: Instant::now() })
        .try_init();
}

/// Writes a record as this program's own warnings look: `warning: the text key=value`.
struct Record {
    colors: Colors,
    /// Whether to say when and where, too.
    detailed: bool,
    start: Instant,
}

impl<S, N> FormatEvent<S, N> for Record
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> std::fmt::Result {
        let metadata = event.metadata();
        let (word, role) = match *metadata.level() {
            Level::ERROR => ("error:", Role::Bad),
            Level::WARN => ("warning:", Role::Notice),
            Level::INFO => ("info:", Role::Good),
            Level::DEBUG => ("debug:", Role::Faint),
            Level::TRACE => ("trace:", Role::Faint),
        };
        write!(writer, "{} ", self.colors.paint(role, word))?;
        if self.detailed {
            let when = format!("{:.6} {}:", self.start.elapsed().as_secs_f64(), metadata.target());
            write!(writer, "{} ", self.colors.paint(Role::Faint, &when))?;
        }
        context.field_format().format_fields(writer.by_ref(), event)?;
        writeln!(writer)
    }
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
