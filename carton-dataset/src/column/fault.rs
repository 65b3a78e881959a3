//! What is wrong with a value of an array, and where.

use arrow_array::Array;
use carton_tensor::LostNumber;

use crate::error::ColumnProblem;

/// A problem with a value of an array, and its row.
#[derive(Debug)]
pub struct Fault {
    /// The row, counted from 0 in the array.
    pub row: usize,
    /// What is wrong with its value.
    pub problem: ColumnProblem,
}

impl From<LostNumber> for Fault {
    fn from(lost: LostNumber) -> Self {
        Self { row: lost.position, problem: ColumnProblem::Number(lost) }
    }
}

/// Refuses missing values, which tensors cannot represent.
pub(super) fn check_nulls(array: &dyn Array) -> Result<(), Fault> {
    match first_null(array) {
        Some(row) => Err(Fault { row, problem: ColumnProblem::Null }),
        None => Ok(()),
    }
}

/// Returns the position of the first missing value.
pub(super) fn first_null(array: &dyn Array) -> Option<usize> {
    if array.null_count() == 0 {
        return None;
    }
    array.nulls().and_then(|nulls| nulls.iter().position(|is_valid| !is_valid))
}
