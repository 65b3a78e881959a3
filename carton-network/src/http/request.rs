//! A request to a server, and the part of the file that an answer holds. Pure.

use std::fmt;
use std::ops::Range;

use carton_format::url::Url;

use super::Version;

/// The part of a file to request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// All of it.
    Whole,
    /// This many bytes at its end, or the whole file if it is shorter.
    Suffix(u64),
    /// These bytes, cut at the end of the file; the file must have the first of them. An empty range is invalid.
    Range(Range<u64>),
}

/// One GET request.
#[derive(Clone)]
pub struct Request<'a> {
    /// The file.
    pub url: &'a Url,
    /// The part of it.
    pub part: Part,
    /// The version to which all parts must belong. Any other one is `NetworkError::Changed`.
    pub version: Option<&'a Version>,
    /// A known version: if the server still has it, the answer is [`Extent::NotModified`].
    pub known: Option<&'a Version>,
    /// Whether the answer may be compressed. If not, a compressed part is an error; some servers send whole files compressed even so, see
    /// `Reply::encodings`.
    pub accept_encoded: bool,
}

impl<'a> Request<'a> {
    /// A request for an uncompressed part of a file in any version.
    pub fn new(url: &'a Url, part: Part) -> Request<'a> {
        Request { url, part, version: None, known: None, accept_encoded: false }
    }
}

impl fmt::Debug for Request<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut fields = formatter.debug_struct("Request");
        fields.field("url", &self.url.shown()).field("part", &self.part).field("version", &self.version);
        fields.field("known", &self.known).field("accept_encoded", &self.accept_encoded).finish()
    }
}

/// The part of the file that an answer holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Extent {
    /// All of it. The server may not support ranges, and then sends it although a part was requested.
    Whole,
    /// These bytes of a file of `total` bytes. Of an empty file, the range 0..0 of 0 bytes.
    Part {
        /// The range.
        range: Range<u64>,
        /// The length of the file in bytes.
        total: u64,
    },
    /// None: the server still has the known version.
    NotModified,
}
