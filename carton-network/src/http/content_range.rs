//! `Content-Range` (RFC 9110, section 14.4). Pure.

use std::ops::Range;

/// The statement of a `Content-Range` about the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ContentRange {
    /// `bytes 0-99/200`: this range (its end exclusive) of a file of `total` bytes.
    Part { range: Range<u64>, total: u64 },
    /// `bytes */200`: no range of a file of `total` bytes.
    Unsatisfied { total: u64 },
}

impl ContentRange {
    /// Returns `None` for everything that has not exactly one of these two forms, for a range outside of the file, and for an unknown
    /// length: a part of a file of unknown length cannot be told from a part of another version.
    pub(super) fn parse(text: &str) -> Option<ContentRange> {
        let (unit, rest) = text.trim().split_once(' ')?;
        let (range, total) = rest.trim_start().split_once('/')?;
        if !unit.eq_ignore_ascii_case("bytes") {
            return None;
        }
        let total = number(total)?;
        if range == "*" {
            return Some(ContentRange::Unsatisfied { total });
        }
        let (first, last) = range.split_once('-')?;
        let range = number(first)?..number(last)?.checked_add(1)?;
        (range.start < range.end && range.end <= total).then_some(ContentRange::Part { range, total })
    }
}

/// Accepts digits only: `str::parse` alone would accept a plus sign.
pub(super) fn number(text: &str) -> Option<u64> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}

/// A range in HTTP's form, with the last byte included: `0-99`.
pub(super) fn inclusive(range: &Range<u64>) -> String {
    match range.end.checked_sub(1) {
        Some(last) if last >= range.start => format!("{}-{last}", range.start),
        _ => "no bytes".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn only_the_exact_forms_count() {
        let check =
            |text: &str, expected: Option<ContentRange>| assert_eq!(ContentRange::parse(text), expected, "{text}");
        check("bytes 0-99/200", Some(ContentRange::Part { range: 0..100, total: 200 }));
        check("Bytes 199-199/200", Some(ContentRange::Part { range: 199..200, total: 200 }));
        check("bytes */0", Some(ContentRange::Unsatisfied { total: 0 }));
        let last = u64::MAX - 1;
        check(
            &format!("bytes 0-{last}/{}", u64::MAX),
            Some(ContentRange::Part { range: 0..u64::MAX, total: u64::MAX }),
        );
        for bad in [
            "",
            "bytes",
            "bytes 0-99",
            "bytes 0-99/*",
            "bytes */*",
            "bytes 99-0/200",
            "bytes 0-200/200",
            "bytes -5/200",
            "bytes 0-/200",
            "items 0-99/200",
            "bytes +0-99/200",
            "bytes 0-99/200, bytes 5-6/200",
            "bytes=0-99/200",
            "bytes 0-18446744073709551615/18446744073709551615",
            "bytes 0 - 99/200",
        ] {
            check(bad, None);
        }
    }

    #[test]
    fn ranges_are_shown_with_their_last_byte() {
        assert_eq!([inclusive(&(0..100)), inclusive(&(7..8)), inclusive(&(0..0))], ["0-99", "7-7", "no bytes"]);
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(start in any::<u64>(), length in 1..u64::MAX, more in any::<u64>()) {
            let end = start.saturating_add(length);
            let total = end.saturating_add(more);
            let text = format!("bytes {}/{total}", inclusive(&(start..end)));
            if start < end {
                prop_assert_eq!(ContentRange::parse(&text), Some(ContentRange::Part { range: start..end, total }));
            }
        }

        #[test]
        fn no_text_makes_a_range_outside_of_its_file(text in "(bytes )?[-*/0-9 ,]{0,30}") {
            if let Some(ContentRange::Part { range, total }) = ContentRange::parse(&text) {
                prop_assert!(range.start < range.end && range.end <= total);
            }
        }
    }
}
