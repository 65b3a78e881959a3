//! The carton that a command is about.

use std::path::PathBuf;
use std::str::FromStr;

use carton_core::{DigestError, Location, ManifestHash};
use clap::Args;

use super::TrustArgs;

/// A carton and the hash it must have.
#[derive(Args, Debug, Default)]
pub(crate) struct ModelArgs {
    /// A .carton file, the folder of an unpacked one, the URL of a .carton file, oci://HOST/REPOSITORY:TAG, or
    /// hf://OWNER/REPOSITORY@REVISION/FILE, s3://, gs:// or az://BUCKET/KEY
    #[arg(value_name = "MODEL", value_hint = clap::ValueHint::AnyPath)]
    pub(crate) path: PathBuf,

    /// Refuse the carton unless its manifest has this SHA-256 (see `carton hash`)
    #[arg(long, value_name = "HASH", value_parser = digest::<ManifestHash>)]
    pub(crate) expect: Option<ManifestHash>,

    /// Let a carton on this machine link to files on this machine (file:// in its LINKS)
    #[arg(long)]
    pub(crate) allow_file_links: bool,

    #[command(flatten)]
    pub(crate) trust: TrustArgs,
}

impl ModelArgs {
    /// Returns the location of the carton. Text may be a URL and may end in `#sha256=…`; a path that is not UTF-8 is a plain path.
    pub(crate) fn location(&self) -> Location {
        self.path.to_str().map_or_else(|| Location::from(self.path.as_path()), Location::from)
    }
}

/// Parses a SHA-256: hexadecimal digits, with or without `sha256:` in front.
pub(super) fn digest<D: FromStr<Err = DigestError>>(text: &str) -> Result<D, String> {
    let hexadecimal = text.strip_prefix("sha256:").unwrap_or(text).to_ascii_lowercase();
    D::from_str(&hexadecimal).map_err(|error| error.to_string())
}
