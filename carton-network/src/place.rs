//! A path or a URL: where a carton, an index of runners or an archive of one is. Pure.

use std::fmt;
use std::path::{Path, PathBuf};

use carton_format::url::{InvalidUrl, Url};

use crate::hub::{self, HubName};
use crate::object_stores;
use crate::oci::{self, Reference};

/// A path or a URL, by what it names. `Display` and `Debug` leave out the parts of a URL that may be secret.
///
/// The variants are complete: callers match on all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// A file or folder of this machine.
    Path(PathBuf),
    /// An `http` or `https` URL: a file on a server.
    Web(Url),
    /// An `oci` URL: an artifact in a registry of container images.
    Oci(Url),
    /// An `hf` URL: a repository on the Hugging Face Hub, or a file in one.
    Hub(Url),
    /// An `s3`, `gs` or `az` URL: an object in an object store.
    ObjectStore(Url),
}

/// The text begins as a URL but is not a valid one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[error("the `{scheme}:` URL is not valid: {reason}")]
pub struct PlaceError {
    /// The scheme. The rest is not shown, because a password in it cannot be found in an invalid URL.
    pub scheme: String,
    /// The reason, in words.
    pub reason: String,
}

/// Why an index does not say where something is.
#[derive(Debug, thiserror::Error)]
pub enum ResolveError {
    /// The text is neither a URL nor one relative to the index.
    #[error("its URL is not valid: {0}")]
    Url(InvalidUrl),
    /// The URL has another scheme than a place can have.
    #[error("its URL begins with `{scheme}:`, expected `http:`, `https:` or, in an index on this machine, `file:`")]
    Scheme {
        /// The scheme that was found.
        scheme: String,
    },
    /// A `file:` URL of another machine.
    #[error("its URL names a path on another machine")]
    NoPath,
    /// The folder of the index is not known.
    #[error("the index `{}` has no absolute path", path.display())]
    Index {
        /// The path of the index.
        path: PathBuf,
    },
}

impl Place {
    /// Text is a URL when it begins with `http:`, `https:`, `oci:`, `hf:` or `file:`, or with a scheme and `://`, as `s3://`; everything else is a path. A `file:` URL is the path of its
    /// percent-decoded text.
    ///
    /// # Errors
    /// The text is a URL that is not valid, has a fragment, or is one of an unknown scheme.
    pub fn parse(text: &str) -> Result<Self, PlaceError> {
        Self::parse_with(text, "it has a fragment; write a `#` that belongs to the path as `%23`")
    }

    /// Whether [`parse`](Self::parse) takes the text for a URL, valid or not, rather than for a path.
    #[must_use]
    pub fn is_url(text: &str) -> bool {
        scheme(text).is_some()
    }

    /// Does what [`parse`](Self::parse) does; `fragment` is the reason to refuse a URL with a fragment.
    ///
    /// # Errors
    /// As [`parse`](Self::parse).
    pub fn parse_with(text: &str, fragment: &str) -> Result<Self, PlaceError> {
        let Some(scheme) = scheme(text) else { return Ok(Self::Path(PathBuf::from(text))) };
        let text = text.trim();
        let rest = &text[scheme.len() + 1..];
        let parsed = match scheme.as_str() {
            // The URL standard would make `http:host` and `http:/host` the same as `http://host`.
            "http" | "https" if !rest.starts_with("//") => Err("`//` and a host must follow".to_owned()),
            // The URL standard would take a relative path as an absolute one.
            "file" if !rest.starts_with('/') => {
                Err("an absolute path must follow; for a relative one, leave `file:` away".to_owned())
            }
            "http" | "https" | "file" => Url::parse(text).map_err(|error| error.to_string()),
            oci::SCHEME => text.parse::<Reference>().map_err(|error| error.to_string()).and_then(|reference| {
                // The form without a tag's default and with the host in lower case, so that a place has one name.
                Url::parse(&reference.to_string()).map_err(|error| error.to_string())
            }),
            hub::SCHEME => text
                .parse::<HubName>()
                .map_err(|error| error.to_string())
                .and_then(|name| Url::parse(&name.to_string()).map_err(|error| error.to_string())),
            scheme if object_stores::is_scheme(scheme) => {
                let url = Url::parse(text).map_err(|error| error.to_string());
                url.and_then(|url| object_stores::check(&url).map(|()| url).map_err(str::to_owned))
            }
            _ => Err(UNKNOWN_SCHEME.to_owned()),
        };
        parsed.map_err(|reason| PlaceError { scheme, reason }).and_then(|url| Self::from_url(url, fragment))
    }

