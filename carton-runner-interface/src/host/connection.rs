//! `Connection` and the handles it gives out.

use std::sync::Arc;

use carton_tensor::{DataType, NumericTensor};

use super::{CallError, CallOptions, CallTimings, CloseReason, ConnectionOptions, LoadRequest, Loaded, Peer};
use crate::Tensors;
use crate::runner::{PackRequest, PackResponse};
use crate::transport::Transport;

/// A connection to one runner process. Clones share it; it closes when the last one is dropped.
#[derive(Clone)]
pub struct Connection {}

impl Connection {
    /// Exchanges hellos with the runner at the other end.
    ///
    /// # Errors
    /// No hello in time, no protocol version in common, a runner that is gone.
    pub async fn open(transport: Transport, options: ConnectionOptions) -> Result<Self, Arc<CloseReason>> {
        let _ = (transport, options);
        todo!()
    }
    /// What the runner called itself.
    #[must_use]
    pub fn peer(&self) -> &Peer {
        todo!()
    }
    /// Loads a model; once a connection.
    ///
    /// # Errors
    /// The runner's, or the connection's.
    pub async fn load(&self, request: LoadRequest, options: CallOptions) -> Result<Loaded, CallError> {
        let _ = (request, options);
        todo!()
    }
    /// Prepares a model for packing.
    ///
    /// # Errors
    /// The runner's, or the connection's.
    pub async fn pack(&self, request: PackRequest, options: CallOptions) -> Result<PackResponse, CallError> {
        let _ = (request, options);
        todo!()
    }
    /// Runs the model once.
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
        let _ = (inputs, options);
        todo!()
    }
    /// Runs the model and receives its outputs as they come.
    ///
    /// # Errors
    /// As [`infer`](Self::infer); those of the run itself come from [`InferStream::recv`].
    pub async fn infer_stream(&self, inputs: Tensors, options: CallOptions) -> Result<InferStream, CallError> {
        let _ = (inputs, options);
        todo!()
    }
    /// Hands inputs to the runner for many calls of [`infer_sealed`](Self::infer_sealed).
    ///
    /// # Errors
    /// As [`infer`](Self::infer).
    pub async fn seal(&self, inputs: Tensors, options: CallOptions) -> Result<SealedInputs, CallError> {
        let _ = (inputs, options);
        todo!()
    }
    /// Runs the model on sealed inputs of this connection.
    ///
    /// # Errors
    /// As [`infer`](Self::infer).
    pub async fn infer_sealed(&self, sealed: &SealedInputs, options: CallOptions) -> Result<Tensors, CallError> {
        let _ = (sealed, options);
        todo!()
    }
    /// A tensor to be filled and passed to this runner without a copy. Its contents are arbitrary until written.
    ///
    /// # Errors
    /// [`CallError::PoolFull`], [`CallError::Tensor`].
    pub async fn alloc(&self, dtype: DataType, shape: &[usize]) -> Result<NumericTensor, CallError> {
        let _ = (dtype, shape);
        todo!()
    }
    /// Asks the runner for a sign of life.
    ///
    /// # Errors
    /// The connection's.
    pub async fn ping(&self, options: CallOptions) -> Result<(), CallError> {
        let _ = options;
        todo!()
    }
    /// Asks the runner to end; done when it closed its end. The caller bounds the wait by `options`.
    ///
    /// # Errors
    /// [`CallError::DeadlineExceeded`].
    pub async fn shutdown(&self, options: CallOptions) -> Result<(), CallError> {
        let _ = options;
        todo!()
    }
    /// Closes the connection: every pending and later call fails with `reason` (the first reason given stays).
    pub fn close(&self, reason: CloseReason) {
        let _ = reason;
        todo!()
    }
    /// Why the connection is closed, if it is.
    #[must_use]
    pub fn close_reason(&self) -> Option<Arc<CloseReason>> {
        todo!()
    }
    /// Whether the connection is closed.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.close_reason().is_some()
    }
    /// Waits until the connection is closed.
    pub async fn closed(&self) -> Arc<CloseReason> {
        todo!()
    }
}

/// The outputs of a streaming call. Dropping it cancels the call.
pub struct InferStream {}

impl InferStream {
    /// The next outputs; `None` when the runner is done.
    pub async fn recv(&mut self) -> Option<Result<Tensors, CallError>> {
        todo!()
    }
    /// As [`recv`](Self::recv), for implementing `Stream`.
    pub fn poll_recv(
        &mut self,
        context: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Result<Tensors, CallError>>> {
        let _ = context;
        todo!()
    }
}

/// Inputs the runner keeps. Dropping it lets the runner forget them.
pub struct SealedInputs {}
