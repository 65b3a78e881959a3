//! Wrong options, and tables that cannot be read or mapped.

use std::fs;
use std::sync::Arc;

use arrow_array::builder::{Float32Builder, ListBuilder};
use arrow_array::{Array, ArrayRef, FixedSizeListArray, Float32Array, Int64Array, RecordBatch};
use arrow_schema::{DataType, Field, Schema};
use insta::assert_snapshot;

use super::{ids, pack_noop, pack_pairs, pairs, read_table, write_table};
use crate::sandbox::Sandbox;

/// A model of pairs, and a table for it.
fn site() -> Sandbox {
    let sandbox = Sandbox::new();
    pack_pairs(&sandbox, "");
    write_table(&sandbox, "x.parquet", &[pairs(0, 5)]);
    sandbox
}

#[test]
fn options_that_do_not_fit() {
    let sandbox = site();
    let run = |options: &str| sandbox.carton(&format!("run echo.carton {options}"));
    assert_snapshot!(run("--rows x.parquet"), @"
    exit code: 2
    ----- stdout -----

    ----- stderr -----
    error: the following required arguments were not provided:
      --output <[NAME=]FILE>

    Usage: carton run --output <[NAME=]FILE> --rows <FILE> <MODEL>

    For more information, try '--help'.
    ");
    assert_snapshot!(run("-o y.parquet"), @"
    exit code: 2
    ----- stdout -----

    ----- stderr -----
    error: `y.parquet` is a table, which `--rows` must accompany

    hint: --rows FILE gives the rows; a single call writes its outputs to .npy and .npz files
    ");
    assert_snapshot!(run("-o -"), @"
    exit code: 2
    ----- stdout -----

    ----- stderr -----
    error: `-` is a table, which `--rows` must accompany

    hint: --rows FILE gives the rows; a single call writes its outputs to .npy and .npz files
    ");
    assert_snapshot!(run("--rows x.parquet -o y.npy"), @"
    exit code: 2
    ----- stdout -----

    ----- stderr -----
    error: `y.npy` is not a table

    hint: a table is FILE.parquet, FILE.arrow, or a stream: FILE.arrows, or `-` for standard output
    ");
    assert_snapshot!(run("--rows x.parquet -o y.csv"), @"
    exit code: 2
    ----- stdout -----

    ----- stderr -----
    error: invalid value 'y.csv' for '--output <[NAME=]FILE>': expected NAME=FILE.npy, FILE.npz or FILE.safetensors; or with --rows FILE.parquet, FILE.arrow, FILE.arrows or -

    For more information, try '--help'.
    ");
    assert_snapshot!(run("--rows x.parquet -o y.parquet -o z.parquet"), @"
    exit code: 2
    ----- stdout -----

    ----- stderr -----
    error: the outputs of all rows go to one file, found 2
    ");
    assert_snapshot!(run("--rows x.parquet -o x=y.parquet"), @"
    exit code: 2
    ----- stdout -----

    ----- stderr -----
    error: invalid value 'x=y.parquet' for '--output <[NAME=]FILE>': expected NAME=FILE.npy, FILE.npz or FILE.safetensors; or with --rows FILE.parquet, FILE.arrow, FILE.arrows or -

    For more information, try '--help'.
    ");
    assert_snapshot!(run("--rows x.parquet -o - --json").stdout, @r#"
    {
      "error": {
        "kind": "usage",
        "message": "standard output is the table, and has no room for the result of --json",
        "causes": [],
        "hint": null
      }
    }
    "#);
    assert_snapshot!(run("--rows - --rows - -o y.parquet"), @"
    exit code: 2
    ----- stdout -----

    ----- stderr -----
    error: standard input can be read once only
    ");
    assert_snapshot!(run("--workers 2 -i x=[[1,2]]"), @"
    exit code: 2
    ----- stdout -----

    ----- stderr -----
    error: the following required arguments were not provided:
      --output <[NAME=]FILE>
      --rows <FILE>

    Usage: carton run --output <[NAME=]FILE> --rows <FILE> --workers <N> --input <[NAME=]VALUE> <MODEL>

    For more information, try '--help'.
    ");
    assert_snapshot!(run("--rows x.parquet -o y.parquet --workers 0"), @"
    exit code: 2
    ----- stdout -----

    ----- stderr -----
    error: invalid value '0' for '--workers <N>': expected a number from 1 to 1024

    For more information, try '--help'.
    ");
    assert_snapshot!(run("--rows x.parquet -o y.parquet --workers 1025"), @"
    exit code: 2
    ----- stdout -----

    ----- stderr -----
    error: invalid value '1025' for '--workers <N>': expected a number from 1 to 1024

    For more information, try '--help'.
    ");
    assert_snapshot!(run("--rows x.parquet -o nosuch/y.parquet"), @"
    exit code: 2
    ----- stdout -----

    ----- stderr -----
    error: cannot write `nosuch/y.parquet`

    Caused by:
      there is no folder `nosuch`
    ");
    assert_snapshot!(run("--rows x.parquet -o y.parquet --batch-size -1"), @"
    exit code: 2
    ----- stdout -----

    ----- stderr -----
    error: invalid value '-1' for '--batch-size <ROWS>': invalid digit found in string

    For more information, try '--help'.
    ");
    assert_snapshot!(run("--rows x.parquet -o y.parquet --batch-bytes 0"), @"
    exit code: 2
    ----- stdout -----

    ----- stderr -----
    error: invalid value '0' for '--batch-bytes <SIZE>': expected a size above zero

    For more information, try '--help'.
    ");
    assert_snapshot!(run("--rows x.parquet -o y.parquet --input-column x"), @"
    exit code: 2
    ----- stdout -----

    ----- stderr -----
    error: invalid value 'x' for '--input-column <INPUT=COLUMN>': expected NAME=COLUMN

    For more information, try '--help'.
    ");
    assert_snapshot!(run("--rows x.parquet -o y.parquet --cast"), @"
    exit code: 2
    ----- stdout -----

    ----- stderr -----
    error: the argument '--rows <FILE>' cannot be used with '--cast'

    Usage: carton run --rows <FILE> --output <[NAME=]FILE> <MODEL>

    For more information, try '--help'.
    ");
    assert_snapshot!(run("--rows x.parquet -o y.parquet --self-test"), @"
    exit code: 2
    ----- stdout -----

    ----- stderr -----
    error: the argument '--rows <FILE>' cannot be used with:
      --self-test
      --example <NAME>

    Usage: carton run --rows <FILE> --output <[NAME=]FILE> <MODEL>

    For more information, try '--help'.
    ");
    assert_eq!(sandbox.files(), ["echo.carton", "metadata.toml", "model.bin", "x.parquet"]);
}

#[test]
fn names_that_do_not_fit() {
    let sandbox = site();
    let run = |options: &str| sandbox.carton(&format!("run echo.carton --rows x.parquet -o y.parquet {options}"));
    assert_snapshot!(run("--input-column x=z"), @"
    exit code: 2
    ----- stdout -----

    ----- stderr -----
    error: input `x` has no column; the columns are `id`, `x`

    hint: --input-column x=COLUMN names it
    ");
    assert_snapshot!(run("--input-column z=x"), @"
    exit code: 2
    ----- stdout -----

    ----- stderr -----
    error: the model has no input `z`; it has `x`
    ");
    assert_snapshot!(run("--output-column z=x"), @"
    exit code: 2
    ----- stdout -----

    ----- stderr -----
    error: the model has no output `z`; it has `x`
    ");
    assert_snapshot!(run("--keep z"), @"
    exit code: 2
    ----- stdout -----

    ----- stderr -----
    error: there is no column `z`; there are `id`, `x`

    hint: names are case-sensitive
    ");
    assert_snapshot!(run("--keep *"), @"
    exit code: 2
    ----- stdout -----

    ----- stderr -----
    error: there are two columns `x` in the result

    hint: --output-column OUTPUT=COLUMN gives the output another name, and --keep A,B leaves out `x`
    ");
    assert_snapshot!(run("-i x=[[1,2]]"), @"
    exit code: 2
    ----- stdout -----

    ----- stderr -----
    error: no input of the model is a column

    hint: --input-column INPUT=COLUMN makes a column an input
    ");
    assert!(!sandbox.work().join("y.parquet").exists());
    pack_noop(&sandbox, "");
    assert_snapshot!(run("--keep id"), @"
    exit code: 2
    ----- stdout -----

    ----- stderr -----
    error: no input of the model is a column

    hint: --input-column INPUT=COLUMN makes a column an input
    ");
}

/// An existing output is replaced when its successor is complete, and not before.
#[test]
fn an_output_that_exists_is_kept_on_failure() {
    let sandbox = site();
    sandbox.write("y.parquet", "precious");
    let mut missing = ListBuilder::new(Float32Builder::new());
    for row in 0..5000 {
        missing.append_value([Some(1.0), (row != 4321).then_some(2.0)]);
    }
    let columns: [(&str, ArrayRef); 1] = [("x", Arc::new(missing.finish()))];
    write_table(&sandbox, "bad.parquet", &[RecordBatch::try_from_iter(columns).unwrap()]);
    assert_snapshot!(sandbox.carton("run echo.carton --rows bad.parquet -o y.parquet"), @"
    exit code: 1
    ----- stdout -----

    ----- stderr -----
    error: row 4321 of column `x`

    Caused by:
      is null

    hint: make NaN of missing values: `--null nan`, in Python `null=\"nan\"`
    ");
    sandbox.carton("run echo.carton --rows bad.parquet -o nan.parquet --null nan").expect_code(0);
    assert_eq!(fs::read(sandbox.work().join("y.parquet")).unwrap(), b"precious");
    let files = ["bad.parquet", "echo.carton", "metadata.toml", "model.bin", "nan.parquet", "x.parquet", "y.parquet"];
    assert_eq!(sandbox.files(), files);
    sandbox.carton("run echo.carton --rows x.parquet -o y.parquet").expect_code(0);
    assert_eq!(ids(&read_table(&sandbox, "y.parquet")), [0, 1, 2, 3, 4]);
    // The output may be the table itself.
    sandbox.carton("run echo.carton --rows x.parquet -o x.parquet").expect_code(0);
    assert_eq!(ids(&read_table(&sandbox, "x.parquet")), [0, 1, 2, 3, 4]);
}

#[test]
fn tables_that_cannot_be_read() {
    let sandbox = site();
    let run = |table: &str| sandbox.carton(&format!("run echo.carton --rows {table} -o y.parquet"));
    assert_snapshot!(run("missing.parquet"), @"
    exit code: 1
    ----- stdout -----

    ----- stderr -----
    error: cannot read rows from `missing.parquet`

    Caused by:
      No such file or directory (os error 2)
    ");
    assert_snapshot!(run("model.bin"), @"
    exit code: 4
    ----- stdout -----

    ----- stderr -----
    error: cannot read rows from `model.bin`

    Caused by:
      is neither Parquet nor Arrow IPC: it begins with `weights`
    ");
    sandbox.write("empty.parquet", "");
    assert_snapshot!(run("empty.parquet"), @"
    exit code: 4
    ----- stdout -----

    ----- stderr -----
    error: cannot read rows from `empty.parquet`

    Caused by:
      is neither Parquet nor Arrow IPC: it is empty
    ");
    for (name, extension) in [("parquet", "parquet"), ("file", "arrow"), ("stream", "arrows")] {
        let whole = format!("whole-{name}.{extension}");
        write_table(&sandbox, &whole, &[pairs(0, 500), pairs(500, 500)]);
        let bytes = fs::read(sandbox.work().join(&whole)).unwrap();
        for part in [4, bytes.len() / 3, bytes.len() / 2, bytes.len() - 20] {
            sandbox.write("cut", &bytes[..part]);
            let outcome = run("cut");
            assert!(outcome.code == 4, "{part} bytes of {whole}: {outcome}");
            assert!(outcome.stderr.contains("`cut`"), "{part} bytes of {whole}: {outcome}");
        }
    }
    assert!(!sandbox.work().join("y.parquet").exists());
}

#[test]
fn tables_with_other_columns_are_no_part_of_the_first() {
    let sandbox = site();
    write_table(&sandbox, "other.arrows", &[super::rows(0, 3, 2, "y")]);
    assert_snapshot!(sandbox.carton("run echo.carton --rows x.parquet --rows other.arrows -o y.parquet"), @"
    exit code: 1
    ----- stdout -----

    ----- stderr -----
    error: the columns of `other.arrows` are not those of `x.parquet`: `id` Int64, `y` List(Float32), expected `id` Int64, `x` List(Float32)
    ");
    let ids: ArrayRef = Arc::new(Float32Array::from(vec![1.0; 5]));
    let columns = [("id", ids), ("x", pairs(0, 5).column(1).clone())];
    write_table(&sandbox, "typed.arrow", &[RecordBatch::try_from_iter(columns).unwrap()]);
    for (name, metadata) in [("tensors.parquet", r#"{"shape":[2,1]}"#), ("others.arrows", r#"{"shape":[1,2]}"#)] {
        let item = Arc::new(Field::new_list_field(DataType::Float32, true));
        let pairs = FixedSizeListArray::new(item, 2, Arc::new(Float32Array::from(vec![0.0; 4])), None);
        let keys = [("ARROW:extension:name", "arrow.fixed_shape_tensor"), ("ARROW:extension:metadata", metadata)];
        let keys = keys.map(|(key, value)| (key.to_owned(), value.to_owned()));
        let field = Field::new("x", pairs.data_type().clone(), true).with_metadata(keys);
        let batch = RecordBatch::try_new(Arc::new(Schema::new(vec![field])), vec![Arc::new(pairs)]).unwrap();
        write_table(&sandbox, name, &[batch]);
    }
    sandbox.carton("run echo.carton --rows tensors.parquet -o y.parquet").expect_code(0);
    assert_snapshot!(sandbox.carton("run echo.carton --rows tensors.parquet --rows others.arrows -o y.parquet"), @r#"
    exit code: 1
    ----- stdout -----

    ----- stderr -----
    error: the columns of `others.arrows` are not those of `tensors.parquet`: `x` FixedSizeList(2 x Float32) as arrow.fixed_shape_tensor {"shape":[1,2]}, expected `x` FixedSizeList(2 x Float32) as arrow.fixed_shape_tensor {"shape":[2,1]}
    "#);
    assert_snapshot!(sandbox.carton("run echo.carton --rows x.parquet --rows typed.arrow -o y.parquet"), @"
    exit code: 1
    ----- stdout -----

    ----- stderr -----
    error: the columns of `typed.arrow` are not those of `x.parquet`: `id` Float32, `x` List(Float32), expected `id` Int64, `x` List(Float32)
    ");
}

#[test]
fn values_of_the_wrong_shape() {
    let sandbox = site();
    let run = |table: &str| sandbox.carton(&format!("run echo.carton --rows {table} -o y.parquet"));
    write_table(&sandbox, "long.arrow", &[pairs(0, 3), super::rows(3, 2, 3, "x")]);
    assert_snapshot!(run("long.arrow"), @"
    exit code: 1
    ----- stdout -----

    ----- stderr -----
    error: row 3 of column `x` has shape [3], expected [2] for input `x`
    ");
    // Lists of nothing have no bytes, whatever their number.
    let field = Arc::new(Field::new_list_field(DataType::Float32, true));
    let nothing = |n_rows: usize| -> ArrayRef {
        let items: ArrayRef = Arc::new(Float32Array::from(Vec::<f32>::new()));
        Arc::new(FixedSizeListArray::try_new_with_length(field.clone(), 0, items, None, n_rows).unwrap())
    };
    let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(0..3));
    let batch = RecordBatch::try_from_iter([("id", ids), ("x", nothing(3))]).unwrap();
    write_table(&sandbox, "nothing.arrows", &[batch]);
    assert_snapshot!(run("nothing.arrows"), @"
    exit code: 1
    ----- stdout -----

    ----- stderr -----
    error: row 0 of column `x` has shape [0], expected [2] for input `x`
    ");
    let huge = RecordBatch::try_from_iter([("x", nothing((1 << 31) - 1))]).unwrap();
    write_table(&sandbox, "huge.arrows", &[huge]);
    assert_snapshot!(run("huge.arrows"), @"
    exit code: 1
    ----- stdout -----

    ----- stderr -----
    error: row 0 of column `x` has shape [0], expected [2] for input `x`
    ");
    // Arrow has no such batch, but a file can claim it.
    let beyond = RecordBatch::try_from_iter([("x", nothing(1 << 31))]).unwrap();
    write_table(&sandbox, "beyond.arrows", &[beyond]);
    assert_snapshot!(run("beyond.arrows"), @"
    exit code: 4
    ----- stdout -----

    ----- stderr -----
    error: cannot read rows from `beyond.arrows`

    Caused by:
      a batch of 2147483648 rows, expected 0 to 2147483647
    ");
    let strings: ArrayRef = Arc::new(arrow_array::StringArray::from_iter_values(["a"]));
    write_table(&sandbox, "text.arrows", &[RecordBatch::try_from_iter([("x", strings)]).unwrap()]);
    assert_snapshot!(run("text.arrows"), @"
    exit code: 1
    ----- stdout -----

    ----- stderr -----
    error: column `x`: values of type Utf8 cannot become input `x`, which takes float32
    ");
}

/// An error of the model names the row, and the end of its process the rows of the call.
#[test]
fn a_model_that_fails() {
    let sandbox = site();
    let run = || sandbox.carton("-q run echo.carton --rows x.parquet -o y.parquet --batch-size 2");
    pack_pairs(&sandbox, "fail = 'out of paper'\n");
    assert_snapshot!(run(), @"
    exit code: 1
    ----- stdout -----

    ----- stderr -----
    error: row 0

    Caused by:
      the model failed in runner noop 0.1.0
      out of paper
    ");
    pack_pairs(&sandbox, "exit = 3\nlast_words = 'farewell'\nmax_concurrency = 1\n");
    assert_snapshot!(run(), @"
    exit code: 6
    ----- stdout -----

    ----- stderr -----
    error: rows 0 to 1

    Caused by:
      runner noop 0.1.0 died: exit status 3; its last words:
          farewell
    ");
    pack_noop(&sandbox, "");
    let run = |options: &str| {
        sandbox.carton(&format!("run echo.carton --rows x.parquet -o y.parquet --input-column x=x {options}"))
    };
    assert_snapshot!(run("-i k=[1,2,3]"), @"
    exit code: 1
    ----- stdout -----

    ----- stderr -----
    error: output `k` has shape [3] for 5 rows: it has no value for each row

    hint: --output-column OUTPUT=COLUMN leaves out the outputs that it does not name
    ");
    assert_snapshot!(run("--output-column y=y"), @"
    exit code: 1
    ----- stdout -----

    ----- stderr -----
    error: the model returned no output `y`
    ");
    assert!(!sandbox.work().join("y.parquet").exists());
}
