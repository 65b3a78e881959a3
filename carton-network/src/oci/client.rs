//! The requests of a registry's protocol (OCI Distribution Spec 1.1). Blocks.

use std::collections::BTreeSet;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use carton_format::digest::Sha256Digest;
use carton_format::error_kind::ErrorKind;
use carton_format::url::Url;
use serde::Deserialize;

use super::endpoint::{MAX_ANSWER, endpoints};
use super::error::refused;
use super::manifest::{BUNDLE, IMAGE_INDEX, IMAGE_MANIFEST, MAX_LENGTH, Referrers};
use super::reference::{oci_digest, parse_digest};
use super::{Endpoint, OciError, Reference, RegistryAccess, RegistryConfig};
use crate::http::{Activity, Answered, Call, CallBody, Method, Network, NetworkError};

/// The longest list of tags that is read, in bytes, and the most pages of it.
const MAX_TAGS_LENGTH: u64 = 16 << 20;
const MAX_PAGES: usize = 1000;

/// The most pages of artifacts that refer to another.
const MAX_REFERRER_PAGES: usize = 16;

/// The most tags that are listed: each costs a request.
const MAX_TAGS: usize = 100_000;

/// A client of one repository.
pub struct Client {
    pub(super) reference: Reference,
    /// The servers that have the repository. The last one is the registry itself, the others are its mirrors.
    endpoints: Vec<Endpoint>,
    /// The first server that is not passed over: those before it have not answered.
    first_usable: AtomicUsize,
    pub(super) activity: Arc<Activity>,
}

impl Client {
    /// A client for the repository of `reference`. Blobs of the repositories `sources` may be taken over. Sends a request only to a
    /// registry on this machine, to find out whether it wants encryption.
    ///
    /// # Errors
    /// The network may not be used.
    pub fn new(
        network: &Network,
        servers: &[RegistryConfig],
        reference: &Reference,
        goal: RegistryAccess,
        sources: &[String],
        activity: &Arc<Activity>,
    ) -> Result<Self, OciError> {
        let endpoints = endpoints(network, servers, reference, goal, sources, activity)?;
        let (reference, activity) = (reference.clone(), Arc::clone(activity));
        Ok(Self { reference, endpoints, first_usable: AtomicUsize::new(0), activity })
    }

    /// The servers that have the repository, in the order to read from them.
    pub fn endpoints(&self) -> &[Endpoint] {
        &self.endpoints[self.first_usable.load(Ordering::Relaxed)..]
    }

    /// Asks the servers in their order until one gives an answer. A mirror that does not answer is not asked again; one that lacks something
    /// may have other things.
    pub(super) fn first_answer<T>(&self, ask: impl Fn(&Endpoint) -> Result<T, OciError>) -> Result<T, OciError> {
        let begin = self.first_usable.load(Ordering::Relaxed);
        for (at, endpoint) in self.endpoints.iter().enumerate().skip(begin).filter(|(_, endpoint)| endpoint.is_mirror) {
            match ask(endpoint) {
                Ok(found) => return Ok(found),
                Err(error) if error.kind() == ErrorKind::Interrupted => return Err(error),
                Err(error) => {
                    if !matches!(error, OciError::NotFound { .. }) {
                        self.first_usable.fetch_max(at + 1, Ordering::Relaxed);
                    }
                    tracing::warn!("a mirror is passed over: {}", carton_format::causes::in_one_line(&error));
                }
            }
        }
        ask(self.registry())
    }

    /// Reads the manifest that the reference names, and returns it with its digest.
    ///
    /// # Errors
    /// As [`manifest_named`](Self::manifest_named).
    pub fn manifest(&self) -> Result<(Vec<u8>, Sha256Digest), OciError> {
        self.manifest_named(&self.reference.name())
    }

    /// Reads the manifest with this tag or digest, and returns it with its digest.
    ///
    /// # Errors
    /// The registry cannot be asked, refuses, or has no such manifest; the manifest is too long, or has another digest.
    pub fn manifest_named(&self, name: &str) -> Result<(Vec<u8>, Sha256Digest), OciError> {
        self.first_answer(|endpoint| self.manifest_from(endpoint, name))
    }

