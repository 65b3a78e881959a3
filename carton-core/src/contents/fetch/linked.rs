//! Fetches files that are not in the carton: from the carton's registry, or from their URLs in LINKS.

use std::io::Read;
use std::path::Path;

use carton_format::causes::in_one_line;
use carton_format::digest::Sha256Digest;
use carton_format::error_kind::ErrorKind;
use carton_format::source::{FileSource, Source};
use carton_format::url::{ShownUrl, Url};
use carton_network::download::{Download, DownloadError, Target};
use carton_network::encoding::{self, Limit};
use carton_network::http::{Network, NetworkError};

use super::Fetch;
use super::settle::{DECODED, settle};
use crate::contents::tree::Item;
use crate::contents::{ContentsError, LinkFailure};
use crate::error::Failure as _;
use crate::fetch_verified::Unverified;

/// Where a file may be.
struct Candidate<'a> {
    /// As LINKS has it; it may be no valid URL.
    url: Result<Url, LinkFailure>,
    network: &'a Network,
}

impl<'a> Fetch<'a> {
    /// Where a file may be, in the order to try.
    fn candidates(&self, digest: &Sha256Digest) -> Vec<Candidate<'a>> {
        let (tree, access) = (self.locator.tree(), self.access);
        let blobs = tree.blobs().places(digest).into_iter().map(|(network, url)| Candidate { url: Ok(url), network });
        let links = tree.links().urls(digest).iter().map(|text| {
            let url = Url::parse(text).map_err(|error| {
                let url = ShownUrl::of_text(text);
                let error = NetworkError::Url { url: url.clone(), reason: error.to_string() };
                LinkFailure { url, error: Box::new(error.into()) }
            });
            Candidate { url, network: &access.link_network }
        });
        blobs.chain(links).collect()
    }

    /// A file that is not in the carton, from the first place that has it.
    pub(super) fn link(&self, item: &Item, digest: Sha256Digest) -> Result<(), ContentsError> {
        let path = &item.path;
        let lock = self.cache.files().lock(&digest, self.context.cancel_token())?;
        if lock.file(self.context.cancel_token())?.is_some() {
            return Ok(());
        }
        let mut failures = Vec::new();
        let candidates = self.candidates(&digest);
        let n_candidates = candidates.len();
        let size = self.locator.tree().size_elsewhere(&digest);
        for Candidate { url, network } in candidates {
            let url = match url {
                Ok(url) => url,
                Err(failure) => {
                    failures.push(failure);
                    continue;
                }
            };
            let result = settle(&lock, path, |folder| {
                let fetched = match url.scheme() {
                    "file" => self.local_file(&url, size, path, &folder.join(DECODED)),
                    _ => self.remote_file(network, &url, size, path, folder),
                }?;
                if fetched.digest == digest {
                    check_size(&fetched.file, size, path)?;
                }
                Ok(fetched)
            });
            match result {
                Ok(()) => return Ok(()),
                // Another URL would not help.
                Err(error) if matches!(error.kind(), ErrorKind::Interrupted | ErrorKind::Machine) => return Err(error),
                Err(error) => {
                    if failures.len() + 1 < n_candidates {
                        let error = in_one_line(&error);
                        tracing::warn!(
                            "`{path}` could not be fetched from `{}`: {error}; trying its next URL",
                            url.shown()
                        );
                    }
                    failures.push(LinkFailure { url: url.shown(), error: Box::new(error) });
                }
            }
        }
        Err(ContentsError::Unavailable { path: path.clone(), digest, failures })
    }

    fn remote_file(
        &self,
        network: &Network,
        url: &Url,
        size: Option<u64>,
        path: &str,
        folder: &Path,
    ) -> Result<Unverified, ContentsError> {
        let limit = Limit { declared: size, ..Limit::default() };
        let target = Target {
            url,
            version: None,
            range: None,
            folder,
            accept_encoded: true,
            // The declared size is the decoded one, which may be smaller than the encoded one.
            limit: limit.absolute.max(size.unwrap_or(0)),
        };
        let download = Download::start(network, &target, &self.activity).map_err(|error| match error {
            DownloadError::Network(NetworkError::Private { url, at }) => {
                ContentsError::PrivateLinkRefused { path: path.to_owned(), url, at }
            }
            error => error.into(),
        })?;
        if download.encodings().is_empty() {
            if let (Some(size), Some(found)) = (size, download.length().filter(|found| Some(*found) != size)) {
                return Err(wrong_size(path, size, found));
            }
            // One byte more than declared proves that it is another file.
            let mut reader = download.reader().take(size.map_or(u64::MAX, |size| size.saturating_add(1)));
            return Ok(Unverified { digest: self.hash(&mut reader, path)?, file: download.path() });
        }
        let mut reader = encoding::decode(download.reader(), download.encodings(), limit)
            .map_err(|source| ContentsError::Encoding { path: path.to_owned(), source })?;
        let file = folder.join(DECODED);
        Ok(Unverified { digest: self.write(&mut reader, &file, path)?, file })
    }

    /// A copy of a local file: the original may change.
    fn local_file(
        &self,
        url: &Url,
        size: Option<u64>,
        path: &str,
        decoded: &Path,
    ) -> Result<Unverified, ContentsError> {
        if !self.access.file_links {
            return Err(ContentsError::FileLinkRefused { path: path.to_owned(), url: url.shown() });
        }
        let cannot_open = |source| ContentsError::FileLink { url: url.shown(), source };
        let file = url.expose().to_file_path().map_err(|()| cannot_open(std::io::ErrorKind::InvalidFilename.into()))?;
        let source = FileSource::open(&file).map_err(cannot_open)?;
        let file = source.file().ok_or_else(|| cannot_open(std::io::ErrorKind::Unsupported.into()))?;
        // One byte more than declared proves that it is another file.
        let mut reader = file.take(size.map_or(u64::MAX, |size| size.saturating_add(1)));
        Ok(Unverified { digest: self.write(&mut reader, decoded, path)?, file: decoded.to_path_buf() })
    }
}

/// Refuses a file whose size is not the declared one, even if its digest is right. The result then does not depend on whether the
/// answer states a size or is encoded (spec/carton-format-extensions.md).
fn check_size(file: &Path, declared: Option<u64>, path: &str) -> Result<(), ContentsError> {
    let Some(declared) = declared else { return Ok(()) };
    let found = std::fs::metadata(file).map_err(ContentsError::io("inspect", file))?.len();
    if found == declared { Ok(()) } else { Err(wrong_size(path, declared, found)) }
}

fn wrong_size(path: &str, declared: u64, found: u64) -> ContentsError {
    ContentsError::Size { path: path.to_owned(), expected: format!("exactly {declared}, as declared"), found }
}
