//! `Connection`, the public interface of a connection. `shared` makes the calls.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Instant;

use carton_tensor::{DataType, NumericTensor};
use tokio::sync::oneshot;
use tracing::Instrument;

use super::calls::{Answer, Kind};
use super::dispatch::features;
use super::files::describe_files;
use super::handle::Handle;
use super::incoming::Incoming;
use super::reading::read;
use super::shared::Shared;
use super::stream::InferStream;
use super::turn::Turn;
use super::{CallError, CallOptions, CloseReason, ConnectionOptions, LoadRequest, Loaded, Peer, Phase, SealedInputs};
use crate::housekeeper::Elapsed;
use crate::link::{Link, LinkOptions};
use crate::message::{Message, Side, WireFiles};
use crate::model::{self, PackRequest, PackResponse, Prepared};
use crate::shared_memory::THRESHOLD;
use crate::transport::Transport;
use crate::version;
use carton_tensor::Tensors;

/// The most calls that a runner is sent at once, even if it announces more.
const CONCURRENCY_CAP: u64 = 4096;

/// A connection to one runner process. Clones share it; it closes when the last one is dropped.
#[derive(Clone)]
pub struct Connection {
    handle: Arc<Handle>,
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
    /// The runner did not say hello in time, has no protocol version in common with this side, or is gone.
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
        // If the runner is gone already, the reading thread reports it with the reason.
        let _ = link.send_plain(version::hello(&our_features, &DataType::ALL, "carton", env!("CARGO_PKG_VERSION")));
        let hello_timeout = options.hello_timeout;
        let incoming = Incoming::new(receiver, options.frame_cap).map_err(io_error)?;
        let shared = Arc::new(Shared::new(link, incoming, housekeeper, options));
        // From here on, dropping this future closes the connection.
        let connection = Self { handle: Arc::new(Handle { shared: Arc::clone(&shared) }) };
        let (said_hello, hello) = oneshot::channel();
        let thread = Arc::clone(&shared);
        std::thread::Builder::new()
            .name("carton-reader".to_owned())
            .spawn(move || read(&thread, &our_features, said_hello))
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

