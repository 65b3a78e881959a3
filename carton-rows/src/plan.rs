//! Decides which columns are inputs, which outputs become columns, and which columns are kept (spec/rows.md §2). Pure.

use std::collections::{BTreeMap, BTreeSet};

use arrow_schema::{Field, FieldRef, Fields, Schema};
use carton_core::metadata::TensorSpec;
use carton_core::signature::Side;
use carton_core::{DataType, SymbolicShape};

use crate::error::{RowsError, escaped};
use crate::input::{InputColumn, ValueChoice};
use crate::row_shape::{RowShape, size};

/// The columns of the table that are also in the result.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Keep {
    /// All columns that are not inputs.
    #[default]
    Others,
    /// All columns.
    All,
    /// The columns of these names, in the order of the table. May be empty.
    These(Vec<String>),
}

/// The caller's choice of columns.
#[derive(Clone, Debug, Default)]
pub(crate) struct ColumnChoice {
    /// The columns that the caller names for inputs, by input.
    pub(crate) inputs: BTreeMap<String, String>,
    /// The columns of the outputs that the caller wants, by output. If empty, all outputs become columns of their own names.
    pub(crate) outputs: BTreeMap<String, String>,
    pub(crate) keep: Keep,
    pub(crate) values: ValueChoice,
    /// The names of inputs that have one value for all rows.
    pub(crate) constants: BTreeSet<String>,
}

/// How record batches of one schema become calls, and their outputs columns.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) inputs: Vec<InputColumn>,
    /// The declared outputs that become columns, in order; `None` if the carton declares no outputs.
    pub(crate) outputs: Option<Vec<OutputPlan>>,
    /// The caller's columns by output, for outputs that the carton does not declare.
    pub(crate) output_columns: BTreeMap<String, String>,
    /// The positions of the columns that are kept, in the order of the table.
    pub(crate) kept: Vec<usize>,
    /// The number of rows that every call must have, if the carton declares it.
    pub(crate) fixed_rows: Option<usize>,
}

/// An output that becomes a column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OutputPlan {
    pub(crate) name: String,
    pub(crate) column: String,
    pub(crate) dtype: Option<DataType>,
    pub(crate) row_shape: RowShape,
    /// Whether a call may lack it.
    pub(crate) is_optional: bool,
}

impl Plan {
    /// Makes a plan for tables of this schema.
    ///
    /// # Errors
    /// A name is unknown, a required input has no column, or a column cannot become an input.
    pub(crate) fn new(
        inputs: Option<&[TensorSpec]>,
        outputs: Option<&[TensorSpec]>,
        schema: &Schema,
        choice: &ColumnChoice,
    ) -> Result<Self, RowsError> {
        check_names(Side::Input, inputs, choice.inputs.keys().chain(&choice.constants))?;
        check_names(Side::Output, outputs, choice.outputs.keys())?;
        if let Some(name) = choice.constants.iter().find(|name| choice.inputs.contains_key(*name)) {
            return Err(RowsError::InputTwice { name: escaped(name) });
        }
        let (inputs, fixed_rows) = input_columns(inputs, schema, choice)?;
        let outputs = outputs.map(|outputs| output_columns(outputs, choice)).transpose()?;
        let kept = kept(schema, &inputs, &choice.keep)?;
        let plan = Self { inputs, outputs, output_columns: choice.outputs.clone(), kept, fixed_rows };
        if let Some(outputs) = &plan.outputs {
            plan.check_columns(schema, outputs)?;
        }
        Ok(plan)
    }

    /// Checks that each column of the result has a name of its own.
    pub(crate) fn check_columns(&self, schema: &Schema, outputs: &[OutputPlan]) -> Result<(), RowsError> {
        let mut seen = BTreeSet::new();
        let kept = || self.kept.iter().map(|position| schema.field(*position).name());
        match kept().chain(outputs.iter().map(|output| &output.column)).find(|column| !seen.insert(*column)) {
            Some(column) => Err(RowsError::TwoColumns {
                column: escaped(column),
                n_kept: kept().filter(|name| *name == column).count(),
            }),
            None => Ok(()),
        }
    }

    /// The plan for an output that the carton does not declare; `None` if it is not wanted.
    pub(crate) fn undeclared(&self, name: &str) -> Option<OutputPlan> {
        let column = match self.output_columns.is_empty() {
            true => name.to_owned(),
            false => self.output_columns.get(name)?.clone(),
        };
        let (name, row_shape) = (name.to_owned(), RowShape(None));
        Some(OutputPlan { name, column, dtype: None, row_shape, is_optional: false })
    }

    /// The fields of the columns that are kept.
    pub(crate) fn kept_fields(&self, schema: &Schema) -> Vec<FieldRef> {
        self.kept.iter().map(|position| schema.fields()[*position].clone()).collect()
    }
}

/// Checks that the model has tensors of these names, if it declares its tensors.
fn check_names<'a>(
    side: Side,
    declared: Option<&[TensorSpec]>,
    mut names: impl Iterator<Item = &'a String>,
) -> Result<(), RowsError> {
    let Some(declared) = declared else { return Ok(()) };
    match names.find(|name| declared.iter().all(|spec| spec.name != **name)) {
        Some(name) => Err(RowsError::NoTensor {
            side,
            name: escaped(name),
            names: declared.iter().map(|spec| escaped(&spec.name)).collect(),
        }),
        None => Ok(()),
    }
}

