//! `carton shrink`: writes a carton without the files that can be fetched.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use carton_core::shrink::{DEFAULT_MIN_SIZE, LeaveOut, LeftOut, Shrink};
use carton_core::{Carton, Error, Links, Location, ManifestHash, Sha256Digest, ShownUrl, Url};
use serde::Serialize;

use super::trust::with_trust;
use super::{Context, open, set};
use crate::args::ShrinkArgs;
use crate::failure::{Exit, Failure};
use crate::output::{Align, Table};
use crate::text::{byte_size, count, one_line};

#[derive(Debug, thiserror::Error)]
enum ShrinkArgumentError {
    #[error("cannot read `{}`", path.display())]
    ReadLinks { path: PathBuf, source: io::Error },
    #[error("cannot use `{}`: it is no regular file of at most {} bytes", path.display(), Links::MAX_LENGTH)]
    LargeLinks { path: PathBuf },
    #[error("cannot use `{}`", path.display())]
    Links { path: PathBuf, source: Error },
    #[error("cannot derive a name from `{}`", path.display())]
    NoName { path: PathBuf },
}

#[derive(Serialize)]
struct Shrunk {
    path: PathBuf,
    manifest_sha256: ManifestHash,
    size: Option<u64>,
    /// Bytes of the files that were left out; equal files are counted once.
    left_out_size: u64,
    left_out: Vec<File>,
    /// Digests of linked files that the carton does not contain.
    unmatched: Vec<Sha256Digest>,
}

#[derive(Serialize)]
struct File {
    path: String,
    sha256: Sha256Digest,
    size: u64,
    /// The URLs without their secret parts.
    urls: Vec<ShownUrl>,
    saved: Option<PathBuf>,
}

impl From<LeftOut> for File {
    fn from(file: LeftOut) -> Self {
        let LeftOut { path, sha256, size, urls, saved, .. } = file;
        Self { path, sha256, size, urls: urls.iter().map(Url::shown).collect(), saved }
    }
}

pub(super) async fn run(arguments: ShrinkArgs, context: &Context<'_>) -> Result<Exit, Failure> {
    let output = context.output;
    let path = match arguments.output {
        Some(path) => path,
        None => PathBuf::from(format!("{}.shrunk.carton", name_of(&arguments.model.path)?)),
    };
    let leave_out = match (&arguments.links, arguments.url_prefix) {
        (Some(links), _) => LeaveOut::Linked(read_links(links)?),
        (None, prefix) => {
            LeaveOut::large_from(prefix.unwrap_or_default(), arguments.min_size.unwrap_or(DEFAULT_MIN_SIZE))
        }
    };
    let shrink = Carton::shrink(arguments.model.location(), &path, leave_out)
        .allow_file_links(arguments.model.allow_file_links)
        .config(context.config.clone());
    let shrink = set(with_trust!(shrink, arguments.model), arguments.model.expect, Shrink::expect_hash);
    let shrink = set(shrink, arguments.save_files, Shrink::save_files);
    let shrink = set(shrink, open::progress(context), Shrink::progress);
    let shrunk = shrink.await.map_err(|error| open::explained(error, &arguments.model.path))?;
    output.progress().finish();

    let mut counted = std::collections::BTreeSet::new();
    let once = shrunk.left_out.iter().filter(|file| counted.insert(file.sha256));
    let shrunk = Shrunk {
        size: fs::metadata(&shrunk.path).ok().map(|metadata| metadata.len()),
        left_out_size: once.map(|file| file.size).sum(),
        path: shrunk.path,
        manifest_sha256: shrunk.manifest_sha256,
        left_out: shrunk.left_out.into_iter().map(File::from).collect(),
        unmatched: shrunk.unmatched,
    };
    if output.is_json() {
        output.json(&shrunk)?;
        return Ok(Exit::Ok);
    }
    if let Some(first) = shrunk.unmatched.first() {
        let files = count(shrunk.unmatched.len(), "linked file");
        output.warning(&format!("not in the carton: {files}, such as {first}"));
    }
    output.text(&text(&shrunk))?;
    Ok(Exit::Ok)
}

fn text(shrunk: &Shrunk) -> String {
    let mut table = Table::new(&[Align::Right, Align::Left, Align::Left]);
    for file in &shrunk.left_out {
        let url = file.urls.first().map(ShownUrl::to_string).unwrap_or_default();
        table.row([byte_size(file.size), file.path.clone(), url]);
    }
    let table = table.lines(&|_, _, cell| cell);
    let size = shrunk.size.map(|size| format!(" ({})", byte_size(size))).unwrap_or_default();
    let (files, left_out) = (count(shrunk.left_out.len(), "file"), byte_size(shrunk.left_out_size));
    let path = shrunk.path.display().to_string();
    let (path, hash) = (one_line(&path), shrunk.manifest_sha256);
    format!("{table}left out {files}, {left_out}\nshrunk {path}{size}\nmanifest sha256:{hash}\n")
}

pub(super) fn read_links(path: &Path) -> Result<Links, Failure> {
    let unreadable = |source| Failure::new(ShrinkArgumentError::ReadLinks { path: path.to_path_buf(), source });
    let metadata = fs::metadata(path).map_err(unreadable)?;
    if !metadata.is_file() || metadata.len() > Links::MAX_LENGTH as u64 {
        return Err(Failure::new(ShrinkArgumentError::LargeLinks { path: path.to_path_buf() }));
    }
    let bytes = fs::read(path).map_err(unreadable)?;
    Links::parse(&bytes)
        .map_err(|error| Failure::new(ShrinkArgumentError::Links { path: path.to_path_buf(), source: error.into() }))
}

/// Returns the name of the model.
pub(super) fn name_of(model: &Path) -> Result<String, Failure> {
    let location = model.to_str().map_or_else(|| Location::from(model), Location::from);
    location.name().ok_or_else(|| {
        let error = ShrinkArgumentError::NoName { path: model.to_path_buf() };
        Failure::usage(error).hint("name what is written: --output")
    })
}
