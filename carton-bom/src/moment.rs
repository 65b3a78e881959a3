//! The time of a document.

use jiff::Timestamp;
use thiserror::Error;

/// The variable that builds which can be repeated set (<https://reproducible-builds.org/specs/source-date-epoch/>).
const VARIABLE: &str = "SOURCE_DATE_EPOCH";

/// When a document is made. CycloneDX states it only where the user chose it, so that the same carton gives the same document; SPDX cannot do
/// without.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    time: Timestamp,
    is_chosen: bool,
}

/// A time that is none.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("SOURCE_DATE_EPOCH: expected seconds since 1970, found `{}`", .0.escape_debug())]
pub struct InvalidMoment(String);

impl Moment {
    /// The time of this many seconds after the beginning of 1970.
    ///
    /// # Errors
    /// It is after the year 9999.
    pub fn at(seconds: u64) -> Result<Self, InvalidMoment> {
        let time = i64::try_from(seconds).ok().and_then(|seconds| Timestamp::from_second(seconds).ok());
        time.map(|time| Self { time, is_chosen: true }).ok_or_else(|| InvalidMoment(seconds.to_string()))
    }

    /// The time that the environment variable `SOURCE_DATE_EPOCH` states; without it, the present.
    ///
    /// # Errors
    /// The variable is no number of seconds.
    pub fn from_environment() -> Result<Self, InvalidMoment> {
        match std::env::var_os(VARIABLE).filter(|value| !value.is_empty()) {
            None => Ok(Self { time: Timestamp::now(), is_chosen: false }),
            Some(value) => {
                let text = value.to_string_lossy();
                Self::at(text.parse().map_err(|_| InvalidMoment(text.into_owned()))?)
            }
        }
    }

    /// The time in the form of RFC 3339, in UTC and whole seconds.
    pub(crate) fn text(&self) -> String {
        self.time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
    }

    /// The time, if the user chose it.
    pub(crate) fn chosen(&self) -> Option<String> {
        self.is_chosen.then(|| self.text())
    }
}
