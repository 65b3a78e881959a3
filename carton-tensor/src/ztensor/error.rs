//! What can be wrong with a zTensor file, and with what is asked of one. What can be wrong inside an object of a format is beside that
//! format: `sparse/error.rs`, `quantized_group/error.rs`.

use std::io;
use std::path::PathBuf;

use super::DigestAlgorithm;
use super::bytes::Bytes;
use super::name::Name;
use super::place::Place;
use super::{QuantizedGroupError, SparseError};
use crate::files::{ElementType, RawTensorError};

/// A rule of the format that a file breaks, or a request that cannot be met.
///
/// Each rule has its own variant, whose text ends in the section of `spec/ztensor.md` that states it. Names that come from
/// a file are shown escaped and cut.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ZTensorError {
    /// The file cannot be opened.
    #[error("cannot open {path}", path = path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// Reading or writing failed.
    #[error("cannot read or write the file")]
    Io(#[from] io::Error),
    /// There is no memory for so many bytes.
    #[error("there is no memory for the {n_bytes} bytes of {at}")]
    Memory {
        /// What they are of.
        at: Box<Place>,
        /// How many.
        n_bytes: u64,
    },

    /// §1.1: too short for both magic numbers, a manifest and its size.
    #[error(
        "the file {}, expected at least {expected} bytes [spec/ztensor.md §1.1]",
        if *found == 0 { "is empty".to_owned() } else { format!("has {found} bytes") }
    )]
    TooShort {
        /// The file's size.
        found: u64,
        /// The size of the smallest file.
        expected: u64,
    },
    /// §1.1: another magic number.
    #[error(
        "the file {place} with `{found}`, expected `ZTEN1000`{} [spec/ztensor.md §1.1]",
        if *place == "ends" { ": it is truncated, or was changed" } else { "" },
        found = found.escape_ascii()
    )]
    Magic {
        /// "starts" or "ends".
        place: &'static str,
        /// The eight bytes.
        found: [u8; 8],
    },
    /// §1.1: a container of another version of zTensor.
    #[error("it is a file of zTensor {version}, which is another format: expected 1.1 or 1.2 [spec/ztensor.md §1.1]")]
    OtherVersion {
        /// The version.
        version: &'static str,
    },
    /// §1.2: a manifest of more than 1 GiB.
    #[error("the manifest claims {found} bytes, expected at most {limit} [spec/ztensor.md §1.2]")]
    ManifestSize {
        /// Its size.
        found: u64,
        /// The largest allowed.
        limit: u64,
    },
    /// §1.2: a manifest that would start before the blobs can.
    #[error("the manifest claims {found} bytes, but the file has room for {available} [spec/ztensor.md §1.2]")]
    ManifestBounds {
        /// Its size.
        found: u64,
        /// What lies between the magic number and the manifest's size.
        available: u64,
    },
    /// §1.3: a blob that starts between two multiples of 64.
    #[error("{at} starts at byte {offset}, expected a multiple of 64 [spec/ztensor.md §1.3]")]
    Unaligned {
        /// The component.
        at: Box<Place>,
        /// Where it starts.
        offset: u64,
    },
    /// §1.3: a blob over the magic number.
    #[error("{at} has {length} bytes from byte {offset} on, expected none before byte 64 [spec/ztensor.md §1.3]")]
    BeforeBlobs {
        /// The component.
        at: Box<Place>,
        /// Where it starts.
        offset: u64,
        /// Its size.
        length: u64,
    },
    /// §1.3: a blob that does not end before the manifest.
    #[error(
        "{at} has {length} bytes from byte {offset} on, expected them to end before the manifest at byte {limit} [spec/ztensor.md §1.3]"
    )]
    OutOfBounds {
        /// The component.
        at: Box<Place>,
        /// Where it starts.
        offset: u64,
        /// Its size.
        length: u64,
        /// Where the manifest starts.
        limit: u64,
    },
    /// §1.4: two components share some of their bytes, and not all.
    #[error("{second} starts at byte {offset}, inside {first}, and is not the same bytes [spec/ztensor.md §1.4]")]
    Overlap {
        /// The component that starts first.
        first: Box<Place>,
        /// The other one.
        second: Box<Place>,
        /// Where the other one starts.
        offset: u64,
    },

    /// §2.1: no CBOR.
    #[error("the manifest is no valid CBOR at byte {position} of the file: {problem} [spec/ztensor.md §2.1]")]
    Cbor {
        /// Where, counted from the start of the file.
        position: u64,
        /// What is wrong.
        problem: String,
    },
    /// §2.1: the CBOR ends before the manifest does.
    #[error("{n_bytes} bytes follow the manifest's map, at byte {position} of the file [spec/ztensor.md §2.1]")]
    TrailingCbor {
        /// Where the first of them is.
        position: u64,
        /// How many there are.
        n_bytes: u64,
    },
    /// §2.1: a map, array or string claims more items than there are bytes left.
    #[error(
        "at byte {position} of the file {claimed} items are claimed where {available} bytes are left [spec/ztensor.md §2.1]"
    )]
    ClaimedLength {
        /// Where.
        position: u64,
        /// The number claimed.
        claimed: u64,
        /// The bytes up to the end of the manifest.
        available: u64,
    },
    /// §2.1: maps in arrays in maps, and so on.
    #[error("values are nested more than {limit} deep at byte {position} of the file [spec/ztensor.md §2.1]")]
    Depth {
        /// Where.
        position: u64,
        /// The limit.
        limit: usize,
    },
    /// §2.1: a value of another type.
    #[error("at byte {position} of the file: expected {expected}, found {found} [spec/ztensor.md §2.1]")]
    WrongType {
        /// Where.
        position: u64,
        /// What belongs there.
        expected: &'static str,
        /// What is there.
        found: String,
    },
    /// §2.2: a key that a map has twice.
    #[error("the key {key} is there twice in {at} [spec/ztensor.md §2.2]")]
    DuplicateKey {
        /// Whose map it is.
        at: Box<Place>,
        /// The key.
        key: Name,
    },
    /// §2.3, §2.4, §2.5: a required field is not there.
    #[error("{at} has no field `{field}` [spec/ztensor.md §{}]", .at.section_of_fields())]
    MissingField {
        /// What lacks it.
        at: Box<Place>,
        /// The field.
        field: &'static str,
    },
    /// §2.3: a manifest of another major version, or of none.
    #[error("the manifest has version {found}, expected 1.x [spec/ztensor.md §2.3]")]
    ManifestVersion {
        /// The version.
        found: Name,
    },
    /// §2.4: more dimensions than any library takes.
    #[error("{at} has more than {limit} dimensions [spec/ztensor.md §2.4]")]
    Rank {
        /// The object.
        at: Box<Place>,
        /// The limit.
        limit: usize,
    },
    /// §2.4: a format's component is not there.
    #[error("{at}, whose format is `{format}`, has no component `{role}` [spec/ztensor.md §2.4]")]
    MissingComponent {
        /// The object.
        at: Box<Place>,
        /// Its format.
        format: &'static str,
        /// What it lacks.
        role: &'static str,
    },
    /// §2.6: more attributes than are decoded.
    #[error("the attributes of {at} have more than {limit} values [spec/ztensor.md §2.6]")]
    TooManyAttributes {
        /// Whose they are.
        at: Box<Place>,
        /// The limit.
        limit: usize,
    },

    /// §2.6: attributes that CBOR cannot say.
    #[error("the attributes of {at} cannot be written: {problem} [spec/ztensor.md §2.6]")]
    Attributes {
        /// Whose they are.
        at: Box<Place>,
        /// Why.
        problem: String,
    },

    /// §3.1: a storage type that is none.
    #[error("{at} has the unknown dtype {found} [spec/ztensor.md §3.1]")]
    UnknownDtype {
        /// The component.
        at: Box<Place>,
        /// Its dtype.
        found: Name,
    },
    /// §3.2: a logical type over the wrong storage type.
    #[error("{at} has type `{logical}` over dtype `{found}`, expected dtype `{expected}` [spec/ztensor.md §3.2]")]
    LogicalType {
        /// The component.
        at: Box<Place>,
        /// Its type.
        logical: ElementType,
        /// The dtype that goes with it.
        expected: ElementType,
        /// Its dtype.
        found: ElementType,
    },
    /// §3.4: a bool that is neither.
    #[error("{at} has the bool {found} at position {position}, expected 0 or 1 [spec/ztensor.md §3.4]")]
    Bool {
        /// The component.
        at: Box<Place>,
        /// Which element.
        position: usize,
        /// The byte.
        found: u8,
    },
    /// §3.5: a shape with more elements than can be counted.
    #[error("{at} has more elements, or bytes, than 64 bits can count [spec/ztensor.md §3.5]")]
    TooLarge {
        /// The object.
        at: Box<Place>,
    },
    /// §3.5: bytes that do not fill the shape.
    #[error("{at} has {found} bytes, expected {expected} for its shape and type [spec/ztensor.md §3.5]")]
    Size {
        /// The component.
        at: Box<Place>,
        /// The bytes that shape and type ask for.
        expected: u64,
        /// The bytes that it has.
        found: u64,
    },
    /// §3.5: bytes that are no whole number of elements.
    #[error("{at} has {found} bytes, expected a multiple of {size}, the size of its elements [spec/ztensor.md §3.5]")]
    PartialElement {
        /// The component.
        at: Box<Place>,
        /// The bytes that it has.
        found: u64,
        /// The size of an element.
        size: u64,
    },

    /// §4.1: an encoding that is none.
    #[error("{at} has the unknown encoding {found}, expected `raw` or `zstd` [spec/ztensor.md §4.1]")]
    UnknownEncoding {
        /// The component.
        at: Box<Place>,
        /// Its encoding.
        found: Name,
    },
    /// §4.1: `uncompressed_length` of what is not compressed.
    #[error("{at} is raw with {length} bytes, but has an uncompressed_length of {found} [spec/ztensor.md §4.1]")]
    UncompressedLength {
        /// The component.
        at: Box<Place>,
        /// Its size.
        length: u64,
        /// The other size.
        found: u64,
    },
    /// §4.2: what claims to be zstd is not.
    #[error("{at} is no valid zstd [spec/ztensor.md §4.2]")]
    Zstd {
        /// The component.
        at: Box<Place>,
        /// What the decoder says.
        #[source]
        source: io::Error,
    },
    /// §4.2: decompressed, it has another size.
    #[error("{at} decompresses to {found} bytes, expected {expected} [spec/ztensor.md §4.2]")]
    DecompressedSize {
        /// The component.
        at: Box<Place>,
        /// The size that the manifest tells.
        expected: u64,
        /// How many bytes there are.
        found: Bytes,
    },
    /// §4.2: no zstd frame of this size holds so much.
    #[error(
        "{at} claims {claimed} bytes in {length} bytes of zstd, which can hold {limit} at most [spec/ztensor.md §4.2]"
    )]
    CompressionRatio {
        /// The component.
        at: Box<Place>,
        /// The size that the manifest tells.
        claimed: u64,
        /// The compressed size.
        length: u64,
        /// What that can hold.
        limit: u64,
    },
    /// §4.2: nothing tells its size, and there is no end of it.
    #[error(
        "{at} does not say its uncompressed size, and decompresses to more than {limit} bytes [spec/ztensor.md §4.2]"
    )]
    UndeclaredSize {
        /// The component.
        at: Box<Place>,
        /// The most that is decompressed then.
        limit: u64,
    },
    /// §4.3: the digest is of other bytes.
    #[error("digest mismatch for {at}: expected {expected}, found {found} [spec/ztensor.md §4.3]")]
    DigestMismatch {
        /// The component.
        at: Box<Place>,
        /// What the manifest says.
        expected: String,
        /// What the bytes have.
        found: String,
    },
    /// §4.3: a digest by an algorithm that is not known, where it was to be verified.
    #[error("{at} has the digest {found}, which cannot be verified: expected sha256 or crc32c [spec/ztensor.md §4.3]")]
    UnknownDigest {
        /// The component.
        at: Box<Place>,
        /// The digest.
        found: Name,
    },
    /// §4.3: a digest of the wrong length, or with letters that are no digits.
    #[error("{at} has the digest {found}, which is no {algorithm} [spec/ztensor.md §4.3]")]
    MalformedDigest {
        /// The component.
        at: Box<Place>,
        /// The digest.
        found: Name,
        /// What it claims to be.
        algorithm: DigestAlgorithm,
    },
    /// §4.3: no digest where one was asked for.
    #[error("{at} has no digest that could be verified [spec/ztensor.md §4.3]")]
    NoDigest {
        /// The component.
        at: Box<Place>,
    },

    /// §5: read as another format than it has.
    #[error("{at} has the format {found}, expected `{expected}` [spec/ztensor.md §5]")]
    WrongFormat {
        /// The object.
        at: Box<Place>,
        /// What it was read as.
        expected: &'static str,
        /// Its format.
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
        /// The name asked for.
        name: Name,
    },
    /// The object has no such component.
    #[error("there is no {at}")]
    NoSuchComponent {
        /// The component asked for.
        at: Box<Place>,
    },
    /// The bytes do not make a tensor.
    #[error("{at} cannot be read as a tensor")]
    Tensor {
        /// The object.
        at: Box<Place>,
        /// Why.
        #[source]
        source: RawTensorError,
    },
    /// §6.1: an object of this name was written already.
    #[error("an object {name} was written already [spec/ztensor.md §6.1]")]
    DuplicateName {
        /// The name.
        name: Name,
    },
    /// §6.2: this version of the format cannot say it.
    #[error("version {version} of the format has no {what}; write version 1.2 [spec/ztensor.md §6.2]")]
    NotInVersion {
        /// The version being written.
        version: &'static str,
        /// What it lacks.
        what: String,
    },
    /// §6.1: the writer stopped in the middle of a blob, and cannot go on.
    #[error("an earlier write failed, and the file cannot be continued [spec/ztensor.md §6.1]")]
    Unfinished,
    /// §6.3: somebody else has the file open for appending.
    #[error("{path} is being appended to by somebody else [spec/ztensor.md §6.3]", path = path.display())]
    Locked {
        /// The file.
        path: PathBuf,
    },
}

impl ZTensorError {
    /// Whether the file breaks a rule of the format, or is of another format. What is only too large or too odd for this library breaks
    /// none.
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
            | Self::Locked { .. } => false,
            _ => true,
        }
    }

    /// Whether it is what the file holds that is wrong, and not that it could not be read or has not what was asked for.
    #[cfg(feature = "weights")]
    pub(crate) fn is_about_content(&self) -> bool {
        !matches!(
            self,
            Self::Open { .. }
                | Self::Io(_)
                | Self::Memory { .. }
                | Self::NoSuchObject { .. }
                | Self::NoSuchComponent { .. }
                | Self::Unfinished
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
