//! Reads the body of a request within the limits: its size, the memory of all calls, and the time that the client takes.

use std::time::{Duration, Instant};

use axum::body::Body;
use bytes::Bytes;
use http_body::{Body as _, Frame};
use http_body_util::BodyExt;

use crate::encoding::Encoding;
use crate::failure::{Failure, Reason};
use crate::limits::{Limits, MIN_BYTES_PER_SECOND};
use crate::model::admission::{FULL, Share};
use crate::work::on_thread;

/// The body of a request, as it is read.
#[derive(Debug)]
pub(crate) struct BodyReader {
    body: Body,
    /// What was received and not yet taken.
    received: Bytes,
    n_received: usize,
    share: Share,
    /// What the share has of bytes that were not received yet.
    n_reserved: usize,
    max_bytes: usize,
    started: Instant,
    pause: Duration,
}

impl BodyReader {
    /// `length` is the size that the client states, if it does.
    ///
    /// # Errors
    /// The stated size exceeds the limit, or the memory for calls that is left.
    pub(crate) fn new(body: Body, length: Option<u64>, limits: &Limits, share: Share) -> Result<Self, Failure> {
        let max_bytes = limits.body_bytes;
        let (received, started, pause) = (Bytes::new(), Instant::now(), limits.body_pause);
        let mut reader = Self { body, received, n_received: 0, share, n_reserved: 0, max_bytes, started, pause };
        if let Some(length) = length {
            reader.announced(usize::try_from(length).unwrap_or(usize::MAX))?;
        }
        Ok(reader)
    }

    /// The client says that this many bytes follow.
    ///
    /// # Errors
    /// They exceed the limit, or the memory for calls that is left. They are refused now, and not after the client has sent most of them.
    pub(crate) fn announced(&mut self, n_bytes: usize) -> Result<(), Failure> {
        if n_bytes > self.n_left() {
            return Err(too_large(self.max_bytes));
        }
        match self.share.is_full_for(n_bytes.saturating_sub(self.received.len())) {
            true => Err(Failure::new(Reason::Overloaded, FULL)),
            false => Ok(()),
        }
    }

    /// Waits for the first byte of the next message of a stream, however long the client takes. The limits of size and time begin anew
    /// with it. `false` at the end of the body.
    ///
    /// # Errors
    /// The body cannot be read, or the memory for calls is used up.
    pub(crate) async fn next_message(&mut self) -> Result<bool, Failure> {
        while self.received.is_empty() {
            let Some(frame) = self.body.frame().await else { return Ok(false) };
            self.n_received = 0;
            self.receive_frame(frame)?;
        }
        (self.n_received, self.started) = (self.received.len(), Instant::now());
        Ok(true)
    }

    /// Returns what was taken of the memory for calls up to here. What was received of the next message is counted anew.
    pub(crate) fn take_share(&mut self) -> Share {
        let mut next = self.share.empty();
        next.count(self.received.len());
        std::mem::replace(&mut self.share, next)
    }

    /// The share of the memory for calls, for what is made of the body before it ends.
    pub(crate) fn share(&mut self) -> &mut Share {
        &mut self.share
    }

    /// The most bytes that may still follow.
    pub(crate) fn n_left(&self) -> usize {
        self.max_bytes.saturating_sub(self.n_received).saturating_add(self.received.len())
    }

    /// Takes exactly `n_bytes`.
    ///
    /// # Errors
    /// The body ends before; it is too large or too slow.
    pub(crate) async fn take(&mut self, n_bytes: usize) -> Result<Bytes, Failure> {
        if n_bytes > self.n_left() {
            return Err(too_large(self.max_bytes));
        }
        self.receive().await?;
        if self.received.len() >= n_bytes {
            return Ok(self.received.split_to(n_bytes));
        }
        let mut taken = Vec::from(std::mem::take(&mut self.received));
        while taken.len() < n_bytes {
            if !self.receive().await? {
                return Err(ended(n_bytes - taken.len()));
            }
            taken.extend_from_slice(&self.received.split_to(self.received.len().min(n_bytes - taken.len())));
        }
        Ok(taken.into())
    }

    /// Takes the memory for calls that the next `n_bytes` need, before memory is allocated for them.
    ///
    /// # Errors
    /// They exceed the limit, or the memory for calls is used up.
    pub(crate) fn reserve(&mut self, n_bytes: usize) -> Result<(), Failure> {
        if n_bytes > self.n_left() {
            return Err(too_large(self.max_bytes));
        }
        let n_missing = n_bytes.saturating_sub(self.received.len()).saturating_sub(self.n_reserved);
        self.share.grow(n_missing)?;
        self.n_reserved += n_missing;
        Ok(())
    }

