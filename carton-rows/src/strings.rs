//! Columns of strings, and of lists of strings with one length, as flat arrays of strings.

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, OffsetSizeTrait};
use arrow_buffer::OffsetBuffer;
use arrow_schema::DataType;

/// All strings of an array, and the shape of each of its rows.
#[derive(Debug)]
pub(crate) struct Strings {
    pub(crate) leaf: ArrayRef,
    pub(crate) row_shape: Vec<usize>,
}

/// Why an array cannot become a tensor of strings.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum StringsProblem {
    /// A value is missing.
    Null,
    /// The lists have different lengths.
    Lengths,
    /// The values are no strings.
    Type(DataType),
}

/// Whether values of this type are strings, or nested lists of strings.
pub(crate) fn is_strings(data_type: &DataType) -> bool {
    match data_type {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => true,
        DataType::List(field) | DataType::LargeList(field) | DataType::FixedSizeList(field, _) => {
            is_strings(field.data_type())
        }
        _ => false,
    }
}

/// Removes the lists around the strings.
pub(crate) fn flattened(array: &ArrayRef) -> Result<Strings, StringsProblem> {
    let mut strings = Strings { leaf: array.clone(), row_shape: Vec::new() };
    loop {
        if strings.leaf.null_count() > 0 {
            return Err(StringsProblem::Null);
        }
        let (length, next) = match strings.leaf.data_type() {
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => return Ok(strings),
            DataType::FixedSizeList(_, length) => {
                (usize::try_from(*length).unwrap_or(0), strings.leaf.as_fixed_size_list().values().clone())
            }
            DataType::List(_) => {
                of_lists(strings.leaf.as_list::<i32>().offsets(), strings.leaf.as_list::<i32>().values())?
            }
            DataType::LargeList(_) => {
                of_lists(strings.leaf.as_list::<i64>().offsets(), strings.leaf.as_list::<i64>().values())?
            }
            other => return Err(StringsProblem::Type(other.clone())),
        };
        strings.row_shape.push(length);
        strings.leaf = next;
    }
}

/// The length that all lists have, and their elements.
fn of_lists<O: OffsetSizeTrait>(
    offsets: &OffsetBuffer<O>,
    values: &ArrayRef,
) -> Result<(usize, ArrayRef), StringsProblem> {
    // Arrow has checked that offsets are in the array, not negative, and never decrease.
    let (start, end) = (offsets.first().as_usize(), offsets.last().as_usize());
    let mut lengths = offsets.lengths();
    let length = lengths.next().unwrap_or(0);
    match lengths.all(|other| other == length) {
        true => Ok((length, values.slice(start, end - start))),
        false => Err(StringsProblem::Lengths),
    }
}

/// The mean number of bytes that a string of a flat array takes in memory as a tensor.
pub(crate) fn mean_bytes(leaf: &ArrayRef) -> usize {
    let n_bytes: usize = match leaf.data_type() {
        DataType::LargeUtf8 => leaf.as_string::<i64>().offsets().lengths().sum(),
        DataType::Utf8View => leaf.as_string_view().lengths().map(|length| length as usize).sum(),
        _ => leaf.as_string::<i32>().offsets().lengths().sum(),
    };
    size_of::<String>() + n_bytes / leaf.len().max(1)
}

/// The strings of a flat array.
pub(crate) fn texts(leaf: &ArrayRef) -> Vec<String> {
    let owned = |text: Option<&str>| text.unwrap_or_default().to_owned();
    match leaf.data_type() {
        DataType::LargeUtf8 => leaf.as_string::<i64>().iter().map(owned).collect(),
        DataType::Utf8View => leaf.as_string_view().iter().map(owned).collect(),
        _ => leaf.as_string::<i32>().iter().map(owned).collect(),
    }
}
