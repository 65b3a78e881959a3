//! Formats sizes, counts and times for people.

use std::time::Duration;

/// Formats a number of bytes in a unit that keeps it short: `512 B`, `1.5 KiB`, `23 MiB`.
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

/// Formats a count with about three digits in thousands (K), millions (M), billions (B) or trillions (T), as usual for sizes of models:
/// `7.24 B parameters`. Below a thousand it is exact.
pub(crate) fn large_count(number: u64, singular: &str) -> String {
    const UNITS: [&str; 4] = ["K", "M", "B", "T"];
    if number < 1000 {
        let plural = if number == 1 { "" } else { "s" };
        return format!("{number} {singular}{plural}");
    }
    let mut amount = number as f64 / 1000.0;
    let mut unit = 0;
    // 999.95 K would be rounded to 1000 K.
    while amount >= 999.5 && unit + 1 < UNITS.len() {
        amount /= 1000.0;
        unit += 1;
    }
    let decimals = match amount {
        // The limits are those after rounding.
        amount if amount < 9.995 => 2,
        amount if amount < 99.95 => 1,
        _ => 0,
    };
    format!("{amount:.decimals$} {} {singular}s", UNITS[unit])
}

/// Formats a time with about three digits: `4.21 ms`, `12.3 s`.
pub(crate) fn seconds(duration: Duration) -> String {
    let seconds = duration.as_secs_f64();
    match seconds {
        s if s < 0.001 => format!("{:.0} µs", s * 1e6),
        s if s < 1.0 => format!("{:.1} ms", s * 1e3),
        s if s < 60.0 => format!("{s:.2} s"),
        s => format!("{:.0} min {:.0} s", (s / 60.0).floor(), s % 60.0),
    }
}

/// Formats an age in the largest unit of which there are at least two: `90 minutes ago`, `3 days ago`.
pub(crate) fn ago(duration: Duration) -> String {
    const UNITS: [(u64, &str); 5] = [(604_800, "week"), (86_400, "day"), (3600, "hour"), (60, "minute"), (1, "second")];
    let seconds = duration.as_secs();
    match UNITS.iter().find(|(length, _)| seconds >= 2 * length) {
        Some((length, name)) => format!("{} {name}s ago", seconds / length),
        None => "just now".to_owned(),
    }
}

/// Formats a number with six digits; `-` for `None`.
pub(crate) fn six_digits(number: Option<f64>) -> String {
    match number {
        None => "-".to_owned(),
        Some(0.0) => "0".to_owned(),
        Some(number) if (1e-4..1e6).contains(&number.abs()) => {
            // Uses as many decimals as give six digits in total.
            let before = if number.abs() < 1.0 { 1 } else { number.abs().log10().floor() as usize + 1 };
            let text = format!("{number:.*}", 6_usize.saturating_sub(before).max(1));
            if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
        }
        Some(number) => format!("{number:.4e}"),
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
    fn large_counts() {
        let check = |number, expected: &str| assert_eq!(large_count(number, "parameter"), expected);
        check(0, "0 parameters");
        check(1, "1 parameter");
        check(999, "999 parameters");
        check(1000, "1.00 K parameters");
        check(12_345, "12.3 K parameters");
        check(999_499, "999 K parameters");
        check(999_500, "1.00 M parameters");
        check(9_994_999, "9.99 M parameters");
        check(9_996_000, "10.0 M parameters");
        check(124_439_808, "124 M parameters");
        // Mistral 7B and Llama 3.1 405B, as on their model cards.
        check(7_241_732_096, "7.24 B parameters");
        check(405_853_388_800, "406 B parameters");
        check(u64::MAX, "18446744 T parameters");
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

    #[test]
    fn numbers_have_six_digits() {
        let check = |number: f64, expected: &str| assert_eq!(six_digits(Some(number)), expected);
        check(0.0, "0");
        check(1.0, "1");
        check(-0.25, "-0.25");
        check(std::f64::consts::PI, "3.14159");
        check(123_456.789, "123456.8");
        check(0.000_123_456_7, "0.00012");
        check(1e-9, "1.0000e-9");
        check(-2.5e12, "-2.5000e12");
        assert_eq!(six_digits(None), "-");
    }
}
