//! `index.toml`: the names of the tensors and the files that hold them. Unknown fields are ignored.

use std::collections::{BTreeMap, BTreeSet};

use carton_tensor::DataType;
use serde::Deserialize;

use super::sizes::{check_member_size, check_size, n_bytes};
use super::toml_file::parse_toml;
use super::{FOLDER, FileFormat, INDEX, TensorDataError};
use crate::metadata::Table;

/// The largest `index.toml` that is read, in bytes: enough for about 70,000 tensors. Parsing hostile TOML takes seventy times its
/// size in memory.
pub const MAX_INDEX_LENGTH: u64 = 8 << 20;

/// The index of the tensors of a carton, by name. It holds no data of tensors.
///
/// ```
/// use carton_format::tensor_data::TensorIndex;
/// let index = TensorIndex::parse(br#"
///     [[tensor]]
///     name = "x"
///     dtype = "float32"
///     shape = [2, 3]
///     file = "tensor_0.bin"
/// "#)?;
/// assert_eq!(index.names().collect::<Vec<_>>(), ["x"]);
/// # Ok::<(), carton_format::tensor_data::TensorDataError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TensorIndex {
    tensors: BTreeMap<String, Entry>,
}

/// What the index says about a tensor.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Entry {
    /// A tensor in its own file: `.bin` for numbers, `.toml` for strings.
    Plain {
        /// The type of the elements. The file has those of its [carrier](DataType::carrier).
        dtype: DataType,
        /// The dimensions. The total size of the elements fits into the address space.
        shape: Vec<usize>,
        /// The name of the file in `tensor_data`.
        file: String,
    },
    /// A numeric tensor in a file that holds many (spec/carton-format-extensions.md, "Tensor files").
    Member {
        /// The type of the elements, which is neither `String` nor `Bytes`. The file has those of its [carrier](DataType::carrier).
        dtype: DataType,
        /// The dimensions, as for a plain tensor.
        shape: Vec<usize>,
        /// The name of the file in `tensor_data`.
        file: String,
        /// The format of the file.
        format: FileFormat,
        /// The name of the tensor in the file.
        name_in_file: String,
    },
    /// A list of tensors.
    Nested {
        /// The names of the tensors. Each exists, none is nested, and all have the same dtype.
        inner: Vec<String>,
    },
}

#[derive(Deserialize)]
struct RawIndex {
    #[serde(default)]
    tensor: Vec<Table<RawEntry>>,
}

#[derive(Deserialize)]
struct RawEntry {
    name: String,
    dtype: String,
    element: Option<toml::Value>,
    shape: Option<Vec<u64>>,
    file: Option<String>,
    file_format: Option<String>,
    name_in_file: Option<String>,
    #[serde(default)]
    inner: Vec<String>,
}

impl TensorIndex {
    /// Parses an `index.toml`.
    ///
    /// # Errors
    /// [`TensorDataError`] for an index that is malformed, contradicts itself or describes tensors that are too large for memory.
    pub fn parse(bytes: &[u8]) -> Result<Self, TensorDataError> {
        let raw: RawIndex = parse_toml(INDEX, bytes)?;
        let mut tensors = BTreeMap::new();
        let mut positions = BTreeMap::new();
        for (position, Table(raw)) in raw.tensor.into_iter().enumerate() {
            let name = raw.name.clone();
            if name.is_empty() {
                return Err(TensorDataError::invalid(field(position, "name"), "a name", "an empty string"));
            }
            let entry = entry(position, raw)?;
            if tensors.insert(name.clone(), entry).is_some() {
                let expected = "another name than any tensor before";
                return Err(TensorDataError::invalid(field(position, "name"), expected, format_args!("`{name}`")));
            }
            positions.insert(name, position);
        }
        let index = Self { tensors };
        for (name, entry) in &index.tensors {
            if let Entry::Nested { inner } = entry {
                index.check_inner(positions.get(name).copied().unwrap_or_default(), inner)?;
            }
        }
        Ok(index)
    }

