//! Results that are written.

use std::fs;
use std::process::Stdio;
use std::sync::Arc;

use arrow_array::{ArrayRef, ListArray, RecordBatch};
use arrow_schema::{DataType, Field, Schema};
use carton_tensor::{Tensor, npy};
use insta::assert_snapshot;

use super::{ids, images, names, numbers, pack_digits, pack_pairs, pairs, read_table, write_table};
use crate::sandbox::{Sandbox, digits};

/// The outputs of the model for all images, from a single call without a table.
fn expected(sandbox: &Sandbox, n_rows: i64) -> Vec<f32> {
    let all = images(0, n_rows);
    let lists = all.column_by_name("image").unwrap();
    let lists = arrow_array::cast::as_list_array(lists).values().clone();
    let pixels = arrow_array::cast::as_primitive_array::<arrow_array::types::Float32Type>(&lists).values().to_vec();
    let array = Tensor::from_vec(pixels, vec![n_rows as usize, 1, 8, 8]).unwrap();
    npy::write(fs::File::create(sandbox.work().join("all.npy")).unwrap(), &array).unwrap();
    sandbox.carton("run digits.carton -i all.npy -o probabilities.npy").expect_code(0);
    let Tensor::Numeric(outputs) = npy::read_path(sandbox.work().join("probabilities.npy")).unwrap() else { panic!() };
    outputs.as_slice::<f32>().unwrap().to_vec()
}

/// Batches change the order of additions at most.
fn assert_close(found: &[f32], expected: &[f32]) {
    assert_eq!(found.len(), expected.len());
    let differs = found.iter().zip(expected).position(|(found, expected)| (found - expected).abs() > 1e-6);
    assert_eq!(differs, None);
}

