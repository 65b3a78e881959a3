//! Serves the connections of a listener within the limits, until the server drains.

use std::convert::Infallible;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::extract::Request;
use axum::http::header::EXPECT;
use axum::http::{Response, Version};
use http_body::Body as _;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::server::graceful::GracefulShutdown;
use prometheus::IntGauge;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio_io_timeout::TimeoutStream;
use tokio_rustls::TlsAcceptor;

use super::Listener;
use super::listener::{Accepted, Client};
use super::unread::Unread;
use super::watchdog::Watchdog;
use crate::limits::Limits;
use crate::metrics::Metrics;

/// The connections of all listeners of a server.
#[derive(Clone, Debug)]
pub(crate) struct Connections {
    free: Arc<Semaphore>,
    limits: Limits,
    metrics: Arc<Metrics>,
}

impl Connections {
    pub(crate) fn new(limits: Limits, metrics: Arc<Metrics>) -> Self {
        Self { free: Arc::new(Semaphore::new(limits.connections.min(Semaphore::MAX_PERMITS))), limits, metrics }
    }
}

/// The window of one HTTP/2 stream, and of all streams of a connection: what a client may send before it is read.
const STREAM_WINDOW: u32 = 4 << 20;
const CONNECTION_WINDOW: u32 = 16 << 20;
/// The largest frame that a client may send.
const MAX_FRAME: u32 = 1 << 20;
/// The most headers of a request over HTTP/1, whatever the limit is: the library allocates for that many before it reads one.
const MOST_HEADERS: usize = 10_000;
/// The most requests that one connection has at once.
const MAX_STREAMS: u32 = 256;
/// The pause after a connection could not be accepted, as when the process has too many open files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// The shortest time between two warnings that connections cannot be accepted.
const WARNING_INTERVAL: Duration = Duration::from_secs(10);

/// What answers the requests of connections.
pub(crate) trait Service: Clone + Send + Sync + 'static {
    fn answer(&self, request: Request, client: &Client) -> impl Future<Output = Response<Body>> + Send;
}

/// Accepts connections and answers their requests by `face`, until `stopping` is true. Then no connection is accepted, and those that
/// are open end with their running requests, or when `cut` is true; returns when all have ended.
pub(crate) async fn serve(
    listener: Listener,
    tls: Option<TlsAcceptor>,
    face: impl Service,
    connections: Connections,
    mut stopping: watch::Receiver<bool>,
    mut cut: watch::Receiver<bool>,
) {
    let graceful = GracefulShutdown::new();
    // Dropping this ends the connections.
    let mut open = JoinSet::new();
    let mut warned: Option<Instant> = None;
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = stopping.wait_for(|stopping| *stopping) => break,
        };
        while open.try_join_next().is_some() {}
        let (stream, client) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                if is_of_the_machine(&error) {
                    if warned.is_none_or(|warned| warned.elapsed() >= WARNING_INTERVAL) {
                        tracing::warn!(target: "carton::serve", "cannot accept connections: {error}");
                        warned = Some(Instant::now());
                    }
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
                continue;
            }
        };
        let Ok(permit) = Arc::clone(&connections.free).try_acquire_owned() else {
            connections.metrics.connections_refused.inc();
            continue;
        };
        let (face, connections, tls, watcher) = (face.clone(), connections.clone(), tls.clone(), graceful.watcher());
        open.spawn(async move {
            let _permit = permit;
            let _counted = Counted::new(connections.metrics.connections.clone());
            let limits = connections.limits;
            let stream: BoxedStream = match stream {
                Accepted::Tcp(stream) => timed(stream, limits),
                Accepted::Unix(stream) => timed(stream, limits),
            };
            match tls {
                None => connection(stream, client, face, limits, watcher).await,
                Some(tls) => {
                    // A client that begins no handshake in time is not served.
                    if let Ok(Ok(stream)) = tokio::time::timeout(limits.header_timeout, tls.accept(stream)).await {
                        connection(Box::pin(stream), client, face, limits, watcher).await;
                    }
                }
            }
        });
    }
    drop(listener);
    let all_end = async {
        graceful.shutdown().await;
        while open.join_next().await.is_some() {}
    };
    let is_cut = tokio::select! {
        () = all_end => false,
        _ = cut.wait_for(|cut| *cut) => true,
    };
    if is_cut {
        open.shutdown().await;
    }
}

/// A connection in the metrics, until it ends.
struct Counted(IntGauge);

impl Counted {
    fn new(gauge: IntGauge) -> Self {
        gauge.inc();
        Self(gauge)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.dec();
    }
}

trait Stream: AsyncRead + AsyncWrite + Send {}

impl<T: AsyncRead + AsyncWrite + Send> Stream for T {}

type BoxedStream = Pin<Box<dyn Stream>>;

/// A stream that ends when its client does not read for too long.
fn timed(stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static, limits: Limits) -> BoxedStream {
    let mut stream = TimeoutStream::new(stream);
    stream.set_write_timeout(Some(limits.answer_pause));
    Box::pin(stream)
}

async fn connection(
    stream: BoxedStream,
    client: Client,
    face: impl Service,
    limits: Limits,
    watcher: hyper_util::server::graceful::Watcher,
) {
    let mut builder = auto::Builder::new(TokioExecutor::new());
    // Somewhat more headers than the limit get an answer in the form of the protocol, and a line in the access log.
    // The library has room for 100; above that it allocates for each request.
    let max_headers = limits.headers.saturating_add((limits.headers / 2).max(1)).min(MOST_HEADERS);
    builder.http1().timer(TokioTimer::new()).header_read_timeout(limits.header_timeout).max_headers(max_headers);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_header_list_size(u32::try_from(limits.header_bytes).unwrap_or(u32::MAX))
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_frame_size(MAX_FRAME)
        .max_concurrent_streams(MAX_STREAMS)
        // A client that is gone without a word is noticed.
        .keep_alive_interval(limits.header_timeout)
        .keep_alive_timeout(limits.header_timeout);
    let watchdog = Watchdog::new(&limits);
    let watched = Arc::clone(&watchdog);
    let service = service_fn(move |request: hyper::Request<Incoming>| {
        let stream = match request.version() {
            Version::HTTP_2 => Some(watched.begin_stream()),
            _ => {
                watched.begin();
                None
            }
        };
        // Over HTTP/2 a request is not in the way of the next one.
        let unread = (stream.is_none() && !request.body().is_end_stream()).then(Unread::default);
        let is_awaited = request.headers().contains_key(EXPECT);
        let request: Request = request.map(|body| match &unread {
            Some(unread) => unread.lend(body),
            None => Body::new(body),
        });
        let (face, client) = (face.clone(), client.clone());
        async move {
            let mut response = face.answer(request, &client).await;
            if let Some(unread) = unread {
                unread.settle(is_awaited, &mut response).await;
            }
            Ok::<_, Infallible>(match stream {
                Some(stream) => stream.respond(response),
                None => response,
            })
        }
    });
    let connection = builder.serve_connection(TokioIo::new(stream), service);
    tokio::select! {
        ended = watcher.watch(connection) => {
            if let Err(error) = ended {
                // The client broke off or broke the protocol, or a limit ended the connection.
                tracing::debug!(target: "carton::serve", "a connection ended: {error}");
            }
        }
        () = watchdog.overdue() => tracing::debug!(target: "carton::serve", "a connection waited too long for its client"),
    }
}

/// Whether accepting failed because of this machine, and not because a client left early.
fn is_of_the_machine(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    !matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}
