//! One call: its request as it is read, and its tensors.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use carton_core::{DataType, Tensor, Tensors};

use super::contents;
use super::framing::Message;
use super::request::{InferRequest, Input};
use crate::app::App;
use crate::failure::{Failure, quoted};
use crate::inputs::prepared;
use crate::model::admission::Share;
use crate::model::call::{QueuePlace, RequestCount};
use crate::model::served::Served;
use crate::protocol::parameter::Place;
use crate::protocol::request::check_size;
use crate::protocol::{binary, response};
use crate::work::on_thread_if_large;

/// The memory of an input, output, parameter or raw content, beyond the bytes that were received for it.
const PART_BYTES: usize = 512;

/// A call, from the first byte of its request.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) request: InferRequest,
    /// What the request takes of the memory for calls, beyond what is counted as it arrives.
    pub(super) share: Share,
    raw: Vec<RawContents>,
    served: Option<Arc<Served>>,
    /// Counts the call, once its model is known.
    pub(super) request_count: Option<RequestCount>,
    started: Instant,
}

/// The raw contents of an input.
#[derive(Debug)]
enum RawContents {
    /// Numbers that went from the connection into the memory that a runner shares.
    Read(Tensor),
    Bytes(Bytes),
}

/// A call whose request was read.
#[derive(Debug)]
pub(super) struct Ready {
    pub(super) inputs: Tensors,
    pub(super) served: Arc<Served>,
    pub(super) place: QueuePlace,
    /// When the client stops waiting: the first of all that limits the call.
    pub(super) deadline: Option<Instant>,
}

impl Call {
    pub(super) fn new(app: &App) -> Self {
        let share = Share::of_bytes(&app.bytes);
        let (request, started) = (InferRequest::default(), Instant::now());
        Self { request, share, raw: Vec::new(), served: None, request_count: None, started }
    }

    /// Counts the failure of the call, if the request names a model that is served.
    pub(super) fn count_failure(&mut self, app: &App, failure: &Failure) {
        let request_count =
            self.request_count.take().or_else(|| self.find(app).ok().map(|served| served.begin_count()));
        if let Some(mut request_count) = request_count {
            request_count.failed(failure);
        }
    }

    fn find(&self, app: &App) -> Result<Arc<Served>, Failure> {
        app.repository.find(&self.request.model_name, Some(&self.request.model_version))
    }

    /// Reads a request.
    ///
    /// # Errors
    /// It is malformed, cannot be read, or its model takes no further call.
    pub(super) async fn read(&mut self, app: &App, mut message: Message<'_>) -> Result<(), Failure> {
        while let Some((number, n_bytes)) = message.next_field().await? {
            if number == InferRequest::RAW_CONTENTS {
                self.read_raw(app, &mut message, n_bytes).await?;
            } else if InferRequest::has_field(number) {
                self.share.grow(PART_BYTES)?;
                if self.served.is_some() {
                    // Nobody writes fields in another order, and the model was chosen by those that came before.
                    return Err(Failure::invalid("a large request must have its raw contents last"));
                }
                self.request.add(number, message.take(n_bytes).await?)?;
            } else {
                message.skip(n_bytes).await?;
            }
        }
        Ok(())
    }

    async fn read_raw(&mut self, app: &App, message: &mut Message<'_>, n_bytes: usize) -> Result<(), Failure> {
        self.request.count_part()?;
        self.share.grow(PART_BYTES)?;
        let input = self.request.inputs.get(self.raw.len());
        let input =
            input.filter(|input| message.is_arriving() && !input.has_contents() && input.dtype != DataType::String);
        let Some((name, dtype, shape)) = input.map(|input| (&input.name, input.dtype, input.shape.clone())) else {
            self.raw.push(RawContents::Bytes(message.take(n_bytes).await?));
            return Ok(());
        };
        check_size(Place::input(name), dtype, &shape, n_bytes)?;
        message.reserve(n_bytes)?;
        let mut tensor = self.served(app)?.alloc(dtype, &shape).await?;
        if let Some(memory) = tensor.bytes_mut() {
            message.fill(memory).await?;
        }
        self.raw.push(RawContents::Read(Tensor::Numeric(tensor)));
        Ok(())
    }

    /// The model of the request, once it has room for the call. The call takes its place when the request has arrived: a client that sends
    /// nothing holds none.
    fn served(&mut self, app: &App) -> Result<Arc<Served>, Failure> {
        if let Some(served) = &self.served {
            return Ok(Arc::clone(served));
        }
        let served = self.find(app)?;
        self.request_count = Some(served.begin_count());
        served.check_room()?;
        Ok(Arc::clone(self.served.insert(served)))
    }

