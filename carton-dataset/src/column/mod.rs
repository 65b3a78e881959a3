//! Converts one Arrow column to the bytes of tensors (spec/dataset.md §4.2). Knows neither shards nor files.
//!
//! Values that already have the right representation are passed on as slices of Arrow's buffers; the others are converted, one record
//! batch at a time. `list` finds the shapes of nested lists, `binary` handles binary values, `tensor_struct` handles structs that carry
//! their own dtype and shape, `number` converts and `rounding` rounds.

mod binary;
mod fault;
mod list;
mod number;
mod rounding;
mod run;
mod target;
mod tensor_struct;

use arrow_array::{Array, ArrayRef};
use arrow_schema::{DataType, Field};
use carton_tensor::{MAX_RANK, element_count};

use fault::{Fault, check_nulls};
pub(crate) use run::{Run, without_the_rest};
use target::Target;

use crate::error::{ColumnProblem, DatasetError};
use crate::options::{Rounding, WriteOptions};

/// A column and the tensors that its values become.
#[derive(Clone, Debug)]
pub(crate) struct Column {
    name: String,
    data_type: DataType,
    values: Values,
    rounding: Rounding,
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
    /// [`DatasetError::Column`] for types and dtypes that cannot become tensors; [`DatasetError::Options`] for invalid options.
    pub(crate) fn plan(field: &Field, options: &WriteOptions) -> Result<Self, DatasetError> {
        let name = field.name();
        let fail = |problem| DatasetError::Column { column: name.escape_debug().to_string(), problem };
        let shape = options.shapes.get(name);
        if let Some(shape) = shape
            && (shape.len() >= MAX_RANK || element_count(shape).is_none())
        {
            let name = name.escape_debug();
            return Err(DatasetError::Options(format!("column `{name}` cannot have samples of shape {shape:?}")));
        }
        let own = options.dtypes.get(name).copied();
        let dtype = own.or(options.dtype);
        let values = match field.data_type() {
            DataType::Struct(fields) => {
                tensor_struct::check(field.data_type(), fields).map_err(fail)?;
                if own.is_some() || shape.is_some() {
                    let name = name.escape_debug();
                    return Err(DatasetError::Options(format!(
                        "the values of column `{name}` say their dtype and shape themselves"
                    )));
                }
                Values::Structs
            }
            data_type if binary::is_binary(data_type) => {
                let dtype = dtype.ok_or_else(|| fail(ColumnProblem::NeedsDtype))?;
                Values::Binary(Target { dtype, shape: shape.cloned() })
            }
            data_type => {
                let leaf = list::leaf(data_type);
                let unsupported = || fail(ColumnProblem::Unsupported(data_type.clone()));
                let natural = number::natural(leaf).ok_or_else(unsupported)?;
                let dtype = dtype.unwrap_or(natural);
                number::check(leaf, dtype).map_err(fail)?;
                Values::Numbers(Target { dtype, shape: shape.cloned() })
            }
        };
        Ok(Self { name: name.clone(), data_type: field.data_type().clone(), values, rounding: options.rounding })
    }

    /// The name of the column.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Converts an array to the tensors of its rows. Neighbouring rows with the same dtype and shape are in one run. `first_row` is the
    /// number of the array's first row, counted over all rows that were given.
    ///
    /// # Errors
    /// [`DatasetError::Row`] for a value; [`DatasetError::Column`] for an array whose type differs from the planned one.
    pub(crate) fn runs(&self, array: &ArrayRef, first_row: u64) -> Result<Vec<Run>, DatasetError> {
        if array.data_type() != &self.data_type {
            let problem =
                ColumnProblem::OtherType { expected: self.data_type.clone(), found: array.data_type().clone() };
            return Err(DatasetError::Column { column: self.escaped_name(), problem });
        }
        let runs = check_nulls(array).and_then(|()| match &self.values {
            Values::Numbers(target) => list::runs(array, target, self.rounding),
            Values::Binary(target) => binary::runs(array, target),
            Values::Structs => tensor_struct::runs(array, self.rounding),
        });
        runs.map_err(|Fault { row, problem }| self.row_error(first_row + row as u64, problem))
    }

    /// The error for the value in a row, counted over all rows that were given.
    pub(crate) fn row_error(&self, row: u64, problem: ColumnProblem) -> DatasetError {
        DatasetError::Row { input: None, row, column: self.escaped_name(), problem }
    }

    fn escaped_name(&self) -> String {
        self.name.escape_debug().to_string()
    }
}
