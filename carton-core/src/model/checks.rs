//! Checks the inputs and outputs of a call against the carton's signature, as strictly as the caller asked for.

use carton_format::side::Side;
use carton_format::signature::{self, Bindings, Giver, SignatureError, SignatureMode};
use carton_tensor::Tensor;

use super::live::Live;
use crate::{Error, Inputs, Tensors};

impl Live {
    /// Gives positional inputs the names of the declared inputs.
    pub(super) fn named(&self, inputs: Inputs) -> Result<Tensors, Error> {
        Ok(match inputs {
            Inputs::Named(tensors) => tensors,
            Inputs::Positional(tensors) => {
                signature::name_positional(self.package().metadata().signature(), tensors)?.into_iter().collect()
            }
        })
    }

    /// Names the inputs and checks them. Also returns the values of their symbols, which [`check_outputs`](Self::check_outputs) needs.
    pub(super) fn check_inputs(&self, inputs: Inputs) -> Result<(Tensors, Bindings), Error> {
        let mut inputs = self.named(inputs)?;
        for (name, default) in self.defaults() {
            if !inputs.contains_key(name) {
                inputs.insert(name.clone(), default.clone());
            }
        }
        let mut bindings = Bindings::default();
        let signature = self.package().metadata().signature();
        if let Some(signature) = signature {
            signature::as_declared(Side::Input, Giver::User, signature.inputs.as_deref(), &mut inputs)?;
            self.judge(|| signature::check_inputs(signature, &mut bindings, by_name(&inputs)))?;
        }
        Ok((inputs, bindings))
    }

    /// Checks the outputs of a call whose inputs gave `bindings`, and gives them the declared dtypes.
    pub(super) fn check_outputs(&self, mut bindings: Bindings, mut outputs: Tensors) -> Result<Tensors, Error> {
        let Some(signature) = self.package().metadata().signature() else { return Ok(outputs) };
        // Outputs with other values stay what they are, unless the check is strict.
        if let Err(error) =
            signature::as_declared(Side::Output, Giver::Runner, signature.outputs.as_deref(), &mut outputs)
        {
            self.judge(|| Err(error))?;
        }
        self.judge(|| signature::check_outputs(signature, &mut bindings, by_name(&outputs)))?;
        Ok(outputs)
    }

    /// Runs `check` as the signature mode says: `Off` skips it, and `Warn` logs its error instead of returning it.
    fn judge(&self, check: impl FnOnce() -> Result<(), SignatureError>) -> Result<(), Error> {
        let mode = self.signature_mode();
        if mode == SignatureMode::Off {
            return Ok(());
        }
        match check() {
            Err(error) if mode == SignatureMode::Warn => {
                tracing::warn!("{error}");
                Ok(())
            }
            checked => Ok(checked?),
        }
    }
}

fn by_name(tensors: &Tensors) -> impl Iterator<Item = (&str, &Tensor)> {
    tensors.iter().map(|(name, tensor)| (name.as_str(), tensor))
}
