//! Makes columns of outputs (spec/rows.md §5).

use std::sync::Arc;

use arrow_array::types::{
    ArrowPrimitiveType, Float16Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type,
    UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{
    Array, ArrayRef, BinaryArray, BooleanArray, FixedSizeListArray, ListArray, PrimitiveArray, StringArray,
    new_null_array,
};
use arrow_buffer::{OffsetBuffer, ScalarBuffer};
use arrow_schema::{DataType as ArrowType, Field};
use carton_core::signature::Side;
use carton_core::tensor::Element;
use carton_core::{DataType, NumericTensor, StringTensor, Tensor};
use carton_tensor::{BoolByte, BytesTensor};

use crate::error::{RowsError, escaped};
use crate::plan::OutputPlan;
use crate::row_shape::RowShape;

/// The most lists for a tensor with fewer elements than lists. Without this limit, a tensor with a size of 0 could claim any number of
/// lists without holding a byte.
const MAX_EMPTY_LISTS: usize = 1 << 24;

/// The field of an output, if the carton declares its dtype and its number of dimensions.
pub(crate) fn declared_field(output: &OutputPlan) -> Option<Field> {
    let sizes = output.row_shape.0.as_ref()?;
    let leaf = arrow_type(output.dtype?);
    let data_type = sizes.iter().rev().fold(leaf, |data_type, size| list_type(data_type, *size));
    Some(Field::new(&output.column, data_type, true))
}

/// Makes a column of an output, with one value for each of the first `n_rows` elements of its first dimension. The model was called with
/// `called_rows` rows, of which the others are padding.
///
/// # Errors
/// The output has no value for each row, or too many elements for a column.
pub(crate) fn column(
    output: &OutputPlan,
    tensor: &Tensor,
    n_rows: usize,
    called_rows: usize,
) -> Result<ArrayRef, RowsError> {
    let shape = tensor.shape().unwrap_or_default();
    let Some((_, row_shape)) = shape.split_first().filter(|(first, _)| **first == called_rows) else {
        return Err(RowsError::NotByRow { output: escaped(&output.name), shape: shape.to_vec(), n_rows: called_rows });
    };
    let n_elements = checked_n_elements(output, n_rows, row_shape)?;
    let leaf = match tensor {
        Tensor::Numeric(tensor) if tensor.dtype().is_complex() => {
            let (name, dtype) = (escaped(&output.name), tensor.dtype());
            return Err(RowsError::Complex { side: Side::Output, name, dtype });
        }
        Tensor::Numeric(tensor) => numbers(tensor, n_elements)
            .ok_or_else(|| RowsError::UnreadableOutput { output: escaped(&output.name), dtype: tensor.dtype() })?,
        Tensor::String(tensor) => strings(output, tensor, n_elements)?,
        Tensor::Bytes(tensor) => bytes(output, tensor, n_elements)?,
        _ => return Err(RowsError::NotByRow { output: escaped(&output.name), shape: Vec::new(), n_rows: called_rows }),
    };
    let mut array = leaf;
    for depth in (0..row_shape.len()).rev() {
        let n_lists = n_items(n_rows, row_shape.get(..depth).unwrap_or_default());
        let size = row_shape.get(depth).copied().unwrap_or_default();
        let is_fixed = size > 0 && is_fixed(&output.row_shape, depth);
        array = lists(array, n_lists, size, is_fixed).map_err(RowsError::write)?;
    }
    Ok(array)
}

/// Makes a column without values of an output that the model did not return.
///
/// # Errors
/// The model must return it, the type of its column is not known, or the declared lists have too many elements for a column.
pub(crate) fn missing(output: &OutputPlan, n_rows: usize) -> Result<ArrayRef, RowsError> {
    if !output.is_optional {
        return Err(RowsError::NotReturned { output: escaped(&output.name) });
    }
    let Some(field) = declared_field(output) else {
        return Err(RowsError::UnknownColumn { output: escaped(&output.name) });
    };
    // Lists of a fixed size take memory for their elements where they are null, too.
    let mut sizes = Vec::new();
    let mut data_type = field.data_type();
    while let ArrowType::FixedSizeList(item, size) = data_type {
        sizes.push(usize::try_from(*size).unwrap_or(0));
        data_type = item.data_type();
    }
    checked_n_elements(output, n_rows, &sizes)?;
    Ok(new_null_array(field.data_type(), n_rows))
}

/// The number of elements in `n_rows` rows of this shape.
///
/// # Errors
/// A column cannot have so many elements or lists.
fn checked_n_elements(output: &OutputPlan, n_rows: usize, row_shape: &[usize]) -> Result<usize, RowsError> {
    let n_elements = n_items(n_rows, row_shape);
    let n_lists = (0..row_shape.len()).map(|depth| n_items(n_rows, row_shape.get(..depth).unwrap_or_default()));
    let n_largest = n_lists.max().unwrap_or(0);
    match i32::try_from(n_elements).is_err() || n_largest > n_elements.max(MAX_EMPTY_LISTS) {
        true => Err(RowsError::LargeOutput { output: escaped(&output.name), n_elements: n_elements.max(n_largest) }),
        false => Ok(n_elements),
    }
}

/// The number of items in `n_rows` tensors of this shape. A tensor without elements may have dimensions whose product is too large.
fn n_items(n_rows: usize, shape: &[usize]) -> usize {
    shape.iter().fold(n_rows, |product, size| product.saturating_mul(*size))
}

/// Whether the carton declares the size of a dimension. A size of 0 does not count: Arrow files have no lists of the fixed size 0.
fn is_fixed(row_shape: &RowShape, depth: usize) -> bool {
    let sizes = row_shape.0.as_deref().unwrap_or_default();
    sizes.get(depth).copied().flatten().is_some_and(|size| size > 0)
}

/// The Arrow type of the elements of a tensor (spec/rows.md §5). Strings are `utf8`, bytes `binary`; floats that Arrow lacks are `float`,
/// which has all their values. There are no complex numbers: their type is that of their parts.
#[must_use]
pub fn arrow_type(dtype: DataType) -> ArrowType {
    match dtype {
        DataType::Float32 => ArrowType::Float32,
        DataType::Float64 => ArrowType::Float64,
        DataType::Int8 => ArrowType::Int8,
        DataType::Int16 => ArrowType::Int16,
        DataType::Int32 => ArrowType::Int32,
        DataType::Int64 => ArrowType::Int64,
        DataType::Uint8 => ArrowType::UInt8,
        DataType::Uint16 => ArrowType::UInt16,
        DataType::Uint32 => ArrowType::UInt32,
        DataType::Uint64 => ArrowType::UInt64,
        DataType::Bool => ArrowType::Boolean,
        DataType::Float16 => ArrowType::Float16,
        DataType::BFloat16
        | DataType::Float8E4m3Fn
        | DataType::Float8E5m2
        | DataType::Float8E4m3Fnuz
        | DataType::Float8E5m2Fnuz
        | DataType::Complex64 => ArrowType::Float32,
        DataType::Complex128 => ArrowType::Float64,
        DataType::Bytes => ArrowType::Binary,
        _ => ArrowType::Utf8,
    }
}

fn list_type(item: ArrowType, size: Option<usize>) -> ArrowType {
    let item = Arc::new(Field::new_list_field(item, true));
    match size.filter(|size| *size > 0).and_then(|size| i32::try_from(size).ok()) {
        Some(size) => ArrowType::FixedSizeList(item, size),
        None => ArrowType::List(item),
    }
}

fn lists(items: ArrayRef, n_lists: usize, size: usize, is_fixed: bool) -> Result<ArrayRef, arrow_schema::ArrowError> {
    let field = Arc::new(Field::new_list_field(items.data_type().clone(), true));
    // `column` has checked the numbers of elements and lists, so that the offsets do not overflow.
    match i32::try_from(size) {
        Ok(size) if is_fixed => Ok(Arc::new(FixedSizeListArray::try_new(field, size, items, None)?)),
        _ => {
            let offsets = OffsetBuffer::<i32>::from_lengths(std::iter::repeat_n(size, n_lists));
            Ok(Arc::new(ListArray::try_new(field, offsets, items, None)?))
        }
    }
}

/// Copies the first elements out of memory that the runner may still change.
fn numbers(tensor: &NumericTensor, n_elements: usize) -> Option<ArrayRef> {
    match tensor.dtype() {
        DataType::Float32 => primitive::<Float32Type>(tensor, n_elements),
        DataType::Float64 => primitive::<Float64Type>(tensor, n_elements),
        DataType::Int8 => primitive::<Int8Type>(tensor, n_elements),
        DataType::Int16 => primitive::<Int16Type>(tensor, n_elements),
        DataType::Int32 => primitive::<Int32Type>(tensor, n_elements),
        DataType::Int64 => primitive::<Int64Type>(tensor, n_elements),
        DataType::Uint8 => primitive::<UInt8Type>(tensor, n_elements),
        DataType::Uint16 => primitive::<UInt16Type>(tensor, n_elements),
        DataType::Uint32 => primitive::<UInt32Type>(tensor, n_elements),
        DataType::Uint64 => primitive::<UInt64Type>(tensor, n_elements),
        DataType::Float16 => primitive::<Float16Type>(tensor, n_elements),
        DataType::Bool => {
            let elements = tensor.as_slice::<BoolByte>().ok()?.get(..n_elements)?;
            Some(Arc::new(elements.iter().map(|element| Some(element.get())).collect::<BooleanArray>()))
        }
        dtype if dtype.is_float() => {
            let carrier = carton_tensor::carried(&tensor.clone().into()).ok()?;
            primitive::<Float32Type>(carrier.as_numeric()?, n_elements)
        }
        _ => None,
    }
}

fn primitive<T: ArrowPrimitiveType<Native: Element>>(tensor: &NumericTensor, n_elements: usize) -> Option<ArrayRef> {
    let elements = tensor.as_slice::<T::Native>().ok()?.get(..n_elements)?;
    Some(Arc::new(PrimitiveArray::<T>::new(ScalarBuffer::from(elements.to_vec()), None)))
}

fn strings(output: &OutputPlan, tensor: &StringTensor, n_elements: usize) -> Result<ArrayRef, RowsError> {
    let elements = tensor.elements().get(..n_elements).unwrap_or_default();
    let n_bytes: usize = elements.iter().map(String::len).sum();
    if i32::try_from(n_bytes).is_err() {
        return Err(RowsError::LargeText { output: escaped(&output.name), n_bytes });
    }
    Ok(Arc::new(StringArray::from_iter_values(elements)))
}

fn bytes(output: &OutputPlan, tensor: &BytesTensor, n_elements: usize) -> Result<ArrayRef, RowsError> {
    let elements = tensor.elements().get(..n_elements).unwrap_or_default();
    let n_bytes: usize = elements.iter().map(Vec::len).sum();
    if i32::try_from(n_bytes).is_err() {
        return Err(RowsError::LargeText { output: escaped(&output.name), n_bytes });
    }
    Ok(Arc::new(BinaryArray::from_iter_values(elements)))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn undeclared() -> OutputPlan {
        let (name, column) = ("y".to_owned(), "y".to_owned());
        OutputPlan { name, column, dtype: None, row_shape: RowShape(None), is_optional: false }
    }

    /// Compares the type and the length of the column of an output, or the error.
    fn check(declared: Option<&[Option<usize>]>, shape: &[usize], n_rows: usize, expected: &str) {
        let row_shape = RowShape(declared.map(<[_]>::to_vec));
        let output = OutputPlan { dtype: Some(DataType::Uint8), row_shape, ..undeclared() };
        let n_elements = shape.iter().fold(1_usize, |product, size| product.saturating_mul(*size));
        let tensor = NumericTensor::from_vec((0..n_elements).map(|i| i as u8).collect(), shape.to_vec()).unwrap();
        let found = match column(&output, &tensor.into(), n_rows, shape.first().copied().unwrap_or(1)) {
            Ok(column) => format!("{} {}", column.len(), column.data_type()),
            Err(error) => error.to_string(),
        };
        assert_eq!(found, expected);
        let field = declared_field(&output).map(|field| field.data_type().to_string());
        assert!(declared.is_none() || found.ends_with(&field.unwrap()) || found.contains("output"), "{found}");
    }

    #[test]
    fn outputs_become_lists() {
        check(Some(&[]), &[3], 3, "3 UInt8");
        check(None, &[3, 2], 3, "3 List(UInt8)");
        check(Some(&[Some(2)]), &[3, 2], 3, "3 FixedSizeList(2 x UInt8)");
        check(Some(&[None, Some(2)]), &[3, 4, 2], 3, "3 List(FixedSizeList(2 x UInt8))");
        check(Some(&[Some(0)]), &[3, 0], 3, "3 List(UInt8)");
        check(Some(&[None]), &[3, 0], 3, "3 List(UInt8)");
        // Rows beyond the table are dropped.
        check(Some(&[Some(2)]), &[4, 2], 1, "1 FixedSizeList(2 x UInt8)");
    }

    #[test]
    fn columns_of_outputs_that_are_not_returned() {
        let check = |sizes: Option<&[Option<usize>]>, n_rows: usize, expected: &str| {
            let row_shape = RowShape(sizes.map(<[_]>::to_vec));
            let output = OutputPlan { dtype: Some(DataType::Uint8), row_shape, is_optional: true, ..undeclared() };
            let found = match missing(&output, n_rows) {
                Ok(column) => format!("{} of {} {}", column.null_count(), column.len(), column.data_type()),
                Err(error) => error.to_string(),
            };
            assert_eq!(found, expected);
        };
        check(Some(&[]), 3, "3 of 3 UInt8");
        check(Some(&[Some(2), None]), 3, "3 of 3 FixedSizeList(2 x List(UInt8))");
        check(
            None,
            3,
            "the model did not return the optional output `y`, and the carton does not declare the type of its column",
        );
        // Null lists of a fixed size take as much memory as others.
        let large = |n: u64| format!("output `y` has {n} elements in one call, more than a column can hold");
        check(Some(&[Some((1 << 31) - 1)]), 2, &large((1 << 32) - 2));
        check(Some(&[Some(1 << 30), Some(1 << 30)]), 1, &large(1 << 60));
        check(Some(&[None, Some(1 << 30)]), 3, "3 of 3 List(FixedSizeList(1073741824 x UInt8))");
        assert!(matches!(missing(&undeclared(), 1), Err(RowsError::NotReturned { .. })));
    }

    #[test]
    fn outputs_without_rows_or_with_too_many_are_refused() {
        check(None, &[], 1, "output `y` has shape [] for 1 rows: it has no value for each row");
        let large = "output `y` has 1099511627776 elements in one call, more than a column can hold";
        check(None, &[1, 1 << 40, 0], 1, large);
        check(None, &[1, 1 << 20, 1 << 20, 0], 1, large);
        check(None, &[2, 0, 1 << 40], 2, "2 List(List(UInt8))");
    }

    #[test]
    fn the_elements_are_those_of_the_first_rows() {
        let output = undeclared();
        let strings = StringTensor::new(["a", "b", "c", "d"].map(str::to_owned).to_vec(), vec![2, 2]).unwrap();
        let found = column(&output, &strings.into(), 1, 2).unwrap();
        let lists = found.as_any().downcast_ref::<ListArray>().unwrap();
        assert_eq!(lists.values().as_any().downcast_ref::<StringArray>().unwrap(), &StringArray::from(vec!["a", "b"]));
    }

    #[test]
    fn elements_have_the_type_that_arrow_has() {
        let column_of = |tensor: Tensor| column(&undeclared(), &tensor, 2, 2).map_err(|error| error.to_string());
        let check = |tensor: Tensor, expected: ArrayRef| {
            assert_eq!(arrow_type(tensor.dtype().unwrap()), *expected.data_type());
            assert_eq!(&column_of(tensor).unwrap(), &expected);
        };
        let bools = vec![BoolByte(1), BoolByte(0)];
        check(Tensor::from_vec(bools, vec![2]).unwrap(), Arc::new(BooleanArray::from(vec![true, false])));
        let halves = [1.5, -2.0].map(carton_tensor::f16::from_f32).to_vec();
        let half_column = PrimitiveArray::<Float16Type>::from_iter_values(halves.clone());
        check(Tensor::from_vec(halves, vec![2]).unwrap(), Arc::new(half_column));
        let floats = [1.5, -2.0].map(carton_tensor::bf16::from_f32).to_vec();
        let expected = PrimitiveArray::<Float32Type>::from_iter_values([1.5, -2.0]);
        check(Tensor::from_vec(floats, vec![2]).unwrap(), Arc::new(expected.clone()));
        let floats = [1.5, -2.0].map(|float| carton_tensor::Float8E5m2::from_f64(float).unwrap()).to_vec();
        check(Tensor::from_vec(floats, vec![2]).unwrap(), Arc::new(expected));
        let blobs = Tensor::from_bytes([b"a\0".to_vec(), b"\xff".to_vec()], vec![2]).unwrap();
        check(blobs, Arc::new(BinaryArray::from_iter_values([b"a\0".as_slice(), b"\xff"])));
        let complex = Tensor::from_vec(vec![carton_tensor::Complex::new(1.0_f32, 2.0); 2], vec![2]).unwrap();
        assert_eq!(column_of(complex).unwrap_err(), "output `y` is complex64: tables have no complex numbers");
    }
}
