//! `carton dataset`: rows into shards, and what is in them.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow_array::builder::{Float32Builder, ListBuilder};
use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use arrow_ipc::writer::StreamWriter;
use carton_tensor::npy;
use insta::assert_snapshot;
use rustix::process::{Pid, Signal, kill_process};

use crate::sandbox::{Outcome, Sandbox, names, outcome};

/// Rows of a number and a pair of numbers; the last pair has as many numbers as asked for.
fn rows(n_rows: i64, last: usize) -> RecordBatch {
    let mut pairs = ListBuilder::new(Float32Builder::new());
    for row in 0..n_rows {
        let length = if row + 1 == n_rows { last } else { 2 };
        pairs.append_value((0..length).map(|i| Some(row as f32 + i as f32 / 4.0)));
    }
    let names: Vec<String> = (0..n_rows).map(|row| format!("row-{row}")).collect();
    let columns: [(&str, ArrayRef); 3] = [
        ("id", Arc::new(Int64Array::from_iter_values(0..n_rows))),
        ("name", Arc::new(StringArray::from(names))),
        ("pair", Arc::new(pairs.finish())),
    ];
    RecordBatch::try_from_iter(columns).unwrap()
}

/// An Arrow IPC stream, with its end-of-stream marker or without.
fn stream(batches: &[RecordBatch], is_ended: bool) -> Vec<u8> {
    let mut writer = StreamWriter::try_new(Vec::new(), &batches[0].schema()).unwrap();
    for batch in batches {
        writer.write(batch).unwrap();
    }
    if is_ended {
        writer.finish().unwrap();
    }
    std::mem::take(writer.get_mut())
}

/// Files and folders below the folder in which commands run, without what names attempts.
fn tree(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for name in names(folder) {
        let path = folder.join(&name);
        if path.is_dir() {
            found.extend(tree(&path).into_iter().map(|inner| format!("{}/{inner}", plain(&name))));
        } else {
            found.push(plain(&name));
        }
    }
    found
}

fn plain(name: &str) -> String {
    match name.strip_prefix("part-") {
        Some(rest) => format!("part-{}", &rest[..10]),
        None => name.split_once('-').map_or(name, |(task, _)| task).to_owned(),
    }
}

/// What is on standard error when standard output goes to this file.
fn outcome_of(sandbox: &Sandbox, arguments: &str, stdout: fs::File) -> String {
    let output = sandbox.command(arguments.split(' ')).stdout(stdout).output().unwrap();
    String::from_utf8(output.stderr).unwrap()
}

fn with_input(sandbox: &Sandbox, arguments: &str, input: &[u8]) -> Outcome {
    let path = sandbox.write("input", input);
    outcome(sandbox.command(arguments.split(' ')).stdin(fs::File::open(path).unwrap()))
}

