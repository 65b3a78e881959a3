//! Converts the values of a column to pieces of the tensors of one input (spec/rows.md §3). Pure.

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef};
use arrow_buffer::Buffer;
use arrow_schema::{DataType as ArrowType, Field, TimeUnit};
use carton_core::DataType;
use carton_core::signature::Side;
use carton_dataset::column::{Column, Conversion, ExtensionType, Fault, Run, are_times};
use carton_dataset::{ColumnProblem, DatasetError};
use carton_tensor::files::ElementType;

use crate::error::{RowsError, escaped};
use crate::row_shape::RowShape;
use crate::strings::{self, Strings};

/// A column that becomes an input.
#[derive(Clone, Debug)]
pub(crate) struct InputColumn {
    name: String,
    column: String,
    position: usize,
    row_shape: RowShape,
    data_type: ArrowType,
    extension: ExtensionType,
    values: Values,
    /// Whether missing values could become NaN, and are an error because the caller did not say so.
    may_be_nan: bool,
}

#[derive(Clone, Debug)]
enum Values {
    Numbers(Column),
    /// Strings, or bytes, as they are.
    Strings(DataType),
}

/// What becomes of missing values in columns of numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Nulls {
    /// They are an error.
    #[default]
    Refused,
    /// They become NaN where the input is a float, and are an error elsewhere.
    Nan,
}

/// The caller's choice of what becomes of values that tensors lack.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ValueChoice {
    pub(crate) nulls: Nulls,
    /// The unit in which dates and times are counted. Without it, they are an error.
    pub(crate) time_unit: Option<TimeUnit>,
}

/// Neighbouring rows of a column whose values have the same shape.
#[derive(Clone, Debug)]
pub(crate) struct Piece {
    pub(crate) dtype: DataType,
    /// The shape of each row.
    pub(crate) row_shape: Vec<usize>,
    pub(crate) n_rows: usize,
    /// The size of one row in bytes. For strings, the average over the rows: their text, and the size of each `String`.
    pub(crate) row_bytes: usize,
    pub(crate) elements: Elements,
}

/// The elements of a piece, one row after another.
#[derive(Clone, Debug)]
pub(crate) enum Elements {
    Numbers(Buffer),
    /// A flat array of strings or bytes.
    Strings(ArrayRef),
}

impl InputColumn {
    /// Makes the column `field` the input `name`. Without a declared dtype, that of the column is used.
    ///
    /// # Errors
    /// Values of the column's type cannot become tensors of that dtype.
    pub(crate) fn new(
        name: &str,
        position: usize,
        field: &Field,
        dtype: Option<DataType>,
        row_shape: RowShape,
        choice: ValueChoice,
    ) -> Result<Self, RowsError> {
        if let Some(dtype) = dtype.filter(|dtype| dtype.is_complex()) {
            return Err(RowsError::Complex { side: Side::Input, name: escaped(name), dtype });
        }
        let extension = ExtensionType::of(field)
            .map_err(|problem| DatasetError::Column { column: escaped(field.name()), problem })?;
        let data_type = decoded_type(extension.data_type()).clone();
        let leaf = strings::leaf_type(&data_type);
        let is_text = matches!(dtype, Some(DataType::String | DataType::Bytes));
        let advice = match (are_times(leaf), choice.time_unit) {
            (true, _) if is_text => Some("cast the column to strings"),
            (true, Some(_)) => None,
            (true, None) => Some("`--times us` counts them in microseconds, or s, ms or ns; in Python `times=\"us\"`"),
            (false, _) => type_advice(leaf),
        };
        if let Some(advice) = advice {
            let (column, input) = (escaped(field.name()), escaped(name));
            return Err(RowsError::Unfit { column, input, found: data_type.to_string(), advice });
        }
        let is_float = dtype.is_none_or(DataType::is_float);
        let values = match (leaf_dtype(&data_type), dtype) {
            // A call makes bytes of strings, which are their UTF-8.
            (Some(DataType::String), None | Some(DataType::String | DataType::Bytes)) => {
                Values::Strings(DataType::String)
            }
            (Some(DataType::Bytes), None | Some(DataType::Bytes)) => Values::Strings(DataType::Bytes),
            (Some(DataType::String), Some(dtype)) | (_, Some(dtype @ (DataType::String | DataType::Bytes))) => {
                return Err(wrong_type(name, field, dtype.to_string()));
            }
            (_, dtype) => {
                let conversion = Conversion {
                    // Structs of tensors have a dtype of their own. The call compares it with the signature.
                    dtype: dtype
                        .and_then(ElementType::from_data_type)
                        .filter(|_| !matches!(data_type, ArrowType::Struct(_))),
                    // Binary values have no shape of their own.
                    shape: row_shape.fixed().filter(|_| is_binary(&data_type)),
                    null_is_nan: choice.nulls == Nulls::Nan,
                    time_unit: choice.time_unit,
                    ..Conversion::default()
                };
                // The column is given logical values, which are of no extension type.
                Values::Numbers(Column::new(&Field::new(field.name(), data_type, true), &conversion)?)
            }
        };
        let (name, column) = (name.to_owned(), field.name().clone());
        let may_be_nan = choice.nulls == Nulls::Refused && is_float && matches!(values, Values::Numbers(_));
        let data_type = field.data_type().clone();
        Ok(Self { name, column, position, row_shape, data_type, extension, values, may_be_nan })
    }

