//! Conversion of columns of every type, and the types that are refused (spec/dataset.md §4.2).

use std::sync::Arc;

use arrow_array::types::{Float32Type, Int32Type, Int64Type, UInt8Type};
use arrow_array::*;
use arrow_buffer::{OffsetBuffer, ScalarBuffer};
use arrow_schema::{DataType, Field, Fields};
use carton_dataset::{DatasetError, Rounding, TailStrategy, WriteOptions};
use carton_tensor::files::ElementType;
use half::f16;
use safetensors::Dtype;

use crate::support::{Tensor, batch_mode, dataset, key_value_mode, shards, told};

fn batch_options(change: impl FnOnce(&mut WriteOptions)) -> WriteOptions {
    let mut options = batch_mode(1000, TailStrategy::Write);
    change(&mut options);
    options
}

/// Returns the tensor that a column becomes.
fn tensor(column: &ArrayRef, options: &WriteOptions) -> Result<Tensor, DatasetError> {
    let folder = tempfile::tempdir().unwrap();
    let rows = RecordBatch::try_from_iter([("x", column.clone())]).unwrap();
    dataset(folder.path(), options, [rows])?;
    Ok(shards(folder.path()).remove(0).remove("x").unwrap())
}

/// Returns the tensors that the rows of a column become in key-value mode.
fn row_tensors(column: &ArrayRef, options: &WriteOptions) -> Result<Vec<Tensor>, DatasetError> {
    let folder = tempfile::tempdir().unwrap();
    let names: ArrayRef = Arc::new(StringArray::from_iter_values((0..column.len()).map(|row| format!("{row:04}"))));
    let rows = RecordBatch::try_from_iter([("name", names), ("x", column.clone())]).unwrap();
    dataset(folder.path(), options, [rows])?;
    Ok(shards(folder.path()).remove(0).into_values().collect())
}

/// Checks that a column becomes this tensor, both whole and as a slice of a larger column.
#[track_caller]
fn check(column: impl Array + 'static, options: &WriteOptions, dtype: Dtype, shape: &[usize], bytes: &[u8]) {
    let column: ArrayRef = Arc::new(column);
    assert_eq!(tensor(&column, options).unwrap(), (dtype, shape.to_vec(), bytes.to_vec()));
    let (n_rows, row) = (shape[0], bytes.len() / shape[0]);
    let slice = tensor(&column.slice(1, n_rows - 1), options).unwrap();
    assert_eq!(slice, (dtype, [&[n_rows - 1], &shape[1..]].concat(), bytes[row..].to_vec()));
    // In key-value mode the rows are the same tensors without the first dimension.
    let options = WriteOptions { mode: key_value_mode(1 << 30).mode, ..options.clone() };
    let expected: Vec<Tensor> =
        bytes[row..].chunks(row).map(|bytes| (dtype, shape[1..].to_vec(), bytes.to_vec())).collect();
    assert_eq!(row_tensors(&column.slice(1, n_rows - 1), &options).unwrap(), expected);
}

#[track_caller]
fn check_error(column: impl Array + 'static, options: &WriteOptions, expected: &str) {
    let error = tensor(&(Arc::new(column) as ArrayRef), options).unwrap_err();
    assert_eq!(told(&error), expected);
}

fn bytes<const N: usize>(values: impl IntoIterator<Item = [u8; N]>) -> Vec<u8> {
    values.into_iter().flatten().collect()
}

#[test]
fn numbers_keep_their_own_dtype() {
    let own = batch_options(|_| ());
    check(BooleanArray::from(vec![true, false, true]), &own, Dtype::BOOL, &[3], &[1, 0, 1]);
    check(UInt8Array::from(vec![1, 2, 255]), &own, Dtype::U8, &[3], &[1, 2, 255]);
    check(Int8Array::from(vec![1, -2, 3]), &own, Dtype::I8, &[3], &[1, 254, 3]);
    macro_rules! numbers {
        ($array:ident, $dtype:ident, $values:expr) => {
            check(
                $array::from($values.to_vec()),
                &own,
                Dtype::$dtype,
                &[3],
                &bytes($values.map(|value| value.to_le_bytes())),
            );
        };
    }
    numbers!(UInt16Array, U16, [0, 1, u16::MAX]);
    numbers!(Int16Array, I16, [0, i16::MIN, i16::MAX]);
    numbers!(UInt32Array, U32, [0, 1, u32::MAX]);
    numbers!(Int32Array, I32, [0, i32::MIN, i32::MAX]);
    // These integers are not representable as F64.
    numbers!(UInt64Array, U64, [0, (1 << 53) + 1, u64::MAX]);
    numbers!(Int64Array, I64, [i64::MIN, (1 << 53) + 1, i64::MAX]);
    numbers!(Float32Array, F32, [f32::NAN, -0.0, f32::INFINITY]);
    numbers!(Float64Array, F64, [f64::NAN, -0.0, f64::MIN_POSITIVE]);
    let halves = [f16::NAN, f16::NEG_ZERO, f16::MAX];
    check(Float16Array::from(halves.to_vec()), &own, Dtype::F16, &[3], &bytes(halves.map(f16::to_le_bytes)));
}

