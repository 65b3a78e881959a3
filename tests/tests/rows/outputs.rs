//! Outputs become columns, beside those that are kept.

use std::sync::Arc;

use arrow_array::types::{Float32Type, Int8Type};
use arrow_array::{
    ArrayRef, BinaryArray, DictionaryArray, Int64Array, ListArray, RecordBatch, StringArray, StructArray,
};
use arrow_buffer::OffsetBuffer;
use arrow_schema::{DataType, Field, Schema};
use carton_core::ErrorKind;
use carton_rows::{Keep, MapRows};

use crate::{Echo, chain, column, joined, map_all, names, table};

const PAIRS: (&str, &str, &str) = ("x", "float32", "['n', 2]");

fn rows() -> RecordBatch {
    table([
        ("a", Arc::new(StringArray::from(vec![Some("one"), None, Some("three")]))),
        ("x", Arc::new(ListArray::from_iter_primitive::<Float32Type, _, _>([Some([Some(1.0), Some(2.0)]); 3]))),
        ("b", Arc::new(Int64Array::from(vec![1, 2, 3]))),
    ])
}

#[tokio::test]
async fn columns_are_kept_and_named_as_the_caller_says() {
    let echo = Echo::of(&[PAIRS]).await;
    let rows = rows();
    let these = |names: &[&str]| Keep::These(names.iter().map(|name| (*name).to_owned()).collect());
    let check = async |map: MapRows<'_>, read: &[&str], expected: &[&str]| {
        assert_eq!(map.columns().unwrap(), read);
        let mapped = joined(&map_all(map, std::slice::from_ref(&rows)).await.unwrap());
        assert_eq!(names(&mapped), expected);
        for name in expected.iter().filter(|name| names(&rows).iter().any(|column| column == *name) && **name != "x") {
            assert_eq!(&column(&mapped, name), &column(&rows, name));
        }
        mapped
    };
    check(echo.map(&rows), &["a", "x", "b"], &["a", "b", "x"]).await;
    check(echo.map(&rows).keep(Keep::Others).output("x", "y"), &["a", "x", "b"], &["a", "b", "y"]).await;
    let all = check(echo.map(&rows).keep(Keep::All).output("x", "y"), &["a", "x", "b"], &["a", "x", "b", "y"]).await;
    assert_eq!(&column(&all, "x"), &column(&rows, "x"));
    check(echo.map(&rows).keep(these(&[])), &["x"], &["x"]).await;
    // In the order of the table. The input itself can be kept.
    check(echo.map(&rows).keep(these(&["b", "a", "b"])), &["a", "x", "b"], &["a", "b", "x"]).await;
    check(echo.map(&rows).keep(these(&["x"])).output("x", "copy"), &["x"], &["x", "copy"]).await;
}

/// The schema is known before the first call, and the results have it.
#[tokio::test]
async fn the_schema_of_declared_outputs_is_known_at_once() {
    let echo = Echo::of(&[PAIRS, ("s", "string", "['n']"), ("f", "uint16", "['n', '*', 3]")]).await;
    let texts: ArrayRef = Arc::new(StringArray::from_iter_values(["a"]));
    let flat: ArrayRef =
        Arc::new(ListArray::from_iter_primitive::<arrow_array::types::UInt16Type, _, _>([Some((0..6).map(Some))]));
    let one = rows().slice(0, 1);
    let rows = table([("id", column(&one, "b")), ("x", column(&one, "x")), ("s", texts), ("f", flat)]);
    let mut mapped = echo.map(&rows).await.unwrap();
    let schema = mapped.schema().unwrap().clone();
    let shown: Vec<String> =
        schema.fields().iter().map(|field| format!("{} {}", field.name(), field.data_type())).collect();
    assert_eq!(shown, ["id Int64", "x FixedSizeList(2 x Float32)", "s Utf8", "f List(FixedSizeList(3 x UInt16))"]);
    mapped.push(&rows).unwrap();
    mapped.end();
    assert_eq!(mapped.next().await.unwrap().unwrap().schema(), schema);
    let undeclared = Echo::new("").await;
    let mut mapped = undeclared.map(&rows).input("x", "x").await.unwrap();
    assert!(mapped.schema().is_none());
    mapped.push(&rows).unwrap();
    mapped.end();
    let result = mapped.next().await.unwrap().unwrap();
    assert_eq!(mapped.schema(), Some(&result.schema()));
}

#[tokio::test]
async fn a_table_without_rows() {
    let echo = Echo::of(&[PAIRS]).await;
    let empty = rows().slice(0, 0);
    for batches in [vec![], vec![empty.clone()], vec![empty.clone(); 3]] {
        assert!(map_all(echo.map(&empty), &batches).await.unwrap().is_empty());
    }
}

#[tokio::test]
async fn two_columns_of_one_name_are_refused() {
    let echo = Echo::of(&[PAIRS, ("y", "float32", "['n', 2]")]).await;
    let rows = table([("x", column(&rows(), "x")), ("y", column(&rows(), "x")), ("z", column(&rows(), "b"))]);
    let refused = |map: MapRows<'_>| chain(&map.columns().unwrap_err());
    assert_eq!(refused(echo.map(&rows).output("x", "z")), "there are two columns `z` in the result");
    assert_eq!(refused(echo.map(&rows).output("x", "o").output("y", "o")), "there are two columns `o` in the result");
    assert_eq!(refused(echo.map(&rows).keep(Keep::All)), "there are two columns `x` in the result");
    // The names of undeclared outputs are known after the first call.
    let echo = Echo::new("").await;
    let error = map_all(echo.map(&rows).input("z", "x"), std::slice::from_ref(&rows)).await.unwrap_err();
    assert_eq!(chain(&error), "there are two columns `z` in the result");
}

