//! The header of a file that is written (spec/gguf.md §6): what a file can hold is checked before a byte of it exists.

use std::collections::BTreeSet;
use std::io;

use super::value::MAX_TEXT;
use super::{EncodedValue, GgmlType};
use crate::element_count;
use crate::files::quoted;

/// The version that is written.
const VERSION: u32 = 3;
/// The key of the alignment, and the alignment without it.
const ALIGNMENT: (&str, u32) = ("general.alignment", 32);
/// The largest alignment that is written. Each tensor is followed by less than that many bytes that say nothing.
const MAX_ALIGNMENT: u32 = 1 << 16;
/// The longest name of a tensor, in bytes: ggml refuses longer ones.
const MAX_NAME: usize = 63;
/// The most dimensions that ggml allows.
const MAX_DIMENSIONS: usize = 4;
/// The longest key, and the longest header, that are read again (spec/gguf.md §1, §2).
const MAX_KEY: usize = 65_535;
const MAX_HEADER: u64 = 512 << 20;

/// Why a file cannot hold a tensor.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TensorProblem {
    /// The name is longer than ggml reads.
    #[error("whose name has {found} bytes: ggml reads at most {MAX_NAME} (spec/gguf.md §6.1)")]
    LongName {
        /// The length.
        found: usize,
    },
    /// ggml would read the name only up to a NUL.
    #[error("whose name has a character NUL, at which ggml ends it (spec/gguf.md §6.1)")]
    NulInName,
    /// There are more dimensions than ggml allows.
    #[error("of {found} dimensions: ggml has at most {MAX_DIMENSIONS} (spec/gguf.md §6.1)")]
    Dimensions {
        /// Their number.
        found: usize,
    },
    /// There are no elements.
    #[error("of the shape {shape:?}, which has no elements (spec/gguf.md §6.1)")]
    Empty {
        /// The shape.
        shape: Vec<usize>,
    },
    /// There are more elements than can be addressed.
    #[error("of the shape {shape:?}, which is more than can be addressed (spec/gguf.md §3)")]
    Overflow {
        /// The shape.
        shape: Vec<usize>,
    },
    /// A row does not consist of whole blocks.
    #[error("in rows of {found} elements, no multiple of the {} of a block of {of} (spec/gguf.md §4)", .of.block_elements())]
    PartialBlock {
        /// The type.
        of: GgmlType,
        /// The elements of a row.
        found: usize,
    },
}

/// Checks that a file can hold a tensor of this name, type and shape, and returns the number of its bytes.
///
/// # Errors
/// [`TensorProblem`].
pub fn check_tensor(name: &str, of: GgmlType, shape: &[usize]) -> Result<u64, TensorProblem> {
    if name.len() > MAX_NAME {
        return Err(TensorProblem::LongName { found: name.len() });
    }
    if name.contains('\0') {
        return Err(TensorProblem::NulInName);
    }
    if shape.len() > MAX_DIMENSIONS {
        return Err(TensorProblem::Dimensions { found: shape.len() });
    }
    if shape.contains(&0) {
        return Err(TensorProblem::Empty { shape: shape.to_vec() });
    }
    let (elements, bytes) = of.block();
    let row = shape.last().copied().unwrap_or(1);
    if !row.is_multiple_of(elements) {
        return Err(TensorProblem::PartialBlock { of, found: row });
    }
    let n_elements = element_count(shape).map(|count| count as u64).filter(|count| *count <= (isize::MAX as u64) / 8);
    let n_bytes = n_elements.and_then(|count| (count / elements as u64).checked_mul(bytes as u64));
    n_bytes.ok_or_else(|| TensorProblem::Overflow { shape: shape.to_vec() })
}

/// Why a file cannot be written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WriteError {
    /// The operating system refused to write.
    #[error("cannot write a GGUF file")]
    Io(#[from] io::Error),
    /// A value of another file cannot be read.
    #[error("cannot read the value of {}", quoted(.key))]
    Value {
        /// Its key.
        key: String,
        /// The error of the operating system.
        #[source]
        source: io::Error,
    },
    /// The file cannot hold a tensor.
    #[error("a GGUF file cannot hold tensor {}, {problem}", quoted(.name))]
    Tensor {
        /// Its name.
        name: String,
        /// The reason.
        problem: TensorProblem,
    },
    /// Two tensors, or two keys, have one name.
    #[error("two {what} of a GGUF file would be called {} (spec/gguf.md §2, §3)", quoted(.name))]
    Twice {
        /// What they are.
        what: &'static str,
        /// The name.
        name: String,
    },
    /// The file cannot hold a value of the metadata.
    #[error("a GGUF file cannot hold {} in its metadata: {problem}", quoted(.key))]
    Metadata {
        /// The key.
        key: String,
        /// The reason.
        problem: String,
    },
    /// The header would be longer than those that are read.
    #[error("the header of the GGUF file would have {found} bytes, expected at most {MAX_HEADER} (spec/gguf.md §1)")]
    Header {
        /// The length.
        found: u64,
    },
    /// The tensors are not written as they were described: a bug of the caller.
    #[error("tensor {} of a GGUF file is not written as it was described", quoted(.name))]
    Sequence {
        /// The tensor that is expected.
        name: String,
    },
}

