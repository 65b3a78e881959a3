//! Cartons in registries: `carton push`, `carton pull`, `carton tag` and `carton registry`.

use std::path::PathBuf;

use carton_core::ManifestHash;
use carton_core::registry::Reference;
use clap::{Args, Subcommand};

use super::model::digest;
use super::values::{STANDARD_STREAM, size};
use super::{CompressionChoice, ModelArgs, TrustArgs};
use carton_core::registry::InvalidArtifactName;

/// Which carton goes where.
#[derive(Args, Debug)]
#[command(after_long_help = PUSH_EXAMPLES)]
pub(crate) struct PushArgs {
    #[command(flatten)]
    pub(crate) model: ModelArgs,

    /// The name in the registry, oci://HOST/REPOSITORY:TAG; without a tag it is `latest`
    #[arg(value_name = "ARTIFACT", value_parser = reference)]
    pub(crate) artifact: Reference,

    /// The size from which a file is a blob of its own, which all artifacts of a registry share, such as 100000 or 64KiB [default: 64KiB]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub(crate) min_size: Option<u64>,

    /// Let the registry take blobs over from this repository of its own (repeat for several); those known on this machine are tried anyway
    #[arg(long, value_name = "REPOSITORY")]
    pub(crate) mount_from: Vec<String>,
}

const PUSH_EXAMPLES: &str = "\
Large files are blobs of their own. What the registry has already is not sent, whatever model it belongs to. The hash
of the carton stays the same. The signing bundle beside the carton (MODEL.sig) goes along.

Logins are those of Docker and Podman (`docker login`, `podman login`), and those that carton has for other servers.

Examples:
  Push a carton, and run it anywhere else:
    carton push digits.carton oci://registry.example.com/team/digits:1.0
    carton run oci://registry.example.com/team/digits:1.0 --self-test

  Copy a carton to another registry:
    carton push oci://registry.example.com/team/digits:1.0 oci://other.example.com/digits:1.0";

/// Which carton to write where.
#[derive(Args, Debug)]
pub(crate) struct PullArgs {
    /// The name in the registry, oci://HOST/REPOSITORY:TAG or oci://HOST/REPOSITORY@sha256:DIGEST
    #[arg(value_name = "ARTIFACT", value_parser = reference)]
    pub(crate) artifact: Reference,

    /// The file to write, replaced if it is there; its signing bundle goes beside it [default: the last part of REPOSITORY with .carton, here]
    #[arg(short, long, value_name = "OUT.carton", value_parser = output, value_hint = clap::ValueHint::FilePath)]
    pub(crate) output: Option<PathBuf>,

    /// How to compress the large files
    #[arg(long, value_name = "HOW", default_value = "auto")]
    pub(crate) compression: CompressionChoice,

    /// Refuse the carton unless its manifest has this SHA-256 (see `carton hash`)
    #[arg(long, value_name = "HASH", value_parser = digest::<ManifestHash>)]
    pub(crate) expect: Option<ManifestHash>,

    #[command(flatten)]
    pub(crate) trust: TrustArgs,
}

/// Parses the path of a file that is to be written.
fn output(text: &str) -> Result<PathBuf, String> {
    match text {
        "" => Err("it is empty".to_owned()),
        STANDARD_STREAM => Err("a carton cannot be written to standard output; a file called `-` is `./-`".to_owned()),
        path => Ok(PathBuf::from(path)),
    }
}

/// Which artifact gets which tag.
#[derive(Args, Debug)]
pub(crate) struct TagArgs {
    /// The name in the registry, oci://HOST/REPOSITORY:TAG or oci://HOST/REPOSITORY@sha256:DIGEST
    #[arg(value_name = "ARTIFACT", value_parser = reference)]
    pub(crate) artifact: Reference,

    /// The further tag, which another artifact of the repository loses
    #[arg(value_name = "TAG")]
    pub(crate) tag: String,
}

/// `carton registry`.
#[derive(Debug, Subcommand)]
pub(crate) enum RegistryCommand {
    /// List the tags of a repository, and the cartons that they name
    #[command(visible_alias = "list")]
    Ls {
        /// The repository, oci://HOST/REPOSITORY
        #[arg(value_name = "REPOSITORY", value_parser = repository)]
        repository: Reference,
    },
}

/// Parses the name of a repository. A tag would look as if it chose something.
fn repository(text: &str) -> Result<Reference, String> {
    let found = reference(text)?;
    match (found.tag(), found.digest()) {
        (None, None) => Ok(found),
        _ => Err("it has a tag or a digest, and all artifacts of a repository are listed".to_owned()),
    }
}

fn reference(text: &str) -> Result<Reference, String> {
    if text.contains("#sha256=") {
        return Err("an artifact is named here: give the hash of the carton as `--expect HASH`".to_owned());
    }
    text.parse().map_err(|error: InvalidArtifactName| error.to_string())
}
