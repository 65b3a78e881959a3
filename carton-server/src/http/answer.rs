//! Answers: JSON, binary tensors behind JSON, and failures in the form of the protocol.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::Body;
use axum::http::header::{
    ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_TYPE, HeaderName, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE,
};
use axum::http::{HeaderMap, Response, StatusCode};
use axum::response::IntoResponse;
use bytes::Bytes;
use http_body::{Frame, SizeHint};
use serde::Serialize;

use crate::counted_chunks::keep_with_chunks;
use crate::encoding::Encoding;
use crate::failure::{Failure, Reason};
use crate::observe::{CLIENT_LEFT, FailureReason};
use crate::work::on_thread;

/// The header that says where binary tensors begin.
pub(super) const JSON_LENGTH: HeaderName = HeaderName::from_static("inference-header-content-length");

const JSON: HeaderValue = HeaderValue::from_static("application/json");
const BINARY: HeaderValue = HeaderValue::from_static("application/octet-stream");

/// Answers below this size are not encoded.
const MIN_ENCODED: usize = 1024;

/// An answer of JSON.
pub(super) fn json(value: &impl Serialize) -> Result<Response<Body>, Failure> {
    let text = serde_json::to_vec(value);
    let text =
        text.map_err(|error| Failure::new(Reason::Internal, format!("the answer cannot be written: {error}")))?;
    Ok(with_type(JSON, text.into()))
}

/// An answer of JSON and the bytes of binary tensors, if there are any. `held` is dropped when the connection has sent it.
///
/// # Errors
/// The answer cannot be encoded as the client accepts.
pub(super) async fn tensors<T: Send + Sync + 'static>(
    json: Vec<u8>,
    binary: Vec<Bytes>,
    request: &HeaderMap,
    held: T,
) -> Result<Response<Body>, Failure> {
    let json_length = (!binary.is_empty()).then_some(json.len());
    let mut chunks: Vec<Bytes> = std::iter::once(Bytes::from(json)).chain(binary).collect();
    let encoding = encoding(request, json_length.is_some(), chunks.iter().map(Bytes::len).sum());
    if let Some(encoding) = encoding {
        chunks = vec![on_thread(move || encoding.compress(&chunks)).await?.into()];
    }
    let body = Body::new(Chunks(keep_with_chunks(chunks, held).into()));
    let mut response = with_type(if json_length.is_some() { BINARY } else { JSON }, body);
    let headers = response.headers_mut();
    if let Some(length) = json_length {
        headers.insert(JSON_LENGTH, length.into());
    }
    if let Some(encoding) = encoding {
        headers.insert(CONTENT_ENCODING, encoding.name());
    }
    Ok(response)
}

/// How an answer is encoded.
///
/// Libraries accept encodings without their user's knowledge, and encoding binary numbers takes longer than sending them. They are
/// encoded if the client names one encoding alone, as it does when its user chose it.
fn encoding(request: &HeaderMap, is_binary: bool, n_bytes: usize) -> Option<Encoding> {
    if n_bytes < MIN_ENCODED {
        return None;
    }
    let accepted: Vec<&str> = request.get_all(ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok()).collect();
    let accepted = accepted.join(",");
    if is_binary && accepted.contains([',', '*']) {
        return None;
    }
    Encoding::preferred(&accepted)
}

fn with_type(content_type: HeaderValue, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    response.headers_mut().insert(CONTENT_TYPE, content_type);
    response
}

/// A body of known chunks.
struct Chunks(VecDeque<Bytes>);

impl http_body::Body for Chunks {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(self.0.pop_front().map(|chunk| Ok(Frame::data(chunk))))
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.0.iter().map(|chunk| chunk.len() as u64).sum())
    }
}

/// A failure in the form of the protocol.
#[derive(Serialize)]
struct ErrorBody<'a> {
    error: &'a str,
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response<Body> {
        let text = serde_json::to_vec(&ErrorBody { error: &self.message }).unwrap_or_default();
        let mut response = with_type(JSON, text.into());
        *response.status_mut() = status(self.reason);
        if let Some(pause) = self.retry_after {
            response.headers_mut().insert(RETRY_AFTER, pause.as_secs().max(1).into());
        }
        if self.reason == Reason::Unauthenticated {
            response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response.extensions_mut().insert(FailureReason(self.reason));
        response
    }
}

fn status(reason: Reason) -> StatusCode {
    match reason {
        Reason::InvalidArgument => StatusCode::BAD_REQUEST,
        // Nobody gets it, but the access log has it.
        Reason::ClientLeft => StatusCode::from_u16(CLIENT_LEFT).unwrap_or(StatusCode::BAD_REQUEST),
        Reason::Unauthenticated => StatusCode::UNAUTHORIZED,
        Reason::Forbidden => StatusCode::FORBIDDEN,
        Reason::NotFound => StatusCode::NOT_FOUND,
        Reason::WrongMethod => StatusCode::METHOD_NOT_ALLOWED,
        Reason::SlowClient => StatusCode::REQUEST_TIMEOUT,
        Reason::DeadlineExceeded => StatusCode::GATEWAY_TIMEOUT,
        Reason::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
        Reason::TooManyHeaders => StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
        Reason::UnsupportedEncoding => StatusCode::UNSUPPORTED_MEDIA_TYPE,
        Reason::Overloaded => StatusCode::TOO_MANY_REQUESTS,
        Reason::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
        Reason::Model | Reason::Internal => StatusCode::INTERNAL_SERVER_ERROR,
    }
}
