//! Converts one Arrow column to the bytes of tensors (spec/dataset.md §4.2). Knows neither shards nor files.
//!
//! ```
//! use std::sync::Arc;
//! use arrow_array::{ArrayRef, Float64Array};
//! use arrow_schema::{DataType, Field};
//! use carton_dataset::column::{Column, Conversion};
//! use carton_tensor::files::ElementType;
//!
//! let conversion = Conversion { dtype: Some(ElementType::Float32), ..Conversion::default() };
//! let column = Column::new(&Field::new("x", DataType::Float64, false), &conversion)?;
//! let array: ArrayRef = Arc::new(Float64Array::from(vec![1.0, 2.0, 3.0]));
//! let runs = column.runs(&array, 0)?;
//! assert_eq!((runs[0].n_rows(), runs[0].bytes().len()), (3, 12));
//! # Ok::<(), carton_dataset::DatasetError>(())
//! ```
//!
//! Values that already have the right representation are passed on as slices of Arrow's buffers; the others are converted, one record
//! batch at a time. `nulls` makes NaN of missing numbers, `times` counts of dates and times. `extension` decides what the values of an extension type mean. `list` finds the shapes of nested lists, `binary`
//! handles binary values, `tensor_struct` handles structs that carry their own dtype and shape, `number` converts and `rounding`
//! truncates.

mod binary;
mod extension;
mod fault;
mod list;
mod nulls;
mod number;
mod rounding;
mod run;
mod target;
mod tensor_struct;
mod times;

use arrow_array::{Array, ArrayRef};
use arrow_schema::{DataType, Field, TimeUnit};
use carton_tensor::files::ElementType;
use carton_tensor::{MAX_RANK, element_count};

pub use extension::ExtensionType;
pub use fault::Fault;
use fault::check_nulls;
pub use run::Run;
pub(crate) use run::without_the_rest;
use target::Target;
pub use times::are_times;

use crate::error::{ColumnProblem, DatasetError};
use crate::options::Rounding;

/// A column and the tensors that its values become: one for each row.
#[derive(Clone, Debug)]
pub struct Column {
    name: String,
    data_type: DataType,
    extension: ExtensionType,
    values: Values,
    rounding: Rounding,
}

/// The tensors that the values of a column shall become.
#[derive(Clone, Debug, Default)]
pub struct Conversion {
    /// The element type; `None` for that of the column. Binary columns need one. Structs of tensors take none.
    pub dtype: Option<ElementType>,
    /// The shape of the tensor of one row; `None` for that of its nested lists.
    pub shape: Option<Vec<usize>>,
    /// How floats are rounded to shorter floats.
    pub rounding: Rounding,
    /// Whether missing numbers become NaN, of a column that becomes floats. Missing lists stay an error.
    pub null_is_nan: bool,
    /// The unit in which dates, timestamps, times of day and durations are counted, by `int64`. Without it, they are an error.
    pub time_unit: Option<TimeUnit>,
}

/// The representation of a column's values.
#[derive(Clone, Debug)]
enum Values {
    /// Numbers, or lists of lists of them.
    Numbers(Target),
    /// Binary values: the bytes of tensors.
    Binary(Target),
    /// Structs with the fields `data`, `shape` and `dtype`.
    Structs,
}

impl Column {
    /// Decides which tensors the values of a column become.
    ///
    /// # Errors
    /// [`DatasetError::Column`] for types, extension types and dtypes that cannot become tensors; [`DatasetError::Options`] for a shape
    /// that no tensor has, and for a dtype or shape of structs.
    pub fn new(field: &Field, conversion: &Conversion) -> Result<Self, DatasetError> {
        let name = field.name();
        let fail = |problem| DatasetError::Column { column: name.escape_debug().to_string(), problem };
        let Conversion { dtype, shape, rounding, null_is_nan, time_unit } = conversion;
        let (dtype, shape) = (*dtype, shape.as_ref());
        if let Some(shape) = shape
            && (shape.len() >= MAX_RANK || element_count(shape).is_none())
        {
            let name = name.escape_debug();
            return Err(DatasetError::Options(format!("column `{name}` cannot have samples of shape {shape:?}")));
        }
        let extension = ExtensionType::of(field).map_err(fail)?;
        let values = match extension.data_type() {
            data_type @ DataType::Struct(fields) => {
                tensor_struct::check(data_type, fields).map_err(fail)?;
                if dtype.is_some() || shape.is_some() {
                    let name = name.escape_debug();
                    return Err(DatasetError::Options(format!(
                        "the values of column `{name}` say their dtype and shape themselves"
                    )));
                }
                Values::Structs
            }
            data_type if binary::is_binary(data_type) => {
                let dtype = dtype.ok_or_else(|| fail(ColumnProblem::NeedsDtype))?;
                Values::Binary(Target { dtype, shape: shape.cloned(), null_is_nan: false, time_unit: None })
            }
            data_type => {
                let leaf = list::leaf(data_type);
                let natural = match time_unit {
                    Some(_) if times::are_times(leaf) => Some(ElementType::Int64),
                    // Such a column has no value, so it may have any type.
                    _ if *leaf == DataType::Null => dtype,
                    _ => number::natural(leaf),
                };
                let natural = natural.ok_or_else(|| fail(ColumnProblem::Unsupported(data_type.clone())))?;
                let dtype = dtype.unwrap_or(natural);
                number::check(leaf, dtype).map_err(fail)?;
                let null_is_nan = *null_is_nan && nulls::nan_of(dtype).is_some();
                Values::Numbers(Target { dtype, shape: shape.cloned(), null_is_nan, time_unit: *time_unit })
            }
        };
        Ok(Self { name: name.clone(), data_type: field.data_type().clone(), extension, values, rounding: *rounding })
    }

    /// The name of the column.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Converts an array to the tensors of its rows. Neighbouring rows with the same dtype and shape are in one run. `first_row` is the
    /// number of the array's first row, counted over all rows that were given.
    ///
    /// # Errors
    /// [`DatasetError::Row`] for a value; [`DatasetError::Column`] for an array whose type differs from the planned one.
    pub fn runs(&self, array: &ArrayRef, first_row: u64) -> Result<Vec<Run>, DatasetError> {
        if array.data_type() != &self.data_type {
            let problem =
                ColumnProblem::OtherType { expected: self.data_type.clone(), found: array.data_type().clone() };
            return Err(DatasetError::Column { column: self.escaped_name(), problem });
        }
        let converted = || {
            let array = self.extension.logical(array)?;
            if !matches!(&self.values, Values::Numbers(target) if target.null_is_nan) {
                check_nulls(&array)?;
            }
            match &self.values {
                Values::Numbers(target) => list::runs(&array, target, self.rounding),
                Values::Binary(target) => binary::runs(&array, target),
                Values::Structs => tensor_struct::runs(&array, self.rounding),
            }
        };
        let runs = converted();
        runs.map_err(|Fault { row, problem }| self.row_error(first_row + row as u64, problem))
    }

    /// The error for the value in a row, counted over all rows that were given.
    #[must_use]
    pub fn row_error(&self, row: u64, problem: ColumnProblem) -> DatasetError {
        DatasetError::Row { input: None, row, column: self.escaped_name(), problem }
    }

    fn escaped_name(&self) -> String {
        self.name.escape_debug().to_string()
    }
}
