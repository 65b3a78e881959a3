//! LINKS: where files that a carton lists but does not hold can be fetched (spec/carton-format.md, "LINKS").
//!
//! Pure: bytes in, URLs out. Nothing here reaches a network.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::digest::{DigestError, Sha256Digest};

/// The name of the file.
pub const NAME: &str = "LINKS";

/// The largest LINKS that is read, in bytes.
pub const MAX_LENGTH: usize = 64 << 20;

/// URLs for files, by digest.
///
/// ```
/// use carton_core::digest::Sha256Digest;
/// use carton_core::links::Links;
///
/// let digest = Sha256Digest::of(b"");
/// let links = Links::parse(format!("version = 1\n[urls]\n{digest} = [\"https://example.com/empty\"]").as_bytes())?;
/// assert_eq!(links.urls(&digest), ["https://example.com/empty"]);
/// assert!(links.urls(&Sha256Digest::of(b"other")).is_empty());
/// # Ok::<(), carton_core::links::LinksError>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Links {
    urls: BTreeMap<Sha256Digest, Vec<String>>,
}

/// Why a LINKS file is malformed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LinksError {
    /// It is larger than [`MAX_LENGTH`].
    #[error("LINKS is too large: at most {MAX_LENGTH} bytes, found {found}")]
    TooLong {
        /// Its length.
        found: usize,
    },
    /// It is not UTF-8.
    #[error("LINKS is not UTF-8")]
    NotUtf8(#[source] std::str::Utf8Error),
    /// It is not TOML of the expected form.
    #[error("LINKS is malformed")]
    Toml(#[source] toml::de::Error),
    /// It has another version.
    #[error("LINKS has version {found}, and only version 1 is supported")]
    Version {
        /// The version.
        found: i64,
    },
    /// A key is not a SHA-256.
    #[error("LINKS: the key `{}` is not a SHA-256", key.escape_debug())]
    Key {
        /// The key.
        key: String,
        /// Why not.
        #[source]
        source: DigestError,
    },
    /// A file has an empty list of URLs.
    #[error("LINKS: there is no URL for {digest}")]
    NoUrl {
        /// The file.
        digest: Sha256Digest,
    },
    /// A URL is not one that could be fetched.
    #[error("LINKS: `{}` is not an http, https or file URL (for {digest})", url.escape_debug())]
    Url {
        /// The file.
        digest: Sha256Digest,
        /// The URL.
        url: String,
    },
}

#[derive(Deserialize)]
struct RawVersion {
    version: i64,
}

#[derive(Serialize, Deserialize)]
struct RawLinks {
    version: i64,
    #[serde(default)]
    urls: BTreeMap<String, Vec<String>>,
}

impl Links {
    /// Reads a LINKS file. Unknown fields are ignored, another version is refused.
    ///
    /// # Errors
    /// [`LinksError`].
    pub fn parse(bytes: &[u8]) -> Result<Self, LinksError> {
        if bytes.len() > MAX_LENGTH {
            return Err(LinksError::TooLong { found: bytes.len() });
        }
        let text = std::str::from_utf8(bytes).map_err(LinksError::NotUtf8)?;
        // The version alone first: another version may have another form.
        let RawVersion { version } = toml::from_str(text).map_err(LinksError::Toml)?;
        if version != 1 {
            return Err(LinksError::Version { found: version });
        }
        let raw: RawLinks = toml::from_str(text).map_err(LinksError::Toml)?;
        let mut urls = BTreeMap::new();
        for (key, list) in raw.urls {
            let digest = key.parse().map_err(|source| LinksError::Key { key, source })?;
            urls.insert(digest, list);
        }
        Self::from_urls(urls)
    }

    /// A LINKS file with the given URLs.
    ///
    /// # Errors
    /// [`LinksError::NoUrl`], [`LinksError::Url`].
    pub fn from_urls(urls: BTreeMap<Sha256Digest, Vec<String>>) -> Result<Self, LinksError> {
        for (digest, list) in &urls {
            if list.is_empty() {
                return Err(LinksError::NoUrl { digest: *digest });
            }
            if let Some(url) = list.iter().find(|url| !is_url(url)) {
                return Err(LinksError::Url { digest: *digest, url: url.clone() });
            }
        }
        Ok(Self { urls })
    }

    /// Where the file with `digest` can be fetched, in the order to try; empty when nothing is known of it.
    pub fn urls(&self, digest: &Sha256Digest) -> &[String] {
        self.urls.get(digest).map_or(&[], Vec::as_slice)
    }

    /// All files and their URLs, sorted by digest.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&Sha256Digest, &[String])> {
        self.urls.iter().map(|(digest, urls)| (digest, urls.as_slice()))
    }

    /// Whether no file is linked.
    pub fn is_empty(&self) -> bool {
        self.urls.is_empty()
    }

    /// The file's text.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut text = String::from("version = 1\n\n[urls]\n");
        for (digest, urls) in &self.urls {
            let list = toml::Value::Array(urls.iter().cloned().map(toml::Value::String).collect());
            text.push_str(&format!("{digest} = {list}\n"));
        }
        text.into_bytes()
    }
}

