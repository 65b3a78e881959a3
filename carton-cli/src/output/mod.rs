//! Decides where results, notes and errors go, and in which colors.
//!
//! Standard output is for results. When its reader is gone (`carton ls m | head -1`), further output is dropped silently, and the command
//! ends as it would have.

mod json;
pub(crate) mod standard_output;
mod table;

use std::io::{self, IsTerminal, Write};
use std::sync::Arc;

use clap::builder::styling::{AnsiColor, Style};
use serde::Serialize;

pub(crate) use table::{Align, Table};

use crate::args::{ColorChoice, GlobalArgs};
use crate::failure::Failure;
use crate::progress::ProgressDisplay;
use crate::text::{printable, without_logins};

/// The streams of this process and how to write to them.
pub(crate) struct Output {
    json: bool,
    quiet: bool,
    out: Colors,
    err: Colors,
    progress: Arc<ProgressDisplay>,
}

/// The meaning of a piece of text, which decides its color.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// A title or a label.
    Heading,
    /// A success.
    Good,
    /// A failure.
    Bad,
    /// Something that deserves attention.
    Notice,
    /// Something to do.
    Hint,
    /// Less important than what surrounds it.
    Faint,
}

impl Role {
    fn style(self) -> Style {
        match self {
            Self::Heading => Style::new().bold(),
            Self::Good => AnsiColor::Green.on_default().bold(),
            Self::Bad => AnsiColor::Red.on_default().bold(),
            Self::Notice => AnsiColor::Yellow.on_default().bold(),
            Self::Hint => AnsiColor::Cyan.on_default().bold(),
            Self::Faint => Style::new().dimmed(),
        }
    }
}

/// Whether a stream shows colors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Colors(bool);

impl Colors {
    /// Whether colors are shown.
    pub(crate) fn shown(self) -> bool {
        self.0
    }

    /// Formats `text` in the color of its role.
    pub(crate) fn paint(self, role: Role, text: &str) -> String {
        if !self.0 {
            return text.to_owned();
        }
        let style = role.style();
        format!("{style}{text}{style:#}")
    }
}

impl Output {
    /// Makes the output that the global options describe.
    pub(crate) fn new(global: &GlobalArgs) -> Self {
        Self {
            json: global.json,
            quiet: global.quiet,
            out: Colors(use_color(global.color, io::stdout().is_terminal())),
            err: Colors(use_color(global.color, io::stderr().is_terminal())),
            progress: Arc::new(ProgressDisplay::new(global.progress, global.quiet)),
        }
    }

    /// Output without colors and progress, for what is printed before the arguments are parsed.
    pub(crate) fn plain() -> Self {
        Self { json: false, quiet: false, ..Self::json_only() }
    }

    /// Output that prints only `{"error": …}`, for arguments that could not be parsed.
    pub(crate) fn json_only() -> Self {
        Self {
            json: true,
            quiet: true,
            out: Colors(false),
            err: Colors(false),
            progress: Arc::new(ProgressDisplay::silent()),
        }
    }

    /// Whether results are printed as one JSON object.
    pub(crate) fn is_json(&self) -> bool {
        self.json
    }

    /// The colors of standard error.
    pub(crate) fn error_colors(&self) -> Colors {
        self.err
    }

    /// The progress shown on standard error.
    pub(crate) fn progress(&self) -> &Arc<ProgressDisplay> {
        &self.progress
    }

    /// Formats `text` in the color of its role, for standard output.
    pub(crate) fn paint(&self, role: Role, text: &str) -> String {
        self.out.paint(role, text)
    }

    /// Prints a result for people.
    ///
    /// # Errors
    /// Standard output is closed or cannot be written, except if its reader is gone.
    pub(crate) fn text(&self, text: &str) -> Result<(), Failure> {
        self.progress.hide_while(|| {
            let mut out = io::stdout().lock();
            let written = standard_output::check().and_then(|()| out.write_all(text.as_bytes()));
            ignore_broken_pipe(written.and_then(|()| out.flush()))
        })
    }

    /// Prints the one object of `--json`.
    ///
    /// # Errors
    /// As [`text`](Self::text).
    pub(crate) fn json(&self, value: &impl Serialize) -> Result<(), Failure> {
        self.progress.hide_while(|| {
            let mut out = io::BufWriter::new(io::stdout().lock());
            let mut serializer = serde_json::Serializer::with_formatter(&mut out, json::ReadableFormatter::default());
            let written = standard_output::check()
                .and_then(|()| value.serialize(&mut serializer).map_err(io::Error::from))
                .and_then(|()| out.write_all(b"\n"))
                .and_then(|()| out.flush());
            // After an error, the rest of the buffer must not be written again when it is dropped.
            drop(out.into_parts());
            ignore_broken_pipe(written)
        })
    }

    /// Prints a note on what was done. Does nothing with `--quiet` or `--json`.
    pub(crate) fn note(&self, text: &str) {
        if !self.quiet && !self.json {
            self.to_stderr(text);
        }
    }

    /// Prints a warning. Does nothing with `--quiet`.
    pub(crate) fn warning(&self, text: &str) {
        if !self.quiet {
            self.to_stderr(&format!("{} {text}", self.err.paint(Role::Notice, "warning:")));
        }
    }

    /// Reports why the command failed: on standard error for people, on standard output with `--json`.
    pub(crate) fn failure(&self, failure: &Failure) {
        self.progress.finish();
        // If standard output fails, such as on a full disk, standard error says why.
        if self.json && self.json(&failure.to_json()).is_ok() {
            return;
        }
        let mut text =
            format!("{} {}", self.err.paint(Role::Bad, "error:"), indented(&printable(&failure.message()), "  "));
        let causes = failure.causes();
        if !causes.is_empty() {
            text.push_str(&format!("\n\n{}", self.err.paint(Role::Heading, "Caused by:")));
            for cause in causes {
                text.push_str(&format!("\n  {}", indented(&printable(&cause), "  ")));
            }
        }
        if let Some(advice) = failure.advice() {
            text.push_str(&format!(
                "\n\n{} {}",
                self.err.paint(Role::Hint, "hint:"),
                indented(&printable(advice), "  ")
            ));
        }
        self.to_stderr(&text);
    }

    fn to_stderr(&self, text: &str) {
        // A failure of standard error cannot be reported anywhere.
        let _ = self.progress.hide_while(|| writeln!(io::stderr().lock(), "{}", without_logins(text)));
    }
}

fn use_color(choice: ColorChoice, terminal: bool) -> bool {
    let set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    match choice {
        ColorChoice::Always => true,
        ColorChoice::Never => false,
        ColorChoice::Auto => terminal && !set("NO_COLOR") && std::env::var_os("TERM").is_none_or(|term| term != "dumb"),
    }
}

/// Indents every line but the first: messages of parsers have several lines.
fn indented(text: &str, indent: &str) -> String {
    text.trim_end().replace('\n', &format!("\n{indent}"))
}

/// Converts the result of writing to standard output. A reader that is gone is not an error.
pub(crate) fn ignore_broken_pipe(written: io::Result<()>) -> Result<(), Failure> {
    match written {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => other.map_err(|source| Failure::new(StdoutError(source))),
    }
}

/// Standard output cannot be written.
#[derive(Debug, thiserror::Error)]
#[error("cannot write to standard output")]
pub(crate) struct StdoutError(#[source] pub(crate) io::Error);
