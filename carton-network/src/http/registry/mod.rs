//! Logins at registries (OCI Distribution Spec; the token scheme is Docker's, <https://distribution.github.io/distribution/spec/auth/token/>).
//!
//! A registry refuses a request with a challenge. The challenge names the server that gives tokens, or asks for user and password. The
//! login answers it with the user's credentials, remembers the answer for further requests, and answers again when a token has expired.

mod challenge;

use std::sync::Arc;
use std::time::Duration;

use carton_format::url::Url;
use parking_lot::Mutex;
use reqwest::RequestBuilder;
use reqwest::header::{self, HeaderMap, HeaderValue};
use serde::Deserialize;

use self::challenge::Challenge;
use super::credentials::RegistryCredential;
use super::{CredentialsSent, Network, NetworkError, Secret, failure, send};

/// The longest answer of a token server that is read, in bytes.
const MAX_TOKEN_ANSWER: usize = 1 << 20;

/// A login at one registry, for some of its repositories. Clones of a [`Network`] share it.
#[derive(Debug)]
pub(crate) struct RegistryLogin {
    /// Any URL of the registry. Its scheme, host and port are those that may receive the login.
    registry: Url,
    /// The repository whose login is used; files of logins can have one for each.
    repository: String,
    /// What tokens are asked for: `repository:NAME:pull`.
    scopes: Vec<String>,
    /// The servers of tokens that may receive the login, beside the registry's own host.
    token_servers: Vec<String>,
    answer: Mutex<Option<Answer>>,
    /// Held while the challenge is answered, so that requests at once ask for one token.
    answering: tokio::sync::Mutex<()>,
}

/// What requests say to be let in.
#[derive(Clone, Debug)]
struct Answer {
    header: HeaderValue,
    sent: CredentialsSent,
}

impl RegistryLogin {
    /// The login for `scopes` of a repository. Tokens are fetched from the registry's host, its subdomains and `token_servers` alone.
    pub(crate) fn new(registry: Url, repository: String, scopes: Vec<String>, token_servers: Vec<String>) -> Arc<Self> {
        let (answer, answering) = (Mutex::default(), tokio::sync::Mutex::default());
        Arc::new(Self { registry, repository, scopes, token_servers, answer, answering })
    }

    /// Whether a server of tokens may receive the login. The registry names it, so that it is the registry's own server, its host over TLS, or one
    /// that the user named.
    fn may_give_tokens(&self, realm: &Url) -> bool {
        let is_own_host = realm.scheme() == "https" && realm.host_str() == self.registry.host_str();
        let is = |url: Result<Url, _>| url.is_ok_and(|url: Url| url.origin() == realm.origin());
        let mut named = self.token_servers.iter();
        is_own_host
            || self.registry.origin() == realm.origin()
            || named.any(|server| is(Url::parse(&format!("{}://{server}/", realm.scheme()))))
    }

    /// Whether the server of `url` may receive the login.
    pub(super) fn is_for(&self, url: &Url) -> bool {
        self.registry.origin() == url.origin()
    }

    /// Adds what the registry asked for to a request.
    pub(super) fn add(&self, request: RequestBuilder) -> (RequestBuilder, CredentialsSent) {
        match self.answer.lock().clone() {
            Some(Answer { header, sent }) => (request.header(header::AUTHORIZATION, header), sent),
            None => (request, CredentialsSent::None),
        }
    }

