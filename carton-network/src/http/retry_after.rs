//! `Retry-After` (RFC 9110, section 10.2.3). Pure.

use std::time::{Duration, SystemTime};

use super::content_range::number;

/// The waiting time from `now` on that the server asks for, as a number of seconds or a date. Zero for a date in the past.
pub(super) fn parse(text: &str, now: SystemTime) -> Option<Duration> {
    let text = text.trim();
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        // A number of seconds that does not fit means forever.
        return Some(Duration::from_secs(number(text).unwrap_or(u64::MAX)));
    }
    let date = httpdate::parse_http_date(text).ok()?;
    Some(date.duration_since(now).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Sun, 06 Nov 1994 08:49:37 GMT.
    fn now() -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777)
    }

    #[test]
    fn seconds_or_any_of_the_three_date_formats() {
        let check = |text: &str, expected: Option<u64>| {
            assert_eq!(parse(text, now()), expected.map(Duration::from_secs), "{text}");
        };
        check("0", Some(0));
        check(" 120 ", Some(120));
        check("99999999999999999999999", Some(u64::MAX));
        check("Sun, 06 Nov 1994 08:50:37 GMT", Some(60));
        check("Sunday, 06-Nov-94 08:49:47 GMT", Some(10));
        check("Sun Nov  6 08:49:38 1994", Some(1));
        check("Sun, 06 Nov 1994 08:49:00 GMT", Some(0));
        for bad in ["", "-1", "+1", "1.5", "soon", "Sun, 32 Nov 1994 08:49:37 GMT"] {
            check(bad, None);
        }
    }

    proptest! {
        #[test]
        fn a_date_in_the_future_is_so_far_away(seconds in 0_u64..3_000_000_000) {
            let text = httpdate::fmt_http_date(now() + Duration::from_secs(seconds));
            prop_assert_eq!(parse(&text, now()), Some(Duration::from_secs(seconds)));
        }

        #[test]
        fn no_text_panics(text in "\\PC{0,40}") {
            let _ = parse(&text, now());
        }
    }
}
