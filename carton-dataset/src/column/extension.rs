//! Extension types: what the values of a column mean where its Arrow type says only how they are stored (spec/dataset.md §4.2). Pure.
//!
//! A field names its extension type in its metadata, `ARROW:extension:name`, with parameters in `ARROW:extension:metadata`. Both are
//! untrusted text. Of the canonical types, those whose values are tensors, booleans or strings are known; all others are refused by name,
//! because their values would otherwise be taken for something else.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int8Type;
use arrow_array::{Array, ArrayRef, BooleanArray, FixedSizeListArray, UInt64Array};
use arrow_buffer::{BooleanBuffer, OffsetBuffer};
use arrow_schema::{ArrowError, DataType, Field, FieldRef};
use carton_tensor::{MAX_RANK, element_count};
use serde::Deserialize;

use super::fault::{Fault, check_nulls};
use super::list;
use crate::error::ColumnProblem;

/// The longest metadata of an extension type that is parsed, in bytes.
const MAX_METADATA: usize = 64 << 10;

/// The longest name or problem that an error shows, in characters.
const MAX_SHOWN: usize = 200;

/// The number of elements that are put in order at once.
const BLOCK: usize = 1 << 16;

/// The extension type of a column, or none, and with it the logical values of the column.
///
/// ```
/// use std::sync::Arc;
/// use arrow_array::{ArrayRef, FixedSizeListArray, Int32Array};
/// use arrow_schema::{DataType, Field};
/// use carton_dataset::column::ExtensionType;
///
/// let item = Arc::new(Field::new_list_field(DataType::Int32, true));
/// let stored: ArrayRef = Arc::new(FixedSizeListArray::new(item, 6, Arc::new(Int32Array::from_iter_values(0..6)), None));
/// let metadata = [
///     ("ARROW:extension:name", "arrow.fixed_shape_tensor"),
///     ("ARROW:extension:metadata", r#"{"shape": [2, 3], "permutation": [1, 0]}"#),
/// ];
/// let metadata = metadata.map(|(key, value)| (key.to_owned(), value.to_owned()));
/// let field = Field::new("x", stored.data_type().clone(), true).with_metadata(metadata);
///
/// let tensors = ExtensionType::of(&field)?;
/// assert_eq!(tensors.data_type().to_string(), "FixedSizeList(3 x FixedSizeList(2 x Int32))");
/// let logical = tensors.logical(&stored).map_err(|fault| fault.problem)?;
/// assert_eq!(logical.data_type(), tensors.data_type());
/// # Ok::<(), carton_dataset::ColumnProblem>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExtensionType {
    /// The Arrow type of the logical values.
    data_type: DataType,
    values: Values,
}

/// How logical values are made of the stored ones.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Values {
    /// They are the stored ones.
    Stored,
    /// Bytes, of which any but 0 means true.
    Bool8,
    Tensors(FixedShape),
}

/// Tensors of one shape, each stored as a flat list.
#[derive(Clone, Debug, PartialEq, Eq)]
struct FixedShape {
    /// The logical sizes.
    shape: Vec<usize>,
    /// The distance of neighbouring elements along each dimension in a stored list, where their order is not the logical one.
    strides: Option<Vec<usize>>,
    /// The number of elements of a tensor.
    n_elements: usize,
}

/// The metadata of `arrow.fixed_shape_tensor`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawFixedShape {
    /// The sizes in the order of the stored elements.
    shape: Vec<u64>,
    /// The stored dimension that each logical one is.
    permutation: Option<Vec<u64>>,
    dim_names: Option<Vec<String>>,
}

