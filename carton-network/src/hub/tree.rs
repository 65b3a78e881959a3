//! What the server says of a repository: its commits and its files.

use std::sync::Arc;

use carton_format::digest::Sha256Digest;
use carton_format::name;
use carton_format::url::Url;
use serde::Deserialize;

use super::{HubError, HubName};
use crate::http::{Activity, Network, NetworkError};

/// The longest list that is read, in bytes, and the most pages of it.
const MAX_LENGTH: u64 = 64 << 20;
const MAX_PAGES: usize = 1000;

/// The most files of a repository: each costs a request.
const MAX_FILES: usize = 100_000;

/// A server with repositories.
pub struct Server<'a> {
    /// The network over which it is asked.
    pub network: &'a Network,
    /// Its root, with a slash at the end.
    root: Url,
    activity: &'a Arc<Activity>,
}

/// A file of a repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TreeFile {
    /// The path in the repository.
    pub path: String,
    /// The length in bytes.
    pub size: u64,
    /// Known of large files only.
    pub sha256: Option<Sha256Digest>,
}

#[derive(Deserialize)]
struct RawEntry {
    #[serde(rename = "type")]
    kind: String,
    path: String,
    #[serde(default)]
    size: u64,
    lfs: Option<RawLarge>,
}

#[derive(Deserialize)]
struct RawLarge {
    oid: String,
    size: u64,
}

#[derive(Deserialize)]
struct RawRevision {
    sha: String,
}

impl<'a> Server<'a> {
    /// The server at `endpoint`.
    pub fn new(network: &'a Network, endpoint: &Url, activity: &'a Arc<Activity>) -> Self {
        let root = Url::parse(&format!("{}/", endpoint.expose_str().trim_end_matches('/')));
        Self { network, root: root.unwrap_or_else(|_| endpoint.clone()), activity }
    }

    /// The URL of a file at a revision.
    ///
    /// # Errors
    /// The endpoint cannot have such a URL below it.
    pub fn file_url(&self, name: &HubName, revision: &str, file: &str) -> Result<Url, HubError> {
        self.url(&name.file_path(revision, file))
    }

    /// The commit that the name's revision is now.
    ///
    /// # Errors
    /// The server cannot be asked, or its answer is none.
    pub fn commit(&self, name: &HubName) -> Result<String, HubError> {
        let (bytes, _) = self.get(self.url(&name.question_path("revision", name.revision()))?, MAX_LENGTH)?;
        let raw: RawRevision = parse(name, "a revision", &bytes)?;
        match (1..=64).contains(&raw.sha.len()) && raw.sha.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            true => Ok(raw.sha),
            false => Err(unexpected(name, "a commit", "something else")),
        }
    }

    /// The files of the repository at a revision.
    ///
    /// # Errors
    /// As [`commit`](Self::commit); there are too many files.
    pub fn files(&self, name: &HubName, revision: &str) -> Result<Vec<TreeFile>, HubError> {
        let mut url = self.url(&name.question_path("tree", revision))?.with_query(&[("recursive", "true")]);
        let (mut files, mut n_bytes) = (Vec::new(), 0);
        for _ in 0..MAX_PAGES {
            let (bytes, next) = self.get(url.clone(), MAX_LENGTH - n_bytes)?;
            n_bytes += bytes.len() as u64;
            for raw in parse::<Vec<RawEntry>>(name, "a list of files", &bytes)? {
                if raw.kind == "file" {
                    files.push(TreeFile::of(name, raw)?);
                }
            }
            if files.len() > MAX_FILES {
                return Err(unexpected(name, &format!("at most {MAX_FILES} files"), "more"));
            }
            match next {
                Some(next) => url = next,
                None => return distinct(name, files),
            }
        }
        Err(unexpected(name, &format!("at most {MAX_PAGES} pages of files"), "more"))
    }

    fn url(&self, path: &str) -> Result<Url, HubError> {
        self.root.join(path).map_err(|error| NetworkError::internal(error.to_string()).into())
    }

    /// Reads an answer, and the URL of the next page.
    fn get(&self, url: Url, limit: u64) -> Result<(Vec<u8>, Option<Url>), HubError> {
        let network = self.network.clone();
        let answer = self.network.wait(self.activity, async move {
            let mut retries = network.retries();
            loop {
                let error = match network.get(&url, &[], limit).await {
                    Ok(answer) if answer.status.code() == 200 => return Ok(answer),
                    Ok(answer) => answer.refusal(),
                    Err(error) => error,
                };
                retries.pause(error).await?;
            }
        });
        let answer = answer.map_err(|error: NetworkError| HubError::from(error))?;
        let next = answer.next_page()?;
        Ok((answer.body, next))
    }
}

/// Refuses a list that has a path twice: the second file would be written over the first.
fn distinct(name: &HubName, mut files: Vec<TreeFile>) -> Result<Vec<TreeFile>, HubError> {
    files.sort_by(|one, other| one.path.cmp(&other.path));
    match files.windows(2).find(|pair| pair[0].path == pair[1].path) {
        Some(pair) => Err(unexpected(name, "each file once", &format!("`{}` twice", pair[0].path))),
        None => Ok(files),
    }
}

impl TreeFile {
    fn of(name: &HubName, raw: RawEntry) -> Result<Self, HubError> {
        let RawEntry { path, size, lfs, .. } = raw;
        if name::check(path.as_bytes()).is_err() {
            return Err(unexpected(name, "paths of files", &format!("`{}`", path.escape_debug())));
        }
        match lfs {
            None => Ok(Self { path, size, sha256: None }),
            Some(large) => match large.oid.parse() {
                Ok(digest) => Ok(Self { path, size: large.size, sha256: Some(digest) }),
                Err(_) => Err(unexpected(name, &format!("the SHA-256 of `{path}`"), "something else")),
            },
        }
    }
}

fn parse<T: for<'de> Deserialize<'de>>(name: &HubName, expected: &str, bytes: &[u8]) -> Result<T, HubError> {
    serde_json::from_slice(bytes).map_err(|error| unexpected(name, expected, &error.to_string()))
}

fn unexpected(name: &HubName, expected: &str, found: &str) -> HubError {
    HubError::Answer { repository: name.to_string(), expected: expected.to_owned(), found: found.to_owned() }
}
