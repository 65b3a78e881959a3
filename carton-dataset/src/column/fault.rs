//! What is wrong with a value of an array, and where.

use arrow_array::Array;

use crate::error::ColumnProblem;

/// A problem with a value, and its row in the array.
#[derive(Debug)]
pub(super) struct Fault {
    pub(super) row: usize,
    pub(super) problem: ColumnProblem,
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
