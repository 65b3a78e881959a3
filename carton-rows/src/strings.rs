//! Columns of strings or bytes, and of nested lists of them, as flat arrays.

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, OffsetSizeTrait};
use arrow_buffer::OffsetBuffer;
use arrow_schema::DataType;
use carton_dataset::ColumnProblem;
use carton_dataset::column::Fault;

/// Neighbouring rows whose lists have the same lengths.
#[derive(Debug)]
pub(crate) struct Strings {
    /// The strings of all rows, one row after another.
    pub(crate) leaf: ArrayRef,
    pub(crate) row_shape: Vec<usize>,
    pub(crate) n_rows: usize,
}

/// Neighbouring rows with the same shape.
struct Group {
    shape: Vec<usize>,
    n_rows: usize,
}

/// Where the lists of an array begin and end.
enum Lists {
    /// All lists have this length.
    Fixed(usize),
    Small(OffsetBuffer<i32>),
    Large(OffsetBuffer<i64>),
}

/// The type of the innermost elements of lists.
pub(crate) fn leaf_type(data_type: &DataType) -> &DataType {
    match data_type {
        DataType::ListView(field) | DataType::LargeListView(field) => leaf_type(field.data_type()),
        other => item(other).map_or(other, leaf_type),
    }
}

/// Removes the lists around the strings.
///
/// # Errors
/// A value is missing, or the lists in a row have different lengths.
pub(crate) fn runs(array: &ArrayRef) -> Result<Vec<Strings>, Fault> {
    let (groups, leaf) = groups(array)?;
    let mut start = 0;
    let run = |Group { shape, n_rows }: Group| {
        // The array has the strings of all groups, so that a product overflows only if another of its sizes is 0.
        let n_elements = shape.iter().fold(n_rows, |product, size| product.saturating_mul(*size));
        let n_elements = n_elements.min(leaf.len().saturating_sub(start));
        let strings = Strings { leaf: leaf.slice(start, n_elements), row_shape: shape, n_rows };
        start += n_elements;
        strings
    };
    Ok(groups.into_iter().map(run).collect())
}

/// Returns the shapes of all rows, and all strings.
fn groups(array: &ArrayRef) -> Result<(Vec<Group>, ArrayRef), Fault> {
    if let Some(row) = array.nulls().and_then(|nulls| nulls.iter().position(|is_valid| !is_valid)) {
        return Err(Fault { row, problem: ColumnProblem::Null });
    }
    let (lists, items) = match array.data_type() {
        DataType::FixedSizeList(_, length) => {
            (Lists::Fixed(usize::try_from(*length).unwrap_or(0)), array.as_fixed_size_list().values().clone())
        }
        DataType::List(_) => {
            let lists = array.as_list::<i32>();
            let offsets = Lists::Small(lists.offsets().clone());
            (offsets, used(lists.values(), lists.offsets()))
        }
        DataType::LargeList(_) => {
            let lists = array.as_list::<i64>();
            let offsets = Lists::Large(lists.offsets().clone());
            (offsets, used(lists.values(), lists.offsets()))
        }
        _ => return Ok((vec![Group { shape: Vec::new(), n_rows: array.len() }], array.clone())),
    };
    let (inner, leaf) = groups(&items).map_err(|fault| lists.outwards(fault))?;
    Ok((grouped(&lists, array.len(), &inner, n_levels(items.data_type()))?, leaf))
}

/// The items of all lists. Arrow has checked that offsets are in the array, not negative, and never decrease.
fn used<O: OffsetSizeTrait>(items: &ArrayRef, offsets: &OffsetBuffer<O>) -> ArrayRef {
    let first = offsets.first().as_usize();
    items.slice(first, offsets.last().as_usize() - first)
}

/// Groups lists by their shapes, given the groups of their items.
fn grouped(lists: &Lists, n_rows: usize, inner: &[Group], n_levels: usize) -> Result<Vec<Group>, Fault> {
    if let (Lists::Fixed(length), [] | [_]) = (lists, inner) {
        // All lists have one shape. They are not counted one by one: without strings in them, they can be any number.
        let mut shape = vec![*length];
        match inner {
            [items] => shape.extend(&items.shape),
            _ => shape.resize(1 + n_levels, 0),
        }
        return Ok(vec![Group { shape, n_rows }]);
    }
    let mut groups: Vec<Group> = Vec::new();
    let mut inner = inner.iter().peekable();
    // The position after the last item of the inner group that comes next.
    let mut end_of_inner = inner.peek().map_or(0, |group| group.n_rows);
    for row in 0..n_rows {
        let (start, end) = (lists.start(row), lists.start(row + 1));
        while start >= end_of_inner && inner.peek().is_some() {
            inner.next();
            end_of_inner += inner.peek().map_or(0, |group| group.n_rows);
        }
        let mut shape = vec![end - start];
        match inner.peek() {
            Some(group) if end > start => shape.extend(&group.shape),
            _ => shape.resize(1 + n_levels, 0),
        }
        if end > start && end > end_of_inner {
            let others = inner.nth(1).map_or(&[][..], |group| &group.shape);
            return Err(Fault { row, problem: ragged(shape.get(1..).unwrap_or_default(), others) });
        }
        match groups.last_mut().filter(|group| group.shape == shape) {
            Some(group) => group.n_rows += 1,
            None => groups.push(Group { shape, n_rows: 1 }),
        }
    }
    Ok(groups)
}