#[test]
fn batches_are_written_and_looked_at() {
    let sandbox = Sandbox::new();
    sandbox.write("rows.arrows", stream(&[rows(5, 2)], true));
    assert_snapshot!(sandbox.carton("dataset write rows.arrows out --batch-size 2 --columns id,pair"), @"
    exit code: 0
    ----- stdout -----
    wrote out: 5 samples in 3 shards, 648 B
    ----- stderr -----
    ");
    assert_eq!(
        tree(&sandbox.work().join("out")),
        ["dataset_manifest.json", "part-00000-0000", "part-00000-0001", "part-00000-0002"]
    );
    assert_snapshot!(sandbox.carton("dataset ls out"), @"
    exit code: 0
    ----- stdout -----
    SHARD  SAMPLES  BYTES  NAME
        0        2    224  part-00000-0000-[UUID].safetensors
        1        2    224  part-00000-0001-[UUID].safetensors
        2        1    200  part-00000-0002-[UUID].safetensors
    ----- stderr -----
    5 samples in 3 shards, 648 B
    ");
    assert_snapshot!(sandbox.carton("dataset ls out --tensors"), @"
    exit code: 0
    ----- stdout -----
    DTYPE  SHAPE   SHARD                                                             NAME
    I64    [2]     part-00000-0000-[UUID].safetensors  id
    I64    [2]     part-00000-0001-[UUID].safetensors  id
    I64    [1]     part-00000-0002-[UUID].safetensors  id
    F32    [2, 2]  part-00000-0000-[UUID].safetensors  pair
    F32    [2, 2]  part-00000-0001-[UUID].safetensors  pair
    F32    [1, 2]  part-00000-0002-[UUID].safetensors  pair
    ----- stderr -----
    5 samples in 3 shards, 648 B
    ");
    assert_snapshot!(sandbox.carton("dataset verify out"), @"
    exit code: 0
    ----- stdout -----
    OK out: 5 samples in 3 shards
    ----- stderr -----
    ");
    assert_snapshot!(sandbox.carton("dataset verify out --json").json(), @r#"{"findings":[],"n_shards":3,"omitted":0,"passed":true,"samples":5}"#);
    assert_snapshot!(sandbox.carton("dataset cat out pair --shard 1"), @"
    exit code: 0
    ----- stdout -----
    pair  float32 [2, 2]
    [[2.   2.25]
     [3.   3.25]]
    ----- stderr -----
    ");
    assert_snapshot!(sandbox.carton("dataset cat out pair --shard 1 --slice 1,1 --json").json(), @r#"{"dtype":"float32","name":"pair","tensor":{"data":3.25,"dtype":"float32","shape":[]}}"#);
    assert_snapshot!(sandbox.carton("dataset cat out pair"), @"
    exit code: 1
    ----- stdout -----

    ----- stderr -----
    error: 3 shards have a tensor `pair`, `part-00000-0000-[UUID].safetensors` among them

    hint: --shard N chooses one; `carton dataset ls` shows them
    ");
    assert_snapshot!(sandbox.carton("dataset cat out pair --shard 3"), @"
    exit code: 1
    ----- stdout -----

    ----- stderr -----
    error: `out` has no shard `3`

    hint: `carton dataset ls` shows them
    ");
    assert_snapshot!(sandbox.carton("dataset cat out label --shard 0"), @"
    exit code: 1
    ----- stdout -----

    ----- stderr -----
    error: `out` has no tensor `label`

    hint: `carton dataset ls --tensors` shows their names
    ");
    // A shard is the file that it is for every command.
    let shard = names(&sandbox.work().join("out")).remove(2);
    let printed = sandbox.carton(&format!("tensor cat out/{shard} pair --json")).json();
    assert_eq!(sandbox.carton(&format!("dataset cat out pair --shard {shard} --json")).json(), printed);
}

#[test]
fn columns_may_come_in_another_order() {
    let sandbox = Sandbox::new();
    sandbox.write("one.arrows", stream(&[rows(2, 2).project(&[0, 2]).unwrap()], true));
    sandbox.write("two.arrows", stream(&[rows(2, 2).project(&[2, 0]).unwrap()], true));
    sandbox.carton("dataset write one.arrows two.arrows out --batch-size 4").expect_code(0);
    let json = sandbox.carton("dataset cat out id --json").expect_code(0).json();
    assert_eq!(json["tensor"]["data"], serde_json::json!([0, 1, 0, 1]));
}

#[test]
fn named_rows_are_found_by_name() {
    let sandbox = Sandbox::new();
    sandbox.write("rows.arrows", stream(&[rows(5, 7)], true));
    let arguments = "dataset write rows.arrows out --name-col name --dtype pair=F16 --generate-index --json";
    assert_snapshot!(sandbox.carton(arguments).json(), @r#"{"bytes":846,"index":true,"n_shards":1,"path":"out","samples":5}"#);
    assert_eq!(
        tree(&sandbox.work().join("out")),
        ["_tensor_index.parquet", "dataset_manifest.json", "part-00000-0000"]
    );
    assert_snapshot!(sandbox.carton("dataset cat out row-4__pair"), @"
    exit code: 0
    ----- stdout -----
    row-4__pair  float16 [7]
    [4.   4.25 4.5  4.75 5.   5.25 5.5 ]
    ----- stderr -----
    ");
    let output = sandbox.command(["dataset", "cat", "out", "row-3__id", "--npy"]).output().unwrap();
    let expected = carton_tensor::Tensor::from_vec(vec![3_i64], vec![]).unwrap();
    assert_eq!(npy::read(output.stdout.as_slice(), 1000).unwrap(), expected);
    sandbox.carton("dataset verify out").expect_code(0);
}

#[test]
fn tasks_are_merged_and_one_attempt_of_each_counts() {
    let sandbox = Sandbox::new();
    let task = |task: u32, n_rows| {
        let arguments = format!("dataset write - out --batch-size 4 --columns id --task {task} --json");
        let report = with_input(&sandbox, &arguments, &stream(&[rows(n_rows, 2)], true)).expect_code(0).json();
        assert_eq!(report["task"], task);
        report["attempt"].as_str().unwrap().to_owned()
    };
    let (first, second, again) = (task(0, 4), task(1, 3), task(1, 2));
    let out = sandbox.work().join("out");
    assert!(tree(&out).iter().all(|path| path.starts_with("_tasks/")), "{:?}", tree(&out));
    assert_snapshot!(sandbox.carton("dataset ls out"), @"
    exit code: 4
    ----- stdout -----

    ----- stderr -----
    error: `out` is no dataset: there is no dataset_manifest.json

    hint: `carton dataset merge` makes it of what tasks have written, or of the shards that are there
    ");
    // As the program that started the tasks knows them, on standard input.
    let merged =
        with_input(&sandbox, "dataset merge out --attempts - --json", format!("{first}\n{again}\n").as_bytes());
    assert_snapshot!(merged.expect_code(0).json(), @r#"{"bytes":304,"index":false,"n_shards":2,"path":"out","samples":6}"#);
    assert_eq!(tree(&out), ["dataset_manifest.json", "part-00000-0000", "part-00001-0000"]);
    assert!(names(&out).iter().all(|name| !name.contains(&second)));
    sandbox.carton("dataset verify out").expect_code(0);
    // A task that starts too late leaves the dataset alone.
    let late =
        with_input(&sandbox, "dataset write - out --batch-size 4 --columns id --task 2", &stream(&[rows(1, 2)], true));
    assert_snapshot!(late, @"
    exit code: 1
    ----- stdout -----

    ----- stderr -----
    error: `out` has a dataset already

    hint: --overwrite replaces it
    ");
    assert_eq!(tree(&out).len(), 3);
    assert_snapshot!(sandbox.carton("dataset merge out --attempts 1"), @"
    exit code: 2
    ----- stdout -----

    ----- stderr -----
    error: `1` names no attempt, expected a UUID

    hint: `carton dataset write --task N` prints it: attempt 550e8400-…
    ");
    assert_snapshot!(sandbox.carton("dataset merge nowhere"), @"
    exit code: 1
    ----- stdout -----

    ----- stderr -----
    error: `nowhere`

    Caused by:
      No such file or directory (os error 2)
    ");
}

#[test]
fn shards_from_many_machines_get_a_manifest() {
    let sandbox = Sandbox::new();
    sandbox.write("rows.arrows", stream(&[rows(5, 2)], true));
    sandbox.carton("dataset write rows.arrows out --batch-size 2 --columns id,pair").expect_code(0);
    let manifest = sandbox.work().join("out/dataset_manifest.json");
    let expected = fs::read(&manifest).unwrap();
    fs::remove_file(&manifest).unwrap();
    assert_snapshot!(sandbox.carton("dataset merge out"), @"
    exit code: 0
    ----- stdout -----
    wrote out: 5 samples in 3 shards, 648 B
    ----- stderr -----
    ");
    assert_eq!(fs::read(&manifest).unwrap(), expected);
}

#[test]
fn what_is_wrong_with_rows_is_told_and_nothing_is_left() {
    let sandbox = Sandbox::new();
    sandbox.write("ragged.arrows", stream(&[rows(5, 2), rows(5, 3)], true));
    assert_snapshot!(sandbox.carton("dataset write ragged.arrows out --batch-size 2 --columns pair"), @"
    exit code: 1
    ----- stdout -----

    ----- stderr -----
    error: row 9 of column `pair`

    Caused by:
      is float32 of shape [3], expected float32 of shape [2] as the rows before

    hint: with --batch-size all samples of a column are alike; --name-col allows each its own shape
    ");
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

    hint: names are told apart by case
    ");
    assert_snapshot!(sandbox.carton("dataset write ragged.arrows out --name-col name"), @"
    exit code: 1
    ----- stdout -----

    ----- stderr -----
    error: row 5 of column `name`: the name `row-0` was there before, in row 0

    hint: --duplicates last-win keeps the last one
    ");
    let long = r#"{"pair": [3]}"#;
    assert_snapshot!(sandbox.run(["dataset", "write", "ragged.arrows", "out", "--name-col", "name", "--shapes", long]), @"
    exit code: 1
    ----- stdout -----

    ----- stderr -----
    error: row 0 of column `pair`

    Caused by:
      has 2 elements, expected 3, the product of [3]

    hint: --shapes says which shape samples have, and without it lists are vectors
    ");
    // The process that wrote it was stopped: some of its rows are no dataset, and no attempt.
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
    sandbox.write("other.arrows", stream(&[rows(5, 2).project(&[0]).unwrap()], true));
    assert_snapshot!(sandbox.carton("dataset write ragged.arrows other.arrows out --batch-size 2"), @"
    exit code: 1
    ----- stdout -----

    ----- stderr -----
    error: the columns of `other.arrows` are not those of `ragged.arrows`: `id` Int64, expected `id` Int64, `name` Utf8, `pair` List(Float32)
    ");
    let outcome = sandbox.carton("dataset write ragged.arrows text.txt --batch-size 2 --columns id").expect_code(1);
    assert!(outcome.stderr.contains("hint: a dataset is a folder"), "{outcome}");
    assert_eq!(sandbox.files(), ["input", "other.arrows", "ragged.arrows", "text.txt"]);
    // What cannot be printed is told all the same.
    let full = fs::File::options().write(true).open("/dev/full").unwrap();
    let outcome = outcome_of(&sandbox, "dataset ls nowhere --json", full);
    assert!(outcome.contains("error: "), "{outcome}");
}

#[test]
fn arguments_that_make_no_sense() {
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
    check("write rows.parquet out --batch-size 2 --duplicates fail", "cannot be used with");
    check("write rows.parquet out --name-col a --tail-strategy pad", "cannot be used with");
    check("write rows.parquet out --name-col a --target-shard-size-mb 49", "50..=1000");
    check("write rows.parquet out --batch-size 2 --task 1 --generate-index", "cannot be used with");
    check("write - - out --batch-size 2", "standard input can be read once only");
    check("merge out --attempts one", "`one` names no attempt");
}

#[test]
fn damage_is_found() {
    let sandbox = Sandbox::new();
    sandbox.write("rows.arrows", stream(&[rows(6, 2)], true));
    sandbox.carton("dataset write rows.arrows out --batch-size 2 --columns id --generate-index").expect_code(0);
    let out = sandbox.work().join("out");
    let shards: Vec<_> = names(&out).into_iter().filter(|name| name.starts_with("part-")).collect();
    let whole = fs::read(out.join(&shards[0])).unwrap();
    fs::write(out.join(&shards[0]), &whole[..whole.len() - 1]).unwrap();
    fs::rename(out.join(&shards[1]), out.join(shards[1].replace("0001", "0009"))).unwrap();
    assert_snapshot!(sandbox.carton("dataset verify out"), @"
    exit code: 4
    ----- stdout -----
    BAD `part-00000-0000-[UUID].safetensors`: 143 bytes, expected 144
    BAD `part-00000-0001-[UUID].safetensors`: is not there
    BAD `part-00000-0009-[UUID].safetensors`: the manifest does not name it
    out: 3 problems
    ----- stderr -----
    ");
    let json = sandbox.carton("dataset verify out --sizes --json").expect_code(4).json();
    let kinds: Vec<_> = json["findings"].as_array().unwrap().iter().map(|finding| finding["kind"].clone()).collect();
    assert_eq!((&json["passed"], kinds), (&false.into(), vec!["truncated".into(), "missing".into(), "extra".into()]));
    assert_snapshot!(sandbox.carton("dataset cat out id --shard 0"), @"
    exit code: 4
    ----- stdout -----

    ----- stderr -----
    error: shard `out/part-00000-0000-[UUID].safetensors` has 143 bytes, expected 144
    ");
    assert_snapshot!(sandbox.carton("dataset cat out id --shard 1"), @"
    exit code: 4
    ----- stdout -----

    ----- stderr -----
    error: shard `out/part-00000-0001-[UUID].safetensors` is not there
    ");
    sandbox.write("out/dataset_manifest.json", "{}");
    assert_snapshot!(sandbox.carton("dataset ls out"), @"
    exit code: 4
    ----- stdout -----

    ----- stderr -----
    error: `out/dataset_manifest.json`

    Caused by:
      is not a manifest (spec/dataset.md §3.1)
      missing field `format_version` at line 1 column 2
    ");
}

#[test]
fn a_dataset_is_replaced_on_request_only() {
    let sandbox = Sandbox::new();
    sandbox.write("rows.arrows", stream(&[rows(6, 2)], true));
    sandbox.carton("dataset write rows.arrows out --batch-size 2 --columns id").expect_code(0);
    let before = names(&sandbox.work().join("out"));
    assert_snapshot!(sandbox.carton("dataset write rows.arrows out --batch-size 3 --columns id"), @"
    exit code: 1
    ----- stdout -----

    ----- stderr -----
    error: `out` has a dataset already

    hint: --overwrite replaces it
    ");
    assert_eq!(names(&sandbox.work().join("out")), before);
    sandbox.carton("dataset write rows.arrows out --batch-size 3 --columns id --overwrite").expect_code(0);
    assert_eq!(tree(&sandbox.work().join("out")), ["dataset_manifest.json", "part-00000-0000", "part-00000-0001"]);
    sandbox.carton("dataset verify out").expect_code(0);
}

/// While it waits for rows that do not come, and with a shard that is written already.
#[test]
fn an_interrupted_write_leaves_nothing() {
    for arguments in ["dataset write - out --batch-size 2 --columns id", "dataset write - out --batch-size 2 --task 7"]
    {
        let sandbox = Sandbox::new();
        let columns = rows(4, 2).project(&[0]).unwrap();
        let mut child = sandbox.command(arguments.split(' ')).stdin(Stdio::piped()).spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        stdin.write_all(&stream(&[columns], false)).unwrap();
        let start = Instant::now();
        let out = sandbox.work().join("out");
        while !(out.exists() && tree(&out).iter().filter(|path| path.contains("part-")).count() == 2) {
            assert!(start.elapsed() < Duration::from_secs(20), "no shard appeared");
            std::thread::sleep(Duration::from_millis(5));
        }
        kill_process(Pid::from_child(&child), Signal::INT).unwrap();
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(130), "{}", String::from_utf8_lossy(&output.stderr));
        assert_eq!(String::from_utf8_lossy(&output.stderr), "error: interrupted\n");
        assert_eq!(sandbox.files(), [""; 0]);
    }
}

#[test]
fn an_interrupted_merge_does_not_wait_for_attempts() {
    let sandbox = Sandbox::new();
    let arguments = ["dataset", "merge", "out", "--attempts", "-"];
    let mut child = sandbox.command(arguments).stdin(Stdio::piped()).spawn().unwrap();
    // Open to the end, and empty.
    let _stdin = child.stdin.take().unwrap();
    // Before it listens to signals it would end by one, which is no exit code.
    std::thread::sleep(Duration::from_millis(500));
    let start = Instant::now();
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130));
    assert!(start.elapsed() < Duration::from_secs(4), "{:?}", start.elapsed());
}

/// What Python's libraries say of what is written, and the other way round.
#[test]
fn python_reads_what_is_written() {
    let Some(python) = std::env::var_os("CARTON_TEST_PYTHON") else {
        eprintln!("skipped: CARTON_TEST_PYTHON names no Python with safetensors, pyarrow and jsonschema");
        return;
    };
    let sandbox = Sandbox::new();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/python/dataset_peers.py");
    let output =
        Command::new(python).arg(script).arg(env!("CARGO_BIN_EXE_carton")).arg(sandbox.work()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(String::from_utf8_lossy(&output.stdout).ends_with("what_others_write passed\n"));
}
