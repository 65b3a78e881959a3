//! `ModelInfer`: one request, one answer.

use std::time::Instant;

use axum::body::Body;
use axum::http::Response;

use super::call::{Call, Ready};
use super::framing::{Incoming, encoded, whole};
use super::response::{self, Form};
use crate::app::App;
use crate::failure::Failure;
use crate::model::call::{Answered, CallResources};
use crate::work::within;

pub(super) async fn infer(app: &App, incoming: Incoming, deadline: Option<Instant>) -> Result<Response<Body>, Failure> {
    let mut call = Call::new(app);
    let until = app.limits.call_timeout.and_then(|timeout| Instant::now().checked_add(timeout));
    let deadline = [deadline, until].into_iter().flatten().min();
    let answered = within(deadline, run(app, &mut call, incoming, deadline)).await.and_then(|answered| answered);
    answered.inspect_err(|failure| call.count_failure(app, failure))
}

async fn run(
    app: &App,
    call: &mut Call,
    mut incoming: Incoming,
    deadline: Option<Instant>,
) -> Result<Response<Body>, Failure> {
    let message = incoming.begin().await?;
    call.read(app, message).await?;
    let encoding = incoming.encoding();
    call.share.absorb(incoming.end().await?);
    let Ready { inputs, served, place, deadline } = call.ready(app, deadline).await?;
    let unused = call.share.empty();
    let held = CallResources::new(place, std::mem::replace(&mut call.share, unused));
    let Answered { outputs, outputs_memory, memory } = served.infer(inputs, deadline, held).await?;
    let model = (served.name.as_str(), served.version.as_str());
    let chunks = response::outputs(model, &call.request, outputs, Form::Single)?;
    let chunks = encoded(chunks, encoding).await?;
    if let Some(request_count) = &mut call.request_count {
        request_count.answered();
    }
    Ok(whole(chunks, encoding, (memory, outputs_memory)))
}
