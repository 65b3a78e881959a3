//! Columns of extension types become inputs by what they mean (spec/dataset.md §4.2.1). Beside pyarrow, the tests of `carton-dataset` and of
//! the Python module compare them.

use std::sync::Arc;

use arrow_array::{
    Array, ArrayRef, BooleanArray, FixedSizeListArray, Float32Array, Int8Array, RecordBatch, StringArray,
};
use arrow_schema::{Field, Schema};
use carton_core::ErrorKind;

use crate::{Echo, chain, column, joined, lengths, map_all, table};

fn fixed_lists(items: ArrayRef, size: i32) -> ArrayRef {
    let field = Arc::new(Field::new_list_field(items.data_type().clone(), true));
    Arc::new(FixedSizeListArray::new(field, size, items, None))
}

/// A table with a column `x` of an extension type.
fn extended(stored: ArrayRef, name: &str, metadata: &str) -> RecordBatch {
    let metadata = [("ARROW:extension:name", name), ("ARROW:extension:metadata", metadata)];
    let metadata = metadata.map(|(key, value)| (key.to_owned(), value.to_owned()));
    let field = Field::new("x", stored.data_type().clone(), true).with_metadata(metadata);
    RecordBatch::try_new(Arc::new(Schema::new(vec![field])), vec![stored]).unwrap()
}

/// Tensors of a logical shape [2, 3] that are stored with the dimensions exchanged.
fn turned(items: ArrayRef) -> RecordBatch {
    extended(fixed_lists(items, 6), "arrow.fixed_shape_tensor", r#"{"shape": [3, 2], "permutation": [1, 0]}"#)
}

async fn check(dtype: &str, shape: &str, rows: RecordBatch, expected: ArrayRef) {
    let echo = Echo::of(&[("x", dtype, shape)]).await;
    let results = map_all(echo.map(&rows), std::slice::from_ref(&rows)).await;
    let results = results.unwrap_or_else(|error| panic!("{}", chain(&error)));
    assert_eq!(lengths(&results), [rows.num_rows()]);
    assert_eq!(&column(&results[0], "x"), &expected);
    let slices: Vec<RecordBatch> = (0..rows.num_rows()).map(|row| rows.slice(row, 1)).collect();
    let results = map_all(echo.map(&rows), &slices).await.unwrap();
    assert_eq!(&column(&joined(&results), "x"), &expected);
}

#[tokio::test]
async fn tensors_are_in_logical_order() {
    let stored = || Arc::new(Float32Array::from_iter_values((0..12).map(|i| i as f32))) as ArrayRef;
    let logical: ArrayRef =
        Arc::new(Float32Array::from_iter_values([0, 2, 4, 1, 3, 5, 6, 8, 10, 7, 9, 11].map(|i: u8| f32::from(i))));
    check("float32", "['n', 2, 3]", turned(stored()), fixed_lists(fixed_lists(logical.clone(), 3), 2)).await;
    // The declared shape may split or join the dimensions.
    check("float32", "['n', 6]", turned(stored()), fixed_lists(logical.clone(), 6)).await;
    check("float32", "['n', 1, 2, 3]", turned(stored()), fixed_lists(fixed_lists(fixed_lists(logical, 3), 2), 1)).await;
    let letters = |order: &str| Arc::new(StringArray::from_iter_values(order.split(' '))) as ArrayRef;
    let expected = fixed_lists(fixed_lists(letters("a c e b d f"), 3), 2);
    check("string", "['n', 2, 3]", turned(letters("a b c d e f")), expected).await;
    let echo = Echo::of(&[("x", "float32", "['n', 3, 2]")]).await;
    let rows = turned(stored());
    let error = map_all(echo.map(&rows), std::slice::from_ref(&rows)).await.unwrap_err();
    assert_eq!(chain(&error), "row 0 of column `x` has shape [2, 3], expected [3, 2] for input `x`");
}

#[tokio::test]
async fn booleans_and_json() {
    let bytes: ArrayRef = Arc::new(Int8Array::from(vec![0, 1, -128]));
    check(
        "float32",
        "['n']",
        extended(bytes.clone(), "arrow.bool8", ""),
        Arc::new(Float32Array::from(vec![0.0, 1.0, 1.0])),
    )
    .await;
    let mask = "name = 'x'\ndtype = 'uint8'\nelement = 'bool'\nshape = ['n']\n";
    let echo = Echo::new(&format!("[[input]]\n{mask}[[output]]\n{mask}")).await;
    let plain: ArrayRef = Arc::new(BooleanArray::from(vec![false, true, true]));
    for rows in [table([("x", plain)]), extended(bytes, "arrow.bool8", "")] {
        let results = map_all(echo.map(&rows), std::slice::from_ref(&rows)).await.unwrap();
        let expected: ArrayRef = Arc::new(BooleanArray::from(vec![false, true, true]));
        assert_eq!(&column(&results[0], "x"), &expected);
    }
    let texts: ArrayRef = Arc::new(StringArray::from(vec!["{}", "[1]"]));
    check("string", "['n']", extended(texts.clone(), "arrow.json", ""), texts).await;
}

#[tokio::test]
async fn other_types_are_refused_before_the_model_is_called() {
    let numbers = || Arc::new(Float32Array::from(vec![1.0])) as ArrayRef;
    let echo = Echo::of(&[("x", "float32", "['n']")]).await;
    let check = |rows: &RecordBatch, expected: &str| {
        let error = echo.map(rows).columns().unwrap_err();
        assert_eq!((chain(&error), error.kind()), (expected.to_owned(), ErrorKind::InvalidInput));
    };
    let unknown = "column `x`: values of extension type `their.type` cannot become tensors";
    check(&extended(numbers(), "their.type", ""), unknown);
    let wrong = "column `x`: extension type `arrow.fixed_shape_tensor`: its values are stored as Float32, expected fixed-size lists";
    check(&extended(numbers(), "arrow.fixed_shape_tensor", r#"{"shape": [1]}"#), wrong);
    // A column that is only kept may be of any type.
    let echo = Echo::of(&[("y", "float32", "['n']")]).await;
    let kept = extended(numbers(), "their.type", "");
    let field = Field::new("y", arrow_schema::DataType::Float32, true);
    let schema = Arc::new(Schema::new(vec![kept.schema().field(0).clone(), field]));
    let rows = RecordBatch::try_new(schema, vec![numbers(), numbers()]).unwrap();
    let results = map_all(echo.map(&rows), std::slice::from_ref(&rows)).await.unwrap();
    assert_eq!(results[0].schema().field(0), rows.schema().field(0));
}

#[tokio::test]
async fn record_batches_of_another_extension_type_are_refused() {
    let lists = || fixed_lists(Arc::new(Float32Array::from(vec![0.0; 6])), 6);
    let tensors = |metadata: &str| extended(lists(), "arrow.fixed_shape_tensor", metadata);
    let first = tensors(r#"{"shape": [2, 3]}"#);
    let echo = Echo::of(&[("x", "float32", "['n', 2, 3]")]).await;
    for other in [tensors(r#"{"shape": [3, 2], "permutation": [1, 0]}"#), table([("x", lists())])] {
        let error = map_all(echo.map(&first), &[first.clone(), other]).await.unwrap_err();
        assert_eq!(chain(&error), "a record batch has other columns than the schema says");
    }
    let named = tensors(r#"{"shape": [2, 3], "dim_names": ["a", "b"]}"#);
    assert_eq!(lengths(&map_all(echo.map(&first), &[first.clone(), named]).await.unwrap()), [2]);
}
