//! The errors of reading GGUF files. Every rule of spec/gguf.md that a header can break is a variant of [`HeaderError`] that cites its
//! section.

use std::io;

use super::GgmlType;
use crate::content::Content;
use crate::files::{RawTensorError, quoted};

/// The rule that a header breaks. Positions are in bytes from the start of the file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HeaderError {
    /// The file does not begin like GGUF.
    #[error("the file begins with `{}`, expected `GGUF` (spec/gguf.md §1)", .found.escape_ascii())]
    Magic {
        /// The first four bytes.
        found: [u8; 4],
    },
    /// The version is another one.
    #[error("version {found} of the format, expected 2 or 3 (spec/gguf.md §1)")]
    Version {
        /// The version.
        found: u32,
    },
    /// The file is for machines of the other byte order.
    #[error(
        "a file in big-endian byte order (its version reads as {found:#010x}), expected little-endian (spec/gguf.md §1)"
    )]
    BigEndian {
        /// The version, read as a little-endian number.
        found: u32,
    },
    /// The file ends inside the header.
    #[error("{what} at byte {at} takes {needed} bytes, and the file has {left} more (spec/gguf.md §1)")]
    PastTheEnd {
        /// Where it is.
        at: u64,
        /// What does not fit.
        what: &'static str,
        /// Its bytes.
        needed: u64,
        /// The bytes that the file has there.
        left: u64,
    },
    /// The header is longer than any that is read.
    #[error("a header of more than {most} bytes, which is not read (spec/gguf.md §1)")]
    TooLong {
        /// The limit.
        most: u64,
    },
    /// A number of things is larger than the file can hold, or than what is read.
    #[error("{found} as the number of {what} at byte {at}, expected at most {most} there (spec/gguf.md §1)")]
    TooMany {
        /// Where the number is.
        at: u64,
        /// What is counted.
        what: &'static str,
        /// The number.
        found: u64,
        /// The largest possible number.
        most: u64,
    },
    /// A key, or the name of a tensor, is not UTF-8.
    #[error("{what} at byte {at} is not UTF-8: `{}` (spec/gguf.md §2)", shown(.found))]
    NotUtf8 {
        /// Where it is.
        at: u64,
        /// What it is.
        what: &'static str,
        /// Its bytes.
        found: Vec<u8>,
    },
    /// A key has no characters.
    #[error("an empty key at byte {at} (spec/gguf.md §2)")]
    EmptyKey {
        /// Where it is.
        at: u64,
    },
    /// A key occurs twice.
    #[error("key {} at byte {at} occurs twice (spec/gguf.md §2)", quoted(.key))]
    DuplicateKey {
        /// Where the second one is.
        at: u64,
        /// The key.
        key: String,
    },
    /// The type of a value is not known.
    #[error("key {}: value type {found} at byte {at}, expected 0 to 12 (spec/gguf.md §2)", quoted(.key))]
    UnknownValueType {
        /// Where the type is.
        at: u64,
        /// The key.
        key: String,
        /// The number of the type.
        found: u32,
    },
    /// A boolean is neither 0 nor 1.
    #[error("key {}: the boolean at byte {at} is {found}, expected 0 or 1 (spec/gguf.md §2)", quoted(.key))]
    NotBool {
        /// Where it is.
        at: u64,
        /// The key.
        key: String,
        /// The byte.
        found: u8,
    },
    /// Arrays are nested too deeply.
    #[error("key {}: the array at byte {at} is inside of {most} others, which is not read (spec/gguf.md §2)", quoted(.key))]
    TooDeep {
        /// Where the innermost array is.
        at: u64,
        /// The key.
        key: String,
        /// The limit.
        most: usize,
    },
    /// A key that readers depend on has a value of another kind.
    #[error("key {} is {found}, expected {expected} (spec/gguf.md §{section})", quoted(.key))]
    WrongValue {
        /// The key.
        key: String,
        /// The value, or its kind.
        found: String,
        /// What it should be.
        expected: &'static str,
        /// The section of the specification.
        section: &'static str,
    },
    /// Two tensors have the same name.
    #[error("two tensors are named {}, the second at byte {at} (spec/gguf.md §3)", quoted(.tensor))]
    DuplicateTensor {
        /// Where the second one is.
        at: u64,
        /// The name.
        tensor: String,
    },
    /// A tensor has more dimensions than ggml allows.
    #[error("tensor {} has {found} dimensions at byte {at}, expected at most {most} (spec/gguf.md §3)", quoted(.tensor))]
    TooManyDimensions {
        /// Where their number is.
        at: u64,
        /// The name.
        tensor: String,
        /// Their number.
        found: u32,
        /// The limit.
        most: u32,
    },
    /// A tensor is too large to be addressed.
    #[error(
        "tensor {} at byte {at} has the dimensions {dimensions:?} in the order of the file, which is more than can be addressed \
         (spec/gguf.md §3)",
        quoted(.tensor)
    )]
    Overflow {
        /// Where the tensor is described.
        at: u64,
        /// The name.
        tensor: String,
        /// The dimensions, in the order of the file.
        dimensions: Vec<u64>,
    },
    /// The type of a tensor is not known.
    #[error("tensor {} has the type {found} at byte {at}, which is not known (spec/gguf.md §4)", quoted(.tensor))]
    UnknownType {
        /// Where the type is.
        at: u64,
        /// The name.
        tensor: String,
        /// The number of the type.
        found: u32,
    },
    /// A row does not consist of whole blocks.
    #[error(
        "tensor {} at byte {at} has rows of {found} elements, expected a multiple of the {} of a block of {of} (spec/gguf.md §4)",
        quoted(.tensor), .of.block_elements()
    )]
    PartialBlock {
        /// Where the tensor is described.
        at: u64,
        /// The name.
        tensor: String,
        /// The type.
        of: GgmlType,
        /// The elements of a row.
        found: u64,
    },
    /// The data of a tensor does not begin where it may.
    #[error(
        "tensor {} has the offset {found} at byte {at}, expected a multiple of {alignment} (spec/gguf.md §3)",
        quoted(.tensor)
    )]
    Misaligned {
        /// Where the offset is.
        at: u64,
        /// The name.
        tensor: String,
        /// The offset.
        found: u64,
        /// The alignment of the file.
        alignment: u64,
    },
    /// The data of a tensor is not all in the file.
    #[error(
        "tensor {} is {needed} bytes from byte {start}, and the file has {file_length} bytes: it is truncated, or its header is wrong \
         (spec/gguf.md §3)",
        quoted(.tensor)
    )]
    DataPastTheEnd {
        /// The name.
        tensor: String,
        /// Where the data begins. The largest number if that is more than 64 bits can count.
        start: u64,
        /// Its bytes.
        needed: u64,
        /// The size of the file.
        file_length: u64,
    },
    /// The data of two tensors shares bytes.
    #[error(
        "tensor {} ends at byte {end}, and tensor {} begins at byte {start}: they overlap (spec/gguf.md §3)",
        quoted(.first), quoted(.second)
    )]
    Overlap {
        /// The tensor that begins first.
        first: String,
        /// Where it ends.
        end: u64,
        /// The other one.
        second: String,
        /// Where that begins.
        start: u64,
    },
}

