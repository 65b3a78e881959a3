//! Columns of extension types: those that pyarrow writes, and metadata that contradicts itself (spec/dataset.md §4.2).

use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use arrow_array::*;
use arrow_schema::{DataType, Field, Schema};
use carton_dataset::column::{Column, Conversion, ExtensionType};
use carton_dataset::{ColumnProblem, DatasetError, Input, TailStrategy, write};
use carton_tensor::context::Context;

use crate::support::{batch_mode, dataset, key_value_mode, shards, told};

/// pyarrow decides what the values of a column are.
#[test]
fn values_are_those_that_pyarrow_reads() {
    let Some(python) = std::env::var_os("CARTON_TEST_PYTHON") else {
        eprintln!("skipped: CARTON_TEST_PYTHON names no python3 that has NumPy, pyarrow and safetensors");
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let run = |verb: &str| {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/write/extension_types.py");
        let output = Command::new(&python).arg(script).arg(verb).arg(folder.path()).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    };
    run("make");
    let (mut n_columns, mut n_refused) = (0, 0);
    for path in fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path()) {
        let input = Input::open(&path).unwrap();
        let file_name = path.file_name().unwrap().to_str().unwrap();
        if file_name.starts_with("refused") {
            let error = Column::new(input.schema().field(0), &Conversion::default()).unwrap_err();
            assert!(told(&error).contains("is not its own inverse"), "{file_name}: {}", told(&error));
            n_refused += 1;
            continue;
        }
        let mut name = path.file_name().unwrap().to_owned();
        name.push(".dataset");
        let options = batch_mode(100, TailStrategy::Write);
        let schema = input.schema();
        write(&schema, input, &folder.path().join(name), &options, &Context::default())
            .unwrap_or_else(|error| panic!("{}: {}", path.display(), told(&error)));
        n_columns += 1;
    }
    assert_eq!(run("check"), format!("{n_columns} columns are the same"));
    assert_eq!(n_refused, 2 * 3);
}

fn column(stored: impl Array + 'static, name: &str, metadata: &str) -> RecordBatch {
    let stored: ArrayRef = Arc::new(stored);
    let keys = ["ARROW:extension:name", "ARROW:extension:metadata"];
    let metadata: HashMap<String, String> =
        keys.into_iter().zip([name, metadata]).map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
    let field = Field::new("x", stored.data_type().clone(), true).with_metadata(metadata);
    RecordBatch::try_new(Arc::new(Schema::new(vec![field])), vec![stored]).unwrap()
}

/// Two lists of six numbers.
fn sixes() -> FixedSizeListArray {
    let item = Arc::new(Field::new_list_field(DataType::Int32, true));
    FixedSizeListArray::new(item, 6, Arc::new(Int32Array::from_iter_values(0..12)), None)
}

fn tensors(metadata: &str) -> RecordBatch {
    column(sixes(), "arrow.fixed_shape_tensor", metadata)
}

#[track_caller]
fn check_error(rows: RecordBatch, expected: &str) {
    let folder = tempfile::tempdir().unwrap();
    let error = dataset(folder.path(), &batch_mode(10, TailStrategy::Write), [rows]).unwrap_err();
    assert_eq!(told(&error), expected);
}

