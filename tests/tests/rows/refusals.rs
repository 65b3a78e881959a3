//! Tables that a model cannot take, and the rows that errors name.

use std::sync::Arc;

use arrow_array::builder::{Float32Builder, ListBuilder, StringBuilder};
use arrow_array::types::{Float32Type, Int8Type, Int64Type};
use arrow_array::{
    ArrayRef, BinaryArray, BooleanArray, Date32Array, DictionaryArray, Float64Array, Int64Array, ListArray,
    RecordBatch, StringArray, StructArray,
};
use arrow_schema::Field;
use carton_core::{ErrorKind, NumericTensor};
use carton_rows::{Keep, MapRows};

use crate::{Echo, chain, map_all, table};

fn refused(map: MapRows<'_>) -> String {
    let error = map.columns().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    chain(&error)
}

#[tokio::test]
async fn names_that_do_not_exist() {
    let echo = Echo::of(&[("x", "float32", "['n']"), ("y", "float32", "['n']")]).await;
    let rows = table([("x", Arc::new(Int64Array::from(vec![1]))), ("a\n", Arc::new(Int64Array::from(vec![1])))]);
    let map = || echo.map(&rows);
    assert_eq!(refused(map()), r"input `y` has no column; the columns are `x`, `a\n`");
    assert_eq!(refused(map().input("y", "z")), r"input `y` has no column; the columns are `x`, `a\n`");
    assert_eq!(refused(map().input("z", "x")), "the model has no input `z`; it has `x`, `y`");
    assert_eq!(refused(map().input("y", "x").output("z", "z")), "the model has no output `z`; it has `x`, `y`");
    let one = || NumericTensor::from_vec(vec![1_f32], vec![1]).unwrap();
    assert_eq!(refused(map().constant("z", one())), "the model has no input `z`; it has `x`, `y`");
    let twice = map().input("y", "x").constant("y", one());
    assert_eq!(refused(twice), "input `y` is given twice: as a column and as a value for all rows");
    assert_eq!(refused(map().constant("x", one()).constant("y", one())), "no input of the model is a column");
    let keep = Keep::These(vec!["x".to_owned(), "q".to_owned()]);
    assert_eq!(refused(map().input("y", "x").keep(keep)), r"there is no column `q`; there are `x`, `a\n`");
    let undeclared = Echo::new("").await;
    assert_eq!(refused(undeclared.map(&rows)), "no input of the model is a column");
}

#[tokio::test]
async fn signatures_without_rows() {
    let rows = table([("x", Arc::new(Int64Array::from(vec![1]))), ("y", Arc::new(Int64Array::from(vec![1])))]);
    let scalar = Echo::of(&[("x", "float32", "[]")]).await;
    assert_eq!(refused(scalar.map(&rows)), "input `x` is a scalar: it has no dimension for rows");
    let metadata = "[[input]]\nname = \"x\"\ndtype = \"float32\"\nshape = ['n']\n\
                    [[output]]\nname = \"x\"\ndtype = \"float32\"\nshape = []\n";
    let scalar = Echo::new(metadata).await;
    assert_eq!(refused(scalar.map(&rows)), "output `x` is a scalar: it has no dimension for rows");
    let different = Echo::of(&[("x", "float32", "[2]"), ("y", "float32", "[3]")]).await;
    assert_eq!(refused(different.map(&rows)), "the inputs take calls of 2 and of 3 rows");
}

