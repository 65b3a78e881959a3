//! The status of an answer.

use std::fmt;

/// An HTTP status code (RFC 9110, section 15). `Display` adds its meaning: `404 Not Found`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HttpStatus(u16);

impl HttpStatus {
    /// The number.
    #[must_use]
    pub fn code(self) -> u16 {
        self.0
    }
}

impl HttpStatus {
    pub(super) fn of_answer(status: reqwest::StatusCode) -> Self {
        Self(status.as_u16())
    }
}

impl fmt::Display for HttpStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Ok(status) = reqwest::StatusCode::from_u16(self.0) {
            return status.fmt(f);
        }
        self.0.fmt(f)
    }
}

#[cfg(test)]
impl HttpStatus {
    pub(super) fn of(code: u16) -> Self {
        Self(code)
    }
}