#[test]
fn metadata_is_not_trusted() {
    let refused = |metadata: &str, problem: &str| {
        check_error(tensors(metadata), &format!("column `x`: extension type `arrow.fixed_shape_tensor`: {problem}"));
    };
    let no_json = |problem: &str| format!("its metadata is not that of the type: {problem}");
    refused("", &no_json("EOF while parsing a value at line 1 column 0"));
    refused("{}", &no_json("missing field `shape` at line 1 column 2"));
    refused("[2, 3]", &no_json("invalid type: integer `2`, expected a sequence at line 1 column 2"));
    refused(r#"{"shape": [2, -3]}"#, &no_json("invalid value: integer `-3`, expected u64 at line 1 column 16"));
    refused(r#"{"shape": [6], "shape": [2, 3]}"#, &no_json("duplicate field `shape` at line 1 column 22"));
    refused(
        r#"{"shape": [6], "\u001b[2J": 1}"#,
        &no_json("unknown field `\\u{1b}[2J`, expected one of `shape`, `permutation`, `dim_names` at line 1 column 26"),
    );
    refused(r#"{"shape": [2, 4]}"#, "tensors of shape [2, 4] have 8 elements, and its lists have 6");
    refused(r#"{"shape": []}"#, "tensors of shape [] have 1 elements, and its lists have 6");
    let large = "its shape [4294967296, 4294967296, 4294967296] has more elements than a list of Arrow";
    refused(r#"{"shape": [4294967296, 4294967296, 4294967296]}"#, large);
    refused(r#"{"shape": [3000000000, 0]}"#, "its shape [3000000000, 0] has more elements than a list of Arrow");
    let ones = format!(r#"{{"shape": [6{}]}}"#, ", 1".repeat(63));
    refused(&ones, "its shape has 64 dimensions, expected at most 63");
    for permutation in ["[0]", "[0, 0]", "[0, 2]", "[0, 1, 2]", "[0, 18446744073709551615]"] {
        let metadata = format!(r#"{{"shape": [2, 3], "permutation": {permutation}}}"#);
        refused(&metadata, &format!("its permutation {permutation} is not one of 2 dimensions"));
    }
    for (shape, permutation) in [("[1, 2, 3]", "[1, 2, 0]"), ("[3, 1, 2, 1]", "[0, 2, 3, 1]")] {
        let metadata = format!(r#"{{"shape": {shape}, "permutation": {permutation}}}"#);
        refused(
            &metadata,
            &format!(
                "its permutation {permutation} is not its own inverse, and writers disagree about the order that such a one means"
            ),
        );
    }
    refused(r#"{"shape": [2, 3], "dim_names": ["a"]}"#, "it has 1 names for 2 dimensions");
    let long = format!(r#"{{"shape": [2, 3], "dim_names": ["a", "{}"]}}"#, "b".repeat(70_000));
    refused(&long, "its metadata has 70041 bytes, expected at most 65536");
    refused(&"[".repeat(60_000), &no_json("invalid type: sequence, expected u64 at line 1 column 2"));

    let name = "arrow.fixed_shape_tensor";
    let problem = "column `x`: extension type `arrow.fixed_shape_tensor`: its values are stored as Int32, expected fixed-size lists";
    check_error(column(Int32Array::from(vec![1]), name, r#"{"shape": [1]}"#), problem);
    let problem = "column `x`: extension type `arrow.bool8`: its values are stored as Int32, expected Int8";
    check_error(column(Int32Array::from(vec![1]), "arrow.bool8", ""), problem);
    let ray = "ray.data.arrow_tensor";
    let lists =
        ListArray::from_iter_primitive::<types::Int32Type, _, _>([Some(vec![Some(1); 6]), Some(vec![Some(1); 5])]);
    let problem = "row 1 of column `x`: has 5 elements, expected 6, the product of [2, 3]";
    check_error(column(lists.clone(), ray, "[2, 3]"), problem);
    let problem = "column `x`: extension type `ray.data.arrow_tensor`: its metadata is not that of the type: expected value at line 1 column 1";
    check_error(column(lists, ray, "pickle"), problem);
}

#[test]
fn sizes_of_nothing_take_no_memory() {
    let item = Arc::new(Field::new_list_field(DataType::Int32, true));
    let none: ArrayRef = Arc::new(Int32Array::from(Vec::<i32>::new()));
    let empty = FixedSizeListArray::try_new_with_length(item, 0, none, None, 2).unwrap();
    let rows = column(empty, "arrow.fixed_shape_tensor", r#"{"shape": [1073741824, 0], "permutation": [1, 0]}"#);
    let folder = tempfile::tempdir().unwrap();
    dataset(folder.path(), &batch_mode(10, TailStrategy::Write), [rows]).unwrap();
    assert_eq!(shards(folder.path())[0]["x"].1, [2, 0, 1_073_741_824]);
}

/// The values of an array need not have the type of the field that says what they mean.
#[test]
fn lists_of_another_length_than_the_shape_are_refused() {
    let field = column(sixes(), "arrow.fixed_shape_tensor", r#"{"shape": [2, 3]}"#).schema().field(0).clone();
    let tensors = ExtensionType::of(&field).unwrap();
    for length in [12, 4] {
        let item = Arc::new(Field::new_list_field(DataType::Int32, true));
        let lists = FixedSizeListArray::new(item, length, Arc::new(Int32Array::from_iter_values(0..24)), None);
        let stored: ArrayRef = Arc::new(lists);
        let fault = tensors.logical(&stored).unwrap_err();
        assert!(matches!(&fault.problem, ColumnProblem::Unsupported(found) if found == stored.data_type()));
    }
}

#[test]
fn a_missing_tensor_is_refused() {
    let item = Arc::new(Field::new_list_field(DataType::Int32, true));
    let nulls = Some(vec![true, false].into());
    let lists = FixedSizeListArray::new(item, 6, Arc::new(Int32Array::from_iter_values(0..12)), nulls);
    check_error(column(lists, "arrow.fixed_shape_tensor", r#"{"shape": [2, 3]}"#), "row 1 of column `x`: is null");
}

#[test]
fn other_extension_types_are_refused_by_name() {
    let refused = |rows: RecordBatch, name: &str| {
        check_error(rows, &format!("column `x`: values of extension type `{name}` cannot become tensors"));
    };
    let numbers = || Int64Array::from(vec![1, 2]);
    for name in ["arrow.opaque", "arrow.variable_shape_tensor", "pandas.period", "", "arrow.Bool8"] {
        refused(column(numbers(), name, "{}"), name);
    }
    let uuid = FixedSizeBinaryArray::try_from_iter([[0_u8; 16]].into_iter()).unwrap();
    refused(column(uuid, "arrow.uuid", ""), "arrow.uuid");
    refused(column(numbers(), "\u{1b}[2J", ""), "\\u{1b}[2J");
    refused(column(numbers(), &"n".repeat(1000), ""), &format!("{}…", "n".repeat(200)));
    // A key without a name says nothing.
    let field = Field::new("x", DataType::Int64, true);
    let field = field.with_metadata([("ARROW:extension:metadata".to_owned(), "{".to_owned())]);
    let rows = RecordBatch::try_new(Arc::new(Schema::new(vec![field])), vec![Arc::new(numbers())]).unwrap();
    dataset(tempfile::tempdir().unwrap().path(), &batch_mode(10, TailStrategy::Write), [rows]).unwrap();

    let item = column(sixes(), "arrow.fixed_shape_tensor", r#"{"shape": [2, 3]}"#).schema().field(0).clone();
    let lists = FixedSizeListArray::new(Arc::new(item), 2, Arc::new(sixes()), None);
    let rows = RecordBatch::try_from_iter([("x", Arc::new(lists) as ArrayRef)]).unwrap();
    let inner =
        "column `x`: values of extension type `arrow.fixed_shape_tensor` inside of other values cannot become tensors";
    check_error(rows, inner);
}

#[test]
fn a_requested_shape_does_not_turn_tensors() {
    let write = |shape: &[usize]| {
        let folder = tempfile::tempdir().unwrap();
        let mut options = batch_mode(10, TailStrategy::Write);
        options.shapes.insert("x".to_owned(), shape.to_vec());
        let rows = tensors(r#"{"shape": [3, 2], "permutation": [1, 0]}"#);
        dataset(folder.path(), &options, [rows]).map(|_| shards(folder.path()).remove(0).remove("x").unwrap())
    };
    let logical: Vec<u8> = [0_i32, 2, 4, 1, 3, 5, 6, 8, 10, 7, 9, 11].into_iter().flat_map(i32::to_le_bytes).collect();
    for shape in [&[2, 3][..], &[6], &[1, 2, 3]] {
        let (_, found, bytes) = write(shape).unwrap();
        assert_eq!((&found[1..], &bytes), (shape, &logical));
    }
    let refused = |shape: &[usize], expected: &str| assert_eq!(told(&write(shape).unwrap_err()), expected);
    refused(&[3, 2], "row 0 of column `x`: has shape [2, 3], expected [3, 2]");
    refused(&[5], "row 0 of column `x`: has 6 elements, expected 5, the product of [5]");
}

#[test]
fn rows_of_another_extension_type_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let check = |other: RecordBatch, expected: Option<&str>| {
        let place = folder.path().join(format!("{}", fs::read_dir(folder.path()).unwrap().count()));
        let batches = [tensors(r#"{"shape": [2, 3]}"#), other];
        let error = dataset(&place, &batch_mode(10, TailStrategy::Write), batches).err();
        assert_eq!(error.as_ref().map(told).as_deref(), expected);
    };
    let problem = Some("column `x`: has another extension type than in the rows before");
    check(tensors(r#"{"shape": [3, 2]}"#), problem);
    check(tensors(r#"{"shape": [3, 2], "permutation": [1, 0]}"#), problem);
    check(RecordBatch::try_from_iter([("x", Arc::new(sixes()) as ArrayRef)]).unwrap(), problem);
    check(tensors(r#"{ "shape":[2,3], "permutation": [0, 1], "dim_names": ["a", "b"] }"#), None);
}

#[test]
fn rows_may_be_named_by_json_but_not_by_other_types() {
    let named = |name: &str| {
        let names = column(StringArray::from(vec!["a", "b"]), name, "");
        let field = names.schema().field(0).clone().with_name("name");
        let numbers: ArrayRef = Arc::new(Int32Array::from(vec![1, 2]));
        let schema = Schema::new(vec![field, Field::new("x", DataType::Int32, true)]);
        RecordBatch::try_new(Arc::new(schema), vec![names.column(0).clone(), numbers]).unwrap()
    };
    let write = |name: &str| -> Result<(), DatasetError> {
        let folder = tempfile::tempdir().unwrap();
        dataset(folder.path(), &key_value_mode(1 << 20), [named(name)]).map(drop)
    };
    write("arrow.json").unwrap();
    let error = write("other").unwrap_err();
    assert_eq!(told(&error), "column `name`: values of extension type `other` cannot become tensors");
}

#[test]
fn values_of_json_are_strings_and_no_tensors() {
    let rows = column(StringArray::from(vec!["[1]"]), "arrow.json", "");
    check_error(rows, "column `x`: values of type Utf8 cannot become tensors");
    let schema = column(StringArray::from(vec!["[1]"]), "arrow.json", "").schema();
    assert!(Column::new(schema.field(0), &Conversion::default()).is_err());
}
