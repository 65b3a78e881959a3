//! Messages in bodies: a byte that says whether it is compressed, four with its length, and the message.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::Body;
use axum::extract::Request;
use axum::http::{HeaderMap, Response};
use bytes::Bytes;
use futures_util::{Stream, StreamExt, stream};
use http_body::Frame;
use http_body_util::StreamBody;

use super::compression;
use super::status;
use super::wire::{self, Kind, Varint};
use crate::app::App;
use crate::body::BodyReader;
use crate::counted_chunks::keep_with_chunks;
use crate::encoding::Encoding;
use crate::failure::{Failure, Reason};
use crate::limits::MAX_PLAIN_BODY;
use crate::model::admission::Share;
use crate::work::on_thread;

/// The bytes before each message.
pub(super) const PREFIX_BYTES: usize = 5;
/// The largest message that is read before it is looked at.
const SMALL_MESSAGE: usize = 64 << 10;
/// Answers below this size are not compressed.
const MIN_COMPRESSED: usize = 1024;
/// The most bytes that are taken at once to be thrown away.
const SKIP_STEP: usize = 64 << 10;

/// The messages of a request.
#[derive(Debug)]
pub(super) struct Incoming {
    body: BodyReader,
    encoding: Option<Encoding>,
    max_bytes: usize,
}

/// A message: in memory, or still on the connection.
#[derive(Debug)]
pub(super) enum Message<'a> {
    Whole(Bytes),
    Arriving { body: &'a mut BodyReader, n_left: usize },
}

impl Incoming {
    /// # Errors
    /// The request has an encoding that the server does not have.
    pub(super) fn new(app: &App, request: Request) -> Result<Self, Failure> {
        let encoding = Encoding::of(request.headers(), &compression::ENCODING)?;
        let body = BodyReader::new(request.into_body(), None, &app.limits, Share::of_bytes(&app.bytes))?;
        Ok(Self { body, encoding, max_bytes: app.limits.body_bytes })
    }

    /// The encoding of the request's messages. Answers have the same.
    pub(super) fn encoding(&self) -> Option<Encoding> {
        self.encoding
    }

    /// Waits for the next message of a stream, however long that takes. `false` at its end.
    ///
    /// # Errors
    /// The body cannot be read.
    pub(super) async fn next_message(&mut self) -> Result<bool, Failure> {
        self.body.next_message().await
    }

    /// What was taken of the memory for calls up to here. Further messages are counted anew.
    pub(super) fn take_share(&mut self) -> Share {
        self.body.take_share()
    }

    /// Reads the beginning of a message, or all of it if it is small or compressed.
    ///
    /// # Errors
    /// The message is too large, too slow or malformed, or the memory for calls is used up.
    pub(super) async fn begin(&mut self) -> Result<Message<'_>, Failure> {
        let (is_compressed, n_bytes) = self.prefix().await?;
        self.body.announced(n_bytes)?;
        if is_compressed || n_bytes <= SMALL_MESSAGE {
            return self.whole(is_compressed, n_bytes).await.map(Message::Whole);
        }
        Ok(Message::Arriving { body: &mut self.body, n_left: n_bytes })
    }

    /// Reads a message.
    ///
    /// # Errors
    /// As [`begin`](Self::begin).
    pub(super) async fn message(&mut self) -> Result<Bytes, Failure> {
        let (is_compressed, n_bytes) = self.prefix().await?;
        self.body.announced(n_bytes)?;
        self.whole(is_compressed, n_bytes).await
    }

    /// Checks that no further message follows, and returns what the request took of the memory for calls.
    ///
    /// # Errors
    /// A message follows.
    pub(super) async fn end(self) -> Result<Share, Failure> {
        self.body.end().await
    }

    /// Reads the message of a method that takes one, and no tensors.
    ///
    /// # Errors
    /// As [`begin`](Self::begin), or it is not of the method's type.
    pub(super) async fn only<M: prost::Message + Default>(mut self) -> Result<M, Failure> {
        self.max_bytes = self.max_bytes.min(MAX_PLAIN_BODY);
        let bytes = self.message().await?;
        let message = M::decode(bytes).map_err(|error| wire::malformed(&error.to_string()))?;
        self.end().await?;
        Ok(message)
    }

    async fn prefix(&mut self) -> Result<(bool, usize), Failure> {
        let prefix = self.body.take(PREFIX_BYTES).await?;
        let (flag, length) = match *prefix {
            [flag, a, b, c, d] => (flag, u32::from_be_bytes([a, b, c, d])),
            _ => return Err(Failure::new(Reason::Internal, "the prefix of a message has another length")),
        };
        let is_compressed = match (flag, self.encoding) {
            (0, _) => false,
            (1, Some(_)) => true,
            (1, None) => return Err(Failure::invalid("the message is compressed, and the request names no encoding")),
            _ => return Err(Failure::invalid("the message begins with neither 0 nor 1")),
        };
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        if length > self.max_bytes {
            return Err(too_large(length, self.max_bytes));
        }
        Ok((is_compressed, length))
    }

    async fn whole(&mut self, is_compressed: bool, n_bytes: usize) -> Result<Bytes, Failure> {
        let message = self.body.take(n_bytes).await?;
        let Some(encoding) = self.encoding.filter(|_| is_compressed) else { return Ok(message) };
        let (max_bytes, mut share) = (self.max_bytes, self.body.share().empty());
        let decompress = move || encoding.decompress(&message, max_bytes, &mut share).map(|plain| (plain, share));
        let (plain, share) = on_thread(decompress).await?;
        self.body.share().absorb(share);
        Ok(plain.into())
    }
}

