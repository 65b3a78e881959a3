//! The tasks that fetch: the first request, whose answer shows what the server offers, then the ranges, or the single stream of a server
//! without ranges.

use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use carton_format::url::Url;

use super::DownloadError;
use super::ledger::Span;
use super::pace::{Pace, SMALLEST};
use super::store::{Store, TaskGuard};
use crate::http::{Extent, Network, NetworkError, Part, Reply, Request, Retries, Version};

/// The number of bytes in the first request of a download.
pub(super) const FIRST_REQUEST: u64 = SMALLEST;

/// The bytes to download, of a certain file.
#[derive(Clone, Debug)]
pub(super) struct Selection {
    pub(super) url: Url,
    /// The version that the file must have.
    pub(super) version: Option<Version>,
    /// The part of the file; `None` for all of it.
    pub(super) range: Option<Range<u64>>,
    pub(super) accept_encoded: bool,
}

/// A download whose first answer has arrived.
#[derive(Debug)]
pub(super) struct Fetch {
    pub(super) network: Network,
    pub(super) url: Url,
    pub(super) version: Version,
    pub(super) encodings: Vec<String>,
    pub(super) accept_encoded: bool,
    /// The offset of the bytes in the remote file.
    pub(super) offset: u64,
    pub(super) store: Arc<Store>,
    pub(super) pace: Pace,
}

impl Selection {
    fn request(&self, part: Part) -> Request<'_> {
        let version = self.version.as_ref();
        Request { version, accept_encoded: self.accept_encoded, ..Request::new(&self.url, part) }
    }

    /// Sends the first request, for at most `size` of the wanted bytes from `position` among them on, and returns the answer.
    pub(super) async fn first_reply(&self, network: &Network, position: u64, size: u64) -> Result<Reply, NetworkError> {
        let start = self.range.as_ref().map_or(0, |range| range.start).saturating_add(position);
        let end = self.range.as_ref().map_or(u64::MAX, |range| range.end).min(start.saturating_add(size));
        let known_length = self.version.as_ref().and_then(|version| version.length).unwrap_or(u64::MAX);
        let end = end.min(known_length).max(start.saturating_add(1));
        self.reply(network, Part::Range(start..end)).await
    }

    /// Requests the whole file and returns the answer.
    pub(super) async fn whole_reply(&self, network: &Network) -> Result<Reply, NetworkError> {
        self.reply(network, Part::Whole).await
    }

    async fn reply(&self, network: &Network, part: Part) -> Result<Reply, NetworkError> {
        let mut retries = network.retries();
        let request = self.request(part);
        loop {
            match network.send(&request).await {
                Ok(reply) => return Ok(reply),
                Err(error) => retries.pause(error).await?,
            }
        }
    }
}

impl Fetch {
    /// Fetches ranges until none is left. `first` is an answer that has already arrived, with its span.
    pub(super) async fn ranges(self: Arc<Self>, _guard: TaskGuard, mut first: Option<(Span, Reply)>) {
        let n_requests = self.network.options().n_ranges;
        loop {
            let (mut span, reply) = match first.take() {
                Some((span, reply)) => (span, Some(reply)),
                None => match self.store.take(|missing| self.pace.size(missing, n_requests)) {
                    Some(span) => (span, None),
                    None => return,
                },
            };
            let fetched = self.span(&mut span, reply).await;
            self.store.release(&span);
            if let Err(error) = fetched {
                return self.store.fail(error);
            }
        }
    }

    /// Fetches one span, with as many retries as are allowed.
    async fn span(&self, span: &mut Span, mut reply: Option<Reply>) -> Result<(), DownloadError> {
        let mut retries = self.network.retries();
        loop {
            let start = span.next;
            match self.span_once(span, reply.take()).await {
                Ok(()) => return Ok(()),
                Err(error) => self.pause(&mut retries, error, span.next - start).await?,
            }
        }
    }

