//! `carton unpack`: extracts everything in a carton into a folder.

use std::path::{Path, PathBuf};

use carton_core::{ManifestHash, Place, Unpack};
use serde::Serialize;

use super::{Context, open, set};
use crate::args::UnpackArgs;
use crate::failure::{Exit, Failure};
use crate::output::{count, one_line};

#[derive(Serialize)]
struct Unpacked {
    path: PathBuf,
    files: usize,
    manifest_sha256: Option<ManifestHash>,
}

#[derive(Debug, thiserror::Error)]
#[error("cannot derive the folder's name from `{}`", path.display())]
struct NoName {
    path: PathBuf,
}

pub(super) async fn run(arguments: UnpackArgs, context: &Context<'_>) -> Result<Exit, Failure> {
    let output = context.output;
    let path = match arguments.output {
        Some(path) => path,
        None => default_folder(&arguments.model.path)?,
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

/// Returns the carton's name without `.carton`, in the current folder.
fn default_folder(model: &Path) -> Result<PathBuf, Failure> {
    let text = model.to_str();
    let without_hash = text.and_then(|text| text.split_once("#sha256=")).map_or(model, |(path, _)| Path::new(path));
    // Query and fragment of a URL are not part of the name.
    let name = match without_hash.to_str() {
        Some(text) if Place::is_url(text) => Path::new(text.split(['?', '#']).next().unwrap_or(text)),
        _ => without_hash,
    };
    match name.file_stem() {
        Some(stem) if !stem.is_empty() => Ok(PathBuf::from(stem)),
        _ => {
            let error = NoName { path: model.to_path_buf() };
            Err(Failure::usage(error).hint("name it: --output FOLDER"))
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn the_folder_is_called_like_the_carton() {
        let check = |location: &str, expected: &str| {
            assert_eq!(default_folder(Path::new(location)).unwrap(), Path::new(expected))
        };
        check("digits.carton", "digits");
        check("/models/digits.v2.carton", "digits.v2");
        check("digits.carton#sha256=00ff", "digits");
        check("https://host/models/digits.carton?token=a/b.c#sha256=00ff", "digits");
        assert_eq!(default_folder(Path::new("/")).unwrap_err().exit(), Exit::Usage);
    }
}