    /// Writes the next bytes to `memory`, which is filled.
    ///
    /// # Errors
    /// As [`take`](Self::take).
    pub(crate) async fn fill(&mut self, memory: &mut [u8]) -> Result<(), Failure> {
        let mut rest = memory;
        while !rest.is_empty() {
            if !self.receive().await? {
                return Err(ended(rest.len()));
            }
            let part = self.received.split_to(self.received.len().min(rest.len()));
            let (place, behind) = rest.split_at_mut(part.len());
            place.copy_from_slice(&part);
            rest = behind;
        }
        Ok(())
    }

    /// Takes all bytes up to the end.
    ///
    /// # Errors
    /// The body is too large or too slow.
    pub(crate) async fn rest(&mut self) -> Result<Bytes, Failure> {
        self.receive().await?;
        let first = std::mem::take(&mut self.received);
        if !self.receive().await? {
            return Ok(first);
        }
        let mut all = Vec::from(first);
        while self.receive().await? {
            all.extend_from_slice(&std::mem::take(&mut self.received));
        }
        Ok(all.into())
    }

    /// Reads and decodes all bytes. From then on, the decoded ones are those of the body.
    ///
    /// # Errors
    /// The body is too large, before or after that, or too slow, or does not have the encoding.
    pub(crate) async fn decode(&mut self, encoding: Encoding) -> Result<(), Failure> {
        let (encoded, max_bytes, mut share) = (self.rest().await?, self.max_bytes, self.share.empty());
        let decode = move || encoding.decompress(&encoded, max_bytes, &mut share).map(|decoded| (decoded, share));
        let (decoded, share) = on_thread(decode).await?;
        // What the encoded bytes took is given back.
        (self.n_received, self.received, self.share) = (decoded.len(), decoded.into(), share);
        Ok(())
    }

    /// Checks that nothing follows, and returns what the request took of the memory for calls.
    ///
    /// # Errors
    /// More bytes follow than the request describes.
    pub(crate) async fn end(mut self) -> Result<Share, Failure> {
        match self.receive().await? {
            true => Err(Failure::invalid("more bytes follow than the inputs of the request have")),
            false => Ok(self.share),
        }
    }

    /// Waits until there are bytes to take. `false` at the end of the body.
    async fn receive(&mut self) -> Result<bool, Failure> {
        while self.received.is_empty() {
            if self.body.is_end_stream() {
                return Ok(false);
            }
            // The more a client has sent, the more time it gets.
            let earned = Duration::from_millis((self.n_received as u64).saturating_mul(1000) / MIN_BYTES_PER_SECOND);
            let patience = (self.started + self.pause + earned).min(Instant::now() + self.pause);
            let slow = || Failure::new(Reason::SlowClient, "the client sends its request too slowly");
            let frame = tokio::time::timeout_at(patience.into(), self.body.frame()).await.map_err(|_| slow())?;
            let Some(frame) = frame else { return Ok(false) };
            self.receive_frame(frame)?;
        }
        Ok(true)
    }

    fn receive_frame(&mut self, frame: Result<Frame<Bytes>, axum::Error>) -> Result<(), Failure> {
        let frame = frame.map_err(|error| unreadable(&error))?;
        // Trailers say nothing about inputs.
        let Ok(data) = frame.into_data() else { return Ok(()) };
        self.n_received += data.len();
        if self.n_received > self.max_bytes {
            return Err(too_large(self.max_bytes));
        }
        let n_reserved = self.n_reserved.min(data.len());
        self.n_reserved -= n_reserved;
        self.share.grow(data.len() - n_reserved)?;
        self.received = data;
        Ok(())
    }
}

/// The failure of a body that cannot be read: its client has left, or does not keep to the protocol.
fn unreadable(error: &axum::Error) -> Failure {
    use std::io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};

    let causes = || std::iter::successors(Some(error as &dyn std::error::Error), |cause| cause.source());
    let kind = causes().find_map(|cause| cause.downcast_ref::<std::io::Error>()).map(std::io::Error::kind);
    let reason = match kind {
        Some(BrokenPipe | ConnectionAborted | ConnectionReset | UnexpectedEof) => Reason::ClientLeft,
        _ => Reason::InvalidArgument,
    };
    let innermost = causes().last().map(ToString::to_string).unwrap_or_default();
    Failure::new(reason, format!("the request cannot be read: {innermost}"))
}

fn too_large(max_bytes: usize) -> Failure {
    Failure::new(
        Reason::TooLarge,
        format!("the request is larger than {max_bytes} bytes, the most that this server takes"),
    )
}

fn ended(n_missing: usize) -> Failure {
    Failure::invalid(format!("the request ends {n_missing} bytes too early"))
}
