//! Reading without holding what was read.

use std::io;
use std::ops::ControlFlow;
use std::ops::Range;

use super::FileBytes;

/// Gets the bytes of a tensor piece by piece, from the first to the last, and says whether it wants more.
pub(crate) type Visit<'a> = &'a mut dyn FnMut(&[u8]) -> ControlFlow<()>;

/// Passes the bytes in `range` to `visit`, in pieces of `n_bytes`.
pub(crate) fn visit_range(
    bytes: &FileBytes,
    mut range: Range<u64>,
    n_bytes: usize,
    visit: Visit<'_>,
) -> io::Result<()> {
    let mut buffer = Vec::new();
    while range.start < range.end {
        let n_bytes = (range.end - range.start).min(n_bytes as u64);
        buffer.resize(n_bytes as usize, 0);
        bytes.read_into(range.start, &mut buffer)?;
        if visit(&buffer).is_break() {
            break;
        }
        range.start += n_bytes;
    }
    Ok(())
}
