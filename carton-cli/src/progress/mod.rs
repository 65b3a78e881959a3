//! Shows progress on standard error: bars on a terminal; elsewhere, on request, an occasional line.

mod meter;

use std::fmt::{self, Display};
use std::io::{self, IsTerminal, Write};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use carton_core::CancelToken;
use carton_tensor::context::{Context, ProgressEvent};
use indicatif::{MultiProgress, ProgressBar, ProgressState, ProgressStyle};
use meter::{Meter, duration_text};
use parking_lot::{Mutex, MutexGuard};

use crate::args::ProgressChoice;
use crate::text::byte_size;

/// The interval between two lines of plain progress, and before the first one.
const PLAIN_INTERVAL: Duration = Duration::from_secs(2);

/// The time before a bar is shown: quick work needs none.
const BAR_DELAY: Duration = Duration::from_millis(200);

/// The interval at which a bar is redrawn while nothing happens, so that the user sees the rate fall.
const TICK: Duration = Duration::from_millis(500);

/// Shows the progress of work, one stage at a time: a new stage replaces the one before.
///
/// A stage is over when all of it is done, when another one begins, or when the command is finished. Its bar is then removed. If lines
/// were printed about it, a last line says that it is done.
pub(crate) struct ProgressDisplay {
    mode: DisplayMode,
    state: Arc<Mutex<State>>,
}

#[derive(Clone)]
enum DisplayMode {
    Bars(MultiProgress),
    Plain,
    Silent,
}

#[derive(Default)]
struct State {
    stage: String,
    /// The time at which the stage began.
    since: Option<Instant>,
    /// The amount that was reported last.
    amount: Amount,
    bar: Option<ProgressBar>,
    /// The meter of the stage; bars read it when they are drawn.
    meter: Arc<Mutex<Meter>>,
    /// The time at which the last line was printed, or the first one could have been.
    last_line: Option<Instant>,
    /// The amount done in the last line that was printed about this stage.
    printed: Option<u64>,
    /// Whether a thread is waiting to show a stage that reports nothing more.
    is_awaited: bool,
}

/// The context of the work of this command on tensors and rows. The stages of the library are of another type.
pub(crate) type WorkContext = Context;

/// What a stage counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Unit {
    Bytes,
    Rows,
    /// Anything else, or nothing. The rate is not shown.
    #[default]
    Other,
}

/// The amount of work that is done.
#[derive(Clone, Copy, Debug, Default)]
struct Amount {
    done: u64,
    total: Option<u64>,
    unit: Unit,
}

impl Unit {
    /// Returns the unit of this name.
    fn named(name: &str) -> Self {
        match name {
            "bytes" => Self::Bytes,
            "rows" => Self::Rows,
            _ => Self::Other,
        }
    }
}

impl Amount {
    fn is_whole(self) -> bool {
        self.total.is_some_and(|total| total > 0 && self.done >= total)
    }
}

impl ProgressDisplay {
    /// Makes the display that the user chose.
    pub(crate) fn new(choice: ProgressChoice, quiet: bool) -> Self {
        Self::of_mode(match choice {
            ProgressChoice::Auto if io::stderr().is_terminal() && !quiet => DisplayMode::Bars(MultiProgress::new()),
            ProgressChoice::Plain if !quiet => DisplayMode::Plain,
            _ => DisplayMode::Silent,
        })
    }

    /// A display that shows nothing.
    pub(crate) fn silent() -> Self {
        Self::of_mode(DisplayMode::Silent)
    }

    fn of_mode(mode: DisplayMode) -> Self {
        Self { mode, state: Arc::default() }
    }

    /// Whether anything is shown. If not, progress need not be reported.
    pub(crate) fn is_shown(&self) -> bool {
        !matches!(self.mode, DisplayMode::Silent)
    }

