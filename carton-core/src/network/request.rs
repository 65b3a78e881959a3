//! What is asked of a server, and which part of it an answer has. Pure.

use std::fmt;
use std::ops::Range;

use super::{Url, Version, address};

/// Which part of a file is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// All of it.
    Whole,
    /// So many bytes at its end, or all if it has fewer.
    Suffix(u64),
    /// These bytes, or those of them that the file has if it has the first; none is no valid part.
    Range(Range<u64>),
}

/// One GET request.
#[derive(Clone)]
pub struct Request<'a> {
    /// The file.
    pub url: &'a Url,
    /// The part of it.
    pub part: Part,
    /// The version that all parts must be of. Another one is `NetworkError::Changed`.
    pub version: Option<&'a Version>,
    /// The version that is known already: if the server still has it, the answer is [`Extent::NotModified`].
    pub known: Option<&'a Version>,
    /// Whether the answer may be compressed. If not, a part that is compressed is an error; some servers send whole files so
    /// nevertheless, see `Reply::encodings`.
    pub accept_encoded: bool,
}

impl<'a> Request<'a> {
    /// A request for a part of a file in any version, not compressed.
    pub fn new(url: &'a Url, part: Part) -> Request<'a> {
        Request { url, part, version: None, known: None, accept_encoded: false }
    }
}

impl fmt::Debug for Request<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut fields = formatter.debug_struct("Request");
        fields.field("url", &address(self.url)).field("part", &self.part).field("version", &self.version);
        fields.field("known", &self.known).field("accept_encoded", &self.accept_encoded).finish()
    }
}

/// Which part of the file an answer has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Extent {
    /// All of it, although a part may have been asked for: the server knows no ranges.
    Whole,
    /// These bytes of so many. An empty file has none of none.
    Part {
        /// Which bytes.
        range: Range<u64>,
        /// How many bytes the file has.
        total: u64,
    },
    /// None: the version that is known is still the server's.
    NotModified,
}
