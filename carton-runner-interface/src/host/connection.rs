//! `Connection` and how it makes calls.

use std::future::poll_fn;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use carton_tensor::{DataType, NumericTensor};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot, watch};
use tracing::Instrument;

use super::calls::{Answer, Calls, Kind, Waiter};
use super::dispatch::{dispatch, features, last_words, read_hello};
use super::files::describe_files;
use super::stream::InferStream;
use super::{
    CallError, CallOptions, CallTimings, CloseReason, ConnectionOptions, Event, LoadRequest, Loaded, Peer, Phase,
    SealedInputs,
};
use crate::housekeeper::{Elapsed, Housekeeper};
use crate::link::{Link, LinkOptions, Outbound, SendError};
use crate::message::{self, Message, Side, WireTensor, code};
use crate::model::Tensors;
use crate::protocol_error::ProtocolError;
use crate::runner::{PackRequest, PackResponse, RunnerError};
use crate::shared_memory::THRESHOLD;
use crate::shared_memory::pool::{PoolBuffer, PoolError};
use crate::tensor_encoding::{encode, pool_needs, split_off_borrowed};
use crate::transport::Transport;
use crate::transport::reader::FrameReader;
use crate::version;

/// The most calls a runner is sent at once, whatever it says.
const CONCURRENCY_CAP: u64 = 4096;

/// A connection to one runner process. Clones share it; it closes when the last one is dropped.
#[derive(Clone)]
pub struct Connection {
    pub(super) handle: Arc<Handle>,
}

/// Closes the connection when dropped; the threads of the connection hold only what it points to.
pub(super) struct Handle {
    pub(super) shared: Arc<Shared>,
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.shared.close(CloseReason::Requested("the connection was dropped".to_owned()));
    }
}

/// One connection, as its threads and its callers share it.
pub(super) struct Shared {
    pub(super) link: Arc<Link>,
    pub(super) calls: Calls,
    pub(super) housekeeper: Arc<Housekeeper>,
    options: ConnectionOptions,
    peer: OnceLock<(Peer, version::Agreement)>,
    loaded: OnceLock<Loaded>,
    slots: Arc<Semaphore>,
    n_queued: AtomicUsize,
    last_id: AtomicU64,
    closed: watch::Sender<Option<Arc<CloseReason>>>,
}

impl Connection {
    /// Exchanges hellos with the runner at the other end.
    ///
    /// ```
    /// use carton_runner_interface::host::{Connection, ConnectionOptions, Transport};
    /// # async fn example(socket: std::os::unix::net::UnixStream) -> Result<(), Box<dyn std::error::Error>> {
    /// let connection = Connection::open(Transport::from(socket), ConnectionOptions::default()).await?;
    /// println!("connected to {} {}", connection.peer().name, connection.peer().framework_version);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// No hello in time, no protocol version in common, a runner that is gone.
    pub async fn open(transport: Transport, options: ConnectionOptions) -> Result<Self, Arc<CloseReason>> {
        let io_error = |error| Arc::new(CloseReason::Io(Arc::new(error)));
        let (sender, receiver) = transport.split();
        let link = Link::new(
            Side::Host,
            sender,
            LinkOptions { frame_cap: options.frame_cap, pool_cap: options.pool_cap, peer_cap: options.runner_pool_cap },
        )
        .map_err(io_error)?;
        let housekeeper = Arc::clone(link.housekeeper().ok_or_else(|| io_error(std::io::ErrorKind::Other.into()))?);
        let our_features = features(options.shared_memory);
        // A runner that is gone already is found out about by the reader, with the reason.
        let _ = link.send_plain(version::hello(&our_features, "carton", env!("CARGO_PKG_VERSION")));
        let hello_timeout = options.hello_timeout;
        let reader = FrameReader::new(receiver, options.frame_cap);
        let shared = Arc::new(Shared {
            link,
            calls: Calls::default(),
            housekeeper,
            options,
            peer: OnceLock::new(),
            loaded: OnceLock::new(),
            slots: Arc::new(Semaphore::new(0)),
            n_queued: AtomicUsize::new(0),
            last_id: AtomicU64::new(0),
            closed: watch::Sender::new(None),
        });
        // From here on the connection is closed whenever this future ends without returning it.
        let connection = Self { handle: Arc::new(Handle { shared: Arc::clone(&shared) }) };
        let (said_hello, hello) = oneshot::channel();
        let thread = Arc::clone(&shared);
        std::thread::Builder::new()
            .name("carton-reader".to_owned())
            .spawn(move || thread.read(reader, &our_features, said_hello))
            .map_err(io_error)?;
        match shared.housekeeper.within(Instant::now().checked_add(hello_timeout), hello).await {
            Ok(Ok(())) => Ok(connection),
            Ok(Err(_)) => Err(connection.closed().await),
            Err(Elapsed) => Err(shared.close(CloseReason::HelloTimeout(hello_timeout))),
        }
    }

