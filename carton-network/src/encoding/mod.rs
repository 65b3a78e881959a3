//! Decodes the content encodings of HTTP (RFC 9110, §8.4) while bytes are read, and limits the decoded size (spec/carton-format.md,
//! "LINKS").
//!
//! This layer does not know the network: the encoded bytes come from any [`Read`]. Its use of memory does not depend on the sizes in the
//! encoded bytes: a layer has a buffer of 64 KiB and the window of its encoding, at most 128 MiB with zstd.

mod codec;
mod error;
mod step;
#[cfg(test)]
mod tests;

use std::io::{self, Read};

pub use error::EncodingError;
pub use error::MAX_ENCODINGS;

use codec::Codec;

/// The number of encoded bytes that are read at once.
const BUFFER_LENGTH: usize = 64 << 10;

/// Limits the number of decoded bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// The exact number of decoded bytes, if known: a different number is an error. The other limits then do not apply to the decoded
    /// bytes, but still to the bytes between two encodings.
    pub declared: Option<u64>,
    /// The number of bytes that are always allowed, however few were read.
    pub allowance: u64,
    /// The number of bytes allowed in addition for each encoded byte that was read so far.
    pub ratio: u64,
    /// The number of bytes that is never exceeded.
    pub absolute: u64,
}

impl Default for Limit {
    /// Without a declared length: 64 MiB and 200 bytes for each encoded byte, at most 64 GiB.
    fn default() -> Self {
        Self { declared: None, allowance: 64 << 20, ratio: 200, absolute: 64 << 30 }
    }
}

impl Limit {
    /// The limit for a file whose length is known.
    #[must_use]
    pub fn declared(length: u64) -> Self {
        Self { declared: Some(length), ..Self::default() }
    }

    /// The number of decoded bytes that are allowed after `n_encoded` bytes were read.
    fn most(&self, n_encoded: u64) -> u64 {
        self.allowance.saturating_add(n_encoded.saturating_mul(self.ratio)).min(self.absolute)
    }
}

/// Decodes a body. `encodings` lists the content encodings in the order in which they were applied, as in `content-encoding`.
///
/// Supported are `zstd`, `gzip`, `x-gzip`, `br`, `deflate` (in its zlib form and without it, as some servers send) and `identity`, in
/// lower or upper case.
///
/// ```
/// use std::io::Read;
/// use carton_network::encoding::{Limit, decode};
///
/// let encoded = zstd::encode_all(&b"weights"[..], 1)?;
/// let mut decoded = Vec::new();
/// decode(&encoded[..], &["zstd".to_owned()], Limit::declared(7))?.read_to_end(&mut decoded)?;
/// assert_eq!(decoded, b"weights");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`EncodingError::Unknown`], [`EncodingError::TooMany`].
pub fn decode<R: Read>(reader: R, encodings: &[String], limit: Limit) -> Result<Decoder<R>, EncodingError> {
    let applied = || encodings.iter().filter(|name| !name.eq_ignore_ascii_case("identity"));
    if applied().count() > MAX_ENCODINGS {
        return Err(EncodingError::TooMany { found: applied().count() });
    }
    let mut layer = Layer::Raw { reader, n_bytes: 0 };
    for name in applied().rev() {
        let (codec, encoding) = Codec::new(name)?;
        let buffer = vec![0; BUFFER_LENGTH];
        let encoded =
            Encoded { inner: layer, codec, encoding, buffer, taken: 0, filled: 0, at_end: false, produced: 0 };
        layer = Layer::Encoded(Box::new(encoded));
    }
    Ok(Decoder { layer, limit, produced: 0, state: State::Reading })
}

/// The decoded bytes, made by [`decode`].
///
/// The last bytes of a declared length are returned only when the encoded bytes were found to end there, so a caller that has read that
/// many bytes need not read further. Errors are an [`EncodingError`] inside the [`io::Error`] ([`EncodingError::from_read`]), or the
/// error of reading the encoded bytes. After one error, every read fails.
#[derive(Debug)]
pub struct Decoder<R> {
    layer: Layer<R>,
    limit: Limit,
    produced: u64,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Reading,
    Finished,
    Failed,
}

impl<R: Read> Decoder<R> {
    /// The number of encoded bytes that were read so far.
    pub fn encoded_bytes(&self) -> u64 {
        self.layer.raw_bytes()
    }