impl ExtensionType {
    /// Returns the extension type of a field.
    ///
    /// # Errors
    /// [`ColumnProblem::Extension`] for types that are not known, and for any extension type of the elements of lists or the fields of
    /// structs; [`ColumnProblem::InvalidExtension`] for metadata and stored types that an extension type does not allow.
    pub fn of(field: &Field) -> Result<Self, ColumnProblem> {
        let stored = field.data_type();
        if let Some(name) = inner_extension(stored) {
            return Err(ColumnProblem::Extension { name: shown(name), is_inner: true });
        }
        let Some(name) = field.extension_type_name() else {
            return Ok(Self { data_type: stored.clone(), values: Values::Stored });
        };
        let metadata = field.extension_type_metadata().unwrap_or_default();
        let invalid = |problem: String| ColumnProblem::InvalidExtension { name: shown(name), problem };
        let stored_as = |expected: &str| invalid(format!("its values are stored as {stored}, expected {expected}"));
        match name {
            "arrow.fixed_shape_tensor" => {
                let DataType::FixedSizeList(item, length) = stored else {
                    return Err(stored_as("fixed-size lists"));
                };
                let tensors = parse(metadata).and_then(FixedShape::new).map_err(invalid)?;
                if usize::try_from(*length).ok() != Some(tensors.n_elements) {
                    let FixedShape { shape, n_elements, .. } = tensors;
                    return Err(invalid(format!(
                        "tensors of shape {shape:?} have {n_elements} elements, and its lists have {length}"
                    )));
                }
                Ok(tensors.of_items(item))
            }
            // The tensors of Ray, whose lists are of variable size. Their metadata is the shape alone.
            "ray.data.arrow_tensor" | "ray.data.arrow_tensor_v2" => {
                let (DataType::List(item) | DataType::LargeList(item)) = stored else {
                    return Err(stored_as("lists"));
                };
                let sizes = parse(metadata).map_err(invalid)?;
                Ok(FixedShape::new(RawFixedShape { shape: sizes, ..RawFixedShape::default() })
                    .map_err(invalid)?
                    .of_items(item))
            }
            "arrow.bool8" => match stored {
                DataType::Int8 => Ok(Self { data_type: DataType::Boolean, values: Values::Bool8 }),
                _ => Err(stored_as("Int8")),
            },
            "arrow.json" => match stored {
                DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => {
                    Ok(Self { data_type: stored.clone(), values: Values::Stored })
                }
                _ => Err(stored_as("strings")),
            },
            _ => Err(ColumnProblem::Extension { name: shown(name), is_inner: false }),
        }
    }

    /// Whether values of one field can stand where those of the other are declared, as far as extension types say what they mean.
    #[must_use]
    pub fn is_same(first: &Field, other: &Field) -> bool {
        let named = |field: &Field| {
            let metadata = field.extension_type_metadata().map(str::to_owned);
            field.extension_type_name().map(|name| (name.to_owned(), metadata))
        };
        named(first) == named(other)
            || matches!((Self::of(first), Self::of(other)), (Ok(first), Ok(other)) if first.values == other.values)
    }

    /// Describes the extension type of a field, known or not, for messages; `None` if it has none.
    #[must_use]
    pub fn described(field: &Field) -> Option<String> {
        let metadata = field.extension_type_metadata().filter(|metadata| !metadata.is_empty());
        let metadata = metadata.map(|metadata| format!(" {}", shown(metadata)));
        field.extension_type_name().map(|name| format!("{}{}", shown(name), metadata.unwrap_or_default()))
    }

    /// The Arrow type of the logical values. Tensors are nested fixed-size lists.
    #[must_use]
    pub fn data_type(&self) -> &DataType {
        &self.data_type
    }

    /// Returns the logical values of an array of the field's type: tensors as nested lists with the elements in C order.
    ///
    /// # Errors
    /// A tensor is missing, or has another number of elements than its shape.
    pub fn logical(&self, stored: &ArrayRef) -> Result<ArrayRef, Fault> {
        match &self.values {
            Values::Stored => Ok(Arc::clone(stored)),
            Values::Bool8 => {
                let Some(bytes) = stored.as_primitive_opt::<Int8Type>() else { return Err(other_type(stored)) };
                let flags = BooleanBuffer::collect_bool(bytes.len(), |row| bytes.values()[row] != 0);
                Ok(Arc::new(BooleanArray::new(flags, bytes.nulls().cloned())))
            }
            Values::Tensors(tensors) => tensors.logical(stored),
        }
    }
}

