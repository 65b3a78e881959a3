//! The name of an artifact in a registry: `oci://host[:port]/repository[:tag][@sha256:digest]`. Pure.
//!
//! Repository and tag have the grammar of the distribution specification (OCI Distribution Spec 1.1, "Pulling manifests").

use std::fmt;

use carton_format::digest::Sha256Digest;
use carton_format::url::Url;

/// The scheme of the URLs of artifacts.
pub const SCHEME: &str = "oci";

/// The longest repository and the longest tag that the specification allows, in characters.
const MAX_REPOSITORY: usize = 255;
const MAX_TAG: usize = 128;

/// The name of an artifact in a registry.
///
/// ```
/// use carton_network::oci::Reference;
///
/// let reference: Reference = "oci://models.example.com/team/digits:1.0".parse()?;
/// assert_eq!(reference.host(), "models.example.com");
/// assert_eq!(reference.repository(), "team/digits");
/// assert_eq!(reference.tag(), Some("1.0"));
/// # Ok::<(), carton_network::oci::InvalidArtifactName>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Reference {
    host: String,
    repository: String,
    tag: Option<String>,
    digest: Option<Sha256Digest>,
}

/// Why a URL is not the name of an artifact.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidArtifactName {
    /// The text is not a URL that begins with `oci://` and a host.
    #[error("expected `oci://`, a host and a repository, such as oci://example.com/team/model:1.0")]
    Form,
    /// The URL has a user or a password, which a registry never gets from there.
    #[error("it has a user or a password; registries take logins from the configuration of Docker or Podman")]
    User,
    /// The URL has a query or a fragment.
    #[error("it has a query or a fragment")]
    Query,
    /// The repository is not a valid name.
    #[error(
        "`{repository}` is not the name of a repository: expected lower-case letters, digits and `. _ -`, in parts between `/`"
    )]
    Repository {
        /// The repository.
        repository: String,
    },
    /// The tag is not a valid one.
    #[error(
        "`{tag}` is not a tag: expected at most {MAX_TAG} letters, digits and `_ . -`, of which the first is neither `.` nor `-`, and not the name of a list of referrers, `sha256-DIGEST`"
    )]
    Tag {
        /// The tag.
        tag: String,
    },
    /// What follows `@` is not a SHA-256.
    #[error("`@` must be followed by `sha256:` and 64 hexadecimal digits")]
    Digest,
}

impl Reference {
    /// Reads the name of an artifact from its URL.
    ///
    /// # Errors
    /// [`InvalidArtifactName`].
    pub fn from_url(url: &Url) -> Result<Self, InvalidArtifactName> {
        let whole = url.expose();
        let host =
            whole.host_str().filter(|host| url.scheme() == SCHEME && is_host(host)).ok_or(InvalidArtifactName::Form)?;
        if url.has_user() {
            return Err(InvalidArtifactName::User);
        }
        if whole.query().is_some() || whole.fragment().is_some() {
            return Err(InvalidArtifactName::Query);
        }
        // The names of non-web URLs keep their case, and hosts have none.
        let host = match whole.port() {
            Some(port) => format!("{}:{port}", host.to_ascii_lowercase()),
            None => host.to_ascii_lowercase(),
        };
        let path = whole.path().strip_prefix('/').filter(|path| !path.is_empty()).ok_or(InvalidArtifactName::Form)?;
        let (path, digest) = match path.split_once('@') {
            Some((path, digest)) => (path, Some(parse_digest(digest).ok_or(InvalidArtifactName::Digest)?)),
            None => (path, None),
        };
        let (repository, tag) = match path.split_once(':') {
            Some((repository, tag)) => (repository, Some(tag)),
            None => (path, None),
        };
        if !is_repository(repository) {
            return Err(InvalidArtifactName::Repository { repository: repository.to_owned() });
        }
        if let Some(tag) = tag.filter(|tag| !is_tag(tag)) {
            return Err(InvalidArtifactName::Tag { tag: tag.to_owned() });
        }
        Ok(Self { host, repository: repository.to_owned(), tag: tag.map(str::to_owned), digest })
    }

    /// The host of the registry, with its port if the URL has one.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The repository in the registry.
    #[must_use]
    pub fn repository(&self) -> &str {
        &self.repository
    }

    /// The tag as it was written.
    #[must_use]
    pub fn tag(&self) -> Option<&str> {
        self.tag.as_deref()
    }

    /// The SHA-256 of the artifact's manifest, if the name has it.
    #[must_use]
    pub fn digest(&self) -> Option<Sha256Digest> {
        self.digest
    }

    /// What a registry is asked for: the digest, or else the tag, by default `latest`.
    pub fn name(&self) -> String {
        match (&self.digest, &self.tag) {
            (Some(digest), _) => oci_digest(digest),
            (None, Some(tag)) => tag.clone(),
            (None, None) => "latest".to_owned(),
        }
    }

    /// The artifact with this digest in the same repository.
    #[must_use]
    pub fn with_digest(&self, digest: Sha256Digest) -> Self {
        Self { tag: None, digest: Some(digest), ..self.clone() }
    }

