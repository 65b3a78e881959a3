//! Chooses the files that are left out, and makes the LINKS. Reads no file.

use std::collections::{BTreeMap, BTreeSet};

use carton_format::digest::Sha256Digest;
use carton_format::links::{self, Links};
use carton_format::tensor_data;
use carton_format::url::{ShownUrl, Url};

use super::{LeaveOut, LeftOut, ShrinkError};
use crate::contents::{Contents, FileInfo};
use crate::package;
use crate::shrink_error::READABLE;

/// What will be in the carton and what will not. Made without reading any file.
pub(super) struct ShrinkPlan {
    pub(super) left_out: Vec<LeftOut>,
    /// The paths of all files that will not be in the carton: those that are left out now, and those that already were.
    pub(super) missing: BTreeSet<String>,
    /// The paths of the symbolic links, which need no bytes.
    symlinks: BTreeSet<String>,
    pub(super) links: Links,
    pub(super) unmatched: Vec<Sha256Digest>,
}

impl ShrinkPlan {
    pub(super) fn make(contents: &Contents, leave_out: &LeaveOut) -> Result<Self, ShrinkError> {
        let files = contents.files();
        let (chosen, links): (Chosen<'_>, Links) = match leave_out {
            LeaveOut::Linked(links) => check_urls(links).and_then(|()| choose_linked(contents, &files, links))?,
            LeaveOut::Large { url_prefix, min_size } => choose_large(contents, &files, url_prefix, *min_size)?,
        };
        let unmatched = match leave_out {
            LeaveOut::Linked(given) => {
                let there: BTreeSet<Sha256Digest> = files.iter().filter_map(|file| file.sha256).collect();
                given.iter().map(|(digest, _)| *digest).filter(|digest| !there.contains(digest)).collect()
            }
            LeaveOut::Large { .. } => Vec::new(),
        };
        // What the carton's author wrote stays, but in an invalid URL no password can be found.
        parsed(contents.links())?;
        let links = links.merged(contents.links());
        let left_out: Vec<LeftOut> = chosen
            .into_iter()
            .map(|(file, sha256, size)| LeftOut {
                path: file.path.clone(),
                sha256,
                size,
                urls: links.urls(&sha256).iter().filter_map(|url| Url::parse(url).ok()).collect(),
                saved: None,
            })
            .collect();
        let linked = files.iter().filter(|file| file.linked).map(|file| file.path.clone());
        let missing = left_out.iter().map(|file| file.path.clone()).chain(linked).collect();
        let symlinks = files.iter().filter(|file| file.symlink.is_some()).map(|file| file.path.clone()).collect();
        Ok(Self { left_out, missing, symlinks, links, unmatched })
    }

    /// Whether the bytes of the file at this path are needed. Files that were linked before are not.
    pub(super) fn needs(&self, path: &str, is_saving: bool) -> bool {
        match self.missing.contains(path) {
            true => is_saving && self.left_out.binary_search_by(|file| file.path.as_str().cmp(path)).is_ok(),
            false => !self.symlinks.contains(path),
        }
    }
}

type Chosen<'a> = Vec<(&'a FileInfo, Sha256Digest, u64)>;

/// Whether a carton can be opened without the file at this path.
pub(crate) fn may_be_left_out(path: &str) -> bool {
    let in_tensor_data = path.strip_prefix(tensor_data::FOLDER);
    path != package::METADATA && in_tensor_data != Some(tensor_data::INDEX)
}

/// Returns the files that may be left out. Files that are needed to open a carton, symbolic links, and files that are already
/// linked are not among them.
fn candidates(files: &[FileInfo]) -> impl Iterator<Item = (&FileInfo, Sha256Digest, u64)> {
    let may = |file: &&FileInfo| file.symlink.is_none() && !file.linked && may_be_left_out(&file.path);
    files.iter().filter(may).filter_map(|file| Some((file, file.sha256?, file.size?)))
}

fn choose_linked<'a>(
    contents: &Contents,
    files: &'a [FileInfo],
    links: &Links,
) -> Result<(Chosen<'a>, Links), ShrinkError> {
    let chosen: Chosen<'a> = candidates(files).filter(|(_, digest, _)| !links.urls(digest).is_empty()).collect();
    if chosen.is_empty() {
        return Err(ShrinkError::NoneLinked { location: contents.location(), n_links: links.iter().len() });
    }
    // Files that were linked before may get more URLs. Links of files of other cartons are ignored.
    let listed = files.iter().filter(|file| may_be_left_out(&file.path));
    let listed: BTreeSet<Sha256Digest> = listed.filter_map(|file| file.sha256).collect();
    let of_carton = links.iter().filter(|(digest, _)| listed.contains(digest));
    let urls = of_carton.map(|(digest, urls)| (*digest, urls.to_vec())).collect();
    let said = links.iter().filter_map(|(digest, _)| Some((*digest, links.size(digest)?)));
    let known: BTreeMap<_, _> = said.chain(chosen.iter().map(|(_, digest, size)| (*digest, *size))).collect();
    Ok((chosen, Links::from_urls(urls)?.with_sizes(known)))
}

fn choose_large<'a>(
    contents: &Contents,
    files: &'a [FileInfo],
    url_prefix: &str,
    min_size: u64,
) -> Result<(Chosen<'a>, Links), ShrinkError> {
    let is_large = |(file, _, size): &(&FileInfo, _, u64)| file.path.starts_with("model/") && *size >= min_size;
    let chosen: Chosen<'a> = candidates(files).filter(is_large).collect();
    if chosen.is_empty() {
        return Err(ShrinkError::NoneLarge { location: contents.location(), min_size });
    }
    let prefix = url_prefix.trim_end_matches('/');
    let url = |digest: &Sha256Digest| vec![format!("{prefix}/{digest}")];
    let urls = chosen.iter().map(|(_, digest, _)| (*digest, url(digest))).collect();
    let links = Links::from_urls(urls)?.with_sizes(chosen.iter().map(|(_, digest, size)| (*digest, *size)));
    Ok((chosen, links))
}

/// Refuses URLs with a user or password, which anyone who has the carton could read, and URLs in which they cannot be found.
pub(super) fn check_urls(links: &Links) -> Result<(), ShrinkError> {
    match parsed(links)?.iter().find(|url| url.has_user()) {
        Some(url) => Err(ShrinkError::User { url: url.shown() }),
        None => Ok(()),
    }
}

/// Parses all URLs. Refuses invalid ones.
fn parsed(links: &Links) -> Result<Vec<Url>, ShrinkError> {
    let parse =
        |text: &String| Url::parse(text).map_err(|source| ShrinkError::Url { url: ShownUrl::of_text(text), source });
    links.iter().flat_map(|(_, urls)| urls).map(parse).collect()
}

/// Checks that the URLs of files may begin with `prefix`. Anyone who has the carton can read them.
pub(super) fn check_prefix(prefix: &str) -> Result<(), ShrinkError> {
    let parsed = Url::parse(prefix).ok().filter(|_| links::is_url(prefix));
    let shown = || match &parsed {
        Some(url) => url.shown(),
        None if prefix.contains('@') => ShownUrl::hidden(),
        None => ShownUrl::of_text(prefix),
    };
    let refuse = |reason| Err(ShrinkError::Prefix { prefix: shown(), reason });
    match &parsed {
        None => refuse("it is not an http, https or file URL"),
        Some(url) if url.has_user() => refuse(READABLE),
        Some(url) if url.has_hidden_parts() => refuse("it has a query or a fragment"),
        Some(_) => Ok(()),
    }
}