#[test]
fn numbers_become_others_where_they_are_the_same() {
    let to = |dtype| batch_options(|options| options.dtype = Some(dtype));
    let floats = bytes([0.0_f32, -3.0, 16_777_216.0].map(f32::to_le_bytes));
    check(Int64Array::from(vec![0, -3, 1 << 24]), &to(ElementType::Float32), Dtype::F32, &[3], &floats);
    let longs = bytes([0_i64, -3, 1 << 24].map(i64::to_le_bytes));
    check(Float32Array::from(vec![-0.0, -3.0, 16_777_216.0]), &to(ElementType::Int64), Dtype::I64, &[3], &longs);
    check(BooleanArray::from(vec![false, true, true]), &to(ElementType::Uint8), Dtype::U8, &[3], &[0, 1, 1]);
    check(Int64Array::from(vec![0, 1, 1]), &to(ElementType::Bool), Dtype::BOOL, &[3], &[0, 1, 1]);
    let large = bytes([u64::MAX, 0, 1 << 63].map(u64::to_le_bytes));
    check(UInt64Array::from(vec![u64::MAX, 0, 1 << 63]), &to(ElementType::Uint64), Dtype::U64, &[3], &large);

    let check_lost = |column: ArrayRef, dtype: ElementType, value: &str, problem: &str| {
        let expected = format!("row 1 of column `x`: {value} {}", problem.replace('#', dtype.name()));
        assert_eq!(told(&tensor(&column, &to(dtype)).unwrap_err()), expected);
    };
    let (range, fraction, exact) =
        ("is out of range for #", "is not an integer, which # needs", "is an integer that # cannot hold exactly");
    let longs = |value| Arc::new(Int64Array::from(vec![0, value])) as ArrayRef;
    let floats = |value| Arc::new(Float64Array::from(vec![0.0, value])) as ArrayRef;
    check_lost(longs((1 << 53) + 1), ElementType::Float64, "9007199254740993", exact);
    check_lost(longs(i64::MAX), ElementType::Float64, "9223372036854775807", exact);
    check_lost(longs((1 << 24) + 1), ElementType::Float32, "16777217", exact);
    check_lost(longs(2049), ElementType::Float16, "2049", exact);
    check_lost(longs(65_536), ElementType::Float16, "65536", range);
    check_lost(longs(257), ElementType::BFloat16, "257", exact);
    check_lost(longs(-1), ElementType::Uint64, "-1", range);
    check_lost(longs(128), ElementType::Int8, "128", range);
    check_lost(longs(2), ElementType::Bool, "2", range);
    check_lost(floats(0.5), ElementType::Int32, "0.5", fraction);
    check_lost(floats(f64::NAN), ElementType::Int32, "NaN", fraction);
    check_lost(floats(f64::INFINITY), ElementType::Int64, "inf", fraction);
    check_lost(floats(9_223_372_036_854_775_808.0), ElementType::Int64, "9.223372036854776e18", range);
    check_lost(Arc::new(UInt64Array::from(vec![0, u64::MAX])), ElementType::Float32, "18446744073709551615", exact);
    check_lost(Arc::new(UInt64Array::from(vec![0, u64::MAX])), ElementType::Int64, "18446744073709551615", range);
}

