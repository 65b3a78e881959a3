//! `ModelStreamInfer`: requests whose answers follow one after the other, each request having any number of them.
//!
//! A request is read when all answers to the one before it have been taken, so that a stream holds one call at a time. The failure of a
//! request is one of its answers, and the stream goes on; what ends it is a body that cannot be read.

use std::sync::Arc;
use std::time::Instant;

use axum::body::Body;
use axum::http::Response;
use bytes::Bytes;
use futures_util::stream::unfold;
use tokio::sync::watch;

use super::call::{Call, Ready};
use super::framing::{Incoming, Message, encoded, streamed};
use super::request::InferRequest;
use super::response::{self, Form};
use crate::app::App;
use crate::counted_chunks::keep_with_chunks;
use crate::encoding::Encoding;
use crate::failure::{Failure, Reason};
use crate::model::admission::Share;
use crate::model::call::{QueuePlace, RequestCount, n_bytes};
use crate::model::served::{Answers, Served};
use crate::observe::StreamEnd;
use crate::protocol::parameter;
use crate::work::within;

/// Asks for an answer without outputs behind the last one to a request.
const WANTS_FINAL: &str = "triton_enable_empty_final_response";

pub(super) fn infer(
    app: Arc<App>,
    stopping: watch::Receiver<bool>,
    incoming: Incoming,
    deadline: Option<Instant>,
) -> Response<Body> {
    let (encoding, end) = (incoming.encoding(), StreamEnd::default());
    let requests = Requests { app, stopping, incoming, deadline, running: None, end: end.clone() };
    let answers = unfold(Some(requests), |requests| async {
        let mut requests = requests?;
        match requests.next().await {
            Ok(Some(chunks)) => Some((Ok(chunks), Some(requests))),
            Ok(None) => {
                requests.end.reach(None);
                None
            }
            Err(failure) => {
                requests.end.reach(Some(failure.reason));
                Some((Err(failure), None))
            }
        }
    });
    let mut response = streamed(answers, encoding);
    response.extensions_mut().insert(end);
    response
}

/// The requests of a stream.
struct Requests {
    app: Arc<App>,
    stopping: watch::Receiver<bool>,
    incoming: Incoming,
    deadline: Option<Instant>,
    running: Option<Running>,
    end: StreamEnd,
}

/// The request that is being answered.
struct Running {
    request: InferRequest,
    served: Arc<Served>,
    answers: Answers,
    request_count: RequestCount,
    _place: QueuePlace,
    /// What the request takes. Each answer has a share of its own.
    share: Share,
    wants_final: bool,
}

impl Requests {
    /// The next answer. `None` when the client has ended the stream and all its requests are answered.
    async fn next(&mut self) -> Result<Option<Vec<Bytes>>, Failure> {
        let answer = within(self.deadline, self.answer()).await;
        if let (Err(failure), Some(running)) = (&answer, &mut self.running) {
            running.request_count.failed(failure);
        }
        answer?
    }

    async fn answer(&mut self) -> Result<Option<Vec<Bytes>>, Failure> {
        let encoding = self.incoming.encoding();
        loop {
            if let Some(running) = &mut self.running {
                match running.next(encoding).await {
                    Ok(Some(chunks)) => return Ok(Some(chunks)),
                    Ok(None) => {
                        let ended = self.running.take();
                        if let Some(running) = ended.filter(|running| running.wants_final) {
                            let model = (running.served.name.as_str(), running.served.version.as_str());
                            return response::last(model, &running.request).map(Some);
                        }
                    }
                    Err(failure) => {
                        running.request_count.failed(&failure);
                        let failed = response::failed(&failure, &running.request.id);
                        self.running = None;
                        return failed.map(|message| Some(vec![message]));
                    }
                }
            }
            tokio::select! {
                follows = self.incoming.next_message() => match follows? {
                    true => {}
                    false => return Ok(None),
                },
                _ = self.stopping.wait_for(|stopping| *stopping) => {
                    return Err(Failure::new(Reason::Unavailable, "the server ends"));
                }
            }
            let message = self.incoming.message().await?;
            let mut call = Call::new(&self.app);
            call.share.absorb(self.incoming.take_share());
            match within(self.deadline, run(&self.app, &mut call, message)).await.and_then(|ran| ran) {
                Ok((ready, request_count, answers)) => {
                    let Call { request, share, .. } = call;
                    let wants_final = parameter::flag(&request.parameters, WANTS_FINAL).ok().flatten() == Some(true);
                    let Ready { served, place, .. } = ready;
                    self.running =
                        Some(Running { request, served, answers, request_count, _place: place, share, wants_final });
                }
                Err(failure) => {
                    call.count_failure(&self.app, &failure);
                    return response::failed(&failure, &call.request.id).map(|message| Some(vec![message]));
                }
            }
        }
    }
}

/// Reads a request, and begins to run its model.
async fn run(app: &App, call: &mut Call, message: Bytes) -> Result<(Ready, RequestCount, Answers), Failure> {
    call.read(app, Message::Whole(message)).await?;
    let mut ready = call.ready(app, None).await?;
    let inputs = std::mem::take(&mut ready.inputs);
    let answers = ready.served.stream(inputs, ready.deadline).await?;
    let request_count = call.request_count.take().unwrap_or_else(|| ready.served.begin_count());
    Ok((ready, request_count, answers))
}

impl Running {
    /// The next answer, with its prefix. `None` after the last.
    async fn next(&mut self, encoding: Option<Encoding>) -> Result<Option<Vec<Bytes>>, Failure> {
        let Some(outputs) = self.answers.next().await.transpose()? else {
            self.request_count.answered();
            return Ok(None);
        };
        let mut share = self.share.empty();
        share.count(n_bytes(&outputs));
        let model = (self.served.name.as_str(), self.served.version.as_str());
        let form = Form::Streamed { is_final: self.wants_final.then_some(false) };
        let chunks = response::outputs(model, &self.request, outputs, form)?;
        Ok(Some(keep_with_chunks(encoded(chunks, encoding).await?, share)))
    }
}
