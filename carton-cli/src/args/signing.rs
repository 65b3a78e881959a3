//! Keys and signing bundles: whom to trust when a carton is opened, `carton sign` and `carton keygen`.

use std::path::PathBuf;

use carton_core::ManifestHash;
use carton_core::trust::Curve;
use clap::{Args, ValueEnum};

use super::model::digest;

/// Who must have signed a carton.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct TrustArgs {
    /// Refuse the carton unless this public key signed it (repeat for one of several keys)
    #[arg(long, value_name = "PUB.pem", value_hint = clap::ValueHint::FilePath)]
    pub(crate) key: Vec<PathBuf>,

    /// The carton's signing bundle, a file or URL [default: MODEL.sig]
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::AnyPath)]
    pub(crate) bundle: Option<PathBuf>,

    /// Refuse the carton unless somebody signed it who is trusted (see `[[trust]]` in the configuration)
    #[arg(long)]
    pub(crate) require_signed: bool,
}

impl TrustArgs {
    /// Whether anything is asked for.
    pub(crate) fn is_given(&self) -> bool {
        !self.key.is_empty() || self.bundle.is_some() || self.require_signed
    }
}

/// `carton sign`.
#[derive(Args, Debug)]
#[command(after_long_help = SIGN_EXAMPLES)]
pub(crate) struct SignArgs {
    /// A .carton file, the folder of an unpacked one, or the URL of a .carton file
    #[arg(value_name = "MODEL", value_hint = clap::ValueHint::AnyPath)]
    pub(crate) path: PathBuf,

    /// The private key (PEM), a file, or env:NAME for the text in a variable
    #[arg(long, value_name = "KEY", value_hint = clap::ValueHint::FilePath)]
    pub(crate) key: PathBuf,

    /// The key's certificate and those that lead to a root (PEM); repeat for several files, the key's own first
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub(crate) certificates: Vec<PathBuf>,

    /// Refuse the carton unless its manifest has this SHA-256 (see `carton hash`)
    #[arg(long, value_name = "HASH", value_parser = digest::<ManifestHash>)]
    pub(crate) expect: Option<ManifestHash>,

    /// The file to write [default: MODEL.sig]
    #[arg(short, long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub(crate) output: Option<PathBuf>,
}

const SIGN_EXAMPLES: &str = "\
The password of an encrypted key is read from CARTON_KEY_PASSWORD.

Signing without a key of one's own (keyless, with Sigstore) is not available yet.
Instead, sign the unpacked carton with model-signing from PyPI:
  model_signing sign sigstore FOLDER --signature model.carton.sig
It is accepted where a [[trust]] rule of the configuration names a trusted_root.

Examples:
  Make keys once, and sign:
    carton keygen -o release.pem
    carton sign model.carton --key release.pem

  Run a carton only if it is signed with that key:
    carton run model.carton --key release.pub.pem --self-test";

/// `carton keygen`.
#[derive(Args, Debug)]
#[command(after_long_help = "The private key is encrypted if CARTON_KEY_PASSWORD is set.")]
pub(crate) struct KeygenArgs {
    /// The file of the private key; the public one is beside it, with .pub.pem for .pem
    #[arg(short, long, value_name = "FILE", default_value = "carton-key.pem", value_hint = clap::ValueHint::FilePath)]
    pub(crate) output: PathBuf,

    /// The curve that the key is on
    #[arg(long, default_value = "p256")]
    pub(crate) curve: CurveChoice,
}

/// The curve of a new key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum CurveChoice {
    P256,
    P384,
}

impl From<CurveChoice> for Curve {
    fn from(choice: CurveChoice) -> Self {
        match choice {
            CurveChoice::P256 => Self::P256,
            CurveChoice::P384 => Self::P384,
        }
    }
}
