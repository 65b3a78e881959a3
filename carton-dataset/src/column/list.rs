//! Numbers, and nested lists of them: finds the shape of each row and its elements (spec/dataset.md §4.2).

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, OffsetSizeTrait, new_null_array};
use arrow_buffer::OffsetBuffer;
use arrow_schema::{DataType, FieldRef};
use carton_tensor::element_count;

use super::fault::{Fault, first_null};
use super::run::{Run, slice};
use super::target::Target;
use super::{nulls, times};
use crate::error::ColumnProblem;
use crate::options::Rounding;

/// Returns the type of the innermost elements of nested lists.
pub(super) fn leaf(data_type: &DataType) -> &DataType {
    item(data_type).map_or(data_type, leaf)
}

/// Returns the type of the elements of a list; `None` for other types.
pub(super) fn item(data_type: &DataType) -> Option<&DataType> {
    item_field(data_type).map(|field| field.data_type())
}

/// Returns the field of the elements of a list; `None` for other types.
pub(super) fn item_field(data_type: &DataType) -> Option<&FieldRef> {
    match data_type {
        DataType::FixedSizeList(field, _) | DataType::List(field) | DataType::LargeList(field) => Some(field),
        _ => None,
    }
}

/// Converts an array of numbers or lists.
pub(super) fn runs(array: &ArrayRef, target: &Target, rounding: Rounding) -> Result<Vec<Run>, Fault> {
    let nested = Nested::new(array, target.null_is_nan)?;
    let at_row = |fault: Fault| Fault { row: nested.row_of(fault.row, nested.levels.len()), ..fault };
    let numbers = match target.time_unit {
        Some(unit) => times::counts(&nested.leaf, unit).map_err(at_row)?,
        None => nested.leaf.clone(),
    };
    let bytes = nulls::to_bytes(&numbers, target.dtype, rounding).map_err(at_row)?;
    // Numbers are converted only to dtypes whose elements are whole bytes.
    let element_bytes = target.dtype.bits() / 8;
    let mut runs: Vec<Run> = Vec::new();
    let mut start = 0;
    for group in nested.shapes()? {
        let at = |problem| Fault { row: group.first_row, problem };
        let shape = agreed(&group.shape, target.shape.as_deref()).map_err(at)?;
        // The rows of a group have no more elements than the array, so the product does not overflow.
        let n_bytes = group.n_rows * element_count(&shape).unwrap_or(0) * element_bytes;
        match runs.last_mut() {
            Some(last) if last.shape == shape => {
                last.n_rows += group.n_rows;
                let length = last.bytes.len() + n_bytes;
                last.bytes = slice(&bytes, start - last.bytes.len(), length).map_err(at)?;
            }
            _ => runs.push(Run {
                dtype: target.dtype,
                shape,
                n_rows: group.n_rows,
                bytes: slice(&bytes, start, n_bytes).map_err(at)?,
            }),
        }
        start += n_bytes;
    }
    Ok(runs)
}

/// Returns the shape of a sample, given the lengths of its lists and the requested shape. A flat list takes any shape with as many
/// elements. Nested lists may be flattened or split, but a shape with as many dimensions must have the same dimensions.
fn agreed(natural: &[Option<usize>], asked: Option<&[usize]>) -> Result<Vec<usize>, ColumnProblem> {
    let Some(asked) = asked else { return Ok(natural.iter().map(|size| size.unwrap_or(0)).collect()) };
    let found = natural.iter().fold(1_usize, |product, size| product.saturating_mul(size.unwrap_or(0)));
    // Checked when the column was planned.
    let expected = element_count(asked).unwrap_or(usize::MAX);
    let differs = |(natural, asked): (&Option<usize>, &usize)| natural.is_some_and(|natural| natural != *asked);
    let is_turned = natural.len() > 1 && natural.len() == asked.len() && natural.iter().zip(asked).any(differs);
    if found != expected {
        return Err(ColumnProblem::Shape { expected, found, shape: asked.to_vec() });
    }
    if is_turned {
        let natural = natural.iter().map(|size| size.unwrap_or(0)).collect();
        return Err(ColumnProblem::OtherShape { expected: asked.to_vec(), found: natural });
    }
    Ok(asked.to_vec())
}

