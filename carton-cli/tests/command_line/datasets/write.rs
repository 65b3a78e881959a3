//! `carton dataset write`, and the output of `ls` and `cat`.

use std::io::Write;
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow_array::RecordBatch;
use carton_tensor::{Tensor, npy};
use insta::assert_snapshot;
use rustix::process::{Pid, Signal, kill_process};

use super::{rows, rows_of, stream, tree};
use crate::sandbox::{Sandbox, names};

/// PyArrow calls the elements `element` in Parquet and `item` in Arrow files, and older releases of it `item` in both.
#[test]
fn the_elements_of_lists_may_have_other_names_in_each_input() {
    let sandbox = Sandbox::new();
    sandbox.write("one.arrows", stream(&[rows_of("element", 3, 2)], true));
    sandbox.write("two.arrows", stream(&[rows_of("item", 3, 2).slice(1, 2)], true));
    let write = "dataset write one.arrows two.arrows out --batch-size 4 --columns id,pair";
    sandbox.carton(write).expect_code(0);
    let pairs = |shard| {
        sandbox.carton(&format!("dataset cat out pair --shard {shard} --json")).json()["tensor"]["data"].clone()
    };
    let row = |row: f64| serde_json::json!([row, row + 0.25]);
    assert_eq!(pairs(0), serde_json::json!([row(0.0), row(1.0), row(2.0), row(1.0)]));
    assert_eq!(pairs(1), serde_json::json!([row(2.0)]));
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
    pair  F32 [2, 2]
    [[2.   2.25]
     [3.   3.25]]
    ----- stderr -----
    ");
    assert_snapshot!(sandbox.carton("dataset cat out pair --shard 1 --slice 1,1 --json").json(), @r#"{"dtype":"F32","name":"pair","tensor":{"data":3.25,"dtype":"float32","shape":[]}}"#);
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
    let listed = sandbox.carton("dataset ls out --tensors --json").json();
    assert_eq!((&listed["tensors"][3]["name"], &listed["tensors"][3]["dtype"]), (&"pair".into(), &"F32".into()));
    // `tensor` commands read a shard as any other file; only the names of dtypes differ from those of `dataset`.
    let shard = names(&sandbox.work().join("out")).remove(2);
    let printed = sandbox.carton(&format!("tensor cat out/{shard} pair --json")).json();
    let of_dataset = sandbox.carton(&format!("dataset cat out pair --shard {shard} --json")).json();
    assert_eq!(of_dataset["tensor"], printed["tensor"]);
    assert_eq!((&of_dataset["dtype"], &printed["dtype"]), (&"F32".into(), &"float32".into()));
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
    assert_snapshot!(sandbox.carton(arguments).json(), @r#"{"bytes":846,"index":true,"n_shards":1,"path":"out","samples":5,"warnings":[]}"#);
    assert_eq!(
        tree(&sandbox.work().join("out")),
        ["_tensor_index.parquet/part-00000.parq", "dataset_manifest.json", "part-00000-0000"]
    );
    assert_snapshot!(sandbox.carton("dataset cat out row-4__pair"), @"
    exit code: 0
    ----- stdout -----
    row-4__pair  F16 [7]
    [4.   4.25 4.5  4.75 5.   5.25 5.5 ]
    ----- stderr -----
    ");
    let output = sandbox.command(["dataset", "cat", "out", "row-3__id", "--npy"]).output().unwrap();
    let expected = Tensor::from_vec(vec![3_i64], vec![]).unwrap();
    assert_eq!(npy::read(output.stdout.as_slice(), 1000).unwrap(), expected);
    sandbox.carton("dataset verify out").expect_code(0);
}

/// With the spelling of the Spark connector, which ignores options for the other mode.
#[test]
fn options_are_taken_as_the_connector_takes_them() {
    let sandbox = Sandbox::new();
    sandbox.write("rows.arrows", stream(&[rows(5, 2)], true));
    let arguments = ["dataset", "write", "rows.arrows", "out", "--batch-size", "2", "--columns", " id, pair ,"];
    let ignored = ["--kv-separator", "/", "--duplicates-strategy", "lastWin", "--target-shard-size-mb", "50"];
    let more = ["--tail-strategy", "DROP", "--dtype", " pair = f16"];
    assert_snapshot!(sandbox.run(arguments.into_iter().chain(ignored).chain(more)), @"
    exit code: 0
    ----- stdout -----
    wrote out: 4 samples in 2 shards, 432 B
    ----- stderr -----
    warning: --kv-separator is ignored, it goes with --name-col
    warning: --target-shard-size-mb is ignored, it goes with --name-col
    warning: --duplicates is ignored, it goes with --name-col
    ");
    let listed = sandbox.carton("dataset ls out --tensors --json").json();
    assert_eq!((&listed["samples"], &listed["tensors"][3]["dtype"]), (&4.into(), &"F16".into()));
    let json = "dataset write rows.arrows out --batch-size 2 --columns id --overwrite --duplicates fail --json";
    let warnings = serde_json::json!(["--duplicates is ignored, it goes with --name-col"]);
    assert_eq!(sandbox.carton(json).expect_code(0).json()["warnings"], warnings);
    let task = "dataset write rows.arrows task --batch-size 2 --columns id --task 0 --duplicates fail --json";
    assert_eq!(sandbox.carton(task).expect_code(0).json()["warnings"], warnings);
    let named = ["dataset", "write", "rows.arrows", "named", "--name-col", " name ", "--columns", "id , pair"];
    let ignored = ["--tail-strategy", "pad", "--duplicates", "lastwin", "--kv-separator", ""];
    assert_snapshot!(sandbox.run(named.into_iter().chain(ignored)), @"
    exit code: 0
    ----- stdout -----
    wrote named: 5 samples in 1 shard, 864 B
    ----- stderr -----
    warning: --tail-strategy is ignored, it goes with --batch-size
    ");
    assert_snapshot!(sandbox.carton("dataset cat named row-4id --json").json(), @r#"{"dtype":"I64","name":"row-4id","tensor":{"data":4,"dtype":"int64","shape":[]}}"#);
}

/// Spaces around names are ignored, unless they are part of a name.
#[test]
fn columns_with_spaces_in_their_names_can_be_chosen() {
    let sandbox = Sandbox::new();
    let spaced = RecordBatch::try_from_iter([(" id ", Arc::clone(rows(3, 2).column(0)))]).unwrap();
    sandbox.write("rows.arrows", stream(&[spaced], true));
    sandbox.run(["dataset", "write", "rows.arrows", "out", "--batch-size", "3", "--columns", " id "]).expect_code(0);
    let listed = sandbox.carton("dataset ls out --tensors --json").json();
    assert_eq!(listed["tensors"][0]["name"], " id ");
}

/// Options may stand between the inputs and the output.
#[test]
fn inputs_and_output_may_stand_apart() {
    let sandbox = Sandbox::new();
    sandbox.write("rows.arrows", stream(&[rows(3, 2)], true));
    let apart = "dataset write rows.arrows --batch-size 3 rows.arrows --columns id out --json";
    assert_eq!(sandbox.carton(apart).expect_code(0).json()["samples"], 6);
}

#[test]
fn an_index_is_a_folder_unless_a_file_is_asked_for() {
    let sandbox = Sandbox::new();
    sandbox.write("rows.arrows", stream(&[rows(5, 2)], true));
    let index = sandbox.work().join("out/_tensor_index.parquet");
    for (asked, is_folder) in
        [("--generate-index", true), ("--generate-index=file", false), ("--generate-index=folder", true)]
    {
        let arguments = format!("dataset write rows.arrows out --batch-size 5 --columns id --overwrite {asked} --json");
        assert_eq!(sandbox.carton(&arguments).expect_code(0).json()["index"], true);
        assert_eq!((index.is_dir(), index.is_file()), (is_folder, !is_folder), "{asked}");
        sandbox.carton("dataset verify out").expect_code(0);
        sandbox.carton("dataset cat out id").expect_code(0);
    }
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

/// Interrupted while it waits for rows that never come, after one shard was written.
#[test]
fn an_interrupted_write_leaves_nothing() {
    for arguments in ["dataset write - out --batch-size 2 --columns id", "dataset write - out --batch-size 2 --task 7"]
    {
        let sandbox = Sandbox::new();
        let columns = rows(4, 2).project(&[0]).unwrap();
        let mut child = sandbox.command(arguments.split(' ')).stdin(Stdio::piped()).spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        stdin.write_all(&stream(&[columns], false)).unwrap();
        wait_for_shards(&sandbox.work().join("out"), 2);
        kill_process(Pid::from_child(&child), Signal::INT).unwrap();
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(130), "{}", String::from_utf8_lossy(&output.stderr));
        assert_eq!(String::from_utf8_lossy(&output.stderr), "error: interrupted\n");
        assert_eq!(sandbox.files(), [""; 0]);
    }
}

/// Waits until so many shards are written, in the attempts or in the dataset.
fn wait_for_shards(out: &Path, n_shards: usize) {
    let start = Instant::now();
    while !(out.exists() && tree(out).iter().filter(|path| path.contains("part-")).count() == n_shards) {
        assert!(start.elapsed() < Duration::from_secs(20), "no shard appeared");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn the_slower_of_two_writers_says_that_another_has_committed() {
    let sandbox = Sandbox::new();
    let (columns, out) = (rows(4, 2).project(&[0]).unwrap(), sandbox.work().join("out"));
    let bytes = stream(&[columns.clone(), columns], true);
    sandbox.write("rows.arrows", &bytes);
    let write = "dataset write - out --batch-size 2";
    let mut command = sandbox.command(write.split(' '));
    let mut slow = command.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stdin = slow.stdin.take().unwrap();
    // All but the second record batch.
    let (first, rest) = bytes.split_at(bytes.len() / 2 + 100);
    stdin.write_all(first).unwrap();
    wait_for_shards(&out, 2);
    sandbox.carton("dataset write rows.arrows out --batch-size 2").expect_code(0);
    let committed = tree(&out);
    stdin.write_all(rest).unwrap();
    drop(stdin);
    let output = slow.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let stderr = String::from_utf8(output.stderr).unwrap();
    let (start, end) = stderr.split_once("attempt ").unwrap();
    let shown = format!("{start}attempt ID{}", &end[36..]);
    assert_snapshot!(shown, @"
    error: attempt ID was removed from `out` before it was committed: another writer has committed to this folder, or aborted the attempt

    hint: write again to another folder, or with --overwrite to replace the dataset; --task writes a part of a dataset, and `carton dataset merge` commits all parts at once
    ");
    assert_eq!(tree(&out), committed);
}