    fn shared(&self) -> &Arc<Shared> {
        &self.handle.shared
    }

    /// What the runner called itself.
    #[must_use]
    pub fn peer(&self) -> &Peer {
        static NOBODY: Peer =
            Peer { name: String::new(), framework_version: String::new(), version: 0, features: Vec::new() };
        // A connection is handed out only after the hello.
        self.shared().peer.get().map_or(&NOBODY, |(peer, _)| peer)
    }

    /// Loads a model; once a connection.
    ///
    /// # Errors
    /// The runner's, or the connection's.
    pub async fn load(&self, request: LoadRequest, options: CallOptions) -> Result<Loaded, CallError> {
        let shared = self.shared();
        let LoadRequest { files, options: model_options, device, inputs, outputs } = request;
        let descriptors_agreed = shared.peer.get().is_some_and(|(_, agreement)| agreement.has(version::DESCRIPTORS));
        let (files, descriptors) = describe_files(&files, descriptors_agreed)?;
        let load = message::Load { options: model_options, device, inputs, outputs, files };
        let answer = shared.call(Kind::Load, Message::Load(load), descriptors, &options).await?;
        let Answer::Loaded { max_concurrency } = answer else { return Err(shared.wrong_answer()) };
        let n_slots = usize::try_from(max_concurrency.clamp(1, CONCURRENCY_CAP)).unwrap_or(1);
        let loaded = Loaded { max_concurrency: n_slots };
        if shared.loaded.set(loaded).is_ok() {
            shared.slots.add_permits(n_slots);
        }
        Ok(loaded)
    }

    /// Prepares a model for packing.
    ///
    /// # Errors
    /// The runner's, or the connection's.
    pub async fn pack(&self, request: PackRequest, options: CallOptions) -> Result<PackResponse, CallError> {
        let PackRequest { path, scratch, options: model_options } = request;
        let pack = Message::Pack(message::Pack { path, scratch, options: model_options });
        match self.shared().call(Kind::Pack, pack, Vec::new(), &options).await? {
            Answer::Packed(packed) => Ok(packed),
            _ => Err(self.shared().wrong_answer()),
        }
    }

    /// Runs the model once. Dropping the future cancels the call.
    ///
    /// # Errors
    /// The runner's, the connection's, or the queue's.
    pub async fn infer(&self, inputs: Tensors, options: CallOptions) -> Result<Tensors, CallError> {
        Ok(self.infer_timed(inputs, options).await?.0)
    }

    /// As [`infer`](Self::infer), and tells where the time went.
    ///
    /// # Errors
    /// As [`infer`](Self::infer).
    pub async fn infer_timed(
        &self,
        inputs: Tensors,
        options: CallOptions,
    ) -> Result<(Tensors, CallTimings), CallError> {
        let message = |inputs| Message::Infer { inputs };
        let (answer, timings) = self.shared().run(Kind::Infer, inputs, message, &options).await?;
        self.shared().outputs(answer, timings)
    }

