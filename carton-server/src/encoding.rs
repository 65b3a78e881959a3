//! The encodings of requests and answers: gzip, deflate (which is zlib, as in HTTP and gRPC) and zstd. Bytes in and bytes out.

use std::io::{self, Read, Write};

use axum::http::{HeaderMap, HeaderName, HeaderValue};
use flate2::Compression;

use crate::failure::{Failure, Reason, quoted};
use crate::model::admission::Share;

/// An encoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Encoding {
    Gzip,
    Deflate,
    Zstd,
}

/// The first step of what is decompressed, and the longest.
const STEPS: (usize, usize) = (4 << 10, 16 << 20);
/// The largest window of zstd, as a power of two: 8 MiB, as RFC 8878, section 3.1.1.1.2, and RFC 9659 say.
const MAX_WINDOW: u32 = 23;
/// The level of zstd.
const ZSTD_LEVEL: i32 = 1;

impl Encoding {
    /// All encodings. The first is the one for a client that takes several alike.
    const ALL: [Self; 3] = [Self::Gzip, Self::Zstd, Self::Deflate];

    /// The encoding that a request has by its header `header`.
    ///
    /// # Errors
    /// The server does not have it.
    pub(crate) fn of(headers: &HeaderMap, header: &HeaderName) -> Result<Option<Self>, Failure> {
        headers.get(header).map_or(Ok(None), |value| Self::parse(value.as_bytes()))
    }

    /// The encoding of this name, in capitals or not (RFC 9110, section 8.4.1). `None` is `identity`.
    fn parse(name: &[u8]) -> Result<Option<Self>, Failure> {
        if name.eq_ignore_ascii_case(b"identity") {
            return Ok(None);
        }
        Self::named(name).map(Some).ok_or_else(|| {
            let name = quoted(&String::from_utf8_lossy(name));
            let message = format!("the request has the encoding {name}, expected gzip, deflate or zstd");
            Failure::new(Reason::UnsupportedEncoding, message)
        })
    }

    fn named(name: &[u8]) -> Option<Self> {
        // The registry of HTTP has the name `x-gzip` for gzip, too.
        let name = if name.eq_ignore_ascii_case(b"x-gzip") { b"gzip".as_slice() } else { name };
        Self::ALL.into_iter().find(|encoding| name.eq_ignore_ascii_case(encoding.name().as_bytes()))
    }

    /// The encoding that a client prefers, of those that its `Accept-Encoding` names (RFC 9110, section 12.5.3). `None` for `identity`.
    pub(crate) fn preferred(accept: &str) -> Option<Self> {
        let name_of = |part: &str| Self::named(part.split(';').next().unwrap_or_default().trim().as_bytes());
        let named: Vec<Self> = accept.split(',').filter_map(name_of).collect();
        let weighted = accept.split(',').filter_map(|part| {
            let (name, parameters) = part.split_once(';').unwrap_or((part, ""));
            let weight =
                parameters.trim().strip_prefix(['q', 'Q']).and_then(|rest| rest.trim_start().strip_prefix('='));
            let weight = weight.map_or(Some(1.0), |weight| weight.trim().parse::<f32>().ok())?;
            let name = name.trim().as_bytes();
            match name {
                // Those that are not named.
                b"*" => Self::ALL.into_iter().find(|other| !named.contains(other)).map(|other| (Some(other), weight)),
                name if name.eq_ignore_ascii_case(b"identity") => Some((None, weight)),
                name => Self::named(name).map(|encoding| (Some(encoding), weight)),
            }
        });
        let rank = |encoding: Option<Self>| Self::ALL.iter().position(|known| Some(*known) == encoding);
        let acceptable = weighted.filter(|(_, weight)| *weight > 0.0);
        let best = acceptable.min_by(|(one, first), (other, second)| {
            second
                .total_cmp(first)
                .then_with(|| rank(*one).unwrap_or(usize::MAX).cmp(&rank(*other).unwrap_or(usize::MAX)))
        });
        best.and_then(|(encoding, _)| encoding)
    }

