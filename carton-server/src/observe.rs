//! The access log and the span of each request, for both faces.

use std::time::Instant;

use axum::body::Body;
use axum::extract::Request;
use axum::http::Response;
use tracing::Instrument;

use crate::access::{GrpcStatus, Record, TraceContext, now};
use crate::app::App;
use crate::connection::Client;
use crate::failure::Reason;

/// Why a request failed, beside the answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FailureReason(pub(crate) Reason);

/// Records a request in the access log, in a span of the trace that its client began.
pub(crate) async fn observe<A: Future<Output = Response<Body>>>(
    app: &App,
    request: Request,
    answer: impl FnOnce(Request) -> A,
) -> Response<Body> {
    let is_traced = tracing::enabled!(target: "carton::serve", tracing::Level::INFO);
    if app.access_log.is_none() && !is_traced {
        return answer(request).await;
    }
    let start = Instant::now();
    let (method, path) = (request.method().to_string(), request.uri().path().to_owned());
    let client = request.extensions().get::<Client>().map(ToString::to_string);
    let header = request.headers().get("traceparent").and_then(|value| value.to_str().ok());
    let trace = header.and_then(TraceContext::parse);
    let span = tracing::info_span!(
        target: "carton::serve",
        "request",
        method,
        path,
        trace_id = trace.as_ref().map(|trace| trace.trace_id.as_str()),
        parent_id = trace.as_ref().map(|trace| trace.parent_id.as_str()),
        sampled = trace.as_ref().map(|trace| trace.sampled),
    );
    let response = answer(request).instrument(span).await;
    if let Some(log) = &app.access_log {
        let failure = response.extensions().get::<FailureReason>().map(|reason| reason.0.name());
        log.record(&Record {
            time: now(),
            client,
            method: &method,
            path: &path,
            status: response.status().as_u16(),
            seconds: start.elapsed().as_secs_f64(),
            failure,
            grpc_status: response.extensions().get::<GrpcStatus>().map(|status| status.0),
            trace_id: trace.as_ref().map(|trace| trace.trace_id.as_str()),
        });
    }
    response
}