    /// Runs the model and receives its outputs as they come.
    ///
    /// # Errors
    /// As [`infer`](Self::infer); those of the run itself come from [`InferStream::recv`].
    pub async fn infer_stream(&self, inputs: Tensors, options: CallOptions) -> Result<InferStream, CallError> {
        let shared = self.shared();
        let credits = shared.options.stream_credits.max(1);
        let id = shared.next_id();
        let slot = shared.slot(options.deadline).await?;
        let (outbound, inputs) = shared.encode(id, inputs, options.deadline).await?;
        let (items, received) = mpsc::unbounded_channel();
        shared.calls.add(id, Kind::Stream, Waiter::Items(items), credits, Some(slot))?;
        shared.send_call(id, Message::InferStream { inputs, credits }, outbound).await?;
        Ok(InferStream::new(Arc::clone(&self.handle), id, received, credits, options.deadline))
    }

    /// Hands inputs to the runner for many calls of [`infer_sealed`](Self::infer_sealed).
    ///
    /// # Errors
    /// As [`infer`](Self::infer).
    pub async fn seal(&self, inputs: Tensors, options: CallOptions) -> Result<SealedInputs, CallError> {
        let message = |inputs| Message::Seal { inputs };
        match self.shared().run(Kind::Seal, inputs, message, &options).await?.0 {
            Answer::Sealed { handle } => Ok(SealedInputs::new(Arc::clone(&self.handle), handle)),
            _ => Err(self.shared().wrong_answer()),
        }
    }

    /// Runs the model on sealed inputs of this connection.
    ///
    /// # Errors
    /// As [`infer`](Self::infer).
    pub async fn infer_sealed(&self, sealed: &SealedInputs, options: CallOptions) -> Result<Tensors, CallError> {
        let Some(handle) = sealed.number_on(&self.handle) else {
            let error = RunnerError::new("these inputs were sealed on another connection");
            return Err(CallError::Runner { code: code::UNKNOWN_HANDLE.to_owned(), error });
        };
        let message = |_| Message::InferSealed { handle };
        let (answer, timings) = self.shared().run(Kind::Infer, Tensors::new(), message, &options).await?;
        Ok(self.shared().outputs(answer, timings)?.0)
    }

    /// A tensor to be filled and passed to this runner without a copy. Its contents are arbitrary until written.
    ///
    /// While a call that was given the tensor runs, the tensor cannot be written to.
    ///
    /// # Errors
    /// [`CallError::PoolFull`], [`CallError::Tensor`].
    pub async fn alloc(&self, dtype: DataType, shape: &[usize]) -> Result<NumericTensor, CallError> {
        let n_bytes = NumericTensor::n_bytes_of(dtype, shape)?;
        if !self.shared().link.memory.is_in_use() || n_bytes < THRESHOLD {
            return Ok(NumericTensor::zeroed(dtype, shape.to_vec())?);
        }
        let buffer = self.shared().pool_buffer(n_bytes, None).await?;
        Ok(NumericTensor::new(dtype, shape.to_vec(), Arc::new(buffer))?)
    }

    /// Asks the runner for a sign of life.
    ///
    /// # Errors
    /// The connection's.
    pub async fn ping(&self, options: CallOptions) -> Result<(), CallError> {
        self.shared().call(Kind::Ping, Message::Ping {}, Vec::new(), &options).await.map(drop)
    }

    /// Asks the runner to end; done when it closed its end.
    ///
    /// # Errors
    /// [`CallError::DeadlineExceeded`].
    pub async fn shutdown(&self, options: CallOptions) -> Result<(), CallError> {
        let shared = self.shared();
        // Where it cannot be sent, the connection is closed already.
        let _ = shared.link.send_plain(Message::Shutdown {});
        let closed = shared.housekeeper.within(options.deadline, self.closed()).await;
        closed.map(drop).map_err(|Elapsed| CallError::DeadlineExceeded { phase: Phase::Running })
    }

    /// Closes the connection: every pending and later call fails with `reason` (the first reason given stays).
    pub fn close(&self, reason: CloseReason) {
        self.shared().close(reason);
    }

