//! `carton diff`.

use std::path::{Path, PathBuf};

use clap::{Args, ValueHint};

use super::tensor::ElementDiffArgs;
use super::{ModelArgs, TrustArgs};

/// `carton diff`.
#[derive(Args, Debug)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct DiffArgs {
    /// The carton before: a place as `carton info` takes it
    #[arg(value_name = "A", value_hint = ValueHint::AnyPath)]
    pub(crate) a: PathBuf,

    /// The carton after
    #[arg(value_name = "B", value_hint = ValueHint::AnyPath)]
    pub(crate) b: PathBuf,

    /// Write what differs as one HTML file; `-` is standard output
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) html: Option<PathBuf>,

    /// Fetch files that are not on this machine, to compare the tensors in them
    #[arg(long)]
    pub(crate) fetch: bool,

    #[command(flatten)]
    pub(crate) elements: ElementDiffArgs,

    /// Let cartons on this machine link to files on this machine (file:// in their LINKS)
    #[arg(long)]
    pub(crate) allow_file_links: bool,

    /// Refuse the cartons unless this public key signed them (repeat for one of several keys)
    #[arg(long, value_name = "PUB.pem", value_hint = ValueHint::FilePath)]
    pub(crate) key: Vec<PathBuf>,

    /// Refuse the cartons unless somebody signed them who is trusted (see `[[trust]]` in the configuration)
    #[arg(long)]
    pub(crate) require_signed: bool,
}

impl DiffArgs {
    /// The arguments of a command that reads the carton at `path` only.
    pub(crate) fn model(&self, path: &Path) -> ModelArgs {
        let trust = TrustArgs { key: self.key.clone(), bundle: None, require_signed: self.require_signed };
        ModelArgs { path: path.to_path_buf(), expect: None, allow_file_links: self.allow_file_links, trust }
    }
}

const EXAMPLES: &str = "\
Files are compared by the digests in the manifests, which needs no file of the models. The tensors of .safetensors, .zt, .npy and .npz files
that differ are compared by name where both files are on this machine, or with --fetch; other files are not looked into.

The exit code is 3 if the cartons are not the same, which is when their manifests differ. Links and signatures are shown, but are no part of
a carton.

Examples:
  carton diff digits-1.carton digits-2.carton
  carton diff oci://registry.example.com/digits:1 digits.carton --fetch
  carton diff old.carton new.carton --json | jq .tensors
  carton diff old.carton new.carton --html what-is-new.html";
