//! A path or a URL: where a carton, an index of runners or an archive of one is. Pure.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::network::{InvalidUrl, Url};

/// A path or a URL. `Display` and `Debug` leave out the parts of a URL that may be secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// An `http` or `https` URL.
    Url(Url),
    /// A file or folder of this machine.
    Path(PathBuf),
}

/// The text begins as a URL but is not a valid one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the `{scheme}:` URL is not valid: {reason}")]
pub struct PlaceError {
    /// The scheme. The rest is not shown, because a password in it cannot be found in an invalid URL.
    pub scheme: String,
    /// What is wrong with it.
    pub reason: String,
}

/// Why an index does not say where something is.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ResolveError {
    /// The text is neither a URL nor one relative to the index.
    #[error("its URL is not valid: {0}")]
    Url(InvalidUrl),
    /// The URL has another scheme than a place can have.
    #[error("its URL begins with `{scheme}:`, expected `http:`, `https:` or, in an index on this machine, `file:`")]
    Scheme { scheme: String },
    /// A `file:` URL of another machine.
    #[error("its URL is no path on this machine")]
    NoPath,
    /// The folder of the index is not known.
    #[error("the index `{}` has no absolute path", path.display())]
    Index { path: PathBuf },
}

impl Place {
    /// Text is a URL when it begins with `http:`, `https:` or `file:`; everything else is a path. A `file:` URL is the path of its
    /// percent-decoded text.
    ///
    /// # Errors
    /// The text is a URL that is not valid, or one of an unknown scheme.
    pub fn parse(text: &str) -> Result<Self, PlaceError> {
        // A copied URL often has a blank before it.
        let trimmed = text.trim();
        let scheme = trimmed.split_once(':').map(|(scheme, _)| scheme.to_ascii_lowercase()).unwrap_or_default();
        let parsed = match scheme.as_str() {
            "http" | "https" => parse_http(trimmed).map(Place::Url),
            "file" => parse_file(trimmed).map(Place::Path),
            // Such text is not meant as a path, and may hold a password.
            _ if is_scheme(&scheme) && trimmed[scheme.len()..].starts_with("://") => {
                Err("only `http`, `https` and `file` are known".to_owned())
            }
            _ => Ok(Place::Path(PathBuf::from(text))),
        };
        parsed.map_err(|reason| PlaceError { scheme, reason })
    }

    /// Returns where the thing is that the index at this place names by `url`: an absolute URL, or one relative to the index. An index on
    /// a server must not name files of this machine: it could have any of them read.
    pub(crate) fn resolve(&self, url: &str) -> Result<Self, ResolveError> {
        let (base, files_allowed) = match self {
            Self::Url(index) => (index.clone(), false),
            Self::Path(path) => {
                let absolute = std::path::absolute(path).ok();
                let base = absolute.and_then(Url::from_file_path);
                (base.ok_or_else(|| ResolveError::Index { path: path.clone() })?, true)
            }
        };
        let url = base.join(url).map_err(ResolveError::Url)?;
        match url.scheme() {
            "http" | "https" => Ok(Self::Url(url)),
            "file" if files_allowed => url.expose().to_file_path().map(Self::Path).map_err(|()| ResolveError::NoPath),
            scheme => Err(ResolveError::Scheme { scheme: scheme.to_owned() }),
        }
    }

    /// The path; `None` for a URL.
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        match self {
            Self::Url(_) => None,
            Self::Path(path) => Some(path),
        }
    }

    /// The URL; `None` for a path.
    #[must_use]
    pub fn url(&self) -> Option<&Url> {
        match self {
            Self::Url(url) => Some(url),
            Self::Path(_) => None,
        }
    }
}

/// Whether text can be the scheme of a URL (RFC 3986, section 3.1).
fn is_scheme(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'))
}

fn parse_http(text: &str) -> Result<Url, String> {
    // The URL standard would make `http:host` and `http:/host` the same as `http://host`.
    if !text.split_once(':').is_some_and(|(_, rest)| rest.starts_with("//")) {
        return Err("`//` and a host must follow".to_owned());
    }
    without_fragment(text)
}

fn parse_file(text: &str) -> Result<PathBuf, String> {
    // The URL standard would take a relative path as an absolute one.
    if !text.split_once(':').is_some_and(|(_, rest)| rest.starts_with('/')) {
        return Err("an absolute path must follow; for a relative one, leave `file:` away".to_owned());
    }
    let url = without_fragment(text)?;
    let url = url.expose();
    if url.query().is_some() {
        return Err("it has a query; write a `?` that belongs to the path as `%3F`".to_owned());
    }
    url.to_file_path().map_err(|()| "it names another host than this one".to_owned())
}

fn without_fragment(text: &str) -> Result<Url, String> {
    let url = Url::parse(text).map_err(|error| error.to_string())?;
    match url.expose().fragment() {
        None => Ok(url),
        Some(_) => Err("it has a fragment that is not `#sha256=` and the hash of a carton".to_owned()),
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Url(url) => url.fmt(f),
            Self::Path(path) => path.display().fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic, clippy::unreachable)]

    use super::*;

    #[test]
    fn parts_are_found_from_the_index() {
        let check = |index: &str, url: &str, expected: Result<&str, &str>| {
            let found = Place::parse(index).unwrap().resolve(url).map(|place| match place {
                Place::Url(url) => url.expose_str().to_owned(),
                Place::Path(path) => path.display().to_string(),
            });
            match (&found, expected) {
                (Ok(found), Ok(expected)) => assert_eq!(found, expected, "{index} {url}"),
                (Err(error), Err(expected)) => assert!(error.to_string().contains(expected), "{error}"),
                _ => panic!("{index} {url}: {found:?}"),
            }
        };
        let remote = "https://host/a/index.json?token=1";
        check(remote, "runner.tar", Ok("https://host/a/runner.tar"));
        check(remote, "../b/runner.tar?x=1", Ok("https://host/b/runner.tar?x=1"));
        check(remote, "//other/x", Ok("https://other/x"));
        check(remote, "http://other/x", Ok("http://other/x"));
        check(remote, "/etc/passwd", Ok("https://host/etc/passwd"));
        check(remote, "file:///etc/passwd", Err("expected `http:`"));
        check(remote, "FILE:/etc/passwd", Err("expected `http:`"));
        check(remote, "data:,x", Err("expected `http:`"));
        check(remote, "http://", Err("not valid"));
        let local = "/srv/my runners/index.json";
        check(local, "runner 1.tar", Ok("/srv/my runners/runner 1.tar"));
        check(local, "runner%201.tar", Ok("/srv/my runners/runner 1.tar"));
        check(local, "../x.tar", Ok("/srv/x.tar"));
        check(local, "/tmp/x.tar", Ok("/tmp/x.tar"));
        check(local, "file:///tmp/x.tar", Ok("/tmp/x.tar"));
        check(local, "https://host/x.tar", Ok("https://host/x.tar"));
        check(local, "ftp://host/x.tar", Err("ftp"));
        check("file:///srv/index.json", "x", Ok("/srv/x"));
    }

    #[test]
    fn secrets_are_not_shown() {
        let place = Place::parse("https://me:secret@host/index.json?key=1").unwrap();
        assert_eq!(place.to_string(), "https://host/index.json?…");
        assert_eq!(format!("{place:?}"), "Url(\"https://host/index.json?…\")");
    }
}