#[tokio::test]
async fn types_that_cannot_become_inputs() {
    let check = async |dtype: &str, shape: &str, values: ArrayRef, expected: &str| {
        let echo = Echo::of(&[("x", dtype, shape)]).await;
        let rows = table([("c", values)]);
        assert_eq!(refused(echo.map(&rows).input("x", "c")), expected);
    };
    let text: ArrayRef = Arc::new(StringArray::from_iter_values(["a"]));
    check("float32", "['n']", text, "column `c`: values of type Utf8 cannot become input `x`, which takes float32")
        .await;
    let number: ArrayRef = Arc::new(Int64Array::from(vec![1]));
    check("string", "['n']", number, "column `c`: values of type Int64 cannot become input `x`, which takes string")
        .await;
    let bool: ArrayRef = Arc::new(BooleanArray::from(vec![true]));
    check("string", "['n']", bool, "column `c`: values of type Boolean cannot become input `x`, which takes string")
        .await;
    // They would be positions to a model that takes a mask.
    let bools: ArrayRef = Arc::new(BooleanArray::from(vec![true]));
    check("uint8", "['n']", bools, "column `c`: booleans cannot become input `x`, which takes uint8").await;
    let date: ArrayRef = Arc::new(Date32Array::from(vec![1]));
    check("int64", "['n']", date, "column `c`: values of type Date32 cannot become input `x`").await;
    let pair: ArrayRef = Arc::new(Int64Array::from(vec![1]));
    check("complex64", "['n']", pair, "input `x` is complex64: tables have no complex numbers").await;
    let undeclared = Echo::new("").await;
    // A dtype that cartons do not have.
    let parts: [(&str, ArrayRef); 3] = [
        ("data", Arc::new(BinaryArray::from_iter_values([[0_u8; 8]]))),
        ("shape", Arc::new(ListArray::from_iter_primitive::<Int64Type, _, _>([Some([Some(1)])]))),
        ("dtype", Arc::new(StringArray::from(vec!["C64"]))),
    ];
    let fields = parts.map(|(name, array)| (Arc::new(Field::new(name, array.data_type().clone(), true)), array));
    let complex = table([("x", Arc::new(StructArray::from(fields.to_vec())) as ArrayRef)]);
    let map = undeclared.map(&complex).input("x", "x");
    let error = map_all(map, std::slice::from_ref(&complex)).await.unwrap_err();
    assert_eq!(
        chain(&error),
        "column `x`: values of type complex64 cannot become input `x`, which takes dtypes of cartons"
    );
}

#[tokio::test]
async fn hints_on_equal_names_tell_which_columns_have_them() {
    let echo = Echo::of(&[("x", "float32", "['n']"), ("y", "float32", "['n']")]).await;
    let numbers = || -> ArrayRef { Arc::new(Float64Array::from(vec![1.0])) };
    let rows = table([("x", numbers()), ("y", numbers()), ("a", numbers())]);
    let check = |map: MapRows<'_>, column: &str, hint: &str| {
        let error = map.columns().unwrap_err();
        assert_eq!(error.to_string(), format!("there are two columns `{column}` in the result"));
        assert_eq!(error.hint().unwrap(), hint);
    };
    check(echo.map(&rows).output("x", "b").output("y", "b"), "b", "give one of the outputs another column");
    let hint = "give the output another column, or do not keep that column";
    check(echo.map(&rows).output("x", "a"), "a", hint);
    let twice = table([("x", numbers()), ("y", numbers()), ("a", numbers()), ("a", numbers())]);
    check(echo.map(&twice), "a", "name the columns that are kept, without these");
}

#[tokio::test]
async fn too_many_workers_are_refused_before_any_starts() {
    let echo = Echo::of(&[("x", "float32", "['n']")]).await;
    let rows = table([("x", Arc::new(Float64Array::from(vec![1.0])))]);
    let workers = |n_workers| echo.map(&rows).workers(std::num::NonZeroUsize::new(n_workers).unwrap());
    assert_eq!(refused(workers(1025)), "1025 workers, expected at most 1024");
    assert_eq!(workers(1024).columns().unwrap(), ["x"]);
}