    /// The artifact with this tag in the same repository.
    ///
    /// # Errors
    /// [`InvalidArtifactName::Tag`].
    pub fn with_tag(&self, tag: &str) -> Result<Self, InvalidArtifactName> {
        match is_tag(tag) {
            true => Ok(Self { tag: Some(tag.to_owned()), digest: None, ..self.clone() }),
            false => Err(InvalidArtifactName::Tag { tag: tag.to_owned() }),
        }
    }
}

/// A digest as registries write it.
pub fn oci_digest(digest: &Sha256Digest) -> String {
    format!("sha256:{digest}")
}

/// Reads a digest as registries write it.
pub(crate) fn parse_digest(text: &str) -> Option<Sha256Digest> {
    text.strip_prefix("sha256:")?.parse().ok()
}

/// Whether text is the host of a web URL, and so nothing that would need escapes there.
fn is_host(text: &str) -> bool {
    !text.is_empty()
        && Url::parse(&format!("https://{text}/"))
            .is_ok_and(|url| url.host_str().is_some_and(|host| host.eq_ignore_ascii_case(text)))
}

/// Whether `text` is the name of a repository.
pub fn is_repository(text: &str) -> bool {
    text.len() <= MAX_REPOSITORY && text.split('/').all(is_component)
}

/// Whether text is a part of a repository's name: runs of lower-case letters and digits, with `.`, `_`, `__` or hyphens between them.
fn is_component(text: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let separators = text.split(is_plain).filter(|separator| !separator.is_empty());
    let are_valid = separators
        .into_iter()
        .all(|separator| matches!(separator, "." | "_" | "__") || separator.bytes().all(|byte| byte == b'-'));
    text.starts_with(is_plain) && text.ends_with(is_plain) && are_valid
}

fn is_tag(text: &str) -> bool {
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    text.len() <= MAX_TAG
        && text.bytes().next().is_some_and(is_word)
        && text.bytes().all(|byte| is_word(byte) || matches!(byte, b'.' | b'-'))
        // Clients keep the referrers of an artifact under this tag, where the registry does not keep track of them.
        && text.strip_prefix("sha256-").is_none_or(|rest| rest.parse::<Sha256Digest>().is_err())
}

impl std::str::FromStr for Reference {
    type Err = InvalidArtifactName;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Url::parse(text.trim()).map_err(|_| InvalidArtifactName::Form).and_then(|url| Self::from_url(&url))
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{SCHEME}://{}/{}", self.host, self.repository)?;
        if let Some(tag) = &self.tag {
            write!(f, ":{tag}")?;
        }
        if let Some(digest) = &self.digest {
            write!(f, "@{}", oci_digest(digest))?;
        }
        Ok(())
    }
}

impl fmt::Debug for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Reference({self})")
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn references_are_read_and_written() {
        let hex = "ab".repeat(32);
        let check = |text: &str, host: &str, repository: &str, name: &str| {
            let reference: Reference = text.parse().unwrap();
            assert_eq!((reference.host(), reference.repository(), reference.name().as_str()), (host, repository, name));
            assert_eq!(reference.to_string().parse::<Reference>().unwrap(), reference);
        };
        check("oci://example.com/model", "example.com", "model", "latest");
        check("oci://Example.com:5000/a/b-c__d.e:V1.0_x", "example.com:5000", "a/b-c__d.e", "V1.0_x");
        check("oci://127.0.0.1:5000/a:1", "127.0.0.1:5000", "a", "1");
        check("oci://[::1]:5000/a:1", "[::1]:5000", "a", "1");
        check(&format!("oci://h/a@sha256:{hex}"), "h", "a", &format!("sha256:{hex}"));
        check(&format!(" oci://h/a:1@sha256:{hex}\n"), "h", "a", &format!("sha256:{hex}"));
    }

    #[test]
    fn other_text_is_refused() {
        let check = |text: &str, expected: &str| {
            let error = text.parse::<Reference>().unwrap_err().to_string();
            assert!(error.contains(expected), "{text}: {error}");
            assert!(!error.contains("secret"), "{error}");
        };
        for text in ["", "h/a", "https://h/a", "oci:h/a", "oci:///a", "oci://h", "oci://h/", "oci://h%2f/a"] {
            check(text, "expected `oci://`");
        }
        check("oci://me:secret@h/a", "a user or a password");
        check("oci://h/a?secret", "a query");
        check("oci://h/a#secret", "a fragment");
        for repository in ["A", "a//b", "/a", "a/", "-a", "a-", "a..b", "a___b", "a%20b", "a$b", "a/_b"] {
            check(&format!("oci://h/{repository}"), "is not the name of a repository");
        }
        check("oci://h/a:.b", "is not a tag");
        check(&format!("oci://h/a:{}", "b".repeat(129)), "is not a tag");
        check("oci://h/a@sha256:12", "`@` must be followed");
        check("oci://h/a@sha512:12", "`@` must be followed");
    }
}
