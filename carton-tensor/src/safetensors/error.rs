//! Why a safetensors file cannot be read or written. Every rule of spec/safetensors.md that a file can break is a
//! variant of [`HeaderError`] that cites its section.

use std::fmt;
use std::io;

use crate::MAX_RANK;
use crate::files::{ElementType, RawTensorError};

/// The rule that a header breaks, or that one would break if it were written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HeaderError {
    /// No room for the length of the header.
    #[error(
        "{}, expected at least the 8 bytes of the header's length (spec/safetensors.md §1.1)",
        if *file_length == 0 { "the file is empty".to_owned() } else { format!("a file of {file_length} bytes") }
    )]
    TooShort {
        /// The size of the file.
        file_length: u64,
    },
    /// A header longer than any reader takes.
    #[error("a header of {length} bytes, expected at most 100000000 (spec/safetensors.md §1.2)")]
    TooLong {
        /// What the first eight bytes say.
        length: u64,
    },
    /// A header that ends after the file.
    #[error(
        "a header of {length} bytes in a file of {file_length}: it is truncated, or does not begin with the length of its header \
         (spec/safetensors.md §1.3)"
    )]
    PastTheEnd {
        /// What the first eight bytes say.
        length: u64,
        /// The size of the file.
        file_length: u64,
    },
    /// The caller gave less than the header; the file may be fine.
    #[error("{found} bytes of the file were given, its header needs the first {needed}")]
    Incomplete {
        /// The bytes from the start of the file up to the end of its header.
        needed: u64,
        /// The bytes given.
        found: u64,
    },
    /// Not UTF-8.
    #[error("the header is not UTF-8 at byte {position} of the file (spec/safetensors.md §2.1)")]
    NotUtf8 {
        /// The first byte that is no part of a character.
        position: u64,
    },
    /// The header begins with something else than `{`.
    #[error("the header begins with byte {found:#04x}, expected `{{` (spec/safetensors.md §2.2)")]
    FirstByte {
        /// The byte found; 0 for an empty header.
        found: u8,
    },
    /// The header ends with something else than `}` and spaces.
    #[error("the header ends with byte {found:#04x}, expected `}}` and then only spaces (spec/safetensors.md §2.3)")]
    LastByte {
        /// The last byte that is not a space.
        found: u8,
    },
    /// Not JSON, or not of the form that a header has.
    #[error("the header is not JSON: {problem} (spec/safetensors.md §2.4)")]
    Json {
        /// What is wrong and where, as the JSON parser says it.
        problem: String,
    },
    /// A name that two tensors have.
    #[error("two tensors are named {} (spec/safetensors.md §2.5)", quoted(.tensor))]
    DuplicateTensor {
        /// The name.
        tensor: String,
    },
    /// `dtype`, `shape` or `data_offsets` twice in one tensor.
    #[error("tensor {} has `{field}` twice (spec/safetensors.md §2.5)", quoted(.tensor))]
    DuplicateField {
        /// The tensor's name.
        tensor: String,
        /// The field.
        field: &'static str,
    },
    /// `__metadata__` twice.
    #[error("the header has `__metadata__` twice (spec/safetensors.md §2.5)")]
    DuplicateMetadata,
    /// A key that `__metadata__` has twice.
    #[error("`__metadata__` has {} twice (spec/safetensors.md §2.5)", quoted(.key))]
    DuplicateMetadataKey {
        /// The key.
        key: String,
    },
    /// `__metadata__` is no map of strings.
    #[error("`__metadata__` is no map of strings to strings: {problem} (spec/safetensors.md §3)")]
    NotMetadata {
        /// What was found and where.
        problem: String,
    },
    /// A tensor with this name could not be told from the metadata.
    #[error("a tensor is named `__metadata__` (spec/safetensors.md §3)")]
    NamedMetadata,
    /// A tensor's entry is not of the form it should have.
    #[error("tensor {}: {problem} (spec/safetensors.md §4)", quoted(.tensor))]
    NotATensor {
        /// The tensor's name.
        tensor: String,
        /// What was found and where.
        problem: String,
    },
    /// A field that tensors do not have.
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
    /// A field that tensors must have.
    #[error("tensor {} has no `{field}` (spec/safetensors.md §4)", quoted(.tensor))]
    MissingField {
        /// The tensor's name.
        tensor: String,
        /// The field.
        field: &'static str,
    },
    /// A dtype that the format does not have.
    #[error("tensor {} has the unknown dtype {} (spec/safetensors.md §4.1)", quoted(.tensor), quoted(.dtype))]
    UnknownDtype {
        /// The tensor's name.
        tensor: String,
        /// The dtype.
        dtype: String,
    },
    /// An element type that the format has no dtype for, when writing.
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
    /// More dimensions than [`MAX_RANK`].
    #[error(
        "tensor {} has {found} dimensions, expected at most {MAX_RANK} (spec/safetensors.md §4.2)",
        quoted(.tensor)
    )]
    TooManyDimensions {
        /// The tensor's name.
        tensor: String,
        /// The number of dimensions, or of those that were read before giving up.
        found: usize,
    },
    /// Too large for 64 bits.
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
    /// Elements smaller than a byte that do not end with one.
    #[error(
        "tensor {} of shape {shape:?} has {n_bits} bits, which is no whole number of bytes (spec/safetensors.md §4.3)",
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
    /// Data of another size than dtype and shape ask for.
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
        /// The size that follows from both.
        expected: u64,
        /// Where the data begins, from the end of the header.
        begin: u64,
        /// Where it ends.
        end: u64,
    },
    /// Bytes that belong to no tensor.
    #[error(
        "{} bytes before tensor {} belong to no tensor: it begins at {begin}, expected {expected} \
         (spec/safetensors.md §5.1)",
        begin.saturating_sub(*expected), quoted(.tensor)
    )]
    Hole {
        /// The tensor's name.
        tensor: String,
        /// Where the data of the tensor before it ends, from the end of the header.
        expected: u64,
        /// Where its own begins.
        begin: u64,
    },
    /// Bytes that belong to two tensors.
    #[error(
        "tensor {} overlaps {}: it begins at {begin}, expected {expected} (spec/safetensors.md §5.2)",
        quoted(.tensor), quoted(.other)
    )]
    Overlap {
        /// The tensor's name.
        tensor: String,
        /// The tensor before it.
        other: String,
        /// Where the data of the tensor before it ends, from the end of the header.
        expected: u64,
        /// Where its own begins.
        begin: u64,
    },
    /// The file ends before its last tensor.
    #[error(
        "the tensors need {expected} bytes after the header, the file has {found}: it is truncated (spec/safetensors.md \
         §5.3)"
    )]
    Truncated {
        /// Where the last tensor ends, from the end of the header.
        expected: u64,
        /// The bytes after the header.
        found: u64,
    },
    /// The file goes on after its last tensor.
    #[error(
        "the tensors need {expected} bytes after the header, the file has {found}: what follows belongs to no tensor \
         (spec/safetensors.md §5.4)"
    )]
    TrailingBytes {
        /// Where the last tensor ends, from the end of the header.
        expected: u64,
        /// The bytes after the header.
        found: u64,
    },
}

