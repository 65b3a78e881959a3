//! Writes log records to standard error.
//!
//! Shows warnings by default. `-v` adds what is done and what runners print, `-vv` what is needed for debugging, `-vvv` everything.
//! `CARTON_LOG` takes a filter such as `carton_core=debug,carton_network=debug,carton::runner=trace`, which overrides these options.

use std::collections::HashSet;
use std::fmt;
use std::io::{self, Write};
use std::sync::Arc;
use std::time::Instant;

use parking_lot::Mutex;
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields, FormattedFields, MakeWriter};
use tracing_subscriber::registry::LookupSpan;

use crate::args::GlobalArgs;
use crate::output::{Colors, Output, Role};
use crate::progress::ProgressDisplay;
use crate::text::{shell_word, without_logins};

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
    // A process has one logger, and only this call starts one.
    let _ = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(AroundProgress { progress: Arc::clone(output.progress()), written: Mutex::default() })
        .with_ansi(output.error_colors().shown())
        .event_format(Record { colors: output.error_colors(), detailed: global.verbose > 1, start: Instant::now() })
        .try_init();
}

/// Formats a record like this program's own warnings: `warning: the text key=value`.
struct Record {
    colors: Colors,
    /// Whether to add the time, the target and the spans.
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
        let mut refusal = Refusal::default();
        event.record(&mut refusal);
        match refusal.options() {
            Some(options) => write!(writer, "{}: {options} allows it", refusal.message)?,
            None => context.field_format().format_fields(writer.by_ref(), event)?,
        }
        if self.detailed {
            for span in context.event_scope().into_iter().flat_map(|scope| scope.from_root()) {
                let extensions = span.extensions();
                let fields = extensions.get::<FormattedFields<N>>().map_or("", |fields| fields.fields.as_str());
                write!(writer, " {}{{{fields}}}", span.name())?;
            }
        }
        writeln!(writer)
    }
}

/// A record about something that a model asks for and does not get. The library names the permissions in a field, in JSON, and this program
/// the options that give them.
#[derive(Default)]
struct Refusal {
    message: String,
    permissions: Option<Vec<String>>,
}

impl Refusal {
    fn options(&self) -> Option<String> {
        let permissions = self.permissions.as_ref().filter(|permissions| !permissions.is_empty())?;
        let options = permissions.iter().map(|permission| format!("--allow {}", shell_word(permission)));
        Some(format!("`{}`", options.collect::<Vec<_>>().join(" ")))
    }
}

impl Visit for Refusal {
    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == "allow" {
            self.permissions = serde_json::from_str(value).ok();
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() == "message" {
            self.message = format!("{value:?}");
        }
    }
}

/// The target of what `carton serve` logs.
const SERVER: &str = "carton::serve";

/// The number of warnings that are remembered.
const MAX_REMEMBERED: usize = 1024;

/// Writes records to standard error without leaving half a progress bar in them. A repeated warning is written only once: a runner that
/// both packs a model and loads it gives the same warning twice. What a server warns of is something new each time.
struct AroundProgress {
    progress: Arc<ProgressDisplay>,
    written: Mutex<HashSet<Vec<u8>>>,
}

impl<'a> MakeWriter<'a> for AroundProgress {
    type Writer = RecordWriter<'a>;

    fn make_writer(&'a self) -> RecordWriter<'a> {
        RecordWriter { progress: &self.progress, written: None }
    }

    fn make_writer_for(&'a self, metadata: &Metadata<'_>) -> RecordWriter<'a> {
        let repeats = *metadata.level() == Level::WARN && metadata.target() != SERVER;
        let written = repeats.then_some(&self.written);
        RecordWriter { progress: &self.progress, written }
    }
}

struct RecordWriter<'a> {
    progress: &'a ProgressDisplay,
    /// The warnings written before, if this record is a warning.
    written: Option<&'a Mutex<HashSet<Vec<u8>>>>,
}

impl Write for RecordWriter<'_> {
    fn write(&mut self, record: &[u8]) -> io::Result<usize> {
        if let Some(written) = self.written {
            let mut written = written.lock();
            if written.len() < MAX_REMEMBERED && !written.insert(record.to_vec()) {
                return Ok(record.len());
            }
        }
        // The library shows no login of a URL, but a URL that was given as a path is a path to it.
        match std::str::from_utf8(record) {
            Ok(text) => self.progress.hide_while(|| io::stderr().lock().write_all(without_logins(text).as_bytes()))?,
            Err(_) => self.progress.hide_while(|| io::stderr().lock().write_all(record))?,
        }
        Ok(record.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().lock().flush()
    }
}