    /// Returns a callback that shows progress.
    pub(crate) fn listener<S: Display>(self: &Arc<Self>) -> impl Fn(&ProgressEvent<S>) + Clone + Send + Sync + 'static {
        let display = Arc::clone(self);
        move |event| {
            let ProgressEvent { stage, done, kept, total, unit, .. } = event;
            display.update_kept(&stage.to_string(), *done, *kept, *total, Unit::named(unit));
        }
    }

    /// Returns the context of work that `cancel_token` cancels, and whose progress is shown.
    pub(crate) fn context<S: Display + 'static>(self: &Arc<Self>, cancel_token: &CancelToken) -> Context<S> {
        Context::new(cancel_token.clone(), Some(Arc::new(self.listener())))
    }

    /// As [`context`](Self::context), for work on rows, whose total number it does not know.
    #[cfg(feature = "tables")]
    pub(crate) fn context_of_rows(self: &Arc<Self>, n_rows: Option<u64>, cancel_token: &CancelToken) -> WorkContext {
        let display = Arc::clone(self);
        let show = move |event: &ProgressEvent| {
            display.update(event.stage, event.done, event.total.or(n_rows), Unit::named(event.unit));
        };
        Context::new(cancel_token.clone(), Some(Arc::new(show)))
    }

    /// Shows that `done` of `total` units of a stage are done.
    pub(crate) fn update(&self, stage: &str, done: u64, total: Option<u64>, unit: Unit) {
        self.update_kept(stage, done, 0, total, unit);
    }

    /// As [`update`](Self::update), but an earlier attempt did `kept` of what is done, which is left out of the rate.
    pub(crate) fn update_kept(&self, stage: &str, done: u64, kept: u64, total: Option<u64>, unit: Unit) {
        if !self.is_shown() {
            return;
        }
        let mut state = self.locked();
        let now = Instant::now();
        if state.stage != stage {
            state.end_stage();
            stage.clone_into(&mut state.stage);
            state.since = Some(now);
            state.meter = Arc::default();
        }
        // A total that becomes known needs another style of bar.
        if state.amount.total.is_some() != total.is_some()
            && let Some(bar) = state.bar.take()
        {
            bar.finish_and_clear();
        }
        state.last_line.get_or_insert(now);
        state.amount = Amount { done, total, unit };
        state.meter.lock().set(now, done, kept);
        if state.amount.is_whole() {
            // The same stage may report more, and then continues.
            state.end_showing();
            return;
        }
        state.show(&self.mode, now);
        self.show_later(&mut state);
    }

    /// Ends the stage.
    pub(crate) fn finish(&self) {
        let mut state = self.locked();
        state.end_stage();
        state.stage.clear();
        (state.since, state.last_line) = (None, None);
    }

    /// Calls `print` while the bar is hidden, so that no half of it is left in the text.
    pub(crate) fn hide_while<T>(&self, print: impl FnOnce() -> T) -> T {
        match &self.mode {
            DisplayMode::Bars(bars) => bars.suspend(print),
            DisplayMode::Plain | DisplayMode::Silent => print(),
        }
    }

    fn locked(&self) -> MutexGuard<'_, State> {
        // After a panic while drawing, the worst result is an odd line.
        self.state.lock()
    }

    /// Shows the stage after a delay even if it reports nothing more, such as an installation by another program.
    fn show_later(&self, state: &mut State) {
        if state.is_awaited || state.bar.is_some() || state.printed.is_some() {
            return;
        }
        let (mode, shared) = (self.mode.clone(), Arc::downgrade(&self.state));
        let wait = move || {
            while let Some(shared) = shared.upgrade() {
                let mut state = shared.lock();
                let now = Instant::now();
                let left = state.due(&mode).map(|due| due.saturating_duration_since(now));
                if let Some(left) = left.filter(|left| !left.is_zero()) {
                    drop(state);
                    drop(shared);
                    thread::sleep(left);
                    continue;
                }
                state.is_awaited = false;
                if !state.amount.is_whole() {
                    state.show(&mode, now);
                }
                return;
            }
        };
        // If no thread can be started, the stage is shown when it reports again.
        state.is_awaited = thread::Builder::new().name("progress".to_owned()).spawn(wait).is_ok();
    }
}

impl State {
    /// Returns the time from which the stage is shown: quick work needs no bar, and an occasional line is enough.
    fn due(&self, mode: &DisplayMode) -> Option<Instant> {
        match mode {
            DisplayMode::Bars(_) => self.since.map(|since| since + BAR_DELAY),
            DisplayMode::Plain => self.last_line.map(|last| last + PLAIN_INTERVAL),
            DisplayMode::Silent => None,
        }
    }

    /// Draws the bar, or prints a line, if it is due.
    fn show(&mut self, mode: &DisplayMode, now: Instant) {
        if self.due(mode).is_none_or(|due| now < due) {
            return;
        }
        let Amount { done, total, unit } = self.amount;
        match mode {
            DisplayMode::Silent => {}
            DisplayMode::Bars(bars) => {
                let (stage, meter) = (&self.stage, &self.meter);
                let bar = self.bar.get_or_insert_with(|| {
                    let bar = bars.add(new_bar(stage, total, unit, Arc::clone(meter)).with_position(done));
                    bar.enable_steady_tick(TICK);
                    bar
                });
                if let Some(total) = total {
                    bar.set_length(total);
                }
                bar.set_position(done);
            }
            DisplayMode::Plain => {
                self.last_line = Some(now);
                self.printed = Some(done);
                let meter = self.meter.lock();
                let pace = pace(&meter, now, total, unit);
                let _ = writeln!(io::stderr().lock(), "{}{pace}", plain_line(&self.stage, self.amount));
            }
        }
    }

