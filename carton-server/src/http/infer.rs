//! A call: `POST /v2/models/NAME/infer`.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::extract::{Request as HttpRequest, State};
use axum::http::header::{ACCEPT, CONTENT_ENCODING, CONTENT_LENGTH};
use axum::http::{HeaderMap, HeaderName, Response};
use axum::response::IntoResponse;
use axum::response::sse::{Event, KeepAlive, Sse};
use bytes::Bytes;
use carton_core::{DataType, Tensor, Tensors};

use super::answer::{self, JSON_LENGTH};
use super::path::ModelPath;
use crate::app::App;
use crate::body::BodyReader;
use crate::encoding::Encoding;
use crate::failure::Failure;
use crate::inputs::prepared;
use crate::model::admission::Share;
use crate::model::call::{Answered, CallResources, RequestCount, n_bytes};
use crate::model::served::{Answers, Served};
use crate::observe::StreamEnd;
use crate::protocol::binary;
use crate::protocol::parameter::Place;
use crate::protocol::request::{InputData, OutputChoice, Request, n_elements};
use crate::protocol::response::{self, Response as Answer};
use crate::work::{on_thread_if_large, within};

/// How long the client waits for the answer, in milliseconds. 0 is no limit, as in the parameter `timeout`.
const TIMEOUT: HeaderName = HeaderName::from_static("x-request-timeout-ms");

pub(super) async fn infer(
    State(app): State<Arc<App>>,
    path: ModelPath,
    request: HttpRequest,
) -> Result<Response<Body>, Failure> {
    let started = Instant::now();
    let served = app.repository.find(&path.model, path.version.as_deref())?;
    let mut request_count = served.begin_count();
    let (head, body) = request.into_parts();
    let answered = call(&app, &served, started, &mut request_count, &head.headers, body).await;
    answered.inspect_err(|failure| request_count.failed(failure))
}

async fn call(
    app: &App,
    served: &Arc<Served>,
    started: Instant,
    request_count: &mut RequestCount,
    headers: &HeaderMap,
    body: Body,
) -> Result<Response<Body>, Failure> {
    // The call takes its place when the request has arrived: a client that sends nothing holds none.
    served.check_room()?;
    let encoding = Encoding::of(headers, &CONTENT_ENCODING)?;
    let (length, json_length) = (number(headers, &CONTENT_LENGTH)?, number(headers, &JSON_LENGTH)?);
    // The size of an encoded body says nothing about the JSON in it.
    let plain_length = length.filter(|_| encoding.is_none());
    if plain_length.zip(json_length).is_some_and(|(length, json_length)| json_length > length) {
        return Err(Failure::invalid(format!("the header `{JSON_LENGTH}` says more bytes than the request has")));
    }
    let body = BodyReader::new(body, length, &app.limits, Share::of_bytes(&app.bytes))?;
    let timeout = number(headers, &TIMEOUT)?.filter(|timeout| *timeout > 0).map(Duration::from_millis);
    let timeout = [timeout, app.limits.call_timeout].into_iter().flatten().min();
    let until = |timeout: Option<Duration>| timeout.and_then(|timeout| started.checked_add(timeout));
    let read = within(until(timeout), read(served, json_length, encoding, body)).await??;
    let Call { mut request, mut inputs, mut share } = read;
    let place = served.admit()?;
    request_count.arrived();
    response::check_choice(&mut request.outputs, served.declared_outputs())?;
    inputs = prepared(served, inputs, &mut share).await?;
    let deadline = until([timeout, request.timeout].into_iter().flatten().min());
    if prefers_events(headers) {
        let answers = Box::pin(served.stream(inputs, deadline)).await?;
        let (served, event, request_count) = (Arc::clone(served), share.empty(), request_count.pass_on());
        let held = CallResources::new(place, share);
        return Ok(events(Events {
            answers,
            served,
            request,
            request_count,
            _held: held,
            event,
            end: StreamEnd::default(),
        }));
    }
    let answered = served.infer(inputs, deadline, CallResources::new(place, share)).await?;
    let Answered { outputs, outputs_memory, mut memory } = answered;
    let (json, binary) = write(served, request.id, request.outputs, outputs).await?.0;
    memory.count(json.capacity());
    let response = answer::tensors(json, binary, headers, (memory, outputs_memory)).await?;
    request_count.answered();
    Ok(response)
}

/// Writes an answer: its JSON and the bytes behind it. Returns the choice of outputs, too, for the next answer to the request.
async fn write(
    served: &Arc<Served>,
    id: Option<String>,
    choice: OutputChoice,
    outputs: Tensors,
) -> Result<((Vec<u8>, Vec<Bytes>), OutputChoice), Failure> {
    let (served, size) = (Arc::clone(served), n_bytes(&outputs));
    let write = move || {
        let answer = Answer::new((&served.name, &served.version), id, &choice, outputs)?;
        Ok((answer.write()?, choice))
    };
    on_thread_if_large(size, write).await
}

/// What a client sent.
struct Call {
    request: Request,
    inputs: Tensors,
    share: Share,
}

