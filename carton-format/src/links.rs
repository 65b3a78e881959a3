//! LINKS: the URLs at which files can be fetched that a carton lists but does not contain (spec/carton-format.md, "LINKS"), and the sizes
//! of these files (spec/carton-format-extensions.md, "Sizes of linked files").
//!
//! Pure: bytes in, URLs out. Nothing here uses the network.

use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;

use crate::digest::{DigestError, Sha256Digest};
use crate::invalid_toml::InvalidToml;
use crate::url::ShownUrl;

/// The name of the file.
pub const NAME: &str = "LINKS";

/// URLs for files, by digest.
///
/// ```
/// use carton_format::digest::Sha256Digest;
/// use carton_format::links::Links;
///
/// let digest = Sha256Digest::of(b"");
/// let links = Links::parse(format!("version = 1\n[urls]\n{digest} = [\"https://example.com/empty\"]").as_bytes())?;
/// assert_eq!(links.urls(&digest), ["https://example.com/empty"]);
/// assert!(links.urls(&Sha256Digest::of(b"other")).is_empty());
/// # Ok::<(), carton_format::links::LinksError>(())
/// ```
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Links {
    urls: BTreeMap<Sha256Digest, Vec<String>>,
    /// Only of files that have URLs.
    sizes: BTreeMap<Sha256Digest, u64>,
}

impl fmt::Debug for Links {
    /// Leaves out the parts of a URL that may be secret.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |(digest, urls): (&Sha256Digest, &Vec<String>)| {
            (digest.to_string(), urls.iter().map(|url| ShownUrl::of_text(url)).collect::<Vec<_>>())
        };
        formatter.debug_map().entries(self.urls.iter().map(shown)).finish()
    }
}

/// Why a LINKS file is malformed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LinksError {
    /// The file is larger than [`Links::MAX_LENGTH`].
    #[error("LINKS is too large: at most {} bytes, found {found}", Links::MAX_LENGTH)]
    TooLong {
        /// Its length in bytes.
        found: usize,
    },
    /// The file is not UTF-8.
    #[error("LINKS is not UTF-8")]
    NotUtf8(#[source] std::str::Utf8Error),
    /// The file is not TOML of the expected form.
    #[error("LINKS is malformed")]
    Toml(#[source] InvalidToml),
    /// The file has an unsupported version.
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
        /// Why it is not.
        #[source]
        source: DigestError,
    },
    /// A file has an empty list of URLs.
    #[error("LINKS: there is no URL for {digest}")]
    NoUrl {
        /// The digest of the file.
        digest: Sha256Digest,
    },
    /// A URL has an unsupported form.
    #[error("LINKS: `{}` is not an http, https or file URL (for {digest})", url.as_str().escape_debug())]
    Url {
        /// The digest of the file.
        digest: Sha256Digest,
        /// The URL, without the parts that may be secret.
        url: ShownUrl,
    },
}

#[derive(Deserialize)]
struct RawVersion {
    version: i64,
}

#[derive(Deserialize)]
struct RawLinks {
    #[serde(default)]
    urls: BTreeMap<String, Vec<String>>,
    #[serde(default)]
    sizes: BTreeMap<String, u64>,
}

impl Links {
    /// The largest LINKS file that is read, in bytes.
    pub const MAX_LENGTH: usize = 64 << 20;

    /// Reads a LINKS file. Unknown fields are ignored; an unknown version is refused.
    ///
    /// # Errors
    /// [`LinksError`].
    pub fn parse(bytes: &[u8]) -> Result<Self, LinksError> {
        if bytes.len() > Self::MAX_LENGTH {
            return Err(LinksError::TooLong { found: bytes.len() });
        }
        let text = std::str::from_utf8(bytes).map_err(LinksError::NotUtf8)?;
        let malformed = |error| LinksError::Toml(InvalidToml::new(text, &error));
        // Read the version alone first, because another version may have a different form.
        let RawVersion { version } = toml::from_str(text).map_err(malformed)?;
        if version != 1 {
            return Err(LinksError::Version { found: version });
        }
        let raw: RawLinks = toml::from_str(text).map_err(malformed)?;
        Ok(Self::from_urls(by_digest(raw.urls)?)?.with_sizes(by_digest(raw.sizes)?))
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
                return Err(LinksError::Url { digest: *digest, url: ShownUrl::of_text(url) });
            }
        }
        Ok(Self { urls, sizes: BTreeMap::new() })
    }

    /// Adds the sizes of these files, in bytes. Sizes of files without URLs are ignored.
    #[must_use]
    pub fn with_sizes(mut self, sizes: impl IntoIterator<Item = (Sha256Digest, u64)>) -> Self {
        // Larger values are ignored: TOML cannot represent them, and no file is so large.
        let known = sizes.into_iter().filter(|(digest, size)| self.urls.contains_key(digest) && *size <= MAX_SIZE);
        self.sizes.extend(known);
        self
    }

    /// Merges these links with `others`. The URLs of a file in `self` come before those in `others`, without duplicates; its size in
    /// `self` takes precedence.
    #[must_use]
    pub fn merged(mut self, others: &Self) -> Self {
        for (digest, list) in &others.urls {
            let urls = self.urls.entry(*digest).or_default();
            for url in list {
                if !urls.contains(url) {
                    urls.push(url.clone());
                }
            }
        }
        for (digest, size) in &others.sizes {
            self.sizes.entry(*digest).or_insert(*size);
        }
        self
    }

    /// The URLs of the file with `digest`, in the order to try. A file without links has an empty list.
    pub fn urls(&self, digest: &Sha256Digest) -> &[String] {
        self.urls.get(digest).map_or(&[], Vec::as_slice)
    }

    /// The size in bytes of the file with `digest`, if stated.
    pub fn size(&self, digest: &Sha256Digest) -> Option<u64> {
        self.sizes.get(digest).copied()
    }

    /// All linked files and their URLs, sorted by digest.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&Sha256Digest, &[String])> {
        self.urls.iter().map(|(digest, urls)| (digest, urls.as_slice()))
    }

    /// Whether no file is linked.
    pub fn is_empty(&self) -> bool {
        self.urls.is_empty()
    }

    /// The text of the file. Equal links have equal texts.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut text = String::from("version = 1\n\n[urls]\n");
        for (digest, urls) in &self.urls {
            let list = toml::Value::Array(urls.iter().cloned().map(toml::Value::String).collect());
            text.push_str(&format!("{digest} = {list}\n"));
        }
        if !self.sizes.is_empty() {
            text.push_str("\n[sizes]\n");
        }
        for (digest, size) in &self.sizes {
            text.push_str(&format!("{digest} = {size}\n"));
        }
        text.into_bytes()
    }
}