fn too_large(found: usize, most: usize) -> Failure {
    Failure::new(Reason::TooLarge, format!("a message has {found} bytes, and this server takes {most} at most"))
}

impl Message<'_> {
    fn n_left(&self) -> usize {
        match self {
            Self::Whole(bytes) => bytes.len(),
            Self::Arriving { n_left, .. } => *n_left,
        }
    }

    /// Takes exactly `n_bytes`.
    ///
    /// # Errors
    /// The message has fewer, or the body cannot be read.
    pub(super) async fn take(&mut self, n_bytes: usize) -> Result<Bytes, Failure> {
        self.check_left(n_bytes)?;
        match self {
            Self::Whole(bytes) => Ok(bytes.split_to(n_bytes)),
            Self::Arriving { body, n_left } => {
                let taken = body.take(n_bytes).await?;
                *n_left -= n_bytes;
                Ok(taken)
            }
        }
    }

    /// Takes the memory for calls that the next bytes need, if they are still on the connection.
    ///
    /// # Errors
    /// The memory for calls is used up.
    pub(super) fn reserve(&mut self, n_bytes: usize) -> Result<(), Failure> {
        match self {
            Self::Whole(_) => Ok(()),
            Self::Arriving { body, .. } => body.reserve(n_bytes),
        }
    }

    /// Writes the next bytes to `memory`, which is filled.
    ///
    /// # Errors
    /// As [`take`](Self::take).
    pub(super) async fn fill(&mut self, memory: &mut [u8]) -> Result<(), Failure> {
        self.check_left(memory.len())?;
        match self {
            Self::Whole(bytes) => memory.copy_from_slice(&bytes.split_to(memory.len())),
            Self::Arriving { body, n_left } => {
                body.fill(memory).await?;
                *n_left -= memory.len();
            }
        }
        Ok(())
    }

    /// Throws bytes away.
    ///
    /// # Errors
    /// As [`take`](Self::take).
    pub(super) async fn skip(&mut self, n_bytes: usize) -> Result<(), Failure> {
        self.check_left(n_bytes)?;
        let mut rest = n_bytes;
        while rest > 0 {
            let step = rest.min(SKIP_STEP);
            self.take(step).await?;
            rest -= step;
        }
        Ok(())
    }

    /// Whether the rest is still on the connection.
    pub(super) fn is_arriving(&self) -> bool {
        matches!(self, Self::Arriving { .. })
    }

    /// The next field that has a length: its number and length. Its bytes come next. Other fields are skipped. `None` at the end.
    ///
    /// # Errors
    /// The message is malformed, or cannot be read.
    pub(super) async fn next_field(&mut self) -> Result<Option<(u32, usize)>, Failure> {
        while self.n_left() > 0 {
            let (number, kind) = wire::key(self.varint().await?)?;
            match kind {
                Kind::Varint => drop(self.varint().await?),
                Kind::Fixed64 => self.skip(8).await?,
                Kind::Fixed32 => self.skip(4).await?,
                Kind::Length => {
                    let n_bytes = usize::try_from(self.varint().await?).unwrap_or(usize::MAX);
                    self.check_left(n_bytes)?;
                    return Ok(Some((number, n_bytes)));
                }
            }
        }
        Ok(None)
    }

    async fn varint(&mut self) -> Result<u64, Failure> {
        if let Self::Whole(bytes) = self {
            return wire::varint(bytes);
        }
        let mut varint = Varint::default();
        loop {
            for byte in self.take(1).await? {
                if let Some(value) = varint.push(byte)? {
                    return Ok(value);
                }
            }
        }
    }

    fn check_left(&self, n_bytes: usize) -> Result<(), Failure> {
        match n_bytes > self.n_left() {
            true => Err(wire::malformed("a field is cut off")),
            false => Ok(()),
        }
    }
}

