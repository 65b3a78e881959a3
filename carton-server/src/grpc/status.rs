//! Status codes, failures as answers, and the deadline that a client states.

use std::time::Duration;

use axum::body::Body;
use axum::http::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use axum::http::{HeaderMap, Response};

use super::compression::{ACCEPTED, ACCEPTED_ENCODINGS};
use crate::access::GrpcStatus;
use crate::failure::{Failure, Reason};
use crate::observe::FailureReason;

pub(super) const GRPC: HeaderValue = HeaderValue::from_static("application/grpc");
const STATUS: HeaderName = HeaderName::from_static("grpc-status");
const MESSAGE: HeaderName = HeaderName::from_static("grpc-message");
const TIMEOUT: HeaderName = HeaderName::from_static("grpc-timeout");
/// When a client whose configuration says that it repeats calls may do so, in milliseconds.
const RETRY: HeaderName = HeaderName::from_static("grpc-retry-pushback-ms");

/// The code of a call that succeeded.
const OK: u8 = 0;

/// The status code of a failure.
fn code(reason: Reason) -> u8 {
    match reason {
        Reason::ClientLeft => 1,
        Reason::InvalidArgument => 3,
        Reason::SlowClient | Reason::DeadlineExceeded => 4,
        Reason::NotFound => 5,
        Reason::Forbidden => 7,
        Reason::TooLarge | Reason::TooManyHeaders | Reason::Overloaded => 8,
        Reason::WrongMethod | Reason::UnsupportedEncoding => 12,
        Reason::Model | Reason::Internal => 13,
        Reason::Unavailable => 14,
        Reason::Unauthenticated => 16,
    }
}

/// The trailers of a call.
pub(super) fn trailers(failure: Option<&Failure>) -> HeaderMap {
    let mut trailers = HeaderMap::new();
    trailers.insert(STATUS, u16::from(failure.map_or(OK, |failure| code(failure.reason))).into());
    if let Some(failure) = failure {
        if let Ok(message) = HeaderValue::try_from(escaped(&failure.message)) {
            trailers.insert(MESSAGE, message);
        }
        if let Some(pause) = failure.retry_after {
            trailers.insert(RETRY, u64::try_from(pause.as_millis()).unwrap_or(u64::MAX).into());
        }
        if failure.reason == Reason::UnsupportedEncoding {
            trailers.insert(ACCEPTED_ENCODINGS, ACCEPTED);
        }
    }
    trailers
}

/// The answer to a call that failed before it had an answer: trailers alone.
pub(super) fn refusal(failure: &Failure) -> Response<Body> {
    let mut response = Response::new(Body::empty());
    response.headers_mut().extend(trailers(Some(failure)));
    response.headers_mut().insert(CONTENT_TYPE, GRPC);
    response.extensions_mut().insert(FailureReason(failure.reason));
    response.extensions_mut().insert(GrpcStatus(code(failure.reason)));
    response
}

/// The head of an answer. `is_whole` says that nothing can fail any more.
pub(super) fn success(body: Body, is_whole: bool) -> Response<Body> {
    let mut response = Response::new(body);
    response.headers_mut().insert(CONTENT_TYPE, GRPC);
    response.headers_mut().insert(ACCEPTED_ENCODINGS, ACCEPTED);
    if is_whole {
        response.extensions_mut().insert(GrpcStatus(OK));
    }
    response
}

/// A message as gRPC writes it in a header: what is not printable ASCII is percent-encoded.
fn escaped(message: &str) -> String {
    let mut text = String::with_capacity(message.len());
    for byte in message.bytes() {
        match byte {
            b'%' => text.push_str("%25"),
            b' '..=b'~' => text.push(char::from(byte)),
            _ => text.push_str(&format!("%{byte:02X}")),
        }
    }
    text
}

/// How long the client waits: at most eight digits and a unit.
///
/// # Errors
/// The header is not valid.
pub(super) fn timeout(headers: &HeaderMap) -> Result<Option<Duration>, Failure> {
    let Some(value) = headers.get(TIMEOUT) else { return Ok(None) };
    let invalid = || Failure::invalid("expected up to eight digits and a unit as the header `grpc-timeout`");
    let (unit, digits) = value.as_bytes().split_last().ok_or_else(invalid)?;
    if digits.is_empty() || digits.len() > 8 || !digits.iter().all(u8::is_ascii_digit) {
        return Err(invalid());
    }
    let number = digits.iter().fold(0_u64, |number, digit| number * 10 + u64::from(digit - b'0'));
    Ok(Some(match unit {
        b'H' => Duration::from_secs(number * 3600),
        b'M' => Duration::from_secs(number * 60),
        b'S' => Duration::from_secs(number),
        b'm' => Duration::from_millis(number),
        b'u' => Duration::from_micros(number),
        b'n' => Duration::from_nanos(number),
        _ => return Err(invalid()),
    }))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn messages_are_escaped() {
        assert_eq!(escaped("100 % of `ä`\n"), "100 %25 of `%C3%A4`%0A");
    }

    #[test]
    fn timeouts() {
        let check = |text: &'static str, expected: Option<Duration>| {
            let headers = HeaderMap::from_iter([(TIMEOUT, HeaderValue::from_static(text))]);
            assert_eq!(timeout(&headers).ok().flatten(), expected, "{text}");
        };
        check("1H", Some(Duration::from_secs(3600)));
        check("2M", Some(Duration::from_secs(120)));
        check("99999999S", Some(Duration::from_secs(99_999_999)));
        check("0m", Some(Duration::ZERO));
        check("5u", Some(Duration::from_micros(5)));
        check("7n", Some(Duration::from_nanos(7)));
        for text in ["", "1", "S", "-1S", "1.5S", "1s", "123456789S", "1 S"] {
            check(text, None);
        }
        assert_eq!(timeout(&HeaderMap::new()), Ok(None));
    }

    #[test]
    fn every_reason_has_a_code() {
        assert!(Reason::ALL.into_iter().all(|reason| (1..=16).contains(&code(reason))));
        let trailers = trailers(Some(&Failure::new(Reason::Overloaded, "full")));
        assert_eq!(
            (&trailers[STATUS], &trailers[MESSAGE], &trailers[RETRY]),
            (&HeaderValue::from_static("8"), &HeaderValue::from_static("full"), &HeaderValue::from_static("1000"),)
        );
    }
}
