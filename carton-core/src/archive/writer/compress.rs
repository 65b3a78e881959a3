//! Compression of whole small files, and the look at samples of a large one that decides whether to compress it.

use flate2::{Compress, FlushCompress, Status};

use crate::archive::{ArchiveError, Method};

/// The level of Deflate: what `zip` and `gzip` use.
pub(super) const DEFLATE_LEVEL: u32 = 6;
/// The level of Zstandard: its own default.
pub(super) const ZSTD_LEVEL: i32 = 3;

/// How many bytes each sample has.
pub(super) const SAMPLE_LENGTH: u64 = 16 << 10;

/// How many samples to take of a file: of a small one four, spread evenly.
pub(super) fn n_samples(size: u64) -> u64 {
    if size >= 64 << 20 { 16 } else { 4 }
}

/// Whether samples of a file become so much smaller that it is worth giving up mapping it.
///
/// Weights in float or bfloat16 stay above the threshold, text and sparse data fall below it.
pub(super) fn is_worth_it(samples: &[u8]) -> Result<bool, ArchiveError> {
    let compressed = zstd::bulk::compress(samples, 1).map_err(compress_error)?;
    Ok(compressed.len() * 10 < samples.len() * 7)
}

/// Compressors that are used again for file after file.
pub(super) struct Compressors {
    deflate: Compress,
}

impl Compressors {
    pub(super) fn new() -> Self {
        Self { deflate: Compress::new(flate2::Compression::new(DEFLATE_LEVEL), false) }
    }

    /// Compresses `bytes` with `method`. Returns `None` when that makes them no smaller: store them.
    pub(super) fn compress(&mut self, bytes: &[u8], method: Method) -> Result<Option<Vec<u8>>, ArchiveError> {
        match method {
            Method::Stored => Ok(None),
            Method::Deflate => self.deflate(bytes),
            Method::Zstd => {
                let compressed = zstd::bulk::compress(bytes, ZSTD_LEVEL).map_err(compress_error)?;
                Ok(Some(compressed).filter(|compressed| compressed.len() < bytes.len()))
            }
        }
    }

    fn deflate(&mut self, bytes: &[u8]) -> Result<Option<Vec<u8>>, ArchiveError> {
        self.deflate.reset();
        // Room for whatever becomes of the bytes, even where that is no use: zlib-rs keeps count of output that was never
        // fetched, also when it is reset, and panics when that comes to 64 KiB.
        let mut output = Vec::with_capacity(bytes.len() + bytes.len() / 8 + 1024);
        match self.deflate.compress_vec(bytes, &mut output, FlushCompress::Finish) {
            Ok(Status::StreamEnd) => Ok(Some(output).filter(|output| output.len() < bytes.len())),
            Ok(Status::Ok | Status::BufError) => {
                self.deflate = Self::new().deflate;
                Ok(None)
            }
            Err(error) => Err(compress_error(error.into())),
        }
    }
}

pub(super) fn compress_error(source: std::io::Error) -> ArchiveError {
    ArchiveError::Io { action: "compress", location: "a file".to_owned(), source }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::io::Read;

    use super::*;

    /// A compressor that gave up on thousands of files must still compress the next one, and compress it right.
    #[test]
    fn compressors_are_used_again() {
        let mut compressors = Compressors::new();
        for count in 0..50_000_u32 {
            let tiny = format!("{} {}", count / 1000, count % 1000);
            assert_eq!(compressors.compress(tiny.as_bytes(), Method::Deflate).unwrap(), None);
            // Rarely: finishing a stream would hide what giving up on the ones before has left behind.
            if count % 25_000 == 24_999 {
                let text = tiny.repeat(20);
                let compressed = compressors.compress(text.as_bytes(), Method::Deflate).unwrap().unwrap();
                let mut found = String::new();
                flate2::read::DeflateDecoder::new(compressed.as_slice()).read_to_string(&mut found).unwrap();
                assert_eq!(found, text);
            }
        }
    }
}
