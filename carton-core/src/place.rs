//! A path or a URL: where a carton, an index of runners or an archive of one is. Pure.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::network::{Url, address};

/// A path or a URL. `Display` and `Debug` leave out the parts of a URL that may be secret.
#[derive(Clone, PartialEq, Eq)]
pub enum Place {
    /// An `http` or `https` URL.
    Url(Url),
    /// A file or folder of this machine.
    Path(PathBuf),
}

/// Why a text is not a place.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PlaceError {
    /// Neither a valid URL nor, from there, a relative one.
    #[error("its URL is not valid: {0}")]
    Url(url::ParseError),
    /// A scheme that an index on a server may not name: it could have any file of this machine read.
    #[error("its URL begins with `{scheme}:`, only http and https are allowed in a remote index")]
    Scheme {
        /// The scheme.
        scheme: String,
    },
    /// A `file:` URL of another machine, or one that is no path.
    #[error("its URL is no path on this machine")]
    NoPath,
    /// The folder of the index cannot be told.
    #[error("the index `{}` has no absolute path", path.display())]
    Index {
        /// The index.
        path: PathBuf,
    },
}

impl Place {
    /// Text that begins with `http://` or `https://` is a URL; `file://` and everything else is a path.
    ///
    /// # Errors
    /// A URL that is not valid, or a `file:` URL that is no path here.
    pub fn parse(text: &str) -> Result<Self, PlaceError> {
        match text.split_once("://").map(|(scheme, _)| scheme.to_ascii_lowercase()).as_deref() {
            Some("http" | "https") => Ok(Self::Url(Url::parse(text).map_err(PlaceError::Url)?)),
            Some("file") => {
                let url = Url::parse(text).map_err(PlaceError::Url)?;
                Ok(Self::Path(url.to_file_path().map_err(|()| PlaceError::NoPath)?))
            }
            _ => Ok(Self::Path(PathBuf::from(text))),
        }
    }

    /// Where something is that the index at this place names, by an absolute URL or one relative to the index.
    pub(crate) fn resolve(&self, url: &str) -> Result<Self, PlaceError> {
        match self {
            Self::Url(index) => {
                let url = index.join(url).map_err(PlaceError::Url)?;
                match url.scheme() {
                    "http" | "https" => Ok(Self::Url(url)),
                    scheme => Err(PlaceError::Scheme { scheme: scheme.to_owned() }),
                }
            }
            Self::Path(path) => {
                let no_path = |_| PlaceError::Index { path: path.clone() };
                let absolute = std::path::absolute(path).map_err(no_path)?;
                let index = Url::from_file_path(absolute).map_err(|()| PlaceError::Index { path: path.clone() })?;
                let url = index.join(url).map_err(PlaceError::Url)?;
                match url.scheme() {
                    "http" | "https" => Ok(Self::Url(url)),
                    "file" => Ok(Self::Path(url.to_file_path().map_err(|()| PlaceError::NoPath)?)),
                    scheme => Err(PlaceError::Scheme { scheme: scheme.to_owned() }),
                }
            }
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

impl fmt::Debug for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Url(url) => f.debug_tuple("Url").field(&address(url)).finish(),
            Self::Path(path) => f.debug_tuple("Path").field(path).finish(),
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Url(url) => f.write_str(&address(url)),
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
                Place::Url(url) => url.to_string(),
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
        check(remote, "file:///etc/passwd", Err("only http and https"));
        check(remote, "FILE:/etc/passwd", Err("only http and https"));
        check(remote, "data:,x", Err("only http and https"));
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