    /// Answers the challenge in the headers of a refusal, unless another request has just done so. Returns whether the request is worth
    /// another attempt.
    ///
    /// # Errors
    /// The token server cannot be reached or refuses the login; the credentials cannot be used.
    pub(super) async fn answer(
        &self,
        network: &Network,
        url: &Url,
        refused: &HeaderMap,
        sent: Option<HeaderValue>,
    ) -> Result<bool, NetworkError> {
        let _one = self.answering.lock().await;
        let known = self.answer.lock().as_ref().map(|answer| answer.header.clone());
        if known != sent {
            return Ok(true);
        }
        let Some(challenge) = Challenge::best(refused) else { return Ok(false) };
        let credential = network.registry_credential(&self.registry, &self.repository).await?;
        let answer = match (challenge, credential) {
            (Challenge::Basic, Some((RegistryCredential::Basic { user, password }, from))) => {
                Answer { header: basic(&user, &password)?, sent: CredentialsSent::From(from) }
            }
            // A token of the user's own takes the place of one that a token server gives.
            (Challenge::Bearer { .. }, Some((RegistryCredential::Bearer(token), from))) => {
                Answer { header: bearer(url, &token, &from)?, sent: CredentialsSent::From(from) }
            }
            (Challenge::Basic, _) => return Ok(false),
            (Challenge::Bearer { realm, service }, credential) => {
                let from = credential.as_ref().map(|(_, from)| from.clone());
                let credential = credential.as_ref().map(|(found, _)| found);
                let ask = |scopes| self.token(network, url, &realm, service.as_deref(), credential, scopes);
                let token = match ask(&self.scopes[..]).await {
                    // Some servers refuse all if one repository is refused. Its own alone is enough.
                    Err(NetworkError::Status { .. }) if self.scopes.len() > 1 => ask(&self.scopes[..1]).await?,
                    token => token?,
                };
                let source = from.clone().unwrap_or_else(|| "the token server".to_owned());
                let sent = from.map_or(CredentialsSent::None, CredentialsSent::From);
                Answer { header: bearer(url, &token, &source)?, sent }
            }
        };
        // The same answer would be refused again.
        let is_new = known.as_ref() != Some(&answer.header);
        *self.answer.lock() = Some(answer);
        Ok(is_new)
    }

    /// The `Authorization` header that requests carry now.
    pub(super) fn header(&self) -> Option<HeaderValue> {
        self.answer.lock().as_ref().map(|answer| answer.header.clone())
    }

    /// Asks the token server for a token.
    async fn token(
        &self,
        network: &Network,
        url: &Url,
        realm: &str,
        service: Option<&str>,
        credential: Option<&RegistryCredential>,
        scopes: &[String],
    ) -> Result<Secret, NetworkError> {
        let answer = |found: String| NetworkError::Answer {
            url: url.shown(),
            expected: "a challenge that names a token server".to_owned(),
            found,
        };
        let realm = self.registry.join(realm).map_err(|_| answer("a realm that is not a URL".to_owned()))?;
        // The user allowed this host to be asked without encryption, and no other one.
        let is_near = self.registry.scheme() == "http" && self.registry.host_str() == realm.host_str();
        match realm.scheme() {
            "https" => {}
            "http" if is_near || realm.is_this_machine() && self.registry.is_this_machine() => {}
            "http" => return Err(answer("a realm on another host without encryption".to_owned())),
            scheme => return Err(answer(format!("a realm with the scheme `{scheme}`"))),
        }
        if credential.is_some() && !self.may_give_tokens(&realm) {
            return Err(NetworkError::TokenServer { registry: self.registry.shown(), realm: realm.shown() });
        }
        let realm = realm.without_user();
        let client = network.client(&realm)?;
        let service = service.map(|service| ("service", service));
        let joined = scopes.join(" ");
        let scopes = scopes.iter().map(|scope| ("scope", scope.as_str()));
        let request = match credential {
            Some(RegistryCredential::IdentityToken(token)) => {
                let fields = [
                    ("grant_type", "refresh_token"),
                    ("client_id", "carton"),
                    ("scope", joined.as_str()),
                    ("refresh_token", token.expose()),
                ];
                let body = form_encoded(fields.into_iter().chain(service));
                let form = "application/x-www-form-urlencoded";
                client.post(realm.expose().clone()).header(header::CONTENT_TYPE, form).body(body)
            }
            credential => {
                let mut target = realm.expose().clone();
                target.query_pairs_mut().extend_pairs(service.into_iter().chain(scopes));
                let request = client.get(target);
                match credential {
                    Some(RegistryCredential::Basic { user, password }) => {
                        request.header(header::AUTHORIZATION, basic(user, password)?)
                    }
                    _ => request,
                }
            }
        };
        let shown = realm.shown();
        let timeout = network.options().idle_timeout;
        let stalled = || NetworkError::Stalled { url: realm.shown(), after: timeout, found: 0 };
        let response = tokio::time::timeout(timeout, request.send()).await.map_err(|_| stalled())?;
        let mut response = response.map_err(|error| failure::of_request(shown.clone(), error))?;
        if !response.status().is_success() {
            let sent = if credential.is_some() {
                CredentialsSent::From("the login".to_owned())
            } else {
                CredentialsSent::None
            };
            return Err(send::refusal(shown, response.status(), response.headers(), sent));
        }
        let bytes = tokio::time::timeout(timeout, read(&mut response, &realm)).await.map_err(|_| stalled())??;
        let token: TokenAnswer = serde_json::from_slice(&bytes).map_err(|_| NetworkError::Answer {
            url: realm.shown(),
            expected: "a token".to_owned(),
            found: "something else".to_owned(),
        })?;
        Ok(Secret::new(token.token.or(token.access_token).unwrap_or_default()))
    }
}

