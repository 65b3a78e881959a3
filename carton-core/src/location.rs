//! The location of a carton: a path or a URL, with the hash that the carton must have.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::Error;
use crate::manifest::ManifestHash;
use crate::network::Url;
use crate::place::Place;

/// Separates the path or URL from the expected hash of the carton.
const PIN: &str = "#sha256=";

/// The path or URL of a carton, and the hash that the carton must have, if any.
///
/// Text is a URL when it begins with `http:`, `https:` or `file:`; everything else is a path. A `file:` URL is the path of its
/// percent-decoded text. Text may end in `#sha256=` and the hash that the carton must have. Any other fragment is an error; otherwise a
/// misspelt pin would be ignored. Paths are used as they are.
///
/// Making a location never fails: [`place`](Self::place) returns the error of an invalid URL. `Display` and `Debug` leave out the user,
/// the password and the query of a URL.
///
/// ```
/// use carton_core::Location;
/// assert!(Location::from("digits.carton").path().is_some());
/// assert!(Location::from("https://host/digits.carton").url().is_some());
/// assert!(Location::from("https://host:port/digits.carton").place().is_err());
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Location {
    place: Result<Place, LocationError>,
    pin: Option<String>,
}

/// The text begins as a URL but is not a valid one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the `{scheme}:` URL is not valid: {reason}")]
pub struct LocationError {
    /// The scheme. The rest is not shown, because a password in it cannot be found in an invalid URL.
    pub scheme: String,
    /// What is wrong with it.
    pub reason: String,
}

impl Location {
    /// The path; `None` for a URL.
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        self.place.as_ref().ok().and_then(Place::path)
    }

    /// The URL; `None` for a path, and for a URL that is not valid.
    #[must_use]
    pub fn url(&self) -> Option<&Url> {
        self.place.as_ref().ok().and_then(Place::url)
    }

    /// The path or the URL.
    ///
    /// # Errors
    /// The text was a URL that is not valid.
    pub fn place(&self) -> Result<&Place, LocationError> {
        self.place.as_ref().map_err(LocationError::clone)
    }

    /// The hash that the carton's MANIFEST must have: `expect`, or what follows `#sha256=`.
    pub(crate) fn expected(&self, expect: Option<ManifestHash>) -> Result<Option<ManifestHash>, Error> {
        let Some(pin) = &self.pin else { return Ok(expect) };
        let pinned = pin.parse().map_err(|_| Error::Pin { found: pin_shown(pin) })?;
        match expect {
            Some(expect) if expect != pinned => Err(Error::TwoPins { pinned, expect }),
            _ => Ok(Some(pinned)),
        }
    }
}

/// As much of a pin as may be shown: a URL's end may hold anything, a hash holds no secret.
fn pin_shown(pin: &str) -> String {
    match pin.bytes().all(|byte| byte.is_ascii_hexdigit()) && pin.len() <= 128 {
        true => format!("`{pin}`"),
        false => "something else".to_owned(),
    }
}

fn parse(text: &str) -> Result<Place, LocationError> {
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
    parsed.map_err(|reason| LocationError { scheme, reason })
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
    let url = Url::parse(text).map_err(|error| error.to_string())?;
    without_fragment(url)
}

fn parse_file(text: &str) -> Result<PathBuf, String> {
    // The URL standard would take a relative path as an absolute one.
    if !text.split_once(':').is_some_and(|(_, rest)| rest.starts_with('/')) {
        return Err("an absolute path must follow; for a relative one, leave `file:` away".to_owned());
    }
    let url = without_fragment(Url::parse(text).map_err(|error| error.to_string())?)?;
    if url.query().is_some() {
        return Err("it has a query; write a `?` that belongs to the path as `%3F`".to_owned());
    }
    url.to_file_path().map_err(|()| "it names another host than this one".to_owned())
}

fn without_fragment(url: Url) -> Result<Url, String> {
    match url.fragment() {
        None => Ok(url),
        Some(_) => Err(format!("it has a fragment that is not `{PIN}` and a hash")),
    }
}

impl From<&str> for Location {
    fn from(text: &str) -> Self {
        let (text, pin) = match text.rsplit_once(PIN) {
            Some((text, pin)) => (text, Some(pin.to_owned())),
            None => (text, None),
        };
        Self { place: parse(text), pin }
    }
}

impl From<String> for Location {
    fn from(text: String) -> Self {
        Self::from(text.as_str())
    }
}

impl From<&String> for Location {
    fn from(text: &String) -> Self {
        Self::from(text.as_str())
    }
}

impl From<Url> for Location {
    fn from(url: Url) -> Self {
        Self::from(url.as_str())
    }
}

impl From<&Url> for Location {
    fn from(url: &Url) -> Self {
        Self::from(url.as_str())
    }
}

impl From<PathBuf> for Location {
    fn from(path: PathBuf) -> Self {
        Self { place: Ok(Place::Path(path)), pin: None }
    }
}

impl From<&PathBuf> for Location {
    fn from(path: &PathBuf) -> Self {
        Self::from(path.clone())
    }
}