/// The most values of a column of one record batch whose type is `null`: as NaN, they take memory.
const MAX_NULLS: usize = 1 << 24;

/// An array of nested lists, split into the offsets of each level and all elements.
struct Nested {
    n_rows: usize,
    levels: Vec<Level>,
    leaf: ArrayRef,
}

/// The offsets of the lists of one level.
enum Level {
    /// All lists have this length.
    Fixed {
        length: usize,
    },
    Small(OffsetBuffer<i32>),
    Large(OffsetBuffer<i64>),
}

/// Neighbouring rows with the same shape.
struct Group {
    first_row: usize,
    n_rows: usize,
    /// The lengths of the lists, from the outermost on; `None` for a level that has no list in these rows.
    shape: Vec<Option<usize>>,
}

impl Level {
    /// Returns where a list begins, counted in lists or elements of the next level. Also defined for the end of the last list.
    fn start(&self, list: usize) -> usize {
        match self {
            Self::Fixed { length } => list.saturating_mul(*length),
            Self::Small(offsets) => start(offsets, list),
            Self::Large(offsets) => start(offsets, list),
        }
    }

    fn length(&self, list: usize) -> usize {
        self.start(list + 1) - self.start(list)
    }

    /// Returns the length that all lists have; `None` if they differ or there are no lists.
    fn common_length(&self) -> Option<usize> {
        match self {
            Self::Fixed { length } => Some(*length),
            Self::Small(offsets) => common_length(offsets),
            Self::Large(offsets) => common_length(offsets),
        }
    }

    /// Returns the list that contains the element at this position.
    fn list_of(&self, position: usize) -> usize {
        match self {
            Self::Fixed { length } => position.checked_div(*length).unwrap_or(0),
            Self::Small(offsets) => list_of(offsets, position),
            Self::Large(offsets) => list_of(offsets, position),
        }
    }
}

/// Arrow has checked that there is at least one offset, that offsets are not negative, and that they never decrease.
fn start<O: OffsetSizeTrait>(offsets: &[O], list: usize) -> usize {
    let offset = |position: Option<&O>| position.map_or(0, |offset| offset.as_usize());
    offset(offsets.get(list).or(offsets.last())) - offset(offsets.first())
}

fn common_length<O: OffsetSizeTrait>(offsets: &[O]) -> Option<usize> {
    let mut lengths = offsets.windows(2).map(|pair| pair[1] - pair[0]);
    let first = lengths.next()?;
    lengths.all(|length| length == first).then(|| first.as_usize())
}

fn list_of<O: OffsetSizeTrait>(offsets: &[O], position: usize) -> usize {
    let first = offsets.first().map_or(0, |first| first.as_usize());
    // Takes the last list that begins there: those before it are empty.
    offsets.partition_point(|offset| offset.as_usize() - first <= position).saturating_sub(1)
}

/// Returns the position of the first element of all lists, and the number of elements.
fn used<O: OffsetSizeTrait>(offsets: &[O]) -> (usize, usize) {
    let first = offsets.first().map_or(0, |first| first.as_usize());
    (first, offsets.last().map_or(0, |last| last.as_usize()) - first)
}

impl Nested {
    /// Numbers may be missing if `has_nulls`, lists may not.
    fn new(array: &ArrayRef, has_nulls: bool) -> Result<Self, Fault> {
        let mut nested = Self { n_rows: array.len(), levels: Vec::new(), leaf: array.clone() };
        loop {
            // Arrays of this type say that their values are missing by their type alone. They take no memory, so that a file can claim any
            // number of them.
            let is_null = *nested.leaf.data_type() == DataType::Null && !nested.leaf.is_empty();
            if is_null && has_nulls {
                if nested.leaf.len() > MAX_NULLS {
                    return Err(Fault { row: 0, problem: ColumnProblem::ManyNulls { limit: MAX_NULLS } });
                }
                nested.leaf = new_null_array(&DataType::Float64, nested.leaf.len());
            }
            if let Some(position) = first_null(&nested.leaf).or((is_null && !has_nulls).then_some(0))
                && !(has_nulls && item(nested.leaf.data_type()).is_none())
            {
                let row = nested.row_of(position, nested.levels.len());
                return Err(Fault { row, problem: ColumnProblem::Null });
            }
            let (level, next) = match nested.leaf.data_type() {
                DataType::FixedSizeList(_, length) => {
                    let values = nested.leaf.as_fixed_size_list().values();
                    (Level::Fixed { length: usize::try_from(*length).unwrap_or(0) }, values.clone())
                }
                DataType::List(_) => {
                    let list = nested.leaf.as_list::<i32>();
                    let (start, n) = used(list.offsets());
                    (Level::Small(list.offsets().clone()), list.values().slice(start, n))
                }
                DataType::LargeList(_) => {
                    let list = nested.leaf.as_list::<i64>();
                    let (start, n) = used(list.offsets());
                    (Level::Large(list.offsets().clone()), list.values().slice(start, n))
                }
                _ => return Ok(nested),
            };
            nested.levels.push(level);
            nested.leaf = next;
        }
    }