impl FixedShape {
    fn new(RawFixedShape { shape, permutation, dim_names }: RawFixedShape) -> Result<Self, String> {
        let rank = shape.len();
        // Fewer than the limit, because the rows are a dimension as well.
        if rank >= MAX_RANK {
            return Err(format!("its shape has {rank} dimensions, expected at most {}", MAX_RANK - 1));
        }
        // A list of Arrow has at most as many elements as a signed integer of 32 bits counts.
        let sizes = shape.iter().map(|size| i32::try_from(*size).ok().and_then(|size| usize::try_from(size).ok()));
        let n_elements = |shape: &Vec<usize>| element_count(shape).filter(|count| i32::try_from(*count).is_ok());
        let stored: Option<Vec<usize>> = sizes.collect();
        let Some((stored, n_elements)) = stored.and_then(|shape| n_elements(&shape).map(|count| (shape, count))) else {
            return Err(format!("its shape {shape:?} has more elements than a list of Arrow"));
        };
        if let Some(names) = dim_names.filter(|names| !names.is_empty() && names.len() != rank) {
            return Err(format!("it has {} names for {rank} dimensions", names.len()));
        }
        // Arrow's own implementation takes an empty list for none.
        let Some(permutation) = permutation.filter(|permutation| !permutation.is_empty()) else {
            return Ok(Self { shape: stored, strides: None, n_elements });
        };
        let wrong =
            || format!("its permutation {} is not one of {rank} dimensions", shown(&format!("{permutation:?}")));
        let mut is_used = vec![false; rank];
        let mut order = Vec::with_capacity(rank);
        for dimension in permutation.iter().map(|dimension| usize::try_from(*dimension).unwrap_or(usize::MAX)) {
            match is_used.get_mut(dimension) {
                Some(is_used) if !*is_used => *is_used = true,
                _ => return Err(wrong()),
            }
            order.push(dimension);
        }
        if order.len() != rank {
            return Err(wrong());
        }
        // By Arrow's specification logical dimension `i` is the stored dimension `permutation[i]`. PyArrow, which writes most of these
        // columns, writes the inverse of that, and its readers do neither. Both say the same if the permutation is its own inverse, such
        // as that of a transposed matrix.
        if order.iter().enumerate().any(|(position, &dimension)| order.get(dimension) != Some(&position)) {
            return Err(format!(
                "its permutation {permutation:?} is not its own inverse, and writers disagree about the order that such a one means"
            ));
        }
        // This product does not overflow: it is at most the number of elements, or one of the sizes is 0.
        let mut stored_strides = vec![1_usize; rank];
        for dimension in (1..rank).rev() {
            stored_strides[dimension - 1] = stored_strides[dimension].saturating_mul(stored[dimension]);
        }
        let strides = order.iter().map(|&dimension| stored_strides[dimension]).collect();
        let shape = order.iter().map(|&dimension| stored[dimension]).collect();
        Ok(Self { shape, strides: (!order.is_sorted()).then_some(strides), n_elements })
    }

    /// The extension type of lists of these items.
    fn of_items(self, item: &FieldRef) -> ExtensionType {
        let nested = self.shape.iter().rev().fold((**item).clone(), |item, size| {
            // `new` has checked the sizes.
            let length = i32::try_from(*size).unwrap_or(i32::MAX);
            Field::new_list_field(DataType::FixedSizeList(Arc::new(item), length), true)
        });
        ExtensionType { data_type: nested.data_type().clone(), values: Values::Tensors(self) }
    }

    fn logical(&self, stored: &ArrayRef) -> Result<ArrayRef, Fault> {
        // Stored lists of missing tensors may have any length, and no tensor can be missing.
        check_nulls(stored)?;
        let n_rows = stored.len();
        let (item, elements) = match stored.data_type() {
            DataType::FixedSizeList(item, length) if usize::try_from(*length).ok() == Some(self.n_elements) => {
                (item, stored.as_fixed_size_list().values().clone())
            }
            DataType::List(item) => {
                let lists = stored.as_list::<i32>();
                (item, self.elements(lists.offsets(), lists.values())?)
            }
            DataType::LargeList(item) => {
                let lists = stored.as_list::<i64>();
                (item, self.elements(lists.offsets(), lists.values())?)
            }
            _ => return Err(other_type(stored)),
        };
        // Arrow checks this for arrays that it makes, but not for those of other libraries.
        let n_elements = n_rows.checked_mul(self.n_elements).filter(|count| *count <= elements.len());
        let Some(n_elements) = n_elements else {
            return Err(no_lists(&format!("{n_rows} tensors have {} elements in all", elements.len())));
        };
        let elements = elements.slice(0, n_elements);
        let refused = |error: ArrowError| no_lists(&error.to_string());
        let mut array = match &self.strides {
            Some(strides) => self.in_order(&elements, strides).map_err(refused)?,
            None => elements,
        };
        let mut item = Arc::clone(item);
        for (depth, size) in self.shape.iter().enumerate().rev() {
            let n_lists = self.shape[..depth].iter().try_fold(n_rows, |product, size| product.checked_mul(*size));
            let n_lists = n_lists
                .ok_or_else(|| no_lists(&format!("{n_rows} tensors of shape {:?} do not fit in memory", self.shape)))?;
            let length = i32::try_from(*size).unwrap_or(i32::MAX);
            let lists = FixedSizeListArray::try_new_with_length(item, length, array, None, n_lists).map_err(refused)?;
            item = Arc::new(Field::new_list_field(lists.data_type().clone(), true));
            array = Arc::new(lists);
        }
        Ok(array)
    }

