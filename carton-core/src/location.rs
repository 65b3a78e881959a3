//! The location of a carton: a path or a URL, with the hash that the carton must have.

use crate::error::Failure;
use carton_format::error_kind::ErrorKind;
use std::fmt;
use std::path::{Path, PathBuf};

use carton_format::manifest::ManifestHash;
use carton_format::url::Url;
use carton_network::hub::HubName;
use carton_network::oci::Reference;
use carton_network::place::{Place, PlaceError};

/// Separates the path or URL from the expected hash of the carton.
const PIN: &str = "#sha256=";
/// Why another fragment is refused.
const NO_PIN: &str = "it has a fragment that is not `#sha256=` and the hash of a carton";

/// The path or URL of a carton, and the hash that the carton must have, if any.
///
/// Text is a URL when it begins with `http:`, `https:`, `oci:`, `hf:` or `file:`, or with a scheme and `://`, as `s3://`; everything else is a path. A `file:` URL is the path of its
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
    place: Result<Place, PlaceError>,
    pin: Option<String>,
}

/// Why the hash that a carton must have is not known.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PinError {
    /// The location ends in something else than a hash. It is in backticks, as far as it may be shown.
    #[error("expected 64 lower-case hexadecimal digits after `#sha256=`, found {found}")]
    Invalid { found: String },
    /// The location and the caller demand different hashes.
    #[error("the location pins the carton to {pinned}, the options expect {expect}")]
    Two { pinned: ManifestHash, expect: ManifestHash },
}

impl Failure for PinError {
    fn kind(&self) -> ErrorKind {
        ErrorKind::InvalidInput
    }

    fn is_of_location(&self) -> bool {
        true
    }
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
    pub fn place(&self) -> Result<&Place, PlaceError> {
        self.place.as_ref().map_err(PlaceError::clone)
    }

    /// Whether the text says which hash the carton must have.
    #[must_use]
    pub fn is_pinned(&self) -> bool {
        self.pin.is_some()
    }

    /// What a model at this location is called where nothing else names it: the name of its file without `.carton` or another extension, the
    /// name of its folder, or that of its repository in a registry. `None` if there is none, as for `/`.
    ///
    /// ```
    /// use carton_core::Location;
    /// assert_eq!(Location::from("models/digits.carton").name().as_deref(), Some("digits"));
    /// assert_eq!(Location::from("https://host/digits.v2.carton?key=1").name().as_deref(), Some("digits.v2"));
    /// assert_eq!(Location::from("oci://host/team/digits:1.0").name().as_deref(), Some("digits"));
    /// ```
    #[must_use]
    pub fn name(&self) -> Option<String> {
        let file = match self.place.as_ref().ok()? {
            Place::Path(path) => {
                // A folder such as `.` has its name elsewhere.
                let path = std::fs::canonicalize(path).unwrap_or_else(|_| path.clone());
                let name = path.file_name()?.to_str()?;
                if path.is_dir() && !name.ends_with(".carton") {
                    return Some(name.to_owned());
                }
                name.to_owned()
            }
            Place::Oci(url) => {
                return Reference::from_url(url).ok()?.repository().rsplit('/').next().map(str::to_owned);
            }
            Place::Hub(url) => match HubName::from_url(url) {
                Ok(name) if name.file().is_none() => return Some(name.repository().to_owned()),
                _ => url.file_name()?.to_owned(),
            },
            Place::Web(url) | Place::ObjectStore(url) => url.file_name()?.to_owned(),
        };
        let name = file.strip_suffix(".carton").or_else(|| file.rsplit_once('.').map(|(name, _)| name));
        Some(name.unwrap_or(&file).to_owned()).filter(|name| !name.is_empty())
    }