/// As everywhere, a finite number does not become infinite, however it is rounded.
#[test]
fn floats_that_overflow_are_refused() {
    let check = |column: ArrayRef, dtype: ElementType, value: &str| {
        for rounding in [Rounding::NearestEven, Rounding::Truncate] {
            let options = batch_options(|options| {
                options.dtype = Some(dtype);
                options.rounding = rounding;
            });
            let expected = format!("row 1 of column `x`: {value} is out of range for {dtype}");
            assert_eq!(told(&tensor(&column, &options).unwrap_err()), expected);
        }
    };
    let longs = |value: f64| Arc::new(Float64Array::from(vec![f64::INFINITY, value])) as ArrayRef;
    let floats = |value: f32| Arc::new(Float32Array::from(vec![f32::NEG_INFINITY, value])) as ArrayRef;
    check(longs(1e39), ElementType::Float32, "1e39");
    check(longs(-1e39), ElementType::BFloat16, "-1e39");
    check(longs(70_000.0), ElementType::Float16, "70000.0");
    check(floats(-70_000.0), ElementType::Float16, "-70000.0");
    // In a list, the row is that of the list.
    let lists: ArrayRef = Arc::new(list_of(&[2, 2], Arc::new(Float64Array::from(vec![1.0, 2.0, 3.0, 1e39]))));
    check(lists, ElementType::Float32, "1e39");
    // Where truncation stays finite, rounding does not.
    let nearly = floats(65_535.0);
    let truncated = |rounding| {
        tensor(
            &nearly,
            &batch_options(|options| (options.dtype, options.rounding) = (Some(ElementType::Float16), rounding)),
        )
    };
    let expected = bytes([f16::NEG_INFINITY, f16::MAX].map(f16::to_le_bytes));
    assert_eq!(truncated(Rounding::Truncate).unwrap().2, expected);
    assert!(truncated(Rounding::NearestEven).is_err());
}

#[test]
fn lists_become_arrays() {
    let own = batch_options(|_| ());
    let rows = || [[1, 2], [3, 4], [5, 6]].map(|row| Some(row.map(Some).to_vec()));
    let expected = bytes([1_i32, 2, 3, 4, 5, 6].map(i32::to_le_bytes));
    let check_lists = |column: ArrayRef| {
        check(column.clone(), &own, Dtype::I32, &[3, 2], &expected);
        let shaped = batch_options(|options| drop(options.shapes.insert("x".to_owned(), vec![2, 1])));
        check(column.clone(), &shaped, Dtype::I32, &[3, 2, 1], &expected);
        let shaped = batch_options(|options| drop(options.shapes.insert("x".to_owned(), vec![3])));
        check_error(column, &shaped, "row 0 of column `x`: has 2 elements, expected 3, the product of [3]");
    };
    check_lists(Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>(rows())));
    check_lists(Arc::new(LargeListArray::from_iter_primitive::<Int32Type, _, _>(rows())));
    check_lists(Arc::new(FixedSizeListArray::from_iter_primitive::<Int32Type, _, _>(rows(), 2)));
}

fn list_of(lengths: &[usize], values: ArrayRef) -> ListArray {
    let field = Arc::new(Field::new_list_field(values.data_type().clone(), true));
    ListArray::new(field, OffsetBuffer::from_lengths(lengths.iter().copied()), values, None)
}

#[test]
fn lists_of_lists_become_arrays_of_more_dimensions() {
    let own = batch_options(|_| ());
    let numbers = |n: u8| Arc::new(UInt8Array::from_iter_values(0..n)) as ArrayRef;
    let inner = list_of(&[3; 6], numbers(18));
    let bytes: Vec<u8> = (0..18).collect();
    check(list_of(&[2, 2, 2], Arc::new(inner.clone())), &own, Dtype::U8, &[3, 2, 3], &bytes);
    let fixed = FixedSizeListArray::new(
        Arc::new(Field::new_list_field(inner.data_type().clone(), true)),
        2,
        Arc::new(inner),
        None,
    );
    check(fixed.clone(), &own, Dtype::U8, &[3, 2, 3], &bytes);
    let shaped = |shape: &[usize]| batch_options(|options| drop(options.shapes.insert("x".to_owned(), shape.to_vec())));
    check(fixed.clone(), &shaped(&[6]), Dtype::U8, &[3, 6], &bytes);
    check_error(fixed, &shaped(&[3, 2]), "row 0 of column `x`: has shape [2, 3], expected [3, 2]");

    let ragged = list_of(&[1, 2], Arc::new(list_of(&[3, 3, 2], numbers(8))));
    check_error(ragged, &own, "row 1 of column `x`: its lists along axis 1 have 3 and 2 elements");
    let differ = list_of(&[1, 1], Arc::new(list_of(&[3, 2], numbers(5))));
    let expected = "row 1 of column `x`: is uint8 of shape [1, 2], expected uint8 of shape [1, 3] as the rows before";
    check_error(differ.clone(), &own, expected);
    let tensors = row_tensors(&(Arc::new(differ) as ArrayRef), &key_value_mode(1 << 30)).unwrap();
    assert_eq!(tensors, [(Dtype::U8, vec![1, 3], vec![0, 1, 2]), (Dtype::U8, vec![1, 2], vec![3, 4])]);

    // Empty outer lists have no inner lists from which the inner length could be taken.
    let empty = list_of(&[0, 0], Arc::new(list_of(&[], numbers(0))));
    assert_eq!(tensor(&(Arc::new(empty.clone()) as ArrayRef), &own).unwrap().1, [2, 0, 0]);
    assert_eq!(tensor(&(Arc::new(empty) as ArrayRef), &shaped(&[0, 5])).unwrap().1, [2, 0, 5]);
}

