//! The decoders of the encodings: encoded bytes in, decoded bytes out. They read nothing, and limit only the size of a window.

use std::fmt;
use std::io;

use brotli_decompressor::{BrotliDecompressStream, BrotliResult, BrotliState, StandardAlloc};
use carton_format::archive::MAX_ZSTD_WINDOW_LOG;
use flate2::{Decompress, FlushDecompress, Status};
use zstd::stream::raw::{DParameter, Decoder as ZstdDecoder, InBuffer, Operation, OutBuffer};

use super::EncodingError;
use super::step::Step;

/// The state of one encoding.
pub(super) enum Codec {
    Gzip {
        decompress: Decompress,
        /// Whether a member is complete and no further one has begun.
        ended: bool,
    },
    Deflate(Deflate),
    Zstd {
        decoder: ZstdDecoder<'static>,
        /// Whether a frame is complete and no further one has begun.
        ended: bool,
    },
    Brotli {
        state: Box<BrotliState<StandardAlloc, StandardAlloc, StandardAlloc>>,
        ended: bool,
    },
}

/// By the standard, `deflate` is the zlib format; some servers send the bare deflate stream.
pub(super) enum Deflate {
    /// The first byte, which alone does not tell which of the two it is.
    Undecided(Option<u8>),
    Decided {
        decompress: Decompress,
        ended: bool,
    },
}

impl Codec {
    /// The codec with this name, and its canonical name.
    pub(super) fn new(name: &str) -> Result<(Self, &'static str), EncodingError> {
        let is = |known: &str| name.eq_ignore_ascii_case(known);
        if is("gzip") || is("x-gzip") {
            return Ok((Self::Gzip { decompress: gzip_member(), ended: false }, "gzip"));
        }
        if is("deflate") {
            return Ok((Self::Deflate(Deflate::Undecided(None)), "deflate"));
        }
        if is("zstd") {
            let decoder = ZstdDecoder::new().and_then(|mut decoder| {
                decoder.set_parameter(DParameter::WindowLogMax(MAX_ZSTD_WINDOW_LOG))?;
                Ok(decoder)
            });
            let decoder = decoder.map_err(|source| EncodingError::Corrupt { encoding: "zstd", source })?;
            return Ok((Self::Zstd { decoder, ended: false }, "zstd"));
        }
        if is("br") {
            // Strict mode accepts the windows of RFC 7932, at most 16 MiB, but not the larger ones of up to 1 GiB that are not part of
            // it.
            let alloc = StandardAlloc::default;
            let state = Box::new(BrotliState::new_strict(alloc(), alloc(), alloc()));
            return Ok((Self::Brotli { state, ended: false }, "br"));
        }
        Err(EncodingError::Unknown { encoding: name.to_owned() })
    }

    /// Whether the encoded bytes may end here.
    pub(super) fn is_complete(&self) -> bool {
        match self {
            Self::Gzip { ended, .. } | Self::Zstd { ended, .. } | Self::Brotli { ended, .. } => *ended,
            Self::Deflate(Deflate::Decided { ended, .. }) => *ended,
            Self::Deflate(Deflate::Undecided(_)) => false,
        }
    }

    /// Consumes some of `input` and fills some of `output`, which must not be empty. With empty input, it outputs what remains from
    /// earlier input; a step that neither consumes nor produces anything needs more input.
    pub(super) fn run(&mut self, input: &[u8], output: &mut [u8]) -> io::Result<Step> {
        match self {
            Self::Gzip { decompress, ended } => {
                if *ended {
                    // Members may follow each other; bytes that are not a member are found to be invalid.
                    *decompress = gzip_member();
                    *ended = false;
                }
                inflate(decompress, ended, input, output)
            }
            Self::Deflate(deflate) => deflate.run(input, output),
            Self::Zstd { decoder, ended } => {
                let (mut input, mut output) = (InBuffer::around(input), OutBuffer::around(output));
                *ended = decoder.run(&mut input, &mut output)? == 0;
                Ok(Step { consumed: input.pos(), produced: output.pos() })
            }
            Self::Brotli { ended: true, .. } => Err(behind_the_end()),
            Self::Brotli { state, ended } => {
                let (mut consumed, mut produced, mut total) = (0, 0, 0);
                let (mut available_in, mut available_out) = (input.len(), output.len());
                let result = BrotliDecompressStream(
                    &mut available_in,
                    &mut consumed,
                    input,
                    &mut available_out,
                    &mut produced,
                    output,
                    &mut total,
                    state,
                );
                match result {
                    BrotliResult::ResultFailure => {
                        return Err(io::Error::new(io::ErrorKind::InvalidData, format!("{:?}", state.error_code)));
                    }
                    BrotliResult::ResultSuccess => *ended = true,
                    BrotliResult::NeedsMoreInput | BrotliResult::NeedsMoreOutput => {}
                }
                Ok(Step { consumed, produced })
            }
        }
    }
}

impl Deflate {
    fn run(&mut self, input: &[u8], output: &mut [u8]) -> io::Result<Step> {
        let (first, rest) = match (&mut *self, input) {
            (Self::Decided { ended: true, .. }, _) => return Err(behind_the_end()),
            (Self::Decided { decompress, ended }, input) => return inflate(decompress, ended, input, output),
            (Self::Undecided(_), []) => return Ok(Step::default()),
            (Self::Undecided(Some(first)), rest) => (*first, rest),
            (Self::Undecided(first), [only, ..]) => {
                *first = Some(*only);
                return Ok(Step { consumed: 1, produced: 0 });
            }
        };
        // RFC 1950, §2.2: the method Deflate and a check of both bytes. A bare stream that begins like this would be a stored block with
        // a bit set in its padding, which no encoder writes.
        let is_zlib = first & 0x0F == 8 && first >> 4 <= 7 && u16::from_be_bytes([first, rest[0]]) % 31 == 0;
        let (mut decompress, mut ended) = (Decompress::new(is_zlib), false);
        inflate(&mut decompress, &mut ended, &[first], output)?;
        let step = inflate(&mut decompress, &mut ended, rest, output);
        *self = Self::Decided { decompress, ended };
        step
    }
}

impl fmt::Debug for Codec {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Codec").field("is_complete", &self.is_complete()).finish_non_exhaustive()
    }
}

fn gzip_member() -> Decompress {
    Decompress::new_gzip(15)
}

fn inflate(decompress: &mut Decompress, ended: &mut bool, input: &[u8], output: &mut [u8]) -> io::Result<Step> {
    let (input_before, output_before) = (decompress.total_in(), decompress.total_out());
    let status = decompress.decompress(input, output, FlushDecompress::None);
    let status = status.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
    *ended = status == Status::StreamEnd;
    // At most the lengths of the two slices, so the casts cannot truncate.
    let consumed = (decompress.total_in() - input_before) as usize;
    let produced = (decompress.total_out() - output_before) as usize;
    Ok(Step { consumed, produced })
}

fn behind_the_end() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "there is more after its end")
}
