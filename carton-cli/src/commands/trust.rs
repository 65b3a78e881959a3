//! Applies whom the arguments trust to what opens a carton.

use std::path::Path;

use carton_core::Location;
use carton_core::trust::PublicKey;

use crate::args::{ModelArgs, TrustArgs};
use crate::failure::Failure;

/// What the arguments ask of a bundle, with the keys read.
pub(super) struct Trust {
    pub(super) keys: Vec<PublicKey>,
    pub(super) bundle: Option<Location>,
    pub(super) required: bool,
}

impl Trust {
    /// Reads the keys.
    pub(super) fn read(arguments: &TrustArgs) -> Result<Self, Failure> {
        let key = |path| {
            PublicKey::from_pem(&read_text(path)?)
                .map_err(|error| Failure::usage(format!("`{}` is not a usable public key: {error}", path.display())))
        };
        let location = |path: &Path| path.to_str().map_or_else(|| Location::from(path), Location::from);
        Ok(Self {
            keys: arguments.key.iter().map(|path| key(path)).collect::<Result<_, _>>()?,
            bundle: arguments.bundle.as_deref().map(location),
            required: arguments.require_signed,
        })
    }
}

/// Sets what the arguments ask of a bundle on an operation that opens a carton.
macro_rules! with_trust {
    ($operation:expr, $model:expr) => {{
        let trust = $crate::commands::trust::Trust::read(&$model.trust)?;
        let mut operation = $operation;
        for key in trust.keys {
            operation = operation.trust_key(key);
        }
        if trust.required {
            operation = operation.require_signed(true);
        }
        $crate::commands::set(operation, trust.bundle, |operation, location| operation.bundle(location))
    }};
}

pub(super) use with_trust;

/// Whether the carton's bundle is worth a look where none is required: it costs a request only if somebody is trusted.
pub(super) fn is_looked_for(model: &ModelArgs, config: &carton_core::Config) -> bool {
    model.location().path().is_some() || model.trust.is_given() || !config.trust.is_empty()
}

/// The text of a file that the arguments name.
pub(super) fn read_text(path: &Path) -> Result<String, Failure> {
    std::fs::read_to_string(path).map_err(|error| Failure::usage(format!("cannot read `{}`: {error}", path.display())))
}
