//! `carton cache`.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use insta::assert_snapshot;

use crate::sandbox::Sandbox;

/// Runs two models of which one file is the same, with a runner that is given folders.
fn load_two(sandbox: &Sandbox) {
    sandbox.write("one/shared.bin", "shared ".repeat(100_000));
    sandbox.write("one/own.bin", "one");
    sandbox.write("two/shared.bin", "shared ".repeat(100_000));
    sandbox.write("two/own.bin", "two");
    for name in ["one", "two"] {
        sandbox.carton(&format!("pack {name} --runner noop")).expect_code(0);
        sandbox.carton(&format!("run {name}.carton -i x=1")).expect_code(0);
    }
}

fn store(sandbox: &Sandbox) -> std::path::PathBuf {
    let files = sandbox.work().parent().unwrap().join("cache/files-v1");
    let shard = fs::read_dir(files).unwrap().next().unwrap().unwrap().path();
    fs::read_dir(shard).unwrap().next().unwrap().unwrap().path()
}

#[test]
fn an_empty_cache() {
    let sandbox = Sandbox::new();
    assert_snapshot!(sandbox.carton("cache ls"), @"");
    assert_snapshot!(sandbox.carton("cache ls --json"), @"");
    assert_snapshot!(sandbox.carton("cache prune"), @"");
    assert_snapshot!(sandbox.carton("cache verify"), @"");
}

#[test]
fn what_models_left_is_listed_and_pruned() {
    let sandbox = Sandbox::new();
    load_two(&sandbox);
    assert_snapshot!(sandbox.carton("cache ls"), @"");
    let list = sandbox.carton("cache ls --json").expect_code(0).json();
    assert_eq!(list["cartons"].as_array().unwrap().len(), 2);
    assert_snapshot!(sandbox.carton("cache prune --older-than 1h"), @"");
    assert_snapshot!(sandbox.carton("cache prune --dry-run"), @"");
    assert_snapshot!(sandbox.carton("cache prune --max-size 0 --json"), @"");
    assert_snapshot!(sandbox.carton("cache ls"), @"");
    sandbox.carton("run one.carton -i x=1").expect_code(0);
}

#[test]
fn a_damaged_file_is_found_and_made_again() {
    let sandbox = Sandbox::new();
    load_two(&sandbox);
    assert_snapshot!(sandbox.carton("cache verify"), @"");
    let path = store(&sandbox);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    let mut bytes = fs::read(&path).unwrap();
    bytes[5000] ^= 1;
    fs::write(&path, bytes).unwrap();
    assert_snapshot!(sandbox.carton("cache verify"), @"");
    assert_snapshot!(sandbox.carton("cache verify --json"), @"");
    sandbox.carton("run one.carton -i x=1").expect_code(0);
}

#[test]
fn limits_that_make_no_sense() {
    let sandbox = Sandbox::new();
    assert_snapshot!(sandbox.carton("cache prune --older-than 30"), @"");
    assert_snapshot!(sandbox.carton("cache prune --max-size much"), @"");
}

#[test]
fn a_cache_that_others_can_write_to() {
    let sandbox = Sandbox::new();
    let cache = sandbox.work().parent().unwrap().join("cache");
    fs::create_dir(&cache).unwrap();
    fs::set_permissions(&cache, fs::Permissions::from_mode(0o777)).unwrap();
    assert_snapshot!(sandbox.carton("cache ls"), @"");
}
