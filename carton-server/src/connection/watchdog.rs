//! Ends connections that wait for their client for too long, where hyper has no limit for that: a client that connects and sends no
//! request, one of HTTP/2 that begins no further request, and one of HTTP/2 that does not read its answers. (Writes go on for other streams
//! and for pings, so that the timeout of writes does not see the last.)
//!
//! An answer waits for its client from when the connection could send a part of it until that is sent. While its body has nothing to send,
//! it waits for the server.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::http::Response;
use bytes::Bytes;
use http_body::{Frame, SizeHint};
use parking_lot::Mutex;

use crate::limits::{Limits, MIN_BYTES_PER_SECOND};

/// The parts that answers are sent in. A client must read each within its time.
const PART_BYTES: usize = 1 << 20;
/// The shortest interval between two looks at a connection.
const SHORTEST_INTERVAL: Duration = Duration::from_millis(10);

/// Watches one connection.
#[derive(Debug)]
pub(super) struct Watchdog {
    idle: Duration,
    pause: Duration,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// Since when the connection has no request; `None` while it has one, and for HTTP/1 after the first, where hyper has the limit.
    idle_since: Option<Instant>,
    n_answers: u64,
    answers: HashMap<u64, AnswerState>,
}

#[derive(Debug, Default)]
struct AnswerState {
    /// The bytes of parts that the connection has not sent.
    n_queued: usize,
    /// Whether the connection asks for the next part as soon as its client lets it.
    has_more: bool,
    /// When the client must have read a part; `None` while the answer waits for the server.
    deadline: Option<Instant>,
}

/// A request and its answer, for as long as the body or any part of it exists.
#[derive(Debug)]
pub(super) struct Answer {
    watchdog: Arc<Watchdog>,
    number: u64,
}

/// The body of an answer that is watched.
struct Watched {
    body: Body,
    /// What was taken from the body and not sent yet.
    rest: Bytes,
    answer: Arc<Answer>,
}

/// A part in the connection's queue.
struct Part {
    bytes: Bytes,
    answer: Arc<Answer>,
}

impl Watchdog {
    pub(super) fn new(limits: &Limits) -> Arc<Self> {
        let state = State { idle_since: Some(Instant::now()), n_answers: 0, answers: HashMap::new() };
        Arc::new(Self { idle: limits.header_timeout, pause: limits.answer_pause, state: Mutex::new(state) })
    }

    /// A request of HTTP/1 begins.
    pub(super) fn begin(&self) {
        self.state.lock().idle_since = None;
    }

    /// A request of HTTP/2 begins.
    pub(super) fn begin_stream(self: &Arc<Self>) -> Arc<Answer> {
        let mut state = self.state.lock();
        state.idle_since = None;
        state.n_answers += 1;
        let number = state.n_answers;
        state.answers.insert(number, AnswerState::default());
        Arc::new(Answer { watchdog: Arc::clone(self), number })
    }

    /// Waits until the connection has waited too long for its client.
    pub(super) async fn overdue(&self) {
        loop {
            tokio::time::sleep((self.idle.min(self.pause) / 4).max(SHORTEST_INTERVAL)).await;
            let (state, now) = (self.state.lock(), Instant::now());
            let is_idle = state.idle_since.is_some_and(|since| now.duration_since(since) > self.idle);
            let mut deadlines = state.answers.values().filter_map(|answer| answer.deadline);
            if is_idle || deadlines.any(|deadline| deadline <= now) {
                return;
            }
        }
    }
}

impl Answer {
    /// Watches the body of the answer.
    pub(super) fn respond(self: Arc<Self>, response: Response<Body>) -> Response<Body> {
        // From now on the connection asks for the body.
        self.change(|answer| answer.has_more = true);
        response.map(|body| Body::new(Watched { body, rest: Bytes::new(), answer: self }))
    }

    /// Changes the state. If the answer waits for its client then, the client's time begins.
    fn change(&self, change: impl FnOnce(&mut AnswerState)) {
        let mut state = self.watchdog.state.lock();
        let Some(answer) = state.answers.get_mut(&self.number) else { return };
        change(answer);
        let earned = Duration::from_millis((answer.n_queued as u64).saturating_mul(1000) / MIN_BYTES_PER_SECOND);
        let time = self.watchdog.pause.saturating_add(earned);
        let waits = answer.has_more || answer.n_queued > 0;
        answer.deadline = if waits { Instant::now().checked_add(time) } else { None };
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        let mut state = self.watchdog.state.lock();
        state.answers.remove(&self.number);
        if state.answers.is_empty() {
            state.idle_since = Some(Instant::now());
        }
    }
}

impl AsRef<[u8]> for Part {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Part {
    /// It is sent.
    fn drop(&mut self) {
        self.answer.change(|answer| answer.n_queued = answer.n_queued.saturating_sub(self.bytes.len()));
    }
}

impl Watched {
    /// The next part of what was taken from the body.
    fn part(&mut self) -> Frame<Bytes> {
        let bytes = self.rest.split_to(self.rest.len().min(PART_BYTES));
        self.answer.change(|answer| {
            answer.n_queued += bytes.len();
            answer.has_more = true;
        });
        Frame::data(Bytes::from_owner(Part { bytes, answer: Arc::clone(&self.answer) }))
    }
}

impl http_body::Body for Watched {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if !self.rest.is_empty() {
            return Poll::Ready(Some(Ok(self.part())));
        }
        match Pin::new(&mut self.body).poll_frame(context) {
            Poll::Ready(Some(Ok(frame))) => match frame.into_data() {
                Ok(data) => {
                    self.rest = data;
                    Poll::Ready(Some(Ok(self.part())))
                }
                Err(trailers) => Poll::Ready(Some(Ok(trailers))),
            },
            waits_or_ended => {
                self.answer.change(|answer| answer.has_more = false);
                waits_or_ended
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let (rest, body) = (self.rest.len() as u64, self.body.size_hint());
        let mut hint = SizeHint::new();
        hint.set_lower(body.lower().saturating_add(rest));
        if let Some(upper) = body.upper() {
            hint.set_upper(upper.saturating_add(rest));
        }
        hint
    }
}