    /// Why the connection is closed, if it is.
    #[must_use]
    pub fn close_reason(&self) -> Option<Arc<CloseReason>> {
        self.shared().closed.borrow().clone()
    }

    /// Whether the connection is closed.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.close_reason().is_some()
    }

    /// Waits until the connection is closed.
    pub async fn closed(&self) -> Arc<CloseReason> {
        self.shared().wait_until_closed().await
    }

    /// Bytes of this side's shared memory in use, and the most that may be.
    #[must_use]
    pub fn pool_usage(&self) -> (u64, u64) {
        self.shared().link.memory.pool.usage()
    }
}

impl Shared {
    /// The thread that reads. It never writes more than fits, so the runner can always finish what it sends.
    fn read(&self, mut reader: FrameReader, our_features: &[&str], said_hello: oneshot::Sender<()>) {
        let reason = self.read_until_closed(&mut reader, our_features, said_hello);
        last_words(self, &reason);
        let explained = self.options.explain.as_ref().and_then(|explain| explain(&reason));
        self.close(explained.unwrap_or(reason));
    }

    fn read_until_closed(
        &self,
        reader: &mut FrameReader,
        our_features: &[&str],
        said_hello: oneshot::Sender<()>,
    ) -> CloseReason {
        let mut greet = || -> Result<(), CloseReason> {
            let hello = read_hello(reader)?;
            let agreement = version::agree(our_features, &hello)?;
            if agreement.has(version::SHARED_MEMORY) {
                self.link.memory.enable();
            }
            let peer = Peer {
                name: hello.name,
                framework_version: hello.framework_version,
                version: agreement.version,
                features: agreement.features.clone(),
            };
            let _ = self.peer.set((peer, agreement));
            Ok(())
        };
        if let Err(reason) = greet() {
            return reason;
        }
        // Whoever waited may have given up; the connection is closed then, and reading fails.
        let _ = said_hello.send(());
        loop {
            let frame = match reader.next() {
                Ok(frame) => frame,
                Err(error) => return error.into(),
            };
            if let Err(reason) = dispatch(self, reader, frame) {
                return reason;
            }
        }
    }

    /// Closes the connection with the first reason given, which is returned.
    pub(super) fn close(&self, reason: CloseReason) -> Arc<CloseReason> {
        let mut actual = Arc::new(reason);
        self.closed.send_if_modified(|closed| match closed {
            Some(first) => {
                actual = Arc::clone(first);
                false
            }
            None => {
                *closed = Some(Arc::clone(&actual));
                true
            }
        });
        self.calls.close(&actual);
        self.slots.close();
        self.link.close();
        actual
    }

    pub(super) fn closed_error(&self) -> CallError {
        let reason = self.closed.borrow().clone();
        CallError::Closed(reason.unwrap_or_else(|| Arc::new(CloseReason::EndOfFile)))
    }

    /// Every answer was checked against its call when it came; this is for the case that nobody thought of.
    fn wrong_answer(&self) -> CallError {
        let why = "it answers another kind of call".to_owned();
        CallError::Closed(self.close(CloseReason::Protocol(ProtocolError::Unexpected { message: "answer", why })))
    }

    pub(super) fn tell(&self, event: Event) {
        if let Some(on_event) = &self.options.on_event {
            on_event(event);
        }
    }