    /// Removes the bar. If lines were printed about the stage, prints a last one.
    fn end_showing(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
        if self.printed.take().is_some_and(|printed| printed != self.amount.done) {
            let _ = writeln!(io::stderr().lock(), "{}", plain_line(&self.stage, self.amount));
        }
    }

    fn end_stage(&mut self) {
        self.end_showing();
        self.amount = Amount::default();
    }
}

fn new_bar(stage: &str, total: Option<u64>, unit: Unit, meter: Arc<Mutex<Meter>>) -> ProgressBar {
    let template = match (total, unit == Unit::Bytes) {
        (Some(_), true) => "{prefix:>12} {bar:30} {binary_bytes:>10} of {binary_total_bytes}{pace}",
        (Some(_), false) => "{prefix:>12} {bar:30} {pos} of {len}{pace}",
        (None, true) => "{prefix:>12} {spinner} {binary_bytes}{pace}",
        (None, false) => "{prefix:>12} {spinner}{count}{pace}",
    };
    let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
    // The library's own rate counts the work of an earlier attempt as if it had been done instantly.
    let style = style.with_key("pace", move |bar: &ProgressState, text: &mut dyn fmt::Write| {
        let meter = meter.lock();
        let _ = text.write_str(&pace(&meter, Instant::now(), total.and(bar.len()), unit));
    });
    // A stage without a count shows no number.
    let style = style.with_key("count", |bar: &ProgressState, text: &mut dyn fmt::Write| {
        let _ = if bar.pos() > 0 { write!(text, " {}", bar.pos()) } else { Ok(()) };
    });
    ProgressBar::new(total.unwrap_or(0)).with_style(style.progress_chars("━╸ ")).with_prefix(stage.to_owned())
}

/// Formats the rate, and the time left if the total is known: `, 12.3 MiB/s, 45 s left`.
fn pace(meter: &Meter, now: Instant, total: Option<u64>, unit: Unit) -> String {
    let rate = meter.rate(now).and_then(|rate| match unit {
        Unit::Bytes => Some(format!(", {}/s", byte_size(rate as u64))),
        Unit::Rows => Some(format!(", {rate:.0} rows/s")),
        Unit::Other => None,
    });
    let left = total.and_then(|total| meter.time_left(now, total));
    let left = left.map(|left| format!(", {} left", duration_text(left)));
    rate.into_iter().chain(left).collect()
}