#[derive(Deserialize)]
struct TokenAnswer {
    token: Option<String>,
    access_token: Option<String>,
}

async fn read(response: &mut reqwest::Response, url: &Url) -> Result<Vec<u8>, NetworkError> {
    let mut bytes = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(|error| failure::of_body(url.shown(), error, None, 0))? {
        if bytes.len() + chunk.len() > MAX_TOKEN_ANSWER {
            return Err(NetworkError::TooLarge { url: url.shown(), limit: MAX_TOKEN_ANSWER as u64 });
        }
        bytes.extend_from_slice(&chunk);
    }
    Ok(bytes)
}

fn form_encoded<'a>(pairs: impl Iterator<Item = (&'a str, &'a str)>) -> String {
    url::form_urlencoded::Serializer::new(String::new()).extend_pairs(pairs).finish()
}

fn basic(user: &str, password: &Secret) -> Result<HeaderValue, NetworkError> {
    use base64::Engine;
    let text = base64::engine::general_purpose::STANDARD.encode(format!("{user}:{}", password.expose()));
    sensitive(&format!("Basic {text}")).ok_or_else(|| NetworkError::internal("a login that is not a valid header"))
}

fn bearer(url: &Url, token: &Secret, from: &str) -> Result<HeaderValue, NetworkError> {
    let reason = "has characters that a token cannot have, or is empty";
    let is_token = !token.expose().is_empty() && token.expose().bytes().all(|byte| byte.is_ascii_graphic());
    let header = is_token.then(|| sensitive(&format!("Bearer {}", token.expose()))).flatten();
    header.ok_or_else(|| NetworkError::Credentials {
        url: url.shown(),
        from: from.to_owned(),
        reason: reason.to_owned(),
    })
}

/// A header whose `Debug` form does not show it.
fn sensitive(text: &str) -> Option<HeaderValue> {
    let mut value = HeaderValue::from_str(text).ok()?;
    value.set_sensitive(true);
    Some(value)
}

/// Reads a challenge, for fuzzing.
#[cfg(fuzzing)]
pub(super) fn challenge(header: HeaderValue) {
    let headers = HeaderMap::from_iter([(header::WWW_AUTHENTICATE, header)]);
    let _ = Challenge::best(&headers);
}

/// How long a registry may take to store a blob of this many bytes after its last byte arrived: some copy it to an object store first.
pub(super) fn time_to_store(idle_timeout: Duration, n_bytes: u64) -> Duration {
    idle_timeout + Duration::from_secs(n_bytes >> 23)
}