/// Why a safetensors file cannot be read or written. Every variant says where.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SafetensorsError {
    /// The file breaks a rule of the format, or would.
    #[error("`{place}` is not a valid safetensors file")]
    Header {
        /// Which file.
        place: String,
        /// The rule.
        #[source]
        source: HeaderError,
    },
    /// The file has no tensor of this name.
    #[error("`{place}` has no tensor {}", quoted(.name))]
    NoSuchTensor {
        /// Which file.
        place: String,
        /// The name asked for.
        name: String,
    },
    /// The bytes of a tensor are no such tensor; only when this machine's memory cannot hold it, or the file changed.
    #[error("tensor {} of `{place}` cannot be held in memory", quoted(.name))]
    Tensor {
        /// Which file.
        place: String,
        /// The tensor's name.
        name: String,
        /// What is wrong with it.
        #[source]
        source: RawTensorError,
    },
    /// The tensors make no valid file.
    #[error("the tensors cannot be written as a safetensors file")]
    Unwritable(#[source] HeaderError),
    /// The writer was given other bytes than it was told to expect.
    #[error("the writer was given {problem}")]
    Unexpected {
        /// What was given and what was expected.
        problem: String,
    },
    /// Reading or writing failed.
    #[error("cannot read or write `{place}`")]
    Io {
        /// Which file.
        place: String,
        /// What the system said.
        #[source]
        source: io::Error,
    },
}

impl SafetensorsError {
    /// Whether it is what the file holds that is wrong, and not that it could not be read.
    #[cfg(feature = "weights")]
    pub(crate) fn is_about_content(&self) -> bool {
        matches!(self, Self::Header { .. })
    }
}

/// A name from a file as it may be shown: control characters escaped, and cut where nobody reads on.
pub(super) fn quoted(name: &str) -> impl fmt::Display {
    const SHOWN: usize = 200;
    let shown: String = name.chars().take(SHOWN).flat_map(char::escape_debug).collect();
    let rest = name.chars().skip(SHOWN).count();
    if rest == 0 { format!("`{shown}`") } else { format!("`{shown}…` and {rest} more characters") }
}

/// What a parser says of a file, which may quote all of it.
pub(super) fn cut(problem: &str) -> String {
    const SHOWN: usize = 300;
    match problem.char_indices().nth(SHOWN) {
        None => problem.to_owned(),
        // The place comes last.
        Some((end, _)) => {
            let place = problem.rfind(" at line ").and_then(|place| problem.get(place.max(end)..)).unwrap_or_default();
            format!("{}…{place}", problem.get(..end).unwrap_or_default())
        }
    }
}