    /// Reads the manifest with this digest; `None` if there is none.
    ///
    /// # Errors
    /// As [`manifest_named`](Self::manifest_named), except that there is none.
    pub fn manifest_by_digest(&self, digest: &Sha256Digest) -> Result<Option<Vec<u8>>, OciError> {
        match self.manifest_named(&oci_digest(digest)) {
            Ok((bytes, _)) => Ok(Some(bytes)),
            Err(OciError::NotFound { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn manifest_from(&self, endpoint: &Endpoint, name: &str) -> Result<(Vec<u8>, Sha256Digest), OciError> {
        let url = endpoint.url(&format!("manifests/{name}"));
        let accept = format!("{IMAGE_MANIFEST}, {IMAGE_INDEX}");
        let headers = [("accept", accept.as_str())];
        let answer = self.ask(endpoint, Method::GET, &url, &headers, &Bytes::new(), MAX_LENGTH, "read")?;
        let answer = match answer.status.code() {
            200 => answer,
            404 => {
                let source = Box::new(answer.refusal());
                return Err(OciError::NotFound { reference: self.named(name), source });
            }
            _ => return Err(self.refusal("read", &answer)),
        };
        let found = Sha256Digest::of(&answer.body);
        match parse_digest(name) {
            Some(expected) if expected != found => {
                Err(OciError::Digest { reference: self.reference.with_digest(expected).to_string(), found })
            }
            _ => Ok((answer.body, found)),
        }
    }

    /// Stores a manifest under a tag or its digest. Returns whether the registry keeps track of what refers to which artifact.
    ///
    /// # Errors
    /// The registry cannot be asked, or refuses.
    pub fn put_manifest(&self, name: &str, media_type: &str, bytes: &[u8]) -> Result<bool, OciError> {
        let endpoint = self.registry();
        let url = endpoint.url(&format!("manifests/{name}"));
        let (headers, body) = ([("content-type", media_type)], Bytes::copy_from_slice(bytes));
        let answer = self.ask(endpoint, Method::PUT, &url, &headers, &body, MAX_ANSWER, "write to")?;
        self.expect_created(&answer)?;
        Ok(answer.header("oci-subject").is_some())
    }

    /// The artifacts that refer to the one with this digest.
    ///
    /// # Errors
    /// The registry cannot be asked, refuses, or answers with something else.
    pub fn referrers(&self, digest: &Sha256Digest) -> Result<Referrers, OciError> {
        // A mirror may know the artifact without what refers to it, so the registry itself is asked first.
        let mut last = None;
        for endpoint in self.endpoints.iter().rev() {
            match self.referrers_from(endpoint, digest) {
                Err(error) if error.kind() == ErrorKind::Interrupted => return Err(error),
                Err(error) => last = Some(last.unwrap_or(error)),
                found => return found,
            }
        }
        Err(last.unwrap_or_else(|| self.unexpected("a server", "none")))
    }

    fn referrers_from(&self, endpoint: &Endpoint, digest: &Sha256Digest) -> Result<Referrers, OciError> {
        let url = endpoint.url(&format!("referrers/{}", oci_digest(digest)));
        let mut url = url.with_query(&[("artifactType", BUNDLE)]);
        let headers = [("accept", IMAGE_INDEX)];
        let mut referrers = Referrers::default();
        // A registry that leaves the choice of the type to its clients may have pages without a bundle.
        for _ in 0..MAX_REFERRER_PAGES {
            let answer = self.ask(endpoint, Method::GET, &url, &headers, &Bytes::new(), MAX_LENGTH, "read")?;
            match answer.status.code() {
                200 => referrers.extend(self.parse_referrers(&answer.body)?),
                // A registry that does not know the question. Clients keep a tag in its place.
                400 | 404 | 405 => return Ok(self.tagged_referrers(endpoint, digest)?.unwrap_or_default()),
                _ => return Err(self.refusal("read", &answer)),
            }
            match answer.next_page().map_err(refused("read", &self.reference))? {
                Some(next) => url = next,
                None => break,
            }
        }
        Ok(referrers)
    }

    /// The index that clients keep under a tag where the registry does not keep track of referrers itself; `None` if there is none.
    fn tagged_referrers(&self, endpoint: &Endpoint, digest: &Sha256Digest) -> Result<Option<Referrers>, OciError> {
        match self.manifest_from(endpoint, &referrers_tag(digest)) {
            Ok((bytes, _)) => self.parse_referrers(&bytes).map(Some),
            Err(OciError::NotFound { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Adds a bundle to the index that clients keep under a tag.
    ///
    /// # Errors
    /// The registry cannot be asked, or refuses.
    pub fn tag_referrer(&self, subject: &Sha256Digest, manifest: &[u8]) -> Result<(), OciError> {
        let mut referrers = self.tagged_referrers(self.registry(), subject)?.unwrap_or_default();
        referrers.add_bundle(manifest);
        self.put_manifest(&referrers_tag(subject), IMAGE_INDEX, &referrers.to_bytes()).map(drop)
    }

    /// The tags of the repository, sorted.
    ///
    /// # Errors
    /// The registry cannot be asked, refuses, or answers with something else.
    pub fn tags(&self) -> Result<BTreeSet<String>, OciError> {
        let mut url = self.registry().url("tags/list").with_query(&[("n", "1000")]);
        let (mut tags, mut n_bytes) = (BTreeSet::new(), 0);
        for _ in 0..MAX_PAGES {
            let limit = MAX_TAGS_LENGTH - n_bytes;
            let answer = self.ask(self.registry(), Method::GET, &url, &[], &Bytes::new(), limit, "list the tags of")?;
            match answer.status.code() {
                200 => {}
                404 => {
                    let source = Box::new(answer.refusal());
                    return Err(OciError::NotFound { reference: self.reference.to_string(), source });
                }
                _ => return Err(self.refusal("list the tags of", &answer)),
            }
            n_bytes += answer.body.len() as u64;
            let page: TagPage = serde_json::from_slice(&answer.body)
                .map_err(|error| self.unexpected("a list of tags", &format!("something else ({error})")))?;
            // Those that stand for referrers are no names of artifacts.
            let is_name =
                |tag: &String| tag.strip_prefix("sha256-").is_none_or(|rest| rest.parse::<Sha256Digest>().is_err());
            tags.extend(page.tags.unwrap_or_default().into_iter().filter(is_name));
            if tags.len() > MAX_TAGS {
                return Err(self.unexpected(&format!("at most {MAX_TAGS} tags"), "more"));
            }
            match answer.next_page().map_err(refused("list the tags of", &self.reference))? {
                Some(next) => url = next,
                None => return Ok(tags),
            }
        }
        Err(self.unexpected(&format!("at most {MAX_PAGES} pages of tags"), "more"))
    }

    fn parse_referrers(&self, bytes: &[u8]) -> Result<Referrers, OciError> {
        Referrers::parse(bytes).map_err(|error| self.unexpected("a list of referrers", &error.to_string()))
    }

    /// The artifact of the repository with this tag or digest, for messages.
    fn named(&self, name: &str) -> String {
        let named = match parse_digest(name) {
            Some(digest) => Ok(self.reference.with_digest(digest)),
            None => self.reference.with_tag(name),
        };
        named.as_ref().unwrap_or(&self.reference).to_string()
    }

    /// The registry itself.
    pub(super) fn registry(&self) -> &Endpoint {
        &self.endpoints[self.endpoints.len() - 1]
    }

    /// Makes a call, with retries where they may help.
    #[allow(clippy::too_many_arguments)]
    pub(super) fn ask(
        &self,
        endpoint: &Endpoint,
        method: Method,
        url: &Url,
        headers: &[(&'static str, &str)],
        body: &Bytes,
        limit: u64,
        action: &'static str,
    ) -> Result<Answered, OciError> {
        let (network, url, body, is_mirror) = (endpoint.network.clone(), url.clone(), body.clone(), endpoint.is_mirror);
        let headers: Vec<(&'static str, String)> =
            headers.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
        let call: Pin<Box<dyn Future<Output = Result<Answered, NetworkError>> + Send>> = Box::pin(async move {
            let headers: Vec<(&'static str, &str)> =
                headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
            let mut retries = (!is_mirror).then(|| network.retries());
            loop {
                let body = CallBody::Bytes(body.clone());
                let is_anonymous = false;
                let call = Call { method: method.clone(), url: &url, headers: &headers, body, is_anonymous, limit };
                let error = match network.call(call).await {
                    Ok(answer) if !answer.refusal().is_transient() => return Ok(answer),
                    Ok(answer) => answer.refusal(),
                    Err(error) => error,
                };
                match &mut retries {
                    Some(retries) => retries.pause(error).await?,
                    None => return Err(error),
                }
            }
        });
        endpoint.network.wait(&self.activity, call).map_err(refused(action, &self.reference))
    }

    pub(super) fn expect_created(&self, answer: &Answered) -> Result<(), OciError> {
        match answer.status.code() {
            201 => Ok(()),
            _ => Err(self.refusal("write to", answer)),
        }
    }

    pub(super) fn refusal(&self, action: &'static str, answer: &Answered) -> OciError {
        let (reference, source) = (self.reference.to_string(), Box::new(answer.refusal()));
        OciError::Refused { action, reference, message: message(&answer.body), source }
    }

    pub(super) fn unexpected(&self, expected: &str, found: &str) -> OciError {
        OciError::Answer {
            reference: self.reference.to_string(),
            expected: expected.to_owned(),
            found: found.to_owned(),
        }
    }
}

#[derive(Deserialize)]
struct TagPage {
    tags: Option<Vec<String>>,
}

#[derive(Deserialize)]
struct RefusalBody {
    errors: Vec<RefusalEntry>,
}

#[derive(Deserialize)]
struct RefusalEntry {
    #[serde(default)]
    code: String,
    #[serde(default)]
    message: String,
}

/// The registry's own words for a refusal, in one line.
fn message(body: &[u8]) -> String {
    let Ok(refusal) = serde_json::from_slice::<RefusalBody>(body) else { return String::new() };
    let Some(first) = refusal.errors.into_iter().next() else { return String::new() };
    let text = if first.message.is_empty() { first.code } else { first.message };
    text.chars().filter(|c| !c.is_control()).take(200).collect()
}

/// The tag that stands for the referrers of an artifact, where the registry does not keep track of them.
fn referrers_tag(digest: &Sha256Digest) -> String {
    format!("sha256-{digest}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_has_the_words_of_the_registry() {
        assert_eq!(message(br#"{"errors":[{"code":"DENIED","message":"no\nway"}]}"#), "noway");
        assert_eq!(message(br#"{"errors":[{"code":"DENIED"}]}"#), "DENIED");
        assert_eq!(message(b"<html>"), "");
    }
}