#[test]
fn binary_values_are_the_bytes_of_tensors() {
    let long = vec![7_u8; 40_000];
    let values: [&[u8]; 3] = [&[1, 2, 3, 4], &[5, 6, 7, 8], &[9, 10, 11, 12]];
    let expected: Vec<u8> = (1..=12).collect();
    let to = |dtype| batch_options(|options| options.dtype = Some(dtype));
    let shaped = batch_options(|options| {
        options.dtype = Some(ElementType::Int8);
        options.shapes.insert("x".to_owned(), vec![2, 2]);
    });
    let check_values = |column: ArrayRef| {
        check(column.clone(), &to(ElementType::BFloat16), Dtype::BF16, &[3, 2], &expected);
        check(column.clone(), &to(ElementType::Float4E2m1), Dtype::F4, &[3, 8], &expected);
        check(column.clone(), &shaped, Dtype::I8, &[3, 2, 2], &expected);
        check_error(column.clone(), &batch_options(|_| ()), "column `x`: binary values need a dtype");
        let problem = "row 0 of column `x`: has 4 bytes, which are no whole number of int64";
        check_error(column, &to(ElementType::Int64), problem);
    };
    check_values(Arc::new(BinaryArray::from(values.to_vec())));
    check_values(Arc::new(LargeBinaryArray::from(values.to_vec())));
    check_values(Arc::new(BinaryViewArray::from(values.to_vec())));
    check_values(Arc::new(FixedSizeBinaryArray::try_from_iter(values.iter()).unwrap()));
    let views = [long.as_slice(), &long, &[8; 40_000]];
    check(BinaryViewArray::from(views.to_vec()), &to(ElementType::Uint8), Dtype::U8, &[3, 40_000], &views.concat());
    // Longer than an inline view, and shorter than the values that are not copied.
    let views = [&long[..20], &[8; 20], &[9; 20]];
    check(BinaryViewArray::from(views.to_vec()), &to(ElementType::Uint8), Dtype::U8, &[3, 20], &views.concat());

    let bools = BinaryArray::from(vec![&[0_u8, 1][..], &[1, 1], &[0, 2]]);
    check(bools.slice(0, 2), &to(ElementType::Bool), Dtype::BOOL, &[2, 2], &[0, 1, 1, 1]);
    check_error(bools, &to(ElementType::Bool), "row 2 of column `x`: byte 2 is out of range for bool");

    let ragged = BinaryArray::from(vec![&[1_u8, 2][..], &[3, 4], &[5]]);
    let problem = "row 2 of column `x`: is uint8 of shape [1], expected uint8 of shape [2] as the rows before";
    check_error(ragged.clone(), &to(ElementType::Uint8), problem);
    check_error(ragged, &shaped, "row 0 of column `x`: has 2 bytes, expected 4");
    let values = [&[1_u8, 2, 3, 4][..], &[5, 6, 7]];
    for ragged in
        [Arc::new(BinaryViewArray::from(values.to_vec())) as ArrayRef, Arc::new(BinaryArray::from(values.to_vec()))]
    {
        check_error(ragged, &shaped, "row 1 of column `x`: has 3 bytes, expected 4");
    }
}

/// Structs of data, shape and dtype.
fn structs<S: AsRef<[i64]>>(data: ArrayRef, shapes: &[S], dtypes: &[&str]) -> StructArray {
    let shapes = shapes.iter().map(|shape| Some(shape.as_ref().iter().copied().map(Some)));
    let shapes: ArrayRef = Arc::new(ListArray::from_iter_primitive::<Int64Type, _, _>(shapes));
    let dtypes: ArrayRef = Arc::new(StringArray::from(dtypes.to_vec()));
    let field = |name: &str, array: &ArrayRef| Field::new(name, array.data_type().clone(), true);
    let fields = vec![field("shape", &shapes), field("data", &data), field("dtype", &dtypes)];
    StructArray::new(Fields::from(fields), vec![shapes, data, dtypes], None)
}