    fn read_some(&mut self, output: &mut [u8]) -> io::Result<usize> {
        let Some(expected) = self.limit.declared else {
            let n_bytes = self.layer.read(output, &self.limit)?;
            self.produced += n_bytes as u64;
            check_limit(&self.limit, self.produced, self.layer.raw_bytes())?;
            return Ok(n_bytes);
        };
        let wanted = usize::try_from(expected - self.produced).unwrap_or(usize::MAX).min(output.len());
        let n_bytes = match wanted {
            0 => 0,
            _ => self.layer.read(&mut output[..wanted], &self.limit)?,
        };
        self.produced += n_bytes as u64;
        if n_bytes == 0 && self.produced < expected {
            return Err(EncodingError::TooShort { expected, found: self.produced }.into_read());
        }
        if self.produced == expected {
            if self.layer.read_retrying(&mut [0], &self.limit)? != 0 {
                return Err(EncodingError::TooLong { expected }.into_read());
            }
            self.state = State::Finished;
        }
        Ok(n_bytes)
    }
}

impl<R: Read> Read for Decoder<R> {
    fn read(&mut self, output: &mut [u8]) -> io::Result<usize> {
        match self.state {
            State::Finished => return Ok(0),
            State::Failed => {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "reading this content failed before"));
            }
            State::Reading if output.is_empty() => return Ok(0),
            State::Reading => {}
        }
        let result = self.read_some(output);
        match &result {
            Ok(0) => self.state = State::Finished,
            Err(error) if error.kind() != io::ErrorKind::Interrupted => self.state = State::Failed,
            _ => {}
        }
        result
    }
}

fn check_limit(limit: &Limit, produced: u64, n_encoded: u64) -> io::Result<()> {
    let most = limit.most(n_encoded);
    if produced > most {
        return Err(EncodingError::Limit { limit: most, n_encoded }.into_read());
    }
    Ok(())
}

/// A source of bytes: the body itself, or one decoded encoding.
#[derive(Debug)]
enum Layer<R> {
    Raw { reader: R, n_bytes: u64 },
    Encoded(Box<Encoded<R>>),
}

/// One encoding, and the layer from which its bytes are read.
#[derive(Debug)]
struct Encoded<R> {
    inner: Layer<R>,
    codec: Codec,
    encoding: &'static str,
    buffer: Vec<u8>,
    /// The number of bytes in `buffer` that were read from `inner`, and how many of them were consumed.
    filled: usize,
    taken: usize,
    /// Whether `inner` has ended.
    at_end: bool,
    produced: u64,
}

impl<R: Read> Layer<R> {
    fn raw_bytes(&self) -> u64 {
        match self {
            Self::Raw { n_bytes, .. } => *n_bytes,
            Self::Encoded(encoded) => encoded.inner.raw_bytes(),
        }
    }

    fn read(&mut self, output: &mut [u8], limit: &Limit) -> io::Result<usize> {
        match self {
            Self::Raw { reader, n_bytes } => {
                let read = reader.read(output)?;
                *n_bytes += read as u64;
                Ok(read)
            }
            Self::Encoded(encoded) => encoded.read(output, limit),
        }
    }

    fn read_retrying(&mut self, output: &mut [u8], limit: &Limit) -> io::Result<usize> {
        loop {
            match self.read(output, limit) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                result => return result,
            }
        }
    }
}

impl<R: Read> Encoded<R> {
    /// Fills the start of `output`, which must not be empty. Returns 0 only at a proper end.
    fn read(&mut self, output: &mut [u8], limit: &Limit) -> io::Result<usize> {
        loop {
            if self.taken == self.filled && !self.at_end {
                self.filled = self.inner.read(&mut self.buffer, limit)?;
                self.taken = 0;
                self.at_end = self.filled == 0;
                if let Layer::Encoded(inner) = &mut self.inner {
                    inner.produced += self.filled as u64;
                    check_limit(limit, inner.produced, inner.inner.raw_bytes())?;
                }
            }
            let input = &self.buffer[self.taken..self.filled];
            if input.is_empty() && self.codec.is_complete() {
                return Ok(0);
            }
            let step = self.codec.run(input, output);
            let corrupt = |source| EncodingError::Corrupt { encoding: self.encoding, source }.into_read();
            let step = step.map_err(corrupt)?;
            if step.produced == 0 && step.consumed == 0 && !self.codec.is_complete() {
                if input.is_empty() {
                    return Err(EncodingError::Truncated { encoding: self.encoding }.into_read());
                }
                return Err(corrupt(io::Error::new(io::ErrorKind::InvalidData, "it makes no progress")));
            }
            self.taken += step.consumed;
            if step.produced != 0 {
                return Ok(step.produced);
            }
        }
    }
}
