//! What a container has, whichever it is: tensors by their names, and where the storages of their elements are.

use std::collections::HashMap;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};

use super::error::{Problem, malformed, quoted};
use super::names::{LeftOut, Named};
use super::rebuild::n_bytes;
use super::strides::extent;
use super::values::TensorParts;
use crate::files::{ElementType, FileBytes};

/// A tensor of a checkpoint, without its data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorInfo {
    pub(super) name: Arc<str>,
    /// Shared by all names of the tensor.
    pub(super) parts: Arc<TensorParts>,
    pub(super) n_bytes: u64,
}

impl TensorInfo {
    /// The keys and positions by which the tensor is reached, joined by `.` (spec/torch.md §4).
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The type of the elements.
    #[must_use]
    pub fn dtype(&self) -> ElementType {
        self.parts.dtype
    }

    /// The dimensions.
    #[must_use]
    pub fn shape(&self) -> &[usize] {
        &self.parts.shape
    }

    /// The bytes of the storage from the first element to the last, as far as they are fewer than those of all elements.
    #[must_use]
    pub fn stored_bytes(&self) -> u64 {
        let extent = extent(&self.parts.shape, &self.parts.strides);
        let extent = extent.and_then(|n_elements| n_elements.checked_mul(width(self.parts.dtype) as u64));
        extent.map_or(self.n_bytes, |extent| extent.min(self.n_bytes))
    }

    /// The bytes of all elements. A tensor that repeats elements of its storage has more than are stored.
    #[must_use]
    pub fn n_bytes(&self) -> u64 {
        self.n_bytes
    }
}

impl TensorInfo {
    /// The same elements, without the dimensions along which they repeat.
    pub(super) fn once(&self) -> Self {
        let mut parts = TensorParts::clone(&self.parts);
        for (size, stride) in parts.shape.iter_mut().zip(&parts.strides) {
            *size = if *stride == 0 { (*size).min(1) } else { *size };
        }
        let n_bytes = n_bytes(parts.dtype, &parts.shape).unwrap_or(self.n_bytes);
        Self { name: Arc::clone(&self.name), parts: Arc::new(parts), n_bytes }
    }
}

/// What a container has.
#[derive(Debug)]
pub(super) struct Contents {
    pub(super) tensors: Vec<TensorInfo>,
    pub(super) positions: HashMap<Arc<str>, usize>,
    pub(super) storages: Vec<Storage>,
    pub(super) left_out: LeftOut,
}

impl Contents {
    pub(super) fn new(names: Named, tensors: Vec<TensorParts>, storages: Vec<Storage>, left_out: LeftOut) -> Self {
        let tensors: Vec<Arc<TensorParts>> = tensors.into_iter().map(Arc::new).collect();
        let named = names.into_iter().filter_map(|(name, position)| {
            let parts = Arc::clone(tensors.get(position)?);
            Some(TensorInfo { name, n_bytes: n_bytes(parts.dtype, &parts.shape)?, parts })
        });
        let tensors: Vec<TensorInfo> = named.collect();
        let positions = tensors.iter().enumerate().map(|(position, info)| (Arc::clone(&info.name), position)).collect();
        Self { tensors, positions, storages, left_out }
    }
}

/// A storage: bytes that tensors share.
#[derive(Debug)]
pub(super) struct Storage {
    pub(super) n_bytes: u64,
    pub(super) place: Place,
    /// Where it begins, once that is known.
    start: OnceLock<u64>,
    /// Whether its checksum was compared.
    pub(super) is_checked: AtomicBool,
}

/// Where a storage is.
#[derive(Clone, Debug)]
pub(super) enum Place {
    /// At this byte of the file.
    At(u64),
    /// In an entry of an archive, whose local header says where it begins.
    Entry { position: usize, header_start: u64, name: Vec<u8> },
}

impl Clone for Storage {
    fn clone(&self) -> Self {
        Self::new(self.n_bytes, self.place.clone())
    }
}

impl Storage {
    pub(super) fn new(n_bytes: u64, place: Place) -> Self {
        Self { n_bytes, place, start: OnceLock::new(), is_checked: AtomicBool::new(false) }
    }

    /// Returns where the bytes begin. All of them are in the file.
    pub(super) fn start(&self, bytes: &FileBytes) -> Result<u64, Problem> {
        if let Some(start) = self.start.get() {
            return Ok(*start);
        }
        let start = match &self.place {
            Place::At(start) => *start,
            Place::Entry { header_start, name, .. } => data_start(bytes, *header_start, name, self.n_bytes)?,
        };
        Ok(*self.start.get_or_init(|| start))
    }
}

/// The little-endian number of as many bytes.
pub(super) fn number(record: &[u8], at: usize, length: usize) -> Option<u64> {
    let bytes = record.get(at..at.checked_add(length)?)?;
    Some(bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)))
}

/// Returns where the data of an entry begins, from its local header, which must have the same name.
fn data_start(bytes: &FileBytes, header_start: u64, name: &[u8], n_bytes: u64) -> Result<u64, Problem> {
    const HEADER: usize = 30;
    let shown = || quoted(&String::from_utf8_lossy(name)).to_string();
    let outside = || Problem::Malformed(format!("entry {} of its archive is not inside of the file", shown()));
    let length = (HEADER + name.len()) as u64;
    let end = header_start.checked_add(length).filter(|end| *end <= bytes.len()).ok_or_else(outside)?;
    let header = bytes.read(header_start..end)?;
    let [name_length, extra] = [26, 28].map(|at| number(&header, at, 2).unwrap_or_default());
    let is_same =
        header.starts_with(b"PK\x03\x04") && name_length == name.len() as u64 && header.get(HEADER..) == Some(name);
    if !is_same {
        return malformed(format!("entry {} of its archive has no header of this name where it should be", shown()));
    }
    let start = end.saturating_add(extra);
    if start.checked_add(n_bytes).is_none_or(|end| end > bytes.len()) { Err(outside()) } else { Ok(start) }
}

/// The bytes of an element. PyTorch has no types of less than one.
pub(super) fn width(dtype: ElementType) -> usize {
    dtype.bits() / 8
}
