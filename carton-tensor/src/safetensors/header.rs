//! Parses the header of a file: its tensors and where their data is (spec/safetensors.md §1 to §5). Pure: bytes in, tensors out.

use std::ops::Range;

use super::header_json::{Entry, Parsed, parse_json};
use super::header_plain;
use super::string_table::StringTable;
use super::{HeaderError, Metadata};
use crate::files::ElementType;

/// The validated header of a file. The tensors lie in the file one after another without gaps, and each has the size that its dtype and
/// shape need.
///
/// ```
/// use carton_tensor::safetensors::Header;
/// let json = br#"{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}"#;
/// let file = [&(json.len() as u64).to_le_bytes(), json.as_slice(), &[0; 8]].concat();
/// let header = Header::parse(&file, file.len() as u64)?;
/// let tensor = header.get("a").ok_or("no such tensor")?;
/// assert_eq!((tensor.shape, tensor.range), (&[2][..], 62..70));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Header {
    /// In the order of their data. Offsets are relative to `data_start`, as in the header.
    pub(super) entries: Vec<Entry>,
    /// The names, at the same positions as `entries`.
    pub(super) names: StringTable,
    /// The dimensions of all shapes, concatenated.
    pub(super) dimensions: Vec<usize>,
    pub(super) metadata: Metadata,
    pub(super) data_start: u64,
}

/// A tensor as the header describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorInfo<'a> {
    /// The name.
    pub name: &'a str,
    /// The element type.
    pub dtype: ElementType,
    /// The dimensions; empty for a scalar.
    pub shape: &'a [usize],
    /// The range of the data in the file, in bytes.
    pub range: Range<u64>,
}

impl Header {
    /// The number of bytes before the header, which hold its length.
    pub const PREFIX: usize = 8;

    /// The longest header that is read or written, in bytes (§1.2).
    pub const MAX_LENGTH: u64 = 100_000_000;

    /// Whether a file with these first bytes is safetensors, valid or not: eight bytes of header length, of which the upper four are zero
    /// because a header has at most 100 MB, and then `{`. The length may begin like the magic bytes of another format, but no other format
    /// continues like this.
    pub(crate) fn is_at(start: &[u8]) -> bool {
        start.get(4..Self::PREFIX) == Some(&[0; 4]) && start.get(Self::PREFIX) == Some(&b'{')
    }

    /// Returns where the header ends and the data begins. `bytes` must hold the first [`PREFIX`](Self::PREFIX) bytes of a file of
    /// `file_length` bytes. Callers that read a file in parts call this first.
    ///
    /// # Errors
    /// [`HeaderError::TooShort`], [`HeaderError::TooLong`], [`HeaderError::PastTheEnd`]; [`HeaderError::Incomplete`] if `bytes` is too
    /// short.
    pub fn end(bytes: &[u8], file_length: u64) -> Result<u64, HeaderError> {
        const PREFIX: u64 = Header::PREFIX as u64;
        if file_length < PREFIX {
            return Err(HeaderError::TooShort { file_length });
        }
        let Some(prefix) = bytes.first_chunk() else {
            return Err(HeaderError::Incomplete { needed: PREFIX, found: bytes.len() as u64 });
        };
        let length = u64::from_le_bytes(*prefix);
        if length > Self::MAX_LENGTH {
            return Err(HeaderError::TooLong { length });
        }
        if length > file_length - PREFIX {
            return Err(HeaderError::PastTheEnd { length, file_length });
        }
        Ok(PREFIX + length)
    }

    /// Parses the header of a file of `file_length` bytes. `bytes` is the start of the file, at least up to the [`end`](Self::end) of
    /// the header.
    ///
    /// The memory used is proportional to the header: at worst about eight times its length.
    ///
    /// # Errors
    /// The rule that the header breaks; [`HeaderError::Incomplete`] if `bytes` ends before the header.
    pub fn parse(bytes: &[u8], file_length: u64) -> Result<Self, HeaderError> {
        let data_start = Self::end(bytes, file_length)?;
        let incomplete = HeaderError::Incomplete { needed: data_start, found: bytes.len() as u64 };
        let Some(header) = usize::try_from(data_start).ok().and_then(|end| bytes.get(Self::PREFIX..end)) else {
            return Err(incomplete);
        };
        let parsed = parse(header)?;
        let mut header = Self {
            entries: parsed.entries,
            names: parsed.names,
            dimensions: parsed.dimensions,
            metadata: parsed.metadata,
            data_start,
        };
        header.sort_by_data();
        if let Err(position) = header.names.index() {
            return Err(HeaderError::DuplicateTensor { tensor: header.names.get(position).to_owned() });
        }
        header.check_offsets(file_length - data_start)?;
        Ok(header)
    }

