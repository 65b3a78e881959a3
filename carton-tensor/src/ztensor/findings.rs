//! Finds violations of the version that a file states which do not prevent reading it (spec/ztensor.md §2.7). The fields that are
//! present, never the version, determine what is read.

use std::fmt;
use std::ops::Range;

use super::manifest::{Component, Encoding, Format, Manifest, Object};
use super::name::Name;
use super::place::FilePart;
use super::version::minor;
use super::{MAGIC, Reader, ZTensorError, types};
use crate::files::ElementType;

/// A rule of the stated version that the file breaks, and where. The file is not damaged, because everything needed to read it is
/// there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    rule: VersionRule,
    /// The version, as the manifest states it.
    version: Name,
    /// The number of violations.
    count: usize,
    first: First,
}

/// A rule of a version that a reader does not depend on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum VersionRule {
    /// §1.5: gaps between blobs must be zeros.
    Padding,
    /// §2.5: version 1.1 has no field `type`.
    NoLogicalType,
    /// §2.5: version 1.1 has no field `uncompressed_length`.
    NoUncompressedLength,
    /// §3.1: from version 1.2 on there are only thirteen storage types.
    StorageType,
    /// §4.2: from version 1.2 on zstd components must have an `uncompressed_length`.
    UncompressedLength,
    /// §5.1: from version 1.2 on indices must be `u64`.
    IndexType,
    /// §5.4: from version 1.2 on quantized groups must have `bits`, `group_size` and `packing`.
    GroupAttributes,
}

/// The first violation of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
enum First {
    FilePart(Box<FilePart>),
    /// The position of a byte in the file.
    Byte(u64),
}

impl Finding {
    /// The rule that the file breaks.
    #[must_use]
    pub fn rule(&self) -> VersionRule {
        self.rule
    }

    /// The number of components, objects or gaps that break the rule.
    #[must_use]
    pub fn count(&self) -> usize {
        self.count
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.first {
            First::FilePart(place) => write!(f, "{place}")?,
            First::Byte(byte) => write!(f, "the gap with byte {byte}")?,
        }
        if self.count > 1 {
            write!(f, " and {} more", self.count - 1)?;
        }
        let version = &self.version;
        let (before, after, section) = match self.rule {
            VersionRule::Padding => ("not zeros, which version", "asks for", "1.5"),
            VersionRule::NoLogicalType => {
                ("with the field `type`, which version", "does not have: its readers see the dtype alone", "2.5")
            }
            VersionRule::NoUncompressedLength => {
                ("with the field `uncompressed_length`, which version", "does not have", "2.5")
            }
            VersionRule::StorageType => ("with a dtype of version 1.1, which version", "does not have", "3.1"),
            VersionRule::UncompressedLength => ("zstd without `uncompressed_length`, which version", "asks for", "4.2"),
            VersionRule::IndexType => ("indices of another type than u64, which version", "asks for", "5.1"),
            VersionRule::GroupAttributes => {
                ("without `bits`, `group_size` or `packing`, which version", "asks for", "5.4")
            }
        };
        write!(f, ": {before} {version} {after} [spec/ztensor.md §{section}]")
    }
}

/// The rules that a stated version selects.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stated {
    /// Version 1.1 or earlier.
    Old,
    /// Version 1.2 or later; later versions only add rules.
    New,
    /// The version has no valid minor number.
    Nothing,
}

impl Stated {
    fn by(version: &str) -> Self {
        match minor(version) {
            Some(..=1) => Self::Old,
            Some(_) => Self::New,
            None => Self::Nothing,
        }
    }
}

/// Collects findings by rule.
#[derive(Default)]
struct Findings(Vec<Finding>);

impl Findings {
    fn add(&mut self, manifest: &Manifest, rule: VersionRule, first: impl FnOnce() -> First) {
        match self.0.iter_mut().find(|finding| finding.rule == rule) {
            Some(finding) => finding.count += 1,
            None => {
                let version = Name::new(manifest.version());
                self.0.push(Finding { rule, version, count: 1, first: first() });
            }
        }
    }
}

