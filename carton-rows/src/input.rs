//! Converts the values of a column to pieces of the tensors of one input (spec/rows.md §3). Pure.

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef};
use arrow_buffer::Buffer;
use arrow_schema::{DataType as ArrowType, Field};
use carton_core::DataType;
use carton_dataset::DatasetError;
use carton_dataset::column::{Column, Conversion, ExtensionType, Fault, Run};
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
}

#[derive(Clone, Debug)]
enum Values {
    Numbers(Column),
    Strings,
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
    /// A flat array of strings.
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
    ) -> Result<Self, RowsError> {
        let extension = ExtensionType::of(field)
            .map_err(|problem| DatasetError::Column { column: escaped(field.name()), problem })?;
        let data_type = decoded_type(extension.data_type()).clone();
        let values = match (strings::is_strings(&data_type), dtype) {
            (true, None | Some(DataType::String)) => Values::Strings,
            (true, Some(dtype)) => return Err(wrong_type(name, field, dtype.to_string())),
            (false, Some(DataType::String)) => return Err(wrong_type(name, field, DataType::String.to_string())),
            (false, dtype) => {
                let conversion = Conversion {
                    // Structs of tensors have a dtype of their own. The call compares it with the signature.
                    dtype: dtype
                        .and_then(ElementType::from_data_type)
                        .filter(|_| !matches!(data_type, ArrowType::Struct(_))),
                    // Binary values have no shape of their own.
                    shape: row_shape.fixed().filter(|_| is_binary(&data_type)),
                    ..Conversion::default()
                };
                // The column is given logical values, which are of no extension type.
                Values::Numbers(Column::new(&Field::new(field.name(), data_type, true), &conversion)?)
            }
        };
        let (name, column) = (name.to_owned(), field.name().clone());
        Ok(Self { name, column, position, row_shape, data_type: field.data_type().clone(), extension, values })
    }

    /// Whether the values of the column are booleans, or lists of them.
    pub(crate) fn has_bools(&self) -> bool {
        let mut data_type = decoded_type(self.extension.data_type());
        while let ArrowType::List(item)
        | ArrowType::LargeList(item)
        | ArrowType::ListView(item)
        | ArrowType::LargeListView(item)
        | ArrowType::FixedSizeList(item, _) = data_type
        {
            data_type = item.data_type();
        }
        *data_type == ArrowType::Boolean
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
            Values::Strings => self.strings(&array, first_row)?,
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
        let runs = column.runs(array, first_row)?;
        let piece = |run: Run| {
            // Cartons have no dtype for booleans, which become bytes.
            let dtype = match run.dtype() {
                ElementType::Bool => Some(DataType::Uint8),
                dtype => dtype.data_type(),
            };
            let dtype = dtype.ok_or_else(|| RowsError::Type {
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

    fn strings(&self, array: &ArrayRef, first_row: u64) -> Result<Vec<Piece>, RowsError> {
        if array.is_empty() {
            return Ok(Vec::new());
        }
        let runs = strings::runs(array).map_err(|fault| self.fault(first_row, fault))?;
        let piece = |Strings { leaf, row_shape, n_rows }: Strings| {
            let n_bytes = strings::text_bytes(&leaf) + leaf.len() * size_of::<String>();
            let row_bytes = n_bytes / n_rows.max(1);
            Piece { dtype: DataType::String, row_shape, n_rows, row_bytes, elements: Elements::Strings(leaf) }
        };
        Ok(runs.into_iter().map(piece).collect())
    }

    fn fault(&self, first_row: u64, Fault { row, problem }: Fault) -> RowsError {
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

/// The type of the values of dictionary arrays; other types stay.
pub(crate) fn decoded_type(data_type: &ArrowType) -> &ArrowType {
    match data_type {
        ArrowType::Dictionary(_, values) => values,
        other => other,
    }
}

/// The values of a dictionary array; other arrays stay.
pub(crate) fn decoded(array: &ArrayRef) -> Result<ArrayRef, arrow_schema::ArrowError> {
    match array.as_any_dictionary_opt() {
        Some(dictionary) => arrow_select::take::take(dictionary.values(), dictionary.keys(), None),
        None => Ok(array.clone()),
    }
}

fn is_binary(data_type: &ArrowType) -> bool {
    use ArrowType as T;
    matches!(data_type, T::Binary | T::LargeBinary | T::BinaryView | T::FixedSizeBinary(_))
}