#[test]
fn a_table_gets_the_outputs_of_a_model() {
    let sandbox = Sandbox::new();
    pack_digits(&sandbox);
    let expected = expected(&sandbox, 300);
    let batches = [images(0, 120), images(120, 1), images(121, 179)];
    for input in ["x.parquet", "x.arrow", "x.arrows"] {
        write_table(&sandbox, input, &batches);
        for output in ["y.parquet", "y.arrow", "y.arrows"] {
            let command = format!("run digits.carton --rows {input} -o {output} --batch-size 64");
            sandbox.carton(&command).expect_code(0);
            let found = read_table(&sandbox, output);
            assert_eq!(names(&found), ["id", "probabilities"]);
            assert_eq!(ids(&found), (0..300).collect::<Vec<_>>());
            assert_close(&numbers(&found, "probabilities"), &expected);
        }
    }
    assert_snapshot!(sandbox.carton("run digits.carton --rows x.parquet -o y.pq --workers 2"), @"
    exit code: 0
    ----- stdout -----

    ----- stderr -----
    wrote 300 rows to y.pq in [TIME], [RATE] rows/s
    ");
    let report = sandbox.carton("run digits.carton --rows x.parquet -o y.feather --batch-size 128 --workers 2 --json");
    let report = report.expect_code(0).json();
    assert!(report["seconds"].as_f64().unwrap() > 0.0, "{report}");
    let without_time: Vec<String> =
        ["file", "rows", "calls", "workers"].iter().map(|key| format!("{key} {}", report[key])).collect();
    assert_eq!(without_time, [r#"file "y.feather""#, "rows 300", "calls 3", "workers 2"]);
    assert_eq!(report.as_object().unwrap().len(), 5);
    let quiet = sandbox.carton("run digits.carton --rows x.parquet -o y.ipc -q").expect_code(0);
    assert_eq!((quiet.stdout.as_str(), quiet.stderr.as_str()), ("", ""));
}

/// As Spark and others write tables: a folder of files, with files beside them that are not part of the table.
#[test]
fn a_folder_is_one_table() {
    let sandbox = Sandbox::new();
    pack_pairs(&sandbox, "");
    for folder in ["table", "table/.part.crc", "table/_temporary", "empty"] {
        fs::create_dir(sandbox.work().join(folder)).unwrap();
    }
    sandbox.write("table/_SUCCESS", "");
    sandbox.write("table/.part-2.parquet.crc", "no table");
    for (name, first) in [("part-10.parquet", 4), ("part-2.parquet", 6), ("part-1.parquet", 0)] {
        write_table(&sandbox, &format!("table/{name}"), &[pairs(first, 4)]);
    }
    write_table(&sandbox, "more.arrow", &[pairs(9, 1)]);
    sandbox.carton("run echo.carton --rows table --rows more.arrow -o y.parquet").expect_code(0);
    assert_eq!(ids(&read_table(&sandbox, "y.parquet")), [0, 1, 2, 3, 4, 5, 6, 7, 6, 7, 8, 9, 9]);
    sandbox.carton("dataset write table out --batch-size 8 --columns id").expect_code(0);
    assert_snapshot!(sandbox.carton("dataset cat out id --shard 0 --json").json()["tensor"]["data"], @"[0,1,2,3,4,5,6,7]");
    let refused = |folder: &str, code: i32, expected: &str| {
        let outcome = sandbox.carton(&format!("run echo.carton --rows {folder} -o z.parquet")).expect_code(code);
        assert!(outcome.stderr.starts_with(&format!("error: {expected}")), "{outcome}");
    };
    refused("empty", 2, "there are no files with rows in `empty`");
    fs::create_dir(sandbox.work().join("table/year=2025")).unwrap();
    refused("table", 2, "`table/year=2025` is a folder in a folder of rows, expected files only");
    fs::remove_dir(sandbox.work().join("table/year=2025")).unwrap();
    write_table(&sandbox, "table/part-3.parquet", &[images(0, 1)]);
    refused("table", 1, "the columns of `table/part-3.parquet` are not those of `table/part-1.parquet`");
}

/// The example in the README and in the folder of the example.
#[test]
fn the_documented_example_works() {
    let sandbox = Sandbox::new();
    pack_digits(&sandbox);
    write_table(&sandbox, "images.parquet", &[images(0, 20)]);
    for file in ["../../README.md", "README.md"] {
        let text = fs::read_to_string(digits(file)).unwrap();
        let line = text.lines().find(|line| line.contains("--rows images.parquet"));
        let line = line.unwrap_or_else(|| panic!("no example in {file}"));
        let (_, arguments) = line.split_once("carton ").unwrap();
        sandbox.carton(arguments).expect_code(0);
        assert_eq!(ids(&read_table(&sandbox, "probabilities.parquet")), (0..20).collect::<Vec<_>>());
        fs::remove_file(sandbox.work().join("probabilities.parquet")).unwrap();
    }
}

#[test]
fn a_stream_goes_through_the_model() {
    let sandbox = Sandbox::new();
    pack_digits(&sandbox);
    write_table(&sandbox, "x.arrows", &[images(0, 10), images(10, 90)]);
    let output = fs::File::create(sandbox.work().join("y.arrows")).unwrap();
    let mut first = sandbox.command(["run", "digits.carton", "--rows", "-", "-o", "-", "--keep", "*"]);
    let mut first =
        first.stdin(fs::File::open(sandbox.work().join("x.arrows")).unwrap()).stdout(Stdio::piped()).spawn().unwrap();
    let second = ["run", "digits.carton", "--rows", "-", "-o", "-", "--output-column", "probabilities=again"];
    let mut second = sandbox.command(second).stdin(first.stdout.take().unwrap()).stdout(output).spawn().unwrap();
    assert!(first.wait().unwrap().success() && second.wait().unwrap().success());
    let found = read_table(&sandbox, "y.arrows");
    assert_eq!(names(&found), ["id", "probabilities", "again"]);
    assert_eq!(ids(&found), (0..100).collect::<Vec<_>>());
    let expected = expected(&sandbox, 100);
    assert_close(&numbers(&found, "probabilities"), &expected);
    assert_close(&numbers(&found, "again"), &expected);
    let note = "wrote 100 rows to standard output";
    let mut stderr = String::new();
    std::io::Read::read_to_string(&mut first.stderr.take().unwrap(), &mut stderr).unwrap();
    assert!(stderr.starts_with(note), "{stderr}");
}

/// Tables with the same columns in another order, and with values that may be null, are one table.
#[test]
fn several_tables_are_one() {
    let sandbox = Sandbox::new();
    pack_pairs(&sandbox, "");
    let labels = |labels: [Option<&str>; 3]| -> arrow_array::ArrayRef {
        std::sync::Arc::new(arrow_array::StringArray::from(labels.to_vec()))
    };
    let with_labels = |rows: RecordBatch, label: arrow_array::ArrayRef, is_nullable: bool| {
        let fields = rows.schema().fields().iter().map(|field| field.as_ref().clone()).collect::<Vec<_>>();
        let label_field = arrow_schema::Field::new("label", arrow_schema::DataType::Utf8, is_nullable);
        let schema = Schema::new([fields, vec![label_field]].concat());
        RecordBatch::try_new(std::sync::Arc::new(schema), [rows.columns().to_vec(), vec![label]].concat()).unwrap()
    };
    let first = with_labels(pairs(0, 3), labels([Some("a"), Some("b"), Some("c")]), false);
    let second = with_labels(pairs(3, 3), labels([None, Some("e"), None]), true).project(&[2, 1, 0]).unwrap();
    write_table(&sandbox, "a.parquet", std::slice::from_ref(&first));
    write_table(&sandbox, "b.arrows", std::slice::from_ref(&second));
    sandbox.carton("run echo.carton --rows a.parquet --rows b.arrows -o y.arrow").expect_code(0);
    let found = read_table(&sandbox, "y.arrow");
    assert_eq!(names(&found), ["id", "label", "x"]);
    assert_eq!(ids(&found), [0, 1, 2, 3, 4, 5]);
    let labels = arrow_array::cast::as_string_array(found.column_by_name("label").unwrap());
    let labels: Vec<Option<&str>> = labels.iter().collect();
    assert_eq!(labels, [Some("a"), Some("b"), Some("c"), None, Some("e"), None]);
}

#[test]
fn tables_whose_lists_name_their_elements_otherwise_are_one_table() {
    let sandbox = Sandbox::new();
    pack_pairs(&sandbox, "");
    let table = |first: i64, element: &str| {
        let rows = pairs(first, 2);
        let (_, offsets, values, nulls) = arrow_array::cast::as_list_array(rows.column(1)).clone().into_parts();
        let field = Arc::new(Field::new(element, DataType::Float32, true));
        let lists: ArrayRef = Arc::new(ListArray::new(field, offsets, values, nulls));
        let columns = [("id", Arc::clone(rows.column(0))), ("kept", Arc::clone(&lists)), ("x", lists)];
        RecordBatch::try_from_iter(columns).unwrap()
    };
    write_table(&sandbox, "a.parquet", &[table(0, "element")]);
    write_table(&sandbox, "b.arrows", &[table(2, "item")]);
    for output in ["y.arrow", "y.parquet"] {
        sandbox.carton(&format!("run echo.carton --rows a.parquet --rows b.arrows -o {output}")).expect_code(0);
        let found = read_table(&sandbox, output);
        assert_eq!(ids(&found), [0, 1, 2, 3]);
        let kept = arrow_array::cast::as_list_array(found.column_by_name("kept").unwrap()).values().clone();
        let kept = arrow_array::cast::as_primitive_array::<arrow_array::types::Float32Type>(&kept).values().to_vec();
        assert_eq!(numbers(&found, "x"), kept);
    }
}

#[test]
fn columns_are_chosen() {
    let sandbox = Sandbox::new();
    pack_pairs(&sandbox, "");
    write_table(&sandbox, "x.parquet", &[super::rows(0, 3, 2, "pair")]);
    let check = |options: &str, expected: &[&str]| {
        sandbox
            .carton(&format!("run echo.carton --rows x.parquet -o y.parquet --input-column x=pair{options}"))
            .expect_code(0);
        assert_eq!(names(&read_table(&sandbox, "y.parquet")), expected, "{options}");
    };
    check("", &["id", "x"]);
    check(" --output-column x=y", &["id", "y"]);
    check(" --keep *", &["id", "pair", "x"]);
    check(" --keep pair", &["pair", "x"]);
    check(" --keep=", &["x"]);
    check(" --keep id --batch-bytes 8 --batch-size 2", &["id", "x"]);
}

#[test]
fn an_input_has_one_value_for_all_rows() {
    let sandbox = Sandbox::new();
    let tensor = |side, name, shape| format!("[[{side}]]\nname = '{name}'\ndtype = 'float32'\nshape = {shape}\n");
    let metadata =
        [tensor("input", "x", "['n', 2]"), tensor("input", "scale", "[]"), tensor("output", "x", "['n', 2]")];
    super::pack_noop(&sandbox, &metadata.concat());
    write_table(&sandbox, "x.parquet", &[pairs(0, 3)]);
    let command = "run echo.carton --rows x.parquet -o y.parquet --signature-mode off";
    sandbox.carton(&format!("{command} -i scale=0.5")).expect_code(0);
    assert_snapshot!(sandbox.carton(command), @"
    exit code: 1
    ----- stdout -----

    ----- stderr -----
    error: input `scale` is a scalar: it has no dimension for rows

    hint: -i NAME=VALUE gives an input one value for all rows
    ");
    assert_snapshot!(sandbox.carton(&format!("{command} -i scale=[1")), @"
    exit code: 2
    ----- stdout -----

    ----- stderr -----
    error: input `scale`: `[1` is not valid JSON

    Caused by:
      EOF while parsing a list at line 1 column 2
    ");
    assert_snapshot!(sandbox.carton(&format!("{command} -i scale=0.5 -i x=[[1,2]]")), @"
    exit code: 2
    ----- stdout -----

    ----- stderr -----
    error: no input of the model is a column

    hint: --input-column INPUT=COLUMN makes a column an input
    ");
}

#[test]
fn a_table_without_rows_has_columns() {
    let sandbox = Sandbox::new();
    pack_pairs(&sandbox, "");
    for input in ["x.parquet", "x.arrow", "x.arrows"] {
        write_table(&sandbox, input, &[pairs(0, 0)]);
        for output in ["y.parquet", "y.arrow", "y.arrows"] {
            sandbox.carton(&format!("run echo.carton --rows {input} -o {output}")).expect_code(0);
            let found = read_table(&sandbox, output);
            assert_eq!((names(&found), found.num_rows()), (vec!["id".to_owned(), "x".to_owned()], 0));
        }
    }
    super::pack_noop(&sandbox, "");
    assert_snapshot!(sandbox.carton("run echo.carton --rows x.parquet -o z.parquet --input-column x=x"), @"
    exit code: 1
    ----- stdout -----

    ----- stderr -----
    error: the columns of the result are unknown: the carton does not declare its outputs, and there are no rows
    ");
    assert!(!sandbox.work().join("z.parquet").exists());
}

#[test]
fn progress_is_shown_in_lines() {
    let sandbox = Sandbox::new();
    pack_pairs(&sandbox, "delay_ms = 300\nmax_concurrency = 1\n");
    write_table(&sandbox, "x.parquet", &[pairs(0, 50)]);
    let command = "run echo.carton --rows x.parquet -o y.parquet --batch-size 2 --progress plain";
    let outcome = sandbox.carton(command).expect_code(0);
    let line = outcome.stderr.lines().next().unwrap_or_default();
    assert!(line.starts_with("running: ") && line.contains(" of 50 (") && line.contains(" rows/s, "), "{outcome}");
}