impl From<&Path> for Location {
    fn from(path: &Path) -> Self {
        Self::from(path.to_path_buf())
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.place {
            Ok(place) => place.fmt(f)?,
            Err(error) => write!(f, "{}:…", error.scheme)?,
        }
        match &self.pin {
            Some(pin) if pin.parse::<ManifestHash>().is_ok() => write!(f, "{PIN}{pin}"),
            Some(_) => write!(f, "{PIN}…"),
            None => Ok(()),
        }
    }
}

impl fmt::Debug for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Location({self})")
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn text_is_a_path_or_a_url() {
        let path = |text: &str, path: &str| {
            assert_eq!(Location::from(text).place(), Ok(&Place::Path(PathBuf::from(path))), "{text}");
            assert_eq!(Location::from(text).to_string(), path);
        };
        path("model.carton", "model.carton");
        path("file:///srv/model.carton", "/srv/model.carton");
        path("file://localhost/srv/m", "/srv/m");
        path("FILE:/srv/a%20b%C3%A4", "/srv/a bä");
        path("file:///srv/a%3Fb%23c", "/srv/a?b#c");
        path("a:b", "a:b");
        path("./odd://name", "./odd://name");
        path(" name", " name");
        let url = |text: &str, url: &str| {
            assert_eq!(Location::from(text).place(), Ok(&Place::Url(Url::parse(url).unwrap())), "{text}");
        };
        url(" https://host/model.carton\n", "https://host/model.carton");
        url("HTTPS://Host/model.carton", "https://host/model.carton");
        url("http://[::1]:8080/a b?c=d#sha256=12", "http://[::1]:8080/a%20b?c=d");
    }

    #[test]
    fn a_url_that_is_none_is_told() {
        let check = |text: &str, expected: &str| {
            let location = Location::from(text);
            assert_eq!(location.place().unwrap_err().to_string(), expected, "{text}");
            assert_eq!((location.path(), location.url()), (None, None));
            assert!(!format!("{location} {location:?}").contains("secret"));
        };
        check("https://me:secret@host:99999/", "the `https:` URL is not valid: invalid port number");
        check("http://", "the `http:` URL is not valid: empty host");
        check("http:secret", "the `http:` URL is not valid: `//` and a host must follow");
        check("http:/secret", "the `http:` URL is not valid: `//` and a host must follow");
        check("https://ho st/secret", "the `https:` URL is not valid: invalid international domain name");
        let schemes = "only `http`, `https` and `file` are known";
        check("s3://me:secret@host/secret", &format!("the `s3:` URL is not valid: {schemes}"));
        let fragment = "it has a fragment that is not `#sha256=` and a hash";
        check("https://host/m#SHA256=secret", &format!("the `https:` URL is not valid: {fragment}"));
        check("file:///m#secret", &format!("the `file:` URL is not valid: {fragment}"));
        check("file://secret/m", "the `file:` URL is not valid: it names another host than this one");
        let relative = "an absolute path must follow; for a relative one, leave `file:` away";
        check("file:secret", &format!("the `file:` URL is not valid: {relative}"));
        check("file:", &format!("the `file:` URL is not valid: {relative}"));
        let query = "it has a query; write a `?` that belongs to the path as `%3F`";
        check("file:///m?secret", &format!("the `file:` URL is not valid: {query}"));
    }

    #[test]
    fn what_is_shown_holds_no_secret() {
        let digest = "ab".repeat(32);
        let check = |text: &str, expected: &str| {
            let location = Location::from(text);
            assert_eq!(
                (location.to_string(), format!("{location:?}")),
                (expected.to_owned(), format!("Location({expected})"))
            );
        };
        let plain = format!("https://host:8443/m?…#sha256={digest}");
        check(&format!("https://me:secret@host:8443/m?sig=secret#sha256={digest}"), &plain);
        check("https://host/m#sha256=12&token=secret", "https://host/m#sha256=…");
        let error = Location::from("https://host/m#sha256=12&token=secret").expected(None).unwrap_err();
        assert!(!format!("{error} {error:?}").contains("secret"));
        let place = Location::from("https://me:secret@host/m?secret");
        assert!(!format!("{:?}", place.place()).contains("secret"));
    }

    #[test]
    fn text_may_pin_a_carton() {
        let digest = |byte: &str| byte.repeat(32).parse::<ManifestHash>().unwrap();
        let pinned = Location::from(format!("m.carton#sha256={}", digest("ab")));
        assert_eq!(pinned.path(), Some(Path::new("m.carton")));
        assert_eq!(pinned.expected(None).unwrap(), Some(digest("ab")));
        assert_eq!(pinned.expected(Some(digest("ab"))).unwrap(), Some(digest("ab")));
        assert!(matches!(pinned.expected(Some(digest("cd"))), Err(Error::TwoPins { .. })));
        assert!(matches!(Location::from("m#sha256=12").expected(None), Err(Error::Pin { .. })));
        assert_eq!(Location::from(Path::new("m#sha256=12")).expected(None).unwrap(), None);
    }
}