/// The problem of a row whose items have two shapes.
fn ragged(expected: &[usize], found: &[usize]) -> ColumnProblem {
    let axis = expected.iter().zip(found).position(|(expected, found)| expected != found).unwrap_or(0);
    let size = |shape: &[usize]| shape.get(axis).copied().unwrap_or(0);
    ColumnProblem::Ragged { axis: axis + 1, expected: size(expected), found: size(found) }
}

impl Lists {
    /// Where a list begins, counted in items. Also defined for the end of the last list.
    fn start(&self, list: usize) -> usize {
        match self {
            Self::Fixed(length) => list.saturating_mul(*length),
            Self::Small(offsets) => start(offsets, list),
            Self::Large(offsets) => start(offsets, list),
        }
    }

    /// The list that has this item.
    fn list_of(&self, item: usize) -> usize {
        let n_lists = match self {
            Self::Fixed(length) => return item.checked_div(*length).unwrap_or(0),
            Self::Small(offsets) => offsets.len() - 1,
            Self::Large(offsets) => offsets.len() - 1,
        };
        // Several lists can begin at the item: all but the last of them are empty.
        let (mut first, mut after) = (0, n_lists);
        while after - first > 1 {
            let middle = first.midpoint(after);
            match self.start(middle) <= item {
                true => first = middle,
                false => after = middle,
            }
        }
        first
    }

    /// Converts the fault of an item to a fault of the list that has it.
    fn outwards(&self, fault: Fault) -> Fault {
        let problem = match fault.problem {
            ColumnProblem::Ragged { axis, expected, found } => {
                ColumnProblem::Ragged { axis: axis + 1, expected, found }
            }
            other => other,
        };
        Fault { row: self.list_of(fault.row), problem }
    }
}

fn start<O: OffsetSizeTrait>(offsets: &OffsetBuffer<O>, list: usize) -> usize {
    offsets.get(list).map_or(0, |offset| offset.as_usize() - offsets.first().as_usize())
}

fn item(data_type: &DataType) -> Option<&DataType> {
    match data_type {
        DataType::List(field) | DataType::LargeList(field) | DataType::FixedSizeList(field, _) => {
            Some(field.data_type())
        }
        _ => None,
    }
}

