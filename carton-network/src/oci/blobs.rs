//! The requests for blobs of a repository.

use bytes::Bytes;
use carton_format::digest::Sha256Digest;
use carton_format::url::Url;
use tokio::sync::mpsc;

use super::endpoint::MAX_ANSWER;
use super::error::refused;
use super::reference::oci_digest;
use super::{Client, Endpoint, OciError};
use crate::http::{Call, CallBody, Method, NetworkError, Part, Retries, Wanted};

/// The result of the attempt to begin an upload.
pub enum UploadStart {
    /// The registry has the blob already: it took it from another repository.
    Mounted,
    /// The blob is to be sent to this URL.
    Upload(Url),
}

impl Client {
    /// Whether the repository has a blob.
    ///
    /// # Errors
    /// The registry cannot be asked, or refuses.
    pub fn has_blob(&self, digest: &Sha256Digest) -> Result<bool, OciError> {
        let endpoint = self.registry();
        let url = endpoint.url(&format!("blobs/{}", oci_digest(digest)));
        let answer = self.ask(endpoint, Method::HEAD, &url, &[], &Bytes::new(), MAX_ANSWER, "write to")?;
        match answer.status.code() {
            // A redirect leads to where the blob is.
            200 | 301 | 302 | 303 | 307 | 308 => Ok(true),
            404 => Ok(false),
            _ => Err(self.refusal("write to", &answer)),
        }
    }

    /// Begins the upload of a blob, or takes it over from another repository of the registry. A registry that refuses to take it over is
    /// asked for an upload.
    ///
    /// # Errors
    /// The registry cannot be asked, or refuses.
    pub fn begin(&self, mount: Option<(&Sha256Digest, &str)>) -> Result<UploadStart, OciError> {
        let endpoint = self.registry();
        let mut url = endpoint.url("blobs/uploads/");
        if let Some((digest, from)) = mount {
            url = url.with_query(&[("mount", &oci_digest(digest)), ("from", from)]);
        }
        let answer = self.ask(endpoint, Method::POST, &url, &[], &Bytes::new(), MAX_ANSWER, "write to")?;
        match (answer.status.code(), answer.location()) {
            (201, _) if mount.is_some() => Ok(UploadStart::Mounted),
            // A registry may have its uploads elsewhere, but the bytes stay as safe as the registry's own connections.
            (202, Some(location)) if endpoint.is_as_safe(&location) => Ok(UploadStart::Upload(location)),
            (202, _) => Err(self.unexpected("the place of an upload", "none, or one without encryption")),
            // The user may not be allowed to read the other repository, or the registry takes over nothing.
            (400 | 401 | 403 | 404 | 405, _) if mount.is_some() => self.begin(None),
            _ => Err(self.refusal("write to", &answer)),
        }
    }

    /// Sends a small blob, unless the repository has it.
    ///
    /// # Errors
    /// The registry cannot be asked, or refuses.
    pub fn put_small_blob(&self, bytes: &[u8]) -> Result<(), OciError> {
        let digest = Sha256Digest::of(bytes);
        if self.has_blob(&digest)? {
            return Ok(());
        }
        let UploadStart::Upload(location) = self.begin(None)? else { return Ok(()) };
        let url = location.with_query(&[("digest", &oci_digest(&digest))]);
        let headers = [("content-type", "application/octet-stream")];
        let body = Bytes::copy_from_slice(bytes);
        let answer = self.ask(self.registry(), Method::PUT, &url, &headers, &body, MAX_ANSWER, "write to")?;
        // A registry that stored the blob before a connection broke does not know the upload when it is tried again.
        if answer.status.code() == 404 && self.has_blob(&digest)? {
            return Ok(());
        }
        self.expect_created(&answer)
    }

    /// Sends a blob of `length` bytes to the `location` of an upload, as its pieces arrive. Nothing is tried again.
    ///
    /// # Errors
    /// The registry cannot be asked, or refuses.
    pub fn put_blob(
        &self,
        location: &Url,
        digest: &Sha256Digest,
        length: u64,
        pieces: mpsc::Receiver<std::io::Result<Bytes>>,
    ) -> Result<(), OciError> {
        let url = location.clone().with_query(&[("digest", &oci_digest(digest))]);
        let network = self.registry().network.clone();
        let sent = network.clone().wait(&self.activity, async move {
            let headers = [("content-type", "application/octet-stream")];
            let body = CallBody::Stream { length, pieces };
            let (method, is_anonymous) = (Method::PUT, false);
            network.call(Call { method, url: &url, headers: &headers, body, is_anonymous, limit: MAX_ANSWER }).await
        });
        let answer = sent.map_err(refused("write to", &self.reference))?;
        self.expect_created(&answer)
    }

    /// The retry state of one upload.
    pub fn retries(&self) -> Retries {
        self.registry().network.retries()
    }

    /// Waits before the next attempt at an upload.
    ///
    /// # Errors
    /// Returns `error` itself if another attempt would not help, or if the limit is reached.
    pub fn pause(&self, mut retries: Retries, error: OciError) -> Result<Retries, OciError> {
        let OciError::Refused { action, reference, message, source } = error else { return Err(error) };
        let paused = self.registry().network.wait(&self.activity, async move {
            retries.pause(*source).await?;
            Ok::<_, NetworkError>(retries)
        });
        paused.map_err(|source| OciError::Refused { action, reference, message, source: Box::new(source) })
    }

    /// Reads a small blob into memory; `None` if it is missing.
    ///
    /// # Errors
    /// The registry cannot be asked, or refuses; the blob is longer than `limit` or has another digest.
    pub fn small_blob(&self, digest: &Sha256Digest, limit: u64) -> Result<Option<Vec<u8>>, OciError> {
        self.first_answer(|endpoint| self.small_blob_from(endpoint, digest, limit))
    }

    fn small_blob_from(
        &self,
        endpoint: &Endpoint,
        digest: &Sha256Digest,
        limit: u64,
    ) -> Result<Option<Vec<u8>>, OciError> {
        let url = endpoint.url(&format!("blobs/{}", oci_digest(digest)));
        let wanted = Wanted { url, part: Part::Whole, version: None, known: None, limit };
        match endpoint.network.read(wanted, &self.activity) {
            Ok(fetched) => match Sha256Digest::of(&fetched.bytes) {
                found if found == *digest => Ok(Some(fetched.bytes)),
                found => Err(OciError::Digest { reference: self.reference.with_digest(*digest).to_string(), found }),
            },
            Err(error @ NetworkError::Status { status, .. }) if matches!(status.code(), 404 | 410) => {
                match endpoint.is_mirror {
                    // The mirror may have other blobs, and the registry this one.
                    true => {
                        let reference = self.reference.to_string();
                        Err(OciError::NotFound { reference, source: Box::new(error) })
                    }
                    false => Ok(None),
                }
            }
            Err(error) => Err(refused("read", &self.reference)(error)),
        }
    }
}