    /// Makes the tensors of a request that was read. `deadline` is the client's own.
    ///
    /// # Errors
    /// The contents contradict the shapes and datatypes, the model takes no further call, or it does not have the chosen outputs.
    pub(super) async fn ready(&mut self, app: &App, deadline: Option<Instant>) -> Result<Ready, Failure> {
        let served = self.served(app)?;
        let place = served.admit()?;
        if let Some(request_count) = &mut self.request_count {
            request_count.arrived();
        }
        let timeout = self.request.timeout()?;
        response::check_choice(&mut self.request.outputs, served.declared_outputs())?;
        let inputs = std::mem::take(&mut self.request.inputs);
        let inputs = match self.raw.is_empty() {
            true => self.typed(&served, inputs).await?,
            false => self.raw(&served, inputs).await?,
        };
        let inputs = prepared(&served, inputs, &mut self.share).await?;
        let timeout = [timeout, app.limits.call_timeout].into_iter().flatten().min();
        let until = timeout.and_then(|timeout| self.started.checked_add(timeout));
        let deadline = [until, deadline].into_iter().flatten().min();
        Ok(Ready { inputs, served, place, deadline })
    }

    async fn raw(&mut self, served: &Served, inputs: Vec<Input>) -> Result<Tensors, Failure> {
        let contents = std::mem::take(&mut self.raw);
        if contents.len() != inputs.len() {
            let (found, expected) = (contents.len(), inputs.len());
            return Err(Failure::invalid(format!("the request has {found} raw contents for {expected} inputs")));
        }
        if let Some(input) = inputs.iter().find(|input| input.has_contents()) {
            let name = quoted(&input.name);
            return Err(Failure::invalid(format!(
                "input {name} has `contents`, and the request has raw contents, too"
            )));
        }
        let mut tensors = Tensors::new();
        for (input, contents) in inputs.into_iter().zip(contents) {
            let kind = input.kind(served.input_types().get(&input.name).copied());
            let Input { name, dtype, shape, count, .. } = input;
            let tensor = match contents {
                RawContents::Read(tensor) => tensor,
                RawContents::Bytes(bytes) => {
                    let place = Place::input(&name);
                    check_size(place, dtype, &shape, bytes.len())?;
                    let n_bytes = bytes.len();
                    self.count_elements(dtype, count, n_bytes)?;
                    if dtype == DataType::String {
                        let place = place.to_string();
                        let parse = move || binary::parse(&place, &bytes, kind, &shape, count);
                        on_thread_if_large(n_bytes, parse).await?
                    } else {
                        let mut tensor = served.alloc(dtype, &shape).await?;
                        if let Some(memory) = tensor.bytes_mut() {
                            memory.copy_from_slice(&bytes);
                        }
                        Tensor::Numeric(tensor)
                    }
                }
            };
            if let Tensor::Numeric(numbers) = &tensor {
                binary::check_numbers(Place::input(&name), numbers)?;
            }
            tensors.insert(name, tensor);
        }
        Ok(tensors)
    }

    async fn typed(&mut self, served: &Served, inputs: Vec<Input>) -> Result<Tensors, Failure> {
        let mut n_bytes = 0;
        for input in &inputs {
            let length = input.contents.as_ref().map_or(0, Bytes::len);
            if input.count > 0 && length == 0 {
                let name = quoted(&input.name);
                return Err(Failure::invalid(format!("input {name} has neither `contents` nor raw contents")));
            }
            self.count_elements(input.dtype, input.count, length)?;
            n_bytes += length;
        }
        let declared = Arc::clone(served.input_types());
        let parse = move || {
            let parse = |mut input: Input| {
                let contents = input.contents.take().unwrap_or_default();
                let tensor = contents::parse(&input, contents, declared.get(&input.name).copied())?;
                Ok((input.name, tensor))
            };
            inputs.into_iter().map(parse).collect()
        };
        on_thread_if_large(n_bytes, parse).await
    }

    /// Takes the memory of elements that are made of `n_bytes`, of which each has one at least.
    fn count_elements(&mut self, dtype: DataType, count: usize, n_bytes: usize) -> Result<(), Failure> {
        let size = dtype.size().unwrap_or(size_of::<String>());
        self.share.grow(count.min(n_bytes).saturating_mul(size))
    }
}
