//! Columns of every type become inputs.

use std::sync::Arc;

use arrow_array::types::{Float64Type, Int8Type, Int32Type, Int64Type};
use arrow_array::{
    Array, ArrayRef, BinaryArray, BinaryViewArray, BooleanArray, DictionaryArray, FixedSizeBinaryArray,
    FixedSizeListArray, Float32Array, Float64Array, Int8Array, Int16Array, Int32Array, Int64Array, LargeBinaryArray,
    LargeListArray, LargeStringArray, ListArray, StringArray, StringViewArray, StructArray, UInt8Array, UInt16Array,
    UInt32Array, UInt64Array,
};
use arrow_buffer::OffsetBuffer;
use arrow_schema::{DataType, Field};

use crate::{Echo, column, joined, lengths, map_all, table};

/// Numbers of float32 from 0 on.
fn counted(n: usize) -> ArrayRef {
    Arc::new(Float32Array::from_iter_values((0..n).map(|i| i as f32)))
}

/// Lists of `size` items each, nested in lists if `items` are lists.
fn lists(items: ArrayRef, size: usize) -> ArrayRef {
    let field = Arc::new(Field::new_list_field(items.data_type().clone(), true));
    let offsets = OffsetBuffer::from_lengths(std::iter::repeat_n(size, items.len() / size));
    Arc::new(ListArray::new(field, offsets, items, None))
}

fn large_lists(items: ArrayRef, size: usize) -> ArrayRef {
    let field = Arc::new(Field::new_list_field(items.data_type().clone(), true));
    let offsets = OffsetBuffer::from_lengths(std::iter::repeat_n(size, items.len() / size));
    Arc::new(LargeListArray::new(field, offsets, items, None))
}

fn fixed_lists(items: ArrayRef, size: i32) -> ArrayRef {
    let field = Arc::new(Field::new_list_field(items.data_type().clone(), true));
    Arc::new(FixedSizeListArray::new(field, size, items, None))
}

/// Checks that a column becomes an input of this dtype and shape, whole and in slices, and that the output is `expected`.
async fn check(dtype: &str, shape: &str, values: ArrayRef, expected: ArrayRef) {
    let what = format!("{dtype} {shape} from {}", values.data_type());
    let echo = Echo::of(&[("x", dtype, shape)]).await;
    let whole = table([("x", values)]);
    let results = map_all(echo.map(&whole), std::slice::from_ref(&whole)).await;
    let results = results.unwrap_or_else(|error| panic!("{what}: {}", crate::chain(&error)));
    assert_eq!(lengths(&results), [whole.num_rows()], "{what}");
    assert_eq!(&column(&results[0], "x"), &expected, "{what}");
    // Slices of arrays have offsets into their buffers.
    let slices = [whole.slice(1, 1), whole.slice(2, 0), whole.slice(2, whole.num_rows() - 2)];
    let results = map_all(echo.map(&whole), &slices).await.unwrap();
    let rest = expected.slice(1, expected.len() - 1);
    assert_eq!(&column(&joined(&results), "x"), &rest, "{what}, in slices");
}

#[tokio::test]
async fn numbers_of_every_dtype() {
    let columns: [(&str, ArrayRef); 10] = [
        ("float32", Arc::new(Float32Array::from(vec![1.5, f32::MAX, -0.0]))),
        ("float64", Arc::new(Float64Array::from(vec![0.1, f64::NEG_INFINITY, 1e300]))),
        ("int8", Arc::new(Int8Array::from(vec![i8::MIN, 0, i8::MAX]))),
        ("int16", Arc::new(Int16Array::from(vec![i16::MIN, 0, i16::MAX]))),
        ("int32", Arc::new(Int32Array::from(vec![i32::MIN, 0, i32::MAX]))),
        ("int64", Arc::new(Int64Array::from(vec![i64::MIN, 0, i64::MAX]))),
        ("uint8", Arc::new(UInt8Array::from(vec![0, 1, u8::MAX]))),
        ("uint16", Arc::new(UInt16Array::from(vec![0, 1, u16::MAX]))),
        ("uint32", Arc::new(UInt32Array::from(vec![0, 1, u32::MAX]))),
        ("uint64", Arc::new(UInt64Array::from(vec![0, 1, u64::MAX]))),
    ];
    for (dtype, values) in columns {
        check(dtype, "['n']", values.clone(), values).await;
    }
}

