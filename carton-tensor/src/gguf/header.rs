//! Reads the header of a file: its metadata, its tensors and where their data is (spec/gguf.md §1 to §4).

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ops::Range;

use super::cursor::{Cursor, Failed};
use super::value::{KEPT_OF_ALL, Value, read};
use super::{GgmlType, HeaderError};
use crate::files::FileBytes;

/// The key of the alignment.
const ALIGNMENT: &str = "general.alignment";
/// The alignment of a file that does not state one.
const DEFAULT_ALIGNMENT: u64 = 32;
/// The longest key or name, in bytes.
const MAX_NAME: u64 = 65_535;
/// The most dimensions that ggml allows.
const MAX_DIMENSIONS: u32 = 4;
/// The fewest bytes of a key and its value: a length, a character, a type, and a value.
const LEAST_PAIR: u64 = 8 + 1 + 4 + 1;
/// The fewest bytes that describe a tensor: the length of its name, the number of dimensions, a type and an offset.
const LEAST_TENSOR: u64 = 8 + 4 + 4 + 8;

/// The validated header of a file. The data of each tensor is inside of the file, and no two share a byte.
#[derive(Clone, Debug)]
pub struct Header {
    version: u32,
    metadata: Vec<(String, Value)>,
    value_ranges: Vec<Range<u64>>,
    /// Positions by key, and by name. The hashes have random keys, because the author of a file chooses the names.
    keys: HashMap<String, usize>,
    tensors: Vec<TensorInfo>,
    names: HashMap<String, usize>,
    data_start: u64,
}

/// A tensor as the header describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorInfo {
    /// The name.
    pub name: String,
    /// How its elements are stored.
    pub ggml_type: GgmlType,
    /// The dimensions in C order, as NumPy has them: the last one is that of a row. The file has them the other way round.
    pub shape: Vec<usize>,
    /// The range of the data in the file, in bytes.
    pub range: Range<u64>,
}

impl Header {
    /// Reads the header of a file, and nothing else of it.
    pub(super) fn read(bytes: &FileBytes) -> Result<Self, Failed> {
        let mut cursor = Cursor::new(bytes);
        let version = read_version(&mut cursor)?;
        let n_tensors = cursor.count("tensors", LEAST_TENSOR)?;
        let n_pairs = cursor.count("keys", LEAST_PAIR)?;
        let Metadata { pairs: metadata, value_ranges, keys } = read_metadata(&mut cursor, n_pairs)?;
        let alignment = alignment(keys.get(ALIGNMENT).and_then(|&position| metadata.get(position)))?;
        let mut tensors = Vec::new();
        let mut names = HashMap::new();
        for position in 0..n_tensors {
            let at = cursor.position();
            let tensor = read_tensor(&mut cursor, alignment)?;
            match names.entry(tensor.name.clone()) {
                Entry::Vacant(place) => place.insert(position as usize),
                Entry::Occupied(_) => return Err(HeaderError::DuplicateTensor { at, tensor: tensor.name }.into()),
            };
            tensors.push(tensor);
        }
        // The header is inside of the file, so that this cannot overflow.
        let data_start = cursor.position().next_multiple_of(alignment);
        for tensor in &mut tensors {
            place(tensor, data_start, bytes.len())?;
        }
        check_disjoint(&tensors)?;
        Ok(Self { version, metadata, value_ranges, keys, tensors, names, data_start })
    }

    /// The version of the format, 2 or 3.
    #[must_use]
    pub fn version(&self) -> u32 {
        self.version
    }

    /// The keys and their values, in the order of the file.
    #[must_use]
    pub fn metadata(&self) -> &[(String, Value)] {
        &self.metadata
    }

    /// Where each value of [`metadata`](Self::metadata) is in the file, the number of its type first.
    #[must_use]
    pub fn value_ranges(&self) -> &[Range<u64>] {
        &self.value_ranges
    }

    /// The value of a key.
    #[must_use]
    pub fn value(&self, key: &str) -> Option<&Value> {
        self.keys.get(key).and_then(|&position| self.metadata.get(position)).map(|(_, value)| value)
    }

    /// The tensors, in the order of the header.
    #[must_use]
    pub fn tensors(&self) -> &[TensorInfo] {
        &self.tensors
    }

    /// Returns the tensor of this name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&TensorInfo> {
        self.names.get(name).and_then(|&position| self.tensors.get(position))
    }

    /// Where the data section begins.
    #[must_use]
    pub fn data_start(&self) -> u64 {
        self.data_start
    }
}

fn read_version(cursor: &mut Cursor<'_>) -> Result<u32, Failed> {
    let magic: [u8; 4] = cursor.array("the magic number")?;
    if magic != *b"GGUF" {
        return Err(HeaderError::Magic { found: magic }.into());
    }
    match u32::from_le_bytes(cursor.array("the version")?) {
        version @ (2 | 3) => Ok(version),
        // No version is as large as one of the other byte order looks.
        found if found != 0 && found & 0xffff == 0 => Err(HeaderError::BigEndian { found }.into()),
        found => Err(HeaderError::Version { found }.into()),
    }
}

struct Metadata {
    pairs: Vec<(String, Value)>,
    value_ranges: Vec<Range<u64>>,
    keys: HashMap<String, usize>,
}

