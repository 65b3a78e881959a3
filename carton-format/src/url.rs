//! URLs that keep their secrets, and the form of a URL that may be shown.
//!
//! Signed URLs carry a secret in the query, others a password before the host. A [`Url`] therefore has no text of its own: errors, logs and
//! `Debug` get a [`ShownUrl`], and the few places that need the whole URL (requests, the cache's keys, files that the user asked for) say
//! so by calling [`Url::expose`].

use std::borrow::Cow;
use std::fmt;

/// The parameters of a signature in the URL of an Azure blob.
const AZURE_SIGNATURE: [&str; 15] =
    ["sv", "ss", "srt", "sp", "se", "st", "spr", "sig", "sr", "skoid", "sktid", "skt", "ske", "sks", "skv"];

/// A URL, with its secrets. `Display` and `Debug` show it as its [`ShownUrl`].
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Url(url::Url);

/// The part of a URL that may be shown: without user, password, query and fragment, each of which may hold a secret. Errors also hold
/// other text in this type where a user may give either a URL or that, such as the name of a model or a path.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
pub struct ShownUrl(String);

/// Why text is not a URL: the reason, without any part of the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(transparent)]
pub struct InvalidUrl(url::ParseError);

impl Url {
    /// Parses text by the URL standard, with any scheme.
    ///
    /// # Errors
    /// The text is not an absolute URL.
    pub fn parse(text: &str) -> Result<Self, InvalidUrl> {
        url::Url::parse(text).map(Self::canonical).map_err(InvalidUrl)
    }

    /// A dot at the end of a host names the same host. Without it, rules, the cache and credentials know one name for each.
    fn canonical(mut url: url::Url) -> Self {
        if let Some(host) = url.host_str().and_then(|host| host.strip_suffix('.')).map(str::to_owned) {
            // The URL keeps its host if that is nothing but dots. Such a host does not exist.
            let _ = url.set_host(Some(&host));
        }
        Self(url)
    }

    /// Parses text as an absolute URL, or as one relative to this URL.
    ///
    /// # Errors
    /// The text is neither.
    pub fn join(&self, text: &str) -> Result<Self, InvalidUrl> {
        self.0.join(text).map(Self::canonical).map_err(InvalidUrl)
    }

    /// The `file:` URL of an absolute path; `None` for a relative one.
    pub fn from_file_path(path: impl AsRef<std::path::Path>) -> Option<Self> {
        url::Url::from_file_path(path).ok().map(Self)
    }

    /// The URL without its fragment, which is not sent to servers.
    pub fn without_fragment(mut self) -> Self {
        self.0.set_fragment(None);
        self
    }

    /// The part that may be shown.
    pub fn shown(&self) -> ShownUrl {
        let url = &self.0;
        // What follows the scheme may be a URL with a password (`blob:https:…`), or a user (`mailto:`).
        if !url.has_authority() {
            return ShownUrl(format!("{}:…", url.scheme()));
        }
        let host = url.host_str().unwrap_or_default();
        let port = url.port().map(|port| format!(":{port}")).unwrap_or_default();
        let query = if url.query().is_some() { "?…" } else { "" };
        ShownUrl(format!("{}://{host}{port}{}{query}", url.scheme(), url.path()))
    }

    /// Whether the URL has a part that may be secret and is not shown: a user, a password, a query or a fragment.
    pub fn has_hidden_parts(&self) -> bool {
        !self.0.has_authority() || self.has_user() || self.0.query().is_some() || self.0.fragment().is_some()
    }

    /// The scheme, in lower case.
    pub fn scheme(&self) -> &str {
        self.0.scheme()
    }

    /// The host as text, if there is one.
    pub fn host_str(&self) -> Option<&str> {
        self.0.host_str()
    }

    /// The last segment of the path, percent-encoded; it may be empty. `None` if the path has no segments, as in `mailto:a`.
    pub fn file_name(&self) -> Option<&str> {
        self.0.path_segments()?.next_back()
    }

    /// Returns what leads from this URL to `target`, so that [`join`](Self::join) returns `target`. `None` if their schemes or hosts
    /// differ.
    pub fn make_relative(&self, target: &Self) -> Option<String> {
        self.0.make_relative(&target.0)
    }

    /// The URL of the file whose name is this one's with `suffix` at its end. It keeps the query, which may be a login.
    pub fn with_suffix(&self, suffix: &str) -> Self {
        let mut url = self.0.clone();
        url.set_path(&format!("{}{suffix}", self.0.path()));
        url.set_fragment(None);
        Self(url)
    }

    /// The URL of the file of this name in the same folder. It keeps the query, which may be a login. `None` if the path has no segments.
    pub fn with_file_name(&self, name: &str) -> Option<Self> {
        let mut url = self.0.clone();
        url.path_segments_mut().ok()?.pop().push(name);
        url.set_fragment(None);
        Some(Self(url))
    }

    /// Whether the URL has a user or a password.
    pub fn has_user(&self) -> bool {
        !self.0.username().is_empty() || self.0.password().is_some()
    }

    /// The whole text, secrets included: for requests, and for files that the user asked for. It must never be shown.
    pub fn expose_str(&self) -> &str {
        self.0.as_str()
    }

