//! `carton unpack`: extracts everything in a carton into a folder.

use std::path::PathBuf;

use carton_core::{ManifestHash, Unpack};
use serde::Serialize;

use super::{Context, open, set, shrink};
use crate::args::UnpackArgs;
use crate::failure::{Exit, Failure};
use crate::text::{count, one_line};

#[derive(Serialize)]
struct Unpacked {
    path: PathBuf,
    files: usize,
    manifest_sha256: Option<ManifestHash>,
}

pub(super) async fn run(arguments: UnpackArgs, context: &Context<'_>) -> Result<Exit, Failure> {
    let output = context.output;
    let path = match arguments.output {
        Some(path) => path,
        None => PathBuf::from(shrink::name_of(&arguments.model.path)?),
    };
    let package = open::open(&arguments.model, context).await?;
    let unpacked =
        Unpacked { path: path.clone(), files: package.files().len(), manifest_sha256: package.manifest_sha256() };
    set(package.unpack(path), open::progress(context), Unpack::progress).await?;
    if output.is_json() {
        output.json(&unpacked)?;
    } else {
        let folder = unpacked.path.display().to_string();
        output.text(&format!("unpacked {} into {}\n", count(unpacked.files, "file"), one_line(&folder)))?;
    }
    Ok(Exit::Ok)
}
