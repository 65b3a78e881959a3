//! Arbitrary text as the metadata of `arrow.fixed_shape_tensor`, for two lists of as many numbers as the first byte says. The elements of
//! tensors that are accepted are those that the metadata puts there, looked up one by one.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, FixedSizeListArray, Int32Array};
use arrow_schema::{DataType, Field};
use carton_dataset::column::{Column, Conversion, ExtensionType};
use serde_json::Value;

/// Checks these bytes. Returns whether they are the metadata of tensors.
pub fn check(bytes: &[u8]) -> bool {
    let Some((length, metadata)) = bytes.split_first() else { return false };
    let Ok(metadata) = std::str::from_utf8(metadata) else { return false };
    let length = i32::from(*length);
    let item = Arc::new(Field::new_list_field(DataType::Int32, true));
    let numbers: ArrayRef = Arc::new(Int32Array::from_iter_values(0..2 * length));
    let stored = FixedSizeListArray::try_new_with_length(item, length, numbers, None, 2).expect("there are so many");
    let stored: ArrayRef = Arc::new(stored);
    let keys = [("ARROW:extension:name", "arrow.fixed_shape_tensor"), ("ARROW:extension:metadata", metadata)];
    let keys = keys.map(|(key, value)| (key.to_owned(), value.to_owned()));
    let field = Field::new("x", stored.data_type().clone(), true).with_metadata(keys);
    let Ok(tensors) = ExtensionType::of(&field) else { return false };
    let logical = tensors.logical(&stored).expect("no tensor is missing");
    assert_eq!((logical.data_type(), logical.len()), (tensors.data_type(), 2));
    logical.to_data().validate_full().expect("it was made of a valid array");

    let column = Column::new(&field, &Conversion::default()).expect("they are tensors of numbers");
    let runs = column.runs(&stored, 0).expect("no tensor is missing");
    let [run] = runs.as_slice() else { panic!("{} runs", runs.len()) };
    let found: &[i32] = run.bytes().typed_data();
    let (shape, expected) = expected(&serde_json::from_str(metadata).expect("it was accepted"), length as usize);
    assert_eq!((run.shape(), run.n_rows()), (shape.as_slice(), 2));
    assert_eq!(found, expected);
    true
}

/// The logical shape, and the elements of both tensors.
fn expected(metadata: &Value, length: usize) -> (Vec<usize>, Vec<i32>) {
    let sizes = |key: &str| -> Vec<usize> {
        let list = metadata.get(key).and_then(Value::as_array).into_iter().flatten();
        list.map(|size| size.as_u64().expect("it was accepted") as usize).collect()
    };
    let (shape, mut permutation) = (sizes("shape"), sizes("permutation"));
    if permutation.is_empty() {
        permutation = (0..shape.len()).collect();
    }
    let logical: Vec<usize> = permutation.iter().map(|dimension| shape[*dimension]).collect();
    let mut elements = Vec::new();
    for tensor in 0..2 {
        for position in 0..length {
            // The index of the element, from the last dimension to the first.
            let (mut rest, mut index) = (position, vec![0; shape.len()]);
            for dimension in (0..shape.len()).rev() {
                index[permutation[dimension]] = rest % logical[dimension];
                rest /= logical[dimension];
            }
            let stored = shape.iter().zip(&index).fold(0, |stored, (size, index)| stored * size + index);
            elements.push((tensor * length + stored) as i32);
        }
    }
    (logical, elements)
}