/// Whether `url` has a scheme that we know, something behind it, and no white space or control characters.
///
/// No more than that: whether it leads anywhere is seen when it is fetched.
fn is_url(url: &str) -> bool {
    let rest = ["https://", "http://", "file:///"].iter().find_map(|scheme| {
        url.get(..scheme.len()).filter(|start| start.eq_ignore_ascii_case(scheme)).map(|_| &url[scheme.len()..])
    });
    rest.is_some_and(|rest| {
        !rest.is_empty()
            && !rest.starts_with(['/', '?', '#'])
            && !rest.contains(|c: char| c.is_whitespace() || c.is_control())
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]

    use proptest::prelude::*;

    use super::*;

    const A: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

    /// What parsing must give: the URLs of `A`, or a part of the error and its causes.
    #[track_caller]
    fn check(text: &str, expected: Result<&[&str], &str>) {
        match (Links::parse(text.as_bytes()), expected) {
            (Ok(links), Ok(urls)) => {
                assert_eq!(links.urls(&A.parse().unwrap()), urls);
                assert_eq!(Links::parse(&links.to_bytes()).unwrap(), links);
                assert_eq!(links.is_empty(), urls.is_empty());
            }
            (Err(error), Err(expected)) => {
                let cause = std::error::Error::source(&error).map(|cause| format!(": {cause}")).unwrap_or_default();
                assert!(format!("{error}{cause}").contains(expected), "{error}{cause}");
            }
            (found, expected) => panic!("expected {expected:?}, found {found:?}"),
        }
    }

    #[test]
    fn forms() {
        let with = |urls: &str| format!("version = 1\n[urls]\n{A} = {urls}\n");
        check("version = 1", Ok(&[]));
        check("version = 1\n[urls]\n", Ok(&[]));
        check(&with("['https://a.b/c']"), Ok(&["https://a.b/c"]));
        check(
            &with("['HTTP://a', 'file:///b/c', 'https://é.x/?y#z']"),
            Ok(&["HTTP://a", "file:///b/c", "https://é.x/?y#z"]),
        );
        check("version = 1\nnew = 2\n[other]\nx = 1\n", Ok(&[]));
        check("", Err("LINKS is malformed: "));
        check("version = '1'", Err("LINKS is malformed: "));
        check("version = 2\nurls = 'another form'", Err("LINKS has version 2"));
        check("version = 1\nurls = 'another form'", Err("LINKS is malformed: "));
        check(&with("'https://a'"), Err("LINKS is malformed: "));
        check(&with("[1]"), Err("LINKS is malformed: "));
        check(&with("[]"), Err("there is no URL for 0123"));
        check("version = 1\n[urls]\nabc = ['https://a']", Err("the key `abc` is not a SHA-256: a SHA-256 is 64"));
        check(
            &with("['https://a']").to_uppercase().replace("VERSION", "version").replace("URLS", "urls"),
            Err("is not a SHA-256"),
        );
        for url in [
            "",
            "https://",
            "http:///a",
            "https://?a",
            "ftp://a/b",
            "file://host/a",
            "a/b",
            "https://a b",
            "https://a\\n",
            "hé",
        ] {
            check(&with(&format!("[\"https://a\", \"{url}\"]")), Err("is not an http, https or file URL"));
        }
    }

    #[test]
    fn not_text() {
        assert!(matches!(Links::parse(b"version = 1\xFF"), Err(LinksError::NotUtf8(_))));
    }

    proptest! {
        #[test]
        fn any_text_is_refused_or_survives(text in "(version = 1\n)?\\PC{0,40}") {
            if let Ok(links) = Links::parse(text.as_bytes()) {
                prop_assert_eq!(Links::parse(&links.to_bytes()).unwrap(), links);
            }
        }

        #[test]
        fn urls_survive(urls in proptest::collection::btree_map(any::<[u8; 32]>(), proptest::collection::vec("https://[a-z\"'\\\\%]{1,9}", 1..4), 0..4)) {
            let urls = urls.into_iter().map(|(digest, list)| (Sha256Digest::from_bytes(digest), list)).collect();
            let links = Links::from_urls(urls).unwrap();
            prop_assert_eq!(Links::parse(&links.to_bytes()).unwrap(), links);
        }
    }
}