#[tokio::test]
async fn numbers_are_converted_exactly() {
    let int32: ArrayRef = Arc::new(Int32Array::from(vec![-1, 7, 1 << 24]));
    check("int64", "['n']", int32.clone(), Arc::new(Int64Array::from(vec![-1, 7, 1 << 24]))).await;
    check("float64", "['n']", int32, Arc::new(Float64Array::from(vec![-1.0, 7.0, 16_777_216.0]))).await;
    // Floats are rounded.
    let wide: ArrayRef = Arc::new(Float64Array::from(vec![0.1, f64::NEG_INFINITY, -2.5]));
    check("float32", "['n']", wide, Arc::new(Float32Array::from(vec![0.1, f32::NEG_INFINITY, -2.5]))).await;
    let bools: ArrayRef = Arc::new(BooleanArray::from(vec![true, false, true]));
    check("float32", "['n']", bools, Arc::new(Float32Array::from(vec![1.0, 0.0, 1.0]))).await;
}

#[tokio::test]
async fn strings_of_every_type() {
    let texts = ["", "🙂 \0", "a string that is longer than a view holds"];
    let expected: ArrayRef = Arc::new(StringArray::from_iter_values(texts));
    check("string", "['n']", expected.clone(), expected.clone()).await;
    check("string", "['n']", Arc::new(LargeStringArray::from_iter_values(texts)), expected.clone()).await;
    check("string", "['n']", Arc::new(StringViewArray::from_iter_values(texts)), expected).await;
    let six: ArrayRef = Arc::new(StringArray::from_iter_values(["a", "b", "", "d", "e", "f"]));
    check("string", "['n', 2]", lists(six.clone(), 2), fixed_lists(six.clone(), 2)).await;
    check("string", "['n', 'm']", fixed_lists(six.clone(), 2), lists(six.clone(), 2)).await;
    check(
        "string",
        "['n', 2]",
        large_lists(Arc::new(StringViewArray::from_iter_values(["a", "b", "", "d", "e", "f"])), 2),
        fixed_lists(six, 2),
    )
    .await;
}

#[tokio::test]
async fn nested_lists_of_every_type() {
    let n = 3 * 2 * 4;
    let fixed = fixed_lists(fixed_lists(counted(n), 4), 2);
    let free = lists(lists(counted(n), 4), 2);
    check("float32", "['n', 2, 4]", free.clone(), fixed.clone()).await;
    check("float32", "['n', 2, 4]", fixed.clone(), fixed.clone()).await;
    check("float32", "['n', 2, 4]", large_lists(lists(counted(n), 4), 2), fixed.clone()).await;
    check("float32", "['n', 'a', 'b']", fixed.clone(), free).await;
    check("float32", "['n', '*', 4]", fixed.clone(), lists(fixed_lists(counted(n), 4), 2)).await;
    check("float32", "['n', 2, '*']", fixed, fixed_lists(lists(counted(n), 4), 2)).await;
}

#[tokio::test]
async fn values_take_the_declared_shape() {
    let n = 3 * 8;
    let expected = fixed_lists(fixed_lists(fixed_lists(counted(n), 2), 4), 1);
    check("float32", "['n', 1, 4, 2]", lists(counted(n), 8), expected.clone()).await;
    check("float32", "['n', 1, 4, 2]", fixed_lists(lists(counted(n), 2), 4), expected).await;
    // One size may be free.
    check("float32", "['n', 'm', 2]", lists(counted(n), 8), lists(fixed_lists(counted(n), 2), 4)).await;
    check("float32", "['n', 4, 'm']", lists(counted(n), 8), fixed_lists(lists(counted(n), 2), 4)).await;
    // A number is a list of one.
    check("float32", "['n', 1]", counted(4), fixed_lists(counted(4), 1)).await;
    check("float32", "['n']", fixed_lists(counted(4), 1), counted(4)).await;
    check(
        "string",
        "['n']",
        lists(Arc::new(StringArray::from_iter_values(["a", "b", "c"])), 1),
        Arc::new(StringArray::from_iter_values(["a", "b", "c"])),
    )
    .await;
}