/// Checks the error for the rows `good`, `bad`: the bad row is in the second record batch.
async fn check_row(dtype: &str, shape: &str, good: ArrayRef, bad: ArrayRef, expected: &str) {
    let echo = Echo::of(&[("x", dtype, shape)]).await;
    let (first, second) = (table([("c", good)]), table([("c", bad)]));
    let expected = expected.replace("ROW", &(first.num_rows() + 1).to_string());
    let schema = Arc::new(arrow_schema::Schema::new(vec![first.schema().field(0).clone().with_nullable(true)]));
    let batches =
        [&first, &second].map(|batch| RecordBatch::try_new(schema.clone(), batch.columns().to_vec()).unwrap());
    let map = || MapRows::new(&echo.model, &schema).input("x", "c");
    let error = map_all(map(), &batches).await.unwrap_err();
    assert_eq!(chain(&error), expected, "{dtype} {shape}");
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    // A slice whose first row is the bad one.
    let sliced = [batches[0].clone(), batches[1].slice(0, 1), batches[1].slice(1, 1)];
    assert_eq!(chain(&map_all(map(), &sliced).await.unwrap_err()), expected, "{dtype} {shape}, sliced");
}

#[tokio::test]
async fn missing_values_name_their_row() {
    let null = "row ROW of column `c`: is null";
    let numbers = |second: Option<f64>| -> ArrayRef { Arc::new(Float64Array::from(vec![Some(1.0), second])) };
    check_row("float64", "['n']", numbers(Some(1.0)), numbers(None), null).await;
    check_row("float32", "['n']", numbers(Some(1.0)), numbers(None), null).await;
    let texts = |second: Option<&str>| -> ArrayRef { Arc::new(StringArray::from(vec![Some("a"), second])) };
    check_row("string", "['n']", texts(Some("b")), texts(None), null).await;
    let words = |second: Option<&str>| -> ArrayRef {
        Arc::new([Some("a"), second].into_iter().collect::<DictionaryArray<Int8Type>>())
    };
    check_row("string", "['n']", words(Some("b")), words(None), null).await;
    let lists = |second: Option<[Option<f32>; 2]>| -> ArrayRef {
        let rows = [Some([Some(1.0), Some(2.0)]), second];
        Arc::new(ListArray::from_iter_primitive::<Float32Type, _, _>(rows))
    };
    check_row("float32", "['n', 2]", lists(Some([Some(1.0); 2])), lists(None), null).await;
    check_row("float32", "['n', 2]", lists(Some([Some(1.0); 2])), lists(Some([Some(1.0), None])), null).await;
    let text_lists = |second: Option<[Option<&str>; 2]>| -> ArrayRef {
        let mut lists = ListBuilder::new(StringBuilder::new());
        for row in [Some([Some("a"), Some("b")]), second] {
            match row {
                Some(texts) => lists.append_value(texts),
                None => lists.append_null(),
            }
        }
        Arc::new(lists.finish())
    };
    let good = || text_lists(Some([Some("c"); 2]));
    check_row("string", "['n', 2]", good(), text_lists(None), null).await;
    check_row("string", "['n', 2]", good(), text_lists(Some([Some("c"), None])), null).await;
}

#[tokio::test]
async fn values_out_of_range_name_their_row() {
    let ints = |second: i64| -> ArrayRef { Arc::new(Int64Array::from(vec![1, second])) };
    check_row(
        "int32",
        "['n']",
        ints(2),
        ints(1 << 40),
        "row ROW of column `c`: 1099511627776 is out of range for int32",
    )
    .await;
    check_row("uint8", "['n']", ints(2), ints(-1), "row ROW of column `c`: -1 is out of range for uint8").await;
    let floats = |second: f64| -> ArrayRef { Arc::new(Float64Array::from(vec![1.0, second])) };
    let fraction = "row ROW of column `c`: 0.5 is not an integer, which int8 needs";
    check_row("int8", "['n']", floats(2.0), floats(0.5), fraction).await;
    let large = "row ROW of column `c`: 1e39 is out of range for float32";
    check_row("float32", "['n']", floats(f64::INFINITY), floats(1e39), large).await;
    let inexact = "row ROW of column `c`: 16777217 is an integer that float32 cannot hold exactly";
    check_row("float32", "['n']", ints(1 << 24), ints((1 << 24) + 1), inexact).await;
}

