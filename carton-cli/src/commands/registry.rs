//! `carton push`, `carton pull`, `carton tag` and `carton registry`: cartons in registries.

use std::path::PathBuf;

use carton_core::registry::{self, List, Pull, Push, Tag};
use carton_core::{Carton, ManifestHash, Sha256Digest};
use serde::Serialize;

use super::trust::with_trust;
use super::{Context, open, set};
use crate::args::{PullArgs, PushArgs, RegistryCommand, TagArgs};
use crate::failure::{Exit, Failure};
use crate::output::{Align, Table};
use crate::text::{byte_size, count, one_line};

#[derive(Serialize)]
struct Pushed {
    /// The name with the digest, which always means this artifact.
    artifact: String,
    digest: Option<Sha256Digest>,
    manifest_sha256: ManifestHash,
    blobs: usize,
    /// Bytes of the blobs that were sent, that came from other repositories, and that were there.
    sent: u64,
    mounted: u64,
    present: u64,
    signed: bool,
}

#[derive(Serialize)]
struct Pulled {
    path: PathBuf,
    manifest_sha256: ManifestHash,
    bundle: Option<PathBuf>,
}

#[derive(Serialize)]
struct Tagged {
    artifact: String,
    digest: Sha256Digest,
}

#[derive(Serialize)]
struct ShownTag {
    artifact: String,
    tag: Option<String>,
    /// Null if the registry does not give the artifact to the user.
    digest: Option<Sha256Digest>,
    /// Null for an artifact that is not a carton, too.
    manifest_sha256: Option<ManifestHash>,
    size: Option<u64>,
}

/// `carton push`.
pub(super) async fn push(arguments: PushArgs, context: &Context<'_>) -> Result<Exit, Failure> {
    let push = Carton::push(arguments.model.location(), arguments.artifact)
        .allow_file_links(arguments.model.allow_file_links)
        .config(context.config.clone());
    let push = set(with_trust!(push, arguments.model), arguments.model.expect, Push::expect_hash);
    let push = set(push, arguments.min_size, Push::min_size);
    let push = arguments.mount_from.into_iter().fold(push, Push::mount_from);
    let push = set(push, open::progress(context), Push::progress);
    let pushed = push.await.map_err(|error| open::explained(error, &arguments.model.path))?;
    context.output.progress().finish();
    let pushed = Pushed {
        artifact: pushed.reference.to_string(),
        digest: pushed.reference.digest(),
        manifest_sha256: pushed.manifest_sha256,
        blobs: pushed.n_blobs,
        sent: pushed.sent,
        mounted: pushed.mounted,
        present: pushed.present,
        signed: pushed.signed,
    };
    if context.output.is_json() {
        context.output.json(&pushed)?;
        return Ok(Exit::Ok);
    }
    let parts = [("sent", pushed.sent), ("taken over", pushed.mounted), ("there already", pushed.present)];
    let parts: Vec<String> =
        parts.iter().filter(|(_, size)| *size > 0).map(|(what, size)| format!("{} {what}", byte_size(*size))).collect();
    let signed = if pushed.signed { ", with its signing bundle" } else { "" };
    context.output.text(&format!(
        "{}: {}{signed}\npushed {}\nmanifest sha256:{}\n",
        count(pushed.blobs, "blob"),
        parts.join(", "),
        pushed.artifact,
        pushed.manifest_sha256
    ))?;
    Ok(Exit::Ok)
}

/// `carton pull`.
pub(super) async fn pull(arguments: PullArgs, context: &Context<'_>) -> Result<Exit, Failure> {
    let name = || arguments.artifact.repository().rsplit('/').next().unwrap_or("model").to_owned();
    let path = arguments.output.clone().unwrap_or_else(|| PathBuf::from(format!("{}.carton", name())));
    let pull = Carton::pull(arguments.artifact.clone(), path)
        .compression(arguments.compression.into())
        .config(context.config.clone());
    let pull = set(with_trust!(pull, arguments), arguments.expect, Pull::expect_hash);
    let pull = set(pull, open::progress(context), Pull::progress);
    let named = PathBuf::from(arguments.artifact.to_string());
    let pulled = pull.await.map_err(|error| open::unopened(error, &named))?;
    context.output.progress().finish();
    let pulled = Pulled { path: pulled.path, manifest_sha256: pulled.manifest_sha256, bundle: pulled.bundle };
    if context.output.is_json() {
        context.output.json(&pulled)?;
        return Ok(Exit::Ok);
    }
    let size = std::fs::metadata(&pulled.path).ok().map(|metadata| format!(" ({})", byte_size(metadata.len())));
    let bundle =
        pulled.bundle.as_ref().map(|path| format!("signing bundle {}\n", one_line(&path.display().to_string())));
    context.output.text(&format!(
        "pulled {}{}\n{}manifest sha256:{}\n",
        one_line(&pulled.path.display().to_string()),
        size.unwrap_or_default(),
        bundle.unwrap_or_default(),
        pulled.manifest_sha256
    ))?;
    Ok(Exit::Ok)
}

/// `carton tag`.
pub(super) async fn tag(arguments: TagArgs, context: &Context<'_>) -> Result<Exit, Failure> {
    let tag = registry::tag(arguments.artifact, &arguments.tag).map_err(Failure::usage)?.config(context.config.clone());
    let tagged = set(tag, open::progress(context), Tag::progress).await?;
    let tagged = Tagged { artifact: tagged.reference.to_string(), digest: tagged.digest };
    match context.output.is_json() {
        true => context.output.json(&tagged)?,
        false => context.output.text(&format!("{}\n", tagged.artifact))?,
    }
    Ok(Exit::Ok)
}

/// `carton registry`.
pub(super) async fn run(command: RegistryCommand, context: &Context<'_>) -> Result<Exit, Failure> {
    let RegistryCommand::Ls { repository } = command;
    let list = registry::list(repository).config(context.config.clone());
    let listed: Vec<ShownTag> = set(list, open::progress(context), List::progress)
        .await?
        .into_iter()
        .map(|listed| ShownTag {
            artifact: listed.reference.to_string(),
            tag: listed.reference.tag().map(str::to_owned),
            digest: listed.digest,
            manifest_sha256: listed.manifest_sha256,
            size: listed.size,
        })
        .collect();
    if context.output.is_json() {
        context.output.json(&listed)?;
        return Ok(Exit::Ok);
    }
    let mut table = Table::new(&[Align::Left, Align::Right, Align::Left]);
    for listed in &listed {
        let hash = match (listed.manifest_sha256, listed.digest) {
            (Some(hash), _) => hash.to_string(),
            (None, Some(_)) => "not a carton".to_owned(),
            (None, None) => "not readable".to_owned(),
        };
        table.row([listed.tag.clone().unwrap_or_default(), listed.size.map(byte_size).unwrap_or_default(), hash]);
    }
    context.output.text(&table.lines(&|_, _, cell| cell))?;
    Ok(Exit::Ok)
}