    /// Returns the place of a URL; `fragment` is the reason to refuse one with a fragment.
    ///
    /// # Errors
    /// The scheme is unknown, or the URL is none of its scheme.
    pub fn from_url(url: Url, fragment: &str) -> Result<Self, PlaceError> {
        let whole = url.expose();
        let place = match url.scheme() {
            "http" | "https" | "file" if whole.fragment().is_some() => Err(fragment),
            "http" | "https" => return Ok(Self::Web(url)),
            oci::SCHEME => {
                return match Reference::from_url(&url) {
                    Ok(_) => Ok(Self::Oci(url)),
                    Err(error) => Err(PlaceError { scheme: oci::SCHEME.to_owned(), reason: error.to_string() }),
                };
            }
            hub::SCHEME => {
                return match HubName::from_url(&url) {
                    Ok(_) => Ok(Self::Hub(url)),
                    Err(error) => Err(PlaceError { scheme: hub::SCHEME.to_owned(), reason: error.to_string() }),
                };
            }
            scheme if object_stores::is_scheme(scheme) => {
                return match object_stores::check(&url) {
                    Ok(()) if whole.fragment().is_none() => Ok(Self::ObjectStore(url)),
                    Ok(()) => Err(PlaceError { scheme: scheme.to_owned(), reason: fragment.to_owned() }),
                    Err(reason) => Err(PlaceError { scheme: scheme.to_owned(), reason: reason.to_owned() }),
                };
            }
            "file" if whole.query().is_some() => Err("it has a query; write a `?` that belongs to the path as `%3F`"),
            "file" => whole.to_file_path().map(Self::Path).map_err(|()| "it names another host than this one"),
            _ => Err(UNKNOWN_SCHEME),
        };
        place.map_err(|reason| PlaceError { scheme: url.scheme().to_owned(), reason: reason.to_owned() })
    }

    /// Whether this names one file: not a repository on the Hub, which has many, and not an artifact of a registry.
    #[must_use]
    pub fn names_a_file(&self) -> bool {
        match self {
            Self::Path(_) | Self::Web(_) | Self::ObjectStore(_) => true,
            Self::Oci(_) => false,
            Self::Hub(url) => HubName::from_url(url).is_ok_and(|name| name.file().is_some()),
        }
    }

    /// Returns the place of the file that an index at this place refers to by `url`: an absolute URL, or one relative to the index. An
    /// index on a server must not refer to files of this machine: it could have any of them read.
    ///
    /// # Errors
    /// The text is no URL; the URL has another scheme, or leads from a server to this machine.
    pub fn resolve(&self, url: &str) -> Result<Self, ResolveError> {
        let (base, files_allowed) = match self {
            Self::Web(index) | Self::Oci(index) | Self::Hub(index) | Self::ObjectStore(index) => (index.clone(), false),
            Self::Path(path) => {
                let absolute = std::path::absolute(path).ok();
                let base = absolute.and_then(Url::from_file_path);
                (base.ok_or_else(|| ResolveError::Index { path: path.clone() })?, true)
            }
        };
        let url = base.join(url).map_err(ResolveError::Url)?;
        match url.scheme() {
            "http" | "https" => Ok(Self::Web(url)),
            "file" if files_allowed => url.expose().to_file_path().map(Self::Path).map_err(|()| ResolveError::NoPath),
            scheme => Err(ResolveError::Scheme { scheme: scheme.to_owned() }),
        }
    }

    /// The path; `None` for a URL.
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        match self {
            Self::Path(path) => Some(path),
            _ => None,
        }
    }

    /// The URL; `None` for a path.
    #[must_use]
    pub fn url(&self) -> Option<&Url> {
        match self {
            Self::Web(url) | Self::Oci(url) | Self::Hub(url) | Self::ObjectStore(url) => Some(url),
            Self::Path(_) => None,
        }
    }

    /// The place of the file `name` beside the file that this place names. A URL keeps its query, which may be a login. `None` if this place
    /// names no file, or if `name` is not that of a file in a folder.
    #[must_use]
    pub fn beside(&self, name: &str) -> Option<Self> {
        let beside = |url: &Url| url.with_file_name(name);
        let is_plain = !name.contains(['/', '\\', '\0']) && !matches!(name, "" | "." | "..");
        match self {
            _ if !is_plain || !self.names_a_file() => None,
            Self::Path(path) => Some(Self::Path(path.with_file_name(name))),
            Self::Web(url) => beside(url).map(Self::Web),
            Self::Hub(url) => beside(url).map(Self::Hub),
            Self::ObjectStore(url) => beside(url).map(Self::ObjectStore),
            Self::Oci(_) => None,
        }
    }
}