    async fn span_once(&self, span: &mut Span, reply: Option<Reply>) -> Result<(), DownloadError> {
        let mut reply = match reply {
            Some(reply) => reply,
            None => {
                let part = Part::Range(self.offset + span.next..self.offset + span.end);
                let sent_at = Instant::now();
                let reply = self.send(part).await?;
                self.pace.add_round_trip(sent_at.elapsed());
                reply
            }
        };
        if !matches!(reply.extent(), Extent::Part { .. }) {
            return Err(NetworkError::Answer {
                url: self.url.shown(),
                expected: format!("bytes {}-{}", self.offset + span.next, self.offset + span.end - 1),
                found: "the whole file: the server does not answer with ranges any more".to_owned(),
            }
            .into());
        }
        let start = span.next;
        while let Some(bytes) = reply.chunk().await? {
            let n_bytes = bytes.len() as u64;
            if n_bytes > span.end - span.next {
                return Err(NetworkError::internal("an answer is longer than its range").into());
            }
            self.pace.add_received(n_bytes);
            self.store.activity().add_received(n_bytes);
            self.store.write(span.next, &bytes)?;
            span.next += n_bytes;
        }
        if span.next < span.end {
            let (expected, found) = (span.end - start, span.next - start);
            return Err(NetworkError::Cut { url: self.url.shown(), expected, found }.into());
        }
        Ok(())
    }

    /// Reads everything from one answer, at most `limit` bytes. If it breaks off, a further answer is read up to that point and
    /// continued, provided that it must have the same bytes.
    pub(super) async fn stream(self: Arc<Self>, _guard: TaskGuard, first: Reply, limit: u64) {
        let mut retries = self.network.retries();
        let (mut reply, mut kept) = (Some(first), 0);
        loop {
            let start = kept;
            match self.stream_once(reply.take(), &mut kept, limit).await {
                Ok(()) => return self.store.finish_stream(),
                Err(error) if kept > 0 && !is_provable(&self.version) => return self.store.fail(error),
                Err(error) => {
                    if let Err(error) = self.pause(&mut retries, error, kept - start).await {
                        return self.store.fail(error);
                    }
                }
            }
        }
    }

    async fn stream_once(&self, reply: Option<Reply>, kept: &mut u64, limit: u64) -> Result<(), DownloadError> {
        let mut reply = match reply {
            Some(reply) => reply,
            None => self.send(Part::Whole).await?,
        };
        let mut position = 0;
        while let Some(bytes) = reply.chunk().await? {
            let end = position + bytes.len() as u64;
            self.store.activity().add_received(bytes.len() as u64);
            if end > limit {
                return Err(NetworkError::TooLarge { url: self.url.shown(), limit }.into());
            }
            if end > *kept {
                let skipped = usize::try_from(*kept - position.min(*kept)).unwrap_or(usize::MAX);
                self.store.write(position + skipped as u64, &bytes[skipped..])?;
                *kept = end;
            }
            position = end;
        }
        if position < *kept {
            return Err(NetworkError::Cut { url: self.url.shown(), expected: *kept, found: position }.into());
        }
        Ok(())
    }

    async fn send(&self, part: Part) -> Result<Reply, NetworkError> {
        let request = Request { accept_encoded: self.accept_encoded, ..Request::new(&self.url, part) };
        let reply = self.network.send(&Request { version: Some(&self.version), ..request.clone() }).await?;
        let reply = match reply.extent() {
            // Some servers do not accept a date in `If-Range`, or no recent one. The version of the answer is compared in any case.
            Extent::Whole if request.part != Part::Whole && self.version.strong_etag().is_none() => {
                self.network.send(&request).await?
            }
            _ => reply,
        };
        let changed = |expected, found| Err(NetworkError::Changed { url: self.url.shown(), expected, found });
        if self.version.differs(reply.version()) {
            return changed(self.version.to_string(), reply.version().to_string());
        }
        if reply.encodings() != self.encodings {
            let name = |encodings: &[String]| match encodings {
                [] => "no content encoding".to_owned(),
                some => some.join(", "),
            };
            return changed(name(&self.encodings), name(reply.encodings()));
        }
        Ok(reply)
    }

    async fn pause(&self, retries: &mut Retries, error: DownloadError, n_bytes: u64) -> Result<(), DownloadError> {
        let DownloadError::Network(error) = error else { return Err(error) };
        retries.progress(n_bytes);
        Ok(retries.pause(error).await?)
    }
}

/// Whether a later answer can be recognised as having the same bytes. A strong `ETag` promises that. A date is wrong if the file changed
/// twice within one second and kept its length; the hash of the whole download shows that.
pub(super) fn is_provable(version: &Version) -> bool {
    version.if_range().is_some()
}

/// Whether later ranges will be parts of the same bytes as this answer. They may not be if the bytes are encoded and have no strong
/// `ETag`, because the server may encode the file anew for each request.
pub(super) fn has_stable_ranges(reply: &Reply) -> bool {
    reply.encodings().is_empty() || reply.version().strong_etag().is_some()
}