fn read_metadata(cursor: &mut Cursor<'_>, n_pairs: u64) -> Result<Metadata, Failed> {
    let (mut pairs, mut value_ranges, mut keys) = (Vec::new(), Vec::new(), HashMap::new());
    let mut left = KEPT_OF_ALL;
    for _ in 0..n_pairs {
        let at = cursor.position();
        let key = read_name(cursor, "a key")?;
        if key.is_empty() {
            return Err(HeaderError::EmptyKey { at }.into());
        }
        match keys.entry(key.clone()) {
            Entry::Vacant(place) => place.insert(pairs.len()),
            Entry::Occupied(_) => return Err(HeaderError::DuplicateKey { at, key }.into()),
        };
        let start = cursor.position();
        let value = read(cursor, &key, &mut left)?;
        value_ranges.push(start..cursor.position());
        pairs.push((key, value));
    }
    Ok(Metadata { pairs, value_ranges, keys })
}

fn read_name(cursor: &mut Cursor<'_>, what: &'static str) -> Result<String, Failed> {
    let at = cursor.position();
    let name = cursor.counted(what, MAX_NAME)?.to_vec();
    let invalid = |error: std::string::FromUtf8Error| HeaderError::NotUtf8 { at, what, found: error.into_bytes() };
    Ok(String::from_utf8(name).map_err(invalid)?)
}

/// Returns the alignment that a file states.
fn alignment(stated: Option<&(String, Value)>) -> Result<u64, HeaderError> {
    let wrong = |found: String| HeaderError::WrongValue {
        key: ALIGNMENT.to_owned(),
        found,
        expected: "a power of two, as an unsigned integer of 32 bits",
        section: "3",
    };
    match stated {
        None => Ok(DEFAULT_ALIGNMENT),
        Some((_, Value::Unsigned(alignment))) if alignment.is_power_of_two() && *alignment <= u32::MAX.into() => {
            Ok(*alignment)
        }
        Some((_, Value::Unsigned(found))) => Err(wrong(found.to_string())),
        Some((_, Value::Signed(found))) => Err(wrong(format!("the signed integer {found}"))),
        Some(_) => Err(wrong("no integer".to_owned())),
    }
}

/// Reads the description of a tensor. Its range is relative to the data section.
fn read_tensor(cursor: &mut Cursor<'_>, alignment: u64) -> Result<TensorInfo, Failed> {
    let at = cursor.position();
    let name = read_name(cursor, "the name of a tensor")?;
    let at_dimensions = cursor.position();
    let found = u32::from_le_bytes(cursor.array("the number of dimensions")?);
    if found > MAX_DIMENSIONS {
        let most = MAX_DIMENSIONS;
        return Err(HeaderError::TooManyDimensions { at: at_dimensions, tensor: name, found, most }.into());
    }
    let mut dimensions = Vec::new();
    for _ in 0..found {
        dimensions.push(u64::from_le_bytes(cursor.array("a dimension")?));
    }
    let at_type = cursor.position();
    let found = u32::from_le_bytes(cursor.array("the type of a tensor")?);
    let Some(ggml_type) = GgmlType::of_id(found) else {
        return Err(HeaderError::UnknownType { at: at_type, tensor: name, found }.into());
    };
    let at_offset = cursor.position();
    let offset = u64::from_le_bytes(cursor.array("the offset of a tensor")?);
    if !offset.is_multiple_of(alignment) {
        return Err(HeaderError::Misaligned { at: at_offset, tensor: name, found: offset, alignment }.into());
    }
    let (elements, bytes) = ggml_type.block();
    let row = dimensions.first().copied().unwrap_or(1);
    if !row.is_multiple_of(elements as u64) {
        return Err(HeaderError::PartialBlock { at, tensor: name, of: ggml_type, found: row }.into());
    }
    let is_empty = dimensions.contains(&0);
    let n_bytes = dimensions
        .iter()
        // The sizes of a tensor without elements are multiplied elsewhere too.
        .try_fold(1_u64, |product, &size| product.checked_mul(size.max(1)))
        // Whole blocks, because rows consist of them. The numbers of all elements must be addressable as well.
        .filter(|&n_elements| n_elements <= (isize::MAX as u64) / 8)
        .map(|n_elements| if is_empty { 0 } else { n_elements })
        .and_then(|n_elements| (n_elements / elements as u64).checked_mul(bytes as u64));
    let shape = dimensions.iter().rev().map(|&size| usize::try_from(size)).collect::<Result<Vec<_>, _>>();
    let (Some(n_bytes), Ok(shape)) = (n_bytes, shape) else {
        return Err(HeaderError::Overflow { at, tensor: name, dimensions }.into());
    };
    // Saturated, the range ends outside of any file.
    Ok(TensorInfo { name, ggml_type, shape, range: offset..offset.saturating_add(n_bytes) })
}

/// Makes the range of a tensor one of the file.
fn place(tensor: &mut TensorInfo, data_start: u64, file_length: u64) -> Result<(), HeaderError> {
    let needed = tensor.range.end - tensor.range.start;
    let start = tensor.range.start.saturating_add(data_start);
    match start.checked_add(needed).filter(|end| *end <= file_length) {
        Some(end) => {
            tensor.range = start..end;
            Ok(())
        }
        // Padding may be missing before data that has no bytes.
        None if needed == 0 => {
            tensor.range = file_length..file_length;
            Ok(())
        }
        None => Err(HeaderError::DataPastTheEnd { tensor: tensor.name.clone(), start, needed, file_length }),
    }
}

fn check_disjoint(tensors: &[TensorInfo]) -> Result<(), HeaderError> {
    let mut with_data: Vec<&TensorInfo> = tensors.iter().filter(|tensor| !tensor.range.is_empty()).collect();
    with_data.sort_by_key(|tensor| tensor.range.start);
    for (first, second) in with_data.iter().zip(with_data.iter().skip(1)) {
        if second.range.start < first.range.end {
            return Err(HeaderError::Overlap {
                first: first.name.clone(),
                end: first.range.end,
                second: second.name.clone(),
                start: second.range.start,
            });
        }
    }
    Ok(())
}
