//! Sizes, counts and times for people.

use std::time::Duration;

/// A number of bytes in the unit that keeps it short: `512 B`, `1.5 KiB`, `23 MiB`.
pub(crate) fn byte_size(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut size = bytes as f64 / 1024.0;
    let mut unit = 0;
    // 1023.95 KiB would be rounded to 1024.0 KiB.
    while size >= 1023.95 && unit + 1 < UNITS.len() {
        size /= 1024.0;
        unit += 1;
    }
    format!("{size:.1} {}", UNITS[unit])
}

/// `1 file`, `2 files`.
pub(crate) fn count(number: usize, singular: &str) -> String {
    if number == 1 { format!("1 {singular}") } else { format!("{number} {singular}s") }
}

/// A time with three digits or so: `4.21 ms`, `12.3 s`.
pub(crate) fn seconds(duration: Duration) -> String {
    let seconds = duration.as_secs_f64();
    match seconds {
        s if s < 0.001 => format!("{:.0} µs", s * 1e6),
        s if s < 1.0 => format!("{:.1} ms", s * 1e3),
        s if s < 60.0 => format!("{s:.2} s"),
        s => format!("{:.0} min {:.0} s", (s / 60.0).floor(), s % 60.0),
    }
}

/// How long ago something was, in the largest unit of which there are two: `90 minutes ago`, `3 days ago`.
pub(crate) fn ago(duration: Duration) -> String {
    const UNITS: [(u64, &str); 5] = [(604_800, "week"), (86_400, "day"), (3600, "hour"), (60, "minute"), (1, "second")];
    let seconds = duration.as_secs();
    match UNITS.iter().find(|(length, _)| seconds >= 2 * length) {
        Some((length, name)) => format!("{} {name}s ago", seconds / length),
        None => "just now".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        let check = |bytes, expected: &str| assert_eq!(byte_size(bytes), expected);
        check(0, "0 B");
        check(1023, "1023 B");
        check(1024, "1.0 KiB");
        check(1536, "1.5 KiB");
        check(1024 * 1024 - 1, "1.0 MiB");
        check(700 << 20, "700.0 MiB");
        check(u64::MAX, "16.0 EiB");
    }

    #[test]
    fn times_ago() {
        let check = |seconds, expected: &str| assert_eq!(ago(Duration::from_secs(seconds)), expected);
        check(0, "just now");
        check(1, "just now");
        check(2, "2 seconds ago");
        check(119, "119 seconds ago");
        check(120, "2 minutes ago");
        check(36 * 3600, "36 hours ago");
        check(14 * 86_400, "2 weeks ago");
    }

    #[test]
    fn counts_and_times() {
        assert_eq!(count(1, "file"), "1 file");
        assert_eq!(count(0, "file"), "0 files");
        let check = |microseconds, expected: &str| assert_eq!(seconds(Duration::from_micros(microseconds)), expected);
        check(12, "12 µs");
        check(4_210, "4.2 ms");
        check(12_300_000, "12.30 s");
        check(95_000_000, "1 min 35 s");
    }
}