    /// The name in the header.
    pub(crate) fn name(self) -> HeaderValue {
        HeaderValue::from_static(match self {
            Self::Gzip => "gzip",
            Self::Deflate => "deflate",
            Self::Zstd => "zstd",
        })
    }

    /// Decompresses what has at most `max_bytes` then, each step of which is taken from `share` before it is allocated.
    ///
    /// # Errors
    /// It is not valid or too large, or the memory for calls is used up.
    pub(crate) fn decompress(self, message: &[u8], max_bytes: usize, share: &mut Share) -> Result<Vec<u8>, Failure> {
        let invalid = |error: io::Error| Failure::invalid(format!("the request cannot be decompressed: {error}"));
        let mut decoder: Box<dyn Read + '_> = match self {
            Self::Gzip => Box::new(flate2::read::MultiGzDecoder::new(message)),
            Self::Deflate => Box::new(flate2::read::ZlibDecoder::new(message)),
            Self::Zstd => {
                let mut decoder = zstd::stream::read::Decoder::with_buffer(message).map_err(invalid)?;
                decoder.window_log_max(MAX_WINDOW).map_err(invalid)?;
                Box::new(decoder)
            }
        };
        let mut plain = Vec::new();
        loop {
            let step = plain.len().clamp(STEPS.0, STEPS.1);
            share.grow(step)?;
            plain.reserve_exact(step);
            let n_bytes = decoder.by_ref().take(step as u64).read_to_end(&mut plain).map_err(invalid)?;
            if plain.len() > max_bytes {
                let message = format!("the request has more than {max_bytes} bytes, the most that this server takes");
                return Err(Failure::new(Reason::TooLarge, message));
            }
            if n_bytes < step {
                return Ok(plain);
            }
        }
    }

    /// Compresses chunks, one after another.
    ///
    /// # Errors
    /// The library of the encoding fails, which writing to memory gives no reason for.
    pub(crate) fn compress(self, chunks: &[bytes::Bytes]) -> Result<Vec<u8>, Failure> {
        let write = |mut writer: Box<dyn Finish>| {
            chunks.iter().try_for_each(|chunk| writer.write_all(chunk))?;
            writer.finish()
        };
        let compressed = match self {
            Self::Gzip => write(Box::new(flate2::write::GzEncoder::new(Vec::new(), Compression::fast()))),
            Self::Deflate => write(Box::new(flate2::write::ZlibEncoder::new(Vec::new(), Compression::fast()))),
            Self::Zstd => {
                zstd::stream::write::Encoder::new(Vec::new(), ZSTD_LEVEL).and_then(|encoder| write(Box::new(encoder)))
            }
        };
        compressed.map_err(|error| Failure::new(Reason::Internal, format!("the answer cannot be compressed: {error}")))
    }
}

/// A writer to memory that ends with a trailer.
trait Finish: Write {
    fn finish(self: Box<Self>) -> io::Result<Vec<u8>>;
}

impl Finish for flate2::write::GzEncoder<Vec<u8>> {
    fn finish(self: Box<Self>) -> io::Result<Vec<u8>> {
        (*self).finish()
    }
}

impl Finish for flate2::write::ZlibEncoder<Vec<u8>> {
    fn finish(self: Box<Self>) -> io::Result<Vec<u8>> {
        (*self).finish()
    }
}