#[tokio::test]
async fn shapes_that_are_not_declared_name_their_row() {
    let lists = |second: usize| -> ArrayRef {
        let mut lists = ListBuilder::new(Float32Builder::new());
        for size in [2, second] {
            lists.append_value(std::iter::repeat_n(Some(1.0), size));
        }
        Arc::new(lists.finish())
    };
    let shape = "row ROW of column `c` has shape [3], expected [2] for input `x`";
    check_row("float32", "['n', 2]", lists(2), lists(3), shape).await;
    let shape = "row ROW of column `c` has shape [3], expected [*, 2] for input `x`";
    check_row("float32", "['n', 'm', 2]", lists(2), lists(3), shape).await;
    let texts = |second: usize| -> ArrayRef {
        let mut lists = ListBuilder::new(StringBuilder::new());
        for size in [2, second] {
            lists.append_value(std::iter::repeat_n(Some("a"), size));
        }
        Arc::new(lists.finish())
    };
    let lengths = "row ROW of column `c` has shape [3], expected [2] for input `x`";
    check_row("string", "['n', 2]", texts(2), texts(3), lengths).await;
    let bytes =
        |second: usize| -> ArrayRef { Arc::new(BinaryArray::from_iter_values([vec![0_u8; 8], vec![0; second]])) };
    let size = "row ROW of column `c`: has 12 bytes, expected 8";
    check_row("float32", "['n', 2]", bytes(8), bytes(12), size).await;
}

#[tokio::test]
async fn record_batches_of_another_schema_are_refused() {
    let echo = Echo::of(&[("x", "float32", "['n']")]).await;
    let numbers: ArrayRef = Arc::new(Int64Array::from(vec![1, 2]));
    let floats: ArrayRef = Arc::new(Float64Array::from(vec![1.0, 2.0]));
    let first = table([("x", numbers.clone()), ("id", numbers.clone())]);
    for other in [
        table([("x", numbers.clone())]),
        table([("x", floats.clone()), ("id", numbers.clone())]),
        table([("x", numbers.clone()), ("id", floats.clone())]),
        table([("id", numbers.clone()), ("x", numbers.clone())]),
        table([("x", numbers.clone()), ("id", numbers.clone()), ("more", numbers.clone())]),
    ] {
        let error = map_all(echo.map(&first), &[first.clone(), other]).await.unwrap_err();
        assert_eq!(chain(&error), "a record batch has other columns than the schema says");
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
    }
}

#[tokio::test]
async fn a_signature_that_is_contradicted_names_the_rows() {
    let echo = Echo::of(&[("x", "float32", "['n', 'size']"), ("y", "float32", "['n', 'size']")]).await;
    let lists = |size: usize| -> ArrayRef {
        let mut lists = ListBuilder::new(Float32Builder::new());
        for _ in 0..3 {
            lists.append_value(std::iter::repeat_n(Some(1.0), size));
        }
        Arc::new(lists.finish())
    };
    let rows = table([("x", lists(2)), ("y", lists(3))]);
    let error = map_all(echo.map(&rows), std::slice::from_ref(&rows)).await.unwrap_err();
    assert!(chain(&error).starts_with("rows 0 to 2: tensors do not match"), "{}", chain(&error));
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
}

#[tokio::test]
async fn an_error_of_the_source_is_passed_on() {
    let echo = Echo::of(&[("x", "int64", "['n']")]).await;
    let rows = table([("x", Arc::new(Int64Array::from(vec![1])))]);
    let mut mapped = echo.map(&rows).await.unwrap();
    let mut source = [Ok(rows.clone()), Err(std::io::Error::other("the disk is gone")), Ok(rows)].into_iter();
    let error = mapped.next_of(&mut source).await.unwrap().unwrap_err();
    assert_eq!(chain(&error), "the disk is gone");
    assert_eq!(error.kind(), ErrorKind::Machine);
    assert!(mapped.next_of(&mut source).await.is_none());
}
