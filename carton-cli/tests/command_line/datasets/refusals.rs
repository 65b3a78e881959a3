//! Rows that cannot be written, and invalid arguments.

use std::fs;

use insta::assert_snapshot;

use super::{rows, stream, with_input};
use crate::sandbox::{Sandbox, names, outcome};

/// Returns standard error, with standard output redirected to this file.
fn outcome_of(sandbox: &Sandbox, arguments: &str, stdout: fs::File) -> String {
    let output = sandbox.command(arguments.split(' ')).stdout(stdout).output().unwrap();
    String::from_utf8(output.stderr).unwrap()
}

/// Makes a sandbox with rows whose vectors in `pair` become longer.
fn with_ragged() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.write("ragged.arrows", stream(&[rows(5, 2), rows(5, 3)], true));
    sandbox
}

#[test]
fn shapes_that_differ() {
    let sandbox = with_ragged();
    assert_snapshot!(sandbox.carton("dataset write ragged.arrows out --batch-size 2 --columns pair"), @"
    exit code: 1
    ----- stdout -----

    ----- stderr -----
    error: `ragged.arrows`: row 9 of column `pair`

    Caused by:
      is float32 of shape [3], expected float32 of shape [2] as the rows before

    hint: with --batch-size all samples of a column are alike; --name-col allows each its own shape
    ");
    // Rows are counted within their file.
    sandbox.write("rows.arrows", stream(&[rows(5, 2)], true));
    let of_two = sandbox.carton("dataset write rows.arrows ragged.arrows out --batch-size 2 --columns pair");
    assert!(of_two.stderr.contains("error: `ragged.arrows`: row 9 of column `pair`"), "{of_two}");
    let long = r#"{"pair": [3]}"#;
    assert_snapshot!(sandbox.run(["dataset", "write", "ragged.arrows", "out", "--name-col", "name", "--shapes", long]), @"
    exit code: 1
    ----- stdout -----

    ----- stderr -----
    error: `ragged.arrows`: row 0 of column `pair`

    Caused by:
      has 2 elements, expected 3, the product of [3]

    hint: --shapes says which shape samples have, and without it lists are vectors
    ");
    assert_eq!(sandbox.files(), ["ragged.arrows", "rows.arrows"]);
}

#[test]
fn columns_that_cannot_be_written() {
    let sandbox = with_ragged();
    assert_snapshot!(sandbox.carton("dataset write ragged.arrows out --batch-size 2"), @"
    exit code: 1
    ----- stdout -----

    ----- stderr -----
    error: column `name`

    Caused by:
      values of type Utf8 cannot become tensors

    hint: --columns A,B writes only some columns; --name-col takes a column of strings as names
    ");
    assert_snapshot!(sandbox.carton("dataset write ragged.arrows out --batch-size 2 --columns label"), @"
    exit code: 2
    ----- stdout -----

    ----- stderr -----
    error: there is no column `label`; there are `id`, `name`, `pair`

    hint: names are case-sensitive
    ");
    assert_snapshot!(sandbox.carton("dataset write ragged.arrows out --name-col name"), @"
    exit code: 1
    ----- stdout -----

    ----- stderr -----
    error: `ragged.arrows`: row 5 of column `name`: the name `row-0` already occurs in row 0 of `ragged.arrows`

    hint: --duplicates last-win keeps the last one
    ");
    sandbox.write("other.arrows", stream(&[rows(5, 2).project(&[0]).unwrap()], true));
    assert_snapshot!(sandbox.carton("dataset write ragged.arrows other.arrows out --batch-size 2"), @"
    exit code: 1
    ----- stdout -----

    ----- stderr -----
    error: the columns of `other.arrows` are not those of `ragged.arrows`: `id` Int64, expected `id` Int64, `name` Utf8, `pair` List(Float32)
    ");
    assert_eq!(sandbox.files(), ["other.arrows", "ragged.arrows"]);
}

#[test]
fn input_that_has_no_rows() {
    let sandbox = Sandbox::new();
    // The process that wrote the stream was stopped: a part of its rows makes neither a dataset nor an attempt.
    let cut =
        with_input(&sandbox, "dataset write - out --batch-size 2 --columns id --task 0", &stream(&[rows(5, 2)], false));
    assert_snapshot!(cut, @"
    exit code: 4
    ----- stdout -----

    ----- stderr -----
    error: cannot read rows from `standard input`

    Caused by:
      the stream ends without its end-of-stream marker: its writer was stopped before it was done
    ");
    sandbox.write("text.txt", "some text");
    assert_snapshot!(sandbox.carton("dataset write text.txt out --batch-size 2"), @"
    exit code: 4
    ----- stdout -----

    ----- stderr -----
    error: cannot read rows from `text.txt`

    Caused by:
      is neither Parquet nor Arrow IPC: it begins with `some tex`
    ");
    sandbox.carton("dataset write none.parquet out --batch-size 2").expect_code(1);
    assert_eq!(sandbox.files(), ["input", "text.txt"]);
}

#[test]
fn outputs_that_cannot_be_written() {
    let sandbox = with_ragged();
    sandbox.write("text.txt", "some text");
    let outcome = sandbox.carton("dataset write ragged.arrows text.txt --batch-size 2 --columns id").expect_code(1);
    assert!(outcome.stderr.contains("error: cannot create `text.txt`"), "{outcome}");
    assert!(outcome.stderr.contains("hint: a dataset is a folder"), "{outcome}");
    assert_eq!(sandbox.files(), ["ragged.arrows", "text.txt"]);
    // If standard output fails, standard error says so.
    let full = fs::File::options().write(true).open("/dev/full").unwrap();
    let outcome = outcome_of(&sandbox, "dataset ls nowhere --json", full);
    assert!(outcome.contains("error: "), "{outcome}");
}

/// As a quota does it: a write beyond the limit fails, and the signal that comes with it does not end the command.
#[test]
fn a_limit_on_the_size_of_files_is_an_error() {
    let sandbox = Sandbox::new();
    sandbox.write("rows.arrows", stream(&[rows(10_000, 2)], true));
    let carton =
        sandbox.command(["dataset", "write", "rows.arrows", "out", "--batch-size", "10000", "--columns", "id"]);
    let mut limited = std::process::Command::new("sh");
    limited.args(["-c", r#"ulimit -f 8; exec "$0" "$@""#]).arg(carton.get_program()).args(carton.get_args());
    limited.env_clear().envs(carton.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let outcome = outcome(limited.current_dir(sandbox.work())).expect_code(1);
    assert!(outcome.stderr.contains("error: cannot write `out/_tasks/"), "{outcome}");
    assert!(outcome.stderr.contains("File too large"), "{outcome}");
    assert_eq!(sandbox.files(), ["rows.arrows"]);
}

#[test]
fn invalid_arguments() {
    let sandbox = Sandbox::new();
    let check = |arguments: &str, expected: &str| {
        let outcome = sandbox.carton(&format!("dataset {arguments}")).expect_code(2);
        assert!(outcome.stderr.contains(expected), "{outcome}");
    };
    check("write rows.parquet out", "<--batch-size <N>|--name-col <NAME>>");
    check("write rows.parquet out --batch-size 2 --name-col name", "cannot be used with");
    check("write rows.parquet out --batch-size 0", "invalid value '0'");
    check("write rows.parquet out --batch-size 2 --dtype float", "expected a dtype of safetensors");
    check("write rows.parquet out --batch-size 2 --dtype F32 --dtype F16", "two dtypes are given for all columns");
    check("write rows.parquet out --batch-size 2 --shapes {", "expected JSON such as");
    let twice = r#"write rows.parquet out --batch-size 2 --shapes {"a":[2],"a":[3]}"#;
    check(twice, "column `a` is given twice");
    check("write rows.parquet out --batch-size 2 --generate-index=both", "[possible values: folder, file]");
    check("write rows.parquet out --name-col a --target-shard-size-mb 49", "50..=1000");
    check("write rows.parquet out --batch-size 2 --task 1 --generate-index", "cannot be used with");
    check("write rows.parquet --batch-size 2", "there is one path, `rows.parquet`, expected INPUT… and OUT");
    check("write rows.parquet out --batch-size -2", "invalid value '-2' for '--batch-size <N>'");
    check("write rows.parquet out --name-col a --target-shard-size-mb -1", "invalid value '-1'");
    check("write rows.parquet out --batch-size 2 --task -1", "invalid value '-1'");
    check("merge out --tasks -1", "invalid value '-1'");
    check("merge out --batch-size -1", "invalid value '-1'");
    check("write - - out --batch-size 2", "standard input can be read once only");
    check("merge out --attempts one", "`one` is not the id of an attempt");
    check("merge out --batch-size 2 --kv-separator __", "cannot be used with");
    check("merge out --columns a", "--kv-separator <S>");
    check("merge out --duplicates last-win", "--kv-separator <S>");
}

/// Opening a named pipe blocks until another process writes to it.
#[test]
fn what_is_no_regular_file_is_refused_at_once() {
    let sandbox = Sandbox::new();
    sandbox.write("rows.arrows", stream(&[rows(4, 2)], true));
    let write = "dataset write rows.arrows out --name-col name --columns id";
    sandbox.carton(write).expect_code(0);
    let replace_by_pipe = |name: &str| {
        let path = sandbox.work().join("out").join(name);
        fs::remove_file(&path).unwrap();
        assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
    };
    replace_by_pipe("dataset_manifest.json");
    let expect = |command: &str, error: &str| {
        let outcome = sandbox.carton(command).expect_code(4);
        assert_eq!(outcome.stderr, format!("error: `out/dataset_manifest.json`{error}is no regular file\n"));
    };
    expect("dataset ls out", "\n\nCaused by:\n  ");
    expect("dataset verify out", "\n\nCaused by:\n  ");
    expect(&format!("{write} --overwrite"), ": ");
    expect("dataset merge out --overwrite", ": ");
    fs::remove_dir_all(sandbox.work().join("out")).unwrap();
    sandbox.carton(write).expect_code(0);
    let files = names(&sandbox.work().join("out"));
    let shard = files.iter().find(|name| name.starts_with("part-")).unwrap();
    replace_by_pipe(shard);
    let outcome = sandbox.carton("dataset cat out row-1__id").expect_code(4);
    assert!(outcome.stderr.ends_with(&format!("shard `out/{shard}` is no regular file\n")), "{outcome}");
}
