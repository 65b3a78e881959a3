//! `carton info --html`: writes the card of a model as a web page; and how every command writes a page.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use carton_card::Card;
use carton_core::{CancelToken, ManifestHash, Package};
use carton_tensor::files::PendingFile;
use serde::Serialize;

use super::{Context, open};
use crate::args::ModelArgs;
use crate::failure::{Exit, Failure};
use crate::interrupt;
use crate::text::one_line;

/// The result of `--html` for `--json`.
#[derive(Serialize)]
struct Written {
    html: PathBuf,
    manifest_sha256: Option<ManifestHash>,
}

#[derive(Debug, thiserror::Error)]
enum HtmlError {
    #[error("standard output is the page, and has no room for the result of --json")]
    JsonToo,
    #[error("cannot write `{}`", path.display())]
    Write { path: PathBuf, source: io::Error },
}

/// Writes the card to `path`; `-` is standard output.
pub(super) async fn write(model: &ModelArgs, path: PathBuf, context: &Context<'_>) -> Result<Exit, Failure> {
    check(&path, context)?;
    let package = open::open_with_signing(model, false, context).await?;
    let written = Written { html: path.clone(), manifest_sha256: package.manifest_sha256() };
    write_page(path, move |cancel_token| html_page(package, cancel_token), &written, context).await?;
    Ok(Exit::Ok)
}

/// Makes the web page of the carton.
fn html_page(package: Package, cancel_token: &CancelToken) -> String {
    Card::new(&package.cancel_token(cancel_token.clone())).standalone_html()
}

/// Checks that the page and the result of `--json` do not go to the same place.
pub(super) fn check(path: &Path, context: &Context<'_>) -> Result<(), Failure> {
    match path == Path::new("-") && context.output.is_json() {
        true => Err(Failure::usage(HtmlError::JsonToo)),
        false => Ok(()),
    }
}

/// Writes a page to `path`, or to standard output if that is `-`, and tells of the file. The file is complete or absent.
pub(super) async fn write_page(
    path: PathBuf,
    page: impl FnOnce(&CancelToken) -> String + Send + 'static,
    written: &impl Serialize,
    context: &Context<'_>,
) -> Result<(), Failure> {
    if path == Path::new("-") {
        let page = interrupt::blocking(move |cancel_token| Ok(page(cancel_token))).await?;
        return context.output.text(&page);
    }
    let shown = one_line(&path.display().to_string());
    interrupt::blocking(move |cancel_token| {
        let unwritable = |source| Failure::new(HtmlError::Write { path: path.clone(), source });
        // Made first, so that a folder that cannot be written to is reported at once.
        let mut file = PendingFile::new(&path).map_err(unwritable)?;
        let page = page(cancel_token);
        file.file_mut().write_all(page.as_bytes()).map_err(unwritable)?;
        cancel_token.begin_publishing()?;
        file.publish().map_err(unwritable)
    })
    .await?;
    match context.output.is_json() {
        true => context.output.json(written),
        false => context.output.text(&format!("{shown}\n")),
    }
}