/// The reason that a file or a tensor in it cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GgufError {
    /// Opening or reading the file failed.
    #[error("cannot read `{place}`")]
    Io {
        /// The file.
        place: String,
        /// The error of the operating system.
        #[source]
        source: io::Error,
    },
    /// The header breaks a rule.
    #[error("`{place}` is not a GGUF file that can be read")]
    Header {
        /// The file.
        place: String,
        /// The rule.
        #[source]
        source: Box<HeaderError>,
    },
    /// The file is another kind of file.
    #[error("`{place}` is {content}, expected a GGUF file")]
    OtherContent {
        /// The file.
        place: String,
        /// What it is.
        content: Content,
    },
    /// The file is one of several that are not there, or do not belong together.
    #[error("`{place}`: {problem} (spec/gguf.md §5)")]
    Split {
        /// The file.
        place: String,
        /// What is wrong.
        problem: String,
    },
    /// The file has no tensor of this name.
    #[error("`{place}` has no tensor {}", quoted(.name))]
    NoSuchTensor {
        /// The file.
        place: String,
        /// The requested name.
        name: String,
    },
    /// The tensor is quantized by a type that is not turned into numbers.
    #[error("tensor {} in `{place}` has blocks of {of}, which are not dequantized (spec/gguf.md §4)", quoted(.name))]
    NotDequantized {
        /// The file.
        place: String,
        /// The name.
        name: String,
        /// The type.
        of: GgmlType,
    },
    /// The tensor does not fit in memory.
    #[error("tensor {} in `{place}`", quoted(.name))]
    Tensor {
        /// The file.
        place: String,
        /// The name.
        name: String,
        /// The reason.
        #[source]
        source: RawTensorError,
    },
}

impl GgufError {
    /// Whether the file breaks a rule of the format, or has another version or byte order.
    #[must_use]
    pub fn is_malformed(&self) -> bool {
        match self {
            Self::Header { source, .. } => {
                !matches!(**source, HeaderError::TooLong { .. } | HeaderError::TooDeep { .. })
            }
            Self::Split { .. } | Self::OtherContent { .. } => true,
            _ => false,
        }
    }

    /// Whether the content of the file caused the error.
    #[must_use]
    pub fn is_about_content(&self) -> bool {
        match self {
            Self::Header { .. } | Self::OtherContent { .. } | Self::Split { .. } => true,
            Self::NotDequantized { .. } | Self::Tensor { .. } => true,
            Self::Io { .. } | Self::NoSuchTensor { .. } => false,
        }
    }
}

/// Bytes of a message, escaped and shortened.
fn shown(bytes: &[u8]) -> String {
    const SHOWN: usize = 200;
    bytes.get(..SHOWN).unwrap_or(bytes).escape_ascii().to_string()
}
