//! The errors of zTensor files and of requests to them. Errors inside an object of a format are defined beside that format:
//! `sparse/error.rs`, `quantized_group/error.rs`.

use std::io;
use std::path::PathBuf;

use super::bytes::Bytes;
use super::digest_algorithm::DigestAlgorithm;
use super::name::Name;
use super::place::FilePart;
use super::{QuantizedGroupError, SparseError};
use crate::files::{ElementType, RawTensorError};

/// A rule of the format that a file breaks, or a request that cannot be met.
///
/// Each rule has its own variant, whose text ends in the section of `spec/ztensor.md` that states the rule. Names from a file are shown
/// escaped and shortened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ZTensorError {
    /// The file cannot be opened.
    #[error("cannot open {path}", path = path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        #[source]
        source: io::Error,
    },
    /// Reading or writing failed.
    #[error("cannot read or write the file")]
    Io(#[from] io::Error),
    /// There is not enough memory.
    #[error("there is no memory for the {n_bytes} bytes of {at}")]
    Memory {
        /// The item that needs the memory.
        at: Box<FilePart>,
        /// The bytes it needs.
        n_bytes: u64,
    },

    /// §1.1: the file is too short for both magic numbers, a manifest and its size.
    #[error(
        "the file {}, expected at least {expected} bytes [spec/ztensor.md §1.1]",
        if *found == 0 { "is empty".to_owned() } else { format!("has {found} bytes") }
    )]
    TooShort {
        /// The size of the file.
        found: u64,
        /// The size of the smallest valid file.
        expected: u64,
    },
    /// §1.1: a magic number is wrong.
    #[error(
        "the file {place} with `{found}`, expected `ZTEN1000`{} [spec/ztensor.md §1.1]",
        if *place == "ends" { ": it is truncated, or was changed" } else { "" },
        found = found.escape_ascii()
    )]
    Magic {
        /// "starts" or "ends".
        place: &'static str,
        /// The eight bytes found.
        found: [u8; 8],
    },
    /// §1.1: the file has the container of another version of zTensor.
    #[error("it is a file of zTensor {version}, which is another format: expected 1.1 or 1.2 [spec/ztensor.md §1.1]")]
    OtherVersion {
        /// The version.
        version: &'static str,
    },
    /// §1.2: the manifest has more than 1 GiB.
    #[error("the manifest claims {found} bytes, expected at most {limit} [spec/ztensor.md §1.2]")]
    ManifestSize {
        /// The claimed size.
        found: u64,
        /// The largest valid size.
        limit: u64,
    },
    /// §1.2: the manifest would start before the earliest position of a blob.
    #[error("the manifest claims {found} bytes, but the file has room for {available} [spec/ztensor.md §1.2]")]
    ManifestBounds {
        /// The claimed size.
        found: u64,
        /// The bytes between the magic number and the footer.
        available: u64,
    },
    /// §1.3: a blob does not start at a multiple of 64.
    #[error("{at} starts at byte {offset}, expected a multiple of 64 [spec/ztensor.md §1.3]")]
    Unaligned {
        /// The component.
        at: Box<FilePart>,
        /// Where the component starts.
        offset: u64,
    },
    /// §1.3: a blob overlaps the magic number.
    #[error("{at} has {length} bytes from byte {offset} on, expected none before byte 64 [spec/ztensor.md §1.3]")]
    BeforeBlobs {
        /// The component.
        at: Box<FilePart>,
        /// Where the component starts.
        offset: u64,
        /// Its size.
        length: u64,
    },
    /// §1.3: a blob does not end before the manifest.
    #[error(
        "{at} has {length} bytes from byte {offset} on, expected them to end before the manifest at byte {limit} [spec/ztensor.md §1.3]"
    )]
    OutOfBounds {
        /// The component.
        at: Box<FilePart>,
        /// Where the component starts.
        offset: u64,
        /// Its size.
        length: u64,
        /// Where the manifest starts.
        limit: u64,
    },
    /// §1.4: two components overlap, but are not the same bytes.
    #[error("{second} starts at byte {offset}, inside {first}, and is not the same bytes [spec/ztensor.md §1.4]")]
    Overlap {
        /// The component that starts first.
        first: Box<FilePart>,
        /// The other component.
        second: Box<FilePart>,
        /// Where the other component starts.
        offset: u64,
    },

    /// §2.1: the manifest is not valid CBOR.
    #[error("the manifest is not valid CBOR at byte {position} of the file: {problem} [spec/ztensor.md §2.1]")]
    Cbor {
        /// The position in the file.
        position: u64,
        /// The reason, in words.
        problem: String,
    },
    /// §2.1: bytes follow the map of the manifest.
    #[error("{n_bytes} bytes follow the manifest's map, at byte {position} of the file [spec/ztensor.md §2.1]")]
    TrailingCbor {
        /// The position of the first of these bytes in the file.
        position: u64,
        /// The number of these bytes.
        n_bytes: u64,
    },
    /// §2.1: a map, array or string claims more items than there are bytes left.
    #[error(
        "at byte {position} of the file {claimed} items are claimed where {available} bytes are left [spec/ztensor.md §2.1]"
    )]
    ClaimedLength {
        /// The position in the file.
        position: u64,
        /// The claimed number.
        claimed: u64,
        /// The bytes up to the end of the manifest.
        available: u64,
    },
    /// §2.1: values are nested too deeply.
    #[error("values are nested more than {limit} deep at byte {position} of the file [spec/ztensor.md §2.1]")]
    Depth {
        /// The position in the file.
        position: u64,
        /// The limit.
        limit: usize,
    },
    /// §2.1: a value has the wrong type.
    #[error("at byte {position} of the file: expected {expected}, found {found} [spec/ztensor.md §2.1]")]
    WrongType {
        /// The position in the file.
        position: u64,
        /// The expected type.
        expected: &'static str,
        /// The type that was found.
        found: String,
    },
    /// §2.2: a map has a key twice.
    #[error("{at} has the key {key} twice [spec/ztensor.md §2.2]")]
    DuplicateKey {
        /// The owner of the map.
        at: Box<FilePart>,
        /// The key.
        key: Name,
    },
    /// §2.3, §2.4, §2.5: a required field is missing.
    #[error("{at} has no field `{field}` [spec/ztensor.md §{}]", .at.section_of_fields())]
    MissingField {
        /// The item that lacks the field.
        at: Box<FilePart>,
        /// The field.
        field: &'static str,
    },
    /// §2.3: the manifest has another major version, or an invalid one.
    #[error("the manifest has version {found}, expected 1.x [spec/ztensor.md §2.3]")]
    ManifestVersion {
        /// The version that was found.
        found: Name,
    },
    /// §2.4: an object has too many dimensions.
    #[error("{at} has more than {limit} dimensions [spec/ztensor.md §2.4]")]
    Rank {
        /// The object.
        at: Box<FilePart>,
        /// The limit.
        limit: usize,
    },
    /// §2.4: an object lacks a component that its format requires.
    #[error("{at}, whose format is `{format}`, has no component `{role}` [spec/ztensor.md §2.4]")]
    MissingComponent {
        /// The object.
        at: Box<FilePart>,
        /// Its format.
        format: &'static str,
        /// The missing component.
        role: &'static str,
    },
    /// §2.6: there are more attributes than the decoder allows.
    #[error("the attributes of {at} have more than {limit} values [spec/ztensor.md §2.6]")]
    TooManyAttributes {
        /// The owner of the attributes.
        at: Box<FilePart>,
        /// The limit.
        limit: usize,
    },

    /// §2.6: the attributes cannot be encoded as CBOR.
    #[error("the attributes of {at} cannot be written: {problem} [spec/ztensor.md §2.6]")]
    Attributes {
        /// The owner of the attributes.
        at: Box<FilePart>,
        /// The reason, in words.
        problem: String,
    },

    /// §3.1: the storage type is unknown.
    #[error("{at} has the unknown dtype {found} [spec/ztensor.md §3.1]")]
    UnknownDtype {
        /// The component.
        at: Box<FilePart>,
        /// Its dtype.
        found: Name,
    },
    /// §3.2: the logical type does not fit the storage type.
    #[error("{at} has type `{logical}` over dtype `{found}`, expected dtype `{expected}` [spec/ztensor.md §3.2]")]
    LogicalType {
        /// The component.
        at: Box<FilePart>,
        /// The logical type.
        logical: ElementType,
        /// The dtype that fits the logical type.
        expected: ElementType,
        /// The dtype of the component.
        found: ElementType,
    },
    /// §3.4: a bool is neither 0 nor 1.
    #[error("{at} has the bool {found} at position {position}, expected 0 or 1 [spec/ztensor.md §3.4]")]
    Bool {
        /// The component.
        at: Box<FilePart>,
        /// The position of the element.
        position: usize,
        /// The byte.
        found: u8,
    },
    /// §3.5: the shape has more elements or bytes than 64 bits can count.
    #[error("{at} has more elements, or bytes, than 64 bits can count [spec/ztensor.md §3.5]")]
    TooLarge {
        /// The object.
        at: Box<FilePart>,
    },
    /// §3.5: the number of bytes does not match the shape.
    #[error("{at} has {found} bytes, expected {expected} for its shape and type [spec/ztensor.md §3.5]")]
    Size {
        /// The component.
        at: Box<FilePart>,
        /// The bytes that shape and type need.
        expected: u64,
        /// The bytes of the component.
        found: u64,
    },
    /// §3.5: the bytes are not a whole number of elements.
    #[error("{at} has {found} bytes, expected a multiple of {size}, the size of its elements [spec/ztensor.md §3.5]")]
    PartialElement {
        /// The component.
        at: Box<FilePart>,
        /// The bytes of the component.
        found: u64,
        /// The size of an element.
        size: u64,
    },

    /// §4.1: the encoding is unknown.
    #[error("{at} has the unknown encoding {found}, expected `raw` or `zstd` [spec/ztensor.md §4.1]")]
    UnknownEncoding {
        /// The component.
        at: Box<FilePart>,
        /// Its encoding.
        found: Name,
    },
    /// §4.1: `uncompressed_length` of a component that is not compressed differs from its size.
    #[error("{at} is raw with {length} bytes, but has an uncompressed_length of {found} [spec/ztensor.md §4.1]")]
    UncompressedLength {
        /// The component.
        at: Box<FilePart>,
        /// Its size.
        length: u64,
        /// The `uncompressed_length`.
        found: u64,
    },
    /// §4.2: the component is not valid zstd.
    #[error("{at} is not valid zstd [spec/ztensor.md §4.2]")]
    Zstd {
        /// The component.
        at: Box<FilePart>,
        /// The error of the decoder.
        #[source]
        source: io::Error,
    },
    /// §4.2: the decompressed size differs from the declared one.
    #[error("{at} decompresses to {found} bytes, expected {expected} [spec/ztensor.md §4.2]")]
    DecompressedSize {
        /// The component.
        at: Box<FilePart>,
        /// The size in the manifest.
        expected: u64,
        /// The actual size.
        found: Bytes,
    },
    /// §4.2: the declared size is impossible for a zstd frame of this size.
    #[error(
        "{at} claims {claimed} bytes in {length} bytes of zstd, which can hold {limit} at most [spec/ztensor.md §4.2]"
    )]
    CompressionRatio {
        /// The component.
        at: Box<FilePart>,
        /// The size in the manifest.
        claimed: u64,
        /// The compressed size.
        length: u64,
        /// The most bytes that this compressed size can hold.
        limit: u64,
    },
    /// §4.2: the size is not declared, and the decompressed bytes exceed the limit.
    #[error(
        "{at} does not say its uncompressed size, and decompresses to more than {limit} bytes [spec/ztensor.md §4.2]"
    )]
    UndeclaredSize {
        /// The component.
        at: Box<FilePart>,
        /// The most bytes that are decompressed without a declared size.
        limit: u64,
    },
    /// §4.3: the bytes do not match their digest.
    #[error("digest mismatch for {at}: expected {expected}, found {found} [spec/ztensor.md §4.3]")]
    DigestMismatch {
        /// The component.
        at: Box<FilePart>,
        /// The digest in the manifest.
        expected: String,
        /// The digest of the bytes.
        found: String,
    },
    /// §4.3: a digest that is to be verified has an unknown algorithm, or names none.
    #[error("{at} has the digest {found}, which cannot be verified: expected sha256 or crc32c [spec/ztensor.md §4.3]")]
    UnknownDigest {
        /// The component.
        at: Box<FilePart>,
        /// The digest.
        found: Name,
    },
    /// §4.3: a digest has the wrong length, or characters that are not hexadecimal digits.
    #[error("{at} has the digest {found}, which is not a valid {algorithm} digest [spec/ztensor.md §4.3]")]
    MalformedDigest {
        /// The component.
        at: Box<FilePart>,
        /// The digest.
        found: Name,
        /// The algorithm that it names.
        algorithm: DigestAlgorithm,
    },
    /// §4.3: a component that is to be verified has no digest.
    #[error("{at} has no digest that could be verified [spec/ztensor.md §4.3]")]
    NoDigest {
        /// The component.
        at: Box<FilePart>,
    },

    /// §5: an object was read as another format than it has.
    #[error("{at} has the format {found}, expected `{expected}` [spec/ztensor.md §5]")]
    WrongFormat {
        /// The object.
        at: Box<FilePart>,
        /// The format that was requested.
        expected: &'static str,
        /// The format of the object.
        found: Name,
    },

    /// §5.1 to §5.3: a sparse object breaks a rule.
    #[error(transparent)]
    Sparse(#[from] SparseError),
    /// §5.4: a quantized group breaks a rule.
    #[error(transparent)]
    QuantizedGroup(#[from] QuantizedGroupError),

    /// No object has this name.
    #[error("there is no object {name}")]
    NoSuchObject {
        /// The requested name.
        name: Name,
    },
    /// The object has no component of this role.
    #[error("there is no {at}")]
    NoSuchComponent {
        /// The requested component.
        at: Box<FilePart>,
    },
    /// The bytes do not form a tensor.
    #[error("{at} cannot be read as a tensor")]
    Tensor {
        /// The object.
        at: Box<FilePart>,
        /// The cause.
        #[source]
        source: RawTensorError,
    },
    /// §6.1: an object of this name has already been written.
    #[error("an object {name} was written already [spec/ztensor.md §6.1]")]
    DuplicateName {
        /// The name.
        name: Name,
    },
    /// §6.2: this version of the format cannot express the content.
    #[error("version {version} of the format has no {what}; write version 1.2 [spec/ztensor.md §6.2]")]
    NotInVersion {
        /// The version being written.
        version: &'static str,
        /// The missing feature.
        what: String,
    },
    /// §6.1: an earlier write failed in the middle of a blob, so the file cannot be continued.
    #[error("an earlier write failed, and the file cannot be continued [spec/ztensor.md §6.1]")]
    Unfinished,
    /// §6.3: objects of an older version would be appended to a file of a newer one.
    #[error(
        "the file states version {found}, expected at most {version} to append in that version [spec/ztensor.md §6.3]"
    )]
    StatedVersion {
        /// The version that the file states.
        found: Name,
        /// The version in which objects were to be appended.
        version: &'static str,
    },
    /// §6.3: another writer has the file open for appending.
    #[error("{path} is being appended to by another writer [spec/ztensor.md §6.3]", path = path.display())]
    Locked {
        /// The file.
        path: PathBuf,
    },
}