fn plain_line(stage: &str, amount: Amount) -> String {
    let Amount { done, total, unit } = amount;
    let amount = |number| if unit == Unit::Bytes { byte_size(number) } else { number.to_string() };
    match total.filter(|total| *total > 0) {
        Some(total) => {
            let percent = u128::from(done) * 100 / u128::from(total);
            format!("{stage}: {} of {} ({percent} %)", amount(done), amount(total))
        }
        None if total.is_none() && done == 0 => stage.to_owned(),
        None => format!("{stage}: {}", amount(done)),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn plain_lines() {
        let check = |done, total, unit, expected: &str| {
            assert_eq!(plain_line("packing", Amount { done, total, unit }), expected);
        };
        check(512, Some(2048), Unit::Bytes, "packing: 512 B of 2.0 KiB (25 %)");
        check(3, Some(4), Unit::Other, "packing: 3 of 4 (75 %)");
        check(3, None, Unit::Rows, "packing: 3");
        check(0, Some(0), Unit::Bytes, "packing: 0 B");
        check(0, None, Unit::Other, "packing");
        check(u64::MAX, Some(u64::MAX), Unit::Other, &format!("packing: {0} of {0} (100 %)", u64::MAX));
    }

    #[test]
    fn every_bar_has_a_valid_template() {
        let units = [Unit::Bytes, Unit::Rows, Unit::Other];
        for (total, unit) in units.iter().flat_map(|unit| [(Some(1), *unit), (None, *unit)]) {
            // An invalid template would fall back to indicatif's own, which has no prefix.
            assert_eq!(new_bar("packing", total, unit, Arc::default()).prefix(), "packing");
        }
    }

    #[test]
    fn the_pace_is_told_as_far_as_it_is_known() {
        let start = Instant::now();
        let now = start + Duration::from_secs(2);
        let mut meter = Meter::default();
        meter.set(start, 1 << 20, 1 << 20);
        assert_eq!(pace(&meter, start, Some(8 << 20), Unit::Bytes), "");
        meter.set(now, 3 << 20, 1 << 20);
        let check = |total, unit, expected: &str| assert_eq!(pace(&meter, now, total, unit), expected);
        check(Some(8 << 20), Unit::Bytes, ", 1.0 MiB/s, 5 s left");
        check(None, Unit::Bytes, ", 1.0 MiB/s");
        check(Some(8 << 20), Unit::Rows, ", 1048576 rows/s, 5 s left");
        check(Some(8 << 20), Unit::Other, ", 5 s left");
        check(None, Unit::Other, "");
        let later = now + Duration::from_secs(60);
        assert_eq!(pace(&meter, later, Some(8 << 20), Unit::Bytes), ", 0 B/s");
    }

    /// A display of bars, and the terminal that it draws on.
    fn on_terminal() -> (ProgressDisplay, indicatif::InMemoryTerm) {
        let terminal = indicatif::InMemoryTerm::new(5, 100);
        let target = indicatif::ProgressDrawTarget::term_like(Box::new(terminal.clone()));
        (ProgressDisplay::of_mode(DisplayMode::Bars(MultiProgress::with_draw_target(target))), terminal)
    }

    /// Makes the stage appear to have begun that much earlier.
    fn age(display: &ProgressDisplay, by: Duration) {
        let mut state = display.locked();
        state.since = state.since.map(|since| since - by);
    }

    /// Waits until the terminal's contents satisfy `is_right`, and returns them.
    fn seen(terminal: &indicatif::InMemoryTerm, is_right: impl Fn(&str) -> bool) -> String {
        let started = Instant::now();
        loop {
            let shown = terminal.contents();
            if is_right(&shown) {
                return shown;
            }
            assert!(started.elapsed() < Duration::from_secs(20), "{shown}");
            thread::sleep(Duration::from_millis(5));
        }
    }

    #[test]
    fn a_bar_is_drawn_with_its_pace() {
        let (display, terminal) = on_terminal();
        let start = Instant::now() - Duration::from_secs(4);
        display.update_kept("downloading", 4 << 20, 4 << 20, Some(1 << 30), Unit::Bytes);
        let mut state = display.locked();
        state.since = Some(start);
        state.meter = Arc::default();
        state.meter.lock().set(start, 4 << 20, 4 << 20);
        drop(state);
        display.update_kept("downloading", 12 << 20, 4 << 20, Some(1 << 30), Unit::Bytes);
        let shown = terminal.contents();
        assert!(shown.contains("12.00 MiB of 1.00 GiB, 2.0 MiB/s, 8 min "), "{shown}");
        display.finish();
        assert_eq!(terminal.contents(), "");
    }

    #[test]
    fn a_bar_is_gone_when_all_is_done() {
        let (display, terminal) = on_terminal();
        let install = |done| display.update("installing t 1.0.0", done, Some(100), Unit::Bytes);
        install(1);
        age(&display, BAR_DELAY);
        install(50);
        assert!(terminal.contents().contains("50 B of 100 B"), "{}", terminal.contents());
        // The next step, such as starting a runner, reports nothing for a while.
        install(100);
        assert_eq!(terminal.contents(), "");
        assert!(display.locked().bar.is_none());
        // A thread that was asked to stop may report late.
        display.finish();
        install(100);
        assert_eq!(terminal.contents(), "");
        // The stage may have a second part.
        install(1);
        age(&display, BAR_DELAY);
        install(20);
        assert!(terminal.contents().contains("20 B of 100 B"), "{}", terminal.contents());
        display.finish();
        assert_eq!(terminal.contents(), "");
    }

    #[test]
    fn a_stage_that_reports_once_is_shown_until_it_ends() {
        let (display, terminal) = on_terminal();
        display.update("installing ONNX Runtime with uv", 0, None, Unit::Other);
        assert_eq!(terminal.contents(), "");
        let shown = seen(&terminal, |shown| !shown.is_empty());
        assert!(shown.contains("installing ONNX Runtime with uv") && !shown.contains('0'), "{shown}");
        display.update("loading ONNX Runtime", 0, None, Unit::Other);
        seen(&terminal, |shown| shown.contains("loading"));
        display.finish();
        assert_eq!(terminal.contents(), "");
        // A stage that ends before it is due is never shown.
        display.update("quick", 0, None, Unit::Other);
        display.finish();
        thread::sleep(BAR_DELAY * 2);
        assert_eq!(terminal.contents(), "");
    }
}