    fn next_id(&self) -> u64 {
        self.last_id.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Waits for a free slot of the runner.
    async fn slot(&self, deadline: Option<Instant>) -> Result<OwnedSemaphorePermit, CallError> {
        if self.loaded.get().is_none() {
            let error = RunnerError::new("no model is loaded");
            return Err(match self.closed.borrow().clone() {
                Some(reason) => CallError::Closed(reason),
                None => CallError::Runner { code: code::NOT_LOADED.to_owned(), error },
            });
        }
        if let Ok(slot) = Arc::clone(&self.slots).try_acquire_owned() {
            return Ok(slot);
        }
        let cap = self.options.queue_cap;
        let _place = QueuePlace::take(&self.n_queued, cap).ok_or(CallError::QueueFull { cap })?;
        match self.housekeeper.within(deadline, Arc::clone(&self.slots).acquire_owned()).await {
            Ok(Ok(slot)) => Ok(slot),
            Ok(Err(_)) => Err(self.closed_error()),
            Err(Elapsed) => Err(CallError::DeadlineExceeded { phase: Phase::Queued }),
        }
    }

    /// A buffer of shared memory, waiting for room for as long as the options say.
    async fn pool_buffer(&self, n_bytes: usize, deadline: Option<Instant>) -> Result<PoolBuffer, CallError> {
        let started = Instant::now();
        let until = [deadline, started.checked_add(self.options.pool_wait)].into_iter().flatten().min();
        let pool = &self.link.memory.pool;
        let buffer = poll_fn(|context| pool.poll_alloc(context, n_bytes));
        match self.housekeeper.within(until, buffer).await {
            Ok(Ok(buffer)) => Ok(buffer),
            Ok(Err(PoolError::Io(source))) => {
                Err(CallError::Io { what: "making a region of shared memory", source: Arc::new(source) })
            }
            Err(Elapsed) if deadline == until => Err(CallError::DeadlineExceeded { phase: Phase::Queued }),
            Ok(Err(PoolError::Full { .. })) | Err(Elapsed) => {
                let (used, cap) = pool.usage();
                Err(CallError::PoolFull { bytes: n_bytes as u64, used, cap, waited: started.elapsed() })
            }
        }
    }

    /// Brings inputs into shared memory or the frame.
    async fn encode(
        &self,
        id: u64,
        inputs: Tensors,
        deadline: Option<Instant>,
    ) -> Result<(Outbound, Vec<WireTensor>), CallError> {
        let mut outbound = Outbound::of_call(id);
        let mut buffers = Vec::new();
        for n_bytes in pool_needs(&self.link.memory, &inputs) {
            buffers.push(self.pool_buffer(n_bytes, deadline).await?);
        }
        let room = poll_fn(|context| self.link.poll_room(context));
        let room = self.housekeeper.within(deadline, room).await;
        room.map_err(|Elapsed| CallError::DeadlineExceeded { phase: Phase::Queued })?;
        let encoded = encode(&self.link.memory, &inputs, buffers).map_err(|error| CallError::Io {
            what: "writing the inputs",
            source: Arc::new(std::io::Error::other(error)),
        })?;
        let wire = outbound.carry(encoded);
        outbound.parting = split_off_borrowed(&self.link.memory, inputs);
        Ok((outbound, wire))
    }

    /// Sends the message of a call that is registered already.
    async fn send_call(&self, id: u64, message: Message, outbound: Outbound) -> Result<(), CallError> {
        let Err(error) = self.link.send(message, outbound) else { return Ok(()) };
        self.calls.forget(id);
        Err(match error {
            // Nothing more can be sent, but the thread that reads may still be busy with what came before the end, and
            // it knows the reason best.
            SendError::Closed => CallError::Closed(self.wait_until_closed().await),
            SendError::TooLarge { bytes, cap } => CallError::TooLarge { bytes, cap },
            SendError::Json(error) => {
                let source = Arc::new(std::io::Error::other(error));
                CallError::Io { what: "writing the message as JSON", source }
            }
        })
    }

    async fn wait_until_closed(&self) -> Arc<CloseReason> {
        let mut closed = self.closed.subscribe();
        let reason = closed.wait_for(Option::is_some).await.ok().and_then(|reason| reason.clone());
        // The sender is a field of `self`: waiting does not end before there is a reason.
        reason.unwrap_or_else(|| Arc::new(CloseReason::EndOfFile))
    }

    /// Makes a call that takes no slot of the runner and has no tensors.
    async fn call(
        self: &Arc<Self>,
        kind: Kind,
        message: Message,
        descriptors: Vec<OwnedFd>,
        options: &CallOptions,
    ) -> Result<Answer, CallError> {
        let id = self.next_id();
        let outbound = Outbound { id: Some(id), descriptors, ..Outbound::default() };
        self.exchange(id, kind, message, outbound, None, options.deadline).await
    }

    /// Makes a call that runs the model, or prepares it.
    async fn run(
        self: &Arc<Self>,
        kind: Kind,
        inputs: Tensors,
        message: impl FnOnce(Vec<WireTensor>) -> Message,
        options: &CallOptions,
    ) -> Result<(Answer, CallTimings), CallError> {
        let id = self.next_id();
        let started = Instant::now();
        let slot = self.slot(options.deadline).instrument(tracing::debug_span!("queue", call = id)).await?;
        let queue = started.elapsed();
        let (outbound, inputs) =
            self.encode(id, inputs, options.deadline).instrument(tracing::debug_span!("transfer", call = id)).await?;
        let transfer = started.elapsed() - queue;
        let answer = self
            .exchange(id, kind, message(inputs), outbound, Some(slot), options.deadline)
            .instrument(tracing::debug_span!("run", call = id))
            .await?;
        let run = started.elapsed() - queue - transfer;
        tracing::debug!(call = id, ?queue, ?transfer, ?run, "call answered");
        Ok((answer, CallTimings { call: id, queue, transfer, run }))
    }

    /// Sends the message of a call and waits for its answer. Giving up cancels the call.
    async fn exchange(
        self: &Arc<Self>,
        id: u64,
        kind: Kind,
        message: Message,
        outbound: Outbound,
        slot: Option<OwnedSemaphorePermit>,
        deadline: Option<Instant>,
    ) -> Result<Answer, CallError> {
        let (waiter, answer) = oneshot::channel();
        self.calls.add(id, kind, Waiter::Answer(waiter), 0, slot)?;
        self.send_call(id, message, outbound).await?;
        let _cancel = CancelOnDrop { shared: self, id };
        match self.housekeeper.within(deadline, answer).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) => Err(self.closed_error()),
            Err(Elapsed) => Err(CallError::DeadlineExceeded { phase: Phase::Running }),
        }
    }

    /// Tells the runner that nobody wants the answer of a call any more.
    pub(super) fn cancel(&self, id: u64) {
        if self.calls.abandon(id) {
            // A closed connection needs no cancelling.
            let _ = self.link.send(Message::Cancel {}, Outbound::of_call(id));
        }
    }

    fn outputs(&self, answer: Answer, mut timings: CallTimings) -> Result<(Tensors, CallTimings), CallError> {
        let Answer::Outputs(outputs) = answer else { return Err(self.wrong_answer()) };
        let started = Instant::now();
        let outputs = self.own(outputs)?;
        timings.transfer += started.elapsed();
        Ok((outputs, timings))
    }

    /// Outputs as they are handed out: with `copy_outputs`, in memory that no runner can reach.
    pub(super) fn own(&self, outputs: Tensors) -> Result<Tensors, CallError> {
        if !self.options.copy_outputs {
            return Ok(outputs);
        }
        Ok(crate::tensor_encoding::copy_out(outputs)?)
    }
}

struct CancelOnDrop<'a> {
    shared: &'a Shared,
    id: u64,
}

impl Drop for CancelOnDrop<'_> {
    fn drop(&mut self) {
        // A call that was answered is not known any more, and nothing is sent.
        self.shared.cancel(self.id);
    }
}

/// A place in the queue of calls.
struct QueuePlace<'a>(&'a AtomicUsize);

impl<'a> QueuePlace<'a> {
    fn take(n_queued: &'a AtomicUsize, cap: usize) -> Option<Self> {
        let enter = |queued: usize| (queued < cap).then_some(queued + 1);
        n_queued.fetch_update(Ordering::AcqRel, Ordering::Acquire, enter).ok().map(|_| Self(n_queued))
    }
}

impl Drop for QueuePlace<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}
