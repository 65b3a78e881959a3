//! What of a request's body was not read when the request was answered, as when there is no such model.
//!
//! HTTP/1 sends the next request behind it. The HTTP library closes the connection if the rest has not arrived yet, and does not say so in the
//! answer: a client that sends the next request then finds the connection broken. So a short rest is read here, and the answer announces the
//! end of the connection for others.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use axum::http::Response;
use axum::http::header::{CONNECTION, HeaderValue};
use bytes::Bytes;
use http_body::{Body as _, Frame, SizeHint};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use parking_lot::Mutex;

/// The longest rest that is read, in bytes.
const MAX_REST: u64 = 64 << 10;
/// How long an answer waits for the rest.
const PATIENCE: Duration = Duration::from_millis(500);

/// Where the body of a request is put that is dropped before its end.
#[derive(Clone, Default)]
pub(super) struct Unread(Arc<Mutex<Option<Incoming>>>);

impl Unread {
    /// The body, for who answers the request.
    pub(super) fn lend(&self, body: Incoming) -> Body {
        Body::new(Lent { body: Some(body), unread: self.clone() })
    }

    /// Reads the rest of the body, or says in the answer that the connection ends with it. `is_awaited` says that the client sends the body
    /// only when it is asked for.
    pub(super) async fn settle(self, is_awaited: bool, response: &mut Response<Body>) {
        let Some(body) = self.0.lock().take() else { return };
        let is_read = !is_awaited && tokio::time::timeout(PATIENCE, read(body)).await.unwrap_or(false);
        if !is_read {
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
    }
}

/// Whether the body could be read to its end.
async fn read(mut body: Incoming) -> bool {
    let mut n_left = MAX_REST;
    if body.size_hint().lower() > n_left {
        return false;
    }
    while let Some(frame) = body.frame().await {
        let Ok(frame) = frame else { return false };
        let n_bytes = frame.data_ref().map_or(0, Bytes::len) as u64;
        match n_left.checked_sub(n_bytes) {
            Some(left) => n_left = left,
            None => return false,
        }
    }
    true
}

/// The body of a request, which is given back if it is dropped before its end.
struct Lent {
    body: Option<Incoming>,
    unread: Unread,
}

impl Drop for Lent {
    fn drop(&mut self) {
        if let Some(body) = self.body.take().filter(|body| !body.is_end_stream()) {
            *self.unread.0.lock() = Some(body);
        }
    }
}

impl http_body::Body for Lent {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let Some(body) = &mut self.body else { return Poll::Ready(None) };
        let polled = Pin::new(body).poll_frame(context);
        if matches!(polled, Poll::Ready(None | Some(Err(_)))) {
            self.body = None;
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(|body| body.is_end_stream())
    }

    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map_or_else(|| SizeHint::with_exact(0), |body| body.size_hint())
    }
}