#[test]
fn structs_say_their_dtype_and_shape() {
    // A dtype for all columns does not apply to structs, which carry their own.
    let options = batch_options(|options| options.dtype = Some(ElementType::Int64));
    let data = || Arc::new(BinaryArray::from(vec![&[1_u8, 2, 3, 4][..], &[5, 6, 7, 8], &[9, 10, 11, 12]])) as ArrayRef;
    let expected: Vec<u8> = (1..=12).collect();
    check(structs(data(), &[&[2, 1]; 3], &["BF16"; 3]), &options, Dtype::BF16, &[3, 2, 1], &expected);
    check(structs(data(), &[&[] as &[i64]; 3], &["F32"; 3]), &options, Dtype::F32, &[3], &expected);
    let lists = ListArray::from_iter_primitive::<Float32Type, _, _>([[1.0, 2.0]; 3].map(|row| Some(row.map(Some))));
    let halves = bytes([[1.0, 2.0]; 3].concat().into_iter().map(|value| f16::from_f32(value).to_le_bytes()));
    check(structs(Arc::new(lists), &[&[2]; 3], &["F16"; 3]), &options, Dtype::F16, &[3, 2], &halves);

    let mixed = structs(data(), &[&[2, 1][..], &[4], &[4]], &["BF16", "U8", "U8"]);
    let problem = "row 1 of column `x`: is uint8 of shape [4], expected bfloat16 of shape [2, 1] as the rows before";
    check_error(mixed.clone(), &options, problem);
    let tensors = row_tensors(&(Arc::new(mixed) as ArrayRef), &key_value_mode(1 << 30)).unwrap();
    let expected = [
        (Dtype::BF16, vec![2, 1], vec![1, 2, 3, 4]),
        (Dtype::U8, vec![4], vec![5, 6, 7, 8]),
        (Dtype::U8, vec![4], vec![9, 10, 11, 12]),
    ];
    assert!(expected.iter().all(|tensor| tensors.contains(tensor)), "{tensors:?}");

    let problem = "row 2 of column `x`: `bf16` is no dtype of safetensors";
    check_error(structs(data(), &[&[2]; 3], &["BF16", "BF16", "bf16"]), &options, problem);
    let problem = "row 1 of column `x`: [2, -1] is no shape: expected at most 63 dimensions, none of them negative";
    check_error(structs(data(), &[&[2, 1][..], &[2, -1], &[2]], &["BF16"; 3]), &options, problem);
    let problem = "row 1 of column `x`: has 4 bytes, expected 6";
    check_error(structs(data(), &[&[2], &[3], &[2]], &["BF16"; 3]), &options, problem);
    let problem = format!(
        "row 0 of column `x`: uint64 of shape {:?} takes no whole number of bytes that fits in memory",
        [1_u64 << 62; 3]
    );
    check_error(structs(data(), &[&[1 << 62; 3]; 3], &["U64"; 3]), &options, &problem);
    let empty = Arc::new(BinaryArray::from(vec![&[] as &[u8]; 3]));
    let problem = problem.replace("uint64", "uint8").replace(&format!("{}]", 1_u64 << 62), "0]");
    check_error(structs(empty, &[&[1 << 62, 1 << 62, 0]; 3], &["U8"; 3]), &options, &problem);
    let own = batch_options(|options| _ = options.dtypes.insert("x".to_owned(), ElementType::Int64));
    check_error(
        structs(data(), &[&[2]; 3], &["BF16"; 3]),
        &own,
        "the values of column `x` say their dtype and shape themselves",
    );
}

