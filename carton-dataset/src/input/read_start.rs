//! Reading that goes on after short reads.

use std::io::{self, Read};

/// Fills `start` as far as the reader has bytes, and returns their number.
pub(super) fn read_start(mut reader: impl Read, start: &mut [u8]) -> io::Result<usize> {
    let mut n_bytes = 0;
    while let Some(rest) = start.get_mut(n_bytes..).filter(|rest| !rest.is_empty()) {
        match reader.read(rest) {
            Ok(0) => break,
            Ok(read) => n_bytes += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(n_bytes)
}
