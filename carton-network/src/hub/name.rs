//! The name of a file or a repository on the Hub. Pure.

use std::fmt;

use carton_format::name;
use carton_format::url::Url;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

/// The scheme of the names.
pub const SCHEME: &str = "hf";

/// The revision if a name has none.
const MAIN: &str = "main";

/// The longest name of an owner, a repository or a revision, in characters.
const MAX_PART: usize = 256;

/// What is escaped in a path: all but what file names usually have.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~').remove(b'/');
const ESCAPED_PART: &AsciiSet = &ESCAPED.add(b'/');

/// The name of a file or a repository on the Hub: `hf://OWNER/REPOSITORY[@REVISION][/FILE]`.
///
/// ```
/// use carton_network::hub::HubName;
///
/// let name: HubName = "hf://team/digits@v1/digits.carton".parse()?;
/// assert_eq!((name.owner(), name.repository(), name.revision()), ("team", "digits", "v1"));
/// assert_eq!(name.file(), Some("digits.carton"));
/// # Ok::<(), carton_network::hub::InvalidHubName>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct HubName {
    owner: String,
    repository: String,
    revision: Option<String>,
    file: Option<String>,
}

/// Why text is not the name of something on the Hub.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidHubName {
    /// The text is not a URL that begins with `hf://`, an owner and a repository.
    #[error("expected `hf://`, an owner and a repository, such as hf://team/model or hf://team/model@v1/model.carton")]
    Form,
    /// The URL has a user, a password, a query or a fragment.
    #[error("it has a user, a password, a query or a fragment")]
    Extra,
    /// The path of the file has a part that no file can have.
    #[error("`{file}` is not the path of a file in a repository")]
    File {
        /// The path.
        file: String,
    },
}

impl HubName {
    /// Reads a name from its URL.
    ///
    /// # Errors
    /// [`InvalidHubName`].
    pub fn from_url(url: &Url) -> Result<Self, InvalidHubName> {
        let whole = url.expose();
        let owner =
            whole.host_str().filter(|owner| url.scheme() == SCHEME && is_part(owner)).ok_or(InvalidHubName::Form)?;
        if url.has_user() || whole.query().is_some() || whole.fragment().is_some() || whole.port().is_some() {
            return Err(InvalidHubName::Extra);
        }
        let path = whole.path().strip_prefix('/').ok_or(InvalidHubName::Form)?;
        let (repository, file) = match path.split_once('/') {
            Some((repository, file)) => (repository, Some(file).filter(|file| !file.is_empty())),
            None => (path, None),
        };
        let (repository, revision) = match repository.split_once('@') {
            Some((repository, revision)) => (repository, Some(decoded(revision).ok_or(InvalidHubName::Form)?)),
            None => (repository, None),
        };
        let is_revision = |revision: &String| {
            let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '/' | '+');
            (1..=MAX_PART).contains(&revision.len()) && revision.chars().all(is_plain) && !revision.contains("..")
        };
        if !is_part(repository) || revision.as_ref().is_some_and(|revision| !is_revision(revision)) {
            return Err(InvalidHubName::Form);
        }
        let file = file.map(|file| {
            let invalid = || InvalidHubName::File { file: file.to_owned() };
            let decoded = decoded(file).ok_or_else(invalid)?;
            name::check(decoded.as_bytes()).map(|_| decoded.clone()).map_err(|_| invalid())
        });
        let (owner, repository) = (owner.to_owned(), repository.to_owned());
        Ok(Self { owner, repository, revision, file: file.transpose()? })
    }

    /// The owner of the repository.
    #[must_use]
    pub fn owner(&self) -> &str {
        &self.owner
    }

    /// The repository.
    #[must_use]
    pub fn repository(&self) -> &str {
        &self.repository
    }

    /// The branch, tag or commit; `main` if the name has none.
    #[must_use]
    pub fn revision(&self) -> &str {
        self.revision.as_deref().unwrap_or(MAIN)
    }

    /// The name with its revision, also if that is the usual one.
    pub fn with_revision(self) -> Self {
        Self { revision: Some(self.revision().to_owned()), ..self }
    }

    /// The path of the file in the repository.
    #[must_use]
    pub fn file(&self) -> Option<&str> {
        self.file.as_deref()
    }

    /// The path at which a server has a file of the repository at `revision`, relative to its root.
    pub fn file_path(&self, revision: &str, file: &str) -> String {
        let (revision, file) = (utf8_percent_encode(revision, ESCAPED_PART), utf8_percent_encode(file, ESCAPED));
        format!("{}/{}/resolve/{revision}/{file}", self.owner, self.repository)
    }

    /// The path of the question `what` about the repository at `revision`, relative to the server's root.
    pub(crate) fn question_path(&self, what: &str, revision: &str) -> String {
        let revision = utf8_percent_encode(revision, ESCAPED_PART);
        format!("api/models/{}/{}/{what}/{revision}", self.owner, self.repository)
    }
}

fn decoded(text: &str) -> Option<String> {
    percent_decode_str(text).decode_utf8().ok().map(std::borrow::Cow::into_owned)
}

/// Whether text can be the name of an owner or a repository.
fn is_part(text: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    (1..=MAX_PART).contains(&text.len()) && text.bytes().all(is_plain) && !matches!(text, "." | "..")
}

impl std::str::FromStr for HubName {
    type Err = InvalidHubName;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Url::parse(text.trim()).map_err(|_| InvalidHubName::Form).and_then(|url| Self::from_url(&url))
    }
}

impl fmt::Display for HubName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{SCHEME}://{}/{}", self.owner, self.repository)?;
        if let Some(revision) = &self.revision {
            write!(f, "@{}", utf8_percent_encode(revision, ESCAPED_PART))?;
        }
        if let Some(file) = &self.file {
            write!(f, "/{}", utf8_percent_encode(file, ESCAPED))?;
        }
        Ok(())
    }
}

impl fmt::Debug for HubName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HubName({self})")
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn names_are_read_and_written() {
        let check = |text: &str, expected: (&str, &str, &str, Option<&str>)| {
            let name: HubName = text.parse().unwrap();
            assert_eq!((name.owner(), name.repository(), name.revision(), name.file()), expected, "{text}");
            assert_eq!(name.to_string().parse::<HubName>().unwrap(), name);
        };
        check("hf://Team/Model", ("Team", "Model", "main", None));
        check("hf://team/model/", ("team", "model", "main", None));
        check("hf://team/model@v1.0/a/b.carton", ("team", "model", "v1.0", Some("a/b.carton")));
        check("hf://team/model@refs%2Fpr%2F1/a%20b", ("team", "model", "refs/pr/1", Some("a b")));
        let name: HubName = "hf://team/model@refs%2Fpr%2F1".parse().unwrap();
        assert_eq!(name.file_path(name.revision(), "a b/c"), "team/model/resolve/refs%2Fpr%2F1/a%20b/c");
        assert_eq!(name.question_path("tree", "main"), "api/models/team/model/tree/main");
    }

    #[test]
    fn other_text_is_refused() {
        for text in [
            "hf:team/model",
            "hf://team",
            "hf://team/",
            "https://team/model",
            "hf://me:secret@team/model",
            "hf://team/model?secret",
            "hf://team/model#secret",
            "hf://team:80/model",
            "hf://team/mo%2Fdel",
            "hf://team/model@",
            "hf://team/model@..%2F..",
            "hf://team/model/a%2F..%2Fb",
            "hf://team/model/a//b",
            "hf://team/model/%FF",
        ] {
            let error = text.parse::<HubName>().unwrap_err();
            assert!(!error.to_string().contains("secret"), "{text}: {error}");
        }
    }
}
