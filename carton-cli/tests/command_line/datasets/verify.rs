//! `carton dataset verify`, and how the other commands report damage.

use std::fs;

use insta::assert_snapshot;

use super::{rows, stream};
use crate::sandbox::{Sandbox, names};

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
