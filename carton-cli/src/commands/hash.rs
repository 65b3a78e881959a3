//! `carton hash`: prints the hash that identifies a model.

use carton_core::ManifestHash;
use serde::Serialize;

use super::{Context, open};
use crate::args::ModelArgs;
use crate::failure::{Exit, Failure};

#[derive(Serialize)]
struct Hash {
    manifest_sha256: Option<ManifestHash>,
}

pub(super) async fn run(model: ModelArgs, context: &Context<'_>) -> Result<Exit, Failure> {
    let manifest_sha256 = open::open(&model, context).await?.manifest_sha256();
    if context.output.is_json() {
        context.output.json(&Hash { manifest_sha256 })?;
    } else if let Some(hash) = manifest_sha256 {
        context.output.text(&format!("{hash}\n"))?;
    }
    Ok(Exit::Ok)
}
