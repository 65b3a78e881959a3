//! Progress on standard error: bars on a terminal, a line now and then elsewhere when asked for.

mod meter;

use std::fmt;
use std::io::{self, IsTerminal, Write};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use indicatif::{MultiProgress, ProgressBar, ProgressState, ProgressStyle};
use meter::{Meter, duration_text};

use crate::args::ProgressChoice;
use crate::output::byte_size;

/// Between two lines of plain progress.
const PLAIN_INTERVAL: Duration = Duration::from_secs(2);

/// Before a bar is shown: work that is quick needs none.
const BAR_DELAY: Duration = Duration::from_millis(200);

/// Between two drawings of a bar while nothing happens: then the rate falls and the user should see it.
const TICK: Duration = Duration::from_millis(500);

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
    has_total: bool,
    /// Of the stage; bars look at it when they are drawn.
    meter: Arc<Mutex<Meter>>,
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
        self.update_kept(stage, done, 0, total, bytes);
    }

    /// As [`update`](Self::update), where `kept` of what is done was done by an earlier attempt, and says nothing of the rate.
    pub(crate) fn update_kept(&self, stage: &str, done: u64, kept: u64, total: Option<u64>, bytes: bool) {
        // A thread that panicked while it drew leaves nothing worse than a strange line.
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        let new_stage = state.stage != stage;
        if new_stage {
            stage.clone_into(&mut state.stage);
            state.since = Some(now);
            state.meter = Arc::default();
        }
        state.meter.lock().unwrap_or_else(PoisonError::into_inner).set(now, done, kept);
        match &self.kind {
            Kind::Silent => {}
            Kind::Bars(bars) => {
                // A total that becomes known takes another bar.
                let new_form = state.has_total != total.is_some();
                state.has_total = total.is_some();
                if (new_stage || new_form)
                    && let Some(bar) = state.bar.take()
                {
                    bar.finish_and_clear();
                }
                if state.since.is_none_or(|since| since.elapsed() < BAR_DELAY) {
                    return;
                }
                let meter = Arc::clone(&state.meter);
                let bar = state.bar.get_or_insert_with(|| {
                    let bar = bars.add(new_bar(stage, total, bytes, meter).with_position(done));
                    bar.enable_steady_tick(TICK);
                    bar
                });
                if let Some(total) = total {
                    bar.set_length(total);
                }
                bar.set_position(done);
            }
            Kind::Plain => {
                // The first line waits too: work that is quick needs none.
                let last = *state.last_line.get_or_insert(now);
                if now.duration_since(last) >= PLAIN_INTERVAL {
                    state.last_line = Some(now);
                    let pace = pace(&state.meter.lock().unwrap_or_else(PoisonError::into_inner), now, total, bytes);
                    let _ = writeln!(io::stderr().lock(), "{}{pace}", plain_line(stage, done, total, bytes));
                }
            }
        }
    }

    /// Removes the bar.
    pub(crate) fn finish(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
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

fn new_bar(stage: &str, total: Option<u64>, bytes: bool, meter: Arc<Mutex<Meter>>) -> ProgressBar {
    let template = match (total, bytes) {
        (Some(_), true) => "{prefix:>12} {bar:30} {binary_bytes:>10} of {binary_total_bytes}{pace}",
        (Some(_), false) => "{prefix:>12} {bar:30} {pos} of {len}{pace}",
        (None, true) => "{prefix:>12} {spinner} {binary_bytes}{pace}",
        (None, false) => "{prefix:>12} {spinner} {pos}{pace}",
    };
    let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
    // The library's own rate counts what an earlier attempt had done as if it had been done in an instant.
    let style = style.with_key("pace", move |bar: &ProgressState, text: &mut dyn fmt::Write| {
        let meter = meter.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = text.write_str(&pace(&meter, Instant::now(), total.and(bar.len()), bytes));
    });
    ProgressBar::new(total.unwrap_or(0)).with_style(style.progress_chars("━╸ ")).with_prefix(stage.to_owned())
}

/// The rate, and the time left where the total is known: `, 12.3 MiB/s, 45 s left`.
fn pace(meter: &Meter, now: Instant, total: Option<u64>, bytes: bool) -> String {
    let rate = meter.rate(now).filter(|_| bytes).map(|rate| format!(", {}/s", byte_size(rate as u64)));
    let left = total.and_then(|total| meter.time_left(now, total));
    let left = left.map(|left| format!(", {} left", duration_text(left)));
    rate.into_iter().chain(left).collect()
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
    #![allow(clippy::unwrap_used)]

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
            assert_eq!(new_bar("packing", total, bytes, Arc::default()).prefix(), "packing");
        }
    }

    #[test]
    fn the_pace_is_told_as_far_as_it_is_known() {
        let start = Instant::now();
        let now = start + Duration::from_secs(2);
        let mut meter = Meter::default();
        meter.set(start, 1 << 20, 1 << 20);
        assert_eq!(pace(&meter, start, Some(8 << 20), true), "");
        meter.set(now, 3 << 20, 1 << 20);
        let check = |total, bytes, expected: &str| assert_eq!(pace(&meter, now, total, bytes), expected);
        check(Some(8 << 20), true, ", 1.0 MiB/s, 5 s left");
        check(None, true, ", 1.0 MiB/s");
        check(Some(8 << 20), false, ", 5 s left");
        check(None, false, "");
        let later = now + Duration::from_secs(60);
        assert_eq!(pace(&meter, later, Some(8 << 20), true), ", 0 B/s");
    }

    #[test]
    fn a_bar_is_drawn_with_its_pace() {
        let terminal = indicatif::InMemoryTerm::new(5, 100);
        let bars =
            MultiProgress::with_draw_target(indicatif::ProgressDrawTarget::term_like(Box::new(terminal.clone())));
        let display = ProgressDisplay { kind: Kind::Bars(bars), state: Mutex::default() };
        let start = Instant::now() - Duration::from_secs(4);
        display.update_kept("downloading", 4 << 20, 4 << 20, Some(1 << 30), true);
        let mut state = display.state.lock().unwrap();
        state.since = Some(start);
        state.meter = Arc::default();
        state.meter.lock().unwrap().set(start, 4 << 20, 4 << 20);
        drop(state);
        display.update_kept("downloading", 12 << 20, 4 << 20, Some(1 << 30), true);
        let shown = terminal.contents();
        assert!(shown.contains("12.00 MiB of 1.00 GiB, 2.0 MiB/s, 8 min "), "{shown}");
        display.finish();
    }
}