    /// The elements of lists that all have those of a tensor.
    fn elements<O: arrow_array::OffsetSizeTrait>(
        &self,
        offsets: &OffsetBuffer<O>,
        values: &ArrayRef,
    ) -> Result<ArrayRef, Fault> {
        if let Some((row, found)) = offsets.lengths().enumerate().find(|(_, length)| *length != self.n_elements) {
            let (expected, shape) = (self.n_elements, self.shape.clone());
            return Err(Fault { row, problem: ColumnProblem::Shape { expected, found, shape } });
        }
        let (start, end) = (offsets.first().as_usize(), offsets.last().as_usize());
        Ok(values.slice(start, end.saturating_sub(start)))
    }

    /// Copies the elements of tensors into their logical order.
    fn in_order(&self, elements: &ArrayRef, strides: &[usize]) -> Result<ArrayRef, ArrowError> {
        let n_elements = elements.len();
        let mut blocks: Vec<ArrayRef> = Vec::new();
        let mut positions = self.positions(strides);
        // The positions are made piece by piece, because they need more memory than the elements.
        for start in (0..n_elements).step_by(BLOCK) {
            let end = n_elements.min(start + BLOCK);
            let block = UInt64Array::from_iter_values(positions.by_ref().take(end - start));
            blocks.push(arrow_select::take::take(elements, &block, None)?);
        }
        match blocks.as_slice() {
            [] => Ok(elements.slice(0, 0)),
            [only] => Ok(Arc::clone(only)),
            blocks => arrow_select::concat::concat(&blocks.iter().map(AsRef::as_ref).collect::<Vec<_>>()),
        }
    }

    /// The positions of the elements of all tensors, in logical order. Does not end.
    fn positions<'s>(&'s self, strides: &'s [usize]) -> impl Iterator<Item = u64> + use<'s> {
        let mut index = vec![0_usize; self.shape.len()];
        let (mut row_start, mut position) = (0_usize, 0_usize);
        std::iter::from_fn(move || {
            let this = row_start + position;
            let mut dimension = index.len();
            loop {
                let Some(next) = dimension.checked_sub(1) else {
                    row_start += self.n_elements;
                    break;
                };
                dimension = next;
                index[dimension] += 1;
                position += strides[dimension];
                if index[dimension] < self.shape[dimension] {
                    break;
                }
                position -= index[dimension] * strides[dimension];
                index[dimension] = 0;
            }
            Some(this as u64)
        })
    }
}

/// Parses the metadata of an extension type.
fn parse<'m, T: Deserialize<'m>>(metadata: &'m str) -> Result<T, String> {
    if metadata.len() > MAX_METADATA {
        return Err(format!("its metadata has {} bytes, expected at most {MAX_METADATA}", metadata.len()));
    }
    serde_json::from_str(metadata)
        .map_err(|error| format!("its metadata is not that of the type: {}", shown(&error.to_string())))
}

/// The first extension type of elements of lists or fields of structs.
fn inner_extension(data_type: &DataType) -> Option<&str> {
    match data_type {
        DataType::Struct(fields) => fields.iter().find_map(|field| named_or_inner(field)),
        DataType::Dictionary(_, values) => inner_extension(values),
        _ => list::item_field(data_type).and_then(|field| named_or_inner(field)),
    }
}

fn named_or_inner(field: &Field) -> Option<&str> {
    field.extension_type_name().or_else(|| inner_extension(field.data_type()))
}

/// The fault of tensors that cannot be nested lists, which no valid array that fits in memory has.
fn no_lists(problem: &str) -> Fault {
    let name = "arrow.fixed_shape_tensor".to_owned();
    Fault { row: 0, problem: ColumnProblem::InvalidExtension { name, problem: problem.to_owned() } }
}

fn other_type(stored: &ArrayRef) -> Fault {
    Fault { row: 0, problem: ColumnProblem::Unsupported(stored.data_type().clone()) }
}

/// Text of a file, as errors show it: JSON with its quotes.
fn shown(text: &str) -> String {
    let mut shown = String::new();
    for character in text.chars().take(MAX_SHOWN) {
        match character {
            '"' | '\'' => shown.push(character),
            _ => shown.extend(character.escape_debug()),
        }
    }
    if text.chars().nth(MAX_SHOWN).is_some() {
        shown.push('…');
    }
    shown
}
