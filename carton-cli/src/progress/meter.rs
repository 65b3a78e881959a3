//! How fast work goes, and how long it will take. Pure: it is told the time.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// What was done longer ago says nothing of the rate now.
const WINDOW: Duration = Duration::from_secs(10);

/// Between two samples: enough for a steady figure, few enough to keep.
const SAMPLE_INTERVAL: Duration = Duration::from_millis(100);

/// Before a rate is told: the first pieces come in bursts.
const SETTLING: Duration = Duration::from_millis(500);

/// More hours than this are not worth counting.
const MOST_HOURS: u64 = 99;

/// Measures the rate over the last seconds. What an earlier attempt had done is left out: it took no time now.
#[derive(Debug, Default)]
pub(super) struct Meter {
    samples: VecDeque<(Instant, u64)>,
    /// What was done in all, and of that without what an earlier attempt had done.
    done: u64,
    moved: u64,
}

impl Meter {
    /// Takes note of `done`, of which `kept` is an earlier attempt's.
    pub(super) fn set(&mut self, now: Instant, done: u64, kept: u64) {
        let moved = done.saturating_sub(kept);
        if moved < self.moved {
            // Something begins anew.
            self.samples.clear();
        }
        (self.done, self.moved) = (done, moved);
        if self.samples.back().is_none_or(|(time, _)| now.duration_since(*time) >= SAMPLE_INTERVAL) {
            self.samples.push_back((now, moved));
        }
        // One that is older than the window is kept, so that it is known since when what followed was done.
        while self.samples.get(1).is_some_and(|(time, _)| now.duration_since(*time) >= WINDOW) {
            self.samples.pop_front();
        }
    }

    /// Units a second; none as long as it is too early to tell.
    pub(super) fn rate(&self, now: Instant) -> Option<f64> {
        let is_recent = |&&(time, _): &&(Instant, u64)| now.duration_since(time) <= WINDOW;
        let (since, moved) = self.samples.iter().find(is_recent).or(self.samples.back())?;
        let elapsed = now.duration_since(*since);
        (elapsed >= SETTLING).then(|| (self.moved - moved) as f64 / elapsed.as_secs_f64())
    }

    /// How long the rest takes at this rate; none if nothing is known or nothing moves.
    pub(super) fn time_left(&self, now: Instant, total: u64) -> Option<Duration> {
        let rate = self.rate(now).filter(|rate| *rate > 0.0)?;
        Duration::try_from_secs_f64(total.saturating_sub(self.done) as f64 / rate).ok()
    }
}

/// A duration as people say it.
pub(super) fn duration_text(duration: Duration) -> String {
    let seconds = duration.as_secs_f64().round() as u64;
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (hours, _, _) if hours > MOST_HOURS => format!("more than {MOST_HOURS} h"),
        (0, 0, seconds) => format!("{seconds} s"),
        (0, minutes, seconds) => format!("{minutes} min {seconds:02} s"),
        (hours, minutes, _) => format!("{hours} h {minutes:02} min"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_that_of_the_last_seconds() {
        let start = Instant::now();
        let at = |seconds: f64| start + Duration::from_secs_f64(seconds);
        let mut meter = Meter::default();
        assert_eq!(meter.rate(start), None);
        meter.set(start, 0, 0);
        meter.set(at(0.2), 100, 0);
        assert_eq!(meter.rate(at(0.2)), None);
        meter.set(at(1.0), 1000, 0);
        assert_eq!(meter.rate(at(1.0)), Some(1000.0));
        assert_eq!(meter.time_left(at(1.0), 5000), Some(Duration::from_secs(4)));
        // Ten times as fast from then on.
        for tenth in 11..=300 {
            meter.set(at(f64::from(tenth) / 10.0), 1000 + (tenth as u64 - 10) * 1000, 0);
        }
        assert!((meter.rate(at(30.0)).unwrap_or_default() - 10_000.0).abs() < 1.0);
        assert!(meter.samples.len() <= 102, "{}", meter.samples.len());
        // Then nothing comes any more.
        assert!(meter.rate(at(35.0)).is_some_and(|rate| rate < 6_000.0));
        assert_eq!(meter.rate(at(60.0)), Some(0.0));
        assert_eq!(meter.time_left(at(60.0), u64::MAX), None);
    }

    #[test]
    fn what_was_kept_is_not_in_the_rate() {
        let start = Instant::now();
        let mut meter = Meter::default();
        meter.set(start, 1_000_000, 1_000_000);
        meter.set(start + Duration::from_secs(1), 3_000_500, 3_000_000);
        let now = start + Duration::from_secs(1);
        assert_eq!(meter.rate(now), Some(500.0));
        assert_eq!(meter.time_left(now, 3_001_500), Some(Duration::from_secs(2)));
    }

    #[test]
    fn what_begins_anew_is_measured_anew() {
        let start = Instant::now();
        let mut meter = Meter::default();
        meter.set(start, 0, 0);
        meter.set(start + Duration::from_secs(1), 1000, 0);
        meter.set(start + Duration::from_secs(2), 0, 0);
        assert_eq!(meter.rate(start + Duration::from_secs(2)), None);
        meter.set(start + Duration::from_secs(3), 50, 0);
        assert_eq!(meter.rate(start + Duration::from_secs(3)), Some(50.0));
    }

    #[test]
    fn durations_are_said_as_people_say_them() {
        let check =
            |seconds: f64, expected: &str| assert_eq!(duration_text(Duration::from_secs_f64(seconds)), expected);
        check(0.4, "0 s");
        check(59.7, "1 min 00 s");
        check(125.0, "2 min 05 s");
        check(3600.0, "1 h 00 min");
        check(7384.0, "2 h 03 min");
        check(1e12, "more than 99 h");
    }
}
