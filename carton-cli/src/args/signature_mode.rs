//! The choice of how strictly calls are checked.

use carton_core::signature::SignatureMode;
use clap::ValueEnum;

/// What to do when inputs or outputs are not as declared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum SignatureChoice {
    /// An error.
    Strict,
    /// A warning.
    Warn,
    /// Nothing.
    Off,
}

impl From<SignatureChoice> for SignatureMode {
    fn from(choice: SignatureChoice) -> Self {
        match choice {
            SignatureChoice::Strict => Self::Strict,
            SignatureChoice::Warn => Self::Warn,
            SignatureChoice::Off => Self::Off,
        }
    }
}