    /// Returns the names in alphabetical order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.tensors.keys().map(String::as_str)
    }

    /// Returns the names and their entries in alphabetical order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Entry)> {
        self.tensors.iter().map(|(name, entry)| (name.as_str(), entry))
    }

    /// Returns the entry of one tensor.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Entry> {
        self.tensors.get(name)
    }

    /// Returns the files of `tensor_data` that hold these tensors. Names that no tensor has are ignored.
    pub fn files_of<'a>(&self, names: impl IntoIterator<Item = &'a str>) -> BTreeSet<&str> {
        let mut files = BTreeSet::new();
        for entry in names.into_iter().filter_map(|name| self.get(name)) {
            match entry {
                Entry::Plain { file, .. } | Entry::Member { file, .. } => drop(files.insert(file.as_str())),
                // The elements of a nested tensor are not nested themselves.
                Entry::Nested { inner } => files.extend(self.files_of(inner.iter().map(String::as_str))),
            }
        }
        files
    }

    /// Checks that every file exists and has the size that dtype and shape require; a file that holds many tensors must have at
    /// least the size of each. `size` returns what is known of a path in the carton: `None` if there is no such file,
    /// `Some(None)` if its size is known only after it was read.
    ///
    /// # Errors
    /// [`TensorDataError::NoSuchFile`], [`TensorDataError::SizeMismatch`], [`TensorDataError::TooLarge`].
    #[doc(hidden)]
    pub fn check_files(&self, size: impl Fn(&str) -> Option<Option<u64>>) -> Result<(), TensorDataError> {
        for (name, entry) in &self.tensors {
            let (Entry::Plain { dtype, shape, file } | Entry::Member { dtype, shape, file, .. }) = entry else {
                continue;
            };
            let Some(size) = size(&format!("{FOLDER}{file}")) else {
                return Err(TensorDataError::NoSuchFile { name: name.clone(), file: file.clone() });
            };
            match (entry, size) {
                (Entry::Plain { .. }, Some(size)) => check_size(name, *dtype, shape, file, size)?,
                (Entry::Member { .. }, Some(size)) => check_member_size(name, *dtype, shape, file, size)?,
                _ => {}
            }
        }
        Ok(())
    }

    fn check_inner(&self, position: usize, inner: &[String]) -> Result<(), TensorDataError> {
        let mut first = None;
        for (index, name) in inner.iter().enumerate() {
            let invalid = |expected: &str, found: String| {
                Err(TensorDataError::invalid(format!("{}[{index}]", field(position, "inner")), expected, found))
            };
            let dtype = match self.tensors.get(name) {
                None => return invalid("the name of a tensor in the index", format!("`{name}`")),
                Some(Entry::Nested { .. }) => {
                    return invalid("a tensor that is not nested", format!("the nested tensor `{name}`"));
                }
                Some(Entry::Plain { dtype, .. } | Entry::Member { dtype, .. }) => *dtype,
            };
            let expected = *first.get_or_insert(dtype);
            if dtype != expected {
                return invalid(
                    &format!("a tensor of {expected}, as the first one is"),
                    format!("`{name}` of {dtype}"),
                );
            }
        }
        Ok(())
    }
}

fn field(position: usize, name: &str) -> String {
    format!("tensor[{position}].{name}")
}

fn entry(position: usize, raw: RawEntry) -> Result<Entry, TensorDataError> {
    if raw.dtype == "nested" {
        // A nested tensor has no shape and no file; other writers may set them to empty values.
        return Ok(Entry::Nested { inner: raw.inner });
    }
    let carrier = crate::elements::v1_dtype(&raw.dtype).ok_or_else(|| {
        let expected = format!("nested or one of {}", crate::elements::v1_names());
        TensorDataError::invalid(field(position, "dtype"), expected, format_args!("`{}`", raw.dtype))
    })?;
    let element = raw.element.as_ref().and_then(toml::Value::as_str);
    let dtype = element.and_then(|element| carrier.with_element(element)).unwrap_or(carrier);
    if !raw.inner.is_empty() {
        let expected = format!("nothing for a tensor of {dtype}");
        return Err(TensorDataError::invalid(
            field(position, "inner"),
            expected,
            format_args!("{} names", raw.inner.len()),
        ));
    }
    let missing =
        |name| TensorDataError::invalid(field(position, name), "a value for a tensor that is not nested", "nothing");
    let declared = raw.shape.ok_or_else(|| missing("shape"))?;
    let file = raw.file.ok_or_else(|| missing("file"))?;
    if !is_file_name(&file) {
        let expected = "the name of a file in `tensor_data`";
        return Err(TensorDataError::invalid(
            field(position, "file"),
            expected,
            format_args!("`{}`", file.escape_debug()),
        ));
    }
    let shape = declared.iter().map(|&size| usize::try_from(size).ok()).collect::<Option<Vec<_>>>();
    let Some(mut shape) = shape.filter(|shape| n_bytes(carrier, shape).is_some()) else {
        let expected = "a number of elements that fits in memory";
        return Err(TensorDataError::invalid(field(position, "shape"), expected, format_args!("{declared:?}")));
    };
    if dtype.is_complex() && shape.pop() != Some(2) {
        let expected = format!("a last dimension of 2, the real and the imaginary part, for {dtype}");
        return Err(TensorDataError::invalid(field(position, "shape"), expected, format_args!("{declared:?}")));
    }
    let Some(format) = raw.file_format else { return Ok(Entry::Plain { dtype, shape, file }) };
    let Some(format) = FileFormat::from_name(&format) else {
        let names: Vec<_> = FileFormat::ALL.iter().map(|format| format.name()).collect();
        let found = format_args!("`{}`", format.escape_debug());
        return Err(TensorDataError::invalid(field(position, "file_format"), names.join(" or "), found));
    };
    if carrier == DataType::String {
        let found = format_args!("`{}`", format.name());
        return Err(TensorDataError::invalid(field(position, "file_format"), "nothing for a tensor of string", found));
    }
    let name_in_file = raw.name_in_file.unwrap_or(raw.name);
    Ok(Entry::Member { dtype, shape, file, format, name_in_file })
}

/// Whether `file` is a plain file name, which cannot lead out of `tensor_data`.
fn is_file_name(file: &str) -> bool {
    !file.contains('/') && crate::name::check(file.as_bytes()).is_ok()
}