impl Finish for zstd::stream::write::Encoder<'_, Vec<u8>> {
    fn finish(self: Box<Self>) -> io::Result<Vec<u8>> {
        (*self).finish()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use bytes::Bytes;

    use super::*;
    use crate::model::admission::Budget;

    const ALL: [Encoding; 3] = [Encoding::Gzip, Encoding::Deflate, Encoding::Zstd];

    #[test]
    fn there_and_back() {
        let budget = Budget::new(1 << 20);
        for encoding in ALL {
            for message in [Vec::new(), b"abc".to_vec(), vec![7; 100_000]] {
                let compressed = encoding.compress(&[Bytes::from(message.clone()), Bytes::new()]).unwrap();
                let mut share = Share::of_bytes(&budget);
                let plain = encoding.decompress(&compressed, 100_000, &mut share);
                assert_eq!(plain.as_deref(), Ok(message.as_slice()), "{encoding:?}");
                assert_eq!(Encoding::parse(encoding.name().as_bytes()), Ok(Some(encoding)));
            }
        }
        assert_eq!(budget.used(), 0);
    }

    /// A few kilobytes that would become a gigabyte are refused at the limit of a message, or of all calls.
    #[test]
    fn bombs() {
        for encoding in ALL {
            let zeros = vec![Bytes::from(vec![0_u8; 1 << 20]); 64];
            let bomb = encoding.compress(&zeros).unwrap();
            let check = |max_bytes, most, expected| {
                let mut share = Share::of_bytes(&Budget::new(most));
                let failure = encoding.decompress(&bomb, max_bytes, &mut share).unwrap_err();
                assert_eq!(failure.reason, expected, "{encoding:?}");
            };
            check(1 << 20, 1 << 30, Reason::TooLarge);
            check(1 << 30, 1 << 20, Reason::Overloaded);
        }
    }

    #[test]
    fn what_is_not_compressed() {
        for encoding in ALL {
            let mut share = Share::of_bytes(&Budget::new(1 << 20));
            let compressed = encoding.compress(&[Bytes::from_static(&[1; 1000])]).unwrap();
            for message in [b"nothing of it".as_slice(), &compressed[..compressed.len() / 2]] {
                let failure = encoding.decompress(message, 1000, &mut share).unwrap_err();
                assert_eq!(failure.reason, Reason::InvalidArgument, "{encoding:?}");
            }
        }
    }

    /// A frame of zstd says how large its window is, which the decoder would allocate.
    #[test]
    fn windows_of_zstd() {
        let frame = |window_log: u32| {
            let mut encoder = zstd::stream::write::Encoder::new(Vec::new(), 1).unwrap();
            encoder.window_log(window_log).unwrap();
            encoder.write_all(&[7; 1000]).unwrap();
            encoder.finish().unwrap()
        };
        let decompress = |frame: &[u8]| {
            let mut share = Share::of_bytes(&Budget::new(1 << 20));
            Encoding::Zstd.decompress(frame, 1000, &mut share).map_err(|failure| failure.reason)
        };
        assert_eq!(decompress(&frame(MAX_WINDOW)), Ok(vec![7; 1000]));
        assert_eq!(decompress(&frame(MAX_WINDOW + 1)), Err(Reason::InvalidArgument));
    }

    #[test]
    fn names() {
        assert_eq!(Encoding::parse(b"GZip"), Ok(Some(Encoding::Gzip)));
        assert_eq!(Encoding::parse(b"x-gzip"), Ok(Some(Encoding::Gzip)));
        assert_eq!(Encoding::parse(b"Identity"), Ok(None));
        for name in [b"snappy".as_slice(), b"", b"gzip, zstd", b"br"] {
            assert_eq!(Encoding::parse(name).unwrap_err().reason, Reason::UnsupportedEncoding);
        }
    }

    #[test]
    fn what_a_client_prefers() {
        let check = |accept: &str, expected| assert_eq!(Encoding::preferred(accept), expected, "{accept}");
        check("gzip", Some(Encoding::Gzip));
        check("ZSTD", Some(Encoding::Zstd));
        check("gzip, deflate", Some(Encoding::Gzip));
        check("deflate, zstd;q=0.5", Some(Encoding::Deflate));
        check("gzip;q=0.1, zstd ; Q = 0.9", Some(Encoding::Zstd));
        check("*", Some(Encoding::Gzip));
        check("gzip;q=0, *", Some(Encoding::Zstd));
        check("*, gzip;q=0, deflate;q=0, zstd;q=0", None);
        check("identity, gzip;q=0.5", None);
        check("br, gzip;q=0", None);
        check("gzip;q=x, deflate", Some(Encoding::Deflate));
        for accept in ["", ",", ";", "br", "identity"] {
            check(accept, None);
        }
    }
}