impl ZTensorError {
    /// Whether the file breaks a rule of the format, or has another format. A file that merely exceeds a limit of this library breaks
    /// no rule.
    #[must_use]
    pub fn is_malformed(&self) -> bool {
        match self {
            Self::Sparse(error) => error.is_malformed(),
            Self::QuantizedGroup(error) => error.is_malformed(),
            Self::Open { .. }
            | Self::Io(_)
            | Self::Memory { .. }
            | Self::NoSuchObject { .. }
            | Self::NoSuchComponent { .. }
            | Self::WrongFormat { .. }
            | Self::NotInVersion { .. }
            | Self::NoDigest { .. }
            | Self::DuplicateName { .. }
            | Self::Attributes { .. }
            | Self::Unfinished
            | Self::StatedVersion { .. }
            | Self::Locked { .. } => false,
            _ => true,
        }
    }

    /// Whether the content of the file is at fault, rather than reading it or asking for something that is not there.
    pub(crate) fn is_about_content(&self) -> bool {
        !matches!(
            self,
            Self::Open { .. }
                | Self::Io(_)
                | Self::Memory { .. }
                | Self::NoSuchObject { .. }
                | Self::NoSuchComponent { .. }
                | Self::Unfinished
                | Self::StatedVersion { .. }
                | Self::Locked { .. }
        )
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_section_that_errors_cite_exists() {
        let specification = include_str!("../../../spec/ztensor.md");
        let sections = |text: &str, mark: &str| -> Vec<String> {
            let after = text.split(mark).skip(1);
            after
                .map(|rest| rest.chars().take_while(|c| c.is_ascii_digit() || *c == '.').collect::<String>())
                .map(|section| section.trim_end_matches('.').to_owned())
                .collect()
        };
        let headings: Vec<String> = specification
            .lines()
            .filter_map(|line| line.trim_start_matches('#').strip_prefix(' ').filter(|_| line.starts_with("##")))
            .filter_map(|heading| heading.split(' ').next())
            .map(|section| section.trim_end_matches('.').to_owned())
            .collect();
        let sources =
            [include_str!("error.rs"), include_str!("sparse/error.rs"), include_str!("quantized_group/error.rs")];
        let cited = sections(&sources.concat(), "ztensor.md §");
        assert!(cited.len() > 50, "{}", cited.len());
        for section in cited.iter().filter(|section| !section.is_empty()) {
            assert!(headings.contains(section), "§{section} is cited, but spec/ztensor.md has no such section");
        }
    }
}
