//! Structs `{data, shape, dtype}`: values that carry their own dtype and shape (spec/dataset.md §4.2).

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, StructArray};
use arrow_schema::{DataType, Fields};
use carton_tensor::MAX_RANK;
use carton_tensor::files::ElementType;
use carton_tensor::safetensors::parse_dtype;

use super::fault::{Fault, check_nulls};
use super::run::Run;
use super::target::Target;
use super::{binary, list, number};
use crate::error::ColumnProblem;
use crate::options::Rounding;

const FIELDS: [&str; 3] = ["data", "shape", "dtype"];

/// Checks that structs with these fields are tensors.
pub(super) fn check(data_type: &DataType, fields: &Fields) -> Result<(), ColumnProblem> {
    let is_tensor = fields.len() == FIELDS.len()
        && fields.iter().all(|field| match field.name().as_str() {
            "data" => {
                let data = field.data_type();
                binary::is_binary(data) || list::item(data).is_some() && number::natural(list::leaf(data)).is_some()
            }
            "shape" => list::item(field.data_type()).is_some_and(DataType::is_integer),
            "dtype" => {
                matches!(field.data_type(), DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
            }
            _ => false,
        })
        && FIELDS.iter().all(|name| fields.find(name).is_some());
    if is_tensor { Ok(()) } else { Err(ColumnProblem::Unsupported(data_type.clone())) }
}

/// Converts an array of structs, none of them missing.
pub(super) fn runs(array: &ArrayRef, rounding: Rounding) -> Result<Vec<Run>, Fault> {
    let array = array.as_struct();
    let (data, dtypes) = (field(array, "data")?, field(array, "dtype")?);
    let shapes = Shapes::new(field(array, "shape")?)?;
    check_nulls(data)?;
    check_nulls(dtypes)?;
    let dtype = |row: usize| match dtypes.data_type() {
        DataType::Utf8 => dtypes.as_string::<i32>().value(row),
        DataType::LargeUtf8 => dtypes.as_string::<i64>().value(row),
        _ => dtypes.as_string_view().value(row),
    };
    let mut runs = Vec::new();
    let mut first = 0;
    while first < array.len() {
        let is_alike = |row: &usize| dtype(*row) == dtype(first) && shapes.elements(*row) == shapes.elements(first);
        let n_rows = 1 + (first + 1..array.len()).take_while(is_alike).count();
        let at = |problem| Fault { row: first, problem };
        let (dtype, shape) = (parse(dtype(first)).map_err(at)?, shapes.get(first).map_err(at)?);
        // Multiplies from the first dimension to the last, as readers of a shard do, so that an overflow is found even if a later
        // dimension is 0.
        if shape.iter().try_fold(1_usize, |n_elements, &size| n_elements.checked_mul(size)).is_none() {
            return Err(at(ColumnProblem::NoSize { dtype, shape }));
        }
        let target = Target { dtype, shape: Some(shape), null_is_nan: false, time_unit: None };
        let alike = data.slice(first, n_rows);
        let found = if binary::is_binary(alike.data_type()) {
            binary::runs(&alike, &target)
        } else {
            number::check(list::leaf(alike.data_type()), target.dtype).map_err(at)?;
            list::runs(&alike, &target, rounding)
        };
        runs.extend(found.map_err(|fault| Fault { row: first + fault.row, ..fault })?);
        first += n_rows;
    }
    Ok(runs)
}

fn field<'a>(array: &'a StructArray, name: &str) -> Result<&'a ArrayRef, Fault> {
    // `check` has found the field when the column was planned.
    array
        .column_by_name(name)
        .ok_or_else(|| Fault { row: 0, problem: ColumnProblem::Unsupported(array.data_type().clone()) })
}

fn parse(name: &str) -> Result<ElementType, ColumnProblem> {
    parse_dtype(name).ok_or_else(|| ColumnProblem::UnknownDtype(name.escape_debug().to_string()))
}

/// The shapes of all rows.
struct Shapes {
    /// The dimensions, one shape after another.
    dimensions: Vec<i64>,
    /// The position where each shape begins, and the end of the last one.
    starts: Vec<usize>,
}

impl Shapes {
    fn new(array: &ArrayRef) -> Result<Self, Fault> {
        let target = Target { dtype: ElementType::Int64, shape: None, null_is_nan: false, time_unit: None };
        let mut shapes = Self { dimensions: Vec::new(), starts: vec![0] };
        for run in list::runs(array, &target, Rounding::default())? {
            let start = shapes.dimensions.len();
            let rank = run.shape.first().copied().unwrap_or(0);
            shapes.dimensions.extend_from_slice(run.bytes.typed_data::<i64>());
            shapes.starts.extend((1..=run.n_rows).map(|row| start + row * rank));
        }
        Ok(shapes)
    }

    fn elements(&self, row: usize) -> &[i64] {
        let range = self.starts.get(row).zip(self.starts.get(row + 1));
        range.and_then(|(start, end)| self.dimensions.get(*start..*end)).unwrap_or_default()
    }

    fn get(&self, row: usize) -> Result<Vec<usize>, ColumnProblem> {
        let dimensions = self.elements(row);
        // Fewer than the limit, because batch mode adds a dimension for the rows.
        let shape: Option<Vec<usize>> = dimensions.iter().map(|size| usize::try_from(*size).ok()).collect();
        shape
            .filter(|shape| shape.len() < MAX_RANK)
            .ok_or_else(|| ColumnProblem::NoShape { found: dimensions.iter().take(MAX_RANK).copied().collect() })
    }
}
