//! Chooses the columns to write, and checks their names (spec/dataset.md §4.2, §4.4). Pure.

use std::collections::BTreeSet;

use arrow_schema::{DataType, Field, Schema};

use crate::column::{Column, Conversion, ExtensionType};
use crate::error::{ColumnProblem, DatasetError};
use crate::options::{Mode, WriteOptions, check_separator};
use crate::sample_names::{column_list, is_confusable};

/// A column to write, and its position in the record batches.
#[derive(Clone, Debug)]
pub(super) struct Chosen {
    pub(super) position: usize,
    pub(super) column: Column,
}

/// The columns of a schema that are written.
#[derive(Clone, Debug)]
pub(super) struct Columns {
    pub(super) chosen: Vec<Chosen>,
    /// The position of the column that names the rows, in key-value mode.
    pub(super) names: Option<usize>,
}

impl Columns {
    /// Chooses the columns that the options name.
    pub(super) fn choose(schema: &Schema, options: &WriteOptions) -> Result<Self, DatasetError> {
        let name_column = match &options.mode {
            Mode::Batch { .. } => None,
            Mode::KeyValue(key_value) => Some(key_value.name_column.as_str()),
        };
        let names = name_column.map(|name| find(schema, name)).transpose()?;
        if let Some(position) = names {
            check_names(schema, position)?;
        }
        let positions = match &options.columns {
            None => (0..schema.fields().len()).filter(|position| Some(*position) != names).collect(),
            Some(columns) => columns.iter().map(|name| find(schema, name)).collect::<Result<Vec<_>, _>>()?,
        };
        let mut chosen: Vec<Chosen> = Vec::new();
        let mut seen = BTreeSet::new();
        for position in positions {
            let field = schema.field(position);
            let name = field.name().escape_debug();
            if Some(position) == names {
                return Err(DatasetError::Options(format!("column `{name}` names the rows, and is no tensor as well")));
            }
            if !seen.insert(field.name()) {
                return Err(DatasetError::Options(format!("there are two columns `{name}`")));
            }
            check_name(field.name()).map_err(|problem| DatasetError::Column { column: name.to_string(), problem })?;
            chosen.push(Chosen { position, column: Column::new(field, &conversion(field, options))? });
        }
        if chosen.is_empty() {
            return Err(DatasetError::Options("there is no column to write".to_owned()));
        }
        for name in options.shapes.keys().chain(options.dtypes.keys()) {
            if !seen.contains(name) {
                return Err(no_column(name, seen.iter().map(|name| name.as_str())));
            }
        }
        if let Mode::KeyValue(key_value) = &options.mode {
            // Checked before rows are written, since every shard has the list.
            let names: Vec<String> = chosen.iter().map(|chosen| chosen.column.name().to_owned()).collect();
            column_list(&names).map_err(DatasetError::Options)?;
            check_names_are_unambiguous(&chosen, &key_value.separator)?;
        }
        Ok(Self { chosen, names })
    }
}

/// The tensors that the options ask for. Structs have a dtype of their own, to which the one for all columns does not apply.
fn conversion(field: &Field, options: &WriteOptions) -> Conversion {
    let of_all = options.dtype.filter(|_| !matches!(field.data_type(), DataType::Struct(_)));
    Conversion {
        dtype: options.dtypes.get(field.name()).copied().or(of_all),
        shape: options.shapes.get(field.name()).cloned(),
        rounding: options.rounding,
        null_is_nan: false,
        time_unit: None,
    }
}

/// Checks the name of a tensor: any text is allowed, except the empty one, control characters and `__metadata__`, which headers reserve.
pub(super) fn check_name(name: &str) -> Result<(), ColumnProblem> {
    if name.is_empty() || name == "__metadata__" || name.contains(char::is_control) {
        Err(ColumnProblem::Name(name.escape_debug().to_string()))
    } else {
        Ok(())
    }
}

fn find(schema: &Schema, name: &str) -> Result<usize, DatasetError> {
    let mut positions = (0..schema.fields().len()).filter(|position| schema.field(*position).name() == name);
    match (positions.next(), positions.next()) {
        (Some(position), None) => Ok(position),
        (None, _) => Err(no_column(name, schema.fields().iter().map(|field| field.name().as_str()))),
        (Some(_), Some(_)) => Err(DatasetError::Options(format!("there are two columns `{}`", name.escape_debug()))),
    }
}

fn no_column<'a>(name: &str, columns: impl Iterator<Item = &'a str>) -> DatasetError {
    let columns = columns.map(|column| column.escape_debug().to_string()).collect();
    DatasetError::NoColumn { column: name.escape_debug().to_string(), columns }
}

fn check_names(schema: &Schema, position: usize) -> Result<(), DatasetError> {
    let field = schema.field(position);
    let problem = match ExtensionType::of(field) {
        Ok(names) => match names.data_type() {
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => return Ok(()),
            other => ColumnProblem::NotNames(other.clone()),
        },
        Err(problem) => problem,
    };
    Err(DatasetError::Column { column: field.name().escape_debug().to_string(), problem })
}

/// Refuses columns with which two rows of different names could make the same tensor name: `a__b` with `c`, and `a` with `b__c`.
fn check_names_are_unambiguous(chosen: &[Chosen], separator: &str) -> Result<(), DatasetError> {
    check_separator(separator).map_err(DatasetError::Options)?;
    for long in chosen {
        for short in chosen {
            let (long, short) = (long.column.name(), short.column.name());
            if is_confusable(long, short, separator) {
                return Err(DatasetError::Options(format!(
                    "the names of tensors would be ambiguous: column `{}` ends with `{}`, after the separator `{}`",
                    long.escape_debug(),
                    short.escape_debug(),
                    separator.escape_debug()
                )));
            }
        }
    }
    Ok(())
}
