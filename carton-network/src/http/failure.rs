//! Translates the errors of the HTTP library into the reasons for which a request or its body failed.

use std::error::Error;
use std::io;

use carton_format::url::ShownUrl;

use super::NetworkError;
use super::error::THROUGH_PROXY;
use super::private::PrivateName;

/// The error of a request that got no answer.
pub(super) fn of_request(url: ShownUrl, error: reqwest::Error) -> NetworkError {
    let error = error.without_url();
    if let Some(tls) = find::<rustls::Error>(&error) {
        return NetworkError::Tls { url, source: Box::new(tls.clone()) };
    }
    if let Some(private) = find::<PrivateName>(&error) {
        return NetworkError::Private { url, at: private.address.to_string() };
    }
    let looked_up = chain(&error).any(|cause| cause.to_string() == "dns error");
    let in_tunnel = chain(&error).any(|cause| cause.to_string().starts_with("tunnel error"));
    let action = match (looked_up, error.is_connect()) {
        _ if in_tunnel => THROUGH_PROXY,
        (true, _) => "find the host of",
        (false, true) => "connect to",
        (false, false) => "get an answer from",
    };
    NetworkError::Connection { action, url, source: cause(error) }
}

/// The error of a body that ended early. `expected` and `found` are bytes of the body.
pub(super) fn of_body(url: ShownUrl, error: reqwest::Error, expected: Option<u64>, found: u64) -> NetworkError {
    let error = error.without_url();
    let ended = find::<io::Error>(&error).is_some_and(|error| error.kind() == io::ErrorKind::UnexpectedEof);
    match expected {
        Some(expected) if ended => NetworkError::Cut { url, expected, found },
        _ => NetworkError::Connection { action: "read", url, source: cause(error) },
    }
}

/// The error without the layers above the operating system's, which add no information.
fn cause(error: reqwest::Error) -> Box<dyn Error + Send + Sync> {
    match find::<io::Error>(&error) {
        Some(found) => match (found.raw_os_error(), found.get_ref()) {
            (Some(code), _) => Box::new(io::Error::from_raw_os_error(code)),
            (None, Some(inner)) => Box::new(io::Error::new(found.kind(), carton_format::causes::in_one_line(inner))),
            (None, None) => Box::new(io::Error::from(found.kind())),
        },
        None => match error.source().map(carton_format::causes::in_one_line) {
            Some(causes) => causes.into(),
            None => Box::new(error),
        },
    }
}

/// The first error of a type among an error and its causes.
fn find<'a, T: Error + 'static>(error: &'a (dyn Error + 'static)) -> Option<&'a T> {
    chain(error).find_map(|cause| cause.downcast_ref())
}

/// An error and its causes, including those inside an `io::Error`, which its `source` skips.
fn chain<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |&error| match error.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
        Some(inner) => Some(inner as &(dyn Error + 'static)),
        None => error.source(),
    })
}