    /// Returns the row that contains the element or list at this position of a level.
    fn row_of(&self, position: usize, level: usize) -> usize {
        self.levels.iter().take(level).rev().fold(position, |position, level| level.list_of(position))
    }

    /// Returns the shapes of all rows, in order.
    fn shapes(&self) -> Result<Vec<Group>, Fault> {
        if self.n_rows == 0 {
            return Ok(Vec::new());
        }
        if let Some(shape) = self.common_shape() {
            return Ok(vec![Group { first_row: 0, n_rows: self.n_rows, shape }]);
        }
        let mut groups: Vec<Group> = Vec::new();
        for row in 0..self.n_rows {
            let shape = self.shape(row).map_err(|problem| Fault { row, problem })?;
            match groups.last_mut() {
                Some(last) if last.shape == shape => last.n_rows += 1,
                _ => groups.push(Group { first_row: row, n_rows: 1, shape }),
            }
        }
        Ok(groups)
    }

    /// Returns the shape of all rows, if the lists of each level have the same length.
    fn common_shape(&self) -> Option<Vec<Option<usize>>> {
        let mut n = self.n_rows;
        let mut shape = Vec::new();
        for level in &self.levels {
            let length = level.common_length();
            if length.is_none() && n > 0 {
                return None;
            }
            n = level.start(n);
            shape.push(length);
        }
        Some(shape)
    }

    fn shape(&self, row: usize) -> Result<Vec<Option<usize>>, ColumnProblem> {
        let mut lists = row..row + 1;
        let mut shape = Vec::with_capacity(self.levels.len());
        for (axis, level) in self.levels.iter().enumerate() {
            let length = match level {
                Level::Fixed { length } => Some(*length),
                _ => lists.clone().next().map(|first| level.length(first)),
            };
            if let Some(expected) = length
                && !matches!(level, Level::Fixed { .. })
                && let Some(found) = lists.clone().map(|list| level.length(list)).find(|found| *found != expected)
            {
                return Err(ColumnProblem::Ragged { axis, expected, found });
            }
            shape.push(length);
            lists = level.start(lists.start)..level.start(lists.end);
        }
        Ok(shape)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::sync::Arc;

    use arrow_array::{LargeListArray, NullArray};
    use arrow_schema::Field;
    use carton_tensor::files::ElementType;

    use super::*;

    #[test]
    fn values_of_type_null_that_a_file_claims() {
        let check = |array: ArrayRef, null_is_nan: bool, expected: &str| {
            let target = Target { dtype: ElementType::Float32, shape: None, null_is_nan, time_unit: None };
            let fault = runs(&array, &target, Rounding::default()).err().unwrap();
            assert_eq!(format!("{}: {}", fault.row, fault.problem), expected);
        };
        let claimed = || -> ArrayRef { Arc::new(NullArray::new(1 << 40)) };
        let too_many = "0: is one of more than 16777216 values of type null in a record batch";
        check(claimed(), false, "0: is null");
        check(claimed(), true, too_many);
        let item = Arc::new(Field::new_list_field(DataType::Null, true));
        let list = LargeListArray::new(item, OffsetBuffer::new(vec![0, 0, 1 << 40].into()), claimed(), None);
        check(Arc::new(list.clone()), false, "1: is null");
        check(Arc::new(list), true, too_many);
    }
}
