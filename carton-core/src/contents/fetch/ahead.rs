//! Reads the metadata of a remote carton with few requests.

use std::ops::Range;

use carton_network::remote_source::RemoteSource;

use super::plan::LARGEST_GAP;
use crate::contents::ContentsError;

/// Reads parts of an archive on a server that are about to be used, neighbours together.
pub(in crate::contents) fn read_ahead(
    remote: Option<&RemoteSource>,
    parts: impl IntoIterator<Item = Range<u64>>,
) -> Result<(), ContentsError> {
    let Some(remote) = remote else { return Ok(()) };
    let mut parts: Vec<Range<u64>> = parts.into_iter().filter(|part| !remote.holds(part)).collect();
    parts.sort_by_key(|part| part.start);
    let mut joined: Vec<Range<u64>> = Vec::new();
    for part in parts {
        match joined.last_mut() {
            Some(last) if part.start.saturating_sub(last.end) <= LARGEST_GAP => last.end = last.end.max(part.end),
            _ => joined.push(part),
        }
    }
    joined.iter().try_for_each(|part| Ok(remote.prefetch(part)?))
}
