//! Inputs that are passed to the runner once and used many times.

use std::sync::{Arc, Weak};
use std::time::Duration;

use carton_format::signature::Bindings;
use carton_runner_interface::host::{self, CallOptions, CallTimings};

use super::error::ModelError;
use super::live::Live;
use crate::runner::session::Session;
use crate::{Error, Inputs, Tensors};

/// Inputs that the runner keeps, for [`Carton::infer`](crate::Carton::infer) of the same model. Dropping the value lets the runner
/// free them.
pub struct SealedInputs {
    /// The model, which checked the inputs. It is not kept alive.
    model: Weak<Live>,
    inputs: Tensors,
    bindings: Bindings,
    /// The session that has the inputs, and its handle to them. After a restart the inputs are sealed again, because a fresh
    /// runner does not have them.
    sealed: tokio::sync::Mutex<(Weak<Session>, Arc<host::SealedInputs>)>,
}

impl SealedInputs {
    pub(super) async fn new(live: &Arc<Live>, inputs: Inputs) -> Result<Self, Error> {
        let (inputs, bindings) = live.check_inputs(inputs)?;
        let (session, sealed) = seal(live, inputs.clone(), &live.call_options(None)).await?;
        let sealed = tokio::sync::Mutex::new((Arc::downgrade(&session), sealed));
        Ok(Self { model: Arc::downgrade(live), inputs, bindings, sealed })
    }

    pub(super) async fn infer(&self, live: &Live, timeout: Option<Duration>) -> Result<(Tensors, CallTimings), Error> {
        self.check_model(live)?;
        let options = live.call_options(timeout);
        let (session, turn, handle) = loop {
            let handle = self.on(live, &options).await?;
            let (session, turn) = live.turn(&options).await?;
            // The runner may have been replaced while the call waited for its turn.
            if std::ptr::eq(handle.0.as_ptr(), Arc::as_ptr(&session)) {
                break (session, turn, handle.1);
            }
        };
        match turn.infer_sealed(&handle).await {
            Ok((outputs, timings)) => Ok((live.check_outputs(self.bindings.clone(), outputs)?, timings)),
            Err(error) => Err(live.explain(&session, error).await),
        }
    }

    /// Returns the running session's handle to the inputs. A fresh session gets the inputs first.
    async fn on(&self, live: &Live, options: &CallOptions) -> Result<(Weak<Session>, Arc<host::SealedInputs>), Error> {
        let session = live.session(options.deadline).await?;
        let mut sealed = live.before(options.deadline, self.sealed.lock()).await?;
        // The weak reference keeps the allocation alive, so the address is not reused and identifies the session.
        if !std::ptr::eq(sealed.0.as_ptr(), Arc::as_ptr(&session)) {
            let (session, handle) = seal(live, self.inputs.clone(), options).await?;
            *sealed = (Arc::downgrade(&session), handle);
        }
        Ok(sealed.clone())
    }

    /// The tensors that were sealed for `live`.
    pub(super) fn tensors(&self, live: &Live) -> Result<Inputs, Error> {
        self.check_model(live)?;
        Ok(Inputs::Named(self.inputs.clone()))
    }

    /// Refuses the inputs of another model, because they and their symbols were not checked against the signature of this one.
    fn check_model(&self, live: &Live) -> Result<(), Error> {
        // The weak reference keeps the allocation alive, so the address is not reused and identifies the model.
        if std::ptr::eq(self.model.as_ptr(), live) { Ok(()) } else { Err(ModelError::SealedForAnother.into()) }
    }
}

async fn seal(
    live: &Live,
    inputs: Tensors,
    options: &CallOptions,
) -> Result<(Arc<Session>, Arc<host::SealedInputs>), Error> {
    let (session, turn) = live.turn(options).await?;
    match turn.seal(inputs).await {
        Ok(sealed) => Ok((session, Arc::new(sealed))),
        Err(error) => Err(live.explain(&session, error).await),
    }
}

impl std::fmt::Debug for SealedInputs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SealedInputs").field("inputs", &self.inputs).finish_non_exhaustive()
    }
}