impl Manifest {
    /// Returns the rules of the stated version that the manifest breaks, each once.
    #[must_use]
    pub fn findings(&self) -> Vec<Finding> {
        let mut findings = Findings::default();
        let stated = Stated::by(self.version());
        for object in self.objects() {
            for component in object.components() {
                let broken = match stated {
                    Stated::Old => old_rules(&component),
                    Stated::New => new_rules(&object, &component),
                    Stated::Nothing => [None; 3],
                };
                for rule in broken.into_iter().flatten() {
                    findings.add(self, rule, || First::FilePart(component.place()));
                }
            }
            if stated == Stated::New && lacks_attributes(&object) {
                findings.add(self, VersionRule::GroupAttributes, || First::FilePart(object.place()));
            }
        }
        findings.0.sort_by_key(|finding| finding.rule);
        findings.0
    }

    /// Returns the ranges of bytes before the manifest that are in no blob.
    fn gaps(&self, blobs_end: u64) -> Vec<Range<u64>> {
        let mut blobs: Vec<Range<u64>> = self
            .components
            .iter()
            .filter(|entry| entry.length > 0)
            .map(|entry| entry.offset..entry.offset.saturating_add(entry.length))
            .collect();
        blobs.sort_by_key(|blob| (blob.start, blob.end));
        let mut gaps = Vec::new();
        let mut end = MAGIC.len() as u64;
        for blob in blobs {
            if blob.start > end {
                gaps.push(end..blob.start);
            }
            end = blob.end.max(end);
        }
        if blobs_end > end {
            gaps.push(end..blobs_end);
        }
        gaps
    }
}

fn old_rules(component: &Component<'_>) -> [Option<VersionRule>; 3] {
    let has_type = component.unknown_type().is_some() || component.has_logical_type();
    let has_length = component.uncompressed_length().is_some();
    [has_type.then_some(VersionRule::NoLogicalType), has_length.then_some(VersionRule::NoUncompressedLength), None]
}

fn new_rules(object: &Object<'_>, component: &Component<'_>) -> [Option<VersionRule>; 3] {
    let is_old_type = types::storage_type(component.dtype()) != component.dtype();
    let lacks_length = component.encoding() == Encoding::Zstd && component.uncompressed_length().is_none();
    let is_index = match object.format() {
        Format::SparseCsr => matches!(component.role(), "indices" | "indptr"),
        Format::SparseCoo => component.role() == "coords",
        _ => false,
    };
    let is_narrow = is_index && component.dtype() != ElementType::Uint64;
    [
        is_old_type.then_some(VersionRule::StorageType),
        lacks_length.then_some(VersionRule::UncompressedLength),
        is_narrow.then_some(VersionRule::IndexType),
    ]
}

/// Whether a quantized group lacks attributes that describe its packing. Attributes that cannot be decoded are reported as another
/// error.
fn lacks_attributes(object: &Object<'_>) -> bool {
    object.format() == Format::QuantizedGroup
        && object.attributes().is_ok_and(|attributes| {
            ["bits", "group_size", "packing"].iter().any(|attribute| !attributes.contains_key(*attribute))
        })
}

/// The bytes of a gap that are read at once.
const PIECE: usize = 1 << 16;

impl Reader {
    /// Returns the rules of the stated version that the file breaks, each once. These are the rules of [`Manifest::findings`], and that
    /// of gaps, for which the bytes of all gaps are read.
    ///
    /// # Errors
    /// [`Io`](ZTensorError::Io).
    pub fn findings(&self) -> Result<Vec<Finding>, ZTensorError> {
        let mut findings = Findings::default();
        let mut buffer = vec![0; PIECE];
        for gap in self.manifest().gaps(self.blobs_end()) {
            if let Some(byte) = self.first_of_padding(gap, &mut buffer)? {
                findings.add(self.manifest(), VersionRule::Padding, || First::Byte(byte));
            }
        }
        findings.0.extend(self.manifest().findings());
        Ok(findings.0)
    }

    /// Returns the position of the first byte in a range that is not zero.
    fn first_of_padding(&self, gap: Range<u64>, buffer: &mut [u8]) -> Result<Option<u64>, ZTensorError> {
        let mut offset = gap.start;
        while offset < gap.end {
            let n_bytes = (gap.end - offset).min(PIECE as u64);
            let piece = buffer.get_mut(..n_bytes as usize).unwrap_or_default();
            self.bytes().read_into(offset, piece)?;
            if let Some(position) = piece.iter().position(|&byte| byte != 0) {
                return Ok(Some(offset + position as u64));
            }
            offset += n_bytes;
        }
        Ok(None)
    }
}