/// A table in which a name occurs twice: the first column is the input, and the other one is kept.
#[tokio::test]
async fn a_table_with_two_columns_of_one_name() {
    let echo = Echo::of(&[PAIRS]).await;
    let rows = rows();
    let field = |name: &str| rows.schema().field_with_name(name).unwrap().clone();
    let schema = Schema::new(vec![field("x"), field("b").with_name("x")]);
    let twice = RecordBatch::try_new(Arc::new(schema), vec![column(&rows, "x"), column(&rows, "b")]).unwrap();
    let error = map_all(echo.map(&twice), std::slice::from_ref(&twice)).await.unwrap_err();
    assert_eq!(chain(&error), "there are two columns `x` in the result");
    let mapped = map_all(echo.map(&twice).output("x", "y"), std::slice::from_ref(&twice)).await.unwrap();
    assert_eq!(names(&mapped[0]), ["x", "y"]);
    assert_eq!(&column(&mapped[0], "x"), &column(&rows, "b"));
}

#[tokio::test]
async fn an_output_without_a_value_for_each_row_is_an_error() {
    // The runner returns three numbers for two rows, and declares nothing.
    let echo = Echo::new("").await;
    let rows = table([("x", Arc::new(Int64Array::from(vec![1, 2])))]);
    let constant = carton_core::NumericTensor::from_vec(vec![1_u8; 3], vec![3]).unwrap();
    let map = echo.map(&rows).input("x", "x").constant("k", constant);
    let error = map_all(map, std::slice::from_ref(&rows)).await.unwrap_err();
    assert_eq!(chain(&error), "output `k` has shape [3] for 2 rows: it has no value for each row");
    assert_eq!(error.kind(), ErrorKind::Model);
    let scalar = carton_core::NumericTensor::from_vec(vec![1_u8], vec![]).unwrap();
    let map = echo.map(&rows).input("x", "x").constant("k", scalar);
    let error = map_all(map, std::slice::from_ref(&rows)).await.unwrap_err();
    assert_eq!(chain(&error), "output `k` has shape [] for 2 rows: it has no value for each row");
    let error =
        map_all(echo.map(&rows).input("x", "x").output("y", "y"), std::slice::from_ref(&rows)).await.unwrap_err();
    assert_eq!(chain(&error), "the model returned no output `y`");
}

/// Tensors without elements may claim any size.
#[tokio::test]
async fn outputs_that_claim_many_lists_of_nothing_are_refused() {
    let echo = Echo::new("").await;
    let structs = |shape: &[i64]| {
        let data: ArrayRef = Arc::new(BinaryArray::from_iter_values([b""; 2]));
        let sizes: ArrayRef = Arc::new(Int64Array::from([shape, shape].concat()));
        let item = Arc::new(Field::new_list_field(DataType::Int64, true));
        let shapes: ArrayRef =
            Arc::new(ListArray::new(item, OffsetBuffer::from_lengths([shape.len(); 2]), sizes, None));
        let dtypes: ArrayRef = Arc::new(StringArray::from_iter_values(["U8"; 2]));
        let fields = [("data", data), ("shape", shapes), ("dtype", dtypes)]
            .map(|(name, array)| (Arc::new(Field::new(name, array.data_type().clone(), true)), array));
        table([("x", Arc::new(StructArray::from(fields.to_vec())))])
    };
    for (shape, expected) in [
        (vec![1 << 40, 0], "output `x` has 2199023255552 elements in one call, more than a column can hold"),
        (vec![1 << 31, 0], "output `x` has 4294967296 elements in one call, more than a column can hold"),
        (vec![1 << 24, 0], "output `x` has 33554432 elements in one call, more than a column can hold"),
        (vec![1 << 30, 0, 5], "output `x` has 2147483648 elements in one call, more than a column can hold"),
    ] {
        let rows = structs(&shape);
        let error = map_all(echo.map(&rows).input("x", "x"), std::slice::from_ref(&rows)).await.unwrap_err();
        assert_eq!(chain(&error), expected, "{shape:?}");
    }
    for shape in [vec![0, 1 << 40], vec![1 << 62, 0], vec![1 << 62, 4, 0]] {
        let rows = structs(&shape);
        let result = map_all(echo.map(&rows).input("x", "x"), std::slice::from_ref(&rows)).await;
        assert!(result.is_ok() || !chain(&result.unwrap_err()).is_empty(), "{shape:?}");
    }
}

/// Columns that are kept may have any type.
#[tokio::test]
async fn dictionaries_that_differ_are_kept() {
    let echo = Echo::of(&[PAIRS]).await;
    let batch = |words: [&str; 3]| {
        let dictionary: DictionaryArray<Int8Type> = words.into_iter().collect();
        table([("w", Arc::new(dictionary)), ("x", column(&rows(), "x"))])
    };
    let batches = [batch(["a", "b", "a"]), batch(["c", "b", "d"])];
    let mapped = joined(&map_all(echo.map(&batches[0]), &batches).await.unwrap());
    let words = column(&mapped, "w");
    let words = arrow_array::cast::as_dictionary_array::<Int8Type>(&words);
    let words: Vec<&str> = words.downcast_dict::<StringArray>().unwrap().into_iter().map(Option::unwrap).collect();
    assert_eq!(words, ["a", "b", "a", "c", "b", "d"]);
}
