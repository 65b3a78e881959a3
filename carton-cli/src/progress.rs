//! Progress on standard error: bars on a terminal, a line now and then elsewhere when asked for.

use std::io::{self, IsTerminal, Write};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};

use crate::args::ProgressChoice;
use crate::output::byte_size;

/// Between two lines of plain progress.
const PLAIN_INTERVAL: Duration = Duration::from_secs(2);

/// Before a bar is shown: work that is quick needs none.
const BAR_DELAY: Duration = Duration::from_millis(200);

/// Shows how far work is. One stage at a time: a new one takes the place of the one before.
pub(crate) struct ProgressDisplay {
    kind: Kind,
    state: Mutex<State>,
}

enum Kind {
    Bars(MultiProgress),
    Plain,
    Silent,
}

#[derive(Default)]
struct State {
    stage: String,
    /// When the stage began.
    since: Option<Instant>,
    bar: Option<ProgressBar>,
    last_line: Option<Instant>,
}

impl ProgressDisplay {
    /// Progress as the user asked for it.
    pub(crate) fn new(choice: ProgressChoice, quiet: bool) -> Self {
        let kind = match choice {
            ProgressChoice::Auto if io::stderr().is_terminal() && !quiet => Kind::Bars(MultiProgress::new()),
            ProgressChoice::Plain if !quiet => Kind::Plain,
            _ => Kind::Silent,
        };
        Self { kind, state: Mutex::default() }
    }

    /// No progress.
    pub(crate) fn silent() -> Self {
        Self { kind: Kind::Silent, state: Mutex::default() }
    }

    /// Whether anything is shown; if not, nobody needs to report.
    pub(crate) fn is_shown(&self) -> bool {
        !matches!(self.kind, Kind::Silent)
    }

    /// Shows that `done` of `total` bytes or things of a stage are done.
    pub(crate) fn update(&self, stage: &str, done: u64, total: Option<u64>, bytes: bool) {
        // A thread that panicked while it drew leaves nothing worse than a strange line.
        let mut state = self.state.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let new_stage = state.stage != stage;
        if new_stage {
            stage.clone_into(&mut state.stage);
            state.since = Some(Instant::now());
        }
        match &self.kind {
            Kind::Silent => {}
            Kind::Bars(bars) => {
                if new_stage && let Some(bar) = state.bar.take() {
                    bar.finish_and_clear();
                }
                if state.since.is_none_or(|since| since.elapsed() < BAR_DELAY) {
                    return;
                }
                let bar = state.bar.get_or_insert_with(|| bars.add(new_bar(stage, total, bytes)));
                if let Some(total) = total {
                    bar.set_length(total);
                }
                bar.set_position(done);
            }
            Kind::Plain => {
                let now = Instant::now();
                // The first line waits too: work that is quick needs none.
                let last = *state.last_line.get_or_insert(now);
                if now.duration_since(last) >= PLAIN_INTERVAL {
                    state.last_line = Some(now);
                    let _ = writeln!(io::stderr().lock(), "{}", plain_line(stage, done, total, bytes));
                }
            }
        }
    }

    /// Removes the bar.
    pub(crate) fn finish(&self) {
        let mut state = self.state.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some(bar) = state.bar.take() {
            bar.finish_and_clear();
        }
        state.stage.clear();
    }

    /// Prints without leaving half a bar in what is printed.
    pub(crate) fn hide_while<T>(&self, print: impl FnOnce() -> T) -> T {
        match &self.kind {
            Kind::Bars(bars) => bars.suspend(print),
            Kind::Plain | Kind::Silent => print(),
        }
    }
}

fn new_bar(stage: &str, total: Option<u64>, bytes: bool) -> ProgressBar {
    let template = match (total, bytes) {
        (Some(_), true) => {
            "{prefix:>12} {bar:30} {binary_bytes:>10} of {binary_total_bytes}, {binary_bytes_per_sec}, {eta} left"
        }
        (Some(_), false) => "{prefix:>12} {bar:30} {pos} of {len}, {eta} left",
        (None, true) => "{prefix:>12} {spinner} {binary_bytes}, {binary_bytes_per_sec}",
        (None, false) => "{prefix:>12} {spinner} {pos}",
    };
    let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::new(total.unwrap_or(0)).with_style(style.progress_chars("━╸ ")).with_prefix(stage.to_owned())
}

fn plain_line(stage: &str, done: u64, total: Option<u64>, bytes: bool) -> String {
    let amount = |number| if bytes { byte_size(number) } else { number.to_string() };
    match total.filter(|total| *total > 0) {
        Some(total) => {
            let percent = u128::from(done) * 100 / u128::from(total);
            format!("{stage}: {} of {} ({percent} %)", amount(done), amount(total))
        }
        None => format!("{stage}: {}", amount(done)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_lines() {
        let check =
            |done, total, bytes, expected: &str| assert_eq!(plain_line("packing", done, total, bytes), expected);
        check(512, Some(2048), true, "packing: 512 B of 2.0 KiB (25 %)");
        check(3, Some(4), false, "packing: 3 of 4 (75 %)");
        check(3, None, false, "packing: 3");
        check(0, Some(0), true, "packing: 0 B");
        check(u64::MAX, Some(u64::MAX), false, &format!("packing: {0} of {0} (100 %)", u64::MAX));
    }

    #[test]
    fn every_bar_has_a_valid_template() {
        for (total, bytes) in [(Some(1), true), (Some(1), false), (None, true), (None, false)] {
            // An invalid template would fall back to indicatif's own, which has no prefix.
            assert_eq!(new_bar("packing", total, bytes).prefix(), "packing");
        }
    }
}
