//! Measures the rate of work, and estimates the time left. Pure: the caller passes the time.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Work done longer ago than this does not count for the rate.
const WINDOW: Duration = Duration::from_secs(10);

/// The interval between two samples: short enough for a steady rate, and long enough to keep few samples.
const SAMPLE_INTERVAL: Duration = Duration::from_millis(100);

/// The time before a rate is shown: the first pieces come in bursts.
const SETTLING: Duration = Duration::from_millis(500);

/// The largest number of hours that is shown exactly.
const MOST_HOURS: u64 = 99;

/// Measures the rate over the last seconds. Work that an earlier attempt had done is left out, because it took no time now.
#[derive(Debug, Default)]
pub(super) struct Meter {
    samples: VecDeque<(Instant, u64)>,
    /// The amount done in total, and the amount without what an earlier attempt had done.
    done: u64,
    moved: u64,
}

impl Meter {
    /// Records that `done` units are done, of which an earlier attempt had done `kept`.
    pub(super) fn set(&mut self, now: Instant, done: u64, kept: u64) {
        let moved = done.saturating_sub(kept);
        if moved < self.moved {
            // The work has started over.
            self.samples.clear();
        }
        (self.done, self.moved) = (done, moved);
        if self.samples.back().is_none_or(|(time, _)| now.duration_since(*time) >= SAMPLE_INTERVAL) {
            self.samples.push_back((now, moved));
        }
        // One sample older than the window is kept, as the start of what followed.
        while self.samples.get(1).is_some_and(|(time, _)| now.duration_since(*time) >= WINDOW) {
            self.samples.pop_front();
        }
    }

    /// Returns the units per second; `None` as long as it is too early to tell.
    pub(super) fn rate(&self, now: Instant) -> Option<f64> {
        let is_recent = |&&(time, _): &&(Instant, u64)| now.duration_since(time) <= WINDOW;
        let (since, moved) = self.samples.iter().find(is_recent).or(self.samples.back())?;
        let elapsed = now.duration_since(*since);
        (elapsed >= SETTLING).then(|| (self.moved - moved) as f64 / elapsed.as_secs_f64())
    }

    /// Returns the time for the rest at this rate; `None` if the rate is unknown or zero.
    pub(super) fn time_left(&self, now: Instant, total: u64) -> Option<Duration> {
        let rate = self.rate(now).filter(|rate| *rate > 0.0)?;
        Duration::try_from_secs_f64(total.saturating_sub(self.done) as f64 / rate).ok()
    }
}

/// Formats a duration.
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
        // From then on ten times as fast.
        for tenth in 11..=300 {
            meter.set(at(f64::from(tenth) / 10.0), 1000 + (tenth as u64 - 10) * 1000, 0);
        }
        assert!((meter.rate(at(30.0)).unwrap_or_default() - 10_000.0).abs() < 1.0);
        assert!(meter.samples.len() <= 102, "{}", meter.samples.len());
        // Then nothing more arrives.
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