/// The largest integer of TOML.
const MAX_SIZE: u64 = i64::MAX as u64;

fn by_digest<T>(table: BTreeMap<String, T>) -> Result<BTreeMap<Sha256Digest, T>, LinksError> {
    let parsed = table.into_iter().map(|(key, value)| match key.parse() {
        Ok(digest) => Ok((digest, value)),
        Err(source) => Err(LinksError::Key { key, source }),
    });
    parsed.collect()
}

/// Whether `url` has a supported scheme, something after it, and no whitespace or control characters.
///
/// Checks no more than that: fetching shows whether the URL leads anywhere.
pub fn is_url(url: &str) -> bool {
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

    /// Checks the result of parsing: the URLs of `A`, or a part of the error and its causes.
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
    fn sizes() {
        let a: Sha256Digest = A.parse().unwrap();
        let with = |sizes: &str| format!("version = 1\n[urls]\n{A} = ['https://a']\n[sizes]\n{sizes}\n");
        let size = |sizes: &str| Links::parse(with(sizes).as_bytes()).unwrap().size(&a);
        assert_eq!(size(""), None);
        assert_eq!(size(&format!("{A} = 12")), Some(12));
        assert_eq!(size(&format!("{A} = 0")), Some(0));
        assert_eq!(size(&format!("{A} = {}", i64::MAX)), Some(i64::MAX as u64));
        // Sizes of files that cannot be fetched are ignored.
        assert_eq!(size(&format!("{} = 12", A.replace('0', "1"))), None);
        check(&with(&format!("{A} = 12")), Ok(&["https://a"]));
        check(&with(&format!("{A} = -1")), Err("LINKS is malformed: "));
        check(&with(&format!("{A} = '12'")), Err("LINKS is malformed: "));
        check(&with(&format!("{A} = 1.5")), Err("LINKS is malformed: "));
        check(&with("abc = 1"), Err("the key `abc` is not a SHA-256"));
        check("version = 1\nsizes = 3", Err("LINKS is malformed: "));
        let links = Links::from_urls([(a, vec!["https://a".to_owned()])].into()).unwrap();
        assert_eq!(links.clone().with_sizes([(a, u64::MAX)]), links);
        let text = format!("version = 1\n\n[urls]\n{A} = [\"https://a\"]\n\n[sizes]\n{A} = 12\n");
        assert_eq!(links.with_sizes([(a, 12)]).to_bytes(), text.as_bytes());
    }

    #[test]
    fn errors_show_no_secrets() {
        let check = |urls: &str, expected: &str| {
            let error = Links::parse(format!("version = 1\n[urls]\n{A} = {urls}\n").as_bytes()).unwrap_err();
            let shown = crate::causes::in_one_line(&error);
            assert!(shown.contains(expected) && !format!("{shown} {error:?}").contains("secret"), "{shown}");
        };
        check("'https://me:secret@host/a'", "line 3: expected a sequence, found string");
        check("['https://me:secret@host/a", "line 3: ");
        check(
            "['https://me:secret@host/a b?token=secret']",
            "`https://host/a%20b?…` is not an http, https or file URL",
        );
        check("['ftp://me:secret@host/a']", "`ftp://host/a` is not an http, https or file URL");
    }

    #[test]
    fn merging() {
        let digests = ["a", "b", "c"].map(|name| Sha256Digest::of(name.as_bytes()));
        let links = |of: &[(usize, &[&str], u64)]| {
            let list = |urls: &[&str]| urls.iter().map(|url| format!("https://{url}")).collect();
            let urls = of.iter().map(|(at, urls, _)| (digests[*at], list(urls))).collect();
            Links::from_urls(urls).unwrap().with_sizes(of.iter().map(|(at, _, size)| (digests[*at], *size)))
        };
        let (ours, theirs) =
            (links(&[(0, &["x", "y"], 1), (1, &["z"], 2)]), links(&[(0, &["y", "w"], 9), (2, &["v"], 3)]));
        let expected = links(&[(0, &["x", "y", "w"], 1), (1, &["z"], 2), (2, &["v"], 3)]);
        assert_eq!(ours.merged(&theirs), expected);
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
        fn urls_survive(urls in proptest::collection::btree_map(any::<[u8; 32]>(), proptest::collection::vec("https://[a-z\"'\\\\%]{1,9}", 1..4), 0..4), size: u64) {
            let urls: BTreeMap<_, _> = urls.into_iter().map(|(digest, list)| (Sha256Digest::from_bytes(digest), list)).collect();
            let sized: Vec<_> = urls.keys().take(2).map(|digest| (*digest, size)).collect();
            let links = Links::from_urls(urls).unwrap().with_sizes(sized);
            prop_assert_eq!(Links::parse(&links.to_bytes()).unwrap(), links);
        }
    }
}