    /// Whether the values of the column are booleans, or lists of them.
    pub(crate) fn has_bools(&self) -> bool {
        *strings::leaf_type(decoded_type(self.extension.data_type())) == ArrowType::Boolean
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The position of the column in the table.
    pub(crate) fn position(&self) -> usize {
        self.position
    }

    /// Converts an array, whose first row has the number `first_row` among all rows.
    ///
    /// # Errors
    /// A value is missing, or has another shape or range than the input takes.
    pub(crate) fn pieces(&self, array: &ArrayRef, first_row: u64) -> Result<Vec<Piece>, RowsError> {
        if array.data_type() != &self.data_type {
            return Err(RowsError::OtherColumns);
        }
        let array = self.extension.logical(array).map_err(|fault| self.fault(first_row, fault))?;
        let array = decoded(&array).map_err(|error| RowsError::Read(Box::new(error)))?;
        let mut pieces = match &self.values {
            Values::Numbers(column) => self.numbers(column, &array, first_row)?,
            Values::Strings(dtype) => self.strings(*dtype, &array, first_row)?,
        };
        let mut row = first_row;
        for piece in &mut pieces {
            let fitted = self.row_shape.fitted(&piece.row_shape);
            piece.row_shape = fitted.ok_or_else(|| self.wrong_shape(row, &piece.row_shape))?;
            row += piece.n_rows as u64;
        }
        Ok(pieces)
    }

    fn numbers(&self, column: &Column, array: &ArrayRef, first_row: u64) -> Result<Vec<Piece>, RowsError> {
        let runs = column.runs(array, first_row).map_err(|error| match error {
            DatasetError::Row { row, problem: ColumnProblem::Null, .. } => self.null(row),
            other => other.into(),
        })?;
        let piece = |run: Run| {
            let dtype = run.dtype().data_type().filter(|dtype| !dtype.is_complex()).ok_or_else(|| RowsError::Type {
                column: escaped(&self.column),
                input: escaped(&self.name),
                expected: "dtypes of cartons".to_owned(),
                found: run.dtype().to_string(),
            })?;
            let (n_rows, row_shape) = (run.n_rows(), run.shape().to_vec());
            let row_bytes = run.bytes().len() / n_rows.max(1);
            Ok(Piece { dtype, row_shape, n_rows, row_bytes, elements: Elements::Numbers(run.bytes().clone()) })
        };
        runs.into_iter().map(piece).collect()
    }

    fn strings(&self, dtype: DataType, array: &ArrayRef, first_row: u64) -> Result<Vec<Piece>, RowsError> {
        if array.is_empty() {
            return Ok(Vec::new());
        }
        let runs = strings::runs(array).map_err(|fault| self.fault(first_row, fault))?;
        let piece = |Strings { leaf, row_shape, n_rows }: Strings| {
            let n_bytes = strings::n_bytes(&leaf) + leaf.len() * size_of::<String>();
            let row_bytes = n_bytes / n_rows.max(1);
            Piece { dtype, row_shape, n_rows, row_bytes, elements: Elements::Strings(leaf) }
        };
        Ok(runs.into_iter().map(piece).collect())
    }

    fn null(&self, row: u64) -> RowsError {
        let (column, input) = (escaped(&self.column), escaped(&self.name));
        RowsError::Null { row, column, input, may_be_nan: self.may_be_nan, problem: Box::new(ColumnProblem::Null) }
    }

    fn fault(&self, first_row: u64, Fault { row, problem }: Fault) -> RowsError {
        if matches!(problem, ColumnProblem::Null) {
            return self.null(first_row + row as u64);
        }
        DatasetError::Row { input: None, row: first_row + row as u64, column: escaped(&self.column), problem }.into()
    }

    fn wrong_shape(&self, row: u64, found: &[usize]) -> RowsError {
        RowsError::Shape {
            row,
            column: escaped(&self.column),
            input: escaped(&self.name),
            expected: self.row_shape.to_string(),
            found: found.to_vec(),
        }
    }
}

impl Piece {
    /// Takes the first rows out of the piece, at most `n_rows`.
    pub(crate) fn split_to(&mut self, n_rows: usize) -> Self {
        let n_rows = n_rows.min(self.n_rows);
        let (first, rest) = match &self.elements {
            Elements::Numbers(bytes) => {
                let end = n_rows * self.row_bytes;
                let (first, mut rest) = (bytes.slice_with_length(0, end), bytes.clone());
                rest.advance(end);
                (Elements::Numbers(first), Elements::Numbers(rest))
            }
            Elements::Strings(leaf) => {
                let end = n_rows * (leaf.len() / self.n_rows.max(1));
                (Elements::Strings(leaf.slice(0, end)), Elements::Strings(leaf.slice(end, leaf.len() - end)))
            }
        };
        let taken = Self { n_rows, elements: first, ..self.clone() };
        self.n_rows -= n_rows;
        self.elements = rest;
        taken
    }
}

fn wrong_type(input: &str, field: &Field, expected: String) -> RowsError {
    let found = field.data_type().to_string();
    RowsError::Type { column: escaped(field.name()), input: escaped(input), expected, found }
}

/// What to do about values of an Arrow type that no tensor has; `None` for other types.
#[must_use]
pub fn type_advice(data_type: &ArrowType) -> Option<&'static str> {
    use ArrowType as T;
    match data_type {
        other if are_times(other) || matches!(other, T::Interval(_)) => Some(
            "tensors have no dates and times: convert them to the numbers that the model takes, such as int64 in a unit that its \
             description names",
        ),
        T::Decimal32(..) | T::Decimal64(..) | T::Decimal128(..) | T::Decimal256(..) => {
            Some("tensors have no decimals: convert them to float64, or to integers of the smallest unit")
        }
        _ => None,
    }
}

/// The dtype of values that are strings or bytes, also in lists; `None` for others.
fn leaf_dtype(data_type: &ArrowType) -> Option<DataType> {
    match strings::leaf_type(data_type) {
        ArrowType::Utf8 | ArrowType::LargeUtf8 | ArrowType::Utf8View => Some(DataType::String),
        leaf if is_binary(leaf) => Some(DataType::Bytes),
        _ => None,
    }
}

/// The type of the values of dictionary arrays; other types stay.
pub(crate) fn decoded_type(data_type: &ArrowType) -> &ArrowType {
    match data_type {
        ArrowType::Dictionary(_, values) => values,
        other => other,
    }
}

/// The values of a dictionary array; other arrays stay.
///
/// # Errors
/// A key has no value.
pub fn decoded(array: &ArrayRef) -> Result<ArrayRef, arrow_schema::ArrowError> {
    match array.as_any_dictionary_opt() {
        Some(dictionary) => arrow_select::take::take(dictionary.values(), dictionary.keys(), None),
        None => Ok(array.clone()),
    }
}

fn is_binary(data_type: &ArrowType) -> bool {
    use ArrowType as T;
    matches!(data_type, T::Binary | T::LargeBinary | T::BinaryView | T::FixedSizeBinary(_))
}