/// Why a URL with another scheme is refused.
const UNKNOWN_SCHEME: &str = "only `http`, `https`, `oci`, `hf`, `s3`, `gs`, `az` and `file` are known";

/// The scheme, in lower case, of text that is a URL; `None` for a path.
fn scheme(text: &str) -> Option<String> {
    // A copied URL often has a blank before it.
    let (scheme, rest) = text.trim().split_once(':')?;
    let scheme = scheme.to_ascii_lowercase();
    // With `//` after an unknown scheme, the text is not meant as a path, and may hold a password.
    let is_url = match scheme.as_str() {
        "http" | "https" | "file" | oci::SCHEME | hub::SCHEME => true,
        _ => is_scheme(&scheme) && rest.starts_with("//"),
    };
    is_url.then_some(scheme)
}

/// Whether text can be the scheme of a URL (RFC 3986, section 3.1).
fn is_scheme(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'))
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Path(path) => path.display().fmt(f),
            Self::Web(url) | Self::Oci(url) | Self::Hub(url) | Self::ObjectStore(url) => url.fmt(f),
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
                Place::Path(path) => path.display().to_string(),
                place => place.url().unwrap().expose_str().to_owned(),
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
    fn text_is_a_path_or_a_url() {
        let check = |text: &str, is_url: bool, expected: Result<&str, &str>| {
            assert_eq!(Place::is_url(text), is_url, "{text}");
            match (Place::parse(text), expected) {
                (Ok(place), Ok(expected)) => assert_eq!(place.to_string(), expected),
                (Err(error), Err(expected)) => assert!(error.to_string().contains(expected), "{error}"),
                (found, _) => panic!("{text}: {found:?}"),
            }
        };
        check("onnx", false, Ok("onnx"));
        check("C:/x", false, Ok("C:/x"));
        check("./odd://name", false, Ok("./odd://name"));
        check(" HTTPS://Host/x", true, Ok("https://host/x"));
        check("file:/srv/x", true, Ok("/srv/x"));
        check("file:x", true, Err("an absolute path must follow"));
        check("https:x", true, Err("`//` and a host must follow"));
        check("ftp://x", true, Err("only `http`"));
        check("s3://Bucket/a/b.carton", true, Ok("s3://Bucket/a/b.carton"));
        check("s3://bucket", true, Err("expected a bucket and the key"));
        check("gs://me:secret@bucket/x", true, Err("credentials are those of the environment"));
        check("oci://Host/x:1", true, Ok("oci://host/x:1"));
        check("oci:x", true, Err("expected `oci://`"));
        check("hf://Team/Model@v1", true, Ok("hf://Team/Model@v1"));
        check("hf://team", true, Err("expected `hf://`"));
        check("oci://host/X", true, Err("is not the name of a repository"));
        check("https://host/x#y", true, Err("it has a fragment; write a `#` that belongs to the path as `%23`"));
        check("file:/srv/x#y", true, Err("it has a fragment; write"));
    }

    #[test]
    fn a_file_has_files_beside_it() {
        let check = |place: &str, expected: Option<&str>| {
            let beside = Place::parse(place).unwrap().beside("a b?#.x");
            let text = |place: &Place| match place.url() {
                Some(url) => url.expose_str().to_owned(),
                None => place.to_string(),
            };
            assert_eq!(beside.as_ref().map(text).as_deref(), expected, "{place}");
        };
        check("folder/index.json", Some("folder/a b?#.x"));
        check("index.json", Some("a b?#.x"));
        check("https://host/a/index.json?key=1", Some("https://host/a/a%20b%3F%23.x?key=1"));
        check("hf://team/model@v1/a/index.json", Some("hf://team/model@v1/a/a%20b%3F%23.x"));
        check("s3://bucket/a/index.json", Some("s3://bucket/a/a%20b%3F%23.x"));
        check("hf://team/model", None);
        check("oci://host/model:1", None);
        for name in ["", ".", "..", "a/b", "/etc/passwd", "..\\x"] {
            assert_eq!(Place::parse("folder/index.json").unwrap().beside(name), None, "{name}");
            assert_eq!(Place::parse("https://host/a/index.json").unwrap().beside(name), None, "{name}");
        }
    }

    #[test]
    fn secrets_are_not_shown() {
        let place = Place::parse("https://me:secret@host/index.json?key=1").unwrap();
        assert_eq!(place.to_string(), "https://host/index.json?…");
        assert_eq!(format!("{place:?}"), "Web(\"https://host/index.json?…\")");
    }
}