    /// The text that tells this URL from those of other files: the whole text without the signature of a signed URL, which is another
    /// one each time that the URL is made. It must never be shown.
    pub fn identity(&self) -> Cow<'_, str> {
        let is_azure = self.host_str().is_some_and(|host| host.ends_with(".blob.core.windows.net"));
        let is_signature = |key: &str| {
            let key = key.to_ascii_lowercase();
            key.starts_with("x-amz-")
                || key.starts_with("x-goog-")
                || (is_azure && AZURE_SIGNATURE.contains(&key.as_str()))
        };
        if !self.0.query_pairs().any(|(key, _)| is_signature(&key)) {
            return Cow::Borrowed(self.0.as_str());
        }
        let mut url = self.0.clone();
        let kept: Vec<_> = self.0.query_pairs().filter(|(key, _)| !is_signature(key)).collect();
        url.query_pairs_mut().clear().extend_pairs(kept);
        Cow::Owned(url.into())
    }

    /// The whole URL, secrets included. It must never be shown.
    pub fn expose(&self) -> &url::Url {
        &self.0
    }
}

/// What only requests need.
impl Url {
    /// The URL without user and password.
    pub fn without_user(mut self) -> Self {
        // Neither call fails for a URL that has a host.
        let _ = self.0.set_username("");
        let _ = self.0.set_password(None);
        self
    }

    /// The host, if there is one.
    pub fn host(&self) -> Option<url::Host<&str>> {
        self.0.host()
    }

    /// The port, which many schemes have a default for.
    pub fn port_or_known_default(&self) -> Option<u16> {
        self.0.port_or_known_default()
    }

    /// The URL with these pairs at the end of its query.
    pub fn with_query(mut self, pairs: &[(&str, &str)]) -> Self {
        self.0.query_pairs_mut().extend_pairs(pairs);
        self
    }

    /// Whether the host is this machine, so that a request does not cross a network.
    pub fn is_this_machine(&self) -> bool {
        match self.0.host() {
            Some(url::Host::Domain(name)) => name == "localhost",
            Some(url::Host::Ipv4(ip)) => ip.is_loopback(),
            Some(url::Host::Ipv6(ip)) => ip.is_loopback(),
            None => false,
        }
    }

    /// The scheme, host and port.
    pub fn origin(&self) -> url::Origin {
        self.0.origin()
    }
}

impl std::str::FromStr for Url {
    type Err = InvalidUrl;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::parse(text)
    }
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.shown().fmt(f)
    }
}

impl fmt::Debug for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.shown().as_str(), f)
    }
}

impl ShownUrl {
    /// Returns what may be shown of text that a user or a file gives as a URL. A URL loses its secret parts. Text that begins like a URL
    /// but cannot be parsed loses all but the scheme, because any other part may be a password. All other text is returned as it is.
    ///
    /// ```
    /// use carton_format::url::ShownUrl;
    /// let shown = |text| ShownUrl::of_text(text).to_string();
    /// assert_eq!(shown("https://me:secret@host/index.json?token=secret"), "https://host/index.json?…");
    /// assert_eq!(shown("https://me:secret@host:port/index.json"), "https:…");
    /// assert_eq!(shown("folder/index.json"), "folder/index.json");
    /// ```
    #[must_use]
    pub fn of_text(text: &str) -> Self {
        let scheme = text.split_once(':').map(|(scheme, _)| scheme.to_ascii_lowercase());
        match (Url::parse(text), scheme) {
            (Ok(url), _) if url.0.has_host() => url.shown(),
            (_, Some(scheme)) if matches!(scheme.as_str(), "http" | "https") || text.contains("://") => {
                Self(format!("{scheme}:…"))
            }
            _ => Self(text.to_owned()),
        }
    }

    /// Stands for text of which no part may be shown.
    pub fn hidden() -> Self {
        Self("…".to_owned())
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Shortens the text again, so that a file cannot bring in a secret.
impl<'de> serde::Deserialize<'de> for ShownUrl {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(|text| Self::of_text(&text))
    }
}

impl fmt::Debug for ShownUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl fmt::Display for ShownUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_signature_does_not_make_another_file() {
        let same =
            |one: &str, other: &str| Url::parse(one).unwrap().identity() == Url::parse(other).unwrap().identity();
        let signed = "https://b.s3.amazonaws.com/a?versionId=7&X-Amz-Date=20261125T000000Z&X-Amz-Signature=";
        assert!(same(&format!("{signed}12"), &format!("{signed}34")));
        assert!(!same(&format!("{signed}12"), &format!("{signed}12").replace("versionId=7", "versionId=8")));
        assert!(same("https://a.blob.core.windows.net/b?sv=1&sig=2", "https://a.blob.core.windows.net/b?sv=1&sig=3"));
        assert!(!same("https://host/b?sig=2", "https://host/b?sig=3"));
        assert!(same(
            "https://storage.googleapis.com/b?X-Goog-Date=1",
            "https://storage.googleapis.com/b?x-goog-date=2"
        ));
    }

    #[test]
    fn what_is_shown_holds_no_secret() {
        let check = |text: &str, expected: &str| assert_eq!(Url::parse(text).unwrap().to_string(), expected);
        check("https://me:secret@host:8443/a?key=secret#secret", "https://host:8443/a?…");
        check("file:///srv/a", "file:///srv/a");
        check("mailto:me:secret@host", "mailto:…");
        check("blob:https://me:secret@host/x", "blob:…");
        let read: ShownUrl = serde_json::from_str("\"https://me:secret@host/a?key=secret\"").unwrap();
        assert_eq!(read.as_str(), "https://host/a?…");
    }
}