    /// The hash that the carton's MANIFEST must have: `expect`, or what follows `#sha256=`.
    pub(crate) fn expected(&self, expect: Option<ManifestHash>) -> Result<Option<ManifestHash>, PinError> {
        let Some(pin) = &self.pin else { return Ok(expect) };
        let pinned = pin.parse().map_err(|_| PinError::Invalid { found: pin_shown(pin) })?;
        match expect {
            Some(expect) if expect != pinned => Err(PinError::Two { pinned, expect }),
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

impl From<&str> for Location {
    fn from(text: &str) -> Self {
        let (text, pin) = match text.rsplit_once(PIN) {
            Some((text, pin)) => (text, Some(pin.to_owned())),
            None => (text, None),
        };
        Self { place: Place::parse_with(text, NO_PIN), pin }
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
        let pin = url.expose().fragment().and_then(|fragment| fragment.strip_prefix(PIN.trim_start_matches('#')));
        match pin.map(str::to_owned) {
            Some(pin) => Self { place: Place::from_url(url.without_fragment(), NO_PIN), pin: Some(pin) },
            None => Self { place: Place::from_url(url, NO_PIN), pin: None },
        }
    }
}

impl From<Place> for Location {
    fn from(place: Place) -> Self {
        Self { place: Ok(place), pin: None }
    }
}

impl From<&Url> for Location {
    fn from(url: &Url) -> Self {
        Self::from(url.clone())
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
            assert_eq!(Location::from(text).place(), Ok(&Place::Web(Url::parse(url).unwrap())), "{text}");
        };
        url(" https://host/model.carton\n", "https://host/model.carton");
        url("HTTPS://Host/model.carton", "https://host/model.carton");
        url("http://[::1]:8080/a b?c=d#sha256=12", "http://[::1]:8080/a%20b?c=d");
    }

    #[test]
    fn an_invalid_url_is_an_error() {
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
        let schemes = "only `http`, `https`, `oci`, `hf`, `s3`, `gs`, `az` and `file` are known";
        check("ftp://me:secret@host/secret", &format!("the `ftp:` URL is not valid: {schemes}"));
        let fragment = "it has a fragment that is not `#sha256=` and the hash of a carton";
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
    fn a_url_is_the_location_that_its_text_is() {
        let hash = "ab".repeat(32);
        for text in [
            "https://host/m?sig=1",
            &format!("https://host/m#sha256={hash}"),
            &format!("file:///srv/a%20b#sha256={hash}"),
            "https://host/m#sha256=12",
            "https://host/m#other",
            "file:///m?query",
            "ftp://host/m",
            "s3://host/m",
        ] {
            assert_eq!(Location::from(Url::parse(text).unwrap()), Location::from(text), "{text}");
        }
        assert!(Location::from(Url::parse("mailto:me").unwrap()).place().is_err());
    }

    #[test]
    fn a_location_names_its_model() {
        let check = |location: &str, expected: Option<&str>| {
            assert_eq!(Location::from(location).name().as_deref(), expected, "{location}");
        };
        check("digits.carton", Some("digits"));
        check("/models/digits.v2.carton", Some("digits.v2"));
        check("digits.carton#sha256=00ff", Some("digits"));
        check("digits.zip", Some("digits"));
        check("digits.shrunk.carton", Some("digits.shrunk"));
        check("digits", Some("digits"));
        check("/", None);
        check(".carton", None);
        check("https://example.com/a/digits.carton?token=x.y#sha256=00ff", Some("digits"));
        check("https://example.com/a/digits.carton?token=a/b.c", Some("digits"));
        check("https://example.com/", None);
        check("oci://example.com/team/digits.v2:1.0", Some("digits.v2"));
        check("hf://team/digits@v1", Some("digits"));
        check("hf://team/repository/digits.carton", Some("digits"));
        check("s3://bucket/team/digits.carton", Some("digits"));
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("digits.v2");
        std::fs::create_dir(&path).unwrap();
        assert_eq!(Location::from(&path).name().as_deref(), Some("digits.v2"));
        assert_eq!(Location::from(path.join(".")).name().as_deref(), Some("digits.v2"));
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
        assert!(!format!("{error:?}").contains("secret"));
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
        assert!(matches!(pinned.expected(Some(digest("cd"))), Err(PinError::Two { .. })));
        assert!(matches!(Location::from("m#sha256=12").expected(None), Err(PinError::Invalid { .. })));
        assert_eq!(Location::from(Path::new("m#sha256=12")).expected(None).unwrap(), None);
    }
}
