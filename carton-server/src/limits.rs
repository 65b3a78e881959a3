//! The limits of a server: what clients can make it hold, and for how long.

use std::time::Duration;

use axum::http::HeaderMap;

use crate::failure::{Failure, Reason};

/// The limits of a server: what its clients can make it hold, and for how long. They do not bound the runners, whose limits are those of
/// the sandbox.
///
/// ```
/// use carton_server::Limits;
/// let mut limits = Limits::default();
/// limits.body_bytes = 16 << 20;
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// The most bytes of one request, decoded; 256 MiB by default.
    pub body_bytes: usize,
    /// The most bytes that requests and their answers take together; 1 GiB by default. Further requests are refused until some are done.
    pub call_bytes: usize,
    /// The most open connections; 1024 by default. Further ones are closed.
    pub connections: usize,
    /// The most headers of a request; 64 by default. Above 67, the server allocates memory for that many before it reads a request over HTTP/1, which may have 10,000 at
    /// most.
    pub headers: usize,
    /// The most bytes of the headers of a request; 64 KiB by default.
    pub header_bytes: usize,
    /// How long a client may take to send the headers of a request, and to begin the next request; 30 seconds by default.
    pub header_timeout: Duration,
    /// How long a client may pause while it sends a request; 10 seconds by default. On average it must send 16 KiB a second.
    pub body_pause: Duration,
    /// How long a client may pause while it reads an answer; 30 seconds by default. Over HTTP/2 it has further time for each part of up to
    /// 1 MiB, of which it must read 16 KiB a second.
    pub answer_pause: Duration,
    /// The longest time that a call may take, waiting included, whatever the client says; unlimited by default. It does not stop the
    /// runner: that is what the timeout of the model does.
    pub call_timeout: Option<Duration>,
}

/// The largest body of a request without tensors, and the largest message of it over gRPC, whose libraries take as much by default.
pub(crate) const MAX_PLAIN_BODY: usize = 4 << 20;

impl Default for Limits {
    fn default() -> Self {
        Self {
            body_bytes: 256 << 20,
            call_bytes: 1 << 30,
            connections: 1024,
            headers: 64,
            header_bytes: 64 << 10,
            header_timeout: Duration::from_secs(30),
            body_pause: Duration::from_secs(10),
            answer_pause: Duration::from_secs(30),
            call_timeout: None,
        }
    }
}

impl Limits {
    /// # Errors
    /// A request has more headers, or larger ones. The two versions of HTTP have other limits of their own, which come first.
    pub(crate) fn check_headers(&self, headers: &HeaderMap) -> Result<(), Failure> {
        let n_bytes = headers.iter().map(|(name, value)| name.as_str().len() + value.len()).sum::<usize>();
        match headers.len() > self.headers || n_bytes > self.header_bytes {
            true => Err(Failure::new(
                Reason::TooManyHeaders,
                "the request has more headers, or larger ones, than this server takes",
            )),
            false => Ok(()),
        }
    }

    /// # Errors
    /// The name of a limit that is zero: with it the server would answer nothing.
    pub(crate) fn check(&self) -> Result<(), &'static str> {
        let sizes = [
            ("body_bytes", self.body_bytes),
            ("call_bytes", self.call_bytes),
            ("connections", self.connections),
            ("headers", self.headers),
            ("header_bytes", self.header_bytes),
        ];
        let times = [
            ("header_timeout", Some(self.header_timeout)),
            ("body_pause", Some(self.body_pause)),
            ("answer_pause", Some(self.answer_pause)),
            ("call_timeout", self.call_timeout),
        ];
        let size = sizes.iter().find(|(_, size)| *size == 0).map(|(name, _)| *name);
        let time = times.iter().find(|(_, time)| time.is_some_and(|time| time.is_zero())).map(|(name, _)| *name);
        size.or(time).map_or(Ok(()), Err)
    }
}

/// The bytes a second that a client must send on average, beyond its pauses.
pub(crate) const MIN_BYTES_PER_SECOND: u64 = 16 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zeros() {
        assert_eq!(Limits::default().check(), Ok(()));
        assert_eq!(Limits { headers: 0, ..Limits::default() }.check(), Err("headers"));
        assert_eq!(Limits { body_pause: Duration::ZERO, ..Limits::default() }.check(), Err("body_pause"));
        assert_eq!(Limits { call_timeout: Some(Duration::ZERO), ..Limits::default() }.check(), Err("call_timeout"));
    }
}
