//! The access log and the span of each request, for both faces.

use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::time::Instant;

use axum::body::Body;
use axum::extract::Request;
use axum::http::Response;
use bytes::Bytes;
use http_body::{Frame, SizeHint};
use tracing::Instrument;

use crate::access::{AccessLog, GrpcStatus, Record, TraceContext, now};
use crate::app::App;
use crate::connection::Client;
use crate::failure::Reason;

/// Why a request failed: an extension of its answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FailureReason(pub(crate) Reason);

/// How a stream of answers ended: an extension of the response that has the stream as its body.
#[derive(Clone, Debug, Default)]
pub(crate) struct StreamEnd(Arc<OnceLock<Option<Reason>>>);

impl StreamEnd {
    /// The stream has ended, by this failure if it failed.
    pub(crate) fn reach(&self, failure: Option<Reason>) {
        // The first end is the one that the client sees.
        let _ = self.0.set(failure);
    }

    pub(crate) fn is_reached(&self) -> bool {
        self.0.get().is_some()
    }
}

/// The status in the access log of a request whose client left before it was answered.
pub(crate) const CLIENT_LEFT: u16 = 499;

/// Answers a request, and records it in the access log, in a span of the trace that its client began.
pub(crate) async fn observe<A: Future<Output = Response<Body>>>(
    app: &App,
    request: Request,
    client: &Client,
    answer: impl FnOnce(Request) -> A,
) -> Response<Body> {
    let is_traced = tracing::enabled!(target: "carton::serve", tracing::Level::INFO);
    if app.access_log.is_none() && !is_traced {
        return answer(request).await;
    }
    let header = request.headers().get("traceparent").and_then(|value| value.to_str().ok());
    let trace = header.and_then(TraceContext::parse);
    let span = tracing::info_span!(
        target: "carton::serve",
        "request",
        method = %request.method(),
        path = request.uri().path(),
        trace_id = trace.as_ref().map(|trace| trace.trace_id.as_str()),
        parent_id = trace.as_ref().map(|trace| trace.parent_id.as_str()),
        sampled = trace.as_ref().map(|trace| trace.sampled),
    );
    let recording = app.access_log.clone().map(|log| Recording::new(log, &request, client, trace));
    let answered = async {
        let response = answer(request).await;
        tracing::debug!(target: "carton::serve", status = response.status().as_u16(), "answered");
        response
    };
    let response = answered.instrument(span).await;
    match recording {
        Some(recording) => recording.of(response),
        None => response,
    }
}

/// A request that is recorded when it is answered, or when its client has left.
struct Recording {
    log: AccessLog,
    start: Instant,
    method: String,
    path: String,
    client: String,
    trace_id: Option<String>,
    is_recorded: bool,
}

impl Recording {
    fn new(log: AccessLog, request: &Request, client: &Client, trace: Option<TraceContext>) -> Self {
        let (method, path) = (request.method().to_string(), request.uri().path().to_owned());
        let trace_id = trace.map(|trace| trace.trace_id);
        Self { log, start: Instant::now(), method, path, client: client.to_string(), trace_id, is_recorded: false }
    }

    /// Records an answer: a stream when it ends, and others now.
    fn of(mut self, response: Response<Body>) -> Response<Body> {
        let extensions = response.extensions();
        let status = response.status().as_u16();
        let Some(end) = extensions.get::<StreamEnd>().cloned() else {
            let failure = extensions.get::<FailureReason>().map(|reason| reason.0);
            self.record(status, failure, extensions.get::<GrpcStatus>().map(|status| status.0));
            return response;
        };
        response.map(|body| Body::new(Recorded { body, recording: self, status, end }))
    }

    fn record(&mut self, status: u16, failure: Option<Reason>, grpc_status: Option<u8>) {
        if std::mem::replace(&mut self.is_recorded, true) {
            return;
        }
        self.log.record(&Record {
            time: now(),
            client: &self.client,
            method: &self.method,
            path: &self.path,
            status,
            seconds: self.start.elapsed().as_secs_f64(),
            failure: failure.map(Reason::name),
            grpc_status,
            trace_id: self.trace_id.as_deref(),
        });
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        self.record(CLIENT_LEFT, Some(Reason::ClientLeft), None);
    }
}

/// The body of a stream, which is recorded when it has ended or is dropped.
struct Recorded {
    body: Body,
    recording: Recording,
    status: u16,
    end: StreamEnd,
}

impl Drop for Recorded {
    fn drop(&mut self) {
        if let Some(failure) = self.end.0.get() {
            self.recording.record(self.status, *failure, None);
        }
    }
}

impl http_body::Body for Recorded {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