/// The number of lists around the strings.
fn n_levels(data_type: &DataType) -> usize {
    item(data_type).map_or(0, |item| 1 + n_levels(item))
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

/// The elements of a flat array of bytes.
pub(crate) fn blobs(leaf: &ArrayRef) -> Vec<Vec<u8>> {
    let owned = |bytes: Option<&[u8]>| bytes.unwrap_or_default().to_vec();
    match leaf.data_type() {
        DataType::LargeBinary => leaf.as_binary::<i64>().iter().map(owned).collect(),
        DataType::BinaryView => leaf.as_binary_view().iter().map(owned).collect(),
        DataType::FixedSizeBinary(_) => leaf.as_fixed_size_binary().iter().map(owned).collect(),
        _ => leaf.as_binary::<i32>().iter().map(owned).collect(),
    }
}

/// The number of bytes of the strings, or of the bytes, in a flat array. The array can be a slice of a larger one.
pub(crate) fn n_bytes(leaf: &ArrayRef) -> usize {
    match leaf.data_type() {
        DataType::Binary => leaf.as_binary::<i32>().offsets().lengths().sum(),
        DataType::LargeBinary => leaf.as_binary::<i64>().offsets().lengths().sum(),
        DataType::BinaryView => leaf.as_binary_view().lengths().map(|length| length as usize).sum(),
        DataType::FixedSizeBinary(size) => leaf.len() * usize::try_from(*size).unwrap_or_default(),
        DataType::LargeUtf8 => leaf.as_string::<i64>().offsets().lengths().sum(),
        DataType::Utf8View => leaf.as_string_view().lengths().map(|length| length as usize).sum(),
        _ => leaf.as_string::<i32>().offsets().lengths().sum(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::sync::Arc;

    use arrow_array::builder::{LargeListBuilder, ListBuilder, StringBuilder};

    use super::*;

    /// Nested lists of strings, which are numbered; `None` is a missing string.
    fn nested(rows: &[&[&[Option<&str>]]]) -> ArrayRef {
        let mut lists = LargeListBuilder::new(ListBuilder::new(StringBuilder::new()));
        for row in rows {
            for list in *row {
                lists.values().append_value(list.iter().copied());
            }
            lists.append(true);
        }
        Arc::new(lists.finish())
    }

    /// Compares the shape and the strings of each run, or the fault.
    fn check(array: &ArrayRef, expected: &str) {
        let found = match runs(array) {
            Ok(runs) => {
                let run = |run: &Strings| format!("{} {:?} {}", run.n_rows, run.row_shape, texts(&run.leaf).join(" "));
                runs.iter().map(run).collect::<Vec<_>>().join("; ")
            }
            Err(Fault { row, problem }) => format!("row {row}: {problem}"),
        };
        assert_eq!(found, expected);
    }

    const A: &[Option<&str>] = &[Some("a"), Some("b")];
    const C: &[Option<&str>] = &[Some("c")];
    const NONE: &[Option<&str>] = &[];

    #[test]
    fn rows_of_one_shape_are_a_run() {
        check(&nested(&[&[A, A], &[A, A], &[A]]), "2 [2, 2] a b a b a b a b; 1 [1, 2] a b");
        check(&nested(&[&[C], &[A], &[C, C]]), "1 [1, 1] c; 1 [1, 2] a b; 1 [2, 1] c c");
        check(&nested(&[&[], &[], &[A], &[], &[A]]), "2 [0, 0] ; 1 [1, 2] a b; 1 [0, 0] ; 1 [1, 2] a b");
        check(&nested(&[&[NONE, NONE], &[A], &[NONE]]), "1 [2, 0] ; 1 [1, 2] a b; 1 [1, 0] ");
        check(&nested(&[]), "");
    }

    #[test]
    fn slices_have_their_own_strings() {
        let array = nested(&[&[A], &[C], &[C], &[A, A], &[C]]);
        check(&array.slice(1, 3), "2 [1, 1] c c; 1 [2, 2] a b a b");
        check(&array.slice(4, 1), "1 [1, 1] c");
        check(&array.slice(5, 0), "");
    }

    #[test]
    fn faults_name_their_row() {
        check(&nested(&[&[A], &[], &[C, A], &[C]]), "row 2: its lists along axis 1 have 1 and 2 elements");
        check(&nested(&[&[A], &[A, NONE]]), "row 1: its lists along axis 1 have 2 and 0 elements");
        check(&nested(&[&[A], &[], &[A, A, &[Some("x"), None]], &[C]]), "row 2: is null");
        let strings: ArrayRef = Arc::new(arrow_array::StringArray::from(vec![Some("a"), Some("b"), Some("c"), None]));
        let field = Arc::new(arrow_schema::Field::new_list_field(DataType::Utf8, true));
        let pairs: ArrayRef = Arc::new(arrow_array::FixedSizeListArray::new(field, 2, strings, None));
        check(&pairs, "row 1: is null");
        check(&pairs.slice(0, 1), "1 [2] a b");
        let deep = |array: ArrayRef| -> ArrayRef {
            let field = Arc::new(arrow_schema::Field::new_list_field(array.data_type().clone(), true));
            let offsets = OffsetBuffer::from_lengths([2, array.len() - 2]);
            Arc::new(arrow_array::ListArray::new(field, offsets, array, None))
        };
        check(&deep(nested(&[&[A], &[A], &[C, A]])), "row 1: its lists along axis 2 have 1 and 2 elements");
        check(&deep(nested(&[&[A], &[A], &[A], &[A, A]])), "row 1: its lists along axis 1 have 1 and 2 elements");
    }

    #[test]
    fn lists_without_strings_are_not_counted_one_by_one() {
        let lists = |items: ArrayRef, length: i32, n_lists: usize| -> ArrayRef {
            let field = Arc::new(arrow_schema::Field::new_list_field(items.data_type().clone(), true));
            let lists = arrow_array::FixedSizeListArray::try_new_with_length(field, length, items, None, n_lists);
            Arc::new(lists.unwrap())
        };
        let none: ArrayRef = Arc::new(arrow_array::StringArray::from(Vec::<&str>::new()));
        let many = lists(lists(none.clone(), 0, 3 << 30), 1 << 30, 3);
        check(&many, "3 [1073741824, 0] ");
        check(&lists(lists(none, 4, 0), 0, 3), "3 [0, 4] ");
        let strings: ArrayRef = Arc::new(arrow_array::StringArray::from(vec!["a", "b", "c", "d"]));
        check(&lists(lists(strings, 2, 2), 1, 2), "2 [1, 2] a b c d");
    }

    #[test]
    fn bytes_of_slices() {
        let strings: ArrayRef = Arc::new(arrow_array::StringArray::from_iter_values(["abc", "", "de", "fghi"]));
        let views: ArrayRef = Arc::new(arrow_array::StringViewArray::from_iter_values(["abc", "", "de", "fghi"]));
        for array in [strings, views] {
            assert_eq!((n_bytes(&array), n_bytes(&array.slice(1, 2)), n_bytes(&array.slice(4, 0))), (9, 2, 0));
        }
    }
}
