//! The errors of reading and writing safetensors files. Every rule of spec/safetensors.md that a header can break is a variant of
//! [`HeaderError`] that cites its section.

use std::io;

use crate::MAX_RANK;
use crate::content::Content;
use crate::files::{ElementType, RawTensorError, quoted};

/// The rule that a header breaks, or would break if it were written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HeaderError {
    /// The file is too short to hold the length of the header.
    #[error(
        "{}, expected at least the 8 bytes of the header's length (spec/safetensors.md §1.1)",
        if *file_length == 0 { "the file is empty".to_owned() } else { format!("a file of {file_length} bytes") }
    )]
    TooShort {
        /// The size of the file.
        file_length: u64,
    },
    /// The header is longer than the format allows.
    #[error("a header of {length} bytes, expected at most 100000000 (spec/safetensors.md §1.2)")]
    TooLong {
        /// The length in the first eight bytes.
        length: u64,
    },
    /// The header is longer than the rest of the file.
    #[error(
        "a header of {length} bytes in a file of {file_length}: it is truncated, or does not begin with the length of its header \
         (spec/safetensors.md §1.3)"
    )]
    PastTheEnd {
        /// The length in the first eight bytes.
        length: u64,
        /// The size of the file.
        file_length: u64,
    },
    /// The caller passed only a part of the header. The file may be valid.
    #[error("{found} bytes of the file were given, its header needs the first {needed}")]
    Incomplete {
        /// The bytes from the start of the file to the end of its header.
        needed: u64,
        /// The bytes that were passed.
        found: u64,
    },
    /// The header is not UTF-8.
    #[error("the header is not UTF-8 at byte {position} of the file (spec/safetensors.md §2.1)")]
    NotUtf8 {
        /// The first byte that is not part of a character.
        position: u64,
    },
    /// The header does not begin with `{`.
    #[error("the header begins with byte {found:#04x}, expected `{{` (spec/safetensors.md §2.2)")]
    FirstByte {
        /// The byte found; 0 for an empty header.
        found: u8,
    },
    /// The header begins with a byte order mark.
    #[error("the header begins with a byte order mark (U+FEFF), expected `{{` (spec/safetensors.md §2.2)")]
    ByteOrderMark,
    /// The header does not end with `}` and spaces.
    #[error("the header ends with byte {found:#04x}, expected `}}` and then only spaces (spec/safetensors.md §2.3)")]
    LastByte {
        /// The last byte that is not a space.
        found: u8,
    },
    /// The header is not JSON, or the JSON does not have the form of a header.
    #[error("the header is not JSON: {problem} (spec/safetensors.md §2.4)")]
    Json {
        /// What is wrong and where, from the JSON parser.
        problem: String,
    },
    /// Two tensors have the same name.
    #[error("two tensors are named {} (spec/safetensors.md §2.5)", quoted(.tensor))]
    DuplicateTensor {
        /// The name.
        tensor: String,
    },
    /// A tensor has `dtype`, `shape` or `data_offsets` twice.
    #[error("tensor {} has `{field}` twice (spec/safetensors.md §2.5)", quoted(.tensor))]
    DuplicateField {
        /// The tensor's name.
        tensor: String,
        /// The field.
        field: &'static str,
    },
    /// The header has `__metadata__` twice.
    #[error("the header has `__metadata__` twice (spec/safetensors.md §2.5)")]
    DuplicateMetadata,
    /// `__metadata__` has a key twice.
    #[error("`__metadata__` has {} twice (spec/safetensors.md §2.5)", quoted(.key))]
    DuplicateMetadataKey {
        /// The key.
        key: String,
    },
    /// `__metadata__` is not a map of strings to strings.
    #[error("`__metadata__` is not a map of strings to strings: {problem} (spec/safetensors.md §3)")]
    NotMetadata {
        /// What was found and where.
        problem: String,
    },
    /// A tensor is named `__metadata__`, which readers would take for the metadata.
    #[error("a tensor is named `__metadata__` (spec/safetensors.md §3)")]
    NamedMetadata,
    /// The entry of a tensor does not have the required form.
    #[error("tensor {}: {problem} (spec/safetensors.md §4)", quoted(.tensor))]
    NotATensor {
        /// The tensor's name.
        tensor: String,
        /// What was found and where.
        problem: String,
    },
    /// A tensor has an unknown field.
    #[error(
        "tensor {} has a field {}, expected `dtype`, `shape` and `data_offsets` (spec/safetensors.md §4)",
        quoted(.tensor), quoted(.field)
    )]
    UnknownField {
        /// The tensor's name.
        tensor: String,
        /// The field.
        field: String,
    },
    /// A tensor lacks a required field.
    #[error("tensor {} has no `{field}` (spec/safetensors.md §4)", quoted(.tensor))]
    MissingField {
        /// The tensor's name.
        tensor: String,
        /// The field.
        field: &'static str,
    },
    /// A tensor has an unknown dtype.
    #[error("tensor {} has the unknown dtype {} (spec/safetensors.md §4.1)", quoted(.tensor), quoted(.dtype))]
    UnknownDtype {
        /// The tensor's name.
        tensor: String,
        /// The dtype.
        dtype: String,
    },
    /// The format has no dtype for an element type that is to be written.
    #[error(
        "tensor {} has elements of {dtype}, for which the format has no dtype (spec/safetensors.md §4.1)",
        quoted(.tensor)
    )]
    NoDtype {
        /// The tensor's name.
        tensor: String,
        /// Its element type.
        dtype: ElementType,
    },
    /// A tensor has more dimensions than [`MAX_RANK`].
    #[error(
        "tensor {} has {found} dimensions, expected at most {MAX_RANK} (spec/safetensors.md §4.2)",
        quoted(.tensor)
    )]
    TooManyDimensions {
        /// The tensor's name.
        tensor: String,
        /// The number of dimensions, or of those read before the parser stopped.
        found: usize,
    },
    /// A tensor is too large for 64 bits.
    #[error(
        "tensor {} of shape {shape:?} has more elements or bits than 64 bits can count (spec/safetensors.md §4.3)",
        quoted(.tensor)
    )]
    Overflow {
        /// The tensor's name.
        tensor: String,
        /// Its shape.
        shape: Vec<usize>,
    },
    /// The elements are smaller than a byte, and the last one does not end at a byte boundary.
    #[error(
        "tensor {} of shape {shape:?} has {n_bits} bits, which is not a whole number of bytes (spec/safetensors.md §4.3)",
        quoted(.tensor)
    )]
    PartialByte {
        /// The tensor's name.
        tensor: String,
        /// Its shape.
        shape: Vec<usize>,
        /// The bits of all elements.
        n_bits: u64,
    },
    /// The size of the data does not match dtype and shape.
    #[error(
        "tensor {} of shape {shape:?} and dtype {dtype} needs {expected} bytes, `data_offsets` are [{begin}, {end}] \
         (spec/safetensors.md §4.3)",
        quoted(.tensor)
    )]
    SizeMismatch {
        /// The tensor's name.
        tensor: String,
        /// Its element type.
        dtype: ElementType,
        /// Its shape.
        shape: Vec<usize>,
        /// The size that follows from dtype and shape.
        expected: u64,
        /// Where the data begins, relative to the end of the header.
        begin: u64,
        /// Where the data ends, relative to the end of the header.
        end: u64,
    },
    /// Bytes before a tensor belong to no tensor.
    #[error(
        "{} bytes before tensor {} belong to no tensor: it begins at {begin}, expected {expected} \
         (spec/safetensors.md §5.1)",
        begin.saturating_sub(*expected), quoted(.tensor)
    )]
    Hole {
        /// The tensor's name.
        tensor: String,
        /// Where the data of the previous tensor ends, relative to the end of the header.
        expected: u64,
        /// Where the data of this tensor begins, relative to the end of the header.
        begin: u64,
    },
    /// Bytes belong to two tensors.
    #[error(
        "tensor {} overlaps {}: it begins at {begin}, expected {expected} (spec/safetensors.md §5.2)",
        quoted(.tensor), quoted(.other)
    )]
    Overlap {
        /// The tensor's name.
        tensor: String,
        /// The name of the previous tensor.
        other: String,
        /// Where the data of the previous tensor ends, relative to the end of the header.
        expected: u64,
        /// Where the data of this tensor begins, relative to the end of the header.
        begin: u64,
    },
    /// The file ends before its last tensor does.
    #[error(
        "the tensors need {expected} bytes after the header, the file has {found}: it is truncated (spec/safetensors.md \
         §5.3)"
    )]
    Truncated {
        /// Where the last tensor ends, relative to the end of the header.
        expected: u64,
        /// The bytes after the header.
        found: u64,
    },
    /// The file continues after its last tensor.
    #[error(
        "the tensors need {expected} bytes after the header, the file has {found}: what follows belongs to no tensor \
         (spec/safetensors.md §5.4)"
    )]
    TrailingBytes {
        /// Where the last tensor ends, relative to the end of the header.
        expected: u64,
        /// The bytes after the header.
        found: u64,
    },
}

