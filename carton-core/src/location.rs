//! Where a carton is: a path or a URL, and which carton it must be.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::Error;
use crate::digest::Sha256Digest;

/// What separates a place from the SHA-256 of the MANIFEST that is expected there.
const PIN: &str = "#sha256=";

/// Where a carton is, and which one it must be.
///
/// Text is a URL when it begins with `http://` or `https://`; `file://` and everything else is a path. Text may end in
/// `#sha256=` and the hash that the carton's MANIFEST must have. Paths are taken as they are.
///
/// ```
/// use carton_core::Location;
/// assert!(Location::from("digits.carton").path().is_some());
/// assert!(Location::from("https://host/digits.carton").path().is_none());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Location {
    place: Place,
    pin: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Place {
    Path(PathBuf),
    Url(String),
}

impl Location {
    /// The path; `None` for a URL.
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        match &self.place {
            Place::Path(path) => Some(path),
            Place::Url(_) => None,
        }
    }

    /// The hash that the carton's MANIFEST must have: `expect`, or what follows `#sha256=`.
    pub(crate) fn expected(&self, expect: Option<Sha256Digest>) -> Result<Option<Sha256Digest>, Error> {
        let Some(pin) = &self.pin else { return Ok(expect) };
        let pinned = pin.parse().map_err(|_| Error::Pin { found: pin.clone() })?;
        match expect {
            Some(expect) if expect != pinned => Err(Error::TwoPins { pinned, expect }),
            _ => Ok(Some(pinned)),
        }
    }
}

impl From<&str> for Location {
    fn from(text: &str) -> Self {
        let (text, pin) = match text.rsplit_once(PIN) {
            Some((text, pin)) => (text, Some(pin.to_owned())),
            None => (text, None),
        };
        let scheme = text.split_once("://").map(|(scheme, rest)| (scheme.to_ascii_lowercase(), rest));
        let place = match scheme.as_ref().map(|(scheme, rest)| (scheme.as_str(), *rest)) {
            Some(("http" | "https", _)) => Place::Url(text.to_owned()),
            Some(("file", path)) => Place::Path(PathBuf::from(path.strip_prefix("localhost").unwrap_or(path))),
            _ => Place::Path(PathBuf::from(text)),
        };
        Self { place, pin }
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

impl From<PathBuf> for Location {
    fn from(path: PathBuf) -> Self {
        Self { place: Place::Path(path), pin: None }
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
            Place::Path(path) => path.display().fmt(f)?,
            Place::Url(url) => url.fmt(f)?,
        }
        match &self.pin {
            Some(pin) => write!(f, "{PIN}{pin}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn only_http_is_remote() {
        let check = |text: &str, path: Option<&str>| {
            assert_eq!(Location::from(text).path(), path.map(Path::new), "{text}");
            assert!(Location::from(text).to_string().ends_with(path.unwrap_or(text)));
        };
        check("model.carton", Some("model.carton"));
        check("HTTPS://host/model.carton", None);
        check("file:///srv/model.carton", Some("/srv/model.carton"));
        check("file://localhost/srv/m", Some("/srv/m"));
        check("odd://name", Some("odd://name"));
    }

    #[test]
    fn text_may_pin_a_carton() {
        let digest = |byte: &str| byte.repeat(32).parse::<Sha256Digest>().unwrap();
        let pinned = Location::from(format!("m.carton#sha256={}", digest("ab")));
        assert_eq!(pinned.path(), Some(Path::new("m.carton")));
        assert_eq!(pinned.expected(None).unwrap(), Some(digest("ab")));
        assert_eq!(pinned.expected(Some(digest("ab"))).unwrap(), Some(digest("ab")));
        assert!(matches!(pinned.expected(Some(digest("cd"))), Err(Error::TwoPins { .. })));
        assert!(matches!(Location::from("m#sha256=12").expected(None), Err(Error::Pin { .. })));
        assert_eq!(Location::from(Path::new("m#sha256=12")).expected(None).unwrap(), None);
    }
}