/// What a file will have: its metadata, its tensors and where they are.
#[derive(Clone, Debug)]
pub struct Layout {
    metadata: Vec<(String, EncodedValue)>,
    /// The tensors, each with the number of its bytes.
    pub(super) tensors: Vec<(String, u64)>,
    /// The descriptions of the tensors.
    described: Vec<u8>,
    pub(super) alignment: u64,
}

impl Layout {
    /// Lays out a file of these keys with their values, and these tensors with their types and shapes in C order, in this order.
    ///
    /// # Errors
    /// [`WriteError`]: the file cannot hold one of them.
    pub fn new<'t>(
        metadata: Vec<(String, EncodedValue)>,
        tensors: impl IntoIterator<Item = (&'t str, GgmlType, &'t [usize])>,
    ) -> Result<Self, WriteError> {
        let alignment = check_metadata(&metadata)?;
        let (mut names, mut described, mut placed) = (BTreeSet::new(), Vec::new(), Vec::new());
        let mut offset = 0_u64;
        for (name, of, shape) in tensors {
            let failed = |problem| WriteError::Tensor { name: name.to_owned(), problem };
            let n_bytes = check_tensor(name, of, shape).map_err(failed)?;
            if !names.insert(name) {
                return Err(WriteError::Twice { what: "tensors", name: name.to_owned() });
            }
            put_text(&mut described, name);
            // At most four.
            described.extend((shape.len() as u32).to_le_bytes());
            described.extend(shape.iter().rev().flat_map(|size| (*size as u64).to_le_bytes()));
            described.extend(of.id().to_le_bytes());
            described.extend(offset.to_le_bytes());
            let end = offset.checked_add(n_bytes).and_then(|end| end.checked_next_multiple_of(alignment));
            offset = end.ok_or_else(|| failed(TensorProblem::Overflow { shape: shape.to_vec() }))?;
            placed.push((name.to_owned(), n_bytes));
        }
        let layout = Self { metadata, tensors: placed, described, alignment };
        match layout.header_length() {
            found if found > MAX_HEADER => Err(WriteError::Header { found }),
            _ => Ok(layout),
        }
    }

    /// The bytes before the padding of the header.
    pub(super) fn header_length(&self) -> u64 {
        let pairs = self.metadata.iter().map(|(key, value)| (8 + key.len() as u64).saturating_add(value.n_bytes()));
        pairs.fold(24 + self.described.len() as u64, u64::saturating_add)
    }

    /// Passes the header to `put`, without its padding.
    pub(super) fn visit_header(&self, put: &mut dyn FnMut(&[u8]) -> Result<(), WriteError>) -> Result<(), WriteError> {
        let counts = [self.tensors.len() as u64, self.metadata.len() as u64].map(u64::to_le_bytes).concat();
        put(&[b"GGUF".as_slice(), &VERSION.to_le_bytes(), &counts].concat())?;
        for (key, value) in &self.metadata {
            let mut text = Vec::new();
            put_text(&mut text, key);
            put(&text)?;
            let unread = |source| WriteError::Value { key: key.clone(), source };
            value.visit(|part| put(part).map_err(Visited::Written)).map_err(|failed| match failed {
                Visited::Read(source) => unread(source),
                Visited::Written(error) => error,
            })?;
        }
        put(&self.described)
    }
}

/// Why a value was not copied.
enum Visited {
    Read(io::Error),
    Written(WriteError),
}

impl From<io::Error> for Visited {
    fn from(error: io::Error) -> Self {
        Self::Read(error)
    }
}

fn put_text(out: &mut Vec<u8>, text: &str) {
    out.extend((text.len() as u64).to_le_bytes());
    out.extend(text.as_bytes());
}

/// Checks the keys and the lengths of their values. Returns the alignment that they state.
fn check_metadata(metadata: &[(String, EncodedValue)]) -> Result<u64, WriteError> {
    let mut keys = BTreeSet::new();
    let mut alignment = ALIGNMENT.1;
    for (key, value) in metadata {
        let refused = |problem: String| Err(WriteError::Metadata { key: key.clone(), problem });
        if key.is_empty() || key.len() > MAX_KEY {
            let found = key.len();
            return refused(format!("the key has {found} bytes, expected 1 to {MAX_KEY} (spec/gguf.md §2)"));
        }
        if !keys.insert(key.as_str()) {
            return Err(WriteError::Twice { what: "keys", name: key.clone() });
        }
        let unread = |source| WriteError::Value { key: key.clone(), source };
        if let Some(found) = value.long_text().map_err(unread)? {
            return refused(format!("text of {found} bytes, expected at most {MAX_TEXT} (spec/gguf.md §2)"));
        }
        if key == ALIGNMENT.0 {
            let found = value.as_u32().map_err(unread)?;
            match found.filter(|found| found.is_power_of_two() && *found <= MAX_ALIGNMENT) {
                Some(found) => alignment = found,
                None => {
                    return refused(format!(
                        "expected a power of two of at most {MAX_ALIGNMENT}, as an unsigned integer of 32 bits (spec/gguf.md §6.2)"
                    ));
                }
            }
        }
    }
    Ok(alignment.into())
}
