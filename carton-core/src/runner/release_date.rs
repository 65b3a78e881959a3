//! The release date of a runner: the text of its descriptor, ordered by the time that it denotes. Pure.

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

use jiff::Timestamp;
use serde::Serialize;
use toml::value::{Datetime, Offset, Time};

/// The release date of the runners that belong to this version (RFC 3339).
pub const RELEASE_DATE: &str = "2026-11-21T00:00:00Z";

/// A date and time of RFC 3339. Two dates are equal if they denote the same moment, even with different offsets from UTC.
///
/// ```
/// use carton_core::runner::ReleaseDate;
/// let here: ReleaseDate = "2026-11-21T01:30:00+02:00".parse()?;
/// let there: ReleaseDate = "2026-11-20T23:30:00.5Z".parse()?;
/// assert!(here < there);
/// # Ok::<(), carton_core::runner::ReleaseDateError>(())
/// ```
#[derive(Clone, Debug)]
pub struct ReleaseDate {
    text: String,
    moment: Timestamp,
}

/// A text that is not a date and time.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected an RFC 3339 date and time, found `{found}`")]
pub struct ReleaseDateError {
    /// The text.
    pub found: String,
}

impl ReleaseDate {
    /// Takes the date of a TOML date-time. A missing time is midnight and a missing offset UTC, as people write dates; a time
    /// without a date is not accepted.
    pub(super) fn from_toml(datetime: &Datetime) -> Option<Self> {
        let midnight = Time { hour: 0, minute: 0, second: Some(0), nanosecond: None };
        let time = datetime.time.unwrap_or(midnight);
        let complete = Datetime {
            date: Some(datetime.date?),
            time: Some(Time { second: Some(time.second.unwrap_or(0)), ..time }),
            offset: Some(datetime.offset.unwrap_or(Offset::Z)),
        };
        Some(Self { text: datetime.to_string(), moment: complete.to_string().parse().ok()? })
    }
}

impl FromStr for ReleaseDate {
    type Err = ReleaseDateError;

    fn from_str(text: &str) -> Result<Self, ReleaseDateError> {
        let datetime: Option<Datetime> = text.parse().ok();
        datetime
            .and_then(|datetime| Self::from_toml(&datetime))
            .ok_or_else(|| ReleaseDateError { found: text.to_owned() })
    }
}

impl Default for ReleaseDate {
    /// The start of 1970.
    fn default() -> Self {
        Self { text: "1970-01-01T00:00:00Z".to_owned(), moment: Timestamp::UNIX_EPOCH }
    }
}

impl PartialEq for ReleaseDate {
    fn eq(&self, other: &Self) -> bool {
        self.moment == other.moment
    }
}

impl Eq for ReleaseDate {}

impl PartialOrd for ReleaseDate {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for ReleaseDate {
    fn cmp(&self, other: &Self) -> Ordering {
        self.moment.cmp(&other.moment)
    }
}

impl fmt::Display for ReleaseDate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Serialize for ReleaseDate {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn dates_are_moments() {
        let check = |text: &str, seconds: i64, nanoseconds: i32| {
            let date: ReleaseDate = text.parse().unwrap();
            assert_eq!(date.moment, Timestamp::new(seconds, nanoseconds).unwrap(), "{text}");
        };
        // The seconds are those of `date -u -d TEXT +%s`.
        check("1970-01-01T00:00:00Z", 0, 0);
        check("2000-02-29T12:00:00Z", 951_825_600, 0);
        check("2023-08-01T12:00:00.123456+00:00", 1_690_891_200, 123_456_000);
        check("2026-11-21T01:30:00+02:00", 1_795_217_400, 0);
        check("2026-11-21T01:30:00-09:30", 1_795_258_800, 0);
        check("1969-12-31 23:59:59z", -1, 0);
        check("2100-03-01", 4_107_542_400, 0);
        check("2026-11-21T01:30:00", 1_795_224_600, 0);
    }

    #[test]
    fn order_is_that_of_moments_not_of_text() {
        let date = |text: &str| text.parse::<ReleaseDate>().unwrap();
        assert!(date("2026-11-21T01:00:00+05:00") < date("2026-11-20T23:00:00Z"));
        assert_eq!(date("2026-11-21T01:00:00+01:00"), date("2026-11-21T00:00:00.000Z"));
        assert!(date("2026-01-01T00:00:00.5Z") > date("2026-01-01T00:00:00Z"));
    }

    #[test]
    fn other_texts_are_no_dates() {
        for text in ["", "yesterday", "12:00:00", "2023-18-41T12:00:00Z", "2026-01-01T00:00:00+99:99x"] {
            assert!(text.parse::<ReleaseDate>().is_err(), "{text}");
        }
    }
}