    /// How the runner introduced itself.
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
        let (request, descriptors) = self.wire_request(request)?;
        let answer = shared.call(Kind::Load, Message::Load(request), descriptors, &options).await?;
        let Answer::Loaded { max_concurrency } = answer else { return Err(shared.wrong_answer()) };
        let n_slots = usize::try_from(max_concurrency.clamp(1, CONCURRENCY_CAP)).unwrap_or(1);
        let loaded = Loaded { max_concurrency: n_slots };
        if shared.loaded.set(loaded).is_ok() {
            shared.slots.add_permits(n_slots);
        }
        Ok(loaded)
    }

    /// Makes what a model needs before it can be loaded. For a process that does only this: it may use the network, and it must
    /// not be the one that loads the model.
    ///
    /// # Errors
    /// The runner's, or the connection's.
    pub async fn prepare(&self, request: LoadRequest, options: CallOptions) -> Result<Prepared, CallError> {
        let (request, descriptors) = self.wire_request(request)?;
        match self.shared().call(Kind::Prepare, Message::Prepare(request), descriptors, &options).await? {
            Answer::Prepared(prepared) => Ok(prepared),
            _ => Err(self.shared().wrong_answer()),
        }
    }

    /// Returns the wire form of a request, and the descriptors that the message carries.
    fn wire_request(&self, request: LoadRequest) -> Result<(model::LoadRequest<WireFiles>, Vec<OwnedFd>), CallError> {
        let agreed = self.shared().peer.get().is_some_and(|(_, agreement)| agreement.has(version::DESCRIPTORS));
        let LoadRequest { files, options, device, mut inputs, mut outputs } = request;
        let dtypes = self.shared().link.peer_dtypes();
        dtypes.declare(&mut inputs);
        dtypes.declare(&mut outputs);
        let (files, descriptors) = describe_files(&files, agreed)?;
        Ok((model::LoadRequest { files, options, device, inputs, outputs }, descriptors))
    }

    /// The runner's answer to [`load`](Self::load), if it has loaded a model.
    #[must_use]
    pub fn loaded(&self) -> Option<Loaded> {
        self.shared().loaded.get().copied()
    }

    /// Prepares a model for packing.
    ///
    /// # Errors
    /// The runner's, or the connection's.
    pub async fn pack(&self, mut request: PackRequest, options: CallOptions) -> Result<PackResponse, CallError> {
        let dtypes = self.shared().link.peer_dtypes();
        for declared in [&mut request.inputs, &mut request.outputs].into_iter().flatten() {
            dtypes.declare(declared);
        }
        match self.shared().call(Kind::Pack, Message::Pack(request), Vec::new(), &options).await? {
            Answer::Packed(packed) => Ok(packed),
            _ => Err(self.shared().wrong_answer()),
        }
    }

    /// Waits until the runner is free for one more call. The caller keeps the inputs until then.
    ///
    /// ```
    /// # async fn example(
    /// #     connection: carton_runner_interface::host::Connection,
    /// #     inputs: carton_runner_interface::Tensors,
    /// # ) -> Result<(), carton_runner_interface::host::CallError> {
    /// use carton_runner_interface::host::CallOptions;
    /// let turn = connection.turn(&CallOptions::default()).await?;
    /// let (outputs, timings) = turn.infer(inputs).await?;
    /// println!("{} outputs after {:?} in the queue", outputs.len(), timings.queue);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`CallError::QueueFull`], [`CallError::DeadlineExceeded`], and [`CallError::Closed`] when the runner died meanwhile.
    pub async fn turn(&self, options: &CallOptions) -> Result<Turn, CallError> {
        let shared = self.shared();
        let (id, started) = (shared.next_id(), Instant::now());
        let slot = shared.slot(options.deadline).instrument(tracing::debug_span!("queue", call = id)).await?;
        Ok(Turn { handle: Arc::clone(&self.handle), id, slot, queue: started.elapsed(), deadline: options.deadline })
    }

    /// Waits for a turn and runs the model once. Dropping the future cancels the call.
    ///
    /// # Errors
    /// The runner's, the connection's, or the queue's.
    pub async fn infer(&self, inputs: Tensors, options: CallOptions) -> Result<Tensors, CallError> {
        Ok(self.turn(&options).await?.infer(inputs).await?.0)
    }

    /// Waits for a turn, runs the model and receives its outputs as they come.
    ///
    /// # Errors
    /// As [`infer`](Self::infer); those of the run itself come from [`InferStream::recv`].
    pub async fn infer_stream(&self, inputs: Tensors, options: CallOptions) -> Result<InferStream, CallError> {
        self.turn(&options).await?.infer_stream(inputs).await
    }

    /// Waits for a turn and hands inputs to the runner for many calls of [`infer_sealed`](Self::infer_sealed).
    ///
    /// # Errors
    /// As [`infer`](Self::infer).
    pub async fn seal(&self, inputs: Tensors, options: CallOptions) -> Result<SealedInputs, CallError> {
        self.turn(&options).await?.seal(inputs).await
    }

    /// Waits for a turn and runs the model on sealed inputs of this connection.
    ///
    /// # Errors
    /// As [`infer`](Self::infer).
    pub async fn infer_sealed(&self, sealed: &SealedInputs, options: CallOptions) -> Result<Tensors, CallError> {
        Ok(self.turn(&options).await?.infer_sealed(sealed).await?.0)
    }

    /// Allocates a tensor that is passed to this runner without a copy. Its elements are arbitrary until they are written.
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

    /// Asks the runner whether it still answers.
    ///
    /// # Errors
    /// The connection's.
    pub async fn ping(&self, options: CallOptions) -> Result<(), CallError> {
        self.shared().call(Kind::Ping, Message::Ping {}, Vec::new(), &options).await.map(drop)
    }

    /// Asks the runner to end, and waits until it closes its end of the connection.
    ///
    /// # Errors
    /// [`CallError::DeadlineExceeded`].
    pub async fn shutdown(&self, options: CallOptions) -> Result<(), CallError> {
        let shared = self.shared();
        // If it cannot be sent, the connection is closed already.
        let _ = shared.link.send_plain(Message::Shutdown {});
        let closed = shared.housekeeper.within(options.deadline, self.closed()).await;
        closed.map(drop).map_err(|Elapsed| CallError::DeadlineExceeded { phase: Phase::Running })
    }

    /// Closes the connection. Every pending and later call fails with `reason`. If it is closed already, its first reason stays.
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

    /// The bytes of this side's shared memory that are in use, and the cap.
    #[must_use]
    pub fn pool_usage(&self) -> (u64, u64) {
        self.shared().link.memory.pool.usage()
    }
}
