//! Types of columns in several files. Programs name the elements of lists differently: `element` in Parquet, `item` in Arrow, and either in
//! Parquet files of older releases. Such columns are of one type here. Pure.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, RecordBatch, RecordBatchOptions, make_array};
use arrow_schema::{ArrowError, DataType, Field, FieldRef, Schema};

/// Whether values of `other` can stand where `first` is declared: names and metadata of lists' elements do not matter.
pub(super) fn is_same(first: &DataType, other: &DataType) -> bool {
    use DataType as T;
    match (first, other) {
        (T::List(first), T::List(other))
        | (T::LargeList(first), T::LargeList(other))
        | (T::ListView(first), T::ListView(other))
        | (T::LargeListView(first), T::LargeListView(other)) => is_same_item(first, other),
        (T::FixedSizeList(first, length), T::FixedSizeList(other, other_length)) => {
            length == other_length && is_same_item(first, other)
        }
        (T::Struct(first), T::Struct(other)) => {
            let is_same =
                |(first, other): (&FieldRef, &FieldRef)| first.name() == other.name() && is_same_item(first, other);
            first.len() == other.len() && first.iter().zip(other).all(is_same)
        }
        (first, other) => first == other,
    }
}

/// Elements that may be missing cannot stand where none may be.
fn is_same_item(first: &Field, other: &Field) -> bool {
    (first.is_nullable() || !other.is_nullable()) && is_same(first.data_type(), other.data_type())
}

/// Returns the rows with the types of `first`, whose columns are the [same](is_same) in this order. Values are not copied.
///
/// # Errors
/// A column is of another type.
pub(super) fn retype(rows: RecordBatch, first: &Schema) -> Result<RecordBatch, ArrowError> {
    let has_types = |(field, first): (&FieldRef, &FieldRef)| field.data_type() == first.data_type();
    let schema = rows.schema_ref();
    if schema.fields().iter().zip(first.fields()).all(has_types) {
        return Ok(rows);
    }
    let fields = schema.fields().iter().zip(first.fields());
    let fields: Vec<Field> =
        fields.map(|(field, first)| field.as_ref().clone().with_data_type(first.data_type().clone())).collect();
    let columns = rows.columns().iter().zip(&fields).map(|(column, field)| retyped(column, field.data_type()));
    let columns: Vec<ArrayRef> = columns.collect::<Result<_, _>>()?;
    let schema = Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()));
    RecordBatch::try_new_with_options(schema, columns, &RecordBatchOptions::new().with_row_count(Some(rows.num_rows())))
}

fn retyped(array: &ArrayRef, wanted: &DataType) -> Result<ArrayRef, ArrowError> {
    if array.data_type() == wanted {
        return Ok(Arc::clone(array));
    }
    use DataType as T;
    let items: Vec<&DataType> = match wanted {
        T::List(item) | T::LargeList(item) | T::ListView(item) | T::LargeListView(item) | T::FixedSizeList(item, _) => {
            vec![item.data_type()]
        }
        T::Struct(fields) => fields.iter().map(|field| field.data_type()).collect(),
        _ => Vec::new(),
    };
    let data = array.to_data();
    let children = data.child_data().iter().zip(items);
    let children = children.map(|(child, item)| Ok(retyped(&make_array(child.clone()), item)?.to_data()));
    let children = children.collect::<Result<Vec<_>, ArrowError>>()?;
    Ok(make_array(data.into_builder().data_type(wanted.clone()).child_data(children).build()?))
}