#[tokio::test]
async fn empty_lists() {
    let field = Arc::new(Field::new_list_field(DataType::Float32, true));
    let empty: ArrayRef = Arc::new(ListArray::new(field, OffsetBuffer::from_lengths([0, 0, 0]), counted(0), None));
    check("float32", "['n', 'm']", empty.clone(), empty.clone()).await;
    check("float32", "['n', 0]", empty.clone(), empty).await;
}

#[tokio::test]
async fn binary_values_are_bytes_of_numbers() {
    let numbers: Vec<f32> = (0..6).map(|i| i as f32 / 4.0).collect();
    let bytes: Vec<Vec<u8>> =
        numbers.chunks(2).map(|pair| pair.iter().flat_map(|number| number.to_le_bytes()).collect()).collect();
    let free = lists(Arc::new(Float32Array::from(numbers.clone())), 2);
    let expected = fixed_lists(Arc::new(Float32Array::from(numbers)), 2);
    let of = || bytes.iter().map(Vec::as_slice);
    let columns: [ArrayRef; 4] = [
        Arc::new(BinaryArray::from_iter_values(of())),
        Arc::new(LargeBinaryArray::from_iter_values(of())),
        Arc::new(BinaryViewArray::from_iter_values(of())),
        Arc::new(FixedSizeBinaryArray::try_from_iter(of()).unwrap()),
    ];
    for values in columns {
        check("float32", "['n', 2]", values.clone(), expected.clone()).await;
        check("float32", "['n', 'm']", values, free.clone()).await;
    }
}

#[tokio::test]
async fn dictionaries_are_their_values() {
    let words: DictionaryArray<Int8Type> = ["b", "a", "b", "c"].into_iter().collect();
    check("string", "['n']", Arc::new(words), Arc::new(StringArray::from_iter_values(["b", "a", "b", "c"]))).await;
    let keys = Int32Array::from(vec![2, 0, 0, 1]);
    let numbers = DictionaryArray::<Int32Type>::new(keys.clone(), Arc::new(Int64Array::from(vec![5, 6, 7])));
    check("float64", "['n']", Arc::new(numbers), Arc::new(Float64Array::from(vec![7.0, 5.0, 5.0, 6.0]))).await;
    let vectors = DictionaryArray::<Int32Type>::new(keys, lists(counted(6), 2));
    let expected = Float32Array::from(vec![4.0, 5.0, 0.0, 1.0, 0.0, 1.0, 2.0, 3.0]);
    check("float32", "['n', 2]", Arc::new(vectors), fixed_lists(Arc::new(expected), 2)).await;
}

/// Structs of a flat list, a shape and the name of a dtype.
fn structs(data: ArrayRef, shapes: Vec<Vec<i64>>, dtypes: Vec<&str>) -> ArrayRef {
    let shapes = shapes.into_iter().map(|shape| Some(shape.into_iter().map(Some).collect::<Vec<_>>()));
    let shapes: ArrayRef = Arc::new(ListArray::from_iter_primitive::<Int64Type, _, _>(shapes));
    let dtypes: ArrayRef = Arc::new(StringArray::from(dtypes));
    let field = |name: &str, array: &ArrayRef| Arc::new(Field::new(name, array.data_type().clone(), true));
    let fields = [field("data", &data), field("shape", &shapes), field("dtype", &dtypes)];
    Arc::new(StructArray::from(fields.into_iter().zip([data, shapes, dtypes]).collect::<Vec<_>>()))
}

