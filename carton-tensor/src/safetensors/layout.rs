//! Decides where tensors go in a file that is to be written (spec/safetensors.md §6). Pure: descriptions in, a header out.

use std::io::Write;

use super::header_json::Entry;
use super::string_table::StringTable;
use super::{Header, HeaderError, METADATA_KEY, Metadata, dtype, n_bytes};
use crate::MAX_RANK;
use crate::files::ElementType;

/// The header of a file with given tensors, and the order of their data.
#[derive(Clone, Debug)]
pub struct Layout {
    header: Header,
    order: Vec<usize>,
    bytes: Vec<u8>,
}

/// A tensor without a position in the file so far.
struct Planned<N, S> {
    name: N,
    dtype: ElementType,
    dtype_name: &'static str,
    rank: usize,
    shape: S,
    position: usize,
}

impl Layout {
    /// Lays out tensors, given as names, element types and shapes in any order, like the `safetensors` library: the widest dtype first,
    /// then by name.
    ///
    /// # Errors
    /// The rule that the file would break: [`HeaderError::DuplicateTensor`], [`HeaderError::NamedMetadata`],
    /// [`HeaderError::NoDtype`], [`HeaderError::TooManyDimensions`], [`HeaderError::Overflow`],
    /// [`HeaderError::PartialByte`], [`HeaderError::TooLong`].
    pub fn new<N: AsRef<str>, S: AsRef<[usize]>>(
        tensors: impl IntoIterator<Item = (N, ElementType, S)>,
        metadata: &Metadata,
    ) -> Result<Self, HeaderError> {
        let planned: Result<Vec<_>, _> = tensors.into_iter().enumerate().map(plan).collect();
        let mut planned = planned?;
        planned.sort_by(|a, b| (a.rank, a.name.as_ref()).cmp(&(b.rank, b.name.as_ref())));

        let mut header = Header::empty(metadata.clone());
        let mut json = vec![0; Header::PREFIX];
        json.push(b'{');
        if !metadata.is_absent() {
            write_metadata(&mut json, metadata)?;
        }
        for tensor in &planned {
            let name = tensor.name.as_ref();
            if json.last() != Some(&b'{') {
                json.push(b',');
            }
            let (begin, end) = header.append(name, tensor.dtype, tensor.shape.as_ref())?;
            write_string(&mut json, name)?;
            // Writing to a vector does not fail.
            let _ = write!(json, ":{{\"dtype\":\"{}\",\"shape\":[", tensor.dtype_name);
            for (axis, size) in tensor.shape.as_ref().iter().enumerate() {
                let separator = if axis == 0 { "" } else { "," };
                let _ = write!(json, "{separator}{size}");
            }
            let _ = write!(json, "],\"data_offsets\":[{begin},{end}]}}");
            check_length(&json)?;
        }
        json.push(b'}');
        json.resize(json.len().next_multiple_of(8), b' ');
        let length = check_length(&json)?;
        if let Some(prefix) = json.first_chunk_mut() {
            *prefix = length.to_le_bytes();
        }
        header.complete(json.len() as u64)?;
        Ok(Self { header, order: planned.into_iter().map(|tensor| tensor.position).collect(), bytes: json })
    }

    /// The tensors in the order of the file, with the ranges of their data.
    #[must_use]
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// For each tensor of the file, its position in the input of [`new`](Self::new).
    #[must_use]
    pub fn order(&self) -> &[usize] {
        &self.order
    }

    /// The bytes of the file before its data.
    #[must_use]
    pub fn header_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The size of the whole file, in bytes.
    #[must_use]
    pub fn file_length(&self) -> u64 {
        self.header.iter().next_back().map_or(self.header.data_start(), |last| last.range.end)
    }
}

fn plan<N: AsRef<str>, S: AsRef<[usize]>>(
    (position, (name, dtype, shape)): (usize, (N, ElementType, S)),
) -> Result<Planned<N, S>, HeaderError> {
    let tensor = || name.as_ref().to_owned();
    if name.as_ref() == METADATA_KEY {
        return Err(HeaderError::NamedMetadata);
    }
    let found = shape.as_ref().len();
    if found > MAX_RANK {
        return Err(HeaderError::TooManyDimensions { tensor: tensor(), found });
    }
    let Some((dtype_name, rank)) = dtype::name_and_rank(dtype) else {
        return Err(HeaderError::NoDtype { tensor: tensor(), dtype });
    };
    Ok(Planned { name, dtype, dtype_name, rank, shape, position })
}

fn write_metadata(json: &mut Vec<u8>, metadata: &Metadata) -> Result<(), HeaderError> {
    write_string(json, METADATA_KEY)?;
    json.extend(b":{");
    for (position, (key, value)) in metadata.iter().enumerate() {
        if position > 0 {
            json.push(b',');
        }
        write_string(json, key)?;
        json.push(b':');
        write_string(json, value)?;
    }
    json.push(b'}');
    Ok(())
}

fn write_string(json: &mut Vec<u8>, string: &str) -> Result<(), HeaderError> {
    serde_json::to_writer(json, string).map_err(|error| HeaderError::Json { problem: error.to_string() })
}

/// Checks and returns the present length of the header, which follows the prefix in `json`.
fn check_length(json: &[u8]) -> Result<u64, HeaderError> {
    let length = (json.len() - Header::PREFIX) as u64;
    if length > Header::MAX_LENGTH { Err(HeaderError::TooLong { length }) } else { Ok(length) }
}

impl Header {
    /// A header without tensors.
    fn empty(metadata: Metadata) -> Self {
        Self { entries: Vec::new(), names: StringTable::default(), dimensions: Vec::new(), metadata, data_start: 0 }
    }

    /// Adds a tensor after the others. Returns where its data begins and ends, relative to the end of the header.
    fn append(&mut self, name: &str, dtype: ElementType, shape: &[usize]) -> Result<(u64, u64), HeaderError> {
        let begin = self.entries.last().map_or(0, |entry| entry.end);
        let overflow = || HeaderError::Overflow { tensor: name.to_owned(), shape: shape.to_vec() };
        let n_bytes = n_bytes(dtype, shape, || name.to_owned())?;
        let end = begin.checked_add(n_bytes).ok_or_else(overflow)?;
        let entry = Entry::new(dtype, begin..end, self.dimensions.len(), shape.len());
        let too_long = HeaderError::TooLong { length: u64::from(u32::MAX) };
        self.names.push(name).ok_or_else(|| too_long.clone())?;
        self.entries.push(entry.ok_or(too_long)?);
        self.dimensions.extend(shape);
        Ok((begin, end))
    }

    /// Sets where the data starts, and builds the index of names.
    fn complete(&mut self, data_start: u64) -> Result<(), HeaderError> {
        self.data_start = data_start;
        if let Some(last) = self.entries.last()
            && last.end.checked_add(data_start).is_none()
        {
            let tensor = self.names.get(self.entries.len() - 1).to_owned();
            return Err(HeaderError::Overflow { tensor, shape: Vec::new() });
        }
        self.names
            .index()
            .map_err(|position| HeaderError::DuplicateTensor { tensor: self.names.get(position).to_owned() })
    }
}
