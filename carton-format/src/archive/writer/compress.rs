//! Compresses whole small files, and samples a large file to decide whether compressing it pays.

use flate2::{Compress, FlushCompress, Status};

use crate::archive::{ArchiveError, Method};

/// The level of Deflate, as in `zip` and `gzip`.
pub(super) const DEFLATE_LEVEL: u32 = 6;
/// The level of Zstandard, which is its default.
pub(super) const ZSTD_LEVEL: i32 = 3;

/// The length of each sample in bytes.
pub(super) const SAMPLE_LENGTH: u64 = 16 << 10;

/// The number of samples to take of a file.
pub(super) fn n_samples(size: u64) -> u64 {
    if size >= 64 << 20 { 16 } else { 4 }
}

/// Whether samples of a file compress so well that it is worth losing the ability to map the file.
///
/// Weights in float or bfloat16 stay above the threshold, text and sparse data fall below it.
pub(super) fn is_worth_it(samples: &[u8]) -> Result<bool, ArchiveError> {
    let compressed = zstd::bulk::compress(samples, 1).map_err(compress_error)?;
    Ok(compressed.len() * 10 < samples.len() * 7)
}

/// Compressors that are reused for one file after another.
pub(super) struct Compressors {
    deflate: Compress,
}

impl Compressors {
    pub(super) fn new() -> Self {
        Self { deflate: Compress::new(flate2::Compression::new(DEFLATE_LEVEL), false) }
    }

    /// Compresses `bytes` with `method`. Returns `None` if the result is not smaller: store them then.
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
        // The buffer has room for any result, even one that is of no use: zlib-rs keeps count of output that was never fetched, even
        // across a reset, and panics when the count reaches 64 KiB.
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

    /// A compressor that gave up on thousands of files must still compress the next one, and compress it correctly.
    #[test]
    fn compressors_are_used_again() {
        let mut compressors = Compressors::new();
        for count in 0..50_000_u32 {
            let tiny = format!("{} {}", count / 1000, count % 1000);
            assert_eq!(compressors.compress(tiny.as_bytes(), Method::Deflate).unwrap(), None);
            // Only rarely, because finishing a stream would hide what the abandoned ones before it left behind.
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
