//! Inputs handed to the runner once and used many times.

use std::sync::{Arc, Weak};

use carton_runner_interface::host;

use super::InferOptions;
use super::live::Live;
use crate::runner::session::Session;
use crate::signature::Bindings;
use crate::{Error, Inputs, Tensors};

/// Inputs that the runner keeps, for [`Carton::infer_sealed`](crate::Carton::infer_sealed). Dropping it lets the
/// runner forget them.
pub struct SealedInputs {
    inputs: Tensors,
    bindings: Bindings,
    /// Where the inputs are sealed now: a fresh runner knows nothing of what the last one was given.
    sealed: tokio::sync::Mutex<(Weak<Session>, Arc<host::SealedInputs>)>,
}

impl SealedInputs {
    pub(super) async fn new(live: &Live, inputs: Inputs) -> Result<Self, Error> {
        let (inputs, bindings) = live.check_inputs(inputs)?;
        let session = live.session().await?;
        let sealed = seal(live, &session, inputs.clone()).await?;
        Ok(Self { inputs, bindings, sealed: tokio::sync::Mutex::new((Arc::downgrade(&session), sealed)) })
    }

    pub(super) async fn infer(&self, live: &Live) -> Result<Tensors, Error> {
        let session = live.session().await?;
        let handle = {
            let mut sealed = self.sealed.lock().await;
            // The weak reference keeps the address from being used again, so that it identifies the session.
            if !std::ptr::eq(sealed.0.as_ptr(), Arc::as_ptr(&session)) {
                *sealed = (Arc::downgrade(&session), seal(live, &session, self.inputs.clone()).await?);
            }
            Arc::clone(&sealed.1)
        };
        let call = live.call_options(&InferOptions::default());
        let outputs = match session.connection().infer_sealed(&handle, call).await {
            Ok(outputs) => outputs,
            Err(error) => return Err(live.explain(&session, error).await),
        };
        live.check_outputs(self.bindings.clone(), &outputs)?;
        Ok(outputs)
    }
}

async fn seal(live: &Live, session: &Session, inputs: Tensors) -> Result<Arc<host::SealedInputs>, Error> {
    let call = live.call_options(&InferOptions::default());
    match session.connection().seal(inputs, call).await {
        Ok(sealed) => Ok(Arc::new(sealed)),
        Err(error) => Err(live.explain(session, error).await),
    }
}

impl std::fmt::Debug for SealedInputs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SealedInputs").field("inputs", &self.inputs).finish_non_exhaustive()
    }
}