/// Reads a request. Binary numbers go from the connection into the memory that the runner shares.
async fn read(
    served: &Served,
    json_length: Option<u64>,
    encoding: Option<Encoding>,
    mut body: BodyReader,
) -> Result<Call, Failure> {
    if let Some(encoding) = encoding {
        Box::pin(body.decode(encoding)).await?;
    }
    let Some(json_length) = json_length else {
        let json = body.rest().await?;
        let mut request = parse(served, json, 0, body.share()).await?;
        let inputs = request.inputs.drain(..).filter_map(|input| match input.data {
            InputData::Json(tensor) => Some((input.name, tensor)),
            // Binary inputs need bytes behind the JSON, and there are none.
            InputData::Binary { .. } => None,
        });
        let inputs = inputs.collect();
        return Ok(Call { request, inputs, share: body.end().await? });
    };
    // In memory of its own, which the future of a call without binary tensors need not have.
    Box::pin(read_binary(served, usize::try_from(json_length).unwrap_or(usize::MAX), body)).await
}

/// Reads a request with binary tensors.
async fn read_binary(served: &Served, json_length: usize, mut body: BodyReader) -> Result<Call, Failure> {
    let json = body.take(json_length).await?;
    let mut request = parse(served, json, body.n_left(), body.share()).await?;
    let mut inputs = Tensors::new();
    for input in std::mem::take(&mut request.inputs) {
        let tensor = match input.data {
            InputData::Json(tensor) => tensor,
            InputData::Binary { n_bytes } if input.dtype == DataType::String => {
                let kind = input.kind;
                let place = Place::input(&input.name).to_string();
                let count = n_elements(&place, input.dtype, &input.shape)?;
                let (bytes, shape) = (body.take(n_bytes).await?, input.shape);
                on_thread_if_large(n_bytes, move || binary::parse(&place, &bytes, kind, &shape, count)).await?
            }
            InputData::Binary { n_bytes } => {
                body.reserve(n_bytes)?;
                let mut tensor = served.alloc(input.dtype, &input.shape).await?;
                if let Some(memory) = tensor.bytes_mut() {
                    body.fill(memory).await?;
                }
                binary::check_numbers(Place::input(&input.name), &tensor)?;
                Tensor::Numeric(tensor)
            }
        };
        inputs.insert(input.name, tensor);
    }
    Ok(Call { request, inputs, share: body.end().await? })
}

/// Parses the JSON of a request. What its elements take is added to the share.
async fn parse(served: &Served, json: Bytes, n_behind: usize, share: &mut Share) -> Result<Request, Failure> {
    let (n_bytes, mut decoded) = (json.len(), share.empty());
    let declared = Arc::clone(served.input_types());
    let parse = move || {
        let request = Request::parse(&json, n_behind, &declared, &mut |n_bytes| decoded.grow(n_bytes));
        request.map(|request| (request, decoded))
    };
    let (request, decoded) = on_thread_if_large(n_bytes, parse).await?;
    share.absorb(decoded);
    Ok(request)
}

/// Whether a stream of events is what the client names first as the form of the answer.
fn prefers_events(headers: &HeaderMap) -> bool {
    let accept = headers.get(ACCEPT).and_then(|accept| accept.to_str().ok()).unwrap_or_default();
    let first = accept.split([',', ';']).next().unwrap_or_default();
    first.trim().eq_ignore_ascii_case("text/event-stream")
}

/// The value of a header that is a number.
fn number(headers: &HeaderMap, name: &HeaderName) -> Result<Option<u64>, Failure> {
    let Some(value) = headers.get(name) else { return Ok(None) };
    let number = value.to_str().ok().filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
    let invalid = || Failure::invalid(format!("expected a number as the header `{name}`"));
    number.and_then(|text| text.parse().ok()).map(Some).ok_or_else(invalid)
}

/// A streamed call whose answers are sent as events.
struct Events {
    answers: Answers,
    served: Arc<Served>,
    request: Request,
    request_count: RequestCount,
    _held: CallResources,
    /// What the last event takes of the memory for calls. The connection asks for the next one when it has taken the last.
    event: Share,
    end: StreamEnd,
}

impl Events {
    /// The next event: an answer in JSON, or `{"error": …}`, which is the last.
    async fn next(&mut self) -> Option<Event> {
        if self.end.is_reached() {
            return None;
        }
        let answer = match self.answers.next().await {
            None => {
                self.request_count.answered();
                self.end.reach(None);
                return None;
            }
            Some(Ok(outputs)) => {
                self.event = self.event.empty();
                self.event.count(n_bytes(&outputs));
                let choice = OutputChoice { binary: false, ..std::mem::take(&mut self.request.outputs) };
                let answer = write(&self.served, self.request.id.clone(), choice, outputs).await;
                answer.map(|((json, _), choice)| {
                    self.event.count(json.capacity());
                    self.request.outputs = choice;
                    json
                })
            }
            Some(Err(failure)) => Err(failure),
        };
        match answer {
            Ok(json) => Some(Event::default().data(String::from_utf8_lossy(&json))),
            Err(failure) => {
                self.request_count.failed(&failure);
                self.end.reach(Some(failure.reason));
                let error = serde_json::json!({ "error": failure.message });
                Some(Event::default().event("error").data(error.to_string()))
            }
        }
    }
}

fn events(events: Events) -> Response<Body> {
    let end = events.end.clone();
    let stream = futures_util::stream::unfold(events, |mut events| async move {
        let event = events.next().await?;
        Some((Ok::<_, Infallible>(event), events))
    });
    let mut response = Sse::new(stream).keep_alive(KeepAlive::default()).into_response();
    response.extensions_mut().insert(end);
    response
}
