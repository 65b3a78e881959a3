//! What to download.

use std::ops::Range;
use std::path::Path;

use carton_format::url::Url;

use crate::http::Version;

/// What to download, and into which folder.
#[derive(Clone, Debug)]
pub struct Target<'a> {
    /// The file.
    pub url: &'a Url,
    /// The version that the file must have. By default, the one that the server has at the first request.
    pub version: Option<&'a Version>,
    /// The part of the file; `None` for all of it.
    pub range: Option<Range<u64>>,
    /// An existing folder that nothing else uses meanwhile. It may hold an earlier attempt, at this or at any other file.
    pub folder: &'a Path,
    /// Whether the bytes may come compressed. They are then stored compressed.
    pub accept_encoded: bool,
    /// The largest number of bytes that is accepted. For compressed bytes, it limits their compressed length.
    pub limit: u64,
}