#[test]
fn missing_values_are_refused_wherever_they_are() {
    let own = batch_options(|options| options.dtype = Some(ElementType::Int32));
    let null = |row: usize| format!("row {row} of column `x`: is null");
    check_error(Int32Array::from(vec![Some(1), None]), &own, &null(1));
    check_error(BooleanArray::from(vec![None, Some(true)]), &own, &null(0));
    check_error(BinaryArray::from(vec![Some(&[1_u8, 2, 3, 4][..]), None]), &own, &null(1));
    let rows = [Some(vec![Some(1), Some(2)]), Some(vec![Some(3), None])];
    check_error(ListArray::from_iter_primitive::<Int32Type, _, _>(rows.clone()), &own, &null(1));
    check_error(FixedSizeListArray::from_iter_primitive::<Int32Type, _, _>(rows, 2), &own, &null(1));
    let rows = [Some(vec![Some(1)]), None, Some(vec![Some(3)])];
    check_error(ListArray::from_iter_primitive::<Int32Type, _, _>(rows.clone()), &own, &null(1));
    check_error(FixedSizeListArray::from_iter_primitive::<Int32Type, _, _>(rows, 1), &own, &null(1));
    // An empty list comes first, so that lists and elements have different positions.
    let numbers: ArrayRef = Arc::new(UInt8Array::from(vec![Some(1), Some(2), None]));
    check_error(list_of(&[0, 2, 0, 1], numbers.clone()), &own, &null(3));
    check_error(list_of(&[1, 1], Arc::new(list_of(&[2, 1], numbers))), &own, &null(1));
    let data: ArrayRef = Arc::new(BinaryArray::from(vec![Some(&[1_u8][..]), None]));
    check_error(structs(data, &[&[1], &[1]], &["U8", "U8"]), &own, &null(1));

    // Missing values outside the written slice do not matter.
    let column: ArrayRef = Arc::new(Int32Array::from(vec![None, Some(5), None]).slice(1, 1));
    assert_eq!(tensor(&column, &own).unwrap().2, 5_i32.to_le_bytes());
    let lists = ListArray::from_iter_primitive::<Int32Type, _, _>([Some(vec![None]), Some(vec![Some(7)]), None]);
    assert_eq!(tensor(&(Arc::new(lists.slice(1, 1)) as ArrayRef), &own).unwrap().2, 7_i32.to_le_bytes());
}

#[test]
fn types_without_tensors_are_refused_by_name() {
    let own = batch_options(|_| ());
    let refused = |data_type: &str| format!("column `x`: values of type {data_type} cannot become tensors");
    check_error(StringArray::from(vec!["a"]), &own, &refused("Utf8"));
    let dictionary: DictionaryArray<Int32Type> = ["a", "b"].into_iter().collect();
    check_error(dictionary, &own, &refused("Dictionary(Int32, Utf8)"));
    check_error(Decimal128Array::from(vec![1]), &own, &refused("Decimal128(38, 10)"));
    check_error(Date32Array::from(vec![1]), &own, &refused("Date32"));
    check_error(NullArray::new(1), &own, &refused("Null"));
    let numbers: ArrayRef = Arc::new(Int32Array::from(vec![1]));
    let field = Arc::new(Field::new("data", DataType::Int32, true));
    check_error(StructArray::from(vec![(field, numbers)]), &own, &refused("Struct(\"data\": Int32)"));
    let keys = ScalarBuffer::from(vec![0_u8]);
    let values: ArrayRef = Arc::new(UInt8Array::from(vec![1]));
    let dictionary = DictionaryArray::<UInt8Type>::new(UInt8Array::new(keys, None), values);
    check_error(dictionary, &own, &refused("Dictionary(UInt8, UInt8)"));
    let complex = batch_options(|options| options.dtype = Some(ElementType::Complex64));
    let float8 = |dtype| batch_options(|options| options.dtype = Some(dtype));
    let e4m3 = float8(ElementType::Float8E4m3Fn);
    check(Float32Array::from(vec![0.5, -2.0, 448.0]), &e4m3, Dtype::F8_E4M3, &[3], &[0x30, 0xc0, 0x7e]);
    let e5m2 = float8(ElementType::Float8E5m2);
    check(Float64Array::from(vec![0.5, -2.0, 1.0]), &e5m2, Dtype::F8_E5M2, &[3], &[0x38, 0xc0, 0x3c]);
    check_error(
        Float32Array::from(vec![1.0e6]),
        &e4m3,
        "row 0 of column `x`: 1000000.0 is out of range for float8_e4m3fn",
    );
    check_error(Float32Array::from(vec![1.0]), &complex, "column `x`: Float32 cannot become complex64");
    let bool = batch_options(|options| options.dtype = Some(ElementType::Bool));
    check_error(Float32Array::from(vec![1.0]), &bool, "column `x`: Float32 cannot become bool");
}

#[test]
fn a_record_batch_of_another_type_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let rows = |column: ArrayRef| RecordBatch::try_from_iter([("x", column)]).unwrap();
    let batches = [rows(Arc::new(Int32Array::from(vec![1]))), rows(Arc::new(Int64Array::from(vec![1])))];
    let error = dataset(folder.path(), &batch_options(|_| ()), batches).unwrap_err();
    assert_eq!(told(&error), "column `x`: has values of type Int64, expected Int32");
}