/// The reason that a safetensors file cannot be read or written. Every variant names the place.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SafetensorsError {
    /// The file breaks a rule of the format.
    #[error("`{place}` is not a valid safetensors file")]
    Header {
        /// The file.
        place: String,
        /// The rule.
        #[source]
        source: HeaderError,
    },
    /// The file is another kind of file.
    #[error("`{place}` is {content}, expected a safetensors file")]
    OtherContent {
        /// The file.
        place: String,
        /// What it is.
        content: Content,
    },
    /// The file has no tensor of this name.
    #[error("`{place}` has no tensor {}", quoted(.name))]
    NoSuchTensor {
        /// The file.
        place: String,
        /// The requested name.
        name: String,
    },
    /// The data of a tensor does not form a tensor. This only happens if the tensor does not fit in memory, or if the file has changed.
    #[error("tensor {} of `{place}` cannot be held in memory", quoted(.name))]
    Tensor {
        /// The file.
        place: String,
        /// The tensor's name.
        name: String,
        /// The cause.
        #[source]
        source: RawTensorError,
    },
    /// The tensors do not form a valid file.
    #[error("the tensors cannot be written as a safetensors file")]
    Unwritable(#[source] HeaderError),
    /// The caller passed other bytes to the writer than it had announced.
    #[error("the writer was given {problem}")]
    Unexpected {
        /// What was given and what was expected.
        problem: String,
    },
    /// Reading or writing failed.
    #[error("cannot read or write `{place}`")]
    Io {
        /// The file.
        place: String,
        /// The error of the operating system.
        #[source]
        source: io::Error,
    },
}

impl SafetensorsError {
    /// Whether the content of the file is at fault, rather than reading it.
    #[cfg(feature = "weights")]
    pub(crate) fn is_about_content(&self) -> bool {
        matches!(self, Self::Header { .. } | Self::OtherContent { .. })
    }
}

/// Shortens a parser's message, which may quote the whole file.
pub(super) fn cut(problem: &str) -> String {
    const SHOWN: usize = 300;
    match problem.char_indices().nth(SHOWN) {
        None => problem.to_owned(),
        // The position of the problem is at the end of the message, so it is kept.
        Some((end, _)) => {
            let place = problem.rfind(" at line ").and_then(|place| problem.get(place.max(end)..)).unwrap_or_default();
            format!("{}…{place}", problem.get(..end).unwrap_or_default())
        }
    }
}