/// Writes the prefix of a message that is not compressed.
///
/// # Errors
/// The message has more bytes than a prefix can say.
pub(super) fn prefix(n_bytes: usize) -> Result<[u8; PREFIX_BYTES], Failure> {
    framed(0, n_bytes)
}

fn framed(flag: u8, n_bytes: usize) -> Result<[u8; PREFIX_BYTES], Failure> {
    let n_bytes = u32::try_from(n_bytes);
    let n_bytes =
        n_bytes.map_err(|_| Failure::new(Reason::TooLarge, "the answer has more bytes than gRPC can carry"))?;
    let [a, b, c, d] = n_bytes.to_be_bytes();
    Ok([flag, a, b, c, d])
}

/// Compresses a message, its prefix included, if that is worth it.
///
/// # Errors
/// The message cannot be compressed.
pub(super) async fn encoded(mut chunks: Vec<Bytes>, encoding: Option<Encoding>) -> Result<Vec<Bytes>, Failure> {
    let n_bytes: usize = chunks.iter().map(Bytes::len).sum();
    let Some(encoding) = encoding.filter(|_| n_bytes > PREFIX_BYTES + MIN_COMPRESSED) else { return Ok(chunks) };
    let compressed = on_thread(move || {
        // The prefix is in the first chunk.
        if let Some(first) = chunks.first_mut() {
            drop(first.split_to(PREFIX_BYTES.min(first.len())));
        }
        encoding.compress(&chunks)
    });
    let compressed = compressed.await?;
    let prefix = framed(1, compressed.len())?;
    Ok(vec![Bytes::copy_from_slice(&prefix), compressed.into()])
}

/// A message that is not a call's, with its prefix.
///
/// # Errors
/// It has more bytes than a prefix can say.
pub(super) fn plain(message: &impl prost::Message) -> Result<Bytes, Failure> {
    let mut bytes = Vec::from(prefix(message.encoded_len())?);
    bytes.extend(message.encode_to_vec());
    Ok(bytes.into())
}

/// The answer of a method that has one message and no tensors.
///
/// # Errors
/// As [`plain`].
pub(super) fn one(message: &impl prost::Message) -> Result<Response<Body>, Failure> {
    Ok(whole(vec![plain(message)?], None, ()))
}

/// An answer of one message. `held` is dropped when the last byte of it has left for the client.
pub(super) fn whole<T: Send + Sync + 'static>(
    chunks: Vec<Bytes>,
    encoding: Option<Encoding>,
    held: T,
) -> Response<Body> {
    let body = Whole { chunks: keep_with_chunks(chunks, held).into(), trailers: Some(status::trailers(None)) };
    with_encoding(status::success(Body::new(body), true), encoding)
}

/// An answer of any number of messages. The first failure is its status.
pub(super) fn streamed(
    messages: impl Stream<Item = Result<Vec<Bytes>, Failure>> + Send + 'static,
    encoding: Option<Encoding>,
) -> Response<Body> {
    let ends = stream::once(async { Err(None) });
    let messages = messages.map(|message| message.map_err(Some)).chain(ends);
    let frames = messages.scan(false, |ended, message| {
        let frames = match message {
            _ if *ended => None,
            Ok(chunks) => Some(chunks.into_iter().map(|chunk| Ok(Frame::data(chunk))).collect()),
            Err(failure) => {
                *ended = true;
                Some(vec![Ok::<_, Infallible>(Frame::trailers(status::trailers(failure.as_ref())))])
            }
        };
        std::future::ready(frames)
    });
    let body = StreamBody::new(frames.flat_map(stream::iter::<Vec<_>>));
    with_encoding(status::success(Body::new(body), false), encoding)
}

fn with_encoding(mut response: Response<Body>, encoding: Option<Encoding>) -> Response<Body> {
    if let Some(encoding) = encoding {
        response.headers_mut().insert(compression::ENCODING, encoding.name());
    }
    response
}

/// A body of known chunks and trailers.
struct Whole {
    chunks: VecDeque<Bytes>,
    trailers: Option<HeaderMap>,
}

impl http_body::Body for Whole {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let chunk = self.chunks.pop_front().map(Frame::data);
        let frame = chunk.or_else(|| self.trailers.take().map(Frame::trailers));
        Poll::Ready(frame.map(Ok))
    }

    fn is_end_stream(&self) -> bool {
        self.trailers.is_none()
    }
}