/// The inputs that are columns, and the number of rows that they declare. An optional input needs a column that the caller names.
fn input_columns(
    declared: Option<&[TensorSpec]>,
    schema: &Schema,
    choice: &ColumnChoice,
) -> Result<(Vec<InputColumn>, Option<usize>), RowsError> {
    let mut inputs = Vec::new();
    let mut fixed_rows = None;
    for spec in declared.unwrap_or_default() {
        let chosen = choice.inputs.get(&spec.name);
        if choice.constants.contains(&spec.name) || chosen.is_none() && spec.is_optional() {
            continue;
        }
        let row_shape = RowShape::of(Side::Input, spec)?;
        let (position, field) = find(schema, &spec.name, chosen.unwrap_or(&spec.name))?;
        let input = InputColumn::new(&spec.name, position, field, Some(spec.dtype), row_shape, choice.values)?;
        if spec.dtype == DataType::Bool.carrier() && input.has_bools() {
            return Err(RowsError::Bools { column: escaped(field.name()), input: escaped(&spec.name) });
        }
        inputs.push(input);
        let SymbolicShape::Dimensions(dimensions) = &spec.shape else { continue };
        if let Some(second) = dimensions.first().and_then(size) {
            match fixed_rows {
                _ if second == 0 => return Err(RowsError::NoRows { name: escaped(&spec.name) }),
                Some(first) if first != second => return Err(RowsError::FixedRows { first, second }),
                _ => fixed_rows = Some(second),
            }
        }
    }
    if declared.is_none() {
        for (name, column) in &choice.inputs {
            let (position, field) = find(schema, name, column)?;
            inputs.push(InputColumn::new(name, position, field, None, RowShape(None), choice.values)?);
        }
    }
    if inputs.is_empty() {
        return Err(RowsError::NoInputs);
    }
    Ok((inputs, fixed_rows))
}

fn find<'s>(schema: &'s Schema, input: &str, column: &str) -> Result<(usize, &'s Field), RowsError> {
    schema.column_with_name(column).ok_or_else(|| RowsError::NoColumn {
        name: escaped(input),
        columns: schema.fields().iter().map(|field| escaped(field.name())).collect(),
    })
}

fn output_columns(declared: &[TensorSpec], choice: &ColumnChoice) -> Result<Vec<OutputPlan>, RowsError> {
    let mut outputs = Vec::new();
    for spec in declared {
        let column = match choice.outputs.is_empty() {
            true => &spec.name,
            false => match choice.outputs.get(&spec.name) {
                Some(column) => column,
                None => continue,
            },
        };
        if spec.dtype.is_complex() {
            return Err(RowsError::Complex { side: Side::Output, name: escaped(&spec.name), dtype: spec.dtype });
        }
        outputs.push(OutputPlan {
            name: spec.name.clone(),
            column: column.clone(),
            dtype: Some(spec.dtype),
            row_shape: RowShape::of(Side::Output, spec)?,
            is_optional: spec.is_optional(),
        });
    }
    Ok(outputs)
}

fn kept(schema: &Schema, inputs: &[InputColumn], keep: &Keep) -> Result<Vec<usize>, RowsError> {
    let fields: &Fields = schema.fields();
    if let Keep::These(names) = keep
        && let Some(name) = names.iter().find(|name| fields.find(name).is_none())
    {
        let columns = fields.iter().map(|field| escaped(field.name())).collect();
        return Err(carton_dataset::DatasetError::NoColumn { column: escaped(name), columns }.into());
    }
    let is_kept = |position: &usize| match keep {
        Keep::All => true,
        Keep::Others => inputs.iter().all(|input| input.position() != *position),
        Keep::These(names) => names.contains(fields[*position].name()),
    };
    Ok((0..fields.len()).filter(is_kept).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compares the shape that a value takes with the expected one.
    fn check(declared: Option<&[Option<usize>]>, found: &[usize], expected: Option<&[usize]>) {
        let fitted = RowShape(declared.map(<[_]>::to_vec)).fitted(found);
        assert_eq!(fitted.as_deref(), expected, "{declared:?} {found:?}");
    }

    #[test]
    fn values_take_the_declared_shape() {
        check(None, &[2, 3], Some(&[2, 3]));
        check(Some(&[]), &[], Some(&[]));
        check(Some(&[]), &[1], Some(&[]));
        check(Some(&[]), &[2], None);
        check(Some(&[Some(2), Some(3)]), &[2, 3], Some(&[2, 3]));
        check(Some(&[Some(2), Some(3)]), &[6], Some(&[2, 3]));
        check(Some(&[Some(6)]), &[2, 3], Some(&[6]));
        // As many dimensions: the sizes are not exchanged.
        check(Some(&[Some(2), Some(3)]), &[3, 2], None);
        check(Some(&[Some(2), Some(3)]), &[5], None);
        check(Some(&[Some(1)]), &[], Some(&[1]));
    }

    #[test]
    fn a_flat_value_takes_a_shape_with_one_free_size() {
        check(Some(&[None]), &[5], Some(&[5]));
        check(Some(&[None, Some(4)]), &[8], Some(&[2, 4]));
        check(Some(&[Some(4), None]), &[0], Some(&[4, 0]));
        check(Some(&[None, Some(4)]), &[7], None);
        check(Some(&[None, None]), &[8], None);
        check(Some(&[None, None]), &[2, 4], Some(&[2, 4]));
        check(Some(&[None, Some(2), Some(2)]), &[2, 4], None);
        check(Some(&[None]), &[], None);
    }

    #[test]
    fn sizes_of_nothing_and_sizes_that_are_too_large() {
        check(Some(&[None, Some(0)]), &[0], None);
        check(Some(&[Some(3), Some(0)]), &[0], Some(&[3, 0]));
        check(Some(&[Some(usize::MAX), Some(2)]), &[2], None);
        check(Some(&[Some(2)]), &[usize::MAX, 2], None);
        check(Some(&[Some(usize::MAX), Some(2)]), &[usize::MAX, 2], Some(&[usize::MAX, 2]));
    }
}