#[tokio::test]
async fn structs_have_a_shape_and_a_dtype() {
    let values = structs(lists(counted(18), 6), vec![vec![2, 3]; 3], vec!["F32"; 3]);
    check("float32", "['n', 2, 3]", values.clone(), fixed_lists(fixed_lists(counted(18), 3), 2)).await;
    check("float32", "['n', 'a', 'b']", values, lists(lists(counted(18), 3), 2)).await;
    let bytes: Vec<Vec<u8>> = (0..3_u8).map(|row| (row..row + 4).collect()).collect();
    let data = Arc::new(BinaryArray::from_iter_values(bytes.iter()));
    let values = structs(data, vec![vec![4]; 3], vec!["U8"; 3]);
    let expected: Vec<u8> = bytes.concat();
    check("uint8", "['n', 4]", values, fixed_lists(Arc::new(UInt8Array::from(expected)), 4)).await;
}

#[tokio::test]
async fn structs_of_different_shapes_and_dtypes_are_different_calls() {
    let echo = Echo::new("").await;
    let data =
        ListArray::from_iter_primitive::<Float64Type, _, _>([6, 6, 4, 4].map(|n| Some((0..n).map(|i| Some(i as f64)))));
    let shapes = vec![vec![2, 3], vec![2, 3], vec![2, 2], vec![2, 2]];
    let rows = table([("c", structs(Arc::new(data), shapes, vec!["F64", "F64", "F64", "F32"]))]);
    let mut mapped = echo.map(&rows).input("x", "c").await.unwrap();
    mapped.push(&rows).unwrap();
    mapped.end();
    let types: Vec<String> = [mapped.next().await, mapped.next().await]
        .map(|result| result.unwrap().unwrap())
        .iter()
        .map(|result| format!("{} {}", result.num_rows(), column(result, "x").data_type()))
        .collect();
    assert_eq!(types, ["2 List(List(Float64))", "1 List(List(Float64))"]);
    // Without a declaration the first call decides the type of the column.
    let error = mapped.next().await.unwrap().unwrap_err();
    assert_eq!(error.to_string(), "output `x` became List(List(Float32)), expected List(List(Float64)) as before");
    assert!(mapped.next().await.is_none());
}

/// Without a declaration the column's own dtype and shape are used.
#[tokio::test]
async fn a_carton_without_a_signature_takes_columns_as_they_are() {
    let echo = Echo::new("").await;
    let rows = table([
        ("id", Arc::new(Int64Array::from(vec![1, 2, 3]))),
        ("a", lists(counted(6), 2)),
        ("b", Arc::new(BooleanArray::from(vec![true, false, true]))),
        ("c", Arc::new(StringArray::from_iter_values(["x", "y", "z"]))),
    ]);
    let map = echo.map(&rows).input("v", "a").input("flag", "b").input("text", "c");
    let mapped = joined(&map_all(map, std::slice::from_ref(&rows)).await.unwrap());
    assert_eq!(crate::names(&mapped), ["id", "flag", "text", "v"]);
    assert_eq!(&column(&mapped, "v"), &lists(counted(6), 2));
    assert_eq!(&column(&mapped, "flag"), &column(&rows, "b"));
    assert_eq!(&column(&mapped, "text"), &column(&rows, "c"));
}

#[tokio::test]
async fn one_column_may_be_several_inputs() {
    let echo = Echo::of(&[("x", "float32", "['n']"), ("y", "float64", "['n']")]).await;
    let rows = table([("c", counted(3))]);
    let map = echo.map(&rows).input("x", "c").input("y", "c");
    let mapped = joined(&map_all(map, std::slice::from_ref(&rows)).await.unwrap());
    assert_eq!(crate::names(&mapped), ["x", "y"]);
    let expected: ArrayRef = Arc::new(Float64Array::from(vec![0.0, 1.0, 2.0]));
    assert_eq!((&column(&mapped, "x"), &column(&mapped, "y")), (&counted(3), &expected));
}

/// Other writers give the items of lists other names.
#[tokio::test]
async fn lists_of_items_with_other_names() {
    let item = Arc::new(Field::new("element", DataType::Float32, false));
    let values = ListArray::new(item, OffsetBuffer::from_lengths([2, 2, 2]), counted(6), None);
    check("float32", "['n', 2]", Arc::new(values), fixed_lists(counted(6), 2)).await;
}