    /// Sorts the tensors by their data. All writers except very old ones already use this order.
    fn sort_by_data(&mut self) {
        if self.entries.is_sorted_by_key(|entry| (entry.begin, entry.end)) {
            return;
        }
        // The length limit of headers keeps the number of entries within 32 bits, which `names` has checked.
        let mut order: Vec<u32> = (0..).take(self.entries.len()).collect();
        let key = |position: &u32| self.entries.get(*position as usize).map(|entry| (entry.begin, entry.end));
        order.sort_by_key(key);
        self.entries = order.iter().filter_map(|&position| self.entries.get(position as usize)).cloned().collect();
        self.names.reorder(&order);
    }

    /// Checks that the first tensor begins where the data begins, each other tensor where the previous one ends, and that the last one
    /// ends with the file (§5).
    fn check_offsets(&self, data_length: u64) -> Result<(), HeaderError> {
        let mut expected = 0;
        for (position, entry) in self.entries.iter().enumerate() {
            let begin = entry.begin;
            let tensor = || self.names.get(position).to_owned();
            if begin > expected {
                return Err(HeaderError::Hole { tensor: tensor(), expected, begin });
            }
            if begin < expected {
                // There is a previous tensor, because tensors are sorted by where they begin.
                let other = self.names.get(position.saturating_sub(1)).to_owned();
                return Err(HeaderError::Overlap { tensor: tensor(), other, expected, begin });
            }
            expected = entry.end;
        }
        match data_length {
            found if found < expected => Err(HeaderError::Truncated { expected, found }),
            found if found > expected => Err(HeaderError::TrailingBytes { expected, found }),
            _ => Ok(()),
        }
    }

    /// The number of tensors.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are no tensors.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns the tensor of this name, if there is one.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<TensorInfo<'_>> {
        self.names.find(name).and_then(|position| self.at(position))
    }

    /// Returns the tensor at this position in the order of [`iter`](Self::iter).
    #[must_use]
    pub fn at(&self, position: usize) -> Option<TensorInfo<'_>> {
        let entry = self.entries.get(position)?;
        Some(TensorInfo {
            name: self.names.get(position),
            dtype: entry.dtype,
            shape: self.dimensions.get(entry.shape())?,
            // `check_offsets` found every end to be inside the file, so the sums do not overflow.
            range: self.data_start + entry.begin..self.data_start + entry.end,
        })
    }

    /// The tensors, in the order of their data.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = TensorInfo<'_>> {
        (0..self.len()).filter_map(|position| self.at(position))
    }

    /// The names of the tensors, in the order of their data.
    pub fn names(&self) -> impl ExactSizeIterator<Item = &str> {
        (0..self.len()).map(|position| self.names.get(position))
    }

    /// The metadata of the file (§3).
    #[must_use]
    pub fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// Where the header ends and the data begins.
    #[must_use]
    pub fn data_start(&self) -> u64 {
        self.data_start
    }
}

/// Parses the header, without the eight bytes before it.
fn parse(header: &[u8]) -> Result<Parsed, HeaderError> {
    let text = std::str::from_utf8(header)
        .map_err(|error| HeaderError::NotUtf8 { position: (error.valid_up_to() + Header::PREFIX) as u64 })?;
    let json = text.trim_end_matches(' ');
    if json.starts_with('\u{feff}') {
        return Err(HeaderError::ByteOrderMark);
    }
    if !json.starts_with('{') {
        return Err(HeaderError::FirstByte { found: text.bytes().next().unwrap_or_default() });
    }
    if !json.ends_with('}') {
        return Err(HeaderError::LastByte { found: json.bytes().next_back().unwrap_or_default() });
    }
    if let Some(parsed) = header_plain::parse(json) {
        return Ok(parsed);
    }
    parse_json(json)
}
