//! Outputs that arrive one after another.

use std::sync::Arc;
use std::time::Duration;

use carton_format::signature::Bindings;
use carton_runner_interface::host::InferStream;

use super::live::Live;
use crate::runner::session::Session;
use crate::{Error, Inputs, Outputs};

/// The outputs of a streamed call, from [`Infer::stream`](crate::Infer::stream). Dropping it cancels the call.
pub struct OutputStream {
    live: Arc<Live>,
    session: Arc<Session>,
    stream: InferStream,
    bindings: Bindings,
    ended: bool,
}

impl OutputStream {
    pub(super) async fn start(live: Arc<Live>, inputs: Inputs, timeout: Option<Duration>) -> Result<Self, Error> {
        let (inputs, bindings) = live.check_inputs(inputs)?;
        let (session, turn) = live.turn(&live.call_options(timeout)).await?;
        match turn.infer_stream(inputs).await {
            Ok(stream) => Ok(Self { live, session, stream, bindings, ended: false }),
            Err(error) => Err(live.explain(&session, error).await),
        }
    }

    /// Returns the next outputs, checked against the signature; `None` when the model is done. An error ends the stream.
    ///
    /// The time limit of the call holds until the last outputs have arrived. If it passes before, the outputs that have arrived are
    /// returned, then an error, and the runner is killed.
    pub async fn next(&mut self) -> Option<Result<Outputs, Error>> {
        if self.ended {
            return None;
        }
        let result = match self.stream.recv().await? {
            Ok(outputs) => self.live.check_outputs(self.bindings.clone(), outputs).map(Outputs::from),
            Err(error) => Err(self.live.explain(&self.session, error).await),
        };
        self.ended = result.is_err();
        Some(result)
    }
}

impl std::fmt::Debug for OutputStream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OutputStream").field("runner", &self.session.runner()).finish_non_exhaustive()
    }
}
